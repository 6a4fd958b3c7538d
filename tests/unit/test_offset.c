/* Policy "offset": OffsetAllocator's classes, its refusals and its table of nodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/policies/offset.h"
#include "tests/support/naive_range.h"
#include "tests/support/policy_world.h"

static const struct policy_rules no_rules;

static void open_world(struct policy_world *world, const char *knobs, uint64_t capacity)
{
    policy_world_open(world, "offset", knobs, capacity, &no_rules);
}

static void assert_refused(struct policy_world *world, uint64_t bytes)
{
    assert_int_equal(policy_world_allocate(world, bytes), POLICY_FULL);
}

static void assert_statistics(const struct policy_world *world, const char *expected)
{
    char *text = policy_world_statistics(world);
    assert_string_equal(text, expected);
    free(text);
}

/* 8 = 1.000b * 2^3: exponent 3 is the first with a mantissa, so classes go on from 8. 17 lies
 * between 16 (class 16: 8 * (4 - 2)) and 18 (class 17: a step of 2^4 / 8 = 2). */
static void test_sizes_below_8_are_their_own_class_and_then_steps_are_eighths(void **state)
{
    (void)state;
    static const uint64_t cases[][3] = {
        /* units, down, up */
        {0, 0, 0},
        {1, 1, 1},
        {7, 7, 7},
        {8, 8, 8},
        {15, 15, 15},
        {16, 16, 16},
        {17, 16, 17},
        {18, 17, 17},
        {31, 23, 24},
        {32, 24, 24},
        {1024, 64, 64}, /* 8 * (10 - 2) */
        {1025, 64, 65},
        {655360, 138, 138},     /* 2^19 * 1.25: 8 * 17 + 2 */
        {UINT32_MAX, 239, 240}, /* 8 * 29 + 15 - 8 */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(offset_class_down(cases[i][0]), cases[i][1]);
        assert_int_equal(offset_class_up(cases[i][0]), cases[i][2]);
    }
}

static void test_the_floor_of_a_class_is_its_least_size(void **state)
{
    (void)state;
    for (uint32_t class = 0; class < 248; class ++) {
        uint64_t floor = offset_class_floor(class);
        assert_int_equal(offset_class_down(floor), class);
        assert_int_equal(offset_class_up(floor), class);
        if (floor > 0)
            assert_int_equal(offset_class_down(floor - 1), class - 1);
    }
}

static void test_an_empty_range_serves_sizes_up_to_the_floor_of_its_class(void **state)
{
    (void)state;
    struct policy_world world;
    /* 699,050 lies in the class from 655,360 (2^19 * 10 / 8) to 720,895. */
    open_world(&world, "", 699050);
    assert_refused(&world, 655361);
    assert_int_equal(policy_world_offset(&world, 655360), 0);
    policy_world_close(&world);

    open_world(&world, "", 1 << 20);
    assert_int_equal(policy_world_offset(&world, 1 << 20), 0);
    policy_world_close(&world);
}

static void test_a_block_of_the_own_class_is_not_looked_at_even_if_it_fits(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 17);
    /* Class up of 17 is 17, the only free block is in class 16. */
    assert_refused(&world, 17);
    assert_int_equal(policy_world_offset(&world, 16), 0);
    assert_int_equal(policy_world_offset(&world, 1), 16);
    policy_world_close(&world);
}

static void test_the_block_freed_last_is_used_first(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 1 << 20);
    uint64_t offsets[6];
    for (int i = 0; i < 6; i++)
        offsets[i] = policy_world_offset(&world, 64);
    policy_world_free_offset(&world, offsets[0]);
    policy_world_free_offset(&world, offsets[4]);
    policy_world_free_offset(&world, offsets[2]);
    assert_int_equal(policy_world_offset(&world, 64), offsets[2]);
    assert_int_equal(policy_world_offset(&world, 64), offsets[4]);
    assert_int_equal(policy_world_offset(&world, 64), offsets[0]);
    policy_world_close(&world);
}

static void test_a_freed_block_merges_with_both_neighbours(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 1 << 20);
    for (int i = 0; i < 4; i++)
        policy_world_offset(&world, 64);
    policy_world_free_offset(&world, 0);
    policy_world_free_offset(&world, 128);
    policy_world_free_offset(&world, 64);
    /* 0 to 192 are one block of class 44 (floor 192) again; above is what was never used. */
    assert_statistics(
        &world,
        "totalFreeSpace 1048512\nlargestFreeRegion 983040\nfree_regions:\n  192 1\n  983040 1\n");
    assert_int_equal(policy_world_offset(&world, 192), 0);
    policy_world_close(&world);
}

static void test_the_last_node_of_the_table_is_never_used(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "max_allocs=4", 1000);
    /* Nodes: the rest, and one for each allocation. With 3 of 4 in use nothing is given, not even
     * what would need no node. */
    assert_int_equal(policy_world_offset(&world, 8), 0);
    assert_statistics(&world,
                      "totalFreeSpace 992\nlargestFreeRegion 960\nfree_regions:\n  960 1\n");
    assert_int_equal(policy_world_offset(&world, 8), 8);
    assert_refused(&world, 1);
    assert_statistics(&world, "totalFreeSpace 0\nlargestFreeRegion 0\nfree_regions:\n  960 1\n");
    policy_world_free_offset(&world, 0);
    assert_refused(&world, 8);
    policy_world_free_offset(&world, 8);
    assert_int_equal(policy_world_offset(&world, 8), 0);
    policy_world_close(&world);
}

static void test_a_request_takes_whole_units(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "unit_bytes=12", 125); /* 10 units; 5 bytes are never used */
    assert_int_equal(policy_world_offset(&world, 13), 0);
    assert_int_equal(world.live[0].placement.reserved_bytes, 24);
    assert_int_equal(policy_world_offset(&world, 12), 24);
    assert_statistics(&world, "totalFreeSpace 7\nlargestFreeRegion 7\nfree_regions:\n  7 1\n");
    assert_refused(&world, 85);
    assert_int_equal(policy_world_offset(&world, 84), 36);
    policy_world_close(&world);
}

static int ask(struct offset_policy *offset, uint64_t bytes, struct policy_outcome *outcome)
{
    struct policy_request request = {.requested_bytes = bytes};
    return offset->policy.operations->place(&offset->policy, &request, outcome);
}

static void test_size_0_gets_a_block_of_no_size_that_parts_its_neighbours(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 1024);
    struct offset_policy *offset = (struct offset_policy *)world.policy;
    struct policy_free how = {0};
    struct policy_outcome outcome[4];
    static const uint64_t sizes[4] = {10, 0, 20, 0};
    static const uint64_t offsets[4] = {0, 10, 10, 30};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ask(offset, sizes[i], &outcome[i]), POLICY_PLACED);
        assert_int_equal(outcome[i].placement.offset, offsets[i]);
    }
    /* Alone it lies in class 0, which only size 0 uses. */
    policy_offset.release(world.policy, &outcome[1].placement, &how);
    assert_statistics(&world,
                      "totalFreeSpace 994\nlargestFreeRegion 960\nfree_regions:\n  0 1\n  960 1\n");
    assert_int_equal(ask(offset, 0, &outcome[1]), POLICY_PLACED);
    assert_int_equal(outcome[1].placement.offset, 10);
    for (int i = 0; i < 4; i++)
        policy_offset.release(world.policy, &outcome[i].placement, &how);
    assert_statistics(&world,
                      "totalFreeSpace 1024\nlargestFreeRegion 1024\nfree_regions:\n  1024 1\n");
    policy_world_close(&world);
}

static void test_one_free_block_is_looked_at_or_none(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 1000);
    struct offset_policy *offset = (struct offset_policy *)world.policy;
    struct policy_outcome outcome;
    assert_int_equal(ask(offset, 961, &outcome), POLICY_FULL);
    assert_int_equal(outcome.blocks_scanned, 0);
    assert_int_equal(ask(offset, 960, &outcome), POLICY_PLACED);
    assert_int_equal(outcome.blocks_scanned, 1);
    assert_true(policy_offset.release(world.policy, &outcome.placement, &(struct policy_free){0}));
    policy_world_close(&world);
}

static void test_a_smaller_capacity_refuses_what_would_go_higher_than_before(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 1024);
    assert_int_equal(policy_world_offset(&world, 512), 0);
    policy_world_resize(&world, 100);
    assert_refused(&world, 1);
    policy_world_free_offset(&world, 0);
    assert_refused(&world, 513);
    assert_int_equal(policy_world_offset(&world, 512), 0);
    policy_world_resize(&world, 2048);
    assert_refused(&world, 513);
    assert_int_equal(policy_world_offset(&world, 512), 512);
    policy_world_close(&world);
}

static void test_a_forgotten_block_keeps_its_place_and_its_node(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "max_allocs=4", 1024);
    policy_world_offset(&world, 64);
    policy_world_offset(&world, 64);
    policy_world_forget(&world, 0);
    policy_world_free_offset(&world, 64);
    struct policy_measures measures;
    policy_offset.measure(world.policy, &measures);
    assert_int_equal(measures.forgotten_bytes, 64);
    assert_int_equal(measures.forgotten_blocks, 1);
    assert_int_equal(measures.free_bytes, 64);
    assert_int_equal(policy_offset.largest_free(world.policy), 64);
    assert_int_equal(policy_world_offset(&world, 64), 64);
    assert_refused(&world, 64);
    policy_world_close(&world);
}

static void assert_problem(const char *knobs, uint64_t capacity, const char *part)
{
    struct worsegpu_config config;
    worsegpu_config_default(&config);
    config.gpu_capacity = capacity;
    struct knob_value values[KNOBS_MAX];
    char problem[KNOBS_PROBLEM_SIZE];
    bool fine = knobs_read(&policy_offset, &config, knobs, values, problem);
    assert_int_equal(fine, part == NULL);
    if (part && !strstr(problem, part))
        fail_msg("'%s' does not say '%s'", problem, part);
}

static void test_a_range_has_at_least_one_unit_and_fewer_than_32_bits_of_them(void **state)
{
    (void)state;
    assert_problem("", UINT32_MAX, NULL);
    assert_problem("", UINT64_C(1) << 32, "unit_bytes must be at least 2");
    assert_problem("unit_bytes=2", UINT64_C(1) << 32, NULL);
    assert_problem("unit_bytes=2", UINT64_C(1) << 33, "unit_bytes must be at least 3");
    assert_problem("unit_bytes=257", 256, "unit_bytes must be at most gpu_capacity");
    assert_problem("unit_bytes=256", 256, NULL);
}

/* ------------------------------------------------------------------------------ naive model */

static uint64_t naive_floor(unsigned class)
{
    if (class < 8)
        return class;
    uint64_t step = 1;
    for (unsigned i = 8; i + 8 <= class; i += 8)
        step *= 2;
    return (8 + class % 8) * step;
}

static unsigned naive_class_down(uint64_t bytes)
{
    unsigned class = 0;
    while (naive_floor(class + 1) <= bytes)
        class ++;
    return class;
}

static uint64_t naive_place(struct naive_range *range, uint64_t bytes, size_t max_allocs)
{
    unsigned least = naive_class_down(bytes);
    if (naive_floor(least) < bytes)
        least++;
    unsigned class;
    if (range->count + 1 >= max_allocs ||
        naive_lowest_list(range, naive_class_down, least, NAIVE_NONE, &class) != 0)
        return UINT64_MAX;
    size_t place = naive_next_in_list(range, naive_class_down, class, NAIVE_NONE, UINT64_MAX);
    if (range->blocks[place].bytes > bytes) {
        naive_cut(range, place, bytes);
        naive_push(range, place + 1);
    }
    range->blocks[place].used = true;
    return range->blocks[place].offset;
}

static void compare_with_naive(uint64_t capacity, uint64_t greatest, size_t max_allocs,
                               const char *knobs, uint64_t seed)
{
    static struct naive_range naive;
    struct policy_world world;
    open_world(&world, knobs, capacity);
    world.number = seed;
    world.look_closely = false;
    naive_begin(&naive, capacity);
    for (int step = 0; step < 4000; step++) {
        if (world.live_count == 0 || policy_world_below(&world, 100) < 55) {
            uint64_t bytes =
                1 + policy_world_below(&world, 1 + policy_world_below(&world, greatest));
            uint64_t expected = naive_place(&naive, bytes, max_allocs);
            int verdict = policy_world_allocate(&world, bytes);
            assert_int_equal(verdict, expected == UINT64_MAX ? POLICY_FULL : POLICY_PLACED);
            if (verdict == POLICY_PLACED)
                assert_int_equal(world.live[world.live_count - 1].placement.offset, expected);
        } else {
            size_t place = (size_t)policy_world_below(&world, world.live_count);
            naive_push(&naive, naive_free(&naive, world.live[place].placement.offset));
            policy_world_free(&world, place);
        }
    }
    policy_world_check(&world);
    assert_true(world.refused > 0);
    policy_world_close(&world);
}

static void test_it_places_as_a_naive_model_does(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        compare_with_naive(30000, 6000, 131072, "", seed);
        compare_with_naive(65536, 3000, 40, "max_allocs=40", seed);
    }
}

static void test_random_work_breaks_no_rule(void **state)
{
    (void)state;
    policy_world_run_all("offset", "", 1 << 20, &no_rules);
    const struct policy_rules units = {.alignment = 256};
    policy_world_run_all("offset", "unit_bytes=256 max_allocs=100", 1 << 20, &units);
}

static void test_any_memory_request_may_fail(void **state)
{
    (void)state;
    policy_world_chaos("offset", "", 1 << 20, &no_rules);
}

static const char *broken_now(const struct policy_world *world)
{
    struct audit audit = {0};
    struct policy_live live = policy_world_live(world);
    assert_int_equal(policy_offset.check(world->policy, &live, &audit), WORSEGPU_OK);
    return audit.broken ? audit.broken : "";
}

static void test_the_audit_sees_a_wrong_end_and_a_block_in_a_wrong_list(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 1024);
    policy_world_offset(&world, 64);
    struct class_range *range = &((struct offset_policy *)world.policy)->range;
    assert_string_equal(broken_now(&world), "");

    uint32_t last = range->last;
    range->last = (uint32_t)world.live[0].placement.cookie;
    assert_string_equal(broken_now(&world), "block_layout");
    range->last = last;

    class_lists_remove(&range->lists, &range->blocks, last);
    assert_string_equal(broken_now(&world), "free_index_count");
    class_lists_push(&range->lists, &range->blocks, 3, last);
    assert_string_equal(broken_now(&world), "free_index_class");
    class_lists_remove(&range->lists, &range->blocks, last);
    class_lists_push(&range->lists, &range->blocks, offset_class_down(960), last);

    world.largest_capacity_bytes = 63;
    assert_string_equal(broken_now(&world), "gpu_capacity_bound");
    world.largest_capacity_bytes = 1024;
    assert_string_equal(broken_now(&world), "");
    policy_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_below_8_are_their_own_class_and_then_steps_are_eighths),
        cmocka_unit_test(test_the_floor_of_a_class_is_its_least_size),
        cmocka_unit_test(test_an_empty_range_serves_sizes_up_to_the_floor_of_its_class),
        cmocka_unit_test(test_a_block_of_the_own_class_is_not_looked_at_even_if_it_fits),
        cmocka_unit_test(test_the_block_freed_last_is_used_first),
        cmocka_unit_test(test_a_freed_block_merges_with_both_neighbours),
        cmocka_unit_test(test_the_last_node_of_the_table_is_never_used),
        cmocka_unit_test(test_a_request_takes_whole_units),
        cmocka_unit_test(test_size_0_gets_a_block_of_no_size_that_parts_its_neighbours),
        cmocka_unit_test(test_one_free_block_is_looked_at_or_none),
        cmocka_unit_test(test_a_smaller_capacity_refuses_what_would_go_higher_than_before),
        cmocka_unit_test(test_a_forgotten_block_keeps_its_place_and_its_node),
        cmocka_unit_test(test_a_range_has_at_least_one_unit_and_fewer_than_32_bits_of_them),
        cmocka_unit_test(test_it_places_as_a_naive_model_does),
        cmocka_unit_test(test_random_work_breaks_no_rule),
        cmocka_unit_test(test_any_memory_request_may_fail),
        cmocka_unit_test(test_the_audit_sees_a_wrong_end_and_a_block_in_a_wrong_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
