/* worsegpu-cli smi against a real daemon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "tests/support/real_daemon.h"

enum {
    MOST_WORDS = 24
};

static struct real_process *start(const struct real_daemon *daemon, va_list list)
{
    const char *words[MOST_WORDS] = {real_program(daemon->room, "worsegpu-cli"), "--socket",
                                     daemon->socket_path};
    size_t count = 3;
    for (const char *word; (word = va_arg(list, const char *)) != NULL;) {
        assert_true(count < MOST_WORDS - 1);
        words[count++] = word;
    }
    return real_process_start_list(daemon->room, NULL, words);
}

static struct real_process *launch(const struct real_daemon *daemon, ...)
{
    va_list list;
    va_start(list, daemon);
    struct real_process *process = start(daemon, list);
    va_end(list);
    return process;
}

struct outcome {
    int status;
    const char *output;
    const char *errors;
};

static struct outcome run(const struct real_daemon *daemon, ...)
{
    va_list list;
    va_start(list, daemon);
    struct real_process *process = start(daemon, list);
    va_end(list);
    struct outcome outcome = {.status = real_process_wait(process)};
    outcome.output = real_process_output(daemon->room, process);
    outcome.errors = real_process_errors(daemon->room, process);
    return outcome;
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/* Two GPUs that count plainly, and a process that holds 3 MiB of the first. */
static struct real_daemon begin(struct real_room *room)
{
    const char *config = real_room_path(room, "config");
    real_room_write(room, config,
                    "[big]\npolicy = list_fit\ncapacity = 64MiB\n"
                    "[small]\npolicy = worse\ncapacity = 1MiB\nseed = 7\n");
    struct real_daemon daemon = real_daemon_start(room, "--config", config, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    (void)client;
    return daemon;
}

static struct real_process *hold(const struct real_daemon *daemon)
{
    struct real_process *holder =
        launch(daemon, "--name", "trainer", "alloc", "1MiB", "2MiB", "--hold", NULL);
    struct real_wait wait = {0};
    while (real_lines_with(real_process_errors(daemon->room, holder), "holding") == 0)
        assert_true(real_wait_more(&wait));
    return holder;
}

static void test_smi_shows_every_gpu_and_every_process(void **state)
{
    struct real_room *room = *state;
    struct real_daemon daemon = begin(room);
    struct real_process *holder = hold(&daemon);
    struct outcome outcome = run(&daemon, "smi", NULL);
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.errors, "");
    assert_says(outcome.output, real_room_text(room, ", worsegpud %s, process %d\n",
                                               WORSEGPU_VERSION, (int)daemon.process->pid));
    assert_says(outcome.output,
                "gpu    policy    capacity     used   free  forgotten    frag  blocks  scanned  "
                "allocations\n");
    assert_says(outcome.output, "big    list_fit  64.0 MiB  3.0 MiB");
    assert_says(outcome.output, "small  worse      1.0 MiB    0.0 B");
    assert_says(outcome.output, "client  process  user  name     gpu used  host used  "
                                "allocations\n");
    assert_says(outcome.output, real_room_text(room, " %d ", (int)holder->pid));
    assert_says(outcome.output, "trainer   3.0 MiB      0.0 B            2\n");
    real_daemon_stop(&daemon);
}

static void test_a_query_is_csv_with_plain_integers(void **state)
{
    struct real_daemon daemon = begin(*state);
    hold(&daemon);
    assert_string_equal(run(&daemon, "smi", "--query",
                            "name,policy,gpu_used,gpu_forgotten,active_allocations", NULL)
                            .output,
                        "name,policy,gpu_used,gpu_forgotten,active_allocations\n"
                        "big,list_fit,3145728,0,2\nsmall,worse,0,0,0\n");
    assert_string_equal(run(&daemon, "smi", "--query", "name,fragmentation", "--format", "csv",
                            "--allocator", "small", NULL)
                            .output,
                        "name,fragmentation\nsmall,0.0\n");
    real_daemon_stop(&daemon);
}

static void test_a_query_is_json_when_that_is_asked_for(void **state)
{
    struct real_daemon daemon = begin(*state);
    const char *expected =
        "[{\"name\":\"big\",\"gpu_capacity\":67108864},{\"name\":\"small\",\"gpu_capacity\":"
        "1048576}]\n";
    assert_string_equal(
        run(&daemon, "smi", "--query", "name,gpu_capacity", "--format", "json", NULL).output,
        expected);
    assert_string_equal(run(&daemon, "smi", "--json", "--query", "name,gpu_capacity", NULL).output,
                        expected);
    real_daemon_stop(&daemon);
}

static void test_json_is_one_whole_document(void **state)
{
    struct real_daemon daemon = begin(*state);
    hold(&daemon);
    cJSON *document = cJSON_Parse(run(&daemon, "smi", "--json", NULL).output);
    assert_non_null(document);
    assert_non_null(cJSON_GetObjectItem(cJSON_GetObjectItem(document, "info"), "limits"));
    const cJSON *gpus = cJSON_GetObjectItem(document, "gpus");
    assert_int_equal(cJSON_GetArraySize(gpus), 2);
    const cJSON *big = cJSON_GetArrayItem(gpus, 0);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(big, "name")), "big");
    const cJSON *used = cJSON_GetObjectItem(cJSON_GetObjectItem(big, "snapshot"), "gpu_used");
    assert_true(cJSON_GetNumberValue(used) == 3145728.0);
    /* The holder and the test's own; smi itself is left out. */
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(document, "clients")), 2);
    cJSON_Delete(document);
    real_daemon_stop(&daemon);
}

static void test_an_unknown_field_gets_the_nearest_and_the_list(void **state)
{
    struct real_daemon daemon = begin(*state);
    struct outcome outcome = run(&daemon, "smi", "--query", "name,gpu_usd", NULL);
    assert_int_equal(outcome.status, 2);
    assert_string_equal(outcome.output, "");
    assert_says(outcome.errors, "smi has no field 'gpu_usd'; did you mean 'gpu_used'?");
    assert_says(outcome.errors, "fields: name, policy, scan, gpu_capacity,");
    assert_says(outcome.errors, "device_retries");
    assert_int_equal(run(&daemon, "smi", "--query", "", NULL).status, 2);
    assert_int_equal(run(&daemon, "smi", "--format", "csv", NULL).status, 2);
    assert_int_equal(run(&daemon, "smi", "--query", "name", "--format", "xml", NULL).status, 2);
    assert_int_equal(run(&daemon, "smi", "--loop", "0", NULL).status, 2);
    real_daemon_stop(&daemon);
}

/* Waits until a process has written so many lines. */
static void wait_for_lines(struct real_room *room, const struct real_process *process,
                           unsigned lines)
{
    struct real_wait wait = {0};
    while (real_lines(real_process_output(room, process)) < lines)
        assert_true(real_wait_more(&wait));
}

static void test_a_loop_goes_on_until_it_is_stopped(void **state)
{
    struct real_room *room = *state;
    struct real_daemon daemon = begin(room);
    struct real_process *smi =
        launch(&daemon, "smi", "--query", "name,gpu_used", "--loop", "0.01", NULL);
    wait_for_lines(room, smi, 7);
    real_process_signal(smi, SIGINT);
    assert_int_equal(real_process_wait(smi), 0);
    /* The titles once. */
    assert_int_equal(real_lines_with(real_process_output(room, smi), "name,gpu_used"), 1);
    real_daemon_stop(&daemon);
}

static void test_a_loop_ends_with_3_and_a_sentence_when_the_daemon_goes_away(void **state)
{
    struct real_room *room = *state;
    struct real_daemon daemon = begin(room);
    struct real_process *smi = launch(&daemon, "smi", "--loop", "0.01", NULL);
    wait_for_lines(room, smi, 5);
    real_daemon_stop(&daemon);
    assert_int_equal(real_process_wait(smi), 3);
    assert_says(real_process_errors(room, smi), "worsegpu-cli: the daemon closed the connection");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_smi_shows_every_gpu_and_every_process),
        IN_ROOM(test_a_query_is_csv_with_plain_integers),
        IN_ROOM(test_a_query_is_json_when_that_is_asked_for),
        IN_ROOM(test_json_is_one_whole_document),
        IN_ROOM(test_an_unknown_field_gets_the_nearest_and_the_list),
        IN_ROOM(test_a_loop_goes_on_until_it_is_stopped),
        IN_ROOM(test_a_loop_ends_with_3_and_a_sentence_when_the_daemon_goes_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
