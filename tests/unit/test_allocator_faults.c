/* What somebody may do on purpose to a running allocator: forget a block for certain, change the
 * capacity, note a fault in the trace. None of it touches the random stream. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/allocator_internal.h"
#include "lib/worsegpu.h"
#include "tests/support/engine.h"

static const char *const policies[] = {"worse", "reference"};

/* All on the GPU, nothing forgotten by itself. */
static worsegpu_allocator *on_the_gpu(const char *policy, uint64_t capacity)
{
    struct worsegpu_config config = engine_config("5");
    config.policy = policy;
    config.gpu_probability = 1;
    config.forget_probability = 0;
    config.gpu_capacity = capacity;
    config.trace_limit = ENGINE_SEEN;
    return engine_create(&config);
}

static struct worsegpu_snapshot look(worsegpu_allocator *allocator)
{
    struct worsegpu_snapshot snapshot;
    worsegpu_snapshot(allocator, &snapshot);
    engine_assert_valid(allocator);
    return snapshot;
}

static bool give_back(worsegpu_allocator *allocator, const struct worsegpu_handle *handle)
{
    struct worsegpu_release release;
    assert_int_equal(worsegpu_free(allocator, handle, 0, 0, &release), WORSEGPU_OK);
    return release.released;
}

static struct worsegpu_event newest_event(worsegpu_allocator *allocator)
{
    struct worsegpu_event event;
    size_t count;
    worsegpu_trace(allocator, look(allocator).last_sequence - 1, &event, 1, &count, NULL, NULL);
    assert_int_equal(count, 1);
    return event;
}

/* ------------------------------------------------------------------------------ forget */

static void test_forgetting_is_certain_and_draws_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        worsegpu_allocator *allocator = on_the_gpu(policies[i], UINT64_C(1) << 30);
        struct worsegpu_allocation lost = engine_allocate(allocator, 1000);
        struct worsegpu_allocation kept = engine_allocate(allocator, 2000);
        struct worsegpu_snapshot before = look(allocator);
        struct python_random random = allocator->random;
        struct worsegpu_release release;
        assert_int_equal(worsegpu_forget(allocator, &lost.handle, 8, 9, &release), WORSEGPU_OK);
        assert_false(release.released);
        assert_int_equal(release.device, WORSEGPU_GPU);
        assert_int_equal(release.allocation_id, 1);
        assert_memory_equal(&random, &allocator->random, sizeof(random));
        struct worsegpu_snapshot after = look(allocator);
        assert_int_equal(after.gpu_reserved, before.gpu_reserved);
        assert_int_equal(after.gpu_forgotten, lost.reserved_bytes);
        assert_int_equal(after.gpu_forgotten_blocks, 1);
        assert_int_equal(after.gpu_blocks, 2);
        assert_int_equal(after.gpu_used, kept.reserved_bytes);
        assert_int_equal(after.gpu_free, 0);
        assert_int_equal(after.free_calls, 1);
        struct worsegpu_event event = newest_event(allocator);
        assert_int_equal(event.operation, WORSEGPU_FREE);
        assert_int_equal(event.reason, WORSEGPU_FORGOTTEN);
        assert_false(event.released);
        assert_int_equal(event.client, 8);
        assert_int_equal(event.time_us, 9);
        worsegpu_destroy(allocator);
    }
}

static void test_a_forgotten_handle_is_dead(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = on_the_gpu("worse", UINT64_C(1) << 30);
    struct worsegpu_allocation lost = engine_allocate(allocator, 1000);
    assert_int_equal(worsegpu_forget(allocator, &lost.handle, 0, 0, NULL), WORSEGPU_OK);
    assert_int_equal(worsegpu_find(allocator, &lost.handle, &lost), WORSEGPU_UNKNOWN_HANDLE);
    assert_int_equal(worsegpu_free(allocator, &lost.handle, 0, 0, NULL), WORSEGPU_UNKNOWN_HANDLE);
    assert_int_equal(worsegpu_forget(allocator, &lost.handle, 0, 0, NULL), WORSEGPU_UNKNOWN_HANDLE);
    assert_int_equal(look(allocator).gpu_forgotten, lost.reserved_bytes);
    worsegpu_destroy(allocator);
}

static void test_on_the_host_nothing_is_forgotten(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = on_the_gpu("worse", 1);
    struct worsegpu_allocation allocation = engine_allocate(allocator, 1000);
    assert_int_equal(allocation.device, WORSEGPU_CPU);
    struct python_random random = allocator->random;
    struct worsegpu_release release;
    assert_int_equal(worsegpu_forget(allocator, &allocation.handle, 0, 0, &release), WORSEGPU_OK);
    assert_true(release.released);
    assert_int_equal(release.device, WORSEGPU_CPU);
    assert_memory_equal(&random, &allocator->random, sizeof(random));
    assert_int_equal(newest_event(allocator).reason, WORSEGPU_NO_REASON);
    assert_int_equal(look(allocator).cpu_bytes, 0);
    worsegpu_destroy(allocator);
}

static void test_what_the_reference_forgot_is_gone_for_good(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = on_the_gpu("reference", 1000);
    struct worsegpu_allocation lost = engine_allocate(allocator, 600);
    assert_int_equal(worsegpu_forget(allocator, &lost.handle, 0, 0, NULL), WORSEGPU_OK);
    assert_int_equal(look(allocator).gpu_unreserved, 400);
    assert_int_equal(engine_allocate(allocator, 401).device, WORSEGPU_CPU);
    struct worsegpu_allocation last = engine_allocate(allocator, 400);
    assert_int_equal(last.device, WORSEGPU_GPU);
    assert_int_equal(last.offset, 600);
    assert_int_equal(look(allocator).gpu_unreserved, 0);
    worsegpu_destroy(allocator);
}

/* ------------------------------------------------------------------------------ resize */

static void test_nothing_new_fits_below_what_is_reserved(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        worsegpu_allocator *allocator = on_the_gpu(policies[i], UINT64_C(1) << 30);
        struct worsegpu_allocation held = engine_allocate(allocator, 100000);
        assert_int_equal(worsegpu_resize(allocator, held.reserved_bytes - 1), WORSEGPU_OK);
        struct worsegpu_snapshot small = look(allocator);
        assert_int_equal(small.gpu_capacity, held.reserved_bytes - 1);
        assert_int_equal(small.gpu_reserved, held.reserved_bytes);
        assert_int_equal(small.gpu_unreserved, 0);
        struct worsegpu_allocation other = engine_allocate(allocator, 1);
        assert_int_equal(other.device, WORSEGPU_CPU);
        assert_int_equal(other.reason, WORSEGPU_GPU_OOM);
        assert_int_equal(worsegpu_resize(allocator, UINT64_C(1) << 30), WORSEGPU_OK);
        assert_int_equal(engine_allocate(allocator, 1).device, WORSEGPU_GPU);
        look(allocator);
        worsegpu_destroy(allocator);
    }
}

static void test_a_smaller_worse_gpu_still_frees_and_uses_again(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = on_the_gpu("worse", UINT64_C(1) << 30);
    struct worsegpu_allocation held[64];
    for (size_t i = 0; i < 64; i++)
        held[i] = engine_allocate(allocator, 100);
    assert_int_equal(worsegpu_resize(allocator, 1), WORSEGPU_OK);
    uint64_t blocks = look(allocator).gpu_blocks;
    for (size_t i = 0; i < 64; i++)
        assert_true(give_back(allocator, &held[i].handle));
    unsigned again = 0;
    for (size_t i = 0; i < 64; i++)
        again += engine_allocate(allocator, 100).device == WORSEGPU_GPU;
    assert_true(again > 0);
    struct worsegpu_snapshot snapshot = look(allocator);
    assert_int_equal(snapshot.gpu_allocations, again);
    assert_int_equal(snapshot.gpu_blocks, blocks);
    worsegpu_destroy(allocator);
}

static void test_a_smaller_reference_serves_again_when_enough_is_free(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = on_the_gpu("reference", 1000);
    struct worsegpu_allocation first = engine_allocate(allocator, 500);
    engine_allocate(allocator, 400);
    assert_int_equal(worsegpu_resize(allocator, 450), WORSEGPU_OK);
    assert_int_equal(engine_allocate(allocator, 1).device, WORSEGPU_CPU);
    assert_true(give_back(allocator, &first.handle));
    assert_int_equal(look(allocator).gpu_unreserved, 50);
    assert_int_equal(engine_allocate(allocator, 51).device, WORSEGPU_CPU);
    assert_int_equal(engine_allocate(allocator, 50).device, WORSEGPU_GPU);
    look(allocator);
    worsegpu_destroy(allocator);
}

static void test_a_larger_gpu_fits_what_did_not_fit(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        worsegpu_allocator *allocator = on_the_gpu(policies[i], 1000);
        assert_int_equal(engine_allocate(allocator, 100000).device, WORSEGPU_CPU);
        assert_int_equal(worsegpu_resize(allocator, WORSEGPU_MAX_BYTES), WORSEGPU_OK);
        assert_int_equal(engine_allocate(allocator, 100000).device, WORSEGPU_GPU);
        assert_int_equal(look(allocator).gpu_capacity, WORSEGPU_MAX_BYTES);
        assert_int_equal(worsegpu_configuration(allocator)->gpu_capacity, WORSEGPU_MAX_BYTES);
        worsegpu_destroy(allocator);
    }
}

static void test_a_capacity_out_of_range_changes_nothing(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = on_the_gpu("worse", 1000);
    const uint64_t wrong[] = {0, WORSEGPU_MAX_BYTES + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(worsegpu_resize(allocator, wrong[i]), WORSEGPU_INVALID_ARGUMENT);
        assert_int_equal(look(allocator).gpu_capacity, 1000);
        assert_int_equal(allocator->largest_capacity_bytes, 1000);
    }
    worsegpu_destroy(allocator);
}

static void test_resizing_draws_nothing_and_leaves_no_event(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = on_the_gpu("worse", 1000);
    struct python_random random = allocator->random;
    assert_int_equal(worsegpu_resize(allocator, 1), WORSEGPU_OK);
    assert_memory_equal(&random, &allocator->random, sizeof(random));
    assert_int_equal(look(allocator).last_sequence, 0);
    worsegpu_destroy(allocator);
}

/* ------------------------------------------------------------------------------ faults */

static void test_a_fault_is_an_event_between_the_others(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = on_the_gpu("worse", UINT64_C(1) << 30);
    struct python_random random;
    struct worsegpu_fault fault = {
        .action = WORSEGPU_FAULT_FORGET,
        .rule = 71,
        .allocation_id = 1,
        .requested_bytes = 4096,
        .stream = 3,
        .stream_given = true,
        .tag = "weights",
        .tag_bytes = 7,
        .client = 5,
        .time_us = 6,
    };
    struct worsegpu_allocation allocation = engine_allocate(allocator, 100);
    random = allocator->random;
    assert_int_equal(worsegpu_record_fault(allocator, &fault), WORSEGPU_OK);
    assert_memory_equal(&random, &allocator->random, sizeof(random));
    assert_true(give_back(allocator, &allocation.handle));
    struct worsegpu_event events[4];
    size_t count;
    worsegpu_trace(allocator, 0, events, 4, &count, NULL, NULL);
    assert_int_equal(count, 3);
    assert_int_equal(events[0].operation, WORSEGPU_ALLOCATE);
    assert_int_equal(events[1].operation, WORSEGPU_FAULT);
    assert_int_equal(events[2].operation, WORSEGPU_FREE);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(events[i].sequence, i + 1);
    assert_int_equal(events[1].action, WORSEGPU_FAULT_FORGET);
    assert_int_equal(events[1].rule, 71);
    assert_int_equal(events[1].allocation_id, 1);
    assert_int_equal(events[1].requested_bytes, 4096);
    assert_int_equal(events[1].stream, 3);
    assert_true(events[1].stream_given);
    assert_int_equal(events[1].tag_bytes, 7);
    assert_memory_equal(events[1].tag, "weights", 7);
    assert_int_equal(events[1].client, 5);
    assert_int_equal(events[1].time_us, 6);
    assert_int_equal(look(allocator).faults, 1);
    worsegpu_destroy(allocator);
}

static void test_every_action_is_kept_in_order(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = on_the_gpu("worse", 1);
    for (int i = 0; i < WORSEGPU_FAULT_ACTIONS; i++) {
        struct worsegpu_fault fault = {.action = (enum worsegpu_fault_action)i,
                                       .rule = UINT64_MAX - (uint64_t)i};
        assert_int_equal(worsegpu_record_fault(allocator, &fault), WORSEGPU_OK);
        struct worsegpu_event event = newest_event(allocator);
        assert_int_equal(event.action, i);
        assert_int_equal(event.rule, UINT64_MAX - (uint64_t)i);
        assert_int_equal(event.sequence, i + 1);
        assert_int_equal(event.tag_bytes, 0);
    }
    worsegpu_destroy(allocator);
}

static void test_a_fault_without_a_trace_is_only_counted(void **state)
{
    (void)state;
    struct worsegpu_config config = engine_config("1");
    worsegpu_allocator *allocator = engine_create(&config);
    const struct worsegpu_fault fault = {.action = WORSEGPU_FAULT_DELAY};
    assert_int_equal(worsegpu_record_fault(allocator, &fault), WORSEGPU_OK);
    struct worsegpu_snapshot snapshot = look(allocator);
    assert_int_equal(snapshot.faults, 1);
    assert_int_equal(snapshot.trace_events, 0);
    assert_int_equal(snapshot.last_sequence, 0);
    worsegpu_destroy(allocator);
}

static void test_a_fault_with_a_bad_tag_or_action_changes_nothing(void **state)
{
    (void)state;
    char text[WORSEGPU_MAX_TAG_BYTES + 1];
    memset(text, 'a', sizeof(text));
    worsegpu_allocator *allocator = on_the_gpu("worse", 1);
    const struct worsegpu_fault wrong[] = {
        {.tag = text, .tag_bytes = sizeof(text)},
        {.tag = text, .tag_bytes = 256 + 1},
        {.tag = text, .tag_bytes = 0},
        {.tag = NULL, .tag_bytes = 1},
        {.action = WORSEGPU_FAULT_ACTIONS},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(worsegpu_record_fault(allocator, &wrong[i]), WORSEGPU_INVALID_ARGUMENT);
    assert_int_equal(look(allocator).faults, 0);
    assert_int_equal(look(allocator).last_sequence, 0);
    const struct worsegpu_fault longest = {.tag = text, .tag_bytes = WORSEGPU_MAX_TAG_BYTES};
    assert_int_equal(worsegpu_record_fault(allocator, &longest), WORSEGPU_OK);
    assert_int_equal(newest_event(allocator).tag_bytes, WORSEGPU_MAX_TAG_BYTES);
    worsegpu_destroy(allocator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forgetting_is_certain_and_draws_nothing),
        cmocka_unit_test(test_a_forgotten_handle_is_dead),
        cmocka_unit_test(test_on_the_host_nothing_is_forgotten),
        cmocka_unit_test(test_what_the_reference_forgot_is_gone_for_good),
        cmocka_unit_test(test_nothing_new_fits_below_what_is_reserved),
        cmocka_unit_test(test_a_smaller_worse_gpu_still_frees_and_uses_again),
        cmocka_unit_test(test_a_smaller_reference_serves_again_when_enough_is_free),
        cmocka_unit_test(test_a_larger_gpu_fits_what_did_not_fit),
        cmocka_unit_test(test_a_capacity_out_of_range_changes_nothing),
        cmocka_unit_test(test_resizing_draws_nothing_and_leaves_no_event),
        cmocka_unit_test(test_a_fault_is_an_event_between_the_others),
        cmocka_unit_test(test_every_action_is_kept_in_order),
        cmocka_unit_test(test_a_fault_without_a_trace_is_only_counted),
        cmocka_unit_test(test_a_fault_with_a_bad_tag_or_action_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
