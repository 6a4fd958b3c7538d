/* worsegpu-cli with the models of caching allocators: knobs, streams, the cache, figures; and
 * traces that happen again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "tests/support/real_daemon.h"

enum {
    MOST_WORDS = 24
};

struct outcome {
    int status;
    const char *output;
    const char *errors;
};

/* Runs worsegpu-cli with --socket and these words, the last one NULL. */
__attribute__((sentinel)) static struct outcome run(const struct real_daemon *daemon,
                                                    const char *first, ...)
{
    const char *words[MOST_WORDS] = {real_program(daemon->room, "worsegpu-cli"), "--socket",
                                     daemon->socket_path};
    size_t count = 3;
    va_list list;
    va_start(list, first);
    for (const char *word = first; word; word = va_arg(list, const char *)) {
        assert_true(count < MOST_WORDS - 1);
        words[count++] = word;
    }
    va_end(list);
    struct real_process *process = real_process_start_list(daemon->room, NULL, words);
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

static struct real_daemon start_torch(struct real_room *room)
{
    return real_daemon_start(room, "--policy", "torch", "--knobs", "memory_fraction=0.5",
                             "--fallback-on-oom", "false", "--trace-limit", "100000", NULL);
}

/* ------------------------------------------------------------------------------ commands */

static void test_streams_and_the_cache_on_the_command_line(void **state)
{
    struct real_daemon daemon = start_torch(*state);
    assert_int_equal(run(&daemon, "alloc", "4096", "--stream", "1", NULL).status, 0);
    struct outcome outcome = run(&daemon, "record-stream", "1", "--stream", "2", NULL);
    assert_int_equal(outcome.status, 0);
    assert_says(outcome.output, "recorded");
    outcome = run(&daemon, "free", "1", "--stream", "1", NULL);
    assert_int_equal(outcome.status, 0);
    assert_says(run(&daemon, "snapshot", "--json", NULL).output, "\"gpu_pending\":4096");
    assert_says(run(&daemon, "snapshot", NULL).output, "\ngpu_pending ");
    outcome = run(&daemon, "event-done", "1", "--stream", "2", NULL);
    assert_int_equal(outcome.status, 0);
    assert_says(outcome.output, "done");
    outcome = run(&daemon, "empty-cache", NULL);
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.output, "2.0 MiB given back\n");
    outcome = run(&daemon, "trace", NULL);
    assert_says(outcome.output, "record_stream");
    assert_says(outcome.output, "1 oldest");
    assert_says(outcome.output, "empty_cache");
    real_daemon_stop(&daemon);
}

static void test_each_of_them_answers_in_json(void **state)
{
    struct real_daemon daemon = start_torch(*state);
    run(&daemon, "alloc", "4096", NULL);
    assert_string_equal(run(&daemon, "record-stream", "1", "--stream", "2", "--json", NULL).output,
                        "{\"allocation_id\":1,\"device\":\"gpu\",\"used\":true}\n");
    assert_string_equal(run(&daemon, "event-done", "--json", NULL).output,
                        "{\"stream\":0,\"used\":true}\n");
    assert_string_equal(run(&daemon, "empty-cache", "--json", NULL).output,
                        "{\"given_back\":0,\"used\":true}\n");
    cJSON *document = cJSON_Parse(run(&daemon, "statistics", "--json", NULL).output);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(document, "policy")),
                        "torch");
    cJSON_Delete(document);
    real_daemon_stop(&daemon);
}

static void test_statistics_is_a_table_of_figures(void **state)
{
    struct real_daemon daemon = start_torch(*state);
    run(&daemon, "alloc", "4096", NULL);
    struct outcome outcome = run(&daemon, "statistics", NULL);
    assert_int_equal(outcome.status, 0);
    assert_says(outcome.output, "policy: torch");
    assert_true(real_lines(outcome.output) > 8);
    real_daemon_stop(&daemon);
}

static void test_a_policy_without_streams_says_that_it_is_of_no_use(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    run(&daemon, "alloc", "4096", NULL);
    assert_says(run(&daemon, "record-stream", "1", NULL).output, "no use");
    assert_says(run(&daemon, "event-done", NULL).output, "no use");
    assert_says(run(&daemon, "empty-cache", NULL).output, "no use");
    assert_says(run(&daemon, "statistics", NULL).output, "policy: worse, which has no figures");
    real_daemon_stop(&daemon);
}

static void test_wrong_words_are_wrong_usage(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    assert_int_equal(run(&daemon, "alloc", "1", "--alignment", "12", NULL).status, 2);
    assert_int_equal(run(&daemon, "alloc", "1", "--alignment", "8589934592", NULL).status, 2);
    assert_int_equal(run(&daemon, "event-done", "0", NULL).status, 2);
    assert_int_equal(run(&daemon, "event-done", "many", NULL).status, 2);
    assert_int_equal(run(&daemon, "event-done", "--stream", "9007199254740992", NULL).status, 2);
    assert_int_equal(run(&daemon, "free", "--all-detached", "--stream", "1", NULL).status, 2);
    assert_int_equal(run(&daemon, "record-stream", NULL).status, 2);
    struct outcome outcome = run(&daemon, "record-stream", "7", NULL);
    assert_int_equal(outcome.status, 1);
    assert_says(outcome.errors, "7");
    real_daemon_stop(&daemon);
}

static void test_wrong_knobs_start_no_daemon_and_are_named(void **state)
{
    struct real_room *room = *state;
    struct real_process *process =
        real_process_run(room, NULL, real_program(room, "worsegpud"), "--policy", "torch",
                         "--knobs", "memory_fraction=9", NULL);
    assert_true(process->status != 0);
    const char *errors = real_process_errors(room, process);
    assert_says(errors, "knob memory_fraction of policy torch must be");
    assert_int_equal(real_lines(errors), 1);
}

static void test_a_configuration_file_has_knobs_for_each_gpu(void **state)
{
    struct real_room *room = *state;
    const char *path = real_room_path(room, "gpus.conf");
    real_room_write(room, path,
                    "[small]\npolicy = torch\nknobs = memory_fraction=0.25\n"
                    "[other]\npolicy = bfc\n");
    struct real_daemon daemon = real_daemon_start(room, "--config", path, NULL);
    struct outcome outcome = run(&daemon, "info", NULL);
    assert_int_equal(outcome.status, 0);
    assert_says(outcome.output, "memory_fraction=0.25");
    assert_says(run(&daemon, "statistics", "--allocator", "other", NULL).output, "policy: bfc");
    real_daemon_stop(&daemon);
}

/* ------------------------------------------------------------------------------ replay */

/* A script of random requests, of which some are refused. */
static const char *write_script(struct real_room *room)
{
    enum {
        REQUESTS = 4000,
        TAGS = 40
    };
    bool live[TAGS] = {false};
    uint64_t random = 12;
    const char *path = real_room_path(room, "script");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < REQUESTS; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        unsigned draw = (unsigned)(random >> 33);
        unsigned tag = draw % TAGS;
        unsigned stream = draw / TAGS % 3;
        unsigned what = draw / 7 % 20;
        if (what == 0)
            fprintf(file, "{\"method\":\"event_done\",\"params\":{\"stream\":%u}}\n", stream);
        else if (what == 1 && i % 5 == 0)
            fprintf(file, "{\"method\":\"empty_cache\"}\n");
        else if (live[tag] && what < 5)
            fprintf(file,
                    "{\"method\":\"record_stream\",\"params\":{\"tag\":\"t%u\",\"stream\":%u}}\n",
                    tag, stream);
        else if (live[tag])
            fprintf(file, "{\"method\":\"free\",\"params\":{\"tag\":\"t%u\"}}\n", tag);
        else
            fprintf(file,
                    "{\"method\":\"allocate\",\"params\":{\"tag\":\"t%u\",\"stream\":%u,"
                    "\"requested_bytes\":%u}}\n",
                    tag, stream, 1 + draw % (what < 10 ? 3000000u : 90000u));
        if (what > 4 || !live[tag])
            live[tag] = what == 0 || (what == 1 && i % 5 == 0) ? live[tag] : !live[tag];
    }
    assert_int_equal(fclose(file), 0);
    return path;
}

/* Takes out of an event what differs between two runs of the same. */
static void strip(cJSON *event)
{
    static const char *const names[] = {"time_us", "client", "tag", "name"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        cJSON_DeleteItemFromObjectCaseSensitive(event, names[i]);
}

static const char *trace_text(struct real_room *room, const struct real_daemon *daemon,
                              const char *name)
{
    struct outcome outcome = run(daemon, "trace", "--json", NULL);
    assert_int_equal(outcome.status, 0);
    const char *path = real_room_path(room, name);
    real_room_write(room, path, outcome.output);
    return path;
}

/* The events of both files, as far as they must agree, up to the end of the shorter one. */
static size_t assert_same_events(struct real_room *room, const char *left_path,
                                 const char *right_path)
{
    cJSON *left = cJSON_Parse(real_room_read(room, left_path));
    cJSON *right = cJSON_Parse(real_room_read(room, right_path));
    cJSON *one = cJSON_GetObjectItemCaseSensitive(left, "events")->child;
    cJSON *other = cJSON_GetObjectItemCaseSensitive(right, "events")->child;
    size_t count = 0;
    for (; one && other; one = one->next, other = other->next, count++) {
        strip(one);
        strip(other);
        if (!cJSON_Compare(one, other, true))
            fail_msg("event %zu differs: %s and %s", count, cJSON_PrintUnformatted(one),
                     cJSON_PrintUnformatted(other));
    }
    cJSON_Delete(left);
    cJSON_Delete(right);
    return count;
}

static void test_a_trace_happens_again_exactly(void **state)
{
    struct real_room *room = *state;
    struct real_daemon first = start_torch(room);
    struct outcome outcome = run(&first, "run", write_script(room), NULL);
    assert_int_equal(outcome.status, 1); /* some are refused */
    const char *recorded = trace_text(room, &first, "recorded");
    real_daemon_stop(&first);

    struct real_daemon second = start_torch(room);
    outcome = run(&second, "run", recorded, NULL);
    assert_int_equal(outcome.status, 0);
    assert_says(outcome.errors, "replayed ");
    const char *again = trace_text(room, &second, "again");
    assert_true(assert_same_events(room, recorded, again) > 3000);
    assert_says(run(&second, "validate", NULL).output, "valid");
    real_daemon_stop(&second);
}

/* The document as one event a line, without its frame. */
static const char *as_lines(struct real_room *room, const char *path)
{
    const char *lines = real_room_path(room, "lines");
    cJSON *document = cJSON_Parse(real_room_read(room, path));
    FILE *file = fopen(lines, "w");
    const cJSON *event;
    assert_non_null(file);
    cJSON_ArrayForEach(event, cJSON_GetObjectItemCaseSensitive(document, "events"))
    {
        char *text = cJSON_PrintUnformatted(event);
        fprintf(file, "%s\n", text);
        cJSON_free(text);
    }
    assert_int_equal(fclose(file), 0);
    cJSON_Delete(document);
    return lines;
}

static void test_lines_of_events_happen_again_in_the_allocator_that_is_named(void **state)
{
    struct real_room *room = *state;
    struct real_daemon first = start_torch(room);
    run(&first, "run", write_script(room), NULL);
    const char *recorded = trace_text(room, &first, "recorded");
    const char *config = real_room_path(room, "gpus.conf");
    real_daemon_stop(&first);
    real_room_write(room, config,
                    "[plain]\n"
                    "[torch]\npolicy = torch\nknobs = memory_fraction=0.5\n"
                    "fallback-on-oom = false\ntrace-limit = 100000\n");
    struct real_daemon second = real_daemon_start(room, "--config", config, NULL);
    struct outcome outcome =
        run(&second, "run", as_lines(room, recorded), "--allocator", "torch", "--json", NULL);
    assert_int_equal(outcome.status, 0);
    cJSON *document = cJSON_Parse(outcome.output);
    const cJSON *replayed = cJSON_GetObjectItemCaseSensitive(document, "replayed");
    assert_true(cJSON_GetObjectItemCaseSensitive(replayed, "events")->valuedouble > 3000);
    assert_true(cJSON_GetObjectItemCaseSensitive(replayed, "refused")->valueint == 0);
    assert_true(cJSON_GetObjectItemCaseSensitive(replayed, "unknown")->valueint == 0);
    cJSON_Delete(document);
    outcome = run(&second, "trace", "--allocator", "torch", "--json", NULL);
    const char *again = real_room_path(room, "again");
    real_room_write(room, again, outcome.output);
    assert_true(assert_same_events(room, recorded, again) > 3000);
    real_daemon_stop(&second);
}

static void test_what_the_trace_does_not_have_is_told_and_counted(void **state)
{
    struct real_room *room = *state;
    struct real_daemon daemon = start_torch(room);
    const char *path = real_room_path(room, "events");
    real_room_write(room, path,
                    "{\"operation\":\"free\",\"allocation_id\":4}\n"
                    "{\"missed\":9}\n"
                    "{\"operation\":\"allocate\",\"allocation_id\":5,\"requested_bytes\":10}\n"
                    "{\"operation\":\"fault\",\"action\":\"delay\",\"rule\":1}\n"
                    "{\"operation\":\"free\",\"allocation_id\":5}\n"
                    "{\"operation\":\"free\",\"allocation_id\":5}\n");
    struct outcome outcome = run(&daemon, "run", path, NULL);
    assert_int_equal(outcome.status, 0);
    assert_int_equal(real_lines(outcome.output), 2);
    assert_says(outcome.errors, "line 1: skipped: the trace has no live allocation 4");
    assert_says(outcome.errors, "line 6: skipped: the trace has no live allocation 5");
    assert_says(outcome.errors, "1 allocations, 0 of them refused; 1 frees");
    assert_says(outcome.errors, "skipped: 2 about allocations that the trace does not have");
    assert_says(outcome.errors, "9 events are missing");
    real_room_write(room, path, "{\"events\":[{\"operation\":\"allocate\",\"allocation_id\":5,");
    outcome = run(&daemon, "run", path, NULL);
    assert_int_equal(outcome.status, 1);
    assert_says(outcome.errors, "the trace ends within its events");
    real_daemon_stop(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_streams_and_the_cache_on_the_command_line),
        IN_ROOM(test_each_of_them_answers_in_json),
        IN_ROOM(test_statistics_is_a_table_of_figures),
        IN_ROOM(test_a_policy_without_streams_says_that_it_is_of_no_use),
        IN_ROOM(test_wrong_words_are_wrong_usage),
        IN_ROOM(test_wrong_knobs_start_no_daemon_and_are_named),
        IN_ROOM(test_a_configuration_file_has_knobs_for_each_gpu),
        IN_ROOM(test_a_trace_happens_again_exactly),
        IN_ROOM(test_lines_of_events_happen_again_in_the_allocator_that_is_named),
        IN_ROOM(test_what_the_trace_does_not_have_is_told_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
