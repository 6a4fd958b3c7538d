/* worsegpu-lab explain: small stories worked out by hand, and torch's own sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "tests/support/real_process.h"

/* 30, 10, 30, 10 side by side, then both 30s freed: on 100 bytes first fit has pieces of 30, and 30
 * with the 20 behind... the second 10 lies between. 40 do not fit: the second 10 (event 4) and the
 * first (event 2) are in the way. The first 10 is never freed, the second one by event 8. */
#define PINS "+30,+10,+30,+10,-0,-2,+40,-3\n"

static const char *lab(struct real_room *room)
{
    return real_program(room, "worsegpu-lab");
}

static const char *log_of(struct real_room *room, const char *text)
{
    const char *path = real_room_path(room, "log");
    real_room_write(room, path, text);
    return path;
}

static const char *said(struct real_room *room, struct real_process *process)
{
    if (real_process_wait(process) != 0)
        fail_msg("%s", real_process_errors(room, process));
    return real_process_output(room, process);
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("not there: %s\n%s", part, text);
}

static cJSON *explained(struct real_room *room, const char *log, const char *capacity,
                        const char *policy)
{
    cJSON *document =
        cJSON_Parse(said(room, real_process_run(room, NULL, lab(room), "explain", log, "--capacity",
                                                capacity, "--policy", policy, "--json", NULL)));
    assert_non_null(document);
    return document;
}

static const cJSON *member(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!item)
        fail_msg("there is no %s", name);
    return item;
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *item = member(object, name);
    if (!cJSON_IsNumber(item))
        fail_msg("%s is no number", name);
    return item->valuedouble;
}

static void test_the_first_refusal_is_told_with_its_pieces(void **state)
{
    struct real_room *room = *state;
    cJSON *document = explained(room, log_of(room, PINS), "100", "list_fit fit=first");
    const cJSON *asked = member(document, "asked");
    const cJSON *memory = member(document, "memory");
    assert_true(cJSON_IsTrue(member(document, "out_of_memory")));
    assert_false(cJSON_IsTrue(member(document, "nothing_can_help")));
    assert_int_equal(number(asked, "requested_bytes"), 40);
    assert_int_equal(number(asked, "event"), 7);
    assert_int_equal(number(memory, "live_bytes"), 20);
    assert_int_equal(number(memory, "free_bytes"), 80);
    assert_int_equal(number(memory, "free_pieces"), 3);
    const cJSON *largest = member(memory, "largest_free_bytes");
    assert_int_equal(cJSON_GetArrayItem(largest, 0)->valuedouble, 30);
    assert_int_equal(cJSON_GetArrayItem(largest, 2)->valuedouble, 20);
    cJSON_Delete(document);
}

/* 0..30 free, 30..40 live since event 2 and for ever, 40..70 free, 70..80 live since event 4 until
 * event 8, 80..100 free. The first place that is large enough is 0..70 or 40..100: with 10 live
 * bytes each; the narrowest first one begins at 0. */
static void test_what_is_in_the_way_has_its_dates(void **state)
{
    struct real_room *room = *state;
    cJSON *document = explained(room, log_of(room, PINS), "100", "list_fit fit=first");
    const cJSON *way = member(document, "least_in_the_way");
    assert_int_equal(number(way, "live_bytes"), 10);
    assert_int_equal(number(way, "live_blocks"), 1);
    const cJSON *holder = cJSON_GetArrayItem(member(way, "largest_live"), 0);
    assert_int_equal(number(holder, "requested_bytes"), 10);
    assert_int_equal(number(holder, "allocated_at_event"), 2);
    assert_true(cJSON_IsNull(member(holder, "freed_at_event")));
    cJSON_Delete(document);
}

/* Until the third allocation there were 60 in one piece; the 30 at event 3 left 30 behind it, and
 * 30 at the front came back at event 5. */
static void test_where_it_went_wrong_is_the_last_event_that_could_have_served(void **state)
{
    struct real_room *room = *state;
    cJSON *document = explained(room, log_of(room, PINS), "100", "list_fit fit=first");
    const cJSON *wrong = member(document, "went_wrong");
    assert_int_equal(number(wrong, "event"), 3);
    assert_int_equal(number(wrong, "most_after_it_bytes"), 30);
    cJSON_Delete(document);
}

static void test_what_would_have_served_it_is_tried(void **state)
{
    struct real_room *room = *state;
    cJSON *document = explained(room, log_of(room, PINS), "100", "list_fit fit=first");
    assert_int_equal(number(document, "more_bytes"), 20);
    assert_int_equal(number(document, "smallest_device_bytes"), 120);
    const cJSON *other;
    int tried = 0;
    cJSON_ArrayForEach(other, member(document, "others"))
    {
        bool served = cJSON_IsTrue(member(other, "served"));
        assert_true(served == cJSON_IsNull(member(other, "refused_at_event")));
        assert_string_not_equal(cJSON_GetStringValue(member(other, "policy")), "reference");
        tried++;
    }
    assert_true(tried > 10);
    cJSON_Delete(document);
}

static void test_nothing_helps_where_live_memory_takes_the_room(void **state)
{
    struct real_room *room = *state;
    const char *log = log_of(room, "+60,+50\n");
    const char *text =
        said(room, real_process_run(room, NULL, lab(room), "explain", log, "--policy", "list_fit",
                                    "--capacity", "100", NULL));
    assert_says(text, "Nothing can help here");
    cJSON *document = explained(room, log, "100", "list_fit");
    assert_true(cJSON_IsTrue(member(document, "nothing_can_help")));
    assert_int_equal(number(document, "more_bytes"), 10);
    cJSON_Delete(document);
}

static void test_without_a_refusal_the_margin_is_told(void **state)
{
    struct real_room *room = *state;
    const char *log = log_of(room, "+60,+40\n");
    const char *text =
        said(room, real_process_run(room, NULL, lab(room), "explain", log, "--policy", "list_fit",
                                    "--capacity", "130", NULL));
    assert_says(text, "nothing runs out of memory");
    assert_says(text, "The margin is 30.0 B: the smallest device that will do has 100 bytes");
}

/* Worst fit: 17 bytes are enough, 21 are not, 22 are again; see test_fit_search.c. */
static void test_more_memory_that_is_worse_is_told(void **state)
{
    struct real_room *room = *state;
    const char *text =
        said(room, real_process_run(room, NULL, lab(room), "explain",
                                    log_of(room, "+9,+6,-1,+2,-0,+5,+6,-2,+6\n"), "--policy",
                                    "list_fit fit=worst", "--capacity", "21", NULL));
    assert_says(text, "even less, by chance: on 17 bytes");
    assert_says(text, "it refuses again on 21.0 B, but not from 22 bytes on");
}

/* torch flushes: 8 MiB in a segment of 20, freed and given back, 4 MiB in another one with 1 MiB
 * left over... The pin of 2 MiB holds a segment of 20. */
static void test_torch_tells_of_segments_that_something_holds(void **state)
{
    struct real_room *room = *state;
    const char *log = log_of(room, "+2097152,+9437184,-1,+33554432\n");
    cJSON *document = explained(room, log, "50MiB", "torch");
    assert_false(cJSON_IsTrue(member(document, "nothing_can_help")));
    assert_int_equal(number(document, "held_segments"), 1);
    assert_int_equal(number(document, "held_bytes"), 18 << 20);
    const cJSON *oldest = member(cJSON_GetArrayItem(member(document, "segments"), 0), "oldest");
    assert_int_equal(number(oldest, "allocated_at_event"), 1);
    assert_int_equal(number(member(document, "tried"), "retries"), 1);
    cJSON_Delete(document);
    const char *text = said(
        room, real_process_run(room, NULL, lab(room), "explain", log, "--capacity", "50MiB", NULL));
    assert_says(text, "18.0 MiB are free in 1 segment that cannot go back to the device");
    assert_says(text, "torch_expandable");
}

static void test_the_story_has_all_its_chapters(void **state)
{
    struct real_room *room = *state;
    static const char *const PARTS[] = {
        "out of memory",
        "What was asked for",
        "by event 7 of 8",
        "What there was",
        "map       [",
        "What holds the pieces apart",
        "there since event 2",
        "never freed",
        "What the policy tried",
        "Where it went wrong",
        "event 3, 4 events before the request: an allocation of 30 bytes",
        "What would have served it",
        "20 bytes more: on 120 bytes",
    };
    const char *text =
        said(room, real_process_run(room, NULL, lab(room), "explain", log_of(room, PINS),
                                    "--policy", "list_fit fit=first", "--capacity", "100", NULL));
    for (size_t i = 0; i < sizeof(PARTS) / sizeof(PARTS[0]); i++)
        assert_says(text, PARTS[i]);
}

/* ------------------------------------------------------------------------------ sentences */

#define SENTENCE                                                                                   \
    "CUDA out of memory. Tried to allocate 6.64 GiB. GPU 0 has a total capacity of 19.92 GiB of "  \
    "which 6.22 GiB is free. Of the allocated memory 5.34 GiB is allocated by PyTorch, and 7.10 "  \
    "GiB is reserved by PyTorch but unallocated."

static void test_a_sentence_is_explained_with_its_figures_cause_and_steps(void **state)
{
    struct real_room *room = *state;
    const char *text =
        said(room, real_process_run(room, NULL, lab(room), "explain", "--oom", SENTENCE, NULL));
    assert_says(text, "6.64 GiB");
    assert_says(text, "7.10 GiB");
    assert_says(text, "Fragmentation");
    assert_says(text, "1. PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
    cJSON *document = cJSON_Parse(said(room, real_process_run(room, NULL, lab(room), "explain",
                                                              "--json", "--oom", SENTENCE, NULL)));
    assert_string_equal(cJSON_GetStringValue(member(document, "cause")), "fragmentation");
    assert_true(number(document, "asked_bytes") == 7129645711.0);
    cJSON_Delete(document);
}

static void test_a_sentence_may_come_from_standard_input(void **state)
{
    struct real_room *room = *state;
    const char *path = real_room_path(room, "sentence");
    real_room_write(room, path, "RuntimeError: " SENTENCE "\n");
    const char *command = real_room_text(room, "\"$0\" explain --oom - <%s", path);
    const char *text =
        said(room, real_process_run(room, NULL, "/bin/sh", "-c", command, lab(room), NULL));
    assert_says(text, "Fragmentation");
}

static void test_an_unknown_sentence_shows_what_is_known(void **state)
{
    struct real_room *room = *state;
    struct real_process *process =
        real_process_run(room, NULL, lab(room), "explain", "--oom", "it broke", NULL);
    assert_int_equal(real_process_wait(process), 1);
    const char *errors = real_process_errors(room, process);
    assert_says(errors, "no sentence of torch");
    assert_says(errors, "HIP out of memory");
    assert_says(errors, "MPS backend out of memory");
}

static void refused(struct real_room *room, const char *one, const char *two, const char *part)
{
    struct real_process *process =
        real_process_run(room, NULL, lab(room), "explain", one, two, NULL);
    assert_int_equal(real_process_wait(process), 2);
    assert_says(real_process_errors(room, process), part);
}

static void test_what_is_missing_on_the_command_line_is_told(void **state)
{
    struct real_room *room = *state;
    refused(room, "--json", "log", "--capacity");
    refused(room, "--capacity", "5", "LOG");
    refused(room, "--capacity=0", "log", "from 1");
    refused(room, "log", "--oom=x", "without a LOG");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_the_first_refusal_is_told_with_its_pieces),
        IN_ROOM(test_what_is_in_the_way_has_its_dates),
        IN_ROOM(test_where_it_went_wrong_is_the_last_event_that_could_have_served),
        IN_ROOM(test_what_would_have_served_it_is_tried),
        IN_ROOM(test_nothing_helps_where_live_memory_takes_the_room),
        IN_ROOM(test_without_a_refusal_the_margin_is_told),
        IN_ROOM(test_more_memory_that_is_worse_is_told),
        IN_ROOM(test_torch_tells_of_segments_that_something_holds),
        IN_ROOM(test_the_story_has_all_its_chapters),
        IN_ROOM(test_a_sentence_is_explained_with_its_figures_cause_and_steps),
        IN_ROOM(test_a_sentence_may_come_from_standard_input),
        IN_ROOM(test_an_unknown_sentence_shows_what_is_known),
        IN_ROOM(test_what_is_missing_on_the_command_line_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
