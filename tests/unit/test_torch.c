/* Policy "torch" on one stream: segments, best fit, splitting, merging, and what it does when the
 * device is full. The numbers are worked out by hand; streams and expandable segments have tests of
 * their own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/policies/torch.h"
#include "tests/support/torch_world.h"

#define REFUSED UINT64_MAX

static uint64_t ask_mib(struct policy_world *world, uint64_t mib)
{
    uint64_t offset = torch_ask(world, MIB(mib), 0);
    return offset == REFUSED ? REFUSED : offset >> 20;
}

static void free_mib(struct policy_world *world, uint64_t offset_mib)
{
    policy_world_free_offset(world, MIB(offset_mib));
}

static uint64_t last_reserved(const struct policy_world *world)
{
    return world->live[world->live_count - 1].placement.reserved_bytes;
}

/* ------------------------------------------------------------------------------ segments */

/* The segment that the first request of so many bytes takes. */
static uint64_t segment_for(uint64_t bytes)
{
    struct policy_world world;
    torch_open(&world, "", MIB(64));
    assert_int_equal(torch_ask(&world, bytes, 0), 0);
    uint64_t reserved = torch_figure(&world, "reserved_bytes");
    assert_int_equal(torch_segment_size(world.policy, torch_round_size(world.policy, bytes)),
                     reserved);
    policy_world_close(&world);
    return reserved;
}

static void test_a_segment_has_2_mib_or_20_mib_or_what_a_large_request_needs(void **state)
{
    (void)state;
    assert_int_equal(segment_for(1), MIB(2));
    assert_int_equal(segment_for(MIB(1)), MIB(2));
    assert_int_equal(segment_for(MIB(1) + 1), MIB(20));
    assert_int_equal(segment_for(MIB(10) - 512), MIB(20));
    assert_int_equal(segment_for(MIB(10)), MIB(10));
    assert_int_equal(segment_for(MIB(10) + 1), MIB(12));
    assert_int_equal(segment_for(MIB(21)), MIB(22));
}

static void test_small_and_large_requests_do_not_share_segments(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, "", MIB(64));
    assert_int_equal(torch_ask(&world, KIB(4), 0), 0);
    assert_int_equal(torch_ask(&world, MIB(3), 0), MIB(2));
    assert_int_equal(torch_ask(&world, MIB(1), 0), KIB(4));
    assert_int_equal(torch_ask(&world, MIB(3), 0), MIB(5));
    torch_assert_pool(&world, "small", KIB(4), "0 257 255");
    torch_assert_pool(&world, "large", MIB(1), "0 8 14");
    assert_int_equal(torch_figure(&world, "small_reserved_bytes"), MIB(2));
    assert_int_equal(torch_figure(&world, "segments"), 2);
    policy_world_close(&world);
}

static void test_addresses_only_rise_unless_the_device_reuses_them(void **state)
{
    (void)state;
    static const char *const knobs[] = {"", "device_reuses_addresses=true"};
    static const uint64_t expected[] = {40, 0};
    for (int i = 0; i < 2; i++) {
        struct policy_world world;
        torch_open(&world, knobs[i], MIB(64));
        assert_int_equal(ask_mib(&world, 20), 0);
        assert_int_equal(ask_mib(&world, 20), 20);
        free_mib(&world, 0);
        torch_empty(&world);
        assert_int_equal(ask_mib(&world, 12), expected[i]);
        policy_world_close(&world);
    }
}

static void test_nothing_at_all_happens_for_size_0(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, "", MIB(64));
    assert_int_equal(torch_ask(&world, 0, 0), REFUSED);
    assert_int_equal(torch_figure(&world, "num_ooms"), 0);
    assert_int_equal(torch_figure(&world, "num_device_alloc"), 0);
    policy_world_close(&world);
}

/* ------------------------------------------------------------------------------ blocks */

static void test_a_large_block_is_cut_when_more_than_1_mib_is_left(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, "", MIB(64));
    assert_int_equal(torch_ask(&world, MIB(19), 0), 0);
    assert_int_equal(last_reserved(&world), MIB(20)); /* 1 MiB stays with the block */
    assert_int_equal(torch_ask(&world, MIB(19) - 512, 0), MIB(20));
    assert_int_equal(last_reserved(&world), MIB(19) - 512);
    torch_assert_pool(&world, "large", 512, "0 79871 2049");
    assert_int_equal(torch_figure(&world, "inactive_split"), 1);
    assert_int_equal(torch_figure(&world, "inactive_split_bytes"), MIB(1) + 512);
    policy_world_close(&world);
}

static void test_a_small_block_is_cut_when_512_bytes_are_left(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, "", MIB(64));
    assert_int_equal(torch_ask(&world, MIB(1), 0), 0);
    assert_int_equal(torch_ask(&world, MIB(1) - 512, 0), MIB(1));
    torch_assert_pool(&world, "small", 512, "0 4095 1");
    policy_world_close(&world);
}

static void test_the_smallest_block_that_fits_is_taken_and_the_lowest_among_equals(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, "", MIB(64));
    /* Blocks of 3, 2, 1, 2 KiB with pins between them. */
    static const uint64_t sizes[] = {3, 2, 1, 2};
    uint64_t offsets[4];
    for (int i = 0; i < 4; i++) {
        offsets[i] = torch_ask(&world, KIB(sizes[i]), 0);
        torch_ask(&world, 512, 0);
    }
    for (int i = 3; i >= 0; i--)
        policy_world_free_offset(&world, offsets[i]);
    assert_int_equal(torch_ask(&world, 1025, 0), offsets[1]); /* 1,536 of 2,048 */
    assert_int_equal(torch_ask(&world, 2048, 0), offsets[3]);
    assert_int_equal(torch_ask(&world, 2048, 0), offsets[0]);
    assert_int_equal(torch_ask(&world, 512, 0), offsets[1] + 1536);
    policy_world_close(&world);
}

static void test_a_freed_block_merges_with_both_neighbours_within_its_segment(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, "", MIB(64));
    assert_int_equal(torch_ask(&world, KIB(512), 0), 0);
    assert_int_equal(torch_ask(&world, KIB(512), 0), KIB(512));
    assert_int_equal(torch_ask(&world, MIB(1), 0), MIB(1));
    assert_int_equal(torch_ask(&world, MIB(1), 0), MIB(2)); /* another segment that touches */
    policy_world_free_offset(&world, 0);
    policy_world_free_offset(&world, MIB(1));
    policy_world_free_offset(&world, MIB(2));
    torch_assert_pool(&world, "small", KIB(512), "0 0 1, 0 2 2, 0 4 4");
    policy_world_free_offset(&world, KIB(512));
    torch_assert_pool(&world, "small", KIB(512), "0 0 4, 0 4 4");
    policy_world_close(&world);
}

static void test_figures_tell_what_was_asked_for_and_what_it_takes(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, "", MIB(64));
    torch_ask(&world, 100, 0);
    uint64_t large = torch_ask(&world, MIB(19), 0);
    policy_world_free_offset(&world, large);
    assert_int_equal(torch_figure(&world, "allocations"), 1);
    assert_int_equal(torch_figure(&world, "allocated_bytes"), 512);
    assert_int_equal(torch_figure(&world, "requested_bytes"), 100);
    assert_int_equal(torch_figure(&world, "allocated_peak"), MIB(20) + 512);
    assert_int_equal(torch_figure(&world, "reserved_peak"), MIB(22));
    assert_int_equal(world.operations->largest_free(world.policy), MIB(20));
    torch_empty(&world);
    assert_int_equal(torch_figure(&world, "reserved_bytes"), MIB(2));
    assert_int_equal(torch_figure(&world, "reserved_peak"), MIB(22));
    assert_int_equal(torch_figure(&world, "num_device_free"), 1);
    policy_world_close(&world);
}

static void test_a_forgotten_block_stays_allocated_for_ever(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, "", MIB(64));
    assert_int_equal(torch_ask(&world, KIB(4), 0), 0);
    policy_world_forget(&world, 0);
    assert_int_equal(torch_figure(&world, "allocations"), 1);
    assert_int_equal(torch_figure(&world, "allocated_bytes"), KIB(4));
    assert_int_equal(torch_ask(&world, KIB(4), 0), KIB(4));
    policy_world_free_offset(&world, KIB(4));
    torch_empty(&world); /* its segment is never whole */
    assert_int_equal(torch_figure(&world, "reserved_bytes"), MIB(2));
    policy_world_close(&world);
}

/* ------------------------------------------------------------------------------ a full device */

static void test_a_full_device_makes_it_give_all_whole_segments_back(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, "", MIB(60));
    torch_ask(&world, KIB(4), 0); /* 0: 2 MiB, stays */
    assert_int_equal(ask_mib(&world, 20), 2);
    assert_int_equal(ask_mib(&world, 12), 22);
    assert_int_equal(torch_ask(&world, MIB(3), 0), MIB(34)); /* 20 MiB, in use */
    free_mib(&world, 2);
    free_mib(&world, 22);
    /* 54 are taken; 22 more do not fit. Both whole ones go, though one would do. */
    assert_int_equal(ask_mib(&world, 22), 54);
    assert_int_equal(torch_figure(&world, "num_alloc_retries"), 1);
    assert_int_equal(torch_retries(world.policy), 1);
    assert_int_equal(torch_figure(&world, "num_sync_all_streams"), 1);
    assert_int_equal(torch_figure(&world, "num_device_free"), 2);
    assert_int_equal(torch_figure(&world, "num_ooms"), 0);
    assert_int_equal(torch_figure(&world, "reserved_bytes"), MIB(44));
    policy_world_close(&world);
}

static void test_a_request_that_never_fits_flushes_the_cache_all_the_same(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, "", MIB(10));
    assert_int_equal(torch_ask(&world, MIB(1), 0), 0);
    policy_world_free_offset(&world, 0);
    assert_int_equal(torch_ask(&world, MIB(2), 0), REFUSED); /* wants 20 MiB */
    assert_int_equal(torch_figure(&world, "num_ooms"), 1);
    assert_int_equal(torch_figure(&world, "num_alloc_retries"), 1);
    assert_int_equal(torch_figure(&world, "reserved_bytes"), 0);
    policy_world_close(&world);
}

static void test_the_device_may_be_filled_to_the_last_byte(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, "", MIB(24));
    assert_int_equal(ask_mib(&world, 12), 0);
    assert_int_equal(ask_mib(&world, 12), 12);
    assert_int_equal(torch_ask(&world, 1, 0), REFUSED);
    policy_world_close(&world);
}

static void test_a_memory_fraction_refuses_though_the_device_has_room(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, "memory_fraction=0.5", MIB(100));
    assert_int_equal(ask_mib(&world, 40), 0);
    assert_int_equal(ask_mib(&world, 12), REFUSED);
    assert_int_equal(ask_mib(&world, 10), 40);
    policy_world_close(&world);
}

static void test_a_resized_device_gives_more_or_less(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, "", MIB(24));
    assert_int_equal(ask_mib(&world, 24), 0);
    assert_int_equal(ask_mib(&world, 10), REFUSED);
    policy_world_resize(&world, MIB(34));
    assert_int_equal(ask_mib(&world, 10), 24);
    policy_world_resize(&world, MIB(12));
    free_mib(&world, 0);
    assert_int_equal(ask_mib(&world, 24), 0); /* cached */
    free_mib(&world, 0);
    assert_int_equal(ask_mib(&world, 26), REFUSED);
    assert_int_equal(torch_figure(&world, "reserved_bytes"), MIB(10));
    policy_world_close(&world);
}

/* ------------------------------------------------------------------------------ admission */

static void test_a_fresh_segment_goes_back_when_the_request_is_not_admitted(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, "", MIB(64));
    struct policy_request request = {.requested_bytes = MIB(3)};
    assert_int_equal(policy_world_ask(&world, &request, false), POLICY_NOT_ADMITTED);
    assert_int_equal(torch_figure(&world, "reserved_bytes"), 0);
    assert_int_equal(world.told[DEVICE_REGION_FREE], 1);
    assert_int_equal(torch_figure(&world, "num_ooms"), 0);
    policy_world_close(&world);
}

static void test_a_cached_block_stays_when_the_request_is_not_admitted(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, "", MIB(64));
    assert_int_equal(torch_ask(&world, MIB(3), 0), 0);
    policy_world_free_offset(&world, 0);
    struct policy_request request = {.requested_bytes = MIB(2)};
    assert_int_equal(policy_world_ask(&world, &request, false), POLICY_NOT_ADMITTED);
    torch_assert_pool(&world, "large", MIB(1), "0 0 20");
    assert_int_equal(world.told[DEVICE_REGION_FREE], 0);
    policy_world_close(&world);
}

static void test_a_search_counts_the_block_that_it_judges(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, "", MIB(64));
    struct policy_request request = {.requested_bytes = KIB(4)};
    struct policy_outcome outcome;
    assert_int_equal(world.operations->place(world.policy, &request, &outcome), POLICY_PLACED);
    assert_int_equal(outcome.blocks_scanned, 0);
    assert_int_equal(world.operations->place(world.policy, &request, &outcome), POLICY_PLACED);
    assert_int_equal(outcome.blocks_scanned, 1);
    policy_world_close(&world);
}

/* ------------------------------------------------------------------------------ every rule at once
 */

static const char *const knobs[] = {
    "",
    "device_reuses_addresses=true",
    "alloc_conf=roundup_power2_divisions:4 memory_fraction=0.7",
    "alloc_conf=max_split_size_mb:24,garbage_collection_threshold:0.4 memory_fraction=0.9",
};

static void test_a_witness_finds_nothing_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(knobs) / sizeof(knobs[0]); i++)
        policy_world_run_all("torch", knobs[i], MIB(200), &torch_rules);
}

static void test_no_failing_memory_changes_anything(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(knobs) / sizeof(knobs[0]); i++)
        policy_world_chaos("torch", knobs[i], MIB(200), &torch_rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_segment_has_2_mib_or_20_mib_or_what_a_large_request_needs),
        cmocka_unit_test(test_small_and_large_requests_do_not_share_segments),
        cmocka_unit_test(test_addresses_only_rise_unless_the_device_reuses_them),
        cmocka_unit_test(test_nothing_at_all_happens_for_size_0),
        cmocka_unit_test(test_a_large_block_is_cut_when_more_than_1_mib_is_left),
        cmocka_unit_test(test_a_small_block_is_cut_when_512_bytes_are_left),
        cmocka_unit_test(test_the_smallest_block_that_fits_is_taken_and_the_lowest_among_equals),
        cmocka_unit_test(test_a_freed_block_merges_with_both_neighbours_within_its_segment),
        cmocka_unit_test(test_figures_tell_what_was_asked_for_and_what_it_takes),
        cmocka_unit_test(test_a_forgotten_block_stays_allocated_for_ever),
        cmocka_unit_test(test_a_full_device_makes_it_give_all_whole_segments_back),
        cmocka_unit_test(test_a_request_that_never_fits_flushes_the_cache_all_the_same),
        cmocka_unit_test(test_the_device_may_be_filled_to_the_last_byte),
        cmocka_unit_test(test_a_memory_fraction_refuses_though_the_device_has_room),
        cmocka_unit_test(test_a_resized_device_gives_more_or_less),
        cmocka_unit_test(test_a_fresh_segment_goes_back_when_the_request_is_not_admitted),
        cmocka_unit_test(test_a_cached_block_stays_when_the_request_is_not_admitted),
        cmocka_unit_test(test_a_search_counts_the_block_that_it_judges),
        cmocka_unit_test(test_a_witness_finds_nothing_wrong),
        cmocka_unit_test(test_no_failing_memory_changes_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
