/* The façade: limits, what an event and a listing say, the system's randomness missing. Handles
 * have a file of their own, test_handles.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/allocator_internal.h"
#include "lib/worsegpu.h"
#include "tests/support/engine.h"

/* ------------------------------------------------------------------------------ creation */

static void test_the_configuration_is_copied(void **state)
{
    (void)state;
    char policy[] = "worse";
    char seed[] = "-0042";
    struct worsegpu_config config = engine_config(seed);
    config.policy = policy;
    worsegpu_allocator *allocator = engine_create(&config);
    memset(policy, 'x', strlen(policy));
    memset(seed, '9', strlen(seed));
    const struct worsegpu_config *kept = worsegpu_configuration(allocator);
    assert_string_equal(kept->policy, "worse");
    assert_string_equal(kept->seed, "-0042");
    assert_int_equal(kept->gpu_capacity, config.gpu_capacity);
    assert_non_null(kept->memory);
    worsegpu_destroy(allocator);
}

static void test_a_seed_left_out_is_drawn_and_shown(void **state)
{
    (void)state;
    struct worsegpu_config config = engine_config(NULL);
    worsegpu_allocator *one = engine_create(&config);
    worsegpu_allocator *other = engine_create(&config);
    const char *seed = worsegpu_configuration(one)->seed;
    assert_string_not_equal(seed, worsegpu_configuration(other)->seed);
    assert_true(strlen(seed) >= 1 && strlen(seed) <= 16);
    assert_int_equal(strspn(seed, "0123456789"), strlen(seed));
    config.seed = seed;
    worsegpu_allocator *again = engine_create(&config);
    assert_memory_equal(&one->random, &again->random, sizeof(one->random));
    worsegpu_destroy(one);
    worsegpu_destroy(other);
    worsegpu_destroy(again);
}

/* Full of ones, so that the largest seed is drawn. */
static int draw_ones(void *context, void *bytes, size_t count)
{
    (void)context;
    memset(bytes, 0xff, count);
    return WORSEGPU_OK;
}

static void test_the_largest_drawn_seed_is_exact_as_a_double(void **state)
{
    (void)state;
    const struct entropy ones = {draw_ones, NULL};
    struct worsegpu_config config = engine_config(NULL);
    worsegpu_allocator *allocator;
    assert_int_equal(allocator_create(&config, &ones, &allocator), WORSEGPU_OK);
    assert_string_equal(worsegpu_configuration(allocator)->seed, "9007199254740991");
    worsegpu_destroy(allocator);
}

static void test_destroying_nothing_is_fine(void **state)
{
    (void)state;
    worsegpu_destroy(NULL);
}

/* ------------------------------------------------------------------------------ limits */

static void assert_refused_unchanged(worsegpu_allocator *allocator,
                                     const struct worsegpu_request *request, int expected)
{
    static struct engine_state before;
    static struct engine_state after;
    struct python_random random = allocator->random;
    struct worsegpu_allocation allocation;
    engine_look(allocator, &before);
    assert_int_equal(worsegpu_allocate(allocator, request, &allocation), expected);
    engine_look(allocator, &after);
    engine_assert_same(&before, &after, false);
    assert_memory_equal(&random, &allocator->random, sizeof(random));
    engine_assert_valid(allocator);
}

static void test_a_size_out_of_range_changes_nothing(void **state)
{
    (void)state;
    struct worsegpu_config config = engine_config("1");
    config.max_request_bytes = 1000;
    config.trace_limit = 10;
    worsegpu_allocator *allocator = engine_create(&config);
    const uint64_t wrong[] = {0, 1001, UINT64_MAX};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct worsegpu_request request = engine_request(wrong[i]);
        assert_refused_unchanged(allocator, &request, WORSEGPU_INVALID_ARGUMENT);
    }
    engine_allocate(allocator, 1);
    engine_allocate(allocator, 1000);
    worsegpu_destroy(allocator);
}

static void test_a_tag_has_1_to_64_bytes(void **state)
{
    (void)state;
    char text[WORSEGPU_MAX_TAG_BYTES + 1];
    memset(text, 'a', sizeof(text));
    struct worsegpu_config config = engine_config("1");
    worsegpu_allocator *allocator = engine_create(&config);
    struct worsegpu_request request = engine_request(1);
    struct worsegpu_allocation allocation;
    request.tag = text;
    assert_refused_unchanged(allocator, &request, WORSEGPU_INVALID_ARGUMENT);
    request.tag_bytes = sizeof(text);
    assert_refused_unchanged(allocator, &request, WORSEGPU_INVALID_ARGUMENT);
    request.tag_bytes = SIZE_MAX;
    assert_refused_unchanged(allocator, &request, WORSEGPU_INVALID_ARGUMENT);
    request.tag_bytes = WORSEGPU_MAX_TAG_BYTES;
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
    request.tag = NULL;
    assert_refused_unchanged(allocator, &request, WORSEGPU_INVALID_ARGUMENT);
    worsegpu_destroy(allocator);
}

static void test_the_limit_of_live_allocations_holds(void **state)
{
    (void)state;
    struct worsegpu_config config = engine_config("1");
    config.max_live_allocations = 3;
    config.trace_limit = 10;
    worsegpu_allocator *allocator = engine_create(&config);
    struct worsegpu_allocation first = engine_allocate(allocator, 1);
    engine_allocate(allocator, 1);
    engine_allocate(allocator, 1);
    struct worsegpu_request request = engine_request(1);
    assert_refused_unchanged(allocator, &request, WORSEGPU_LIMIT_EXCEEDED);
    assert_int_equal(worsegpu_free(allocator, &first.handle, 0, 0, NULL), WORSEGPU_OK);
    assert_int_equal(engine_allocate(allocator, 1).handle.allocation_id, 4);
    worsegpu_destroy(allocator);
}

/* Fills the host pool up to its last bytes; 2^11 allocations of nearly 2^53. */
static worsegpu_allocator *nearly_full_host(double gpu_probability)
{
    struct worsegpu_config config = engine_config("1");
    config.gpu_probability = 0;
    config.max_request_bytes = WORSEGPU_MAX_BYTES;
    worsegpu_allocator *allocator = engine_create(&config);
    allocator->host.used_bytes = UINT64_MAX - 1000;
    allocator->host.peak_bytes = UINT64_MAX - 1000;
    allocator->config.gpu_probability = gpu_probability;
    return allocator;
}

/* Counted by force: as if allocations of so many bytes were live, which no list can hold here. */
static void assert_host_refuses(worsegpu_allocator *allocator, uint64_t requested_bytes)
{
    struct python_random random = allocator->random;
    struct worsegpu_snapshot before;
    struct worsegpu_snapshot after;
    struct worsegpu_request request = engine_request(requested_bytes);
    struct worsegpu_allocation allocation;
    worsegpu_snapshot(allocator, &before);
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_LIMIT_EXCEEDED);
    worsegpu_snapshot(allocator, &after);
    assert_memory_equal(&before, &after, sizeof(before));
    assert_memory_equal(&random, &allocator->random, sizeof(random));
}

static void test_host_bytes_stay_below_2_to_the_64(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = nearly_full_host(0);
    assert_host_refuses(allocator, 1001);
    assert_host_refuses(allocator, WORSEGPU_MAX_BYTES);
    assert_int_equal(engine_allocate(allocator, 1000).device, WORSEGPU_CPU);
    assert_host_refuses(allocator, 1);
    worsegpu_destroy(allocator);
}

static void test_a_full_gpu_beside_a_full_host_changes_nothing(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = nearly_full_host(1);
    engine_allocate(allocator, 1); /* one block, so that a scan would count */
    assert_host_refuses(allocator, UINT64_C(1) << 40);
    worsegpu_destroy(allocator);
}

static void test_the_gpu_still_serves_beside_a_full_host(void **state)
{
    (void)state;
    worsegpu_allocator *full = nearly_full_host(1);
    worsegpu_allocator *empty = nearly_full_host(1);
    empty->host.used_bytes = 0;
    for (uint64_t i = 1; i <= 20; i++) {
        struct worsegpu_allocation one = engine_allocate(full, 1000 + i);
        struct worsegpu_allocation other = engine_allocate(empty, 1000 + i);
        assert_int_equal(one.device, WORSEGPU_GPU);
        assert_int_equal(one.reserved_bytes, other.reserved_bytes);
        assert_int_equal(one.block_index, other.block_index);
    }
    worsegpu_destroy(full);
    worsegpu_destroy(empty);
}

static void test_the_host_really_fills_up(void **state)
{
    (void)state;
    struct worsegpu_config config = engine_config("1");
    config.gpu_probability = 0;
    config.max_request_bytes = WORSEGPU_MAX_BYTES;
    worsegpu_allocator *allocator = engine_create(&config);
    struct worsegpu_request request = engine_request(WORSEGPU_MAX_BYTES);
    struct worsegpu_allocation allocation;
    uint64_t given = 0;
    while (worsegpu_allocate(allocator, &request, &allocation) == WORSEGPU_OK)
        given++;
    assert_int_equal(given, 2048);
    assert_host_refuses(allocator, WORSEGPU_MAX_BYTES);
    engine_assert_valid(allocator);
    worsegpu_destroy(allocator);
}

/* ------------------------------------------------------------------------------ out of memory */

static void test_a_strict_failure_spends_its_draws_and_leaves_an_event(void **state)
{
    (void)state;
    struct worsegpu_config config = engine_config("1");
    config.gpu_probability = 1;
    config.gpu_capacity = 1;
    config.fallback_on_oom = false;
    config.trace_limit = 10;
    worsegpu_allocator *allocator = engine_create(&config);
    struct python_random before = allocator->random;
    struct worsegpu_request request = engine_request(512);
    request.tag = "doomed";
    request.tag_bytes = 6;
    request.client = 9;
    request.time_us = 77;
    struct worsegpu_allocation allocation;
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OUT_OF_MEMORY);
    assert_memory_not_equal(&before, &allocator->random, sizeof(before));
    struct worsegpu_event event;
    size_t count;
    worsegpu_trace(allocator, 0, &event, 1, &count, NULL, NULL);
    assert_int_equal(count, 1);
    assert_int_equal(event.operation, WORSEGPU_ALLOCATE_FAILED);
    assert_int_equal(event.reason, WORSEGPU_GPU_OOM);
    assert_int_equal(event.device, WORSEGPU_GPU);
    assert_int_equal(event.allocation_id, 0);
    assert_int_equal(event.requested_bytes, 512);
    assert_int_equal(event.client, 9);
    assert_int_equal(event.time_us, 77);
    assert_int_equal(event.tag_bytes, 6);
    assert_memory_equal(event.tag, "doomed", 6);
    struct worsegpu_snapshot snapshot;
    worsegpu_snapshot(allocator, &snapshot);
    assert_int_equal(snapshot.oom_failures, 1);
    assert_int_equal(snapshot.allocate_calls, 0);
    assert_int_equal(snapshot.gpu_blocks, 0);
    engine_assert_valid(allocator);
    worsegpu_destroy(allocator);
}

/* ------------------------------------------------------------------------------ events, listing */

static worsegpu_allocator *traced(const char *seed)
{
    struct worsegpu_config config = engine_config(seed);
    config.trace_limit = 100;
    return engine_create(&config);
}

static void test_a_free_event_carries_tag_and_stream_and_who_freed(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = traced("1");
    allocator->config.gpu_probability = 1;
    allocator->config.forget_probability = 1;
    struct worsegpu_request request = {
        .requested_bytes = 10,
        .stream = 3,
        .stream_given = true,
        .tag = "t",
        .tag_bytes = 1,
        .client = 5,
        .time_us = 6,
    };
    struct worsegpu_allocation allocation;
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
    assert_int_equal(worsegpu_free(allocator, &allocation.handle, 8, 9, NULL), WORSEGPU_OK);
    struct worsegpu_event events[3];
    size_t count;
    worsegpu_trace(allocator, 0, events, 3, &count, NULL, NULL);
    assert_int_equal(count, 2);
    assert_int_equal(events[0].operation, WORSEGPU_ALLOCATE);
    assert_int_equal(events[0].client, 5);
    assert_int_equal(events[0].time_us, 6);
    assert_int_equal(events[0].requested_bytes, 10);
    assert_int_equal(events[0].reserved_bytes, allocation.reserved_bytes);
    assert_int_equal(events[0].reason, WORSEGPU_NO_REASON);
    assert_int_equal(events[1].operation, WORSEGPU_FREE);
    assert_int_equal(events[1].client, 8);
    assert_int_equal(events[1].time_us, 9);
    assert_int_equal(events[1].reason, WORSEGPU_FORGOTTEN);
    assert_false(events[1].released);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(events[i].sequence, i + 1);
        assert_int_equal(events[i].allocation_id, 1);
        assert_int_equal(events[i].stream, 3);
        assert_true(events[i].stream_given);
        assert_int_equal(events[i].tag_bytes, 1);
        assert_int_equal(events[i].tag[0], 't');
    }
    worsegpu_destroy(allocator);
}

static void test_a_listing_goes_by_id_in_pages(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = traced("1");
    struct worsegpu_handle handles[41];
    for (size_t i = 1; i <= 40; i++)
        handles[i] = engine_allocate(allocator, i).handle;
    for (size_t i = 1; i <= 40; i += 3)
        assert_int_equal(worsegpu_free(allocator, &handles[i], 0, 0, NULL), WORSEGPU_OK);
    struct worsegpu_allocation page[4];
    uint64_t after = 0;
    uint64_t expected = 1;
    bool more = true;
    while (more) {
        size_t count;
        worsegpu_list(allocator, after, page, 4, &count, &more);
        for (size_t i = 0; i < count; i++) {
            while (expected % 3 == 1)
                expected++;
            assert_int_equal(page[i].handle.allocation_id, expected);
            assert_int_equal(page[i].requested_bytes, expected);
            expected++;
        }
        after = page[count - 1].handle.allocation_id;
    }
    assert_int_equal(expected, 40);
    worsegpu_destroy(allocator);
}

static void test_a_listing_of_nothing_says_whether_there_is_more(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = traced("1");
    size_t count = 9;
    bool more = true;
    worsegpu_list(allocator, 0, NULL, 0, &count, &more);
    assert_int_equal(count, 0);
    assert_false(more);
    engine_allocate(allocator, 1);
    worsegpu_list(allocator, 0, NULL, 0, &count, &more);
    assert_int_equal(count, 0);
    assert_true(more);
    worsegpu_list(allocator, UINT64_MAX, NULL, 0, &count, &more);
    assert_false(more);
    worsegpu_destroy(allocator);
}

static void test_the_trace_answers_without_anyone_asking_for_details(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = traced("1");
    engine_allocate(allocator, 1);
    struct worsegpu_event event = {0};
    worsegpu_trace(allocator, 0, &event, 1, NULL, NULL, NULL);
    assert_int_equal(event.sequence, 1);
    assert_int_equal(worsegpu_trace_clear(allocator), 1);
    assert_int_equal(worsegpu_trace_clear(allocator), 0);
    worsegpu_destroy(allocator);
}

static void test_peaks_and_calls_are_counted(void **state)
{
    (void)state;
    struct worsegpu_config config = engine_config("1");
    config.gpu_probability = 1;
    config.gpu_capacity = 1000000;
    worsegpu_allocator *allocator = engine_create(&config);
    struct worsegpu_allocation gpu = engine_allocate(allocator, 1000);
    struct worsegpu_allocation host = engine_allocate(allocator, 5000000);
    assert_int_equal(host.reason, WORSEGPU_GPU_OOM);
    assert_int_equal(worsegpu_free(allocator, &gpu.handle, 0, 0, NULL), WORSEGPU_OK);
    assert_int_equal(worsegpu_free(allocator, &host.handle, 0, 0, NULL), WORSEGPU_OK);
    struct worsegpu_snapshot snapshot;
    worsegpu_snapshot(allocator, &snapshot);
    assert_int_equal(snapshot.gpu_used, 0);
    assert_int_equal(snapshot.peak_gpu_used, gpu.reserved_bytes);
    assert_int_equal(snapshot.cpu_bytes, 0);
    assert_int_equal(snapshot.peak_cpu_bytes, 5000000);
    assert_int_equal(snapshot.allocate_calls, 2);
    assert_int_equal(snapshot.free_calls, 2);
    assert_int_equal(snapshot.oom_fallbacks, 1);
    assert_int_equal(snapshot.gpu_requested, 0);
    worsegpu_destroy(allocator);
}

/* ------------------------------------------------------------------------------ no randomness */

/* The system's source, until it has been asked often enough. */
struct failing {
    uint64_t fail_at;
    uint64_t asked;
};

static int failing_draw(void *context, void *bytes, size_t count)
{
    struct failing *failing = context;
    if (++failing->asked == failing->fail_at)
        return WORSEGPU_NO_ENTROPY;
    return entropy_system()->draw(NULL, bytes, count);
}

static void test_creating_without_entropy_makes_nothing(void **state)
{
    (void)state;
    struct worsegpu_config config = engine_config(NULL);
    uint64_t fail_at = 1;
    for (;; fail_at++) {
        struct failing failing = {.fail_at = fail_at};
        const struct entropy entropy = {failing_draw, &failing};
        worsegpu_allocator *allocator;
        int status = allocator_create(&config, &entropy, &allocator);
        if (status == WORSEGPU_OK) {
            worsegpu_destroy(allocator);
            break;
        }
        assert_int_equal(status, WORSEGPU_NO_ENTROPY);
        assert_null(allocator);
    }
    assert_int_equal(fail_at, 3); /* the tables' keys and the seed */
}

static void test_allocating_without_entropy_changes_nothing(void **state)
{
    (void)state;
    struct failing failing = {0};
    const struct entropy entropy = {failing_draw, &failing};
    struct worsegpu_config config = engine_config("1");
    config.trace_limit = 10;
    worsegpu_allocator *allocator;
    assert_int_equal(allocator_create(&config, &entropy, &allocator), WORSEGPU_OK);
    worsegpu_allocator *twin = engine_create(&config);
    failing.fail_at = failing.asked + 1;
    struct worsegpu_request request = engine_request(100);
    request.tag = "tag";
    request.tag_bytes = 3;
    assert_refused_unchanged(allocator, &request, WORSEGPU_NO_ENTROPY);
    for (uint64_t i = 1; i < 50; i++) {
        struct worsegpu_allocation one = engine_allocate(allocator, i * 100);
        struct worsegpu_allocation other = engine_allocate(twin, i * 100);
        assert_int_equal(one.handle.allocation_id, other.handle.allocation_id);
        assert_int_equal(one.reserved_bytes, other.reserved_bytes);
        assert_int_equal(one.device, other.device);
    }
    worsegpu_destroy(allocator);
    worsegpu_destroy(twin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_configuration_is_copied),
        cmocka_unit_test(test_a_seed_left_out_is_drawn_and_shown),
        cmocka_unit_test(test_the_largest_drawn_seed_is_exact_as_a_double),
        cmocka_unit_test(test_destroying_nothing_is_fine),
        cmocka_unit_test(test_a_size_out_of_range_changes_nothing),
        cmocka_unit_test(test_a_tag_has_1_to_64_bytes),
        cmocka_unit_test(test_the_limit_of_live_allocations_holds),
        cmocka_unit_test(test_host_bytes_stay_below_2_to_the_64),
        cmocka_unit_test(test_a_full_gpu_beside_a_full_host_changes_nothing),
        cmocka_unit_test(test_the_gpu_still_serves_beside_a_full_host),
        cmocka_unit_test(test_the_host_really_fills_up),
        cmocka_unit_test(test_a_strict_failure_spends_its_draws_and_leaves_an_event),
        cmocka_unit_test(test_a_free_event_carries_tag_and_stream_and_who_freed),
        cmocka_unit_test(test_a_listing_goes_by_id_in_pages),
        cmocka_unit_test(test_a_listing_of_nothing_says_whether_there_is_more),
        cmocka_unit_test(test_the_trace_answers_without_anyone_asking_for_details),
        cmocka_unit_test(test_peaks_and_calls_are_counted),
        cmocka_unit_test(test_creating_without_entropy_makes_nothing),
        cmocka_unit_test(test_allocating_without_entropy_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
