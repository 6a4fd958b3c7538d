/* Knobs, streams, the cache and a policy's own figures through the public interface of the engine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "lib/allocator_internal.h"
#include "lib/policies/worse.h"
#include "tests/support/chaos.h"
#include "tests/support/engine.h"

#define MIB (UINT64_C(1) << 20)

enum {
    EVENTS = 512
};

static const struct worsegpu_teller teller = {.client = 7, .user = 8, .time_us = 9};

static worsegpu_allocator *create(const char *policy, const char *knobs)
{
    struct worsegpu_config config = engine_config("1");
    config.policy = policy;
    config.knobs = knobs;
    config.trace_limit = EVENTS;
    return engine_create(&config);
}

static struct worsegpu_event newest_event(worsegpu_allocator *allocator)
{
    struct worsegpu_snapshot snapshot;
    struct worsegpu_event event;
    size_t count;
    worsegpu_snapshot(allocator, &snapshot);
    assert_true(snapshot.last_sequence > 0);
    worsegpu_trace(allocator, snapshot.last_sequence - 1, &event, 1, &count, NULL, NULL);
    assert_int_equal(count, 1);
    return event;
}

/* ------------------------------------------------------------------------------ knobs */

static void test_knobs_are_copied(void **state)
{
    (void)state;
    char text[] = "memory_fraction=0.5";
    worsegpu_allocator *allocator = create("torch", text);
    memset(text, 'x', sizeof(text) - 1);
    assert_string_equal(worsegpu_configuration(allocator)->knobs, "memory_fraction=0.5");
    engine_allocate(allocator, 1000);
    engine_assert_valid(allocator);
    worsegpu_destroy(allocator);
}

static void test_no_knobs_are_the_empty_text(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = create("worse", NULL);
    assert_string_equal(worsegpu_configuration(allocator)->knobs, "");
    worsegpu_destroy(allocator);
}

static void test_knobs_are_obeyed(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = create("torch", "memory_fraction=0.25");
    struct worsegpu_allocation allocation;
    struct worsegpu_request request = engine_request(20 * MIB);
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
    assert_int_equal(allocation.device, WORSEGPU_CPU); /* a quarter of 64 MiB is too little */
    worsegpu_destroy(allocator);
}

static void assert_bad_knobs(const char *policy, const char *knobs, const char *says)
{
    struct worsegpu_config config = engine_config("1");
    const char *field = NULL;
    const char *expected = NULL;
    char problem[WORSEGPU_PROBLEM_SIZE];
    worsegpu_allocator *allocator = NULL;
    config.policy = policy;
    config.knobs = knobs;
    assert_int_equal(worsegpu_config_check(&config, &field, &expected), WORSEGPU_INVALID_ARGUMENT);
    assert_string_equal(field, "knobs");
    assert_int_equal(worsegpu_knobs_check(&config, problem), WORSEGPU_INVALID_ARGUMENT);
    if (!strstr(problem, says))
        fail_msg("'%s' does not say '%s'", problem, says);
    assert_int_equal(worsegpu_create(&config, &allocator), WORSEGPU_INVALID_ARGUMENT);
    assert_null(allocator);
}

static void test_a_wrong_knob_is_named_with_its_range(void **state)
{
    (void)state;
    assert_bad_knobs("worse", "speed=1", "'speed'");
    assert_bad_knobs("torch", "memory_fraction=2", "memory_fraction of policy torch must be");
    assert_bad_knobs("torch", "memory_fraction=2", "0 to 1");
    assert_bad_knobs("torch", "memory_fraction", "NAME=VALUE");
    assert_bad_knobs("torch", "memory_fraction=0.5 memory_fraction=0.5", "twice");
    assert_bad_knobs("worse", "a\n", "printable");
    assert_bad_knobs("worse", "\x7f", "printable");
    assert_bad_knobs("worse", "\xc3\xa4", "printable");
}

static void test_the_longest_knobs_are_read_and_longer_ones_are_not(void **state)
{
    (void)state;
    char text[WORSEGPU_MAX_KNOBS_BYTES + 2];
    memset(text, ' ', sizeof(text));
    text[WORSEGPU_MAX_KNOBS_BYTES] = '\0';
    worsegpu_allocator *allocator = create("reference", text);
    assert_string_equal(worsegpu_configuration(allocator)->knobs, text);
    worsegpu_destroy(allocator);
    text[WORSEGPU_MAX_KNOBS_BYTES] = ' ';
    text[WORSEGPU_MAX_KNOBS_BYTES + 1] = '\0';
    assert_bad_knobs("reference", text, "4096");
}

static void test_other_members_are_checked_before_the_knobs(void **state)
{
    (void)state;
    struct worsegpu_config config = engine_config("1");
    const char *field = NULL;
    config.knobs = "speed=1";
    config.gpu_capacity = 0;
    assert_int_equal(worsegpu_config_check(&config, &field, NULL), WORSEGPU_INVALID_ARGUMENT);
    assert_string_equal(field, "gpu_capacity");
}

static void test_the_knobs_of_each_policy_are_listed_with_their_defaults(void **state)
{
    (void)state;
    static const char *const types[] = {"bytes", "count", "number", "yesno", "choice", "text"};
    const char *policy;
    size_t listed = 0;
    for (size_t i = 0; (policy = worsegpu_policy_name(i)) != NULL; i++) {
        struct worsegpu_knob knob;
        size_t count = 0;
        for (; worsegpu_policy_knob(policy, count, &knob); count++) {
            char text[512];
            size_t type = 0;
            while (type < sizeof(types) / sizeof(types[0]) && strcmp(types[type], knob.type) != 0)
                type++;
            assert_true(type < sizeof(types) / sizeof(types[0]));
            assert_true((knob.choices != NULL) == (strcmp(knob.type, "choice") == 0));
            assert_true(strlen(knob.meaning) > 5);
            snprintf(text, sizeof(text), "%s=%s", knob.name, knob.default_text);
            worsegpu_destroy(create(policy, text));
            listed++;
        }
        assert_false(worsegpu_policy_knob(policy, count + 1, &knob));
        assert_false(worsegpu_policy_knob(policy, SIZE_MAX, &knob));
    }
    assert_true(listed > 3);
    assert_false(worsegpu_policy_knob("better", 0, &(struct worsegpu_knob){0}));
}

/* ------------------------------------------------------------------------------ requests */

static void test_an_alignment_is_a_power_of_two(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = create("worse", NULL);
    struct worsegpu_allocation allocation;
    struct worsegpu_request request = engine_request(100);
    static const uint64_t wrong[] = {3, 12, WORSEGPU_MAX_ALIGNMENT * 2, UINT64_MAX};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        request.alignment = wrong[i];
        assert_int_equal(worsegpu_allocate(allocator, &request, &allocation),
                         WORSEGPU_INVALID_ARGUMENT);
    }
    for (unsigned bit = 0; bit <= 32; bit++) {
        request.alignment = UINT64_C(1) << bit;
        request.upper = bit % 2 == 1;
        assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
        struct worsegpu_event event = newest_event(allocator);
        assert_int_equal(event.alignment, request.alignment);
        assert_int_equal(event.upper, request.upper);
    }
    request.alignment = 0;
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
    assert_int_equal(newest_event(allocator).alignment, 0);
    worsegpu_destroy(allocator);
}

static void test_an_alignment_reaches_the_policy(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = create("vma", NULL);
    struct worsegpu_allocation allocation;
    struct worsegpu_request request = engine_request(100);
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
    request.alignment = 65536;
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
    assert_int_equal(allocation.device, WORSEGPU_GPU);
    assert_int_equal(allocation.offset % 65536, 0);
    engine_assert_valid(allocator);
    worsegpu_destroy(allocator);
}

static void test_a_failure_keeps_its_stream_and_alignment(void **state)
{
    (void)state;
    struct worsegpu_config config = engine_config("1");
    struct worsegpu_allocation allocation;
    config.policy = "torch";
    config.gpu_capacity = MIB;
    config.fallback_on_oom = false;
    config.trace_limit = 4;
    worsegpu_allocator *allocator = engine_create(&config);
    struct worsegpu_request request = engine_request(100);
    request.stream = 3;
    request.stream_given = true;
    request.alignment = 64;
    request.upper = true;
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OUT_OF_MEMORY);
    struct worsegpu_event event = newest_event(allocator);
    assert_int_equal(event.operation, WORSEGPU_ALLOCATE_FAILED);
    assert_true(event.stream_given && event.stream == 3);
    assert_int_equal(event.alignment, 64);
    assert_true(event.upper);
    engine_assert_valid(allocator);
    worsegpu_destroy(allocator);
}

static void test_a_free_shows_the_stream_that_it_was_freed_on(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = create("rmm_pool", NULL);
    struct worsegpu_request request = engine_request(1000);
    struct worsegpu_allocation allocation;
    request.stream = 3;
    request.stream_given = true;
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
    struct worsegpu_freeing how = {.stream = 5, .stream_given = true, .client = 6, .time_us = 7};
    struct worsegpu_release release;
    assert_int_equal(worsegpu_free_on(allocator, &allocation.handle, &how, &release), WORSEGPU_OK);
    assert_true(release.released);
    struct worsegpu_event event = newest_event(allocator);
    assert_true(event.stream_given && event.stream == 5);
    assert_int_equal(event.client, 6);
    assert_int_equal(event.time_us, 7);
    assert_int_equal(worsegpu_free_on(allocator, &allocation.handle, &how, NULL),
                     WORSEGPU_UNKNOWN_HANDLE);

    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
    assert_int_equal(worsegpu_free(allocator, &allocation.handle, 0, 0, NULL), WORSEGPU_OK);
    assert_int_equal(newest_event(allocator).stream, 3);
    engine_assert_valid(allocator);
    worsegpu_destroy(allocator);
}

/* ------------------------------------------------------------------------------ telling */

static void test_a_policy_without_streams_is_told_in_vain_but_it_is_recorded(void **state)
{
    (void)state;
    struct worsegpu_config config = engine_config("5");
    config.trace_limit = EVENTS;
    worsegpu_allocator *told = engine_create(&config);
    worsegpu_allocator *twin = engine_create(&config);
    struct worsegpu_allocation allocation = engine_allocate(told, 5000);
    engine_allocate(twin, 5000);
    bool used = true;
    uint64_t given_back = 1;
    assert_int_equal(worsegpu_record_stream(told, &allocation.handle, 2, &teller, &used),
                     WORSEGPU_OK);
    assert_false(used);
    struct worsegpu_event event = newest_event(told);
    assert_int_equal(event.operation, WORSEGPU_RECORD_STREAM);
    assert_int_equal(event.allocation_id, allocation.handle.allocation_id);
    assert_true(event.stream_given && event.stream == 2);
    assert_int_equal(event.client, 7);
    assert_int_equal(event.time_us, 9);

    used = true;
    worsegpu_event_done(told, 4, 3, true, &teller, &used);
    assert_false(used);
    event = newest_event(told);
    assert_int_equal(event.operation, WORSEGPU_EVENT_DONE);
    assert_true(event.stream_given && event.stream == 4);
    assert_int_equal(event.count, 3);
    assert_int_equal(event.requested_bytes, 0);
    assert_true(event.newest);
    assert_int_equal(event.user, 8);
    worsegpu_event_done(told, 4, WORSEGPU_ALL_EVENTS, false, &teller, NULL);
    assert_true(newest_event(told).count == WORSEGPU_ALL_EVENTS);

    used = true;
    worsegpu_empty_cache(told, &teller, &given_back, &used);
    assert_false(used);
    assert_int_equal(given_back, 0);
    assert_int_equal(newest_event(told).operation, WORSEGPU_EMPTY_CACHE);
    worsegpu_empty_cache(told, &teller, NULL, NULL);
    engine_assert_valid(told);

    /* No draw was spent on it. */
    for (int i = 0; i < 50; i++) {
        struct worsegpu_allocation left = engine_allocate(told, 777);
        struct worsegpu_allocation right = engine_allocate(twin, 777);
        assert_int_equal(left.offset, right.offset);
        assert_int_equal(left.device, right.device);
    }
    worsegpu_destroy(told);
    worsegpu_destroy(twin);
}

static void test_telling_of_an_unknown_handle_changes_nothing(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = create("torch", NULL);
    struct worsegpu_allocation allocation = engine_allocate(allocator, 5000);
    struct engine_state before;
    struct engine_state after;
    engine_look(allocator, &before);
    allocation.handle.secret[3] ^= 1;
    assert_int_equal(worsegpu_record_stream(allocator, &allocation.handle, 2, &teller, NULL),
                     WORSEGPU_UNKNOWN_HANDLE);
    engine_look(allocator, &after);
    engine_assert_same(&before, &after, false);
    worsegpu_destroy(allocator);
}

static void test_an_allocation_on_the_host_has_no_streams(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = create("torch", NULL);
    struct worsegpu_request request = engine_request(5000);
    struct worsegpu_allocation allocation;
    request.force_host = true;
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
    bool used = true;
    assert_int_equal(worsegpu_record_stream(allocator, &allocation.handle, 2, &teller, &used),
                     WORSEGPU_OK);
    assert_false(used);
    assert_int_equal(newest_event(allocator).device, WORSEGPU_CPU);
    engine_assert_valid(allocator);
    worsegpu_destroy(allocator);
}

static uint64_t pending(worsegpu_allocator *allocator)
{
    struct worsegpu_snapshot snapshot;
    worsegpu_snapshot(allocator, &snapshot);
    return snapshot.gpu_pending;
}

static void test_a_recorded_stream_holds_a_freed_block_until_its_event_is_done(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = create("torch", NULL);
    struct worsegpu_allocation first = engine_allocate(allocator, 4096);
    bool used = false;
    assert_int_equal(worsegpu_record_stream(allocator, &first.handle, 2, &teller, &used),
                     WORSEGPU_OK);
    assert_true(used);
    assert_int_equal(worsegpu_free(allocator, &first.handle, 0, 0, NULL), WORSEGPU_OK);
    assert_int_equal(pending(allocator), 4096);
    engine_assert_valid(allocator);
    struct worsegpu_allocation second = engine_allocate(allocator, 4096);
    assert_int_not_equal(second.offset, first.offset);
    used = false;
    worsegpu_event_done(allocator, 2, 1, false, &teller, &used);
    assert_true(used);
    struct worsegpu_allocation third = engine_allocate(allocator, 4096);
    assert_int_equal(third.offset, first.offset);
    assert_int_equal(pending(allocator), 0);
    engine_assert_valid(allocator);
    worsegpu_destroy(allocator);
}

static void test_an_emptied_cache_goes_back_to_the_device(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = create("torch", NULL);
    struct worsegpu_snapshot snapshot;
    struct worsegpu_allocation small = engine_allocate(allocator, 4096);
    struct worsegpu_allocation large = engine_allocate(allocator, 30 * MIB);
    worsegpu_snapshot(allocator, &snapshot);
    assert_int_equal(snapshot.gpu_reserved, 32 * MIB);
    assert_int_equal(snapshot.gpu_segments, 2);
    assert_int_equal(snapshot.device_calls, 2);
    assert_int_equal(worsegpu_free(allocator, &large.handle, 0, 0, NULL), WORSEGPU_OK);
    bool used = false;
    uint64_t given_back = 0;
    worsegpu_empty_cache(allocator, &teller, &given_back, &used);
    assert_true(used);
    assert_int_equal(given_back, 30 * MIB);
    worsegpu_snapshot(allocator, &snapshot);
    assert_int_equal(snapshot.gpu_reserved, 2 * MIB);
    assert_int_equal(snapshot.gpu_segments, 1);
    assert_int_equal(snapshot.device_calls, 3);
    assert_int_equal(worsegpu_free(allocator, &small.handle, 0, 0, NULL), WORSEGPU_OK);
    engine_assert_valid(allocator);
    worsegpu_destroy(allocator);
}

/* One record_stream whose memory fails at some point. */
static bool record_under_chaos(struct chaos *chaos, void *context)
{
    (void)context;
    struct worsegpu_config config = engine_config("1");
    config.policy = "torch";
    config.trace_limit = EVENTS;
    config.memory = &chaos->memory;
    worsegpu_allocator *allocator;
    if (worsegpu_create(&config, &allocator) != WORSEGPU_OK)
        return false;
    struct worsegpu_allocation allocation;
    struct worsegpu_request request = engine_request(4096);
    struct engine_state before;
    struct engine_state after;
    bool done = worsegpu_allocate(allocator, &request, &allocation) == WORSEGPU_OK;
    for (uint64_t stream = 1; done && stream < 40; stream++) {
        engine_look(allocator, &before);
        int status = worsegpu_record_stream(allocator, &allocation.handle, stream, &teller, NULL);
        done = status == WORSEGPU_OK;
        if (done)
            continue;
        assert_int_equal(status, WORSEGPU_NO_MEMORY);
        engine_look(allocator, &after);
        engine_assert_same(&before, &after, false);
    }
    if (done)
        assert_int_equal(worsegpu_free(allocator, &allocation.handle, 0, 0, NULL), WORSEGPU_OK);
    worsegpu_destroy(allocator);
    return done;
}

static void test_telling_without_memory_changes_nothing(void **state)
{
    (void)state;
    assert_true(chaos_loop(record_under_chaos, NULL) > 0);
}

/* ------------------------------------------------------------------------------ figures */

struct told {
    size_t figures;
    bool segments_seen;
};

static void see_count(void *context, const char *name, uint64_t value)
{
    struct told *told = context;
    (void)value;
    assert_true(strlen(name) > 0);
    told->figures++;
}

static void see_number(void *context, const char *name, double value)
{
    (void)value;
    see_count(context, name, 0);
}

static void see_none(void *context, const char *name)
{
    see_count(context, name, 0);
}

static void see_values(void *context, const char *name, const uint64_t *values, size_t count)
{
    assert_true(values || count == 0);
    see_count(context, name, 0);
}

static size_t count_figures(worsegpu_allocator *allocator)
{
    struct told told = {0};
    const struct worsegpu_figures figures = {&told, see_count, see_number, see_none, see_values};
    bool has = worsegpu_statistics(allocator, &figures);
    assert_int_equal(has, told.figures > 0);
    return told.figures;
}

static void test_a_model_tells_its_own_figures_and_worse_has_none(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = create("torch", NULL);
    engine_allocate(allocator, 5000);
    assert_true(count_figures(allocator) > 5);
    worsegpu_destroy(allocator);
    allocator = create("worse", NULL);
    assert_int_equal(count_figures(allocator), 0);
    worsegpu_destroy(allocator);
}

static void test_a_counter_has_no_largest_free_block(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = create("reference", NULL);
    uint64_t bytes = 5;
    assert_false(worsegpu_largest_free(allocator, &bytes));
    assert_int_equal(bytes, 0);
    worsegpu_destroy(allocator);
}

static uint64_t naive_largest(worsegpu_allocator *allocator)
{
    const struct worse_policy *worse = (const struct worse_policy *)allocator->policy;
    uint64_t largest = 0;
    for (size_t i = 0; i < worse->blocks; i++) {
        uint64_t size = worse->states[i] & WORSE_SIZE_BITS;
        if (worse->states[i] >> WORSE_STATE_SHIFT == WORSE_FREE && size > largest)
            largest = size;
    }
    return largest;
}

/* Asked now and then, so that it is sometimes fresh and sometimes not. */
static void check_largest(enum worsegpu_scan scan)
{
    enum {
        LIVE = 64
    };
    struct worsegpu_config config = engine_config("3");
    config.scan = scan;
    config.gpu_probability = 1;
    config.forget_probability = 0.05;
    config.gpu_capacity = 4 * MIB;
    worsegpu_allocator *allocator = engine_create(&config);
    struct worsegpu_allocation live[LIVE];
    size_t count = 0;
    uint64_t random = 5;
    uint64_t seen_largest = 0;
    for (int step = 0; step < 20000; step++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t draw = random >> 33;
        if (count < LIVE && (count == 0 || draw % 2 == 0)) {
            live[count++] = engine_allocate(allocator, 1 + draw % 40000);
        } else {
            size_t victim = draw % count;
            worsegpu_free(allocator, &live[victim].handle, 0, 0, NULL);
            live[victim] = live[--count];
        }
        if (draw % 7 > 2)
            continue;
        uint64_t largest;
        assert_true(worsegpu_largest_free(allocator, &largest));
        assert_int_equal(largest, naive_largest(allocator));
        seen_largest = largest > seen_largest ? largest : seen_largest;
    }
    assert_true(seen_largest > 30000);
    worsegpu_destroy(allocator);
}

static void test_the_largest_free_block_is_that_of_a_look_at_all(void **state)
{
    (void)state;
    check_largest(WORSEGPU_SCAN_ACCOUNTED);
    check_largest(WORSEGPU_SCAN_WALKED);
}

/* ------------------------------------------------------------------------------ every policy */

struct worker {
    worsegpu_allocator *allocator;
    struct worsegpu_allocation live[48];
    size_t count;
    uint64_t random;
};

static uint64_t draw(struct worker *worker, uint64_t below)
{
    worker->random = worker->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (worker->random >> 33) % below;
}

static void work(struct worker *worker)
{
    worsegpu_allocator *allocator = worker->allocator;
    uint64_t what = draw(worker, 100);
    uint64_t stream = draw(worker, 4);
    if (worker->count == 0 || (what < 48 && worker->count < 48)) {
        struct worsegpu_request request =
            engine_request(1 + (draw(worker, 4) ? draw(worker, 9000) : draw(worker, 3 * MIB)));
        request.stream = stream;
        request.stream_given = stream > 0;
        request.alignment = draw(worker, 8) == 0 ? UINT64_C(1) << draw(worker, 14) : 0;
        request.upper = draw(worker, 8) == 0;
        int status = worsegpu_allocate(allocator, &request, &worker->live[worker->count]);
        assert_true(status == WORSEGPU_OK || status == WORSEGPU_OUT_OF_MEMORY);
        worker->count += status == WORSEGPU_OK;
        return;
    }
    size_t victim = draw(worker, worker->count);
    const struct worsegpu_handle *handle = &worker->live[victim].handle;
    if (what >= 97) {
        worsegpu_empty_cache(allocator, &teller, NULL, NULL);
    } else if (what >= 93) {
        uint64_t count = draw(worker, 3) == 0 ? WORSEGPU_ALL_EVENTS : 1 + draw(worker, 2);
        worsegpu_event_done(allocator, stream, count, draw(worker, 4) == 0, &teller, NULL);
    } else if (what >= 85) {
        assert_int_equal(worsegpu_record_stream(allocator, handle, stream, &teller, NULL),
                         WORSEGPU_OK);
    } else {
        struct worsegpu_freeing how = {.stream = stream, .stream_given = draw(worker, 3) == 0};
        assert_int_equal(worsegpu_free_on(allocator, handle, &how, NULL), WORSEGPU_OK);
        worker->live[victim] = worker->live[--worker->count];
    }
}

static worsegpu_allocator *create_small(const char *policy, uint64_t seed)
{
    struct worsegpu_config config = engine_config("11");
    config.policy = policy;
    config.gpu_capacity = 24 * MIB;
    config.fallback_on_oom = seed % 2 == 0;
    config.trace_limit = WORSEGPU_MAX_TRACE_LIMIT / 100;
    return engine_create(&config);
}

static void test_every_policy_keeps_its_accounts_under_random_use(void **state)
{
    (void)state;
    const char *policy;
    for (size_t i = 0; (policy = worsegpu_policy_name(i)) != NULL; i++) {
        for (uint64_t seed = 1; seed <= 4; seed++) {
            struct worker worker = {.allocator = create_small(policy, seed), .random = seed};
            for (int step = 0; step < 1500; step++) {
                struct worsegpu_snapshot snapshot;
                uint64_t largest;
                work(&worker);
                worsegpu_snapshot(worker.allocator, &snapshot);
                bool has = worsegpu_largest_free(worker.allocator, &largest);
                assert_true(snapshot.gpu_used + snapshot.gpu_free + snapshot.gpu_forgotten ==
                            snapshot.gpu_reserved);
                assert_true(snapshot.gpu_pending <= snapshot.gpu_free);
                assert_true(!has || largest <= snapshot.gpu_capacity);
                if (step % 50 == 0)
                    engine_assert_valid(worker.allocator);
            }
            worsegpu_destroy(worker.allocator);
        }
    }
}

/* Does again what an event tells. `handles` are those of the second allocator, by id. */
static void do_again(worsegpu_allocator *allocator, const struct worsegpu_event *event,
                     struct worsegpu_handle *handles)
{
    struct worsegpu_allocation allocation;
    struct worsegpu_request request = {
        .requested_bytes = event->requested_bytes,
        .stream = event->stream,
        .stream_given = event->stream_given,
        .alignment = event->alignment,
        .upper = event->upper,
    };
    struct worsegpu_freeing how = {.stream = event->stream, .stream_given = event->stream_given};
    switch (event->operation) {
    case WORSEGPU_ALLOCATE:
        assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
        assert_int_equal(allocation.handle.allocation_id, event->allocation_id);
        handles[event->allocation_id] = allocation.handle;
        break;
    case WORSEGPU_ALLOCATE_FAILED:
        assert_int_equal(worsegpu_allocate(allocator, &request, &allocation),
                         WORSEGPU_OUT_OF_MEMORY);
        break;
    case WORSEGPU_FREE:
        assert_int_equal(worsegpu_free_on(allocator, &handles[event->allocation_id], &how, NULL),
                         WORSEGPU_OK);
        break;
    case WORSEGPU_RECORD_STREAM:
        assert_int_equal(worsegpu_record_stream(allocator, &handles[event->allocation_id],
                                                event->stream, &teller, NULL),
                         WORSEGPU_OK);
        break;
    case WORSEGPU_EVENT_DONE:
        worsegpu_event_done(allocator, event->stream, event->count, event->newest, &teller, NULL);
        break;
    case WORSEGPU_EMPTY_CACHE:
        worsegpu_empty_cache(allocator, &teller, NULL, NULL);
        break;
    case WORSEGPU_FAULT:
    case WORSEGPU_OPERATIONS:
        fail_msg("not in this trace");
        break;
    }
}

/* The same accounts, and the same live allocations in the same places. */
static void assert_alike(worsegpu_allocator *left, worsegpu_allocator *right)
{
    struct worsegpu_snapshot one;
    struct worsegpu_snapshot other;
    struct worsegpu_allocation live[2][64];
    size_t count[2];
    bool more;
    worsegpu_snapshot(left, &one);
    worsegpu_snapshot(right, &other);
    assert_int_equal(one.gpu_reserved, other.gpu_reserved);
    assert_int_equal(one.gpu_free, other.gpu_free);
    assert_int_equal(one.gpu_pending, other.gpu_pending);
    assert_int_equal(one.device_calls, other.device_calls);
    assert_int_equal(one.blocks_scanned, other.blocks_scanned);
    assert_int_equal(one.last_sequence, other.last_sequence);
    worsegpu_list(left, 0, live[0], 64, &count[0], &more);
    worsegpu_list(right, 0, live[1], 64, &count[1], &more);
    assert_int_equal(count[0], count[1]);
    for (size_t i = 0; i < count[0]; i++) {
        assert_int_equal(live[0][i].offset, live[1][i].offset);
        assert_int_equal(live[0][i].block_index, live[1][i].block_index);
        assert_int_equal(live[0][i].reserved_bytes, live[1][i].reserved_bytes);
    }
}

static void test_a_trace_replays_exactly_with_every_policy(void **state)
{
    (void)state;
    enum {
        STEPS = 2000
    };
    static struct worsegpu_event events[STEPS];
    static struct worsegpu_handle handles[STEPS + 1];
    const char *policy;
    for (size_t i = 0; (policy = worsegpu_policy_name(i)) != NULL; i++) {
        struct worker worker = {.allocator = create_small(policy, i), .random = i + 77};
        worsegpu_allocator *again = create_small(policy, i);
        size_t count;
        for (int step = 0; step < STEPS; step++)
            work(&worker);
        worsegpu_trace(worker.allocator, 0, events, STEPS, &count, NULL, NULL);
        assert_int_equal(count, STEPS);
        for (size_t k = 0; k < count; k++)
            do_again(again, &events[k], handles);
        assert_alike(worker.allocator, again);
        worsegpu_destroy(worker.allocator);
        worsegpu_destroy(again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_knobs_are_copied),
        cmocka_unit_test(test_no_knobs_are_the_empty_text),
        cmocka_unit_test(test_knobs_are_obeyed),
        cmocka_unit_test(test_a_wrong_knob_is_named_with_its_range),
        cmocka_unit_test(test_the_longest_knobs_are_read_and_longer_ones_are_not),
        cmocka_unit_test(test_other_members_are_checked_before_the_knobs),
        cmocka_unit_test(test_the_knobs_of_each_policy_are_listed_with_their_defaults),
        cmocka_unit_test(test_an_alignment_is_a_power_of_two),
        cmocka_unit_test(test_an_alignment_reaches_the_policy),
        cmocka_unit_test(test_a_failure_keeps_its_stream_and_alignment),
        cmocka_unit_test(test_a_free_shows_the_stream_that_it_was_freed_on),
        cmocka_unit_test(test_a_policy_without_streams_is_told_in_vain_but_it_is_recorded),
        cmocka_unit_test(test_telling_of_an_unknown_handle_changes_nothing),
        cmocka_unit_test(test_an_allocation_on_the_host_has_no_streams),
        cmocka_unit_test(test_a_recorded_stream_holds_a_freed_block_until_its_event_is_done),
        cmocka_unit_test(test_an_emptied_cache_goes_back_to_the_device),
        cmocka_unit_test(test_telling_without_memory_changes_nothing),
        cmocka_unit_test(test_a_model_tells_its_own_figures_and_worse_has_none),
        cmocka_unit_test(test_a_counter_has_no_largest_free_block),
        cmocka_unit_test(test_the_largest_free_block_is_that_of_a_look_at_all),
        cmocka_unit_test(test_every_policy_keeps_its_accounts_under_random_use),
        cmocka_unit_test(test_a_trace_replays_exactly_with_every_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
