/* The public cases (lab/cases.def): the story that each tells happens, to the allocation and the
 * byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lab/replay.h"
#include "tests/support/chaos.h"
#include "tests/support/made_events.h"

enum {
    WANTED_CASES = 15 /* of the 22 */
};

struct outcome {
    uint64_t refused; /* number of the first refused allocation */
    uint64_t refusals;
    uint64_t peak_reserved_bytes;
    uint64_t retries;
    uint64_t last_allocation;
    bool last_served;
};

static void play_event(struct replay *replay, const struct event *event, struct outcome *outcome)
{
    struct policy_measures now = {0};
    struct policy_placement placement;
    enum replay_result result;
    const char *broken = NULL;
    uint64_t scanned;
    assert_int_equal(replay_event(replay, event, &result, &placement, &scanned), 0);
    replay_operations(replay)->measure(replay_policy(replay), &now);
    if (now.reserved_bytes > outcome->peak_reserved_bytes)
        outcome->peak_reserved_bytes = now.reserved_bytes;
    outcome->retries = now.retries;
    if (event->operation == LOG_ALLOCATE) {
        outcome->last_allocation = event->id;
        outcome->last_served = result == REPLAY_PLACED;
    }
    if (result == REPLAY_REFUSED && outcome->refusals++ == 0)
        outcome->refused = event->id;
    assert_int_equal(replay_check(replay, &broken), 0);
    assert_null(broken);
}

static struct outcome play(const struct public_case *public_case, const struct case_run *run)
{
    const struct replay_choice choice = {.text = run->policy,
                                         .capacity_bytes = run->capacity_bytes};
    struct outcome outcome = {0};
    struct events_walk *walk;
    struct replay *replay;
    struct event event;
    char problem[REPLAY_PROBLEM_SIZE];
    size_t variant;
    assert_true(public_case_variant(public_case, run->variant, &variant));
    char *text = made_case_text(public_case, variant, GENERATE_TRACE, memory_system());
    struct events *events = made_events(text);
    assert_int_equal(replay_create(&choice, memory_system(), &replay, problem), 0);
    assert_int_equal(events_walk_begin(events, &walk), 0);
    while (events_walk_next(walk, &event) == LOG_FINE)
        play_event(replay, &event, &outcome);
    events_walk_end(walk);
    replay_destroy(replay);
    events_release(events);
    free(text);
    return outcome;
}

static const struct public_case *find(const char *name)
{
    const struct public_case *public_case = public_case_find(name);
    assert_non_null(public_case);
    return public_case;
}

/* ------------------------------------------------------------------------------ claims */

static void test_each_case_comes_out_as_its_table_claims(void **state)
{
    const struct public_case *public_case;
    unsigned wrong = 0;
    (void)state;
    for (size_t i = 0; (public_case = public_case_at(i)) != NULL; i++) {
        for (size_t k = 0; k < public_case_run_count(public_case); k++) {
            const struct case_run *run = &public_case->runs[k];
            struct outcome outcome = play(public_case, run);
            if (outcome.refused == run->refused && outcome.retries == run->retries &&
                outcome.peak_reserved_bytes == run->peak_reserved_bytes)
                continue;
            wrong++;
            print_error("%s, %s %s: refused %" PRIu64 ", peak %" PRIu64 ", retries %" PRIu64 "\n",
                        public_case->name, run->variant, run->policy, outcome.refused,
                        outcome.peak_reserved_bytes, outcome.retries);
        }
    }
    assert_int_equal(wrong, 0);
}

static void test_at_least_fifteen_of_the_public_cases_are_told(void **state)
{
    size_t count = 0;
    (void)state;
    while (public_case_at(count))
        count++;
    assert_true(count >= WANTED_CASES);
}

/* Whatever fails in one way of telling it, or under one policy, works in another. */
static void test_each_case_that_fails_has_a_cure_that_works(void **state)
{
    const struct public_case *public_case;
    (void)state;
    for (size_t i = 0; (public_case = public_case_at(i)) != NULL; i++) {
        uint64_t most = 0;
        uint64_t least = UINT64_MAX;
        bool refused = false;
        bool served = false;
        assert_true(public_case_run_count(public_case) >= 2);
        for (size_t k = 0; k < public_case_run_count(public_case); k++) {
            const struct case_run *run = &public_case->runs[k];
            refused |= run->refused != 0;
            served |= run->refused == 0;
            most = run->peak_reserved_bytes > most ? run->peak_reserved_bytes : most;
            least = run->peak_reserved_bytes < least ? run->peak_reserved_bytes : least;
        }
        assert_true(served);
        assert_true(refused || most > least);
    }
}

static void test_after_the_flush_the_very_next_try_succeeds(void **state)
{
    const struct public_case *public_case = find("retry-order");
    const struct case_run *again = &public_case->runs[1];
    (void)state;
    assert_string_equal(again->variant, "again");
    struct outcome outcome = play(public_case, again);
    assert_int_equal(outcome.refusals, 1);
    assert_int_equal(outcome.refused, outcome.last_allocation - 1);
    assert_true(outcome.last_served);
}

static void test_the_first_two_runs_in_the_pool_succeed(void **state)
{
    const struct public_case *public_case = find("third-run-fails");
    (void)state;
    struct outcome outcome = play(public_case, &public_case->runs[0]);
    /* Five requests a run. */
    assert_true(outcome.refused > 10 && outcome.refused <= 15);
}

static void test_both_orders_ask_for_the_same_sizes(void **state)
{
    const struct public_case *public_case = find("batch-order");
    uint64_t sums[2] = {0, 0};
    (void)state;
    for (size_t variant = 0; variant < 2; variant++) {
        char *text = made_case_text(public_case, variant, GENERATE_TRACE, memory_system());
        struct events *events = made_events(text);
        struct events_walk *walk;
        struct event event;
        assert_int_equal(events_walk_begin(events, &walk), 0);
        while (events_walk_next(walk, &event) == LOG_FINE)
            sums[variant] += event.operation == LOG_ALLOCATE ? event.bytes * event.bytes : 0;
        events_walk_end(walk);
        events_release(events);
        free(text);
    }
    assert_int_equal(sums[0], sums[1]);
}

static void test_an_unknown_variant_is_none_and_no_name_is_the_first(void **state)
{
    const struct public_case *public_case = find("batch-order");
    size_t variant = 9;
    (void)state;
    assert_false(public_case_variant(public_case, "small", &variant));
    assert_false(public_case_variant(find("split-large-block"), "small-first", &variant));
    assert_true(public_case_variant(public_case, "", &variant));
    assert_int_equal(variant, 0);
    assert_true(public_case_variant(public_case, "large-first", &variant));
    assert_int_equal(variant, 1);
}

static bool tell_without_memory(struct chaos *chaos, void *context)
{
    (void)context;
    char *text = made_case_text(find("retry-order"), 0, GENERATE_TRACE, &chaos->memory);
    bool told = text != NULL;
    free(text);
    return told;
}

static void test_a_case_without_memory_ends_cleanly(void **state)
{
    (void)state;
    assert_true(chaos_loop(tell_without_memory, NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_case_comes_out_as_its_table_claims),
        cmocka_unit_test(test_at_least_fifteen_of_the_public_cases_are_told),
        cmocka_unit_test(test_each_case_that_fails_has_a_cure_that_works),
        cmocka_unit_test(test_after_the_flush_the_very_next_try_succeeds),
        cmocka_unit_test(test_the_first_two_runs_in_the_pool_succeed),
        cmocka_unit_test(test_both_orders_ask_for_the_same_sizes),
        cmocka_unit_test(test_an_unknown_variant_is_none_and_no_name_is_the_first),
        cmocka_unit_test(test_a_case_without_memory_ends_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
