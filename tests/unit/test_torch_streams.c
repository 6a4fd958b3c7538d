/* Policy "torch" with several streams: pools apart, record_stream, and frees that wait for events.
 * The numbers are worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lib/policies/torch_internal.h"
#include "tests/support/torch_world.h"

#define REFUSED UINT64_MAX

static void open_world(struct policy_world *world)
{
    torch_open(world, "", MIB(64));
}

static uint64_t pending(const struct policy_world *world)
{
    return torch_figure(world, "pending_events");
}

/* A block of 4 KiB on stream 0 that stream `other` uses too, freed. Its offset. */
static uint64_t freed_in_use(struct policy_world *world, uint64_t other)
{
    uint64_t offset = torch_ask(world, KIB(4), 0);
    torch_record(world, offset, other);
    policy_world_free_offset(world, offset);
    return offset;
}

/* ------------------------------------------------------------------------------ pools */

static void test_a_block_serves_its_own_stream_alone(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world);
    assert_int_equal(torch_ask(&world, KIB(4), 0), 0);
    assert_int_equal(torch_ask(&world, KIB(4), 5), MIB(2));
    assert_int_equal(torch_ask(&world, KIB(4), 2), MIB(4));
    assert_int_equal(torch_ask(&world, KIB(4), 5), MIB(2) + KIB(4));
    torch_assert_pool(&world, "small", KIB(4), "0 1 511, 2 1025 511, 5 514 510");
    policy_world_close(&world);
}

static void test_a_free_named_on_another_stream_returns_to_the_streams_pool(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world);
    torch_ask(&world, KIB(4), 3);
    policy_world_free_on(&world, 0, 7, false);
    torch_assert_pool(&world, "small", KIB(4), "3 0 512");
    assert_int_equal(pending(&world), 0);
    policy_world_close(&world);
}

static void test_a_flush_gives_the_segments_of_all_streams_back(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world);
    for (uint64_t stream = 0; stream < 3; stream++) {
        torch_ask(&world, MIB(20), stream);
        policy_world_free(&world, 0);
    }
    assert_int_equal(torch_ask(&world, MIB(20), 9), MIB(60));
    assert_int_equal(torch_figure(&world, "num_device_free"), 3);
    policy_world_close(&world);
}

static void test_a_stream_that_has_nothing_left_takes_no_memory(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world);
    for (uint64_t number = 1; number <= 1000; number++) {
        torch_ask(&world, KIB(4), number * 1000003);
        torch_record(&world, world.live[0].placement.offset, number);
        policy_world_free(&world, 0);
        torch_empty(&world);
    }
    const struct torch *torch = (const struct torch *)world.policy;
    assert_true(torch->streams_length <= 2);
    assert_true(torch->uses_length <= 1);
    assert_true(torch->blocks.length <= 4);
    policy_world_close(&world);
}

/* ------------------------------------------------------------------------------ record_stream */

static void test_its_own_stream_is_no_other_and_twice_is_once(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world);
    uint64_t offset = torch_ask(&world, KIB(4), 0);
    torch_record(&world, offset, 0);
    torch_record(&world, offset, 6);
    torch_record(&world, offset, 6);
    torch_record(&world, offset, 4);
    torch_record(&world, offset, 6);
    assert_int_equal(pending(&world), 0);
    policy_world_free_offset(&world, offset);
    assert_int_equal(pending(&world), 2);
    policy_world_close(&world);
}

static void test_a_waiting_block_is_active_but_not_allocated(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world);
    uint64_t offset = torch_ask(&world, 4000, 0);
    torch_record(&world, offset, 1);
    policy_world_free_offset(&world, offset);
    assert_int_equal(torch_figure(&world, "allocations"), 0);
    assert_int_equal(torch_figure(&world, "active"), 1);
    assert_int_equal(torch_figure(&world, "active_bytes"), KIB(4));
    assert_int_equal(torch_figure(&world, "requested_bytes"), 4000);
    assert_int_equal(torch_ask(&world, KIB(4), 0), KIB(4));
    torch_done(&world, 1, UINT64_MAX, false);
    assert_int_equal(torch_ask(&world, KIB(4), 0), 0);
    assert_int_equal(torch_figure(&world, "requested_bytes"), KIB(8));
    policy_world_close(&world);
}

static void test_only_an_allocation_looks_at_the_events(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world);
    uint64_t other = torch_ask(&world, KIB(4), 2);
    freed_in_use(&world, 1);
    torch_done(&world, 1, UINT64_MAX, false);
    assert_int_equal(pending(&world), 1);
    torch_record(&world, other, 1);
    policy_world_free_offset(&world, other);
    assert_int_equal(pending(&world), 2);
    assert_int_equal(torch_ask(&world, 0, 2), REFUSED);
    assert_int_equal(pending(&world), 2);
    torch_ask(&world, KIB(4), 8); /* on whatever stream */
    assert_int_equal(pending(&world), 1);
    policy_world_close(&world);
}

static void test_a_block_waits_for_every_stream_that_uses_it(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world);
    uint64_t offset = torch_ask(&world, KIB(4), 0);
    torch_record(&world, offset, 1);
    torch_record(&world, offset, 2);
    policy_world_free_offset(&world, offset);
    torch_done(&world, 2, UINT64_MAX, false);
    assert_int_equal(torch_ask(&world, KIB(4), 0), KIB(4));
    assert_int_equal(pending(&world), 1);
    torch_done(&world, 1, UINT64_MAX, false);
    assert_int_equal(torch_ask(&world, KIB(4), 0), 0);
    policy_world_close(&world);
}

static void test_no_neighbour_merges_with_a_waiting_block(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world);
    uint64_t offsets[3];
    for (int i = 0; i < 3; i++)
        offsets[i] = torch_ask(&world, KIB(4), 0);
    torch_ask(&world, MIB(1), 0);
    torch_ask(&world, MIB(1) - KIB(12), 0);
    torch_record(&world, offsets[1], 1);
    for (int i = 0; i < 3; i++)
        policy_world_free_offset(&world, offsets[i]);
    torch_assert_pool(&world, "small", KIB(4), "0 0 1, 0 2 1");
    torch_done(&world, 1, UINT64_MAX, false);
    torch_ask(&world, KIB(4), 3);
    torch_assert_pool(&world, "small", KIB(4), "0 0 3, 3 513 511");
    policy_world_close(&world);
}

static void test_an_event_waits_behind_one_that_has_not_completed(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world);
    freed_in_use(&world, 1);        /* 0 */
    freed_in_use(&world, 1);        /* 4 KiB */
    freed_in_use(&world, 1);        /* 8 KiB */
    torch_done(&world, 1, 2, true); /* the last two */
    assert_int_equal(torch_ask(&world, KIB(4), 0), KIB(12));
    assert_int_equal(pending(&world), 3);
    torch_done(&world, 1, 1, false);
    assert_int_equal(torch_ask(&world, KIB(12), 0), 0);
    assert_int_equal(pending(&world), 0);
    policy_world_close(&world);
}

static void test_the_oldest_ones_that_have_not_completed_do_so(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world);
    for (int i = 0; i < 5; i++)
        freed_in_use(&world, 1);
    torch_done(&world, 1, 1, true); /* the fifth */
    torch_done(&world, 1, 2, false);
    torch_ask(&world, KIB(4), 7);
    assert_int_equal(pending(&world), 3);
    torch_done(&world, 1, 1, false); /* the third */
    torch_ask(&world, KIB(4), 7);
    assert_int_equal(pending(&world), 2);
    freed_in_use(&world, 1);
    torch_done(&world, 1, 2, false); /* the fourth and, past the fifth, the sixth */
    torch_ask(&world, KIB(4), 7);
    assert_int_equal(pending(&world), 0);
    policy_world_close(&world);
}

static void test_an_event_recorded_after_the_completion_is_not_done(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world);
    uint64_t offset = torch_ask(&world, KIB(4), 0);
    torch_record(&world, offset, 1); /* the event is recorded at the free */
    torch_done(&world, 1, UINT64_MAX, false);
    policy_world_free_offset(&world, offset);
    torch_ask(&world, KIB(4), 3);
    assert_int_equal(pending(&world), 1);
    torch_done(&world, 99, UINT64_MAX, false); /* a stream without events */
    torch_done(&world, 1, 0, false);
    torch_ask(&world, KIB(4), 3);
    assert_int_equal(pending(&world), 1);
    policy_world_close(&world);
}

static void test_emptying_the_cache_waits_for_all_events(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world);
    freed_in_use(&world, 1);
    freed_in_use(&world, 2);
    torch_done(&world, 2, UINT64_MAX, false);
    torch_empty(&world);
    assert_int_equal(pending(&world), 0);
    assert_int_equal(torch_figure(&world, "reserved_bytes"), 0);
    assert_int_equal(torch_figure(&world, "num_sync_all_streams"), 1);
    policy_world_close(&world);
}

static void test_the_search_is_not_repeated_after_the_flush(void **state)
{
    (void)state;
    struct policy_world world;
    torch_open(&world, "", MIB(20));
    assert_int_equal(torch_ask(&world, MIB(5), 0), 0);
    assert_int_equal(torch_ask(&world, MIB(15), 0), MIB(5));
    torch_record(&world, 0, 1);
    policy_world_free_offset(&world, 0);
    /* The flush waits for the event and the 5 MiB are free, but their segment is not whole. */
    assert_int_equal(torch_ask(&world, MIB(5), 0), REFUSED);
    assert_int_equal(torch_figure(&world, "num_ooms"), 1);
    assert_int_equal(torch_ask(&world, MIB(5), 0), 0);
    policy_world_close(&world);
}

static void test_a_forgotten_block_waits_for_nothing(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world);
    uint64_t offset = torch_ask(&world, KIB(4), 0);
    torch_record(&world, offset, 1);
    torch_record(&world, offset, 2);
    policy_world_forget(&world, 0);
    assert_int_equal(pending(&world), 0);
    torch_empty(&world);
    assert_int_equal(torch_figure(&world, "active"), 1);
    policy_world_close(&world);
}

/* ------------------------------------------------------------------------------ memory */

static void test_record_stream_without_memory_changes_nothing(void **state)
{
    (void)state;
    for (uint64_t fail_at = 1;; fail_at++) {
        struct policy_world world;
        open_world(&world);
        uint64_t offset = torch_ask(&world, KIB(4), 0);
        char *before = policy_world_picture(&world);
        chaos_arm(&world.chaos, fail_at, true);
        int status = world.operations->record_stream(world.policy, &world.live[0].placement, 1000);
        bool failed = world.chaos.failed;
        chaos_arm(&world.chaos, 0, false);
        assert_int_equal(status, failed ? WORSEGPU_NO_MEMORY : WORSEGPU_OK);
        char *after = policy_world_picture(&world);
        assert_string_equal(before, after);
        free(before);
        free(after);
        policy_world_free_offset(&world, offset);
        assert_int_equal(pending(&world), failed ? 0 : 1);
        policy_world_close(&world);
        if (!failed) {
            assert_true(fail_at > 2);
            return;
        }
    }
}

static void test_a_free_needs_no_memory_whatever_it_waits_for(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world);
    uint64_t offset = torch_ask(&world, KIB(4), 0);
    for (uint64_t stream = 1; stream <= 50; stream++)
        torch_record(&world, offset, stream);
    chaos_arm(&world.chaos, 1, true);
    policy_world_free_offset(&world, offset);
    torch_empty(&world);
    assert_false(world.chaos.failed);
    assert_int_equal(torch_figure(&world, "num_sync_all_streams"), 1);
    policy_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_serves_its_own_stream_alone),
        cmocka_unit_test(test_a_free_named_on_another_stream_returns_to_the_streams_pool),
        cmocka_unit_test(test_a_flush_gives_the_segments_of_all_streams_back),
        cmocka_unit_test(test_a_stream_that_has_nothing_left_takes_no_memory),
        cmocka_unit_test(test_its_own_stream_is_no_other_and_twice_is_once),
        cmocka_unit_test(test_a_waiting_block_is_active_but_not_allocated),
        cmocka_unit_test(test_only_an_allocation_looks_at_the_events),
        cmocka_unit_test(test_a_block_waits_for_every_stream_that_uses_it),
        cmocka_unit_test(test_no_neighbour_merges_with_a_waiting_block),
        cmocka_unit_test(test_an_event_waits_behind_one_that_has_not_completed),
        cmocka_unit_test(test_the_oldest_ones_that_have_not_completed_do_so),
        cmocka_unit_test(test_an_event_recorded_after_the_completion_is_not_done),
        cmocka_unit_test(test_emptying_the_cache_waits_for_all_events),
        cmocka_unit_test(test_the_search_is_not_repeated_after_the_flush),
        cmocka_unit_test(test_a_forgotten_block_waits_for_nothing),
        cmocka_unit_test(test_record_stream_without_memory_changes_nothing),
        cmocka_unit_test(test_a_free_needs_no_memory_whatever_it_waits_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
