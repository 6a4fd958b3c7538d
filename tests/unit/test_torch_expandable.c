/* Expandable segments: policy "torch_expandable", and "torch" with expandable_segments:True. The
 * numbers are worked out by hand, in MiB. A large page has 20 MiB, a small one 2 MiB. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/policies/torch_internal.h"
#include "tests/support/torch_world.h"

#define REFUSED UINT64_MAX

static void open_world(struct policy_world *world, uint64_t capacity_mib)
{
    policy_world_open(world, "torch_expandable", "", MIB(capacity_mib), &torch_rules);
}

static uint64_t ask_on(struct policy_world *world, uint64_t mib, uint64_t stream)
{
    uint64_t offset = torch_ask(world, MIB(mib), stream);
    return offset == REFUSED ? REFUSED : offset >> 20;
}

static uint64_t ask(struct policy_world *world, uint64_t mib)
{
    return ask_on(world, mib, 0);
}

static void give(struct policy_world *world, uint64_t offset_mib)
{
    policy_world_free_offset(world, MIB(offset_mib));
}

static uint64_t reserved(const struct policy_world *world)
{
    return torch_figure(world, "reserved_bytes") >> 20;
}

static void assert_told(const struct policy_world *world, uint64_t reserves, uint64_t maps,
                        uint64_t unmaps, uint64_t unreserves)
{
    assert_int_equal(world->told[DEVICE_RESERVE], reserves);
    assert_int_equal(world->told[DEVICE_MAP], maps);
    assert_int_equal(world->told[DEVICE_UNMAP], unmaps);
    assert_int_equal(world->told[DEVICE_UNRESERVE], unreserves);
    assert_int_equal(world->told[DEVICE_REGION], 0);
}

static void test_a_segment_grows_page_by_page(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 200);
    assert_int_equal(ask(&world, 20), 0);
    assert_int_equal(ask(&world, 5), 20);
    assert_int_equal(ask(&world, 15), 25);
    assert_int_equal(ask(&world, 41), 40);
    assert_int_equal(reserved(&world), 100);
    assert_told(&world, 1, 3, 0, 0); /* 20, 20 and 60 */
    assert_int_equal(torch_figure(&world, "segments"), 0);
    assert_int_equal(torch_figure(&world, "inactive_split"), 0);
    torch_assert_pool(&world, "large", MIB(1), "0 81 19");
    policy_world_close(&world);
}

static void test_a_range_is_an_eighth_longer_than_the_device_for_each_pool_and_stream(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 200);
    assert_int_equal(ask(&world, 5), 0);
    assert_int_equal(ask_on(&world, 5, 1), 240); /* 225 in pages of 20 */
    assert_int_equal(ask(&world, 1), 480);
    assert_int_equal(ask_on(&world, 1, 1), 706); /* 225 in pages of 2 */
    assert_int_equal(reserved(&world), 44);
    assert_int_equal(torch_figure(&world, "small_reserved_bytes"), MIB(4));
    policy_world_close(&world);
}

static void test_a_growing_request_begins_in_the_free_end(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 200);
    assert_int_equal(ask(&world, 5), 0);
    assert_int_equal(ask(&world, 30), 5); /* 15 are there, one page more */
    assert_int_equal(reserved(&world), 40);
    torch_assert_pool(&world, "large", MIB(1), "0 35 5");
    policy_world_close(&world);
}

static void test_every_block_is_cut_when_512_bytes_are_left(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 200);
    assert_int_equal(torch_ask(&world, MIB(20) - 512, 0), 0);
    torch_assert_pool(&world, "large", 512, "0 40959 1");
    policy_world_close(&world);
}

static void test_the_growing_end_is_used_last(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 200);
    ask(&world, 6);
    ask(&world, 9); /* the end is 15 to 20, and can grow */
    give(&world, 0);
    torch_assert_pool(&world, "large", MIB(1), "0 15 5, 0 0 6");
    assert_int_equal(ask(&world, 4), 0); /* of the 6, though 5 are nearer */
    policy_world_close(&world);
}

static void test_the_walk_past_the_growing_end_is_counted(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 200);
    ask(&world, 6);
    ask(&world, 9);
    give(&world, 0);
    struct policy_request request = {.requested_bytes = MIB(4)};
    struct policy_outcome outcome;
    assert_int_equal(world.operations->place(world.policy, &request, &outcome), POLICY_PLACED);
    assert_int_equal(outcome.blocks_scanned, 2);
    policy_world_close(&world);
}

static void test_only_whole_pages_are_unmapped(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 200);
    ask(&world, 30);
    ask(&world, 8); /* 30 to 38 of 40 */
    give(&world, 0);
    torch_empty(&world);
    torch_assert_pool(&world, "large", MIB(1), "0 38 2, 0 20 10");
    assert_int_equal(reserved(&world), 20);
    assert_told(&world, 1, 1, 1, 0);
    torch_empty(&world); /* no page is left to unmap */
    assert_told(&world, 1, 1, 1, 0);
    policy_world_close(&world);
}

static void test_a_hole_is_filled_where_it_is_large_enough(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 200);
    ask(&world, 30);
    ask(&world, 8);
    give(&world, 0);
    torch_empty(&world); /* 0 to 20 unmapped, 20 to 30 free, 38 to 40 free, then unmapped */
    assert_int_equal(ask(&world, 35), 38);
    assert_int_equal(ask(&world, 25), 0);
    torch_assert_pool(&world, "large", MIB(1), "0 25 5, 0 73 7");
    policy_world_close(&world);
}

static void test_an_empty_segment_goes_back(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 200);
    ask(&world, 30);
    ask(&world, 1);
    give(&world, 0);
    torch_empty(&world);
    assert_told(&world, 2, 2, 1, 1);
    give(&world, 240);
    torch_empty(&world);
    assert_told(&world, 2, 2, 2, 2);
    assert_int_equal(torch_figure(&world, "num_device_free"), 2);
    assert_int_equal(reserved(&world), 0);
    policy_world_close(&world);
}

static void test_steps_that_went_well_stay_until_the_flush(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 100);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(ask(&world, 20), 20 * i);
    give(&world, 20);
    torch_empty(&world);
    give(&world, 40);
    /* Used to 20, unmapped to 40, free to 60, unmapped to 120. */
    assert_int_equal(ask_on(&world, 40, 1), 120);
    assert_int_equal(reserved(&world), 80);
    /* 60 from 20 on: one page is mapped (100 in all), the next one is refused. The flush unmaps 20
     * to 60, and then 60 are too much at once. */
    assert_int_equal(ask(&world, 60), REFUSED);
    assert_told(&world, 2, 5, 2, 0);
    assert_int_equal(reserved(&world), 60);
    assert_int_equal(torch_figure(&world, "reserved_peak"), MIB(100));
    assert_int_equal(torch_figure(&world, "num_ooms"), 1);
    policy_world_close(&world);
}

static void test_a_segment_without_pages_stays_for_the_next_attempt(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 40); /* a range has 45, so 60 */
    assert_int_equal(ask(&world, 50), REFUSED);
    assert_told(&world, 1, 0, 0, 0);
    torch_empty(&world);
    assert_told(&world, 1, 0, 0, 0);
    assert_int_equal(ask_on(&world, 20, 1), 60);
    assert_int_equal(ask(&world, 20), 0);
    assert_told(&world, 2, 2, 0, 0);
    policy_world_close(&world);
}

static void test_a_request_longer_than_any_range_reserves_one_in_each_attempt(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 40);
    assert_int_equal(ask(&world, 70), REFUSED);
    assert_told(&world, 2, 0, 0, 0); /* before and after the flush */
    assert_int_equal(ask(&world, 20), 0);
    policy_world_close(&world);
}

static void test_pages_mapped_in_vain_go_back_when_the_request_is_not_admitted(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 200);
    struct policy_request request = {.requested_bytes = MIB(30)};
    assert_int_equal(policy_world_ask(&world, &request, false), POLICY_NOT_ADMITTED);
    assert_told(&world, 1, 1, 1, 1);
    ask(&world, 5);
    assert_int_equal(policy_world_ask(&world, &request, false), POLICY_NOT_ADMITTED);
    torch_assert_pool(&world, "large", MIB(1), "0 245 15");
    assert_int_equal(reserved(&world), 20);
    policy_world_close(&world);
}

static void test_a_memory_fraction_counts_what_a_segment_would_take(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "torch_expandable", "memory_fraction=0.5", MIB(100), &torch_rules);
    assert_int_equal(ask(&world, 22), 0); /* maps 40 */
    assert_int_equal(ask(&world, 18), 22);
    /* 40 + 12 is more than 50. It would be mapped in a page of 20, but that is not asked. */
    assert_int_equal(torch_ask(&world, MIB(11), 0), REFUSED);
    assert_int_equal(torch_ask(&world, MIB(10), 0), MIB(40));
    assert_int_equal(reserved(&world), 60);
    policy_world_close(&world);
}

static void test_another_text_does_not_turn_it_off_but_saying_so_does(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "torch_expandable", "alloc_conf=max_split_size_mb:64", MIB(100),
                      &torch_rules);
    ask(&world, 5);
    assert_int_equal(world.told[DEVICE_MAP], 1);
    policy_world_close(&world);
    policy_world_open(&world, "torch_expandable", "alloc_conf=expandable_segments:False", MIB(100),
                      &torch_rules);
    ask(&world, 5);
    assert_int_equal(world.told[DEVICE_REGION], 1);
    policy_world_close(&world);
    policy_world_open(&world, "torch", "alloc_conf=expandable_segments:True", MIB(100),
                      &torch_rules);
    ask(&world, 5);
    assert_int_equal(world.told[DEVICE_MAP], 1);
    policy_world_close(&world);
}

static void test_a_range_reserved_after_growth_of_the_device_is_longer(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 40);
    assert_int_equal(ask(&world, 20), 0);
    policy_world_resize(&world, MIB(200));
    assert_int_equal(ask(&world, 100), 60); /* more than the first range has left */
    assert_int_equal(ask(&world, 40), 20);  /* what it has left */
    assert_told(&world, 2, 3, 0, 0);
    give(&world, 0);
    give(&world, 20);
    torch_empty(&world); /* the first range is empty, the second is in use */
    assert_told(&world, 2, 3, 1, 1);
    policy_world_close(&world);
}

static void test_emptying_the_cache_needs_no_memory(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct policy_world world;
        open_world(&world, 300);
        world.look_closely = false;
        policy_world_run(&world, WORLD_NEAR_FULL, seed, 300, 2, 0);
        /* Every other one stays, so that blocks are cut. */
        for (size_t i = world.live_count; i > 0; i -= i > 1 ? 2 : 1)
            policy_world_free(&world, i - 1);
        chaos_arm(&world.chaos, 1, true);
        world.operations->empty_cache(world.policy);
        while (world.live_count > 0)
            policy_world_free(&world, 0);
        world.operations->empty_cache(world.policy);
        assert_int_equal(world.chaos.requests, 0);
        policy_world_check(&world);
        assert_int_equal(reserved(&world), 0);
        policy_world_close(&world);
    }
}

/* Numbers are handed out without a look at the room: it must have been made before. */
static void assert_room(const struct policy_world *world)
{
    const struct torch *torch = (const struct torch *)world->policy;
    assert_true(torch->blocks.length <= torch->blocks.capacity);
    assert_true(torch->blocks.length <= torch->nodes.capacity);
    assert_true(torch->segments.length <= torch->segments.capacity);
    assert_true(torch->segments.length <= torch->segment_nodes.capacity);
    assert_true(torch->device.ranges.length <= torch->device.ranges.capacity);
    assert_true(torch->device.ranges.length <= torch->device.nodes.capacity);
}

static void test_unmapping_never_needs_more_blocks_than_were_made_sure_of(void **state)
{
    (void)state;
    /* Each 50 are cut into three by the page in them; the 7 between them keep them apart. */
    for (uint64_t count = 1; count < 40; count++) {
        struct policy_world world;
        open_world(&world, 10000);
        world.look_closely = false;
        for (uint64_t i = 0; i < 2 * count; i++)
            assert_true(ask(&world, i % 2 == 0 ? 7 : 50) != REFUSED);
        for (uint64_t i = count; i > 0; i--)
            policy_world_free(&world, (size_t)(2 * i - 1));
        world.operations->empty_cache(world.policy);
        assert_room(&world);
        policy_world_check(&world);
        policy_world_close(&world);
    }
}

static void test_attempts_never_need_more_ranges_than_were_made_sure_of(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 40);
    assert_int_equal(ask_on(&world, 20, 1), 0); /* an odd number of them, from here on */
    for (int i = 0; i < 40; i++) {
        assert_int_equal(ask(&world, 70), REFUSED);
        assert_room(&world);
    }
    policy_world_close(&world);
}

static void test_a_witness_finds_nothing_wrong(void **state)
{
    (void)state;
    policy_world_run_all("torch_expandable", "", MIB(200), &torch_rules);
    policy_world_run_all("torch_expandable", "device_reuses_addresses=true", MIB(131) + 4096,
                         &torch_rules);
    policy_world_run_all("torch_expandable", "alloc_conf=max_split_size_mb:24 memory_fraction=0.8",
                         MIB(200), &torch_rules);
}

static void test_no_failing_memory_changes_anything(void **state)
{
    (void)state;
    policy_world_chaos("torch_expandable", "", MIB(200), &torch_rules);
}

static void test_ranges_reserved_in_vain_come_to_an_end(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 20);
    /* Larger than a range (20 + 20/8 MiB, in pages 40): each refusal reserves some in vain. */
    uint64_t before;
    do {
        before = world.told[DEVICE_RESERVE];
        assert_int_equal(ask(&world, 100), REFUSED);
    } while (world.told[DEVICE_RESERVE] > before);
    assert_int_equal(before, TORCH_MOST_RANGES);
    policy_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_reserved_in_vain_come_to_an_end),
        cmocka_unit_test(test_a_segment_grows_page_by_page),
        cmocka_unit_test(test_a_range_is_an_eighth_longer_than_the_device_for_each_pool_and_stream),
        cmocka_unit_test(test_a_growing_request_begins_in_the_free_end),
        cmocka_unit_test(test_every_block_is_cut_when_512_bytes_are_left),
        cmocka_unit_test(test_the_growing_end_is_used_last),
        cmocka_unit_test(test_the_walk_past_the_growing_end_is_counted),
        cmocka_unit_test(test_only_whole_pages_are_unmapped),
        cmocka_unit_test(test_a_hole_is_filled_where_it_is_large_enough),
        cmocka_unit_test(test_an_empty_segment_goes_back),
        cmocka_unit_test(test_steps_that_went_well_stay_until_the_flush),
        cmocka_unit_test(test_a_segment_without_pages_stays_for_the_next_attempt),
        cmocka_unit_test(test_a_request_longer_than_any_range_reserves_one_in_each_attempt),
        cmocka_unit_test(test_pages_mapped_in_vain_go_back_when_the_request_is_not_admitted),
        cmocka_unit_test(test_a_memory_fraction_counts_what_a_segment_would_take),
        cmocka_unit_test(test_another_text_does_not_turn_it_off_but_saying_so_does),
        cmocka_unit_test(test_a_range_reserved_after_growth_of_the_device_is_longer),
        cmocka_unit_test(test_emptying_the_cache_needs_no_memory),
        cmocka_unit_test(test_unmapping_never_needs_more_blocks_than_were_made_sure_of),
        cmocka_unit_test(test_attempts_never_need_more_ranges_than_were_made_sure_of),
        cmocka_unit_test(test_a_witness_finds_nothing_wrong),
        cmocka_unit_test(test_no_failing_memory_changes_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
