/* Policy "torch" with max_split_size_mb, max_non_split_rounding_mb and
 * garbage_collection_threshold. The numbers are worked out by hand, in MiB. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/torch_world.h"

#define REFUSED UINT64_MAX
#define SPLIT_32 "alloc_conf=max_split_size_mb:32"

static uint64_t ask(struct policy_world *world, uint64_t mib)
{
    uint64_t offset = torch_ask(world, MIB(mib), 0);
    return offset == REFUSED ? REFUSED : offset >> 20;
}

static void give(struct policy_world *world, uint64_t offset_mib)
{
    policy_world_free_offset(world, MIB(offset_mib));
}

/* One free segment for each size, on this stream, at the end of what is there. */
static void cache(struct policy_world *world, const uint64_t *mib, size_t count, uint64_t stream)
{
    size_t first = world->live_count;
    for (size_t i = 0; i < count; i++)
        assert_true(torch_ask(world, MIB(mib[i]), stream) != REFUSED);
    while (world->live_count > first)
        policy_world_free(world, world->live_count - 1);
}

static uint64_t reserved(const struct policy_world *world)
{
    return torch_figure(world, "reserved_bytes") >> 20;
}

/* ------------------------------------------------------------------------------ largest size for
 * splitting */

static void test_a_request_below_the_limit_leaves_larger_blocks_alone(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, SPLIT_32, MIB(200));
    cache(&world, (uint64_t[]){32}, 1, 0);
    assert_int_equal(ask(&world, 30), 32); /* a block of 32 is at the limit */
    give(&world, 32);
    assert_int_equal(ask(&world, 12), 32); /* one of 30 is not */
    torch_assert_pool(&world, "large", MIB(1), "0 44 18, 0 0 32");
    policy_world_close(&world);
}

static void test_a_request_at_the_limit_takes_whole_blocks_up_to_20_mib_larger(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, SPLIT_32, MIB(400));
    cache(&world, (uint64_t[]){52}, 1, 0);
    assert_int_equal(torch_ask(&world, MIB(32), 0), MIB(52)); /* 52 = 32 + 20 is too much */
    assert_int_equal(torch_ask(&world, MIB(32) + 512, 0), 0);
    assert_int_equal(world.live[world.live_count - 1].placement.reserved_bytes, MIB(52));
    torch_assert_pool(&world, "large", MIB(1), "");
    assert_int_equal(torch_figure(&world, "oversize_allocations"), 2);
    assert_int_equal(torch_figure(&world, "oversize_segments"), 2);
    give(&world, 0);
    assert_int_equal(torch_figure(&world, "oversize_allocations"), 1);
    assert_int_equal(torch_figure(&world, "oversize_segments"), 2);
    policy_world_close(&world);
}

static void test_how_much_larger_can_be_set(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, SPLIT_32 ",max_non_split_rounding_mb:30", MIB(400));
    cache(&world, (uint64_t[]){60}, 1, 0);
    assert_int_equal(ask(&world, 32), 0); /* 60 < 32 + 30 */
    give(&world, 0);
    assert_int_equal(torch_ask(&world, MIB(32), 0), 0);
    policy_world_close(&world);
}

static void test_one_block_that_is_large_enough_goes_before_all_do(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, SPLIT_32, MIB(110));
    cache(&world, (uint64_t[]){60, 40}, 2, 0);
    /* 20: neither block may be cut, the device has 10. The first of at least 32 goes. */
    assert_int_equal(ask(&world, 20), 100);
    torch_assert_pool(&world, "large", MIB(1), "0 0 60");
    assert_int_equal(torch_figure(&world, "num_alloc_retries"), 0);
    assert_int_equal(torch_figure(&world, "num_sync_all_streams"), 0);
    assert_int_equal(torch_figure(&world, "num_device_free"), 1);
    policy_world_close(&world);
}

static void test_as_many_of_the_largest_go_as_are_needed(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, SPLIT_32, MIB(120));
    cache(&world, (uint64_t[]){34, 36, 40}, 3, 0);
    /* 76: 40 is too little, 40 + 36 is just enough; 34 stays. */
    assert_int_equal(ask(&world, 76), 110);
    torch_assert_pool(&world, "large", MIB(1), "0 0 34");
    assert_int_equal(torch_figure(&world, "num_alloc_retries"), 0);
    policy_world_close(&world);
}

static void test_blocks_below_the_limit_do_not_go_one_by_one(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, SPLIT_32, MIB(100));
    cache(&world, (uint64_t[]){30, 40}, 2, 0);
    /* 60: 40 goes and is too little, 30 is below the limit. So all go, and it is a retry. */
    assert_int_equal(ask(&world, 60), 70);
    assert_int_equal(torch_figure(&world, "num_alloc_retries"), 1);
    assert_int_equal(torch_figure(&world, "num_device_free"), 2);
    policy_world_close(&world);
}

static void test_what_went_back_in_vain_stays_given_back(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, SPLIT_32, MIB(100));
    assert_int_equal(ask(&world, 50), 0);
    cache(&world, (uint64_t[]){40}, 1, 0);
    assert_int_equal(ask(&world, 60), REFUSED);
    assert_int_equal(reserved(&world), 50);
    assert_int_equal(torch_figure(&world, "num_ooms"), 1);
    policy_world_close(&world);
}

static void test_blocks_of_another_stream_are_not_released_singly(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, SPLIT_32, MIB(100));
    cache(&world, (uint64_t[]){40}, 1, 3);
    cache(&world, (uint64_t[]){40}, 1, 1);
    /* On stream 2 there is nothing, so everything goes. */
    assert_int_equal(torch_ask(&world, MIB(30), 2), MIB(80));
    assert_int_equal(reserved(&world), 30);
    assert_int_equal(torch_figure(&world, "num_alloc_retries"), 1);
    policy_world_close(&world);
}

/* ------------------------------------------------------------------------------ collection */

#define COLLECT "alloc_conf=garbage_collection_threshold:0.5"

/* Searches in the large pool: 20, 30 and 40 are numbers 1 to 3 and are freed then; 44 is number 4,
 * freed then; what follows is number 5. */
static void cache_three_old_and_one_new(struct policy_world *world)
{
    cache(world, (uint64_t[]){20, 30, 40}, 3, 0);
    cache(world, (uint64_t[]){44}, 1, 0);
    assert_int_equal(reserved(world), 134);
}

static void test_blocks_older_than_the_mean_go_above_the_threshold(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, COLLECT " memory_fraction=1", MIB(200));
    cache_three_old_and_one_new(&world);
    /* 50: 134 > 100. Ages 2, 2, 2, 1, mean 7/4. All three old ones go, though 20 + 30 would do. */
    assert_int_equal(ask(&world, 50), 134);
    torch_assert_pool(&world, "large", MIB(1), "0 90 44");
    assert_int_equal(torch_figure(&world, "num_alloc_retries"), 0);
    assert_int_equal(torch_figure(&world, "num_sync_all_streams"), 0);
    policy_world_close(&world);
}

static void test_another_pass_follows_until_enough_came_back(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, COLLECT " memory_fraction=1", MIB(240));
    assert_int_equal(ask(&world, 80), 0);      /* search 1 */
    cache(&world, (uint64_t[]){10}, 1, 0);     /* 2: age 3 at search 5 */
    cache(&world, (uint64_t[]){20, 30}, 2, 0); /* 3, 4: age 1 */
    assert_int_equal(reserved(&world), 140);
    /* 31: 140 - 120 = 20 must come back. Mean 5/3: 10 goes. Then mean 1: both others go. */
    assert_int_equal(ask(&world, 31), 140);
    torch_assert_pool(&world, "large", MIB(1), "");
    assert_int_equal(torch_figure(&world, "num_device_free"), 3);
    policy_world_close(&world);
}

static void test_nothing_is_collected_at_the_threshold(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, COLLECT " memory_fraction=1", MIB(268));
    cache_three_old_and_one_new(&world); /* 134 is half of it */
    assert_int_equal(ask(&world, 50), 134);
    assert_int_equal(reserved(&world), 184);
    policy_world_close(&world);
}

static void test_without_a_memory_fraction_nothing_is_collected(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, COLLECT, MIB(200));
    cache_three_old_and_one_new(&world);
    assert_int_equal(ask(&world, 50), 134);
    assert_int_equal(reserved(&world), 184);
    policy_world_close(&world);
}

static void test_collection_leaves_the_small_pool_and_split_blocks_alone(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, COLLECT " memory_fraction=1", MIB(40));
    torch_ask(&world, KIB(4), 0);
    policy_world_free_offset(&world, 0);
    assert_int_equal(torch_ask(&world, MIB(3), 0), MIB(2)); /* 17 of its 20 are free, but split */
    assert_int_equal(ask(&world, 18), 22);                  /* 22 > 20: nothing to collect */
    assert_int_equal(reserved(&world), 40);
    assert_int_equal(torch_figure(&world, "num_device_free"), 0);
    policy_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_below_the_limit_leaves_larger_blocks_alone),
        cmocka_unit_test(test_a_request_at_the_limit_takes_whole_blocks_up_to_20_mib_larger),
        cmocka_unit_test(test_how_much_larger_can_be_set),
        cmocka_unit_test(test_one_block_that_is_large_enough_goes_before_all_do),
        cmocka_unit_test(test_as_many_of_the_largest_go_as_are_needed),
        cmocka_unit_test(test_blocks_below_the_limit_do_not_go_one_by_one),
        cmocka_unit_test(test_what_went_back_in_vain_stays_given_back),
        cmocka_unit_test(test_blocks_of_another_stream_are_not_released_singly),
        cmocka_unit_test(test_blocks_older_than_the_mean_go_above_the_threshold),
        cmocka_unit_test(test_another_pass_follows_until_enough_came_back),
        cmocka_unit_test(test_nothing_is_collected_at_the_threshold),
        cmocka_unit_test(test_without_a_memory_fraction_nothing_is_collected),
        cmocka_unit_test(test_collection_leaves_the_small_pool_and_split_blocks_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
