/* `worsegpud --run`: a command inside a daemon of its own. Called with --talk, this program is such
 * a command. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/real_daemon.h"

/* As a command: asks the daemon that WORSEGPU_SOCKET names, and prints what it answers. */
static int talk(void)
{
    static const char request[] = "{\"id\":1,\"method\":\"snapshot\"}\n";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char answer[4096];
    const char *path = getenv("WORSEGPU_SOCKET");
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!path || descriptor < 0)
        return 90;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (connect(descriptor, (const struct sockaddr *)&address, sizeof(address)) != 0)
        return 91;
    if (send(descriptor, request, sizeof(request) - 1, 0) != (ssize_t)(sizeof(request) - 1))
        return 92;
    ssize_t length = recv(descriptor, answer, sizeof(answer), 0);
    if (length <= 0 || write(STDOUT_FILENO, answer, (size_t)length) != length)
        return 93;
    close(descriptor);
    return 0;
}

/* This program, to be run with --talk. */
static const char *ourselves(struct real_room *room)
{
    char path[REAL_PATH_SIZE];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    assert_true(length > 0);
    path[length] = '\0';
    return real_room_text(room, "%s", path);
}

static const char *daemon_program(struct real_room *room)
{
    return real_program(room, "worsegpud");
}

/* Runs a shell's command line in a daemon. */
static struct real_process *run_shell(struct real_room *room, const char *line)
{
    return real_process_run(room, NULL, daemon_program(room), "--run", "sh", "-c", line, NULL);
}

static void test_the_command_finds_its_daemon_and_can_use_it(void **state)
{
    struct real_process *process =
        real_process_run(*state, NULL, daemon_program(*state), "--capacity", "123456", "--run",
                         ourselves(*state), "--talk", NULL);
    assert_int_equal(process->status, 0);
    const char *answer = real_process_output(*state, process);
    if (!strstr(answer, "\"gpu_capacity\":123456,"))
        fail_msg("no snapshot: %s", answer);
    assert_int_equal(real_lines(answer), 1);
    assert_string_equal(real_process_errors(*state, process), "");
}

static void test_its_status_is_passed_on(void **state)
{
    assert_int_equal(run_shell(*state, "exit 0")->status, 0);
    assert_int_equal(run_shell(*state, "exit 1")->status, 1);
    assert_int_equal(run_shell(*state, "exit 7")->status, 7);
    assert_int_equal(run_shell(*state, "exit 255")->status, 255);
}

static void test_a_signal_that_ended_it_becomes_128_and_its_number(void **state)
{
    assert_int_equal(run_shell(*state, "kill -KILL $$")->status, 128 + SIGKILL);
    assert_int_equal(run_shell(*state, "kill -HUP $$")->status, 128 + SIGHUP);
}

static void expect_no_start(struct real_room *room, const char *command, int status)
{
    /* A folder in PATH that one may not search would make it 126, as it does in a shell. */
    static const char *const environment[] = {"PATH=/usr/bin:/bin", NULL};
    struct real_setup setup = {.environment = environment};
    struct real_process *process =
        real_process_run(room, &setup, daemon_program(room), "--run", command, NULL);
    const char *errors = real_process_errors(room, process);
    assert_int_equal(process->status, status);
    assert_int_equal(real_lines(errors), 1);
    assert_non_null(strstr(errors, command));
    assert_string_equal(real_process_output(room, process), "");
}

static void test_a_command_that_is_not_there_gives_127(void **state)
{
    expect_no_start(*state, "worsegpu-no-such-command", 127);
    expect_no_start(*state, real_room_path(*state, "no-such-file"), 127);
}

static void test_a_command_that_cannot_be_run_gives_126(void **state)
{
    const char *letter = real_room_path(*state, "letter");
    real_room_write(*state, letter, "dear reader");
    expect_no_start(*state, letter, 126);
    expect_no_start(*state, ((struct real_room *)*state)->folder, 126);
}

/* Runs a command with both temporary folders in `folder`, which must be as empty after it as
 * before. */
static void expect_empty_after(struct real_room *room, const char *variable, const char *line,
                               int status)
{
    const char *folder = real_room_path(room, "temporary");
    const char *const environment[] = {"XDG_RUNTIME_DIR", "TMPDIR",
                                       real_room_text(room, "%s=%s", variable, folder), NULL};
    struct real_setup setup = {.environment = environment};
    assert_int_equal(mkdir(folder, 0700), 0);
    struct real_process *process =
        real_process_run(room, &setup, daemon_program(room), "--run", "sh", "-c", line, NULL);
    assert_int_equal(process->status, status);
    assert_non_null(strstr(real_process_output(room, process), folder)); /* it was used */
    assert_int_equal(rmdir(folder), 0);
}

static void test_nothing_is_left_in_the_temporary_folder(void **state)
{
    expect_empty_after(*state, "TMPDIR", "echo $WORSEGPU_SOCKET", 0);
    expect_empty_after(*state, "XDG_RUNTIME_DIR", "echo $WORSEGPU_SOCKET; exit 3", 3);
    expect_empty_after(*state, "TMPDIR", "echo $WORSEGPU_SOCKET; kill -KILL $$", 128 + SIGKILL);
}

static void test_only_its_user_can_enter_the_private_folder(void **state)
{
    struct real_process *process =
        run_shell(*state, "stat -c %a \"$(dirname \"$WORSEGPU_SOCKET\")\" \"$WORSEGPU_SOCKET\"");
    assert_string_equal(real_process_output(*state, process), "700\n660\n");
}

static void test_arguments_after_the_command_are_its_own(void **state)
{
    struct real_process *process =
        real_process_run(*state, NULL, daemon_program(*state), "--run", "printf", "%s|", "--help",
                         "--run", "--seed", "x", NULL);
    assert_int_equal(process->status, 0);
    assert_string_equal(real_process_output(*state, process), "--help|--run|--seed|x|");
}

static void test_stdout_and_stderr_are_the_command_s_alone(void **state)
{
    struct real_process *process = run_shell(*state, "echo out; echo err >&2");
    assert_string_equal(real_process_output(*state, process), "out\n");
    assert_string_equal(real_process_errors(*state, process), "err\n");
}

static void test_stdin_is_the_command_s(void **state)
{
    struct real_process *process = real_process_run(
        *state, NULL, "sh", "-c",
        real_room_text(*state, "echo in | %s --run cat", daemon_program(*state)), NULL);
    assert_string_equal(real_process_output(*state, process), "in\n");
}

static void test_a_log_level_that_is_asked_for_is_given(void **state)
{
    struct real_process *process = real_process_run(*state, NULL, daemon_program(*state),
                                                    "--log-level", "info", "--run", "true", NULL);
    assert_int_equal(real_lines(real_process_errors(*state, process)), 2);
}

static void test_the_surrounding_worsegpu_socket_is_replaced(void **state)
{
    const char *outer = real_room_path(*state, "outer");
    const char *const environment[] = {real_room_text(*state, "WORSEGPU_SOCKET=%s", outer), NULL};
    struct real_setup setup = {.environment = environment};
    struct real_process *process =
        real_process_run(*state, &setup, daemon_program(*state), "--run", "sh", "-c",
                         "env | grep ^WORSEGPU_SOCKET=", NULL);
    const char *output = real_process_output(*state, process);
    assert_int_equal(real_lines(output), 1);
    assert_null(strstr(output, outer));
}

static void expect_signal_to_pass(struct real_room *room, int signal)
{
    struct real_process *process = real_process_start(
        room, NULL, daemon_program(room), "--run", "sh", "-c",
        "trap 'exit 9' TERM; trap 'exit 8' INT; echo ready; while :; do sleep 0.02; done", NULL);
    struct real_wait wait = {0};
    while (*real_process_output(room, process) == '\0')
        real_wait_more(&wait);
    real_process_signal(process, signal);
    assert_int_equal(real_process_wait(process), signal == SIGTERM ? 9 : 8);
}

static void test_sigterm_and_sigint_to_the_daemon_reach_the_command(void **state)
{
    expect_signal_to_pass(*state, SIGTERM);
    expect_signal_to_pass(*state, SIGINT);
}

static void test_with_a_socket_given_it_serves_there(void **state)
{
    const char *path = real_room_path(*state, "s");
    struct real_process *process =
        real_process_run(*state, NULL, daemon_program(*state), "--socket", path, "--run", "sh",
                         "-c", "echo $WORSEGPU_SOCKET; test -S $WORSEGPU_SOCKET", NULL);
    assert_int_equal(process->status, 0);
    assert_string_equal(real_process_output(*state, process), real_room_text(*state, "%s\n", path));
    assert_int_not_equal(access(path, F_OK), 0);
}

static void test_the_daemon_ends_with_the_command_whoever_else_is_connected(void **state)
{
    const char *path = real_room_path(*state, "s");
    const char *go = real_room_path(*state, "go");
    struct real_process *process =
        real_process_start(*state, NULL, daemon_program(*state), "--socket", path, "--run", "sh",
                           "-c", "while ! test -e \"$0\"; do sleep 0.02; done; exit 5", go, NULL);
    struct real_wait wait = {0};
    while (!real_client_probe(path))
        real_wait_more(&wait);
    struct real_client *client = real_client_connect(*state, path);
    real_client_call(client, "{\"id\":1,\"method\":\"info\"}");
    real_room_write(*state, go, "");
    assert_int_equal(real_process_wait(process), 5);
    real_client_expect_end(client);
}

static void test_run_without_a_command_is_a_usage_error(void **state)
{
    struct real_process *process =
        real_process_run(*state, NULL, daemon_program(*state), "--run", NULL);
    assert_int_equal(process->status, 2);
    assert_int_equal(real_lines(real_process_errors(*state, process)), 1);
    process = real_process_run(*state, NULL, daemon_program(*state), "--run=true", NULL);
    assert_int_equal(process->status, 2);
    assert_int_equal(real_lines(real_process_errors(*state, process)), 1);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--talk") == 0)
        return talk();
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_the_command_finds_its_daemon_and_can_use_it),
        IN_ROOM(test_its_status_is_passed_on),
        IN_ROOM(test_a_signal_that_ended_it_becomes_128_and_its_number),
        IN_ROOM(test_a_command_that_is_not_there_gives_127),
        IN_ROOM(test_a_command_that_cannot_be_run_gives_126),
        IN_ROOM(test_nothing_is_left_in_the_temporary_folder),
        IN_ROOM(test_only_its_user_can_enter_the_private_folder),
        IN_ROOM(test_arguments_after_the_command_are_its_own),
        IN_ROOM(test_stdout_and_stderr_are_the_command_s_alone),
        IN_ROOM(test_stdin_is_the_command_s),
        IN_ROOM(test_a_log_level_that_is_asked_for_is_given),
        IN_ROOM(test_the_surrounding_worsegpu_socket_is_replaced),
        IN_ROOM(test_sigterm_and_sigint_to_the_daemon_reach_the_command),
        IN_ROOM(test_with_a_socket_given_it_serves_there),
        IN_ROOM(test_the_daemon_ends_with_the_command_whoever_else_is_connected),
        IN_ROOM(test_run_without_a_command_is_a_usage_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
