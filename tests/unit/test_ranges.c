/* Ranges of addresses in their order (lab/outputs/ranges.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lab/outputs/ranges.h"
#include "tests/support/chaos.h"

static void add(struct ranges *ranges, uint64_t offset, uint64_t bytes, uint64_t tag)
{
    const struct range range = {offset, bytes, tag};
    assert_int_equal(ranges_add(ranges, &range), 0);
}

static void is_range(const struct range *range, uint64_t offset, uint64_t bytes, uint64_t tag)
{
    assert_int_equal(range->offset, offset);
    assert_int_equal(range->bytes, bytes);
    assert_int_equal(range->tag, tag);
}

static void test_ranges_lie_in_the_order_of_their_addresses(void **state)
{
    struct chaos chaos;
    struct ranges ranges;
    (void)state;
    chaos_init(&chaos);
    ranges_init(&ranges, &chaos.memory);
    add(&ranges, 100, 10, 1);
    add(&ranges, 0, 50, 2);
    add(&ranges, 50, 50, 3);
    assert_int_equal(ranges.count, 3);
    is_range(&ranges.all[0], 0, 50, 2);
    is_range(&ranges.all[1], 50, 50, 3);
    is_range(&ranges.all[2], 100, 10, 1);
    assert_int_equal(ranges_find(&ranges, 49), 0);
    assert_int_equal(ranges_find(&ranges, 50), 1);
    assert_int_equal(ranges_find(&ranges, 110), 3);
    ranges_remove(&ranges, 1);
    is_range(&ranges.all[1], 100, 10, 1);
    ranges_release(&ranges);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_a_piece_is_cut_out_and_the_rest_stays(void **state)
{
    struct chaos chaos;
    struct ranges ranges;
    struct range piece;
    (void)state;
    chaos_init(&chaos);
    ranges_init(&ranges, &chaos.memory);
    add(&ranges, 0, 100, 7);
    assert_int_equal(ranges_cut(&ranges, 40, 20, &piece), 0);
    is_range(&piece, 40, 20, 7);
    assert_int_equal(ranges.count, 2);
    is_range(&ranges.all[0], 0, 40, 7);
    is_range(&ranges.all[1], 60, 40, 7);
    assert_int_equal(ranges_cut(&ranges, 40, 20, &piece), 1);
    ranges_release(&ranges);
}

static void test_a_cut_over_several_ranges_takes_one_after_the_other(void **state)
{
    struct chaos chaos;
    struct ranges ranges;
    struct range piece;
    (void)state;
    chaos_init(&chaos);
    ranges_init(&ranges, &chaos.memory);
    add(&ranges, 0, 10, 1);
    add(&ranges, 10, 10, 2);
    add(&ranges, 30, 10, 3);
    assert_int_equal(ranges_cut(&ranges, 5, 30, &piece), 0);
    is_range(&piece, 5, 5, 1);
    assert_int_equal(ranges_cut(&ranges, 5, 30, &piece), 0);
    is_range(&piece, 10, 10, 2);
    assert_int_equal(ranges_cut(&ranges, 5, 30, &piece), 0);
    is_range(&piece, 30, 5, 3);
    assert_int_equal(ranges_cut(&ranges, 5, 30, &piece), 1);
    assert_int_equal(ranges.count, 2);
    is_range(&ranges.all[0], 0, 5, 1);
    is_range(&ranges.all[1], 35, 5, 3);
    ranges_release(&ranges);
}

static bool cut_without_memory(struct chaos *chaos, void *context)
{
    struct ranges ranges;
    struct range piece;
    const struct range whole = {0, 100, 1};
    (void)context;
    ranges_init(&ranges, &chaos->memory);
    bool done = ranges_add(&ranges, &whole) == 0;
    for (uint64_t at = 1; done && at < 99; at += 2) {
        done = ranges_cut(&ranges, at, 1, &piece) == 0;
        assert_int_equal(ranges.count, done ? (at + 1) / 2 + 1 : (at + 1) / 2);
    }
    ranges_release(&ranges);
    return done;
}

static void test_without_memory_nothing_is_cut(void **state)
{
    (void)state;
    assert_true(chaos_loop(cut_without_memory, NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_lie_in_the_order_of_their_addresses),
        cmocka_unit_test(test_a_piece_is_cut_out_and_the_rest_stays),
        cmocka_unit_test(test_a_cut_over_several_ranges_takes_one_after_the_other),
        cmocka_unit_test(test_without_memory_nothing_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
