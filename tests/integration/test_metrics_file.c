/* Metrics over a real daemon: what worsegpu-cli prints, what Prometheus' own checker says of it,
 * and the file for a node exporter, from its first writing to its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/real_daemon.h"

enum {
    READ_SIZE = 262144,
    NOBODY = 65534
};

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void wait_for(const char *path)
{
    struct real_wait wait = {0};
    while (!exists(path))
        real_wait_more(&wait);
}

static ino_t inode_of(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status.st_ino;
}

static bool is_whole(const char *text)
{
    static const char end[] = "\n# EOF\n";
    size_t length = strlen(text);
    return strncmp(text, "# HELP worsegpu_", 16) == 0 && length > sizeof(end) &&
           strcmp(text + length - strlen(end), end) == 0;
}

static struct real_process *cli(const struct real_daemon *daemon, const char *word)
{
    struct real_process *process =
        real_process_start(daemon->room, NULL, real_program(daemon->room, "worsegpu-cli"),
                           "--socket", daemon->socket_path, "metrics", word, NULL);
    assert_int_equal(real_process_wait(process), 0);
    return process;
}

/* ---------------------------------------------------------------------------------- the command */

static void test_metrics_prints_the_text_as_it_is(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--seed", "7", NULL);
    const char *text = real_process_output(*state, cli(&daemon, NULL));
    assert_true(is_whole(text));
    assert_non_null(strstr(text, "\n# TYPE worsegpu_frees_total counter\n"));
    assert_non_null(strstr(text, "\nworsegpu_connections_open 1\n"));
    assert_non_null(strstr(text, "\nworsegpu_memory_used_bytes "));
    text = real_process_output(*state, cli(&daemon, "--openmetrics"));
    assert_true(is_whole(text));
    assert_non_null(strstr(text, "\n# TYPE worsegpu_frees counter\n"));
    text = real_process_output(*state, cli(&daemon, "--json"));
    assert_int_equal(real_lines(text), 1);
    assert_int_equal(strncmp(text, "{\"content_type\":\"text/plain; version=0.0.4", 42), 0);
    real_daemon_stop(&daemon);
}

static void test_a_real_daemon_times_its_requests(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    real_client_call(client, "{\"id\":1,\"method\":\"validate\"}");
    const char *text = real_json_text(
        real_client_call(
            client, "{\"id\":2,\"method\":\"metrics\",\"params\":{\"format\":\"prometheus\"}}"),
        "result.text");
    assert_non_null(
        strstr(text, "\nworsegpu_request_duration_seconds_count{method=\"validate\"} 1\n"));
    assert_null(
        strstr(text, "\nworsegpu_request_duration_seconds_sum{method=\"validate\"} 0.000000000\n"));
    real_daemon_stop(&daemon);
}

static void test_clients_that_are_turned_away_are_counted(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--max-connections", "2", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    real_client_call(client, "{\"id\":1,\"method\":\"info\"}");
    struct real_client *second = real_daemon_connect(&daemon);
    real_client_call(second, "{\"id\":1,\"method\":\"info\"}");
    struct real_client *third = real_daemon_connect(&daemon);
    real_json_expect_error(real_client_reply(third), "limit_exceeded");
    const char *text = real_json_text(real_client_call(client, "{\"id\":2,\"method\":\"metrics\"}"),
                                      "result.text");
    assert_non_null(
        strstr(text, "\nworsegpu_connections_refused_total{kind=\"limit_exceeded\"} 1\n"));
    real_daemon_stop(&daemon);
}

static void check_with_promtool(struct real_room *room, const char *path)
{
    struct real_process *process = real_process_run(
        room, NULL, "/bin/sh", "-c", "exec promtool check metrics <\"$1\"", "sh", path, NULL);
    if (process->status != 0)
        fail_msg("promtool ended with %d: %s%s", process->status,
                 real_process_output(room, process), real_process_errors(room, process));
}

static void test_promtool_finds_nothing_to_complain_about(void **state)
{
    if (real_process_run(*state, NULL, "/bin/sh", "-c", "command -v promtool", NULL)->status != 0) {
        print_message("promtool is not installed (package prometheus): not checked with it\n");
        skip();
    }
    const char *path = real_room_path(*state, "gpu.prom");
    struct real_daemon daemon =
        real_daemon_start(*state, "--policy", "torch", "--metrics-file", path, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    real_client_call(client,
                     "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":4096}}");
    check_with_promtool(*state, cli(&daemon, NULL)->output);
    wait_for(path);
    check_with_promtool(*state, path);
    real_daemon_stop(&daemon);
}

/* ------------------------------------------------------------------------------------- the file */

static void test_the_file_is_there_from_the_start_and_gone_at_the_end(void **state)
{
    struct stat status;
    const char *path = real_room_path(*state, "gpu.prom");
    mode_t before = umask(077); /* the collector is another user all the same */
    struct real_daemon daemon = real_daemon_start(*state, "--metrics-file", path, NULL);
    umask(before);
    wait_for(path);
    assert_true(is_whole(real_room_read(*state, path)));
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0644);
    real_daemon_stop(&daemon);
    assert_false(exists(path));
    assert_false(exists(real_room_text(*state, "%s.tmp", path)));
}

/* Opens, reads and closes; the text, or NULL where there is no file. */
static const char *read_once(const char *path, char *text)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return NULL;
    size_t length = 0;
    ssize_t count;
    while ((count = read(descriptor, text + length, READ_SIZE - 1 - length)) > 0)
        length += (size_t)count;
    close(descriptor);
    text[length] = '\0';
    return text;
}

static void test_a_reader_always_finds_a_whole_file(void **state)
{
    const char *path = real_room_path(*state, "gpu.prom");
    struct real_daemon daemon =
        real_daemon_start(*state, "--metrics-file", path, "--metrics-interval", "1", NULL);
    char *text = test_malloc(READ_SIZE);
    wait_for(path);
    unsigned seen = 0;
    ino_t last = 0;
    struct real_wait wait = {0};
    while (seen < 3) {
        const char *found = read_once(path, text);
        assert_non_null(found);
        assert_true(is_whole(found));
        ino_t now = inode_of(path);
        seen += now != last;
        last = now;
        real_wait_more(&wait);
    }
    test_free(text);
    real_daemon_stop(&daemon);
}

static void test_a_folder_that_cannot_be_written_is_told_once_and_stops_nothing(void **state)
{
    const char *folder = real_room_path(*state, "later");
    const char *path = real_room_text(*state, "%s/gpu.prom", folder);
    struct real_daemon daemon =
        real_daemon_start(*state, "--metrics-file", path, "--metrics-interval", "1", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    struct real_wait wait = {0};
    while (!strstr(real_daemon_log(&daemon), "cannot write the metrics file"))
        real_wait_more(&wait);
    uint64_t until = real_now_ms() + 2500; /* two more tries */
    while (real_now_ms() < until)
        real_wait_more(&wait);
    assert_int_equal(real_lines_with(real_daemon_log(&daemon), "cannot write the metrics file"), 1);
    assert_non_null(strstr(real_daemon_log(&daemon), "no such file or directory"));
    real_client_call(client, "{\"id\":1,\"method\":\"info\"}");
    assert_int_equal(mkdir(folder, 0755), 0);
    wait_for(path);
    while (!strstr(real_daemon_log(&daemon), "is written again"))
        real_wait_more(&wait);
    real_daemon_stop(&daemon);
    assert_false(exists(path));
    assert_int_equal(rmdir(folder), 0);
}

static void test_a_folder_of_another_user_is_told(void **state)
{
    if (geteuid() != 0) {
        print_message("only root can become another user: not tried\n");
        skip();
    }
    const char *folder = real_room_path(*state, "closed");
    const char *open_folder = real_room_path(*state, "open");
    const struct real_setup setup = {.user = NOBODY};
    const struct real_room *room = *state;
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(mkdir(open_folder, 0755), 0);
    assert_int_equal(chown(open_folder, NOBODY, NOBODY), 0);
    assert_int_equal(chmod(room->folder, 0755), 0);
    struct real_daemon daemon = real_daemon_start_at(
        *state, &setup, REAL_DAEMON_TOLD, real_room_text(*state, "%s/s", open_folder),
        "--metrics-file", real_room_text(*state, "%s/gpu.prom", folder), NULL);
    struct real_wait wait = {0};
    while (!strstr(real_daemon_log(&daemon), "permission denied"))
        real_wait_more(&wait);
    real_daemon_stop(&daemon);
}

/* As a full disk does, a limit on the size of files lets a writing fail in the midst of it. */
static void test_a_full_disk_is_told_and_leaves_nothing_half_written(void **state)
{
    const char *path = real_room_path(*state, "gpu.prom");
    struct real_process *process = real_process_start(
        *state, NULL, "/bin/sh", "-c",
        "ulimit -f 8; exec \"$1\" --socket \"$2\" --metrics-file \"$3\" --metrics-interval 1", "sh",
        real_program(*state, "worsegpud"), real_room_path(*state, "s"), path, NULL);
    struct real_wait wait = {0};
    while (!strstr(real_process_errors(*state, process), "cannot write the metrics file"))
        real_wait_more(&wait);
    assert_non_null(strstr(real_process_errors(*state, process), "file too large"));
    assert_false(exists(path));
    real_process_signal(process, SIGTERM);
    assert_int_equal(real_process_wait(process), 0);
    assert_false(exists(real_room_text(*state, "%s.tmp", path)));
}

static void test_reading_the_configuration_again_changes_the_interval(void **state)
{
    const char *config = real_room_path(*state, "config");
    const char *path = real_room_path(*state, "gpu.prom");
    real_room_write(*state, config, "metrics-interval = 3600\n");
    struct real_daemon daemon =
        real_daemon_start(*state, "--config", config, "--metrics-file", path, NULL);
    wait_for(path);
    ino_t first = inode_of(path);
    real_room_write(*state, config, "metrics-interval = 1\n");
    real_process_signal(daemon.process, SIGHUP);
    struct real_wait wait = {0};
    while (inode_of(path) == first)
        real_wait_more(&wait);
    real_daemon_stop(&daemon);
}

static void test_a_file_that_somebody_else_left_stays_when_none_was_written(void **state)
{
    const char *path = real_room_path(*state, "gpu.prom");
    /* A folder in the place where it is written first. */
    assert_int_equal(mkdir(real_room_text(*state, "%s.tmp", path), 0755), 0);
    real_room_write(*state, path, "old\n");
    struct real_daemon daemon = real_daemon_start(*state, "--metrics-file", path, NULL);
    struct real_wait wait = {0};
    while (!strstr(real_daemon_log(&daemon), "cannot write the metrics file"))
        real_wait_more(&wait);
    real_daemon_stop(&daemon);
    assert_string_equal(real_room_read(*state, path), "old\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_metrics_prints_the_text_as_it_is),
        IN_ROOM(test_a_real_daemon_times_its_requests),
        IN_ROOM(test_clients_that_are_turned_away_are_counted),
        IN_ROOM(test_promtool_finds_nothing_to_complain_about),
        IN_ROOM(test_the_file_is_there_from_the_start_and_gone_at_the_end),
        IN_ROOM(test_a_reader_always_finds_a_whole_file),
        IN_ROOM(test_a_folder_that_cannot_be_written_is_told_once_and_stops_nothing),
        IN_ROOM(test_a_folder_of_another_user_is_told),
        IN_ROOM(test_a_full_disk_is_told_and_leaves_nothing_half_written),
        IN_ROOM(test_reading_the_configuration_again_changes_the_interval),
        IN_ROOM(test_a_file_that_somebody_else_left_stays_when_none_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
