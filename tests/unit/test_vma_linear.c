/* Policy "vma", its linear algorithm: a ring, two stacks, and entries that are dead but not gone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/policies/vma.h"
#include "tests/support/policy_world.h"

static const struct policy_rules no_rules;

static void open_world(struct policy_world *world, uint64_t capacity)
{
    policy_world_open(world, "vma", "algorithm=linear", capacity, &no_rules);
}

static int ask(struct policy_world *world, uint64_t bytes, uint64_t alignment, bool upper)
{
    struct policy_request request = {
        .requested_bytes = bytes, .alignment = alignment, .upper = upper};
    return policy_world_ask(world, &request, true);
}

static uint64_t upper(struct policy_world *world, uint64_t bytes, uint64_t alignment)
{
    assert_int_equal(ask(world, bytes, alignment, true), POLICY_PLACED);
    return world->live[world->live_count - 1].placement.offset;
}

static enum vma_mode mode(const struct policy_world *world)
{
    return ((struct vma_policy *)world->policy)->ends.mode;
}

static void test_allocations_follow_each_other_upward(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 100);
    assert_int_equal(policy_world_offset(&world, 10), 0);
    assert_int_equal(policy_world_offset(&world, 20), 10);
    assert_int_equal(policy_world_offset(&world, 70), 30);
    assert_int_equal(policy_world_allocate(&world, 1), POLICY_FULL);
    assert_int_equal(mode(&world), VMA_MODE_NONE);
    policy_world_close(&world);
}

static void test_offsets_are_rounded_up_to_the_alignment(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 1000);
    policy_world_offset(&world, 10);
    assert_int_equal(ask(&world, 10, 64, false), POLICY_PLACED);
    assert_int_equal(world.live[1].placement.offset, 64);
    assert_int_equal(ask(&world, 1, 1024, false), POLICY_FULL);
    policy_world_close(&world);
}

static void test_at_the_end_it_wraps_round_below_the_oldest(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 100);
    policy_world_offset(&world, 30);
    policy_world_offset(&world, 30);
    policy_world_offset(&world, 30);
    assert_int_equal(policy_world_allocate(&world, 20), POLICY_FULL);
    policy_world_free_offset(&world, 0);
    /* 10 are left above 90, but 30 below 30. */
    assert_int_equal(policy_world_offset(&world, 20), 0);
    assert_int_equal(mode(&world), VMA_MODE_RING);
    assert_int_equal(policy_world_offset(&world, 10), 20);
    /* A ring does not look above its list A again. */
    assert_int_equal(policy_world_allocate(&world, 1), POLICY_FULL);
    /* When A has gone, B goes on as A. */
    policy_world_free_offset(&world, 30);
    policy_world_free_offset(&world, 60);
    assert_int_equal(mode(&world), VMA_MODE_NONE);
    assert_int_equal(policy_world_offset(&world, 70), 30);
    policy_world_close(&world);
}

static void test_the_upper_stack_grows_downward_from_the_end(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 100);
    assert_int_equal(upper(&world, 10, 1), 90);
    assert_int_equal(mode(&world), VMA_MODE_STACK);
    assert_int_equal(upper(&world, 10, 16), 80);
    assert_int_equal(upper(&world, 10, 16), 64); /* 70 rounded down */
    assert_int_equal(policy_world_offset(&world, 60), 0);
    assert_int_equal(policy_world_allocate(&world, 5), POLICY_FULL);
    assert_int_equal(ask(&world, 5, 1, true), POLICY_FULL);
    assert_int_equal(policy_world_offset(&world, 4), 60);
    /* Rounded down to 48 it would lie over the lower stack. */
    policy_world_free_offset(&world, 60);
    assert_int_equal(ask(&world, 4, 16, true), POLICY_FULL);
    policy_world_close(&world);
}

static void test_the_lower_stack_may_empty_while_the_upper_one_stands(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 100);
    policy_world_offset(&world, 10);
    upper(&world, 20, 1);
    policy_world_free_offset(&world, 0);
    assert_int_equal(mode(&world), VMA_MODE_STACK);
    assert_int_equal(policy_world_offset(&world, 80), 0);
    policy_world_free_offset(&world, 80);
    assert_int_equal(mode(&world), VMA_MODE_NONE);
    policy_world_close(&world);
}

static void test_a_ring_has_no_upper_end(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 100);
    policy_world_offset(&world, 50);
    policy_world_offset(&world, 40);
    policy_world_free_offset(&world, 0);
    assert_int_equal(policy_world_offset(&world, 20), 0);
    assert_int_equal(mode(&world), VMA_MODE_RING);
    assert_int_equal(ask(&world, 1, 1, true), POLICY_FULL);
    policy_world_close(&world);
}

static void test_what_dies_in_the_middle_is_lost_until_an_end_reaches_it(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 100);
    for (int i = 0; i < 4; i++)
        policy_world_offset(&world, 25);
    policy_world_free_offset(&world, 25);
    policy_world_free_offset(&world, 50);
    assert_int_equal(policy_world_allocate(&world, 25), POLICY_FULL);
    policy_world_free_offset(&world, 75);
    assert_int_equal(policy_world_offset(&world, 75), 25);
    policy_world_close(&world);
}

static void test_with_nothing_live_it_begins_anew(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 100);
    for (int i = 0; i < 3; i++) {
        policy_world_offset(&world, 60);
        policy_world_offset(&world, 40);
        policy_world_free_offset(&world, 0);
        assert_int_equal(policy_world_offset(&world, 10), 0);
        policy_world_free_offset(&world, 60);
        policy_world_free_offset(&world, 0);
        assert_int_equal(mode(&world), VMA_MODE_NONE);
        assert_int_equal(upper(&world, 100, 1), 0);
        policy_world_free_offset(&world, 0);
    }
    policy_world_close(&world);
}

static void test_dead_entries_are_counted_as_gaps(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 100);
    for (int i = 0; i < 4; i++)
        policy_world_offset(&world, 20);
    policy_world_free_offset(&world, 20);
    policy_world_free_offset(&world, 40);
    char *text = policy_world_statistics(&world);
    assert_string_equal(text, "blockCount 1\nblockBytes 100\nallocationCount 2\n"
                              "allocationBytes 40\nallocationSizeMin 20\nallocationSizeMax 20\n"
                              "unusedRangeCount 2\nunusedRangeSizeMin 20\nunusedRangeSizeMax 40\n");
    free(text);
    policy_world_close(&world);
}

static void test_a_forgotten_entry_is_never_dropped(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 100);
    policy_world_offset(&world, 10);
    policy_world_offset(&world, 10);
    policy_world_forget(&world, 1);
    policy_world_free(&world, 0);
    /* Above it, or, when that is full, below it. */
    assert_int_equal(policy_world_offset(&world, 80), 20);
    assert_int_equal(policy_world_offset(&world, 10), 0);
    assert_int_equal(policy_world_allocate(&world, 1), POLICY_FULL);
    policy_world_close(&world);
}

static void test_a_smaller_capacity_refuses_what_would_go_higher_than_before(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 100);
    policy_world_offset(&world, 50);
    policy_world_resize(&world, 20);
    assert_int_equal(policy_world_allocate(&world, 1), POLICY_FULL);
    assert_int_equal(ask(&world, 1, 1, true), POLICY_FULL);
    policy_world_free(&world, 0);
    assert_int_equal(policy_world_offset(&world, 50), 0);
    policy_world_close(&world);
}

static uint64_t scanned(const struct policy_world *world, uint64_t bytes)
{
    struct policy_request request = {.requested_bytes = bytes};
    struct policy_outcome outcome;
    assert_int_equal(policy_vma.place(world->policy, &request, &outcome), POLICY_FULL);
    return outcome.blocks_scanned;
}

static void test_blocks_scanned_are_the_ends_it_looks_at(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 100);
    policy_world_offset(&world, 10);
    policy_world_offset(&world, 80);
    assert_int_equal(scanned(&world, 101), 0);
    assert_int_equal(scanned(&world, 11), 2); /* above, and below the oldest */
    upper(&world, 1, 1);
    assert_int_equal(scanned(&world, 11), 1); /* two stacks */
    policy_world_close(&world);
}

/* ------------------------------------------------------------------------------ naive model */

struct naive_entry {
    uint64_t offset;
    uint64_t bytes;
    bool live;
};

struct naive_list {
    struct naive_entry entries[4096];
    size_t count;
};

/* The page's two lists as they stand there. */
struct naive {
    struct naive_list a;
    struct naive_list b;
    enum vma_mode mode;
    uint64_t capacity;
};

static uint64_t end_of(const struct naive_list *list)
{
    if (list->count == 0)
        return 0;
    return list->entries[list->count - 1].offset + list->entries[list->count - 1].bytes;
}

static uint64_t append(struct naive_list *list, uint64_t offset, uint64_t bytes)
{
    assert_true(list->count < 4096);
    list->entries[list->count++] = (struct naive_entry){offset, bytes, true};
    return offset;
}

static uint64_t naive_upper(struct naive *naive, uint64_t bytes, uint64_t alignment)
{
    uint64_t end = naive->b.count ? naive->b.entries[naive->b.count - 1].offset : naive->capacity;
    if (naive->mode == VMA_MODE_RING || end < bytes)
        return UINT64_MAX;
    uint64_t place = (end - bytes) / alignment * alignment;
    if (place < end_of(&naive->a))
        return UINT64_MAX;
    naive->mode = VMA_MODE_STACK;
    return append(&naive->b, place, bytes);
}

static uint64_t naive_lower(struct naive *naive, uint64_t bytes, uint64_t alignment)
{
    if (naive->mode != VMA_MODE_RING) {
        uint64_t place = (end_of(&naive->a) + alignment - 1) / alignment * alignment;
        uint64_t limit = naive->mode == VMA_MODE_STACK ? naive->b.entries[naive->b.count - 1].offset
                                                       : naive->capacity;
        if (place + bytes <= limit)
            return append(&naive->a, place, bytes);
        if (naive->mode == VMA_MODE_STACK)
            return UINT64_MAX;
    }
    uint64_t place = (end_of(&naive->b) + alignment - 1) / alignment * alignment;
    if (naive->a.count == 0 || place + bytes > naive->a.entries[0].offset)
        return UINT64_MAX;
    naive->mode = VMA_MODE_RING;
    return append(&naive->b, place, bytes);
}

static size_t kill_in(struct naive_list *list, uint64_t offset)
{
    size_t live = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (list->entries[i].live && list->entries[i].offset == offset)
            list->entries[i].live = false;
        live += list->entries[i].live;
    }
    while (list->count > 0 && !list->entries[list->count - 1].live)
        list->count--;
    size_t dead = 0;
    while (dead < list->count && !list->entries[dead].live)
        dead++;
    list->count -= dead;
    memmove(list->entries, list->entries + dead, list->count * sizeof(list->entries[0]));
    return live;
}

static void naive_free(struct naive *naive, uint64_t offset)
{
    size_t live = kill_in(&naive->a, offset);
    live += kill_in(&naive->b, offset);
    if (live == 0 || naive->b.count == 0)
        naive->mode = VMA_MODE_NONE;
    if (naive->a.count == 0 && naive->mode == VMA_MODE_RING) {
        naive->a = naive->b;
        naive->b.count = 0;
        naive->mode = VMA_MODE_NONE;
    }
}

/* The offset of what is freed next: mostly the oldest, or the last of list B, sometimes any. */
static uint64_t next_to_free(const struct naive *naive, struct policy_world *world)
{
    uint64_t draw = policy_world_below(world, 100);
    if (draw < 60 && naive->a.count > 0)
        return naive->a.entries[0].offset;
    if (draw < 80 && naive->b.count > 0)
        return naive->b.entries[naive->b.count - 1].offset;
    return world->live[policy_world_below(world, world->live_count)].placement.offset;
}

/* Three requests in ten ask for the upper end where `uppers` is set. */
static void compare_with_naive(bool uppers, uint64_t alignments, uint64_t seed)
{
    static struct naive naive;
    memset(&naive, 0, sizeof(naive));
    naive.capacity = 20000;
    struct policy_world world;
    open_world(&world, naive.capacity);
    world.number = seed;
    world.look_closely = false;
    bool seen[3] = {false};
    for (int step = 0; step < 6000; step++) {
        if (world.live_count == 0 || policy_world_below(&world, 100) < 52) {
            uint64_t bytes = 1 + policy_world_below(&world, 1 + policy_world_below(&world, 1500));
            uint64_t alignment = UINT64_C(1) << policy_world_below(&world, alignments);
            bool from_above = uppers && policy_world_below(&world, 10) < 3;
            uint64_t expected = from_above ? naive_upper(&naive, bytes, alignment)
                                           : naive_lower(&naive, bytes, alignment);
            int verdict = ask(&world, bytes, alignment, from_above);
            assert_int_equal(verdict, expected == UINT64_MAX ? POLICY_FULL : POLICY_PLACED);
            if (verdict == POLICY_PLACED)
                assert_int_equal(world.live[world.live_count - 1].placement.offset, expected);
        } else {
            uint64_t offset = next_to_free(&naive, &world);
            naive_free(&naive, offset);
            policy_world_free_offset(&world, offset);
        }
        assert_int_equal(mode(&world), naive.mode);
        seen[naive.mode] = true;
        if (step % 50 == 0)
            policy_world_check(&world);
    }
    assert_true(world.refused > 0 && seen[VMA_MODE_NONE]);
    assert_true(seen[uppers ? VMA_MODE_STACK : VMA_MODE_RING]);
    policy_world_close(&world);
}

static void test_it_places_as_a_naive_model_does(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        compare_with_naive(false, 1, seed);
        compare_with_naive(false, 9, seed);
        compare_with_naive(true, 1, seed);
        compare_with_naive(true, 9, seed);
    }
}

static void test_random_work_breaks_no_rule(void **state)
{
    (void)state;
    policy_world_run_all("vma", "algorithm=linear", 1 << 20, &no_rules);
    const struct policy_rules rules = {.alignment = 64};
    policy_world_run_all("vma", "algorithm=linear alignment=64", 1000003, &rules);
}

static void test_any_memory_request_may_fail(void **state)
{
    (void)state;
    policy_world_chaos("vma", "algorithm=linear", 1 << 20, &no_rules);
}

static void assert_broken(const struct policy_world *world, const char *expected)
{
    struct audit audit = {0};
    struct policy_live live = policy_world_live(world);
    assert_int_equal(policy_vma.check(world->policy, &live, &audit), WORSEGPU_OK);
    assert_string_equal(audit.broken ? audit.broken : "", expected);
}

static void test_the_audit_sees_lists_that_lie(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, 100);
    for (int i = 0; i < 3; i++)
        policy_world_offset(&world, 10);
    struct vma_linear *ends = &((struct vma_policy *)world.policy)->ends;
    struct vma_entries *a = &ends->lists[ends->a];
    assert_broken(&world, "");

    uint32_t first = a->items[0];
    a->items[0] = BLOCK_NONE; /* dead at the front */
    assert_broken(&world, "block_layout");
    a->items[0] = a->items[1]; /* one block twice */
    a->items[1] = first;
    assert_broken(&world, "block_layout");
    a->items[1] = a->items[0];
    a->items[0] = first;
    ends->live--;
    assert_broken(&world, "block_layout");
    ends->live++;
    ends->mode = VMA_MODE_RING;
    assert_broken(&world, "block_layout");
    ends->mode = VMA_MODE_NONE;
    assert_broken(&world, "");
    policy_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations_follow_each_other_upward),
        cmocka_unit_test(test_offsets_are_rounded_up_to_the_alignment),
        cmocka_unit_test(test_at_the_end_it_wraps_round_below_the_oldest),
        cmocka_unit_test(test_the_upper_stack_grows_downward_from_the_end),
        cmocka_unit_test(test_the_lower_stack_may_empty_while_the_upper_one_stands),
        cmocka_unit_test(test_a_ring_has_no_upper_end),
        cmocka_unit_test(test_what_dies_in_the_middle_is_lost_until_an_end_reaches_it),
        cmocka_unit_test(test_with_nothing_live_it_begins_anew),
        cmocka_unit_test(test_dead_entries_are_counted_as_gaps),
        cmocka_unit_test(test_a_forgotten_entry_is_never_dropped),
        cmocka_unit_test(test_a_smaller_capacity_refuses_what_would_go_higher_than_before),
        cmocka_unit_test(test_blocks_scanned_are_the_ends_it_looks_at),
        cmocka_unit_test(test_it_places_as_a_naive_model_does),
        cmocka_unit_test(test_random_work_breaks_no_rule),
        cmocka_unit_test(test_any_memory_request_may_fail),
        cmocka_unit_test(test_the_audit_sees_lists_that_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
