/* buddy: worked examples, a naive model with a map of the least blocks, the witness and chaos. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/policies/buddy.h"
#include "tests/support/policy_world.h"

static void open_world(struct policy_world *world, const char *knobs, uint64_t capacity)
{
    policy_world_open(world, "buddy", knobs, capacity, NULL);
}

static uint64_t reserved_for(struct policy_world *world, uint64_t bytes)
{
    policy_world_offset(world, bytes);
    return world->live[world->live_count - 1].placement.reserved_bytes;
}

static void test_a_request_takes_the_next_power_of_two(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "minimum_block=256", 1 << 16);
    assert_int_equal(reserved_for(&world, 1), 256);
    assert_int_equal(reserved_for(&world, 256), 256);
    assert_int_equal(reserved_for(&world, 257), 512);
    assert_int_equal(reserved_for(&world, 4096), 4096);
    assert_int_equal(reserved_for(&world, 4097), 8192);
    policy_world_close(&world);
}

static void test_a_block_is_halved_until_it_fits(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "minimum_block=1", 16);
    /* 16 = 8 + 8, the lower = 4 + 4, the lower = 2 + 2: the first 2 go out, leaving 2, 4 and 8. */
    assert_int_equal(policy_world_offset(&world, 2), 0);
    char *text = policy_world_statistics(&world);
    assert_string_equal(text, "free_blocks 3\nfree_bytes 14\nfree_sizes:\n"
                              "  bytes=2 blocks=1\n  bytes=4 blocks=1\n  bytes=8 blocks=1\n");
    free(text);
    /* 3 take the 4 at 4; 5 take the 8 at 8; 1 halves the 2 at 2. */
    assert_int_equal(policy_world_offset(&world, 3), 4);
    assert_int_equal(policy_world_offset(&world, 5), 8);
    assert_int_equal(policy_world_offset(&world, 1), 2);
    assert_int_equal(policy_world_offset(&world, 1), 3);
    assert_int_equal(policy_world_allocate(&world, 1), POLICY_FULL);
    policy_world_close(&world);
}

static void test_a_block_joins_its_buddy_and_no_other_neighbour(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "minimum_block=1", 8);
    for (uint64_t offset = 0; offset < 8; offset += 2)
        assert_int_equal(policy_world_offset(&world, 2), offset);
    /* 2 and 4 are neighbours of the same size, but the buddies of 2 are 0, and of 4 are 6. */
    policy_world_free_offset(&world, 2);
    policy_world_free_offset(&world, 4);
    assert_int_equal(policy_world_allocate(&world, 3), POLICY_FULL);
    policy_world_free_offset(&world, 0);
    assert_int_equal(policy_world_offset(&world, 4), 0);
    policy_world_free_offset(&world, 0);
    policy_world_free_offset(&world, 6);
    assert_int_equal(policy_world_offset(&world, 8), 0); /* all is one again */
    policy_world_close(&world);
}

static void test_a_buddy_that_is_cut_is_not_joined(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "minimum_block=1", 8);
    assert_int_equal(policy_world_offset(&world, 4), 0);
    assert_int_equal(policy_world_offset(&world, 2), 4);
    policy_world_free_offset(&world, 0);
    assert_int_equal(policy_world_allocate(&world, 8), POLICY_FULL);
    policy_world_free_offset(&world, 4);
    assert_int_equal(policy_world_offset(&world, 8), 0);
    policy_world_close(&world);
}

static void test_of_several_blocks_the_one_listed_last_is_taken(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "minimum_block=1", 8);
    for (uint64_t offset = 0; offset < 8; offset += 1)
        assert_int_equal(policy_world_offset(&world, 1), offset);
    policy_world_free_offset(&world, 0);
    policy_world_free_offset(&world, 6);
    policy_world_free_offset(&world, 3);
    assert_int_equal(policy_world_offset(&world, 1), 3);
    assert_int_equal(policy_world_offset(&world, 1), 6);
    assert_int_equal(policy_world_offset(&world, 1), 0);
    policy_world_close(&world);
}

static void test_a_capacity_is_covered_by_falling_powers_of_two(void **state)
{
    (void)state;
    struct policy_world world;
    /* 1,000 = 512 + 256 + 232, and 232 are less than the least block. */
    open_world(&world, "minimum_block=256", 1000);
    char *text = policy_world_statistics(&world);
    assert_string_equal(text, "free_blocks 2\nfree_bytes 768\nfree_sizes:\n"
                              "  bytes=256 blocks=1\n  bytes=512 blocks=1\n");
    free(text);
    assert_int_equal(policy_world_offset(&world, 256), 512);
    assert_int_equal(policy_world_offset(&world, 512), 0);
    policy_world_free(&world, 0);
    policy_world_free(&world, 0);
    assert_int_equal(policy_world_allocate(&world, 513), POLICY_FULL); /* they never join */
    policy_world_close(&world);

    /* 7 = 4 + 2 + 1. */
    open_world(&world, "minimum_block=1", 7);
    assert_int_equal(policy_world_offset(&world, 1), 6);
    assert_int_equal(policy_world_offset(&world, 1), 4);
    assert_int_equal(policy_world_offset(&world, 4), 0);
    assert_int_equal(policy_world_offset(&world, 1), 5);
    assert_int_equal(policy_world_allocate(&world, 1), POLICY_FULL);
    policy_world_close(&world);
}

static void test_a_capacity_below_the_least_block_has_no_block(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "minimum_block=256", 255);
    assert_int_equal(policy_world_allocate(&world, 1), POLICY_FULL);
    policy_world_check(&world);
    policy_world_close(&world);
}

static void test_an_alignment_is_had_by_the_size(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "minimum_block=256", 1 << 16);
    assert_int_equal(policy_world_offset(&world, 256), 0);
    struct policy_request request = {.requested_bytes = 10, .alignment = 4096};
    assert_int_equal(policy_world_ask(&world, &request, true), POLICY_PLACED);
    assert_int_equal(world.live[1].placement.offset, 4096);
    assert_int_equal(world.live[1].placement.reserved_bytes, 4096);
    policy_world_close(&world);
}

static void test_a_forgotten_block_never_joins(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "minimum_block=1", 4);
    assert_int_equal(policy_world_offset(&world, 2), 0);
    assert_int_equal(policy_world_offset(&world, 2), 2);
    policy_world_forget(&world, 0);
    policy_world_free_offset(&world, 2);
    assert_int_equal(policy_world_allocate(&world, 3), POLICY_FULL);
    assert_int_equal(policy_world_offset(&world, 2), 2);
    policy_world_close(&world);
}

static void test_blocks_that_were_never_used_do_not_count(void **state)
{
    (void)state;
    struct policy_world world;
    struct policy_measures measures;
    open_world(&world, "minimum_block=1", 1024);
    policy_buddy.measure(world.policy, &measures);
    assert_int_equal(measures.reserved_bytes, 0);
    assert_int_equal(measures.blocks, 0);
    assert_int_equal(policy_world_offset(&world, 16), 0);
    assert_int_equal(policy_world_offset(&world, 4), 16);
    policy_world_free_offset(&world, 0);
    policy_buddy.measure(world.policy, &measures);
    assert_int_equal(measures.reserved_bytes, 20);
    assert_int_equal(measures.free_bytes, 16);
    assert_int_equal(measures.blocks, 2);
    assert_int_equal(policy_buddy.largest_free(world.policy), 16);
    policy_world_free_offset(&world, 16); /* one block of 1,024 again, used up to 20 */
    policy_buddy.measure(world.policy, &measures);
    assert_int_equal(measures.blocks, 1);
    assert_int_equal(policy_buddy.largest_free(world.policy), 20);
    policy_world_close(&world);
}

static void test_a_smaller_capacity_lets_nothing_rise(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "minimum_block=1", 64);
    assert_int_equal(policy_world_offset(&world, 32), 0);
    policy_world_resize(&world, 40);
    assert_int_equal(policy_world_allocate(&world, 16), POLICY_FULL); /* would end at 48 */
    assert_int_equal(policy_world_offset(&world, 8), 32);
    policy_world_close(&world);
}

static void test_a_least_block_that_is_no_power_of_two_is_refused(void **state)
{
    (void)state;
    struct worsegpu_config config;
    struct knob_value values[KNOBS_MAX];
    char problem[KNOBS_PROBLEM_SIZE];
    worsegpu_config_default(&config);
    assert_false(knobs_read(&policy_buddy, &config, "minimum_block=300", values, problem));
    assert_non_null(strstr(problem, "minimum_block"));
    assert_true(knobs_read(&policy_buddy, &config, "minimum_block=512", values, problem));
}

/* ------------------------------------------------------------------------------ a naive model */

enum {
    LEAST_BLOCKS = 256
};
struct naive {
    bool used[LEAST_BLOCKS];
};

/* Whether an aligned piece of this size is free, all of it. */
static bool naive_free(const struct naive *naive, uint64_t offset, uint64_t bytes)
{
    for (uint64_t i = offset; i < offset + bytes; i++) {
        if (naive->used[i])
            return false;
    }
    return true;
}

/* Whether any piece of this size could be handed out: free, aligned, whole. */
static bool naive_can(const struct naive *naive, uint64_t bytes)
{
    for (uint64_t offset = 0; offset + bytes <= LEAST_BLOCKS; offset += bytes) {
        if (naive_free(naive, offset, bytes))
            return true;
    }
    return false;
}

static void test_it_refuses_only_what_a_map_of_the_range_has_no_place_for(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct policy_world world;
        struct naive naive = {{false}};
        open_world(&world, "minimum_block=1", LEAST_BLOCKS);
        world.number = seed;
        for (int step = 0; step < 600; step++) {
            if (policy_world_below(&world, 100) < 55) {
                uint64_t bytes = 1 + policy_world_below(&world, UINT64_C(1) << step % 7);
                uint64_t power = 1;
                while (power < bytes)
                    power *= 2;
                bool can = naive_can(&naive, power);
                assert_int_equal(policy_world_allocate(&world, bytes),
                                 can ? POLICY_PLACED : POLICY_FULL);
                if (!can)
                    continue;
                const struct policy_placement *placement =
                    &world.live[world.live_count - 1].placement;
                assert_int_equal(placement->reserved_bytes, power);
                assert_int_equal(placement->offset % power, 0);
                assert_true(naive_free(&naive, placement->offset, power));
                memset(&naive.used[placement->offset], true, (size_t)power);
            } else if (world.live_count > 0) {
                size_t place = (size_t)policy_world_below(&world, world.live_count);
                const struct policy_placement *placement = &world.live[place].placement;
                memset(&naive.used[placement->offset], false, (size_t)placement->reserved_bytes);
                policy_world_free(&world, place);
            }
        }
        policy_world_close(&world);
    }
}

/* ------------------------------------------------------------------------------ witness, chaos */

static void test_the_witness_sees_nothing_wrong(void **state)
{
    (void)state;
    struct policy_rules rules = {.alignment = 256};
    policy_world_run_all("buddy", "", 1 << 20, &rules);
    policy_world_run_all("buddy", "", 1000003, &rules);
    policy_world_run_all("buddy", "minimum_block=1", 999983, NULL);
}

static void test_running_out_of_memory_changes_nothing(void **state)
{
    (void)state;
    policy_world_chaos("buddy", "", 1 << 20, NULL);
}

static void test_the_audit_finds_blocks_that_are_no_buddies(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "minimum_block=1", 8);
    for (uint64_t offset = 0; offset < 8; offset += 2)
        assert_int_equal(policy_world_offset(&world, 2), offset);
    struct buddy_policy *buddy = (struct buddy_policy *)world.policy;
    struct policy_live live = policy_world_live(&world);
    struct audit audit = {0};
    uint64_t lowest = world.live[0].placement.cookie;
    struct block *second = &buddy->blocks.items[world.live[1].placement.cookie];
    policy_world_forget(&world, 1);
    policy_world_forget(&world, 0);
    /* 2 + 2 + 2 + 2 become 3 + 1 + 2 + 2; no sum changes. */
    buddy->blocks.items[lowest].bytes = 3;
    second->bytes = 1;
    second->offset = 3;
    assert_int_equal(policy_buddy.check(world.policy, &live, &audit), WORSEGPU_OK);
    assert_string_equal(audit.broken, "block_layout");
    policy_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_takes_the_next_power_of_two),
        cmocka_unit_test(test_a_block_is_halved_until_it_fits),
        cmocka_unit_test(test_a_block_joins_its_buddy_and_no_other_neighbour),
        cmocka_unit_test(test_a_buddy_that_is_cut_is_not_joined),
        cmocka_unit_test(test_of_several_blocks_the_one_listed_last_is_taken),
        cmocka_unit_test(test_a_capacity_is_covered_by_falling_powers_of_two),
        cmocka_unit_test(test_a_capacity_below_the_least_block_has_no_block),
        cmocka_unit_test(test_an_alignment_is_had_by_the_size),
        cmocka_unit_test(test_a_forgotten_block_never_joins),
        cmocka_unit_test(test_blocks_that_were_never_used_do_not_count),
        cmocka_unit_test(test_a_smaller_capacity_lets_nothing_rise),
        cmocka_unit_test(test_a_least_block_that_is_no_power_of_two_is_refused),
        cmocka_unit_test(test_it_refuses_only_what_a_map_of_the_range_has_no_place_for),
        cmocka_unit_test(test_the_witness_sees_nothing_wrong),
        cmocka_unit_test(test_running_out_of_memory_changes_nothing),
        cmocka_unit_test(test_the_audit_finds_blocks_that_are_no_buddies),
    };
    return cmocka_run_group_tests_name("buddy", tests, NULL, NULL);
}
