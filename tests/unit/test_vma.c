/* Policy "vma", its TLSF algorithm: lists, tail, four strategies, alignment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/policies/vma.h"
#include "tests/support/naive_range.h"
#include "tests/support/policy_world.h"

static const struct policy_rules no_rules;

static void open_world(struct policy_world *world, const char *knobs, uint64_t capacity)
{
    policy_world_open(world, "vma", knobs, capacity, &no_rules);
}

static int ask(struct policy_world *world, uint64_t bytes, uint64_t alignment)
{
    struct policy_request request = {.requested_bytes = bytes, .alignment = alignment};
    return policy_world_ask(world, &request, true);
}

static uint64_t aligned(struct policy_world *world, uint64_t bytes, uint64_t alignment)
{
    assert_int_equal(ask(world, bytes, alignment), POLICY_PLACED);
    return world->live[world->live_count - 1].placement.offset;
}

static void test_lists_are_8_apart_up_to_256_and_then_32_for_each_power(void **state)
{
    (void)state;
    assert_int_equal(vma_list_of(1), 0);
    assert_int_equal(vma_list_of(8), 0);
    assert_int_equal(vma_list_of(9), 1);
    assert_int_equal(vma_list_of(256), 31);
    assert_int_equal(vma_list_of(257), 32);
    assert_int_equal(vma_list_of(263), 32);
    assert_int_equal(vma_list_of(264), 33);
    assert_int_equal(vma_list_of(511), 63);
    assert_int_equal(vma_list_of(512), 64);
    assert_in_range(vma_list_of(WORSEGPU_MAX_BYTES), 0, CLASS_LISTS_MAX - 1);
}

/* A free block of 100 at 0, and the tail from 150 on. 100 asked for begins at the list of 108 and
 * finds nothing there. */
static uint64_t second_place_of_100(const char *knobs)
{
    struct policy_world world;
    open_world(&world, knobs, 10000);
    policy_world_offset(&world, 100);
    policy_world_offset(&world, 50);
    policy_world_free_offset(&world, 0);
    uint64_t offset = policy_world_offset(&world, 100);
    policy_world_close(&world);
    return offset;
}

static void test_default_and_min_time_prefer_the_tail_to_the_own_list(void **state)
{
    (void)state;
    assert_int_equal(second_place_of_100("strategy=default"), 150);
    assert_int_equal(second_place_of_100("strategy=min_time"), 150);
    assert_int_equal(second_place_of_100("strategy=min_memory"), 0);
    assert_int_equal(second_place_of_100("strategy=min_offset"), 0);
}

/* Free blocks of 40 at 64 and, freed later, at 200; the tail begins at 248. 24 bytes at a multiple
 * of 64 fit at 64, but not at 256, which is 56 above 200. */
static uint64_t place_with_a_useless_head(const char *knobs)
{
    struct policy_world world;
    open_world(&world, knobs, 10000);
    static const uint64_t sizes[] = {64, 40, 96, 40, 8};
    for (size_t i = 0; i < 5; i++)
        policy_world_offset(&world, sizes[i]);
    policy_world_free_offset(&world, 64);
    policy_world_free_offset(&world, 200);
    uint64_t offset = aligned(&world, 24, 64);
    policy_world_close(&world);
    return offset;
}

static void test_min_time_looks_only_at_the_head_before_the_tail(void **state)
{
    (void)state;
    assert_int_equal(place_with_a_useless_head("strategy=default"), 64);
    assert_int_equal(place_with_a_useless_head("strategy=min_time"), 256);
    assert_int_equal(place_with_a_useless_head("strategy=min_memory"), 64);
    assert_int_equal(place_with_a_useless_head("strategy=min_offset"), 64);
}

static void test_sizes_from_249_to_256_begin_at_the_list_of_257(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 10000);
    /* Free: 257 at 0 (list 32), then 256 at 262 (list 31). With 8 added, as below 249, 256 would
     * begin at the list of 264, above them both. */
    policy_world_offset(&world, 257);
    policy_world_offset(&world, 5);
    policy_world_offset(&world, 256);
    policy_world_offset(&world, 5);
    policy_world_free_offset(&world, 0);
    policy_world_free_offset(&world, 262);
    assert_int_equal(policy_world_offset(&world, 256), 0);
    policy_world_close(&world);
}

static void test_a_gap_below_and_a_rest_above_become_free_blocks(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 1000);
    policy_world_offset(&world, 1);
    assert_int_equal(aligned(&world, 10, 256), 256);
    char *text = policy_world_statistics(&world);
    assert_string_equal(text, "blockCount 1\nblockBytes 1000\nallocationCount 2\n"
                              "allocationBytes 11\nallocationSizeMin 1\nallocationSizeMax 10\n"
                              "unusedRangeCount 2\nunusedRangeSizeMin 255\n"
                              "unusedRangeSizeMax 734\n");
    free(text);
    policy_world_close(&world);
}

static void test_statistics_of_none_have_a_least_that_nothing_is_below(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 100);
    char *text = policy_world_statistics(&world);
    assert_non_null(strstr(text, "allocationSizeMin 18446744073709551615\nallocationSizeMax 0\n"));
    free(text);
    policy_world_offset(&world, 100);
    text = policy_world_statistics(&world);
    assert_non_null(strstr(text, "unusedRangeCount 0\nunusedRangeSizeMin 18446744073709551615\n"
                                 "unusedRangeSizeMax 0\n"));
    free(text);
    policy_world_close(&world);
}

static void test_what_is_freed_below_the_tail_joins_it_even_when_it_is_empty(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 100);
    const struct class_range *range = &((struct vma_policy *)world.policy)->range;
    policy_world_offset(&world, 60);
    policy_world_offset(&world, 40);
    assert_int_equal(range->tail, BLOCK_NONE);
    policy_world_free_offset(&world, 60);
    assert_int_equal(blocks_at(&range->blocks, range->tail)->bytes, 40);
    policy_world_free_offset(&world, 0);
    assert_int_equal(blocks_at(&range->blocks, range->tail)->bytes, 100);
    assert_int_equal(range->lists.groups, 0);
    policy_world_close(&world);
}

static void test_the_greater_of_both_alignments_counts(void **state)
{
    (void)state;
    struct policy_world world;
    const struct policy_rules rules = {.alignment = 64};
    policy_world_open(&world, "vma", "alignment=64", 10000, &rules);
    policy_world_offset(&world, 1);
    assert_int_equal(aligned(&world, 1, 1), 64);
    assert_int_equal(aligned(&world, 1, 256), 256);
    policy_world_close(&world);
}

static void test_size_0_and_more_than_all_free_bytes_are_refused(void **state)
{
    (void)state;
    struct policy_world world;
    struct policy_request request = {0};
    struct policy_outcome outcome;
    open_world(&world, "", 100);
    assert_int_equal(policy_vma.place(world.policy, &request, &outcome), POLICY_FULL);
    assert_int_equal(ask(&world, 101, 0), POLICY_FULL);
    assert_int_equal(ask(&world, UINT64_MAX, UINT64_C(1) << 63), POLICY_FULL);
    policy_world_offset(&world, 1);
    assert_int_equal(ask(&world, 1, UINT64_C(1) << 63), POLICY_FULL);
    policy_world_close(&world);
}

static void test_an_alignment_that_is_no_power_of_two_is_no_knob(void **state)
{
    (void)state;
    struct worsegpu_config config;
    worsegpu_config_default(&config);
    struct knob_value values[KNOBS_MAX];
    char problem[KNOBS_PROBLEM_SIZE];
    assert_false(knobs_read(&policy_vma, &config, "alignment=24", values, problem));
    assert_non_null(strstr(problem, "alignment must be a power of two"));
    assert_true(knobs_read(&policy_vma, &config, "alignment=32", values, problem));
}

static uint64_t scanned(struct policy_world *world, uint64_t bytes, uint64_t alignment)
{
    struct policy_request request = {.requested_bytes = bytes, .alignment = alignment};
    struct policy_outcome outcome;
    if (policy_vma.place(world->policy, &request, &outcome) == POLICY_PLACED)
        policy_vma.release(world->policy, &outcome.placement, &(struct policy_free){0});
    return outcome.blocks_scanned;
}

/* 8 bytes between each: free 20 at 0, 30 at 28, 40 at 66, then the tail. */
static void open_with_three_holes(struct policy_world *world, const char *knobs)
{
    open_world(world, knobs, 1000);
    for (uint64_t bytes = 20; bytes <= 40; bytes += 10) {
        policy_world_offset(world, bytes);
        policy_world_offset(world, 8);
    }
    policy_world_free_offset(world, 0);
    policy_world_free_offset(world, 28);
    policy_world_free_offset(world, 66);
}

static void test_blocks_scanned_are_those_the_search_looks_at(void **state)
{
    (void)state;
    struct policy_world world;
    open_with_three_holes(&world, "strategy=min_offset");
    assert_int_equal(scanned(&world, 20, 0), 1);
    assert_int_equal(scanned(&world, 40, 0), 3);
    assert_int_equal(scanned(&world, 41, 0), 4); /* and the tail */
    assert_int_equal(scanned(&world, 1001, 0), 0);
    policy_world_close(&world);
    open_with_three_holes(&world, "strategy=default");
    assert_int_equal(scanned(&world, 12, 0), 1); /* the list of 20 */
    assert_int_equal(scanned(&world, 41, 0), 1); /* the tail alone */
    assert_int_equal(scanned(&world, 900, 0), 1);
    policy_world_close(&world);
}

static void test_a_smaller_capacity_refuses_what_would_go_higher_than_before(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 1000);
    policy_world_offset(&world, 500);
    policy_world_resize(&world, 100);
    assert_int_equal(ask(&world, 1, 0), POLICY_FULL);
    policy_world_free_offset(&world, 0);
    assert_int_equal(ask(&world, 501, 0), POLICY_FULL);
    assert_int_equal(policy_world_offset(&world, 500), 0);
    policy_world_close(&world);
}

static void test_a_forgotten_block_is_an_allocation_for_ever(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 100);
    policy_world_offset(&world, 60);
    policy_world_forget(&world, 0);
    policy_world_offset(&world, 40);
    policy_world_free_offset(&world, 60);
    char *text = policy_world_statistics(&world);
    assert_non_null(strstr(text, "allocationCount 1\nallocationBytes 60\n"));
    free(text);
    assert_int_equal(ask(&world, 41, 0), POLICY_FULL);
    policy_world_close(&world);
}

/* ------------------------------------------------------------------------------ naive model */

static unsigned naive_list(uint64_t bytes)
{
    if (bytes <= 256)
        return (unsigned)((bytes - 1) / 8);
    unsigned log2 = naive_log2(bytes);
    uint64_t step = (UINT64_C(1) << log2) / 32;
    return 32 + 32 * (log2 - 8) + (unsigned)(bytes / step - 32);
}

struct naive_search {
    struct naive_range *range;
    size_t tail; /* NAIVE_NONE: empty */
    uint64_t bytes;
    uint64_t alignment;
};

static bool naive_fits(const struct naive_search *search, size_t place)
{
    const struct naive_block *block = &search->range->blocks[place];
    uint64_t lost = (search->alignment - block->offset % search->alignment) % search->alignment;
    return block->bytes >= search->bytes + lost;
}

static size_t naive_in_list(const struct naive_search *search, unsigned list, bool head_alone)
{
    uint64_t before = UINT64_MAX;
    for (;;) {
        size_t place = naive_next_in_list(search->range, naive_list, list, search->tail, before);
        if (place == NAIVE_NONE || naive_fits(search, place))
            return place;
        if (head_alone)
            return NAIVE_NONE;
        before = search->range->blocks[place].pushed;
    }
}

static size_t naive_lowest(const struct naive_search *search)
{
    for (size_t i = 0; i < search->range->count; i++) {
        if (!search->range->blocks[i].used && naive_fits(search, i))
            return i; /* the tail is the last one anyway */
    }
    return NAIVE_NONE;
}

/* One step of a strategy: B the bigger list, H its head alone, O the own list, T the tail, > the
 * higher lists. */
static size_t naive_step(const struct naive_search *search, char step)
{
    uint64_t bytes = search->bytes;
    uint64_t more = bytes <= 248   ? bytes + 8
                    : bytes <= 256 ? 257
                                   : bytes + (UINT64_C(1) << naive_log2(bytes)) / 32;
    unsigned list;
    unsigned least = naive_list(step == 'O' ? bytes : more);
    if (step == 'T')
        return search->tail != NAIVE_NONE && naive_fits(search, search->tail) ? search->tail
                                                                              : NAIVE_NONE;
    if (naive_lowest_list(search->range, naive_list, least, search->tail, &list) != 0)
        return NAIVE_NONE;
    if (step != '>')
        return naive_in_list(search, list, step == 'H');
    while (naive_lowest_list(search->range, naive_list, list + 1, search->tail, &list) == 0) {
        size_t place = naive_in_list(search, list, false);
        if (place != NAIVE_NONE)
            return place;
    }
    return NAIVE_NONE;
}

static uint64_t naive_place(struct naive_search *search, const char *steps)
{
    struct naive_range *range = search->range;
    size_t last = range->count - 1;
    search->tail = range->blocks[last].used ? NAIVE_NONE : last;
    size_t place = NAIVE_NONE;
    if (*steps == '\0')
        place = naive_lowest(search);
    for (; *steps != '\0' && place == NAIVE_NONE; steps++)
        place = naive_step(search, *steps);
    if (place == NAIVE_NONE)
        return UINT64_MAX;
    uint64_t offset = range->blocks[place].offset;
    uint64_t gap = (search->alignment - offset % search->alignment) % search->alignment;
    if (gap > 0) {
        naive_cut(range, place, gap);
        naive_push(range, place);
        place++;
    }
    if (range->blocks[place].bytes > search->bytes) {
        naive_cut(range, place, search->bytes);
        naive_push(range, place + 1);
    }
    range->blocks[place].used = true;
    return range->blocks[place].offset;
}

static void compare_with_naive(const char *strategy, const char *steps, uint64_t alignments,
                               uint64_t seed)
{
    static struct naive_range naive;
    struct naive_search search = {.range = &naive};
    struct policy_world world;
    char knobs[64];
    snprintf(knobs, sizeof(knobs), "strategy=%s", strategy);
    open_world(&world, knobs, 60000);
    world.number = seed;
    world.look_closely = false;
    naive_begin(&naive, 60000);
    for (int step = 0; step < 3000; step++) {
        if (world.live_count == 0 || policy_world_below(&world, 100) < 55) {
            search.bytes = 1 + policy_world_below(&world, 1 + policy_world_below(&world, 6000));
            search.alignment = UINT64_C(1) << policy_world_below(&world, alignments);
            uint64_t expected = naive_place(&search, steps);
            int verdict = ask(&world, search.bytes, search.alignment);
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

static void test_each_strategy_places_as_a_naive_model_does(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        uint64_t alignments = seed % 2 == 0 ? 11 : 1;
        compare_with_naive("default", "BTO>", alignments, seed);
        compare_with_naive("min_time", "HTBO>", alignments, seed);
        compare_with_naive("min_memory", "OTB>", alignments, seed);
        compare_with_naive("min_offset", "", alignments, seed);
    }
}

static void test_random_work_breaks_no_rule(void **state)
{
    (void)state;
    policy_world_run_all("vma", "", 1 << 20, &no_rules);
    policy_world_run_all("vma", "strategy=min_time", 1000003, &no_rules);
    const struct policy_rules rules = {.alignment = 256};
    policy_world_run_all("vma", "strategy=min_memory alignment=256", 1 << 20, &rules);
    policy_world_run_all("vma", "strategy=min_offset alignment=256", 1 << 20, &rules);
}

static void test_any_memory_request_may_fail(void **state)
{
    (void)state;
    policy_world_chaos("vma", "", 1 << 20, &no_rules);
    policy_world_chaos("vma", "strategy=min_offset", 1 << 20, &no_rules);
}

static const char *broken_now(const struct policy_world *world)
{
    struct audit audit = {0};
    struct policy_live live = policy_world_live(world);
    assert_int_equal(policy_vma.check(world->policy, &live, &audit), WORSEGPU_OK);
    return audit.broken ? audit.broken : "";
}

static void test_the_audit_sees_a_tail_that_is_none_and_a_block_that_is_not_ordered(void **state)
{
    (void)state;
    struct policy_world world;
    open_with_three_holes(&world, "strategy=min_offset");
    struct class_range *range = &((struct vma_policy *)world.policy)->range;
    assert_string_equal(broken_now(&world), "");

    uint32_t tail = range->tail;
    range->tail = BLOCK_NONE;
    assert_string_equal(broken_now(&world), "free_index_count");
    range->tail = block_order_first(&range->by_offset, &range->nodes);
    assert_string_equal(broken_now(&world), "block_layout");
    range->tail = tail;

    uint32_t lowest = block_order_first(&range->by_offset, &range->nodes);
    block_order_remove(&range->by_offset, &range->nodes, lowest);
    assert_string_not_equal(broken_now(&world), "");
    block_order_insert(&range->by_offset, &range->nodes, lowest, 0, 0, 20);
    assert_string_equal(broken_now(&world), "");
    policy_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_are_8_apart_up_to_256_and_then_32_for_each_power),
        cmocka_unit_test(test_default_and_min_time_prefer_the_tail_to_the_own_list),
        cmocka_unit_test(test_min_time_looks_only_at_the_head_before_the_tail),
        cmocka_unit_test(test_sizes_from_249_to_256_begin_at_the_list_of_257),
        cmocka_unit_test(test_a_gap_below_and_a_rest_above_become_free_blocks),
        cmocka_unit_test(test_statistics_of_none_have_a_least_that_nothing_is_below),
        cmocka_unit_test(test_what_is_freed_below_the_tail_joins_it_even_when_it_is_empty),
        cmocka_unit_test(test_the_greater_of_both_alignments_counts),
        cmocka_unit_test(test_size_0_and_more_than_all_free_bytes_are_refused),
        cmocka_unit_test(test_an_alignment_that_is_no_power_of_two_is_no_knob),
        cmocka_unit_test(test_blocks_scanned_are_those_the_search_looks_at),
        cmocka_unit_test(test_a_smaller_capacity_refuses_what_would_go_higher_than_before),
        cmocka_unit_test(test_a_forgotten_block_is_an_allocation_for_ever),
        cmocka_unit_test(test_each_strategy_places_as_a_naive_model_does),
        cmocka_unit_test(test_random_work_breaks_no_rule),
        cmocka_unit_test(test_any_memory_request_may_fail),
        cmocka_unit_test(test_the_audit_sees_a_tail_that_is_none_and_a_block_that_is_not_ordered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
