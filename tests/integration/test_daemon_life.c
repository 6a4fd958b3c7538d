/* The life of a real daemon: how it starts, whom it refuses, what it says, and how it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/real_daemon.h"

/* ------------------------------------------------------------------------------------------- the
 * end */

static void expect_clean_end(struct real_room *room, int signal)
{
    struct real_daemon daemon = real_daemon_start(room, NULL);
    const char *lock = real_room_text(room, "%s.lock", daemon.socket_path);
    assert_int_equal(access(lock, F_OK), 0);
    real_process_signal(daemon.process, signal);
    assert_int_equal(real_process_wait(daemon.process), 0);
    assert_int_not_equal(access(daemon.socket_path, F_OK), 0);
    assert_int_not_equal(access(lock, F_OK), 0);
}

static void test_sigterm_ends_it_with_0_and_no_file_stays(void **state)
{
    expect_clean_end(*state, SIGTERM);
}

static void test_sigint_ends_it_with_0_and_no_file_stays(void **state)
{
    expect_clean_end(*state, SIGINT);
}

static void test_sigterm_in_the_middle_of_its_start_leaves_no_file(void **state)
{
    enum {
        TIMES = 40
    };
    const char *path = real_room_path(*state, "s");
    const char *lock = real_room_text(*state, "%s.lock", path);
    for (unsigned time = 0; time < TIMES; time++) {
        struct real_process *process = real_process_start(
            *state, NULL, real_program(*state, "worsegpud"), "--socket", path, NULL);
        /* The lock file comes first: from here on there is something to clean up. */
        while (access(lock, F_OK) != 0 && !real_process_has_ended(process))
            ;
        for (volatile unsigned pause = 0; pause < time * 2500; pause++)
            ;
        real_process_signal(process, SIGTERM);
        assert_int_equal(real_process_wait(process), 0);
        assert_int_not_equal(access(path, F_OK), 0);
        assert_int_not_equal(access(lock, F_OK), 0);
    }
}

static void test_clients_see_the_end_and_nothing_else(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *silent = real_daemon_connect(&daemon);
    struct real_client *half = real_daemon_connect(&daemon);
    struct real_client *busy = real_daemon_connect(&daemon);
    real_client_send_bytes(half, "{\"id\":1,\"meth", 13);
    real_client_call(busy, "{\"id\":1,\"method\":\"info\"}"); /* now all three are known to it */
    real_daemon_stop(&daemon);
    real_client_expect_end(silent);
    real_client_expect_end(half);
    real_client_expect_end(busy);
}

static void test_whole_lines_that_were_read_are_answered_before_it_ends(void **state)
{
    enum {
        REQUESTS = 100
    };
    struct real_daemon daemon = real_daemon_start(*state, "--max-requests-per-turn", "1", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    char lines[REQUESTS * 64];
    size_t length = 0;
    for (unsigned id = 0; id < REQUESTS; id++)
        length += (size_t)snprintf(lines + length, sizeof(lines) - length,
                                   "{\"id\":%u,\"method\":\"validate\"}\n", id);
    real_client_send_bytes(client, lines, length);
    /* One small write is read at once: with the first answer here, the daemon has the whole of it.
     */
    assert_int_equal(real_json_number(real_client_reply(client), "id"), 0);
    real_daemon_stop(&daemon);
    for (unsigned id = 1; id < REQUESTS; id++)
        assert_int_equal(real_json_number(real_client_reply(client), "id"), id);
    real_client_expect_end(client);
}

/* Sends requests until nothing more goes in, and never reads. */
static void stuff(struct real_client *client)
{
    static const char line[] = "{\"id\":1,\"method\":\"info\"}\n";
    char lines[(sizeof(line) - 1) * 1000];
    unsigned full = 0;
    struct real_wait wait = {0};
    for (size_t at = 0; at < sizeof(lines); at += sizeof(line) - 1)
        memcpy(lines + at, line, sizeof(line) - 1);
    /* A cut line does no harm: it is never answered, since nothing is ever read. */
    for (; full < 100; real_wait_more(&wait))
        full = real_client_send_some(client, lines, sizeof(lines)) == 0 ? full + 1 : 0;
}

static void test_a_client_that_never_reads_does_not_hold_the_end(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--max-stop-seconds", "1", NULL);
    stuff(real_daemon_connect(&daemon));
    real_daemon_stop(
        &daemon); /* waits for a minute at most, where a daemon without a deadline stays for ever */
    assert_int_equal(real_lines_with(real_daemon_log(&daemon), "did not take their last answers"),
                     1);
}

static void test_clients_that_wait_to_be_let_in_are_told_or_closed(void **state)
{
    enum {
        WAITING = 20
    };
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *clients[WAITING];
    real_process_signal(daemon.process, SIGSTOP);
    for (unsigned index = 0; index < WAITING; index++)
        clients[index] = real_daemon_connect(&daemon); /* the kernel does it, nobody accepts */
    real_process_signal(daemon.process, SIGTERM);
    real_process_signal(daemon.process, SIGCONT);
    assert_int_equal(real_process_wait(daemon.process), 0);
    /* Which of the two it sees first is the kernel's choice: those it let in see the end alone. */
    for (unsigned index = 0; index < WAITING; index++) {
        const char *line = real_client_line(clients[index]);
        if (!line)
            continue;
        assert_non_null(strstr(line, "\"id\":null"));
        assert_non_null(strstr(line, "\"kind\":\"shutting_down\""));
        real_client_expect_end(clients[index]);
    }
}

/* --------------------------------------------------------------------------------- who has the
 * socket */

static struct real_process *run_daemon(struct real_room *room, const char *socket_path)
{
    return real_process_run(room, NULL, real_program(room, "worsegpud"), "--socket", socket_path,
                            NULL);
}

/* It must have ended with `status` and one line on stderr that holds `part`. */
static void expect_refusal(struct real_room *room, const struct real_process *process, int status,
                           const char *part)
{
    const char *errors = real_process_errors(room, process);
    assert_int_equal(process->status, status);
    assert_int_equal(real_lines(errors), 1);
    if (!strstr(errors, part))
        fail_msg("'%s' is not in: %s", part, errors);
    assert_string_equal(real_process_output(room, process), "");
}

static void test_a_second_daemon_is_refused_while_the_first_lives(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    struct real_process *second = run_daemon(*state, daemon.socket_path);
    expect_refusal(*state, second, 1, daemon.socket_path);
    real_client_call(client, "{\"id\":1,\"method\":\"info\"}");
    assert_true(real_client_probe(daemon.socket_path));
}

static void test_the_socket_of_a_killed_daemon_is_taken_over(void **state)
{
    struct real_daemon killed = real_daemon_start(*state, NULL);
    real_process_signal(killed.process, SIGKILL);
    assert_int_equal(real_process_wait(killed.process), 128 + SIGKILL);
    assert_int_equal(access(killed.socket_path, F_OK), 0);
    struct real_daemon next = real_daemon_start(*state, NULL);
    assert_string_equal(next.socket_path, killed.socket_path);
    const cJSON *info =
        real_client_call(real_daemon_connect(&next), "{\"id\":1,\"method\":\"info\"}");
    assert_int_equal(real_json_number(info, "result.pid"), next.process->pid);
    real_daemon_stop(&next);
}

static void test_a_file_in_the_way_is_refused_and_stays_as_it_was(void **state)
{
    const char *path = real_room_path(*state, "letter");
    real_room_write(*state, path, "dear reader");
    expect_refusal(*state, run_daemon(*state, path), 1, path);
    assert_string_equal(real_room_read(*state, path), "dear reader");
    assert_int_not_equal(access(real_room_text(*state, "%s.lock", path), F_OK), 0);
}

static void test_a_socket_that_somebody_else_serves_on_is_left_alone(void **state)
{
    /* Without its lock file, the first one looks like any other program with a socket. */
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    assert_int_equal(unlink(real_room_text(*state, "%s.lock", daemon.socket_path)), 0);
    expect_refusal(*state, run_daemon(*state, daemon.socket_path), 1, daemon.socket_path);
    assert_true(real_client_probe(daemon.socket_path));
}

static void test_a_socket_in_a_folder_that_is_not_there_is_refused(void **state)
{
    const char *path = real_room_path(*state, "nowhere/s");
    expect_refusal(*state, run_daemon(*state, path), 1, path);
}

static void test_the_socket_has_mode_0660_whatever_the_umask(void **state)
{
    mode_t before = umask(0);
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    umask(before);
    struct stat status;
    assert_int_equal(stat(daemon.socket_path, &status), 0);
    assert_true(S_ISSOCK(status.st_mode));
    assert_int_equal(status.st_mode & 07777, 0660);
}

enum {
    LONG_PATH = 130,
    LONGEST_PATH = 107
};

static const char *path_of_length(struct real_room *room, size_t length)
{
    size_t folder = strlen(room->folder) + 1;
    assert_true(folder < length);
    return real_room_text(room, "%s/%0*d", room->folder, (int)(length - folder), 0);
}

static void test_the_longest_path_a_socket_takes_is_served(void **state)
{
    struct real_daemon daemon = real_daemon_start_at(*state, NULL, REAL_DAEMON_TOLD,
                                                     path_of_length(*state, LONGEST_PATH), NULL);
    real_daemon_stop(&daemon);
}

static void test_a_path_too_long_for_a_socket_is_refused_with_both_numbers(void **state)
{
    for (size_t length = LONGEST_PATH + 1; length <= LONG_PATH;
         length += LONG_PATH - LONGEST_PATH - 1) {
        struct real_process *process = run_daemon(*state, path_of_length(*state, length));
        expect_refusal(*state, process, process->status, real_room_text(*state, "%zu", length));
        expect_refusal(*state, process, process->status, "107");
        assert_in_range(process->status, 1, 2);
    }
    assert_int_equal(real_lines(real_process_output(
                         *state, real_process_run(*state, NULL, "ls",
                                                  ((struct real_room *)*state)->folder, NULL))),
                     6); /* nothing but the streams of three processes */
}

static void test_a_path_too_long_in_the_environment_is_refused_with_both_numbers(void **state)
{
    const char *path = path_of_length(*state, LONG_PATH);
    const char *const environment[] = {real_room_text(*state, "WORSEGPU_SOCKET=%s", path), NULL};
    struct real_setup setup = {.environment = environment};
    struct real_process *process =
        real_process_run(*state, &setup, real_program(*state, "worsegpud"), NULL);
    expect_refusal(*state, process, 1, "130");
    expect_refusal(*state, process, 1, "107");
}

/* ------------------------------------------------------------------------------- where it is found
 */

static void test_it_serves_where_worsegpu_socket_says(void **state)
{
    const char *path = real_room_path(*state, "from-variable");
    const char *const environment[] = {
        real_room_text(*state, "WORSEGPU_SOCKET=%s", path),
        real_room_text(*state, "XDG_RUNTIME_DIR=%s", real_room_path(*state, "not-there")), NULL};
    struct real_setup setup = {.environment = environment};
    struct real_daemon daemon = real_daemon_start_at(*state, &setup, REAL_DAEMON_FINDS, path, NULL);
    real_daemon_stop(&daemon);
}

static void test_it_serves_in_the_runtime_folder_else(void **state)
{
    struct stat status;
    const char *const environment[] = {
        "WORSEGPU_SOCKET",
        real_room_text(*state, "XDG_RUNTIME_DIR=%s", ((struct real_room *)*state)->folder), NULL};
    struct real_setup setup = {.environment = environment};
    const char *path = real_room_path(*state, "worsegpu/worsegpud.sock");
    struct real_daemon daemon = real_daemon_start_at(*state, &setup, REAL_DAEMON_FINDS, path, NULL);
    assert_int_equal(stat(real_room_path(*state, "worsegpu"), &status), 0);
    assert_int_equal(status.st_mode & 0077, 0); /* the session's own folder */
    real_daemon_stop(&daemon);
}

static void test_an_empty_worsegpu_socket_counts_as_none(void **state)
{
    const char *const environment[] = {
        "WORSEGPU_SOCKET=",
        real_room_text(*state, "XDG_RUNTIME_DIR=%s", ((struct real_room *)*state)->folder), NULL};
    struct real_setup setup = {.environment = environment};
    const char *path = real_room_path(*state, "worsegpu/worsegpud.sock");
    struct real_daemon daemon = real_daemon_start_at(*state, &setup, REAL_DAEMON_FINDS, path, NULL);
    real_daemon_stop(&daemon);
}

static void test_the_option_wins_over_the_environment(void **state)
{
    const char *elsewhere = real_room_path(*state, "elsewhere");
    const char *const environment[] = {real_room_text(*state, "WORSEGPU_SOCKET=%s", elsewhere),
                                       NULL};
    struct real_setup setup = {.environment = environment};
    struct real_daemon daemon =
        real_daemon_start_at(*state, &setup, REAL_DAEMON_TOLD, real_room_path(*state, "s"), NULL);
    assert_int_not_equal(access(elsewhere, F_OK), 0);
    real_daemon_stop(&daemon);
}

/* ------------------------------------------------------------------------------------- what it
 * says */

static void test_one_line_at_start_and_one_at_stop_and_none_for_requests(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--seed", "42", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    for (unsigned round = 0; round < 20; round++) {
        real_client_call(
            client, "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":4096}}");
        real_json_expect_error(real_client_call(client, "{\"id\":1,\"method\":\"nonsense\"}"),
                               "method_not_found");
        real_json_expect_error(real_client_call(client, "nonsense"), "parse_error");
    }
    const char *running = real_daemon_log(&daemon);
    assert_int_equal(real_lines(running), 1);
    assert_non_null(strstr(running, daemon.socket_path));
    assert_non_null(strstr(running, "seed 42"));
    real_daemon_stop(&daemon);
    const char *all = real_daemon_log(&daemon);
    assert_int_equal(real_lines(all), 2);
    assert_non_null(strstr(all, "stopped"));
    assert_string_equal(real_process_output(*state, daemon.process), "");
}

static void test_a_higher_log_level_leaves_start_and_stop_out(void **state)
{
    static const char *const levels[] = {"warning", "error"};
    for (size_t index = 0; index < 2; index++) {
        struct real_daemon daemon = real_daemon_start(*state, "--log-level", levels[index], NULL);
        real_daemon_stop(&daemon);
        assert_string_equal(real_daemon_log(&daemon), "");
    }
}

static void test_the_level_error_leaves_warnings_about_clients_out(void **state)
{
    static char line[70000];
    memset(line, 'x', sizeof(line));
    static const char *const levels[] = {"warning", "error"};
    for (unsigned index = 0; index < 2; index++) {
        struct real_daemon daemon = real_daemon_start(*state, "--log-level", levels[index], NULL);
        struct real_client *client = real_daemon_connect(&daemon);
        real_client_send_bytes(client, line, sizeof(line));
        real_json_expect_error(real_client_call(client, ""), "invalid_request");
        real_daemon_stop(&daemon);
        assert_int_equal(real_lines(real_daemon_log(&daemon)), 1 - index);
    }
}

static void test_a_log_level_that_is_none_is_a_usage_error(void **state)
{
    expect_refusal(*state,
                   real_process_run(*state, NULL, real_program(*state, "worsegpud"), "--log-level",
                                    "loud", NULL),
                   2, "--log-level must be error, warning or info, not 'loud'");
}

static void test_help_goes_to_stdout_and_ends_with_0(void **state)
{
    struct real_process *help =
        real_process_run(*state, NULL, real_program(*state, "worsegpud"), "--help", NULL);
    const char *text = real_process_output(*state, help);
    assert_int_equal(help->status, 0);
    assert_string_equal(real_process_errors(*state, help), "");
#define OPTION(field, flag, type, default_text, minimum, maximum, scope, change, meaning)          \
    assert_non_null(strstr(text, "--" flag));
#include "daemon/options.def"
    assert_non_null(strstr(text, "--run"));
    assert_non_null(strstr(text, "--config"));
}

static void test_version_is_the_version_file_s(void **state)
{
    struct real_process *version =
        real_process_run(*state, NULL, real_program(*state, "worsegpud"), "--version", NULL);
    assert_int_equal(version->status, 0);
    assert_string_equal(real_process_output(*state, version),
                        real_room_text(*state, "worsegpud %s", real_room_read(*state, "VERSION")));
    assert_string_equal(real_process_errors(*state, version), "");
}

/* ---------------------------------------------------------------------------------- wrong options
 */

static void expect_usage_error(struct real_room *room, const char *option, const char *value,
                               const char *part)
{
    const char *path = real_room_path(room, "s");
    struct real_process *process = real_process_run(room, NULL, real_program(room, "worsegpud"),
                                                    "--socket", path, option, value, NULL);
    expect_refusal(room, process, 2, part);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void test_a_wrong_option_is_a_usage_error_in_one_line(void **state)
{
    expect_usage_error(*state, "--nonsense", NULL, "'--nonsense'");
    expect_usage_error(*state, "stray", NULL, "'stray'");
    expect_usage_error(*state, "--seed", NULL, "--seed");
    expect_usage_error(*state, "--seed", "seven", "seed");
    expect_usage_error(*state, "--policy", "perfect", "policy");
    expect_usage_error(*state, "--capacity", "0", "--capacity");
    expect_usage_error(*state, "--capacity", "64MB!", "'64MB!'");
    expect_usage_error(*state, "--gpu-probability", "1.5", "--gpu-probability");
    expect_usage_error(*state, "--fallback-on-oom", "perhaps", "true or false");
    expect_usage_error(*state, "--trace-limit", "1000001", "1000000");
    expect_usage_error(*state, "--max-connections", "0", "--max-connections");
    expect_usage_error(*state, "--max-unread-bytes", "1MiB", "max-output-bytes");
    expect_usage_error(*state, "--scan", "skipped", "accounted");
}

/* --------------------------------------------------------------------------------- configuration
 * file */

static void test_a_configuration_file_sets_what_the_command_line_does_not(void **state)
{
    const char *file = real_room_path(*state, "worsegpud.conf");
    real_room_write(*state, file,
                    "# a comment\n"
                    "max_connections = 12\n"
                    "max-half-line-seconds = 7\n"
                    "[gpu0]\n"
                    "policy = reference\n"
                    "capacity = 1MiB\n"
                    "seed = -12345678901234567890\n");
    struct real_daemon daemon =
        real_daemon_start(*state, "--capacity", "2MiB", "--config", file, NULL);
    const cJSON *info =
        real_client_call(real_daemon_connect(&daemon), "{\"id\":1,\"method\":\"info\"}");
    assert_int_equal(real_json_number(info, "result.limits.max_connections"), 12);
    assert_int_equal(real_json_number(info, "result.limits.max_half_line_seconds"), 7);
    assert_string_equal(real_json_text(info, "result.allocators.0.policy"), "reference");
    assert_int_equal(real_json_number(info, "result.allocators.0.gpu_capacity"), 2 * 1024 * 1024);
    assert_string_equal(real_json_text(info, "result.allocators.0.seed"), "-12345678901234567890");
    real_daemon_stop(&daemon);
}

static void test_a_wrong_configuration_file_is_named_with_its_line(void **state)
{
    static const struct {
        const char *content;
        unsigned line;
    } wrong[] = {
        {"capacity = 1MiB\nnonsense = 1\n", 2},
        {"\n\ncapacity = big\n", 3},
        {"just words\n", 1},
        {"capacity = 1MiB\ncapacity = 2MiB\n", 2},
        {"[gpu0]\nmax-connections = 5\n", 2},
        {"[gpu1]\nseed = 1\n[gpu1]\n", 3},
        {"[gpu1]\npolicy = perfect\n", 2},
        {"admin-group = no such group\n", 1},
        {"seed = 1\nmax_connections = 0\nnonsense = 2\n", 2},
    };
    const char *file = real_room_path(*state, "worsegpud.conf");
    for (size_t index = 0; index < sizeof(wrong) / sizeof(wrong[0]); index++) {
        real_room_write(*state, file, wrong[index].content);
        expect_usage_error(*state, "--config", file,
                           real_room_text(*state, "%s:%u:", file, wrong[index].line));
    }
}

static void test_a_configuration_file_that_is_not_there_is_a_usage_error(void **state)
{
    const char *file = real_room_path(*state, "not-there");
    expect_usage_error(*state, "--config", file, file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_sigterm_ends_it_with_0_and_no_file_stays),
        IN_ROOM(test_sigint_ends_it_with_0_and_no_file_stays),
        IN_ROOM(test_sigterm_in_the_middle_of_its_start_leaves_no_file),
        IN_ROOM(test_clients_see_the_end_and_nothing_else),
        IN_ROOM(test_whole_lines_that_were_read_are_answered_before_it_ends),
        IN_ROOM(test_a_client_that_never_reads_does_not_hold_the_end),
        IN_ROOM(test_clients_that_wait_to_be_let_in_are_told_or_closed),
        IN_ROOM(test_a_second_daemon_is_refused_while_the_first_lives),
        IN_ROOM(test_the_socket_of_a_killed_daemon_is_taken_over),
        IN_ROOM(test_a_file_in_the_way_is_refused_and_stays_as_it_was),
        IN_ROOM(test_a_socket_that_somebody_else_serves_on_is_left_alone),
        IN_ROOM(test_a_socket_in_a_folder_that_is_not_there_is_refused),
        IN_ROOM(test_the_socket_has_mode_0660_whatever_the_umask),
        IN_ROOM(test_the_longest_path_a_socket_takes_is_served),
        IN_ROOM(test_a_path_too_long_for_a_socket_is_refused_with_both_numbers),
        IN_ROOM(test_a_path_too_long_in_the_environment_is_refused_with_both_numbers),
        IN_ROOM(test_it_serves_where_worsegpu_socket_says),
        IN_ROOM(test_it_serves_in_the_runtime_folder_else),
        IN_ROOM(test_an_empty_worsegpu_socket_counts_as_none),
        IN_ROOM(test_the_option_wins_over_the_environment),
        IN_ROOM(test_one_line_at_start_and_one_at_stop_and_none_for_requests),
        IN_ROOM(test_a_higher_log_level_leaves_start_and_stop_out),
        IN_ROOM(test_the_level_error_leaves_warnings_about_clients_out),
        IN_ROOM(test_a_log_level_that_is_none_is_a_usage_error),
        IN_ROOM(test_help_goes_to_stdout_and_ends_with_0),
        IN_ROOM(test_version_is_the_version_file_s),
        IN_ROOM(test_a_wrong_option_is_a_usage_error_in_one_line),
        IN_ROOM(test_a_configuration_file_sets_what_the_command_line_does_not),
        IN_ROOM(test_a_wrong_configuration_file_is_named_with_its_line),
        IN_ROOM(test_a_configuration_file_that_is_not_there_is_a_usage_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
