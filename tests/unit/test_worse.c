/* The worse policy where the golden scripts do not look: where blocks lie, what a scan costs,
 * edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/allocator_internal.h"
#include "lib/policies/worse.h"
#include "lib/worsegpu.h"
#include "tests/support/engine.h"

static struct worsegpu_config gpu_only(const char *seed, double forget)
{
    struct worsegpu_config config = engine_config(seed);
    config.gpu_probability = 1;
    config.forget_probability = forget;
    config.gpu_capacity = UINT64_C(1) << 40;
    return config;
}

static uint64_t scanned(worsegpu_allocator *allocator)
{
    struct worsegpu_snapshot snapshot;
    worsegpu_snapshot(allocator, &snapshot);
    return snapshot.blocks_scanned;
}

static void test_new_blocks_lie_one_behind_the_other(void **state)
{
    (void)state;
    struct worsegpu_config config = gpu_only("5", 0);
    worsegpu_allocator *allocator = engine_create(&config);
    uint64_t end = 0;
    for (int64_t i = 0; i < 100; i++) {
        struct worsegpu_allocation allocation = engine_allocate(allocator, 100);
        assert_int_equal(allocation.block_index, i);
        assert_int_equal(allocation.offset, end);
        assert_int_equal(allocation.reserved_bytes % 256, 0);
        end += allocation.reserved_bytes;
    }
    worsegpu_destroy(allocator);
}

static void test_a_reused_block_keeps_its_place(void **state)
{
    (void)state;
    struct worsegpu_config config = gpu_only("5", 0);
    worsegpu_allocator *allocator = engine_create(&config);
    uint64_t offsets[8];
    uint64_t blocks = 0;
    for (int i = 0; i < 200; i++) {
        struct worsegpu_allocation allocation = engine_allocate(allocator, 100);
        assert_true((uint64_t)allocation.block_index < 8); /* four buckets, doubled or not */
        if ((uint64_t)allocation.block_index == blocks)
            offsets[blocks++] = allocation.offset;
        assert_int_equal(allocation.offset, offsets[allocation.block_index]);
        assert_int_equal(worsegpu_free(allocator, &allocation.handle, 0, 0, NULL), WORSEGPU_OK);
    }
    assert_true(blocks >= 4);
    worsegpu_destroy(allocator);
}

static void test_a_miss_looks_at_every_block_and_a_hit_up_to_its_own(void **state)
{
    (void)state;
    const enum worsegpu_scan scans[] = {WORSEGPU_SCAN_ACCOUNTED, WORSEGPU_SCAN_WALKED};
    for (size_t s = 0; s < 2; s++) {
        struct worsegpu_config config = gpu_only("5", 0);
        config.scan = scans[s];
        worsegpu_allocator *allocator = engine_create(&config);
        uint64_t expected = 0;
        for (uint64_t blocks = 0; blocks < 20; blocks++) {
            engine_allocate(allocator, 1000000 + blocks * 100000); /* all of different sizes */
            expected += blocks;
            assert_int_equal(scanned(allocator), expected);
        }
        for (int i = 0; i < 30; i++) {
            struct worsegpu_snapshot before;
            worsegpu_snapshot(allocator, &before);
            struct worsegpu_allocation allocation = engine_allocate(allocator, 100);
            bool hit = (uint64_t)allocation.block_index < before.gpu_blocks;
            expected += hit ? (uint64_t)allocation.block_index + 1 : before.gpu_blocks;
            assert_int_equal(scanned(allocator), expected);
            assert_int_equal(worsegpu_free(allocator, &allocation.handle, 0, 0, NULL), WORSEGPU_OK);
        }
        worsegpu_destroy(allocator);
    }
}

static void test_a_request_for_the_host_looks_at_no_block(void **state)
{
    (void)state;
    struct worsegpu_config config = gpu_only("5", 0);
    worsegpu_allocator *allocator = engine_create(&config);
    engine_allocate(allocator, 100);
    allocator->config.gpu_probability = 0;
    assert_int_equal(engine_allocate(allocator, 100).device, WORSEGPU_CPU);
    assert_int_equal(scanned(allocator), 0);
    worsegpu_destroy(allocator);
}

static void test_a_full_gpu_still_costs_a_scan(void **state)
{
    (void)state;
    struct worsegpu_config config = gpu_only("5", 0);
    config.gpu_capacity = 65536;
    config.fallback_on_oom = false;
    worsegpu_allocator *allocator = engine_create(&config);
    engine_allocate(allocator, 1);
    struct worsegpu_request request = engine_request(1000000);
    struct worsegpu_allocation allocation;
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OUT_OF_MEMORY);
    assert_int_equal(scanned(allocator), 1);
    worsegpu_destroy(allocator);
}

static void test_forgotten_blocks_are_never_used_again(void **state)
{
    (void)state;
    struct worsegpu_config config = gpu_only("5", 1);
    worsegpu_allocator *allocator = engine_create(&config);
    for (int64_t i = 0; i < 500; i++) {
        struct worsegpu_allocation allocation = engine_allocate(allocator, 100);
        struct worsegpu_release release;
        assert_int_equal(allocation.block_index, i);
        assert_int_equal(worsegpu_free(allocator, &allocation.handle, 0, 0, &release), WORSEGPU_OK);
        assert_false(release.released);
    }
    struct worsegpu_snapshot snapshot;
    worsegpu_snapshot(allocator, &snapshot);
    assert_int_equal(snapshot.gpu_forgotten_blocks, 500);
    assert_int_equal(snapshot.gpu_forgotten, snapshot.gpu_reserved);
    assert_int_equal(snapshot.blocks_scanned, 499 * 500 / 2);
    engine_assert_valid(allocator);
    worsegpu_destroy(allocator);
}

static void test_the_largest_sizes_do_not_overflow(void **state)
{
    (void)state;
    struct worsegpu_config config = gpu_only("5", 0);
    config.gpu_capacity = WORSEGPU_MAX_BYTES;
    config.max_request_bytes = WORSEGPU_MAX_BYTES;
    worsegpu_allocator *allocator = engine_create(&config);
    for (int i = 0; i < 50; i++) {
        struct worsegpu_allocation allocation = engine_allocate(allocator, WORSEGPU_MAX_BYTES);
        assert_int_equal(allocation.device, WORSEGPU_CPU);
        assert_int_equal(allocation.reserved_bytes, WORSEGPU_MAX_BYTES);
    }
    engine_assert_valid(allocator);
    worsegpu_destroy(allocator);
}

static void test_a_block_may_fill_the_gpu_to_the_last_byte(void **state)
{
    (void)state;
    struct worsegpu_config config = gpu_only("5", 0);
    worsegpu_allocator *allocator = engine_create(&config);
    uint64_t size = engine_allocate(allocator, 16384).reserved_bytes;
    worsegpu_destroy(allocator);
    config.gpu_capacity = size;
    allocator = engine_create(&config);
    assert_int_equal(engine_allocate(allocator, 16384).device, WORSEGPU_GPU);
    worsegpu_destroy(allocator);
    config.gpu_capacity = size - 1;
    allocator = engine_create(&config);
    assert_int_equal(engine_allocate(allocator, 16384).device, WORSEGPU_CPU);
    worsegpu_destroy(allocator);
}

/* Two allocators differ only in the secret keys of their tables. */
static void test_the_secret_key_is_no_part_of_a_decision(void **state)
{
    (void)state;
    struct worsegpu_config config = gpu_only("5", 0.3);
    worsegpu_allocator *one = engine_create(&config);
    worsegpu_allocator *other = engine_create(&config);
    const struct worse_policy *left = (const struct worse_policy *)one->policy;
    const struct worse_policy *right = (const struct worse_policy *)other->policy;
    assert_memory_not_equal(&left->index.hash, &right->index.hash, sizeof(left->index.hash));
    for (uint64_t i = 0; i < 3000; i++) {
        struct worsegpu_allocation first = engine_allocate(one, i * 37 % 5000 + 1);
        struct worsegpu_allocation second = engine_allocate(other, i * 37 % 5000 + 1);
        assert_int_equal(first.block_index, second.block_index);
        assert_int_equal(first.offset, second.offset);
        if (i % 3 == 0)
            continue;
        struct worsegpu_release gone;
        struct worsegpu_release lost;
        assert_int_equal(worsegpu_free(one, &first.handle, 0, 0, &gone), WORSEGPU_OK);
        assert_int_equal(worsegpu_free(other, &second.handle, 0, 0, &lost), WORSEGPU_OK);
        assert_int_equal(gone.released, lost.released);
    }
    worsegpu_destroy(one);
    worsegpu_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_blocks_lie_one_behind_the_other),
        cmocka_unit_test(test_a_reused_block_keeps_its_place),
        cmocka_unit_test(test_a_miss_looks_at_every_block_and_a_hit_up_to_its_own),
        cmocka_unit_test(test_a_request_for_the_host_looks_at_no_block),
        cmocka_unit_test(test_a_full_gpu_still_costs_a_scan),
        cmocka_unit_test(test_forgotten_blocks_are_never_used_again),
        cmocka_unit_test(test_the_largest_sizes_do_not_overflow),
        cmocka_unit_test(test_a_block_may_fill_the_gpu_to_the_last_byte),
        cmocka_unit_test(test_the_secret_key_is_no_part_of_a_decision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
