/* The made-up workloads (lab/shapes.def): each shows what its table says it shows, and the same
 * seed gives the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/demo_steps.h"
#include "base/memory.h"
#include "lab/replay.h"
#include "tests/support/chaos.h"
#include "tests/support/made_events.h"

#define MIB (UINT64_C(1024) * 1024)

/* A shape by name with NAME=VALUE words, the last one NULL. */
static char *make_text(const char *name, const char *const *words, const char *seed,
                       enum generate_form form)
{
    const struct shape *shape = shape_find(name);
    uint64_t values[SHAPE_MOST_PARAMETERS];
    char problem[SHAPE_PROBLEM_SIZE] = "";
    size_t count = 0;
    while (words && words[count])
        count++;
    assert_non_null(shape);
    if (!shape_read(shape, words, count, values, problem))
        fail_msg("%s", problem);
    char *text = made_shape_text(shape, values, seed, form, memory_system());
    assert_non_null(text);
    return text;
}

static struct events *make(const char *name, const char *const *words)
{
    char *text = make_text(name, words, "7", GENERATE_TRACE);
    struct events *events = made_events(text);
    free(text);
    return events;
}

/* Calls `look` with each event. */
static void each_event(const struct events *events,
                       void (*look)(const struct event *event, void *context), void *context)
{
    struct events_walk *walk;
    struct event event;
    assert_int_equal(events_walk_begin(events, &walk), 0);
    while (events_walk_next(walk, &event) == LOG_FINE)
        look(&event, context);
    events_walk_end(walk);
}

static void refuses(const char *name, const char *word, const char *sentence)
{
    uint64_t values[SHAPE_MOST_PARAMETERS];
    char problem[SHAPE_PROBLEM_SIZE] = "";
    assert_false(shape_read(shape_find(name), &word, 1, values, problem));
    assert_string_equal(problem, sentence);
}

/* ------------------------------------------------------------------------------ all of them */

static void test_the_same_seed_gives_the_same_bytes_in_each_form(void **state)
{
    const struct shape *shape;
    (void)state;
    for (size_t i = 0; (shape = shape_at(i)) != NULL; i++) {
        for (int form = 0; form < GENERATE_FORMS; form++) {
            char *first = make_text(shape->name, NULL, "-12", (enum generate_form)form);
            char *second = make_text(shape->name, NULL, "-12", (enum generate_form)form);
            assert_string_equal(first, second);
            free(first);
            free(second);
        }
    }
}

static void test_another_seed_gives_another_run_where_something_is_drawn(void **state)
{
    static const char *const drawn[] = {"training",      "kv_cache", "leak",
                                        "near_capacity", "race",     "random"};
    (void)state;
    for (size_t i = 0; i < sizeof(drawn) / sizeof(drawn[0]); i++) {
        char *first = make_text(drawn[i], NULL, "1", GENERATE_TRACE);
        char *second = make_text(drawn[i], NULL, "2", GENERATE_TRACE);
        assert_string_not_equal(first, second);
        free(first);
        free(second);
    }
}

static void sum_up(const struct event *event, void *context)
{
    uint64_t *sum = context;
    *sum = *sum * 31 + (uint64_t)event->operation * 7 + event->id * 3 + event->bytes;
}

static void test_rmms_log_tells_the_same_run_as_the_trace(void **state)
{
    const struct shape *shape;
    (void)state;
    for (size_t i = 0; (shape = shape_at(i)) != NULL; i++) {
        uint64_t sums[2] = {0, 0};
        for (int k = 0; k < 2; k++) {
            char *text = make_text(shape->name, NULL, "3", k == 0 ? GENERATE_TRACE : GENERATE_RMM);
            struct events *events = made_events(text);
            assert_string_equal(events_facts(events)->log.format,
                                k == 0 ? "worsegpu-trace" : "rmm-csv");
            each_event(events, sum_up, &sums[k]);
            events_release(events);
            free(text);
        }
        assert_int_equal(sums[0], sums[1]);
    }
}

static void test_every_free_finds_its_allocation(void **state)
{
    const struct shape *shape;
    (void)state;
    for (size_t i = 0; (shape = shape_at(i)) != NULL; i++) {
        struct events *events = make(shape->name, NULL);
        const struct events_facts *facts = events_facts(events);
        assert_true(facts->count[LOG_ALLOCATE] > 0);
        assert_int_equal(facts->unknown_frees, 0);
        assert_int_equal(facts->doubled, 0);
        events_release(events);
    }
}

static void test_values_out_of_their_range_are_refused_with_the_range(void **state)
{
    (void)state;
    refuses("pins", "pairs=0", "pairs of pins is a whole number from 1 to 1000000, not '0'");
    refuses("pins", "large=1", "large of pins is a size from 2 to 1TiB, not '1'");
    refuses("pins", "large=2TiB", "large of pins is a size from 2 to 1TiB, not '2TiB'");
    refuses("pins", "pairs=4KiB", "pairs of pins is a whole number from 1 to 1000000, not '4KiB'");
    refuses("pins", "pairs=", "pairs of pins is a whole number from 1 to 1000000, not ''");
}

static void test_words_that_set_nothing_are_refused(void **state)
{
    (void)state;
    refuses("pins", "large", "'large' sets nothing: parameters are written NAME=VALUE");
    refuses("pins", "=3", "'=3' sets nothing: parameters are written NAME=VALUE");
    refuses("pins", "larg=3", "pins has no parameter 'larg'; did you mean 'large'?");
    refuses("pins", "q=3", "pins has no parameter 'q'; `worsegpu-lab list shapes` shows them");
}

static void test_the_least_values_of_each_shape_make_a_run(void **state)
{
    const struct shape *shape;
    (void)state;
    for (size_t i = 0; (shape = shape_at(i)) != NULL; i++) {
        uint64_t values[SHAPE_MOST_PARAMETERS] = {0};
        for (size_t k = 0; k < shape_parameter_count(shape); k++)
            values[k] = shape->parameters[k].least;
        char *text = made_shape_text(shape, values, "0", GENERATE_TRACE, memory_system());
        struct events *events = made_events(text);
        assert_true(events_facts(events)->events > 0);
        events_release(events);
        free(text);
    }
}

static bool tell_without_memory(struct chaos *chaos, void *context)
{
    const struct shape *shape = *(const struct shape **)context;
    uint64_t values[SHAPE_MOST_PARAMETERS];
    char problem[SHAPE_PROBLEM_SIZE];
    assert_true(shape_read(shape, NULL, 0, values, problem));
    char *text = made_shape_text(shape, values, "0", GENERATE_RMM, &chaos->memory);
    bool told = text != NULL;
    free(text);
    return told;
}

static void test_a_workload_without_memory_ends_cleanly(void **state)
{
    (void)state;
    for (size_t i = 0; shape_at(i); i++) {
        const struct shape *shape = shape_at(i);
        assert_true(chaos_loop(tell_without_memory, &shape) > 0);
    }
}

/* ------------------------------------------------------------------------------ each of them */

struct demo_look {
    uint64_t step;
    uint64_t freed;
};

static void look_at_demo(const struct event *event, void *context)
{
    struct demo_look *look = context;
    if (event->operation == LOG_ALLOCATE) {
        look->step++;
        assert_int_equal(event->bytes, demo_steps_bytes(look->step));
    } else {
        assert_int_equal(event->id, demo_steps_frees(look->step, look->freed));
        look->freed = event->id;
    }
}

static void test_demo_asks_for_what_the_reference_asks_for(void **state)
{
    const char *const words[] = {"steps=300", NULL};
    struct demo_look look = {0};
    struct events *events = make("demo", words);
    (void)state;
    each_event(events, look_at_demo, &look);
    assert_int_equal(look.step, 300);
    /* In steps 6, 9, ... 300: more than three are live in each of them. */
    assert_int_equal(look.freed, 99);
    events_release(events);
}

static void test_training_leaves_weights_and_the_optimizers_state(void **state)
{
    const char *const words[] = {"steps=4", "layers=5", "weights=3MiB", NULL};
    struct events *events = make("training", words);
    (void)state;
    /* Weights, and two states of each. */
    assert_int_equal(events_facts(events)->live_at_end, 15);
    events_release(events);
}

static void test_a_kv_cache_grows_by_whole_chunks_and_ends_empty(void **state)
{
    const char *const words[] = {"sequences=20", "at_once=3", "chunk=16", "token=1KiB", NULL};
    struct events *events = make("kv_cache", words);
    (void)state;
    assert_int_equal(events_facts(events)->live_at_end, 0);
    /* While a cache is copied, its old self is there too. */
    assert_int_equal(events_facts(events)->peak_live, 4);
    events_release(events);
}

static void test_a_growing_batch_peaks_at_its_largest(void **state)
{
    const char *const words[] = {"batches=5", "step=10MiB", "layers=3", "rounds=3", NULL};
    struct events *events = make("growing_batch", words);
    (void)state;
    assert_int_equal(events_facts(events)->peak_bytes, UINT64_C(200) * MIB);
    assert_int_equal(events_facts(events)->count[LOG_ALLOCATE], 3 * 5 * 4);
    events_release(events);
}

/* How many requests are refused. */
static uint64_t refusals(const struct events *events, const char *policy, uint64_t capacity_bytes,
                         uint64_t *reserved_bytes)
{
    const struct replay_choice choice = {.text = policy, .capacity_bytes = capacity_bytes};
    struct policy_measures now = {0};
    struct events_walk *walk;
    struct replay *replay;
    struct event event;
    char problem[REPLAY_PROBLEM_SIZE];
    uint64_t refused = 0;
    assert_int_equal(replay_create(&choice, memory_system(), &replay, problem), 0);
    assert_int_equal(events_walk_begin(events, &walk), 0);
    while (events_walk_next(walk, &event) == LOG_FINE) {
        struct policy_placement placement;
        enum replay_result result;
        uint64_t scanned;
        assert_int_equal(replay_event(replay, &event, &result, &placement, &scanned), 0);
        refused += result == REPLAY_REFUSED;
    }
    replay_operations(replay)->measure(replay_policy(replay), &now);
    if (reserved_bytes)
        *reserved_bytes = now.reserved_bytes;
    events_walk_end(walk);
    replay_destroy(replay);
    return refused;
}

static void test_pins_keep_a_large_request_out_although_half_the_device_is_free(void **state)
{
    const char *const words[] = {"pairs=32", "large=64MiB", "small=2MiB", NULL};
    struct events *events = make("pins", words);
    (void)state;
    assert_int_equal(refusals(events, "list_fit", UINT64_C(32) * 66 * MIB, NULL), 1);
    assert_int_equal(
        refusals(events, "list_fit", UINT64_C(32) * 66 * MIB + UINT64_C(128) * MIB, NULL), 0);
    events_release(events);
}

static void test_one_shot_streams_strand_a_segment_each(void **state)
{
    const char *const words[] = {"streams=9", "bytes=100MiB", NULL};
    struct events *events = make("one_shot_streams", words);
    uint64_t reserved_bytes;
    (void)state;
    assert_int_equal(refusals(events, "torch", 10240 * MIB, &reserved_bytes), 0);
    assert_int_equal(reserved_bytes, 900 * MIB);
    events_release(events);
}

static void test_a_leak_loses_one_block_every_so_often(void **state)
{
    const char *const words[] = {"steps=100", "every=7", NULL};
    struct events *events = make("leak", words);
    (void)state;
    assert_int_equal(events_facts(events)->live_at_end, 14);
    events_release(events);
}

static void test_near_capacity_fails_where_the_block_left_behind_lies_in_the_way(void **state)
{
    const char *const words[] = {"capacity=1GiB", "percent=95", NULL};
    struct events *events = make("near_capacity", words);
    (void)state;
    assert_int_equal(events_facts(events)->live_at_end, 2);
    assert_int_equal(refusals(events, "reference", 1024 * MIB, NULL), 0);
    assert_int_equal(refusals(events, "list_fit", 1024 * MIB, NULL), 1);
    events_release(events);
}

static uint64_t bytes_asked(const char *process)
{
    const char *const words[] = {process, NULL};
    struct events *events = make("race", words);
    uint64_t sum = 0;
    struct events_walk *walk;
    struct event event;
    assert_int_equal(events_walk_begin(events, &walk), 0);
    while (events_walk_next(walk, &event) == LOG_FINE)
        sum += event.operation == LOG_ALLOCATE ? event.bytes : 0;
    events_walk_end(walk);
    events_release(events);
    return sum;
}

static void test_the_two_sides_of_a_race_add_up_to_it(void **state)
{
    uint64_t first = bytes_asked("process=1");
    uint64_t second = bytes_asked("process=2");
    (void)state;
    assert_true(first > 0 && second > 0);
    assert_int_equal(first + second, bytes_asked("process=0"));
}

static void test_one_process_of_a_race_gets_the_last_memory(void **state)
{
    struct events *events = make("race", NULL);
    (void)state;
    assert_int_equal(refusals(events, "list_fit", 1024 * MIB, NULL), 1);
    events_release(events);
}

static void test_rmms_log_names_the_processes_of_a_race_as_threads(void **state)
{
    char *text = make_text("race", NULL, "0", GENERATE_RMM);
    (void)state;
    assert_non_null(strstr(text, "\n1,"));
    assert_non_null(strstr(text, "\n2,"));
    free(text);
}

static void test_random_allocates_in_73_of_100_events_below_its_cap(void **state)
{
    const char *const words[] = {"events=20000", "largest=1MiB", "cap=1TiB", NULL};
    const char *const capped[] = {"events=20000", "largest=1MiB", "cap=8MiB", NULL};
    struct events *events = make("random", words);
    uint64_t allocations = events_facts(events)->count[LOG_ALLOCATE];
    (void)state;
    /* Of 20,000; four times the deviation that chance has. */
    assert_in_range(allocations, 14600 - 252, 14600 + 252);
    assert_int_equal(events_facts(events)->live_at_end, 0);
    events_release(events);
    events = make("random", capped);
    assert_true(events_facts(events)->peak_bytes <= 8 * MIB);
    events_release(events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_seed_gives_the_same_bytes_in_each_form),
        cmocka_unit_test(test_another_seed_gives_another_run_where_something_is_drawn),
        cmocka_unit_test(test_rmms_log_tells_the_same_run_as_the_trace),
        cmocka_unit_test(test_every_free_finds_its_allocation),
        cmocka_unit_test(test_values_out_of_their_range_are_refused_with_the_range),
        cmocka_unit_test(test_words_that_set_nothing_are_refused),
        cmocka_unit_test(test_the_least_values_of_each_shape_make_a_run),
        cmocka_unit_test(test_a_workload_without_memory_ends_cleanly),
        cmocka_unit_test(test_demo_asks_for_what_the_reference_asks_for),
        cmocka_unit_test(test_training_leaves_weights_and_the_optimizers_state),
        cmocka_unit_test(test_a_kv_cache_grows_by_whole_chunks_and_ends_empty),
        cmocka_unit_test(test_a_growing_batch_peaks_at_its_largest),
        cmocka_unit_test(test_pins_keep_a_large_request_out_although_half_the_device_is_free),
        cmocka_unit_test(test_one_shot_streams_strand_a_segment_each),
        cmocka_unit_test(test_a_leak_loses_one_block_every_so_often),
        cmocka_unit_test(test_near_capacity_fails_where_the_block_left_behind_lies_in_the_way),
        cmocka_unit_test(test_the_two_sides_of_a_race_add_up_to_it),
        cmocka_unit_test(test_one_process_of_a_race_gets_the_last_memory),
        cmocka_unit_test(test_rmms_log_names_the_processes_of_a_race_as_threads),
        cmocka_unit_test(test_random_allocates_in_73_of_100_events_below_its_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
