/* Clocks that jump and a loop that stands still: what the daemon decides, and whom it serves, does
 * not depend on either. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/faults/interposer.h"
#include "tests/support/real_ask.h"
#include "tests/support/real_daemon.h"

enum {
    DAY = 86400,
    HOUR = 3600,
    CLIENTS = 20,
    REQUESTS = 60,
    STALL_MS = 1000,
    DECISIONS_SIZE = 16384
};

/* ------------------------------------------------------------------------------------- clocks */

/* The clocks of a daemon that is started with this environment. */
struct clocks {
    const char *environment[5];
    volatile struct interposer_clock *now;
};

static struct clocks make_clocks(struct real_room *room)
{
    struct clocks clocks = {.now = NULL};
    const char *path = real_room_path(room, "clock");
    const char *asan = getenv("ASAN_OPTIONS");
    clocks.environment[0] =
        real_room_text(room, "LD_PRELOAD=%s", real_program(room, "tests/faults/interposer.so"));
    clocks.environment[1] =
        real_room_text(room, "ASAN_OPTIONS=%s:verify_asan_link_order=0", asan ? asan : "");
    clocks.environment[2] = real_room_text(room, INTERPOSER_CLOCK "=%s", path);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, sizeof(struct interposer_clock)), 0);
    clocks.now = mmap(NULL, sizeof(*clocks.now), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    assert_ptr_not_equal(clocks.now, MAP_FAILED);
    return clocks;
}

static struct real_daemon start_with(struct real_room *room, const struct clocks *clocks,
                                     const char *name)
{
    const struct real_setup setup = {.environment = clocks ? clocks->environment : NULL};
    return real_daemon_start_at(room, &setup, REAL_DAEMON_TOLD, real_room_path(room, name),
                                "--seed", "11", "--capacity", "64KiB", "--max-half-line-seconds",
                                "5", "--metrics-file", real_room_path(room, "m"),
                                "--metrics-interval", "1", NULL);
}

/* Jumps with each request: a day forwards, an hour backwards, back again. */
static void jump(const struct clocks *clocks, unsigned count)
{
    static const int64_t walls[] = {DAY, -HOUR, 0};
    if (!clocks)
        return;
    clocks->now->wall_seconds = walls[count % 3];
    if (count % 10 == 0)
        clocks->now->monotonic_seconds += DAY;
}

/* Where each allocation goes, and whether each free is forgotten. */
static void decide(struct real_daemon *daemon, const struct clocks *clocks,
                   char decisions[DECISIONS_SIZE])
{
    struct real_client *client = real_daemon_connect(daemon);
    size_t length = 0;
    for (unsigned count = 0; count < REQUESTS; count++) {
        jump(clocks, count);
        const cJSON *reply = count % 3 == 2
                                 ? real_ask(client, "free", "'tag':'t%u'", count - 1)
                                 : real_ask(client, "allocate", "'requested_bytes':%u,'tag':'t%u'",
                                            500 + count * 37, count);
        const cJSON *result = real_json(reply, "result");
        int more = snprintf(
            decisions + length, DECISIONS_SIZE - length, "%s %s\n",
            real_json_text(result, "device"),
            real_json_has(result, "forgotten") ? "forgotten"
            : real_json_has(result, "offset")
                ? real_room_text(daemon->room, "%u", (unsigned)real_json_number(result, "offset"))
                : "");
        assert_true(more > 0 && (size_t)more < DECISIONS_SIZE - length);
        length += (size_t)more;
    }
    assert_true(real_json_true(real_ask(client, "validate", "%s", ""), "result.valid"));
}

static void test_decisions_are_the_same_whatever_the_clocks_say(void **state)
{
    static char still[DECISIONS_SIZE];
    static char jumping[DECISIONS_SIZE];
    struct clocks clocks = make_clocks(*state);
    struct real_daemon daemon = start_with(*state, NULL, "a");
    struct real_daemon other = start_with(*state, &clocks, "b");
    decide(&daemon, NULL, still);
    decide(&other, &clocks, jumping);
    assert_string_equal(still, jumping);
    real_daemon_stop(&daemon);
    real_daemon_stop(&other);
}

static void test_a_wall_clock_that_jumps_ends_no_half_line(void **state)
{
    static const int64_t jumps[] = {DAY, -HOUR, 0};
    struct clocks clocks = make_clocks(*state);
    struct real_daemon daemon = start_with(*state, &clocks, "s");
    struct real_client *half = real_daemon_connect(&daemon);
    struct real_client *other = real_daemon_connect(&daemon);
    for (unsigned index = 0; index < 3; index++) {
        static const char line[] = "{\"id\":3,\"method\":\"info\"}\n";
        real_client_send_bytes(half, line, 10);
        real_ask(other, "info", "%s", "");
        clocks.now->wall_seconds = jumps[index];
        real_ask(other, "info", "%s", "");
        real_client_send_bytes(half, line + 10, sizeof(line) - 11);
        assert_true(real_json_has(real_client_reply(half), "result"));
    }
    real_daemon_stop(&daemon);
}

static void test_a_monotonic_clock_that_jumps_ends_half_lines_and_nothing_else(void **state)
{
    struct clocks clocks = make_clocks(*state);
    struct real_daemon daemon = start_with(*state, &clocks, "s");
    struct real_client *half = real_daemon_connect(&daemon);
    struct real_client *idle = real_daemon_connect(&daemon);
    real_ask(idle, "allocate", "'requested_bytes':1000");
    real_client_send_bytes(half, "{\"id\":", 6);
    real_ask(idle, "info", "%s", "");
    clocks.now->monotonic_seconds = DAY;
    real_ask(idle, "info", "%s", ""); /* wakes the loop, which looks at its clock */
    real_json_expect_error(real_client_reply(half), "invalid_request");
    real_client_expect_end(half);
    assert_int_equal(
        real_json_number(real_ask(idle, "snapshot", "%s", ""), "result.active_allocations"), 1);
    real_daemon_stop(&daemon);
}

/* The value of a metric without labels in the metrics file. */
static double metric(struct real_room *room, const char *name)
{
    const char *text = real_room_read(room, real_room_path(room, "m"));
    const char *place = strstr(text, real_room_text(room, "\n%s ", name));
    assert_non_null(place);
    return strtod(place + 1 + strlen(name), NULL);
}

static void test_uptime_and_the_metrics_file_go_on_when_the_wall_clock_jumps(void **state)
{
    static const int64_t jumps[] = {DAY, -HOUR};
    struct clocks clocks = make_clocks(*state);
    struct real_daemon daemon = start_with(*state, &clocks, "s");
    struct real_wait wait = {0};
    while (access(real_room_path(*state, "m"), F_OK) != 0)
        real_wait_more(&wait);
    for (unsigned index = 0; index < 2; index++) {
        double before = metric(*state, "worsegpu_uptime_seconds");
        clocks.now->wall_seconds = jumps[index];
        double now;
        while ((now = metric(*state, "worsegpu_uptime_seconds")) <= before)
            real_wait_more(&wait);
        assert_true(now < before + 0.5 * HOUR);
    }
    real_daemon_stop(&daemon);
}

static void test_the_watchdog_is_fed_when_clocks_jump(void **state)
{
    struct real_room *room = *state;
    struct clocks clocks = make_clocks(room);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = real_room_path(room, "n");
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(manager, (struct sockaddr *)&address, sizeof(address)), 0);
    clocks.environment[3] = real_room_text(room, "NOTIFY_SOCKET=%s", path);
    const char *with_watchdog[] = {clocks.environment[0], clocks.environment[1],
                                   clocks.environment[2], clocks.environment[3],
                                   "WATCHDOG_USEC=40000", NULL};
    const struct real_setup setup = {.environment = with_watchdog};
    struct real_daemon daemon =
        real_daemon_start_at(room, &setup, REAL_DAEMON_TOLD, real_room_path(room, "s"), NULL);
    unsigned fed = 0;
    for (unsigned count = 0; fed < 40; count++) {
        struct pollfd waits = {.fd = manager, .events = POLLIN};
        char words[256];
        assert_int_equal(poll(&waits, 1, REAL_PATIENCE_MS), 1);
        ssize_t length = recv(manager, words, sizeof(words) - 1, 0);
        assert_true(length > 0);
        words[length] = '\0';
        fed += strstr(words, "WATCHDOG=1") != NULL;
        jump(&clocks, count);
    }
    close(manager);
    real_daemon_stop(&daemon);
}

/* ---------------------------------------------------------------------------- a loop that stands
 */

static void rest_ms(unsigned ms)
{
    const struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&wait, NULL);
}

static void stall(const struct real_daemon *daemon)
{
    real_process_signal(daemon->process, SIGSTOP);
    rest_ms(STALL_MS);
    real_process_signal(daemon->process, SIGCONT);
}

static void test_after_a_stall_everybody_who_waited_is_answered(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *clients[CLIENTS];
    for (unsigned index = 0; index < CLIENTS; index++)
        clients[index] = real_daemon_connect(&daemon);
    real_process_signal(daemon.process, SIGSTOP);
    for (unsigned index = 0; index < CLIENTS; index++)
        for (unsigned count = 0; count < REQUESTS; count++)
            real_client_send(clients[index], "{\"id\":1,\"method\":\"allocate\",\"params\":{"
                                             "\"requested_bytes\":1000}}");
    struct real_client *late = real_daemon_connect(&daemon); /* into the queue */
    real_client_send(late, "{\"id\":1,\"method\":\"validate\"}");
    rest_ms(STALL_MS);
    real_process_signal(daemon.process, SIGCONT);
    for (unsigned index = 0; index < CLIENTS; index++)
        for (unsigned count = 0; count < REQUESTS; count++)
            assert_true(real_json_has(real_client_reply(clients[index]), "result"));
    assert_true(real_json_true(real_client_reply(late), "result.valid"));
    real_daemon_stop(&daemon);
}

static void test_what_was_sent_in_time_is_in_time_although_the_loop_stood(void **state)
{
    static const char line[] = "{\"id\":3,\"method\":\"info\"}\n";
    struct real_daemon daemon = real_daemon_start(*state, "--max-half-line-seconds", "1", NULL);
    struct real_client *half = real_daemon_connect(&daemon);
    struct real_client *silent = real_daemon_connect(&daemon);
    real_client_send_bytes(silent, line, 10);
    real_client_send_bytes(half, line, 10);
    real_ask(real_daemon_connect(&daemon), "info", "%s", ""); /* both halves are read */
    real_process_signal(daemon.process, SIGSTOP);
    real_client_send_bytes(half, line + 10, sizeof(line) - 11);
    rest_ms(STALL_MS + 200);
    real_process_signal(daemon.process, SIGCONT);
    assert_true(real_json_has(real_client_reply(half), "result"));
    real_json_expect_error(real_client_reply(silent), "invalid_request");
    real_client_expect_end(silent);
    real_daemon_stop(&daemon);
}

static void test_after_a_stall_the_watchdog_is_fed_at_once(void **state)
{
    struct real_room *room = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = real_room_path(room, "n");
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(manager, (struct sockaddr *)&address, sizeof(address)), 0);
    const char *environment[] = {real_room_text(room, "NOTIFY_SOCKET=%s", path),
                                 "WATCHDOG_USEC=1200000", NULL};
    const struct real_setup setup = {.environment = environment};
    struct real_daemon daemon =
        real_daemon_start_at(room, &setup, REAL_DAEMON_TOLD, real_room_path(room, "s"), NULL);
    stall(&daemon);
    char words[256];
    bool fed = false;
    while (recv(manager, words, sizeof(words), MSG_DONTWAIT) > 0)
        ; /* what it said before */
    struct pollfd waits = {.fd = manager, .events = POLLIN};
    while (!fed) {
        assert_int_equal(poll(&waits, 1, REAL_PATIENCE_MS), 1);
        ssize_t length = recv(manager, words, sizeof(words) - 1, 0);
        assert_true(length > 0);
        words[length] = '\0';
        fed = strstr(words, "WATCHDOG=1") != NULL;
    }
    close(manager);
    real_daemon_stop(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_decisions_are_the_same_whatever_the_clocks_say),
        IN_ROOM(test_a_wall_clock_that_jumps_ends_no_half_line),
        IN_ROOM(test_a_monotonic_clock_that_jumps_ends_half_lines_and_nothing_else),
        IN_ROOM(test_uptime_and_the_metrics_file_go_on_when_the_wall_clock_jumps),
        IN_ROOM(test_the_watchdog_is_fed_when_clocks_jump),
        IN_ROOM(test_after_a_stall_everybody_who_waited_is_answered),
        IN_ROOM(test_what_was_sent_in_time_is_in_time_although_the_loop_stood),
        IN_ROOM(test_after_a_stall_the_watchdog_is_fed_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
