/* A recording under one policy, event by event (lab/timeline.h), and the columns of the page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lab/outputs/columns.h"
#include "lab/timeline.h"
#include "tests/support/chaos.h"
#include "tests/support/made_events.h"

#define MIB "1048576"

/* Two blocks of 1 MiB, the first one freed, then one that is too large for what is left of 4 MiB.
 */
#define LOG                                                                                        \
    "{\"operation\":\"allocate\",\"allocation_id\":1,\"requested_bytes\":" MIB                     \
    ",\"sequence\":1,\"time_us\":100}\n"                                                           \
    "{\"operation\":\"allocate\",\"allocation_id\":2,\"requested_bytes\":" MIB                     \
    ",\"sequence\":2,\"time_us\":150}\n"                                                           \
    "{\"operation\":\"free\",\"allocation_id\":1,\"sequence\":3,\"time_us\":130}\n"                \
    "{\"operation\":\"allocate\",\"allocation_id\":3,\"requested_bytes\":3000000,\"sequence\":4,"  \
    "\"time_us\":400}\n"                                                                           \
    "{\"operation\":\"free\",\"allocation_id\":2,\"sequence\":5,\"time_us\":500}\n"

struct seen {
    char text[2048];
    size_t length;
    uint64_t stop_after; /* rows that are taken; 0: all */
    uint64_t rows;
    bool ended;
};

static int see(void *context, const struct timeline_row *row)
{
    struct seen *seen = context;
    seen->length += (size_t)snprintf(
        seen->text + seen->length, sizeof(seen->text) - seen->length,
        "%" PRIu64 " at %" PRIu64 ": op %d id %" PRIu64 " place %d+%" PRIu64 ", live %" PRIu64
        " reserved %" PRIu64 " ooms %" PRIu64 " moves %zu\n",
        row->number, row->time_us, (int)row->operation, row->id, row->on_gpu ? 1 : 0, row->offset,
        row->live_bytes, row->memory.reserved_bytes, row->ooms, row->move_count);
    return ++seen->rows == seen->stop_after ? LOG_NO_FILE : LOG_FINE;
}

static int see_end(void *context, const struct timeline_end *end)
{
    struct seen *seen = context;
    seen->ended = true;
    for (size_t i = 0; i < end->slots; i++)
        assert_false(end->live[i].on_gpu);
    return LOG_FINE;
}

static int run(struct lab *lab, const struct events *events, const char *policy, struct seen *seen,
               struct timeline_sum *sum)
{
    const struct timeline timeline = {
        .lab = lab, .events = events, .policy = policy, .capacity_bytes = 4 << 20};
    const struct timeline_sink sink = {.context = seen, .row = see, .end = see_end};
    return timeline_run(&timeline, &sink, 1, sum);
}

static void test_each_event_is_told_with_the_memory_after_it(void **state)
{
    struct lab lab = {.memory = memory_system(), .output = {.errors = stderr}, .doing = ""};
    struct events *events = made_events(LOG);
    struct seen seen = {.length = 0};
    struct timeline_sum sum;
    (void)state;
    assert_int_equal(run(&lab, events, "list_fit fit=first", &seen, &sum), LOG_FINE);
    /* The third event is told at the time of the second one: its own lies before that. */
    assert_string_equal(
        seen.text,
        "1 at 0: op 0 id 1 place 1+0, live 1048576 reserved 1048576 ooms 0 moves 0\n"
        "2 at 50: op 0 id 2 place 1+1048576, live 2097152 reserved 2097152 ooms 0 moves 0\n"
        "3 at 50: op 1 id 1 place 1+0, live 1048576 reserved 2097152 ooms 0 moves 0\n"
        "4 at 300: op 0 id 3 place 0+0, live 1048576 reserved 2097152 ooms 1 moves 0\n"
        "5 at 400: op 1 id 2 place 1+1048576, live 0 reserved 2097152 ooms 1 moves 0\n");
    assert_true(seen.ended);
    assert_int_equal(sum.rows, 5);
    assert_int_equal(sum.ooms, 1);
    assert_int_equal(sum.first_oom, 4);
    assert_int_equal(sum.first_oom_bytes, 3000000);
    assert_int_equal(sum.peak_live, 2 << 20);
    assert_int_equal(sum.peak_live_event, 2);
    assert_int_equal(sum.end, 2 << 20);
    assert_int_equal(sum.span_us, 400);
    assert_int_equal(sum.live_at_end, 0);
    events_release(events);
}

static void test_what_the_policy_takes_from_its_device_is_told_with_the_event(void **state)
{
    struct lab lab = {.memory = memory_system(), .output = {.errors = stderr}, .doing = ""};
    struct events *events = made_events(LOG);
    struct seen seen = {.length = 0};
    struct timeline_sum sum;
    (void)state;
    assert_int_equal(run(&lab, events, "torch", &seen, &sum), LOG_FINE);
    /* One segment of 2 MiB for both; before it gives up it has nothing whole to give back. */
    assert_non_null(strstr(seen.text, "1 at 0: op 0 id 1 place 1+0, live 1048576 reserved 2097152 "
                                      "ooms 0 moves 1\n2 "));
    assert_int_equal(sum.moves, 1);
    events_release(events);
}

static void test_a_sink_that_fails_ends_the_run(void **state)
{
    struct lab lab = {.memory = memory_system(), .output = {.errors = stderr}, .doing = ""};
    struct events *events = made_events(LOG);
    struct seen seen = {.stop_after = 2};
    struct timeline_sum sum;
    (void)state;
    assert_int_equal(run(&lab, events, "torch", &seen, &sum), LOG_NO_FILE);
    assert_int_equal(seen.rows, 2);
    assert_false(seen.ended);
    events_release(events);
}

static void test_every_size_lies_in_its_class(void **state)
{
    size_t before = 0;
    (void)state;
    for (unsigned int bits = 0; bits < 53; bits++) {
        for (uint64_t part = 0; part < 16; part++) {
            uint64_t bytes = (UINT64_C(1) << bits) + ((part << bits) >> 4);
            size_t size_class = timeline_size_class(bytes);
            assert_true(size_class < TIMELINE_SIZE_CLASSES);
            assert_true(size_class >= before);
            assert_true(timeline_size_least(size_class) <= bytes);
            assert_true(timeline_size_least(size_class + 1) > bytes);
            assert_int_equal(timeline_size_class(timeline_size_least(size_class)), size_class);
            before = size_class;
        }
    }
}

/* ------------------------------------------------------------------------------ columns */

static char *written(const uint64_t *numbers, size_t count)
{
    struct column column = {0};
    char *text = NULL;
    size_t length = 0;
    struct output_file file = {.to = open_memstream(&text, &length)};
    assert_non_null(file.to);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(column_add(&column, memory_system(), numbers[i]), 0);
    column_write(&column, &file);
    column_release(&column, memory_system());
    fclose(file.to);
    return text;
}

static void test_a_column_is_differences_in_base64(void **state)
{
    /* +1, -1, +64 (two bytes), +2^53 - 65 (eight). */
    const uint64_t numbers[] = {1, 0, 64, (UINT64_C(1) << 53) - 1};
    (void)state;
    char *text = written(numbers, 3);
    assert_string_equal(text, "\"AgGAAQ==\"");
    free(text);
    text = written(numbers, 4);
    assert_string_equal(text, "\"AgGAAf7+//////8f\"");
    free(text);
    text = written(numbers, 0);
    assert_string_equal(text, "\"\"");
    free(text);
}

static bool run_without_memory(struct chaos *chaos, void *context)
{
    struct lab lab = {.memory = &chaos->memory, .output = {.errors = stderr}, .doing = ""};
    struct seen seen = {.length = 0};
    struct timeline_sum sum;
    int status = run(&lab, context, "torch", &seen, &sum);
    if (status != LOG_FINE)
        assert_int_equal(status, LOG_NO_MEMORY);
    return status == LOG_FINE;
}

static void test_running_out_of_memory_ends_the_run(void **state)
{
    struct events *events = made_events(LOG);
    (void)state;
    assert_true(chaos_loop(run_without_memory, events) > 0);
    events_release(events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_event_is_told_with_the_memory_after_it),
        cmocka_unit_test(test_what_the_policy_takes_from_its_device_is_told_with_the_event),
        cmocka_unit_test(test_a_sink_that_fails_ends_the_run),
        cmocka_unit_test(test_every_size_lies_in_its_class),
        cmocka_unit_test(test_a_column_is_differences_in_base64),
        cmocka_unit_test(test_running_out_of_memory_ends_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
