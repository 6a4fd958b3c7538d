/* list_fit: worked examples. All its settings are in test_list_fit_model.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/policies/list_fit.h"
#include "tests/support/policy_world.h"

static const char *const fits[] = {"first", "next", "best", "worst"};
static const char *const orders[] = {"address", "size_up", "size_down", "insert_front",
                                     "insert_back"};
static const char *const tails[] = {"tail=listed", "tail=apart"};
enum {
    FITS = 4,
    ORDERS = 5,
    TAILS = 2
};

static void open_world(struct policy_world *world, const char *knobs, uint64_t capacity)
{
    policy_world_open(world, "list_fit", knobs, capacity, NULL);
}

/* The free list as text, such as "0+10 30+70". */
static void assert_list(const struct policy_world *world, const char *expected)
{
    char *text = policy_world_statistics(world);
    char shown[512] = "";
    size_t length = 0;
    char *end;
    const char *rows = strstr(text, "free_list:\n");
    assert_non_null(rows);
    rows += strlen("free_list:\n");
    for (;;) {
        unsigned long long offset = strtoull(rows, &end, 10);
        if (end == rows)
            break;
        unsigned long long bytes = strtoull(end, &end, 10);
        length += (size_t)snprintf(shown + length, sizeof(shown) - length, "%s%llu+%llu",
                                   length > 0 ? " " : "", offset, bytes);
        rows = end;
    }
    free(text);
    assert_string_equal(shown, expected);
}

/* Three holes of 30, 10 and 20 at 0, 40 and 60, with 10 used between, and the rest of 100 used. */
static void make_holes(struct policy_world *world, const char *knobs)
{
    open_world(world, knobs, 100);
    assert_int_equal(policy_world_offset(world, 30), 0);
    assert_int_equal(policy_world_offset(world, 10), 30);
    assert_int_equal(policy_world_offset(world, 10), 40);
    assert_int_equal(policy_world_offset(world, 10), 50);
    assert_int_equal(policy_world_offset(world, 20), 60);
    assert_int_equal(policy_world_offset(world, 20), 80);
    policy_world_free_offset(world, 0);
    policy_world_free_offset(world, 40);
    policy_world_free_offset(world, 60);
}

static uint64_t scanned_by(struct policy_world *world, uint64_t bytes)
{
    struct policy_request request = {.requested_bytes = bytes};
    struct policy_outcome outcome;
    int verdict = world->operations->place(world->policy, &request, &outcome);
    assert_true(verdict == POLICY_PLACED || verdict == POLICY_FULL);
    if (verdict == POLICY_PLACED) {
        struct policy_free how = {0};
        world->operations->release(world->policy, &outcome.placement, &how);
    }
    return outcome.blocks_scanned;
}

static void test_first_fit_takes_the_lowest_address(void **state)
{
    (void)state;
    struct policy_world world;
    make_holes(&world, "fit=first");
    assert_int_equal(scanned_by(&world, 10), 1);
    assert_int_equal(scanned_by(&world, 31), 3); /* nothing fits: all were looked at */
    assert_int_equal(policy_world_offset(&world, 10), 0);
    assert_list(&world, "10+20 40+10 60+20");
    policy_world_close(&world);
}

static void test_best_fit_takes_the_least_that_is_large_enough(void **state)
{
    (void)state;
    struct policy_world world;
    make_holes(&world, "fit=best");
    assert_int_equal(scanned_by(&world, 11), 3);
    assert_int_equal(policy_world_offset(&world, 11), 60);
    assert_int_equal(policy_world_offset(&world, 9), 71); /* now the 9 left at 71 */
    assert_int_equal(policy_world_offset(&world, 9), 40);
    policy_world_close(&world);
}

static void test_worst_fit_takes_the_greatest_and_the_lowest_of_equals(void **state)
{
    (void)state;
    struct policy_world world;
    make_holes(&world, "fit=worst");
    assert_int_equal(policy_world_offset(&world, 10), 0);
    /* 20 are left at 10, and 20 are at 60. */
    assert_int_equal(policy_world_offset(&world, 10), 10);
    assert_int_equal(policy_world_offset(&world, 10), 60);
    policy_world_close(&world);
}

static void test_next_fit_goes_on_where_it_ended_and_round(void **state)
{
    (void)state;
    struct policy_world world;
    /* The last placement ended at 100: the search goes round and begins at 0. */
    make_holes(&world, "fit=next");
    assert_int_equal(policy_world_offset(&world, 10), 0);
    assert_int_equal(policy_world_offset(&world, 15), 10);
    /* Now 5 at 25, 10 at 40, 20 at 60, and the search begins at 25. */
    assert_int_equal(policy_world_offset(&world, 20), 60);
    assert_int_equal(policy_world_offset(&world, 5), 25);
    assert_list(&world, "40+10");
    policy_world_close(&world);
}

static void test_next_fit_counts_what_it_looks_at_on_both_sides(void **state)
{
    (void)state;
    struct policy_world world;
    make_holes(&world, "fit=next");
    assert_int_equal(policy_world_offset(&world, 10), 0);
    assert_int_equal(policy_world_offset(&world, 10), 10);
    assert_int_equal(policy_world_offset(&world, 10), 20);
    /* 10 at 40 and 20 at 60; it begins at 30: both for 15, both again for none. */
    assert_int_equal(scanned_by(&world, 21), 2);
    assert_int_equal(scanned_by(&world, 15), 2);
    /* That one ended at 75, above both: the search goes round, and the 10 at 40 fit at once. */
    assert_int_equal(scanned_by(&world, 10), 1);
    policy_world_close(&world);
}

static void test_freed_neighbours_merge_on_both_sides(void **state)
{
    (void)state;
    for (size_t i = 0; i < FITS; i++) {
        struct policy_world world;
        char knobs[64];
        snprintf(knobs, sizeof(knobs), "fit=%s", fits[i]);
        open_world(&world, knobs, 40);
        for (uint64_t offset = 0; offset < 40; offset += 10)
            assert_int_equal(policy_world_offset(&world, 10), offset);
        policy_world_free_offset(&world, 0);
        policy_world_free_offset(&world, 20);
        assert_list(&world, "0+10 20+10");
        policy_world_free_offset(&world, 10);
        assert_list(&world, "0+30");
        policy_world_free_offset(&world, 30);
        assert_list(&world, "0+40");
        policy_world_close(&world);
    }
}

static void test_without_merging_pieces_stay_pieces(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "fit=first merge=false", 40);
    for (uint64_t offset = 0; offset < 40; offset += 10)
        assert_int_equal(policy_world_offset(&world, 10), offset);
    for (uint64_t offset = 0; offset < 40; offset += 10)
        policy_world_free_offset(&world, offset);
    assert_list(&world, "0+10 10+10 20+10 30+10");
    assert_int_equal(policy_world_allocate(&world, 11), POLICY_FULL);
    policy_world_close(&world);
}

static void test_a_list_that_is_not_sorted_merges_only_what_follows_each_other_in_it(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "fit=first order=insert_front", 30);
    for (uint64_t offset = 0; offset < 30; offset += 10)
        assert_int_equal(policy_world_offset(&world, 10), offset);
    policy_world_free_offset(&world, 0);
    policy_world_free_offset(&world, 10);
    assert_list(&world, "10+10 0+10"); /* 0 does not begin where 10 ends */
    policy_world_free_offset(&world, 20);
    assert_list(&world, "20+10 10+10 0+10");
    policy_world_close(&world);

    open_world(&world, "fit=first order=insert_back", 30);
    for (uint64_t offset = 0; offset < 30; offset += 10)
        assert_int_equal(policy_world_offset(&world, 10), offset);
    policy_world_free_offset(&world, 0);
    policy_world_free_offset(&world, 10);
    assert_list(&world, "0+20");
    policy_world_close(&world);
}

static void test_sizes_are_sorted_at_a_free_and_not_at_a_cut(void **state)
{
    (void)state;
    struct policy_world world;
    make_holes(&world, "fit=worst order=size_up merge=false");
    assert_list(&world, "40+10 60+20 0+30");
    assert_int_equal(policy_world_offset(&world, 25), 0);
    assert_list(&world, "40+10 60+20 25+5"); /* cut, and still at its place */
    policy_world_free_offset(&world, 30);
    assert_list(&world, "25+5 40+10 30+10 60+20"); /* the freed one behind its equal */
    policy_world_close(&world);
}

static void test_the_header_lies_below_the_offset(void **state)
{
    (void)state;
    struct policy_world world;
    struct policy_rules rules = {.header_bytes = 8};
    policy_world_open(&world, "list_fit", "header=8 alignment=16", 100, &rules);
    assert_int_equal(policy_world_offset(&world, 1), 8); /* 16 + 8 bytes from 0 on */
    assert_int_equal(policy_world_offset(&world, 17), 32);
    assert_int_equal(world.live[1].placement.reserved_bytes, 40);
    policy_world_close(&world);
}

static void test_a_forgotten_block_is_never_merged_or_used_again(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "fit=best", 30);
    for (uint64_t offset = 0; offset < 30; offset += 10)
        assert_int_equal(policy_world_offset(&world, 10), offset);
    policy_world_forget(&world, 1);
    policy_world_free_offset(&world, 0);
    policy_world_free_offset(&world, 20);
    assert_list(&world, "0+10 20+10");
    assert_int_equal(policy_world_allocate(&world, 11), POLICY_FULL);
    policy_world_close(&world);
}

static void test_a_smaller_capacity_keeps_what_is_there_and_lets_nothing_rise(void **state)
{
    (void)state;
    for (size_t i = 0; i < TAILS; i++) {
        struct policy_world world;
        open_world(&world, tails[i], 100);
        assert_int_equal(policy_world_offset(&world, 40), 0);
        assert_int_equal(policy_world_offset(&world, 10), 40);
        policy_world_free_offset(&world, 0);
        policy_world_resize(&world, 45);
        assert_int_equal(policy_world_allocate(&world, 41), POLICY_FULL); /* would end at 91 */
        assert_int_equal(policy_world_offset(&world, 40), 0);
        policy_world_free_offset(&world, 40);
        assert_int_equal(policy_world_offset(&world, 10), 40); /* as high as it was before */
        policy_world_resize(&world, 1000);
        assert_int_equal(policy_world_allocate(&world, 51), POLICY_FULL); /* the range has 100 */
        assert_int_equal(policy_world_offset(&world, 50), 50);
        policy_world_close(&world);
    }
}

static void test_the_largest_free_block_ends_where_use_ever_ended(void **state)
{
    (void)state;
    for (size_t i = 0; i < (size_t)FITS * ORDERS * TAILS; i++) {
        struct policy_world world;
        char knobs[64];
        snprintf(knobs, sizeof(knobs), "fit=%s order=%s %s", fits[i % FITS],
                 orders[i / FITS % ORDERS], tails[i / FITS / ORDERS]);
        open_world(&world, knobs, 1000);
        assert_int_equal(policy_list_fit.largest_free(world.policy), 0);
        assert_int_equal(policy_world_offset(&world, 20), 0);
        assert_int_equal(policy_world_offset(&world, 10), 20);
        assert_int_equal(policy_list_fit.largest_free(world.policy), 0);
        policy_world_free_offset(&world, 0);
        assert_int_equal(policy_list_fit.largest_free(world.policy), 20);
        if (i / FITS / ORDERS == 1) {
            policy_world_free_offset(&world, 20);
            assert_int_equal(policy_list_fit.largest_free(world.policy), 30);
        }
        policy_world_close(&world);
    }
}

/* ------------------------------------------------------------------------------ tail=apart */

/* 30, 10 and 20 bytes fill 0 to 60; the rest of 1000 is in no list, so that nothing is looked at.
 * Then:
 *   0 is freed       30 at 0 are listed
 *   20 are wanted    they fit there: 1 looked at; 10 at 20 are left
 *   15 are wanted    the 10 were looked at, which is all; the rest gives 60 to 75
 *   60 is freed      it joins the rest, which begins at 60 again
 *   40 is freed      and now at 40: the 10 at 20 do not touch that, and stay
 *   40 are wanted    the 10 do not do; the rest gives 40 to 80
 *   30 is freed      with the 10 below it: 20 at 20
 *   40 is freed      it joins the rest, and so do the 20 below it: the rest begins at 20
 *   980 are wanted   that is all of the rest
 *   20 is freed      it ends where the range ends: it is the rest */
static void test_a_tail_apart_worked_out_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < FITS; i++) {
        struct policy_world world;
        char knobs[64];
        snprintf(knobs, sizeof(knobs), "fit=%s tail=apart", fits[i]);
        open_world(&world, knobs, 1000);
        assert_int_equal(policy_world_offset(&world, 30), 0);
        assert_int_equal(policy_world_offset(&world, 10), 30);
        assert_int_equal(scanned_by(&world, 1), 0);
        assert_int_equal(policy_world_offset(&world, 20), 40);
        policy_world_free_offset(&world, 0);
        assert_list(&world, "0+30");
        assert_int_equal(scanned_by(&world, 20), 1);
        assert_int_equal(policy_world_offset(&world, 20), 0);
        assert_list(&world, "20+10");
        assert_int_equal(scanned_by(&world, 15), 1);
        assert_int_equal(policy_world_offset(&world, 15), 60);
        policy_world_free_offset(&world, 60);
        policy_world_free_offset(&world, 40);
        assert_list(&world, "20+10");
        assert_int_equal(policy_world_offset(&world, 40), 40);
        policy_world_free_offset(&world, 30);
        assert_list(&world, "20+20");
        policy_world_free_offset(&world, 40);
        assert_list(&world, "");
        assert_int_equal(policy_world_allocate(&world, 981), POLICY_FULL);
        assert_int_equal(policy_world_offset(&world, 980), 20);
        policy_world_free_offset(&world, 20);
        assert_list(&world, "");
        policy_world_close(&world);
    }
}

static void test_worst_fit_leaves_a_tail_apart_alone_while_a_hole_is_large_enough(void **state)
{
    (void)state;
    for (size_t i = 0; i < TAILS; i++) {
        struct policy_world world;
        char knobs[64];
        snprintf(knobs, sizeof(knobs), "fit=worst %s", tails[i]);
        open_world(&world, knobs, 1000);
        assert_int_equal(policy_world_offset(&world, 30), 0);
        assert_int_equal(policy_world_offset(&world, 10), 30);
        policy_world_free_offset(&world, 0);
        assert_int_equal(policy_world_offset(&world, 10), i == 0 ? 40 : 0);
        policy_world_close(&world);
    }
}

static void test_without_merging_a_tail_apart_only_shrinks(void **state)
{
    (void)state;
    for (size_t i = 0; i < ORDERS; i++) {
        struct policy_world world;
        char knobs[64];
        snprintf(knobs, sizeof(knobs), "order=%s tail=apart merge=false", orders[i]);
        open_world(&world, knobs, 30);
        assert_int_equal(policy_world_offset(&world, 10), 0);
        policy_world_free_offset(&world, 0);
        assert_list(&world, "0+10");
        assert_int_equal(policy_world_allocate(&world, 21), POLICY_FULL);
        assert_int_equal(policy_world_offset(&world, 20), 10);
        policy_world_free_offset(&world, 10); /* the end of the range, and listed all the same */
        assert_int_equal(policy_world_allocate(&world, 21), POLICY_FULL);
        assert_int_equal(policy_world_offset(&world, 20), 10);
        policy_world_close(&world);
    }
}

/* In front of the list stands what was freed last: none of the four ends where the next one begins,
 * so nothing merges. When 40 is freed, just below the rest, all of them join it. */
static void test_what_joins_a_tail_apart_may_stand_anywhere_in_the_list(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "order=insert_front tail=apart", 1000);
    for (uint64_t offset = 0; offset < 50; offset += 10)
        assert_int_equal(policy_world_offset(&world, 10), offset);
    policy_world_free_offset(&world, 10);
    policy_world_free_offset(&world, 20);
    policy_world_free_offset(&world, 0);
    policy_world_free_offset(&world, 30);
    assert_list(&world, "30+10 0+10 20+10 10+10");
    policy_world_free_offset(&world, 40);
    assert_list(&world, "");
    assert_int_equal(policy_world_offset(&world, 1000), 0);
    policy_world_close(&world);
}

/* The list is 20+10 40+10 0+10, and next fit begins at 40, behind the 20 that were found last. 21
 * are in none of them: they come from the rest, at 70, and the place is still at 40. Then the rest
 * comes down to 41; what was the place joins it, and the next one is the entry behind, not the
 * first. */
static void test_next_fit_in_a_list_keeps_its_place_when_a_tail_apart_is_used(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "fit=next order=insert_front tail=apart", 100);
    for (uint64_t offset = 0; offset < 70; offset += 10)
        assert_int_equal(policy_world_offset(&world, 10), offset);
    policy_world_free_offset(&world, 0);
    policy_world_free_offset(&world, 40);
    policy_world_free_offset(&world, 20);
    assert_int_equal(policy_world_offset(&world, 10), 20);
    policy_world_free_offset(&world, 20);
    assert_list(&world, "20+10 40+10 0+10");
    assert_int_equal(policy_world_offset(&world, 21), 70);
    assert_int_equal(policy_world_offset(&world, 1), 40);
    policy_world_free_offset(&world, 70);
    policy_world_free_offset(&world, 60);
    policy_world_free_offset(&world, 50);
    assert_list(&world, "20+10 0+10");
    assert_int_equal(policy_world_offset(&world, 10), 0);
    policy_world_close(&world);
}

/* In a list of one entry, another block takes its place. */
static void list_instead(struct list_fit_policy *list_fit, uint32_t listed, uint32_t block)
{
    const struct block *item = blocks_at(&list_fit->blocks, block);
    if (list_fit_is_tree(list_fit)) {
        block_order_replace(&list_fit->tree, &list_fit->nodes, listed, block, item->offset, 0,
                            item->bytes);
    } else {
        list_fit->head = block;
        list_fit->tail = block;
    }
}

static void test_the_audit_finds_a_broken_tail(void **state)
{
    (void)state;
    for (size_t i = 0; i < ORDERS; i++) {
        struct policy_world world;
        char knobs[64];
        snprintf(knobs, sizeof(knobs), "order=%s tail=apart", orders[i]);
        open_world(&world, knobs, 100);
        assert_int_equal(policy_world_offset(&world, 10), 0);
        assert_int_equal(policy_world_offset(&world, 10), 10);
        policy_world_free_offset(&world, 0);
        struct list_fit_policy *list_fit = (struct list_fit_policy *)world.policy;
        struct policy_live live = policy_world_live(&world);
        uint32_t kept = list_fit->unlisted;
        const uint32_t wrong[] = {0, 1, 1000, BLOCK_NONE}; /* listed, used, no block, no tail */
        for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
            struct audit audit = {0};
            list_fit->unlisted = wrong[k];
            assert_int_equal(policy_list_fit.check(world.policy, &live, &audit), WORSEGPU_OK);
            assert_non_null(audit.broken);
        }
        list_fit->unlisted = kept;
        policy_world_check(&world);
        list_instead(list_fit, 0, kept);
        struct audit audit = {0};
        assert_int_equal(policy_list_fit.check(world.policy, &live, &audit), WORSEGPU_OK);
        assert_string_equal(audit.broken, "free_index_member");
        policy_world_close(&world);
    }
}

static void test_the_audit_finds_a_broken_list(void **state)
{
    (void)state;
    struct policy_world world;
    make_holes(&world, "order=insert_back merge=false");
    struct list_fit_policy *list_fit = (struct list_fit_policy *)world.policy;
    struct policy_live live = policy_world_live(&world);
    uint32_t *words[] = {&list_fit->head, &list_fit->tail, &list_fit->rover, &list_fit->last,
                         &list_fit->blocks.items[list_fit->head].next};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        uint32_t kept = *words[i];
        *words[i] = 1; /* a used block */
        struct audit audit = {0};
        assert_int_equal(policy_list_fit.check(world.policy, &live, &audit), WORSEGPU_OK);
        assert_non_null(audit.broken);
        *words[i] = kept;
    }
    policy_world_check(&world);
    policy_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_fit_takes_the_lowest_address),
        cmocka_unit_test(test_best_fit_takes_the_least_that_is_large_enough),
        cmocka_unit_test(test_worst_fit_takes_the_greatest_and_the_lowest_of_equals),
        cmocka_unit_test(test_next_fit_goes_on_where_it_ended_and_round),
        cmocka_unit_test(test_next_fit_counts_what_it_looks_at_on_both_sides),
        cmocka_unit_test(test_freed_neighbours_merge_on_both_sides),
        cmocka_unit_test(test_without_merging_pieces_stay_pieces),
        cmocka_unit_test(test_a_list_that_is_not_sorted_merges_only_what_follows_each_other_in_it),
        cmocka_unit_test(test_sizes_are_sorted_at_a_free_and_not_at_a_cut),
        cmocka_unit_test(test_the_header_lies_below_the_offset),
        cmocka_unit_test(test_a_forgotten_block_is_never_merged_or_used_again),
        cmocka_unit_test(test_a_smaller_capacity_keeps_what_is_there_and_lets_nothing_rise),
        cmocka_unit_test(test_the_largest_free_block_ends_where_use_ever_ended),
        cmocka_unit_test(test_a_tail_apart_worked_out_by_hand),
        cmocka_unit_test(test_worst_fit_leaves_a_tail_apart_alone_while_a_hole_is_large_enough),
        cmocka_unit_test(test_without_merging_a_tail_apart_only_shrinks),
        cmocka_unit_test(test_what_joins_a_tail_apart_may_stand_anywhere_in_the_list),
        cmocka_unit_test(test_next_fit_in_a_list_keeps_its_place_when_a_tail_apart_is_used),
        cmocka_unit_test(test_the_audit_finds_a_broken_tail),
        cmocka_unit_test(test_the_audit_finds_a_broken_list),
    };
    return cmocka_run_group_tests_name("list_fit", tests, NULL, NULL);
}
