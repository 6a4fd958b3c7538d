/* A real daemon under a service manager: the socket that is handed over, the words it sends, the
 * watchdog, the journal. The manager is played by the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/real_daemon.h"

enum {
    WORDS_SIZE = 4096
};

/* ------------------------------------------------------------------------------ the manager */

static int bind_unix(const char *path, int type)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof(address.sun_path));
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int descriptor = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    assert_true(descriptor >= 0);
    assert_int_equal(bind(descriptor, (struct sockaddr *)&address, sizeof(address)), 0);
    return descriptor;
}

/* Hears what is sent to $NOTIFY_SOCKET. */
struct manager {
    int descriptor;
    const char *variable; /* NOTIFY_SOCKET=... */
    char words[WORDS_SIZE];
};

static struct manager manager_begin(struct real_room *room)
{
    struct manager manager = {0};
    const char *path = real_room_path(room, "n");
    manager.descriptor = bind_unix(path, SOCK_DGRAM);
    manager.variable = real_room_text(room, "NOTIFY_SOCKET=%s", path);
    return manager;
}

/* Waits until a message has this line, and forgets those before it. */
static const char *manager_hears(struct manager *manager, const char *line)
{
    for (;;) {
        struct pollfd poll_descriptor = {.fd = manager->descriptor, .events = POLLIN};
        if (poll(&poll_descriptor, 1, REAL_PATIENCE_MS) != 1)
            fail_msg("nobody said %s", line);
        ssize_t length = recv(manager->descriptor, manager->words, sizeof(manager->words) - 1, 0);
        assert_true(length > 0);
        manager->words[length] = '\0';
        if (strstr(manager->words, line))
            return manager->words;
    }
}

static void manager_end(const struct manager *manager)
{
    close(manager->descriptor);
}

/* A daemon that gets a descriptor as systemd hands it over. */
struct handing {
    const char *program;
    const char *option; /* --socket, or NULL */
    const char *value;
    int descriptor;
    int count; /* what LISTEN_FDS says */
};

static int hand_over(void *context)
{
    const struct handing *handing = context;
    char number[24];
    if (handing->descriptor != 3 && dup2(handing->descriptor, 3) != 3)
        return 70;
    if (handing->descriptor == 3 && fcntl(3, F_SETFD, 0) != 0)
        return 70;
    if (handing->count == 2 && dup2(3, 4) != 4)
        return 70;
    snprintf(number, sizeof(number), "%d", (int)getpid());
    setenv("LISTEN_PID", number, 1);
    snprintf(number, sizeof(number), "%d", handing->count);
    setenv("LISTEN_FDS", number, 1);
    execl(handing->program, "worsegpud", "--seed", "7", handing->option, handing->value,
          (char *)NULL);
    return 71;
}

static struct handing handing_of(struct real_room *room, const char *name, int type)
{
    struct handing handing = {
        .program = real_program(room, "worsegpud"),
        .descriptor = bind_unix(real_room_path(room, name), type),
        .count = 1,
    };
    if (type == SOCK_STREAM)
        assert_int_equal(listen(handing.descriptor, 16), 0);
    return handing;
}

/* The daemon refuses what it was handed. */
static void assert_refused(struct real_room *room, struct handing *handing, const char *sentence)
{
    struct real_process *process = real_process_fork(room, NULL, hand_over, handing);
    assert_int_equal(real_process_wait(process), 1);
    assert_int_equal(real_lines_with(real_process_errors(room, process), sentence), 1);
    close(handing->descriptor);
}

/* ------------------------------------------------------------------------------ the socket */

static void test_a_socket_that_is_handed_over_is_served_and_left_in_place(void **state)
{
    struct real_room *room = *state;
    struct handing handing = handing_of(room, "s", SOCK_STREAM);
    const char *path = real_room_path(room, "s");
    struct real_process *process = real_process_fork(room, NULL, hand_over, &handing);
    struct real_client *client = real_client_connect(room, path);
    real_client_call(client, "{\"id\":1,\"method\":\"info\"}");
    real_process_signal(process, SIGTERM);
    assert_int_equal(real_process_wait(process), 0);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    /* The next one takes it over as it is. */
    struct real_process *next = real_process_fork(room, NULL, hand_over, &handing);
    struct real_client *other = real_client_connect(room, path);
    real_client_call(other, "{\"id\":1,\"method\":\"info\"}");
    real_process_signal(next, SIGTERM);
    assert_int_equal(real_process_wait(next), 0);
    close(handing.descriptor);
}

static void test_a_client_that_came_before_the_daemon_is_answered(void **state)
{
    struct real_room *room = *state;
    struct handing handing = handing_of(room, "s", SOCK_STREAM);
    struct real_client *client = real_client_connect(room, real_room_path(room, "s"));
    real_client_send(client, "{\"id\":1,\"method\":\"info\"}");
    struct real_process *process = real_process_fork(room, NULL, hand_over, &handing);
    assert_non_null(real_client_reply(client));
    real_process_signal(process, SIGTERM);
    assert_int_equal(real_process_wait(process), 0);
    close(handing.descriptor);
}

static void test_after_a_crash_the_next_daemon_serves_those_who_wait(void **state)
{
    struct real_room *room = *state;
    struct handing handing = handing_of(room, "s", SOCK_STREAM);
    const char *path = real_room_path(room, "s");
    struct real_process *process = real_process_fork(room, NULL, hand_over, &handing);
    real_client_call(real_client_connect(room, path), "{\"id\":1,\"method\":\"info\"}");
    real_process_signal(process, SIGKILL);
    assert_int_equal(real_process_wait(process), 128 + SIGKILL);
    struct real_client *waiting = real_client_connect(room, path);
    real_client_send(waiting, "{\"id\":1,\"method\":\"validate\"}");
    struct real_process *next = real_process_fork(room, NULL, hand_over, &handing);
    assert_non_null(real_client_reply(waiting));
    real_process_signal(next, SIGTERM);
    assert_int_equal(real_process_wait(next), 0);
    close(handing.descriptor);
}

static void test_systemd_socket_activate_starts_it_with_the_first_client(void **state)
{
    struct real_room *room = *state;
    const char *activator = "/usr/bin/systemd-socket-activate";
    if (access(activator, X_OK) != 0) {
        print_message("skipped: %s is not installed\n", activator);
        skip();
    }
    const char *path = real_room_path(room, "s");
    struct real_process *process =
        real_process_start(room, NULL, activator, "--listen", path, real_program(room, "worsegpud"),
                           "--seed", "7", NULL);
    struct real_wait wait = {0};
    while (access(path, F_OK) != 0)
        real_wait_more(&wait);
    /* It listens a moment after the path is there; its daemon starts with the first connection. */
    while (!real_client_probe(path))
        real_wait_more(&wait);
    struct real_client *client = real_client_connect(room, path);
    real_client_call(client, "{\"id\":1,\"method\":\"validate\"}");
    real_process_signal(process, SIGTERM);
    assert_int_equal(real_process_wait(process), 0);
}

static void test_two_sockets_are_one_too_many(void **state)
{
    struct real_room *room = *state;
    struct handing handing = handing_of(room, "s", SOCK_STREAM);
    handing.count = 2;
    assert_refused(room, &handing, "2 sockets were handed over; one is wanted");
}

static void test_a_datagram_socket_is_refused(void **state)
{
    struct real_room *room = *state;
    struct handing handing = handing_of(room, "s", SOCK_DGRAM);
    assert_refused(room, &handing, "no listening Unix stream socket");
}

static void test_another_path_than_the_one_handed_over_is_refused(void **state)
{
    struct real_room *room = *state;
    struct handing handing = handing_of(room, "s", SOCK_STREAM);
    handing.option = "--socket";
    handing.value = "/elsewhere";
    assert_refused(room, &handing, "leave --socket out");
}

/* ------------------------------------------------------------------------------ words */

static struct real_daemon start_told(struct real_room *room, const struct manager *manager,
                                     const char *watchdog)
{
    const char *environment[] = {manager->variable, watchdog, NULL};
    struct real_setup setup = {.environment = environment};
    return real_daemon_start_at(room, &setup, REAL_DAEMON_TOLD, real_room_path(room, "s"),
                                "--capacity", "64MiB", "--gpu-probability", "1", NULL);
}

static void test_the_manager_hears_ready_status_and_stopping(void **state)
{
    struct real_room *room = *state;
    struct manager manager = manager_begin(room);
    struct real_daemon daemon = start_told(room, &manager, NULL);
    manager_hears(&manager, "READY=1");
    manager_hears(&manager, "STATUS=0 clients, 0 live allocations, 0.0 B of 64.0 MiB used");
    struct real_client *client = real_daemon_connect(&daemon);
    real_client_call(client,
                     "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":100}}");
    manager_hears(&manager, "STATUS=1 client, 1 live allocation, ");
    real_daemon_stop(&daemon);
    manager_hears(&manager, "STOPPING=1");
    manager_end(&manager);
}

static void test_a_reload_is_announced_before_and_after(void **state)
{
    struct real_room *room = *state;
    struct manager manager = manager_begin(room);
    struct real_daemon daemon = start_told(room, &manager, NULL);
    manager_hears(&manager, "READY=1");
    real_process_signal(daemon.process, SIGHUP);
    manager_hears(&manager, "RELOADING=1\nMONOTONIC_USEC=");
    manager_hears(&manager, "READY=1");
    real_daemon_stop(&daemon);
    manager_end(&manager);
}

static void test_the_watchdog_is_fed_again_and_again_from_the_loop(void **state)
{
    struct real_room *room = *state;
    struct manager manager = manager_begin(room);
    struct real_daemon daemon = start_told(room, &manager, "WATCHDOG_USEC=100000");
    for (int i = 0; i < 3; i++)
        manager_hears(&manager, "WATCHDOG=1");
    real_daemon_stop(&daemon);
    manager_end(&manager);
}

/* More than a queue holds, from the side of one who sends. */
static void manager_fill(const struct real_room *room)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(descriptor >= 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/n", room->folder);
    while (sendto(descriptor, "X=1", 3, 0, (struct sockaddr *)&address, sizeof(address)) == 3)
        ;
    assert_int_equal(errno, EAGAIN);
    close(descriptor);
}

static void test_a_manager_that_listens_no_more_holds_nothing_up(void **state)
{
    struct real_room *room = *state;
    struct manager manager = manager_begin(room);
    const char *environment[] = {manager.variable, "WATCHDOG_USEC=10000", NULL};
    const struct real_setup setup = {.environment = environment};
    struct real_daemon daemon =
        real_daemon_start_at(room, &setup, REAL_DAEMON_TOLD, real_room_path(room, "s"), NULL);
    manager_hears(&manager, "READY=1");
    manager_fill(room);
    struct real_client *client = real_daemon_connect(&daemon);
    real_client_call(client, "{\"id\":1,\"method\":\"info\"}");
    real_process_signal(daemon.process, SIGHUP);
    usleep(50000); /* some watchdogs */
    real_client_call(client, "{\"id\":2,\"method\":\"info\"}");
    real_daemon_stop(&daemon);
    manager_end(&manager);
}

static void test_without_a_watchdog_none_is_fed(void **state)
{
    struct real_room *room = *state;
    struct manager manager = manager_begin(room);
    struct real_daemon daemon = start_told(room, &manager, NULL);
    real_daemon_stop(&daemon);
    do {
        assert_null(strstr(manager.words, "WATCHDOG"));
        manager_hears(&manager, "=");
    } while (!strstr(manager.words, "STOPPING=1"));
    manager_end(&manager);
}

/* ------------------------------------------------------------------------------ the journal */

static void test_lines_for_the_journal_begin_with_their_priority(void **state)
{
    struct real_room *room = *state;
    /* The file that the process will write its errors to is known once it runs: so a shell makes
     * one and says which it is, as systemd does with its stream. */
    const char *errors = real_room_path(room, "journal");
    const char *socket_path = real_room_path(room, "s");
    struct real_process *process = real_process_start(
        room, NULL, "/bin/sh", "-c",
        "exec 2>\"$1\"; JOURNAL_STREAM=$(stat -L -c %d:%i \"$1\"); export JOURNAL_STREAM; "
        "exec \"$2\" --socket \"$3\" --seed 7",
        "sh", errors, real_program(room, "worsegpud"), socket_path, NULL);
    struct real_wait wait = {0};
    while (!real_client_probe(socket_path))
        real_wait_more(&wait);
    real_process_signal(process, SIGTERM);
    assert_int_equal(real_process_wait(process), 0);
    const char *text = real_room_read(room, errors);
    assert_int_equal(strncmp(text, "<6>", 3), 0);
    assert_int_equal(real_lines_with(text, "<6>"), real_lines(text));
    assert_int_equal(real_lines_with(text, "worsegpud:"), 0);
}

static void test_another_stream_than_the_journals_gets_no_priorities(void **state)
{
    struct real_room *room = *state;
    const char *environment[] = {"JOURNAL_STREAM=1:2", NULL};
    struct real_setup setup = {.environment = environment};
    struct real_daemon daemon =
        real_daemon_start_at(room, &setup, REAL_DAEMON_TOLD, real_room_path(room, "s"), NULL);
    assert_int_equal(strncmp(real_daemon_log(&daemon), "worsegpud: ", 11), 0);
    real_daemon_stop(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_a_socket_that_is_handed_over_is_served_and_left_in_place),
        IN_ROOM(test_a_client_that_came_before_the_daemon_is_answered),
        IN_ROOM(test_after_a_crash_the_next_daemon_serves_those_who_wait),
        IN_ROOM(test_systemd_socket_activate_starts_it_with_the_first_client),
        IN_ROOM(test_two_sockets_are_one_too_many),
        IN_ROOM(test_a_datagram_socket_is_refused),
        IN_ROOM(test_another_path_than_the_one_handed_over_is_refused),
        IN_ROOM(test_the_manager_hears_ready_status_and_stopping),
        IN_ROOM(test_a_reload_is_announced_before_and_after),
        IN_ROOM(test_the_watchdog_is_fed_again_and_again_from_the_loop),
        IN_ROOM(test_a_manager_that_listens_no_more_holds_nothing_up),
        IN_ROOM(test_without_a_watchdog_none_is_fed),
        IN_ROOM(test_lines_for_the_journal_begin_with_their_priority),
        IN_ROOM(test_another_stream_than_the_journals_gets_no_priorities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
