/* Events of a trace as requests (client/cli/replay.h), and a document of events as lines
 * (client/cli/trace_lines.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "client/cli/replay.h"
#include "client/cli/trace_lines.h"
#include "tests/support/chaos.h"

struct scene {
    struct replay replay;
    struct json_document document;
    struct json_document answer;
    struct json_writer out;
    uint64_t line;
    char problem[REPLAY_PROBLEM_SIZE];
    char text[512]; /* the request */
};

static bool begin(struct scene *scene, const struct worsegpu_memory *memory)
{
    *scene = (struct scene){.line = 0};
    json_document_init(&scene->document, memory);
    json_document_init(&scene->answer, memory);
    json_writer_init(&scene->out, memory, SIZE_MAX / 2);
    return replay_init(&scene->replay, memory) == 0;
}

static void end(struct scene *scene)
{
    replay_release(&scene->replay);
    json_writer_release(&scene->out);
    json_document_release(&scene->answer);
    json_document_release(&scene->document);
}

static enum replay_verdict judge(struct scene *scene, const char *line)
{
    scene->text[0] = '\0';
    if (json_document_read(&scene->document, line, strlen(line)) != STRICT_JSON_FINE)
        return REPLAY_NO_MEMORY;
    enum replay_verdict verdict = replay_judge(&scene->replay, &scene->document, ++scene->line,
                                               NULL, &scene->out, scene->problem);
    if (verdict == REPLAY_SEND || verdict == REPLAY_SEND_FIRST) {
        snprintf(scene->text, sizeof(scene->text), "%.*s", (int)scene->out.length, scene->out.data);
        replay_note_sent(&scene->replay);
    }
    return verdict;
}

/* Whether the answer is as the trace has it. */
static bool answer(struct scene *scene, const char *text)
{
    assert_int_equal(json_document_read(&scene->answer, text, strlen(text)), STRICT_JSON_FINE);
    return replay_note_answer(&scene->replay, scene->answer.root);
}

#define GIVEN(handle) "{\"id\":1,\"result\":{\"handle\":\"" handle "\"}}"
#define DONE "{\"id\":1,\"result\":{}}"
#define FULL "{\"id\":1,\"error\":{\"code\":1,\"data\":{\"kind\":\"out_of_memory\"}}}"
#define OTHER "{\"id\":1,\"error\":{\"code\":6,\"data\":{\"kind\":\"limit_exceeded\"}}}"
#define ALLOCATE(id) "{\"operation\":\"allocate\",\"allocation_id\":" #id ",\"requested_bytes\":10}"
#define FREE(id) "{\"operation\":\"free\",\"allocation_id\":" #id ",\"released\":true}"

static void test_an_allocation_is_asked_for_and_its_free_names_the_new_handle(void **state)
{
    struct scene scene;
    (void)state;
    assert_true(begin(&scene, memory_system()));
    assert_int_equal(judge(&scene, "{\"operation\":\"allocate\",\"allocation_id\":7,"
                                   "\"requested_bytes\":10,\"reserved_bytes\":256,\"device\":"
                                   "\"gpu\",\"tag\":\"t\",\"client\":3,\"sequence\":1,"
                                   "\"stream\":3,\"alignment\":64,\"upper\":true}"),
                     REPLAY_SEND);
    assert_string_equal(scene.text,
                        "{\"id\":\"line-1\",\"method\":\"allocate\",\"params\":{"
                        "\"requested_bytes\":10,\"stream\":3,\"alignment\":64,\"upper\":true}}");
    answer(&scene, GIVEN("5-ff"));
    assert_int_equal(judge(&scene, "{\"operation\":\"free\",\"allocation_id\":7,\"stream\":4}"),
                     REPLAY_SEND);
    assert_string_equal(scene.text, "{\"id\":\"line-2\",\"method\":\"free\",\"params\":{"
                                    "\"handle\":\"5-ff\",\"stream\":4}}");
    answer(&scene, DONE);
    assert_int_equal(scene.replay.used, 0);
    assert_int_equal(judge(&scene, FREE(7)), REPLAY_NOTE);
    assert_non_null(strstr(scene.problem, "7"));
    assert_int_equal(scene.replay.counts.unknown, 1);
    assert_int_equal(scene.replay.counts.allocations, 1);
    assert_int_equal(scene.replay.counts.frees, 1);
    assert_int_equal(scene.replay.counts.events, 3);
    end(&scene);
}

static void test_a_free_waits_for_the_answer_to_its_allocation(void **state)
{
    struct scene scene;
    (void)state;
    assert_true(begin(&scene, memory_system()));
    assert_int_equal(judge(&scene, ALLOCATE(1)), REPLAY_SEND);
    assert_int_equal(judge(&scene, ALLOCATE(2)), REPLAY_SEND);
    assert_int_equal(judge(&scene, FREE(2)), REPLAY_WAIT);
    answer(&scene, GIVEN("1-aa"));
    assert_int_equal(judge(&scene, FREE(2)), REPLAY_WAIT);
    answer(&scene, GIVEN("2-bb"));
    assert_int_equal(judge(&scene, FREE(2)), REPLAY_SEND);
    assert_non_null(strstr(scene.text, "2-bb"));
    end(&scene);
}

static void test_what_is_about_a_refused_allocation_is_passed_over(void **state)
{
    struct scene scene;
    (void)state;
    assert_true(begin(&scene, memory_system()));
    judge(&scene, ALLOCATE(1));
    assert_false(answer(&scene, FULL)); /* the trace has it as given */
    assert_int_equal(judge(&scene, "{\"operation\":\"record_stream\",\"allocation_id\":1,"
                                   "\"stream\":2}"),
                     REPLAY_SKIP);
    assert_int_equal(judge(&scene, FREE(1)), REPLAY_SKIP);
    assert_int_equal(scene.replay.counts.refused, 1);
    assert_int_equal(scene.replay.counts.without, 2);
    assert_int_equal(scene.replay.used, 0);
    end(&scene);
}

static void test_a_failure_of_the_trace_is_asked_for_and_is_no_error(void **state)
{
    static const char failed[] = "{\"operation\":\"allocate_failed\",\"requested_bytes\":99}";
    struct scene scene;
    (void)state;
    assert_true(begin(&scene, memory_system()));
    assert_int_equal(judge(&scene, failed), REPLAY_SEND);
    assert_true(answer(&scene, FULL));
    judge(&scene, failed);
    assert_false(answer(&scene, OTHER));
    judge(&scene, failed);
    assert_false(answer(&scene, GIVEN("1-aa")));
    assert_int_equal(scene.replay.counts.given_instead, 1);
    assert_int_equal(scene.replay.counts.refused, 0);
    end(&scene);
}

static void test_what_was_told_is_told_again(void **state)
{
    struct scene scene;
    (void)state;
    assert_true(begin(&scene, memory_system()));
    judge(&scene, ALLOCATE(1));
    answer(&scene, GIVEN("1-aa"));
    assert_int_equal(judge(&scene, "{\"operation\":\"record_stream\",\"allocation_id\":1,"
                                   "\"device\":\"gpu\",\"stream\":2}"),
                     REPLAY_SEND);
    assert_string_equal(scene.text, "{\"id\":\"line-2\",\"method\":\"record_stream\",\"params\":{"
                                    "\"handle\":\"1-aa\",\"stream\":2}}");
    assert_int_equal(
        judge(&scene, "{\"operation\":\"event_done\",\"count\":3,\"newest\":true,\"stream\":2}"),
        REPLAY_SEND);
    assert_string_equal(scene.text, "{\"id\":\"line-3\",\"method\":\"event_done\",\"params\":{"
                                    "\"stream\":2,\"count\":3,\"newest\":true}}");
    assert_int_equal(judge(&scene, "{\"operation\":\"empty_cache\"}"), REPLAY_SEND);
    assert_string_equal(scene.text, "{\"id\":\"line-4\",\"method\":\"empty_cache\",\"params\":{}}");
    assert_int_equal(scene.replay.counts.others, 3);
    end(&scene);
}

static void test_an_id_that_is_live_already_is_freed_first(void **state)
{
    struct scene scene;
    (void)state;
    assert_true(begin(&scene, memory_system()));
    judge(&scene, ALLOCATE(1));
    assert_int_equal(judge(&scene, ALLOCATE(1)), REPLAY_WAIT);
    answer(&scene, GIVEN("1-aa"));
    assert_int_equal(judge(&scene, ALLOCATE(1)), REPLAY_SEND_FIRST);
    assert_non_null(strstr(scene.text, "\"method\":\"free\",\"params\":{\"handle\":\"1-aa\"}"));
    assert_int_equal(judge(&scene, ALLOCATE(1)), REPLAY_SEND);
    answer(&scene, DONE);
    answer(&scene, GIVEN("2-bb"));
    assert_int_equal(judge(&scene, FREE(1)), REPLAY_SEND);
    assert_non_null(strstr(scene.text, "2-bb"));
    end(&scene);
}

static void test_requests_and_strangers_are_left_as_they_are(void **state)
{
    static const char *const plain[] = {
        "{\"method\":\"info\"}",
        "{\"method\":\"allocate\",\"operation\":\"allocate\"}",
        "[]",
        "7",
        "{}",
        "{\"operation\":7}",
    };
    struct scene scene;
    (void)state;
    assert_true(begin(&scene, memory_system()));
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        assert_int_equal(judge(&scene, plain[i]), REPLAY_PLAIN);
    assert_int_equal(scene.replay.counts.events, 0);
    end(&scene);
}

static void test_events_that_cannot_be_are_wrong(void **state)
{
    static const char *const wrong[] = {
        "{\"operation\":\"allocate\",\"requested_bytes\":10}",
        "{\"operation\":\"allocate\",\"allocation_id\":0,\"requested_bytes\":10}",
        "{\"operation\":\"allocate\",\"allocation_id\":\"1\",\"requested_bytes\":10}",
        "{\"operation\":\"allocate\",\"allocation_id\":1}",
        "{\"operation\":\"allocate_failed\"}",
        "{\"operation\":\"explode\"}",
    };
    struct scene scene;
    (void)state;
    assert_true(begin(&scene, memory_system()));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(judge(&scene, wrong[i]), REPLAY_WRONG);
    assert_int_equal(judge(&scene, "{\"operation\":\"fault\",\"action\":\"delay\"}"), REPLAY_SKIP);
    assert_int_equal(scene.replay.counts.faults, 1);
    assert_int_equal(judge(&scene, "{\"missed\":12}"), REPLAY_NOTE);
    assert_int_equal(scene.replay.counts.missed, 12);
    end(&scene);
}

/* Random allocations and frees against a plain array: the table keeps what is live, and no more. */
static void test_the_table_keeps_what_is_live(void **state)
{
    enum {
        IDS = 600,
        STEPS = 30000
    };
    bool live[IDS + 1] = {false};
    struct scene scene;
    size_t count = 0;
    uint64_t random = 1;
    (void)state;
    assert_true(begin(&scene, memory_system()));
    for (int step = 0; step < STEPS; step++) {
        char line[128];
        char handle[64];
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        unsigned id = 1 + (unsigned)(random >> 33) % IDS;
        snprintf(handle, sizeof(handle), "\"handle\":\"%u-aa\"", id);
        if (live[id]) {
            snprintf(line, sizeof(line), "{\"operation\":\"free\",\"allocation_id\":%u}", id);
            assert_int_equal(judge(&scene, line), REPLAY_SEND);
            assert_non_null(strstr(scene.text, handle));
            answer(&scene, DONE);
            count--;
        } else {
            snprintf(line, sizeof(line),
                     "{\"operation\":\"allocate\",\"allocation_id\":%u,\"requested_bytes\":1}", id);
            assert_int_equal(judge(&scene, line), REPLAY_SEND);
            snprintf(line, sizeof(line), "{\"id\":1,\"result\":{%s}}", handle);
            answer(&scene, line);
            count++;
        }
        live[id] = !live[id];
        assert_int_equal(scene.replay.used, count);
    }
    assert_true(scene.replay.capacity <= 2048);
    end(&scene);
}

static bool replay_under_chaos(struct chaos *chaos, void *context)
{
    struct scene scene;
    bool done = begin(&scene, &chaos->memory);
    (void)context;
    chaos_hook_cjson(chaos);
    for (unsigned id = 1; done && id <= 200; id++) {
        char line[128];
        size_t used = scene.replay.used;
        snprintf(line, sizeof(line),
                 "{\"operation\":\"allocate\",\"allocation_id\":%u,\"requested_bytes\":1}", id);
        done = judge(&scene, line) == REPLAY_SEND;
        assert_int_equal(scene.replay.used, used + done);
        if (done)
            done = json_document_read(&scene.answer, GIVEN("1-aa"), strlen(GIVEN("1-aa"))) ==
                   STRICT_JSON_FINE;
        if (done)
            replay_note_answer(&scene.replay, scene.answer.root);
    }
    end(&scene);
    chaos_hook_cjson(NULL);
    return done;
}

static void test_without_memory_nothing_is_entered(void **state)
{
    (void)state;
    assert_true(chaos_loop(replay_under_chaos, NULL) > 3);
}

/* ------------------------------------------------------------------------------ documents */

/* Cuts `text` in pieces of `piece` bytes and joins what comes out. */
static void cut(const char *text, size_t piece, char *result, bool *unfinished)
{
    char room[TRACE_LINES_ROOM + 4096];
    struct trace_lines lines;
    size_t length;
    size_t made = 0;
    trace_lines_init(&lines);
    for (size_t at = 0, all = strlen(text); at < all; at += piece) {
        length = all - at < piece ? all - at : piece;
        memcpy(room + TRACE_LINES_ROOM, text + at, length);
        const char *start = trace_lines_cut(&lines, room + TRACE_LINES_ROOM, &length);
        assert_true(start >= room);
        memcpy(result + made, start, length);
        made += length;
    }
    *unfinished = trace_lines_unfinished(&lines);
    const char *rest = trace_lines_rest(&lines, &length);
    memcpy(result + made, rest, length);
    result[made + length] = '\0';
}

static void assert_cut(const char *text, const char *expected, bool unfinished)
{
    char result[4096];
    bool is_unfinished;
    for (size_t piece = 1; piece <= strlen(text) + 1; piece++) {
        cut(text, piece, result, &is_unfinished);
        assert_string_equal(result, expected);
        assert_int_equal(is_unfinished, unfinished);
    }
}

static void test_a_document_of_events_becomes_lines(void **state)
{
    (void)state;
    assert_cut("{\"events\":[{\"a\":1,\"b\":[2,3]},{\"c\":\"],}{\\\"\\\\\"}],\"next\":7}\n",
               "{\"a\":1,\"b\":[2,3]}\n{\"c\":\"],}{\\\"\\\\\"}\n", false);
    assert_cut("{\"events\":[],\"next\":7,\"more\":false}\n", "\n", false);
    assert_cut(" { \"events\" :\n [ {\"a\":\n 1}\n,\n{\"b\":2} ] , \"next\":7 }\n{\"c\":3}\n",
               " {\"a\":  1} \n {\"b\":2} \n{\"c\":3}\n", false);
}

static void test_everything_else_passes_as_it_is(void **state)
{
    static const char *const texts[] = {
        "",
        "{",
        "{\"even",
        "\n\n{\"id\":1}\n",
        "{\"event\":[1]}\n",
        "{\"operation\":\"free\"}\n{\"events\":[{\"a\":1}]}\n",
        "                                                  {\"events\":[1]}\n",
        "{\"eventsx\":[1]}\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_cut(texts[i], texts[i], false);
}

static void test_a_document_that_is_cut_off_is_noticed(void **state)
{
    (void)state;
    assert_cut("{\"events\":[{\"a\":1},{\"b\":", "{\"a\":1}\n{\"b\":", true);
    assert_cut("{\"events\":[", "", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_allocation_is_asked_for_and_its_free_names_the_new_handle),
        cmocka_unit_test(test_a_free_waits_for_the_answer_to_its_allocation),
        cmocka_unit_test(test_what_is_about_a_refused_allocation_is_passed_over),
        cmocka_unit_test(test_a_failure_of_the_trace_is_asked_for_and_is_no_error),
        cmocka_unit_test(test_what_was_told_is_told_again),
        cmocka_unit_test(test_an_id_that_is_live_already_is_freed_first),
        cmocka_unit_test(test_requests_and_strangers_are_left_as_they_are),
        cmocka_unit_test(test_events_that_cannot_be_are_wrong),
        cmocka_unit_test(test_the_table_keeps_what_is_live),
        cmocka_unit_test(test_without_memory_nothing_is_entered),
        cmocka_unit_test(test_a_document_of_events_becomes_lines),
        cmocka_unit_test(test_everything_else_passes_as_it_is),
        cmocka_unit_test(test_a_document_that_is_cut_off_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
