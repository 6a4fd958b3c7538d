/* Policy "tlsf": payloads with headers between them, lists by size, alignment by a gap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/policies/tlsf.h"
#include "tests/support/naive_range.h"
#include "tests/support/policy_world.h"

static const struct policy_rules rules = {.alignment = 8, .header_bytes = 8};

static void open_world(struct policy_world *world, const char *knobs, uint64_t capacity)
{
    policy_world_open(world, "tlsf", knobs, capacity, &rules);
}

static int ask(struct policy_world *world, uint64_t bytes, uint64_t alignment)
{
    struct policy_request request = {.requested_bytes = bytes, .alignment = alignment};
    return policy_world_ask(world, &request, true);
}

/* The offset of a request that must be placed. */
static uint64_t aligned(struct policy_world *world, uint64_t bytes, uint64_t alignment)
{
    assert_int_equal(ask(world, bytes, alignment), POLICY_PLACED);
    return world->live[world->live_count - 1].placement.offset;
}

static uint64_t reserved(const struct policy_world *world)
{
    return world->live[world->live_count - 1].placement.reserved_bytes;
}

static void test_lists_are_8_apart_below_256_and_then_32_for_each_power(void **state)
{
    (void)state;
    assert_int_equal(tlsf_list_of(24), 3);
    assert_int_equal(tlsf_list_of(248), 31);
    assert_int_equal(tlsf_list_of(256), 32); /* (1, 0) */
    assert_int_equal(tlsf_list_of(263), 32);
    assert_int_equal(tlsf_list_of(264), 33);
    assert_int_equal(tlsf_list_of(504), 63);
    assert_int_equal(tlsf_list_of(512), 64);   /* (2, 0) */
    assert_int_equal(tlsf_list_of(4080), 159); /* (11 - 7, 4080 / 64 - 32) = (4, 31) */
}

static void test_payloads_are_rounded_to_8_at_least_24_with_8_between_them(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 4096);
    assert_int_equal(policy_world_offset(&world, 1), 8);
    assert_int_equal(reserved(&world), 32);
    assert_int_equal(policy_world_offset(&world, 25), 40); /* 8 + 24 + 8 */
    assert_int_equal(reserved(&world), 40);
    assert_int_equal(policy_world_offset(&world, 32), 80); /* 40 + 32 + 8 */
    assert_int_equal(policy_world_offset(&world, 8), 120);
    policy_world_close(&world);
}

static void test_an_empty_pool_serves_the_floor_of_its_own_list(void **state)
{
    (void)state;
    struct policy_world world;
    /* One free block of 4,080, in list (4, 31), which begins at 63 * 64 = 4,032. For 4,033, which
     * is 4,040, the search begins at 4,040 + 63: list (5, 0). */
    open_world(&world, "", 4096);
    assert_int_equal(ask(&world, 4033, 0), POLICY_FULL);
    assert_int_equal(policy_world_offset(&world, 4032), 8);
    policy_world_close(&world);
}

static void test_a_rest_that_could_be_no_block_stays_with_its_neighbour(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 80); /* payload 64: split from 32 + a on */
    assert_int_equal(policy_world_offset(&world, 40), 8);
    assert_int_equal(reserved(&world), 72);
    policy_world_free(&world, 0);
    assert_int_equal(policy_world_offset(&world, 32), 8);
    assert_int_equal(reserved(&world), 40);
    assert_int_equal(policy_world_offset(&world, 24), 48);
    assert_int_equal(reserved(&world), 32);
    policy_world_close(&world);
}

static void test_headers_of_merged_blocks_become_payload(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 4096);
    for (int i = 0; i < 4; i++)
        policy_world_offset(&world, 24); /* 8, 40, 72, 104 */
    policy_world_free_offset(&world, 8);
    policy_world_free_offset(&world, 72);
    policy_world_free_offset(&world, 40);
    char *text = policy_world_statistics(&world);
    /* 3 * 24 + 2 * 8 = 88; the rest is 4,080 - 4 * 32 = 3,952. */
    assert_string_equal(text, "used_blocks 1\nused_bytes 24\nfree_blocks 2\nfree_bytes 4040\n"
                              "largest_free 3952\n");
    free(text);
    assert_int_equal(policy_world_offset(&world, 88), 8);
    policy_world_close(&world);
}

static void test_what_the_capacity_has_above_a_multiple_of_8_is_lost(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 47); /* 40: payload 24 */
    assert_int_equal(policy_world_offset(&world, 24), 8);
    assert_int_equal(reserved(&world), 32);
    policy_world_free(&world, 0);
    assert_int_equal(ask(&world, 25, 0), POLICY_FULL);
    policy_world_close(&world);
}

static void test_size_0_is_refused(void **state)
{
    (void)state;
    struct policy_world world;
    struct policy_request request = {0};
    struct policy_outcome outcome;
    open_world(&world, "", 4096);
    assert_int_equal(policy_tlsf.place(world.policy, &request, &outcome), POLICY_FULL);
    policy_world_close(&world);
}

static void test_an_aligned_payload_has_a_gap_below_it_that_is_a_block(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 4096);
    assert_int_equal(aligned(&world, 24, 64), 64);
    /* The gap has payload 8 to 56: 48, too small to be split for 24. */
    assert_int_equal(policy_world_offset(&world, 24), 8);
    assert_int_equal(reserved(&world), 56);
    policy_world_close(&world);
}

static void test_a_gap_too_short_for_a_block_is_made_longer(void **state)
{
    (void)state;
    struct policy_world world;
    /* 16 is 8 above the payload: 24 are missing, more than the alignment: (16 + 24) rounded up. */
    open_world(&world, "", 4096);
    assert_int_equal(aligned(&world, 24, 16), 48);
    policy_world_close(&world);
    /* 32 is 24 above the payload: 8 are missing, but the next place is 32 further. */
    open_world(&world, "", 4096);
    assert_int_equal(aligned(&world, 24, 32), 64);
    policy_world_close(&world);
}

static void test_an_alignment_up_to_8_is_no_alignment(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 4096);
    assert_int_equal(aligned(&world, 24, 8), 8);
    assert_int_equal(aligned(&world, 24, 1), 40);
    assert_int_equal(ask(&world, 24, UINT64_C(1) << 63), POLICY_FULL);
    policy_world_close(&world);
}

static void test_no_size_reaches_the_limit(void **state)
{
    (void)state;
    struct policy_world world;
    /* 2^12: lists end with (4, 31); the search for 4,040 would begin above them. */
    open_world(&world, "fl_index_max=12", 4111); /* payload 4,088 */
    assert_int_equal(ask(&world, 4096, 0), POLICY_FULL);
    assert_int_equal(ask(&world, 4033, 0), POLICY_FULL);
    assert_int_equal(ask(&world, 24, 4096), POLICY_FULL);
    assert_int_equal(ask(&world, UINT64_MAX, 0), POLICY_FULL);
    assert_int_equal(policy_world_offset(&world, 4032), 8);
    policy_world_close(&world);
}

static void assert_problem(const char *knobs, uint64_t capacity, const char *part)
{
    struct worsegpu_config config;
    worsegpu_config_default(&config);
    config.gpu_capacity = capacity;
    struct knob_value values[KNOBS_MAX];
    char problem[KNOBS_PROBLEM_SIZE];
    bool fine = knobs_read(&policy_tlsf, &config, knobs, values, problem);
    assert_int_equal(fine, part == NULL);
    if (part && !strstr(problem, part))
        fail_msg("'%s' does not say '%s'", problem, part);
}

static void test_the_pool_must_be_a_block_below_the_limit(void **state)
{
    (void)state;
    assert_problem("", 39, "at least 40");
    assert_problem("", 40, NULL);
    assert_problem("", (UINT64_C(1) << 32) + 15, NULL);
    assert_problem("", (UINT64_C(1) << 32) + 16, "fl_index_max must be at least 33");
    assert_problem("fl_index_max=33", (UINT64_C(1) << 32) + 16, NULL);
    assert_problem("fl_index_max=53", WORSEGPU_MAX_BYTES, NULL);
}

static void test_one_free_block_is_looked_at_or_none(void **state)
{
    (void)state;
    struct policy_world world;
    struct policy_outcome outcome;
    open_world(&world, "", 4096);
    struct policy_request request = {.requested_bytes = 5000};
    assert_int_equal(policy_tlsf.place(world.policy, &request, &outcome), POLICY_FULL);
    assert_int_equal(outcome.blocks_scanned, 0);
    request.requested_bytes = 50;
    assert_int_equal(policy_tlsf.place(world.policy, &request, &outcome), POLICY_PLACED);
    assert_int_equal(outcome.blocks_scanned, 1);
    assert_true(policy_tlsf.release(world.policy, &outcome.placement, &(struct policy_free){0}));
    policy_world_close(&world);
}

static void test_a_smaller_capacity_refuses_what_would_go_higher_than_before(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 4096);
    assert_int_equal(policy_world_offset(&world, 1000), 8);
    policy_world_resize(&world, 500);
    assert_int_equal(ask(&world, 24, 0), POLICY_FULL);
    policy_world_free(&world, 0);
    assert_int_equal(ask(&world, 1008, 0), POLICY_FULL);
    assert_int_equal(policy_world_offset(&world, 1000), 8);
    policy_world_close(&world);
}

static void test_a_forgotten_block_counts_as_used_in_the_pool(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 4096);
    policy_world_offset(&world, 24);
    policy_world_offset(&world, 24);
    policy_world_forget(&world, 0);
    policy_world_free(&world, 0);
    char *text = policy_world_statistics(&world);
    assert_string_equal(text, "used_blocks 1\nused_bytes 24\nfree_blocks 1\nfree_bytes 4048\n"
                              "largest_free 4048\n");
    free(text);
    assert_int_equal(policy_tlsf.largest_free(world.policy), 32); /* up to where it was used */
    policy_world_close(&world);
}

/* ------------------------------------------------------------------------------ naive model */

static unsigned naive_list(uint64_t bytes) /* a block's, with its header */
{
    uint64_t payload = bytes - 8;
    if (payload < 256)
        return (unsigned)(payload / 8);
    unsigned log2 = naive_log2(payload);
    uint64_t step = (UINT64_C(1) << log2) / 32;
    return (log2 - 7) * 32 + (unsigned)(payload / step - 32);
}

static uint64_t naive_round(uint64_t value, uint64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static uint64_t naive_place(struct naive_range *range, uint64_t bytes, uint64_t alignment)
{
    uint64_t a = naive_round(bytes, 8);
    if (a < 24)
        a = 24;
    uint64_t wanted = alignment > 8 ? naive_round(a + alignment + 32, alignment) : a;
    if (wanted >= 256)
        wanted += (UINT64_C(1) << naive_log2(wanted)) / 32 - 1;
    unsigned list;
    if (naive_lowest_list(range, naive_list, naive_list(wanted + 8), NAIVE_NONE, &list) != 0)
        return UINT64_MAX;
    size_t place = naive_next_in_list(range, naive_list, list, NAIVE_NONE, UINT64_MAX);
    if (alignment > 8) {
        uint64_t payload = range->blocks[place].offset + 8;
        uint64_t at = naive_round(payload, alignment);
        if (at > payload && at - payload < 32) {
            uint64_t more = 32 - (at - payload);
            at = naive_round(at + (more > alignment ? more : alignment), alignment);
        }
        if (at > payload) {
            naive_cut(range, place, at - payload);
            naive_push(range, place);
            place++;
        }
    }
    if (range->blocks[place].bytes - 8 >= a + 32) {
        naive_cut(range, place, a + 8);
        naive_push(range, place + 1);
    }
    range->blocks[place].used = true;
    return range->blocks[place].offset + 8;
}

static void test_it_places_as_a_naive_model_does(void **state)
{
    (void)state;
    static struct naive_range naive;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct policy_world world;
        open_world(&world, "", 100003);
        world.number = seed;
        world.look_closely = false;
        naive_begin(&naive, 100000 - 8);
        uint64_t alignments = seed % 2 == 0 ? 13 : 4;
        for (int step = 0; step < 4000; step++) {
            if (world.live_count == 0 || policy_world_below(&world, 100) < 55) {
                uint64_t bytes =
                    1 + policy_world_below(&world, 1 + policy_world_below(&world, 8000));
                uint64_t alignment = UINT64_C(1) << policy_world_below(&world, alignments);
                uint64_t expected = naive_place(&naive, bytes, alignment);
                int verdict = ask(&world, bytes, alignment);
                assert_int_equal(verdict, expected == UINT64_MAX ? POLICY_FULL : POLICY_PLACED);
                if (verdict == POLICY_PLACED)
                    assert_int_equal(world.live[world.live_count - 1].placement.offset, expected);
            } else {
                size_t place = (size_t)policy_world_below(&world, world.live_count);
                naive_push(&naive, naive_free(&naive, world.live[place].placement.offset - 8));
                policy_world_free(&world, place);
            }
        }
        policy_world_check(&world);
        assert_true(world.refused > 0);
        policy_world_close(&world);
    }
}

static void test_random_work_breaks_no_rule(void **state)
{
    (void)state;
    policy_world_run_all("tlsf", "", 1 << 20, &rules);
    policy_world_run_all("tlsf", "fl_index_max=20", 1000003, &rules);
}

static void test_any_memory_request_may_fail(void **state)
{
    (void)state;
    policy_world_chaos("tlsf", "", 1 << 20, &rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_are_8_apart_below_256_and_then_32_for_each_power),
        cmocka_unit_test(test_payloads_are_rounded_to_8_at_least_24_with_8_between_them),
        cmocka_unit_test(test_an_empty_pool_serves_the_floor_of_its_own_list),
        cmocka_unit_test(test_a_rest_that_could_be_no_block_stays_with_its_neighbour),
        cmocka_unit_test(test_headers_of_merged_blocks_become_payload),
        cmocka_unit_test(test_what_the_capacity_has_above_a_multiple_of_8_is_lost),
        cmocka_unit_test(test_size_0_is_refused),
        cmocka_unit_test(test_an_aligned_payload_has_a_gap_below_it_that_is_a_block),
        cmocka_unit_test(test_a_gap_too_short_for_a_block_is_made_longer),
        cmocka_unit_test(test_an_alignment_up_to_8_is_no_alignment),
        cmocka_unit_test(test_no_size_reaches_the_limit),
        cmocka_unit_test(test_the_pool_must_be_a_block_below_the_limit),
        cmocka_unit_test(test_one_free_block_is_looked_at_or_none),
        cmocka_unit_test(test_a_smaller_capacity_refuses_what_would_go_higher_than_before),
        cmocka_unit_test(test_a_forgotten_block_counts_as_used_in_the_pool),
        cmocka_unit_test(test_it_places_as_a_naive_model_does),
        cmocka_unit_test(test_random_work_breaks_no_rule),
        cmocka_unit_test(test_any_memory_request_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
