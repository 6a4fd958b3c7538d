/* Tests of client/cli/no_daemon.c: the advice fits the machine, here made up of folders and files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/cli/no_daemon.h"
#include "tests/support/real_process.h"

static void make_file(struct real_room *room, const char *folders, const char *name)
{
    struct real_process *made =
        real_process_run(room, NULL, "/bin/mkdir", "-p", real_room_path(room, folders), NULL);
    assert_int_equal(made->status, 0);
    if (name)
        real_room_write(room, real_room_text(room, "%s/%s/%s", room->folder, folders, name), "");
}

static void expect_advice(const char *given, bool by_option, const char *root, const char *wanted)
{
    char advice[NO_DAEMON_ADVICE_SIZE];
    no_daemon_advice(given, by_option, root, advice);
    assert_string_equal(advice, wanted);
}

static const char by_systemd[] =
    "start it: sudo systemctl start worsegpud.socket; or one of your own: worsegpud &";

static void test_with_a_unit_under_systemd_it_is_systemctl(void **state)
{
    struct real_room *room = *state;
    make_file(room, "run/systemd/system", NULL);
    make_file(room, "lib/systemd/system", "worsegpud.socket");
    expect_advice(NULL, false, room->folder, by_systemd);
    expect_advice("/run/worsegpu/worsegpud.sock", true, room->folder, by_systemd);
    expect_advice("/elsewhere/socket", true, room->folder,
                  "start one: worsegpud --socket /elsewhere/socket &");
}

static void test_a_unit_from_make_install_counts_as_well(void **state)
{
    struct real_room *room = *state;
    make_file(room, "run/systemd/system", NULL);
    make_file(room, "usr/local/lib/systemd/system", "worsegpud.socket");
    expect_advice(NULL, false, room->folder, by_systemd);
}

static void test_without_systemd_or_without_a_unit_it_is_the_daemon(void **state)
{
    struct real_room *room = *state;
    expect_advice(NULL, false, room->folder, "start one: worsegpud &");
    make_file(room, "lib/systemd/system", "worsegpud.socket"); /* installed, as in a container */
    expect_advice(NULL, false, room->folder, "start one: worsegpud &");
    expect_advice("/elsewhere/socket", false, room->folder, "start one: worsegpud &");
    assert_int_equal(unlink(real_room_path(room, "lib/systemd/system/worsegpud.socket")), 0);
    make_file(room, "run/systemd/system", NULL);
    expect_advice(NULL, false, room->folder, "start one: worsegpud &");
}

/* What another user is told, in a process of its own. */
static int ask_as_another(void *context)
{
    char advice[NO_DAEMON_ADVICE_SIZE];
    no_daemon_advice(NULL, false, context, advice);
    return puts(advice) < 0 || fflush(stdout) != 0;
}

static void test_who_is_not_let_in_is_told_which_group_to_join(void **state)
{
    struct real_room *room = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (geteuid() != 0) {
        print_message("skipped: needs root, to be another user\n");
        skip();
    }
    make_file(room, "run/worsegpu", NULL);
    snprintf(address.sun_path, sizeof(address.sun_path), "%.60s/run/worsegpu/worsegpud.sock",
             room->folder);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(chmod(address.sun_path, 0660), 0);
    const struct real_setup other = {.user = 65534};
    struct real_process *process = real_process_fork(room, &other, ask_as_another, room->folder);
    assert_int_equal(real_process_wait(process), 0);
    close(listener);
    assert_string_equal(
        real_process_output(room, process),
        "join the group that may use it, then log in again: sudo adduser \"$USER\" root\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_with_a_unit_under_systemd_it_is_systemctl),
        IN_ROOM(test_a_unit_from_make_install_counts_as_well),
        IN_ROOM(test_without_systemd_or_without_a_unit_it_is_the_daemon),
        IN_ROOM(test_who_is_not_let_in_is_told_which_group_to_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
