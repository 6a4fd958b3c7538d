/* The reference policy: exact sizes, nothing lost, no draws. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/allocator_internal.h"
#include "lib/worsegpu.h"
#include "tests/support/engine.h"

static worsegpu_allocator *made(uint64_t capacity, bool fallback)
{
    struct worsegpu_config config = engine_config("1");
    config.policy = "reference";
    config.gpu_capacity = capacity;
    config.gpu_probability = 0;
    config.forget_probability = 1;
    config.fallback_on_oom = fallback;
    return engine_create(&config);
}

static void test_a_request_takes_exactly_what_it_asks_for(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = made(1000, true);
    struct worsegpu_allocation first = engine_allocate(allocator, 1);
    struct worsegpu_allocation second = engine_allocate(allocator, 999);
    assert_int_equal(first.device, WORSEGPU_GPU);
    assert_int_equal(first.reserved_bytes, 1);
    assert_int_equal(first.block_index, 0);
    assert_int_equal(first.offset, 0);
    assert_int_equal(second.device, WORSEGPU_GPU);
    assert_int_equal(second.reserved_bytes, 999);
    assert_int_equal(second.block_index, 0);
    assert_int_equal(second.offset, 1);
    engine_assert_valid(allocator);
    worsegpu_destroy(allocator);
}

static void test_what_does_not_fit_goes_to_the_host(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = made(1000, true);
    engine_allocate(allocator, 600);
    struct worsegpu_allocation second = engine_allocate(allocator, 401);
    assert_int_equal(second.device, WORSEGPU_CPU);
    assert_int_equal(second.reason, WORSEGPU_GPU_OOM);
    assert_int_equal(engine_allocate(allocator, 400).device, WORSEGPU_GPU);
    engine_assert_valid(allocator);
    worsegpu_destroy(allocator);
}

static void test_without_fallback_it_is_out_of_memory(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = made(1000, false);
    struct worsegpu_request request = engine_request(1001);
    struct worsegpu_allocation allocation;
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OUT_OF_MEMORY);
    engine_assert_valid(allocator);
    worsegpu_destroy(allocator);
}

static void test_a_free_gives_all_back_and_never_forgets(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = made(1000, false);
    for (int i = 0; i < 50; i++) {
        struct worsegpu_allocation allocation = engine_allocate(allocator, 1000);
        struct worsegpu_release release;
        assert_int_equal(worsegpu_free(allocator, &allocation.handle, 0, 0, &release), WORSEGPU_OK);
        assert_true(release.released);
        engine_assert_valid(allocator);
    }
    worsegpu_destroy(allocator);
}

static void test_its_snapshot_knows_one_block_or_none_and_no_fragmentation(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = made(1000, true);
    struct worsegpu_snapshot snapshot;
    worsegpu_snapshot(allocator, &snapshot);
    assert_int_equal(snapshot.gpu_blocks, 0);
    assert_true(snapshot.fragmentation == 0.0);
    struct worsegpu_allocation first = engine_allocate(allocator, 10);
    engine_allocate(allocator, 20);
    worsegpu_snapshot(allocator, &snapshot);
    assert_int_equal(snapshot.gpu_blocks, 1);
    assert_int_equal(snapshot.gpu_reserved, 30);
    assert_int_equal(snapshot.gpu_used, 30);
    assert_int_equal(snapshot.gpu_unreserved, 970);
    assert_int_equal(snapshot.gpu_free, 0);
    assert_int_equal(snapshot.gpu_forgotten, 0);
    assert_int_equal(snapshot.blocks_scanned, 0);
    assert_true(snapshot.fragmentation == 0.0);
    assert_int_equal(worsegpu_free(allocator, &first.handle, 0, 0, NULL), WORSEGPU_OK);
    worsegpu_snapshot(allocator, &snapshot);
    assert_int_equal(snapshot.gpu_reserved, 20);
    assert_true(snapshot.fragmentation == 0.0);
    worsegpu_destroy(allocator);
}

static void test_it_draws_nothing(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = made(1000, true);
    struct python_random before = allocator->random;
    struct worsegpu_allocation allocation = engine_allocate(allocator, 10);
    engine_allocate(allocator, 5000);
    assert_int_equal(worsegpu_free(allocator, &allocation.handle, 0, 0, NULL), WORSEGPU_OK);
    assert_memory_equal(&allocator->random, &before, sizeof(before));
    worsegpu_destroy(allocator);
}

/* The workload of the reference's benchmark: size, and a free of the oldest at every third step. */
static void assert_benchmark(const char *name, uint64_t capacity, uint64_t steps)
{
    enum {
        MAX_STEPS = 100001
    };
    static struct worsegpu_handle handles[MAX_STEPS];
    size_t first = 0;
    size_t count = 0;
    worsegpu_allocator *allocator = made(capacity, true);
    for (uint64_t i = 1; i <= steps; i++) {
        uint64_t size = 7919 * i % (UINT64_C(2) << 20) + 4096;
        handles[count++] = engine_allocate(allocator, size).handle;
        if (count - first > 3 && i % 3 == 0)
            assert_int_equal(worsegpu_free(allocator, &handles[first++], 0, 0, NULL), WORSEGPU_OK);
    }
    struct worsegpu_snapshot snapshot;
    worsegpu_snapshot(allocator, &snapshot);
    cJSON *report = engine_golden_json(name);
    const cJSON *expected = cJSON_GetObjectItem(report, "reference");
#define ASSERT_METRIC(metric)                                                                      \
    assert_int_equal(snapshot.metric, (uint64_t)cJSON_GetObjectItem(expected, #metric)->valuedouble)
    ASSERT_METRIC(active_allocations);
    ASSERT_METRIC(cpu_bytes);
    ASSERT_METRIC(gpu_blocks);
    ASSERT_METRIC(gpu_capacity);
    ASSERT_METRIC(gpu_forgotten);
    ASSERT_METRIC(gpu_free);
    ASSERT_METRIC(gpu_reserved);
    ASSERT_METRIC(gpu_unreserved);
    ASSERT_METRIC(gpu_used);
    ASSERT_METRIC(trace_events);
    assert_true(snapshot.fragmentation ==
                cJSON_GetObjectItem(expected, "fragmentation")->valuedouble);
    engine_assert_valid(allocator);
    cJSON_Delete(report);
    worsegpu_destroy(allocator);
}

static void test_the_golden_benchmarks_come_out(void **state)
{
    (void)state;
    assert_benchmark("benchmark-seed7-steps100.json", UINT64_C(32) << 20, 100);
    assert_benchmark("benchmark-seed7-steps1000.json", UINT64_C(32) << 20, 1000);
    assert_benchmark("benchmark-seed99-steps5000.json", UINT64_C(32) << 20, 5000);
    assert_benchmark("benchmark-seed3-steps12-cap1048576.json", 1048576, 12);
    assert_benchmark("benchmark-seed7-steps100-cap65536.json", 65536, 100);
    assert_benchmark("benchmark-seed7-steps100000.json", UINT64_C(32) << 20, 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_takes_exactly_what_it_asks_for),
        cmocka_unit_test(test_what_does_not_fit_goes_to_the_host),
        cmocka_unit_test(test_without_fallback_it_is_out_of_memory),
        cmocka_unit_test(test_a_free_gives_all_back_and_never_forgets),
        cmocka_unit_test(test_its_snapshot_knows_one_block_or_none_and_no_fragmentation),
        cmocka_unit_test(test_it_draws_nothing),
        cmocka_unit_test(test_the_golden_benchmarks_come_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
