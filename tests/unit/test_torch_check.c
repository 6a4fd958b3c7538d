/* The audit of the torch policies finds what is broken on purpose, and does not crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/policies/torch_internal.h"
#include "tests/support/torch_world.h"

/* Something of everything: two streams, both pools, free, used, pending, forgotten and unmapped
 * blocks, recorded uses, and events of which the oldest has completed. */
static struct torch *open_world(struct policy_world *world)
{
    policy_world_open(world, "torch_expandable", "", MIB(200), &torch_rules);
    torch_ask(world, KIB(4), 0);
    torch_ask(world, KIB(8), 0);
    torch_ask(world, KIB(4), 0);
    torch_ask(world, KIB(4), 0);
    torch_ask(world, MIB(5), 3);
    torch_ask(world, MIB(30), 3);
    torch_ask(world, MIB(5), 3);
    torch_record(world, KIB(4), 7);
    torch_record(world, KIB(4), 3);
    policy_world_free_offset(world, KIB(4));  /* waits */
    policy_world_free_offset(world, KIB(12)); /* free between two others */
    torch_record(world, KIB(16), 7);
    torch_done(world, 7, 1, false);
    policy_world_forget(world, 0);
    policy_world_check(world);
    return (struct torch *)world->policy;
}

static const char *broken(const struct policy_world *world)
{
    struct policy_live live = policy_world_live(world);
    struct audit audit = {0};
    assert_int_equal(world->operations->check(world->policy, &live, &audit), WORSEGPU_OK);
    return audit.broken;
}

/* A number in its state, to be changed. */
#define BREAK(member, change)                                                                      \
    {                                                                                              \
        .name = #member, .offset = offsetof(struct torch, member), .difference = (change)          \
    }

static void test_every_wrong_figure_is_found(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t offset;
        uint64_t difference;
    } figures[] = {
        BREAK(regions, 1),
        BREAK(pending_events, 1),
        BREAK(pending_events, UINT64_MAX),
        BREAK(free_blocks[TORCH_SMALL], 1),
        BREAK(free_blocks[TORCH_LARGE], UINT64_MAX),
        BREAK(reserved_bytes[TORCH_SMALL], 512),
        BREAK(inactive_split, 1),
        BREAK(inactive_split_bytes, 512),
        BREAK(requested_bytes, 1),
        BREAK(oversize_allocations, 1),
        BREAK(oversize_segments, 1),
        BREAK(device.taken_bytes, 1),
        BREAK(blocks.bytes[BLOCK_PENDING], 512),
        BREAK(blocks.count[BLOCK_UNMAPPED], 1),
        BREAK(segments.count[BLOCK_USED], 1),
    };
    struct policy_world world;
    struct torch *torch = open_world(&world);
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        uint64_t before;
        memcpy(&before, (char *)torch + figures[i].offset, sizeof(before));
        uint64_t after = before + figures[i].difference;
        memcpy((char *)torch + figures[i].offset, &after, sizeof(after));
        if (!broken(&world))
            fail_msg("%s is not looked at", figures[i].name);
        memcpy((char *)torch + figures[i].offset, &before, sizeof(before));
    }
    uint64_t peak = torch->allocated_peak;
    torch->allocated_peak = 0;
    assert_string_equal(broken(&world), "gpu_used_sum");
    torch->allocated_peak = peak;
    assert_null(broken(&world));
    policy_world_close(&world);
}

/* One byte after another of an array of structs is turned over. What is found is not said, since
 * some bytes mean nothing; but nothing may crash, and most are found. */
static size_t found_in(struct policy_world *world, void *array, size_t bytes)
{
    unsigned char *place = array;
    size_t found = 0;
    for (size_t i = 0; i < bytes; i++) {
        static const unsigned char flips[] = {1, 0x80, 0xff};
        for (size_t k = 0; k < sizeof(flips); k++) {
            place[i] ^= flips[k];
            found += broken(world) != NULL;
            place[i] ^= flips[k];
        }
    }
    assert_null(broken(world));
    return found;
}

static void test_no_broken_link_leads_into_a_crash(void **state)
{
    (void)state;
    struct policy_world world;
    struct torch *torch = open_world(&world);
    size_t blocks = torch->blocks.length * sizeof(*torch->blocks.items);
    size_t streams = torch->streams_length * sizeof(*torch->streams);
    size_t uses = torch->uses_length * sizeof(*torch->uses);
    size_t nodes = torch->nodes.capacity * sizeof(*torch->nodes.items);
    size_t segments = torch->segments.length * sizeof(*torch->segments.items);
    assert_true(found_in(&world, torch->blocks.items, blocks) > blocks);
    assert_true(found_in(&world, torch->streams, streams) > streams);
    assert_true(found_in(&world, torch->uses, uses) > uses);
    assert_true(found_in(&world, torch->segments.items, segments) > segments / 2);
    assert_true(found_in(&world, torch->nodes.items, nodes) > 0);
    policy_world_close(&world);
}

static void test_a_block_taken_out_of_its_pool_is_missed(void **state)
{
    (void)state;
    struct policy_world world;
    struct torch *torch = open_world(&world);
    uint32_t stream = torch_stream_find(torch, 0);
    uint32_t block = block_order_first(&torch->streams[stream].free[TORCH_SMALL], &torch->nodes);
    block_order_remove(&torch->streams[stream].free[TORCH_SMALL], &torch->nodes, block);
    assert_string_equal(broken(&world), "free_index_count");
    block_order_insert(&torch->streams[stream].free[TORCH_SMALL], &torch->nodes, block, 1, 1, 1);
    assert_string_equal(broken(&world), "free_index_member");
    block_order_remove(&torch->streams[stream].free[TORCH_SMALL], &torch->nodes, block);
    const struct block *item = blocks_at(&torch->blocks, block);
    block_order_insert(&torch->streams[stream].free[TORCH_SMALL], &torch->nodes, block, item->bytes,
                       item->offset, item->bytes);
    assert_null(broken(&world));
    policy_world_close(&world);
}

static void test_a_stream_that_lost_a_use_is_found(void **state)
{
    (void)state;
    struct policy_world world;
    struct torch *torch = open_world(&world);
    uint32_t stream = torch_stream_find(torch, 3);
    torch->streams[stream].uses++;
    assert_string_equal(broken(&world), "block_state");
    torch->streams[stream].uses--;
    assert_null(broken(&world));
    policy_world_close(&world);
}

static void test_an_audit_without_memory_says_so(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world);
    struct policy_live live = policy_world_live(&world);
    bool failed = true;
    for (uint64_t fail_at = 1; failed; fail_at++) {
        struct audit audit = {0};
        chaos_arm(&world.chaos, fail_at, false);
        int status = world.operations->check(world.policy, &live, &audit);
        failed = world.chaos.failed;
        assert_int_equal(status, failed ? WORSEGPU_NO_MEMORY : WORSEGPU_OK);
        chaos_arm(&world.chaos, 0, false);
    }
    policy_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_wrong_figure_is_found),
        cmocka_unit_test(test_no_broken_link_leads_into_a_crash),
        cmocka_unit_test(test_a_block_taken_out_of_its_pool_is_missed),
        cmocka_unit_test(test_a_stream_that_lost_a_use_is_found),
        cmocka_unit_test(test_an_audit_without_memory_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
