/* Blocks: cutting, joining, states, sums, the audit, against an array of the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/memory.h"
#include "lib/blocks/blocks.h"
#include "tests/support/chaos.h"

/* Live placements for the audit: an array. */
struct placements {
    struct policy_placement items[16];
    size_t count;
};

static void each_placement(const struct policy_live *live, policy_visit visit, void *context)
{
    const struct placements *placements = live->context;
    for (size_t i = 0; i < placements->count; i++)
        visit(context, &placements->items[i]);
}

static const char *broken_in(const struct blocks *blocks, bool merges,
                             const struct placements *placements)
{
    static const struct placements none;
    struct policy_live live = {.each = each_placement, .context = placements ? placements : &none};
    struct audit audit = {0};
    assert_int_equal(blocks_check(blocks, merges, &live, &audit), WORSEGPU_OK);
    assert_true(audit.checks > 0);
    return audit.broken;
}

static void assert_sound(const struct blocks *blocks, const struct placements *placements)
{
    const char *broken = broken_in(blocks, false, placements);
    if (broken)
        fail_msg("%s does not hold", broken);
}

static void start(struct blocks *blocks)
{
    blocks_init(blocks, memory_system());
    assert_int_equal(blocks_reserve(blocks, 8), 0);
}

static void test_a_cut_block_keeps_its_low_part(void **state)
{
    (void)state;
    struct blocks blocks;
    start(&blocks);
    uint32_t lower = blocks_add(&blocks, 1000, 100, BLOCK_FREE);
    blocks_at(&blocks, lower)->segment = 7;
    blocks_at(&blocks, lower)->group = 9;
    blocks_at(&blocks, lower)->own = 5;
    uint32_t upper = blocks_split(&blocks, lower, 30);
    const struct block *item = blocks_at(&blocks, upper);
    assert_int_equal(blocks_at(&blocks, lower)->offset, 1000);
    assert_int_equal(blocks_at(&blocks, lower)->bytes, 30);
    assert_int_equal(item->offset, 1030);
    assert_int_equal(item->bytes, 70);
    assert_int_equal(item->segment, 7);
    assert_int_equal(item->group, 9);
    assert_int_equal(item->own, 0);
    assert_int_equal(item->state, BLOCK_FREE);
    assert_int_equal(item->below, lower);
    assert_int_equal(blocks_at(&blocks, lower)->above, upper);
    assert_int_equal(blocks.count[BLOCK_FREE], 2);
    assert_int_equal(blocks.bytes[BLOCK_FREE], 100);
    assert_sound(&blocks, NULL);
    blocks_release(&blocks);
}

static void test_a_joined_block_gives_its_number_back(void **state)
{
    (void)state;
    struct blocks blocks;
    start(&blocks);
    uint32_t first = blocks_add(&blocks, 0, 100, BLOCK_FREE);
    uint32_t second = blocks_split(&blocks, first, 30);
    uint32_t third = blocks_split(&blocks, second, 30);
    blocks_join_above(&blocks, first);
    assert_int_equal(blocks_at(&blocks, first)->bytes, 60);
    assert_int_equal(blocks_at(&blocks, first)->above, third);
    assert_int_equal(blocks_at(&blocks, third)->below, first);
    assert_int_equal(blocks.spares, 1);
    assert_sound(&blocks, NULL);
    assert_int_equal(blocks_split(&blocks, third, 10), second); /* used again */
    assert_int_equal(blocks.length, 3);
    assert_sound(&blocks, NULL);
    blocks_release(&blocks);
}

static void test_the_number_given_back_last_is_used_first(void **state)
{
    (void)state;
    struct blocks blocks;
    start(&blocks);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(blocks_add(&blocks, i * UINT64_C(100), 10, BLOCK_FREE), i);
    blocks_remove(&blocks, 0);
    blocks_remove(&blocks, 2);
    assert_sound(&blocks, NULL);
    assert_int_equal(blocks_add(&blocks, 500, 10, BLOCK_FREE), 2);
    assert_int_equal(blocks_add(&blocks, 600, 10, BLOCK_FREE), 0);
    assert_int_equal(blocks_add(&blocks, 700, 10, BLOCK_FREE), 3);
    blocks_release(&blocks);
}

static void test_states_carry_their_sums(void **state)
{
    (void)state;
    struct blocks blocks;
    start(&blocks);
    uint32_t first = blocks_add(&blocks, 0, 100, BLOCK_FREE);
    uint32_t second = blocks_split(&blocks, first, 40);
    blocks_set_state(&blocks, first, BLOCK_USED);
    assert_int_equal(blocks.high_water, 40);
    blocks_set_state(&blocks, second, BLOCK_USED);
    assert_int_equal(blocks.high_water, 100);
    blocks_set_state(&blocks, second, BLOCK_PENDING);
    blocks_set_state(&blocks, first, BLOCK_FORGOTTEN);
    assert_int_equal(blocks.high_water, 100);
    assert_int_equal(blocks.bytes[BLOCK_USED], 0);
    assert_int_equal(blocks.bytes[BLOCK_PENDING], 60);
    assert_int_equal(blocks.bytes[BLOCK_FORGOTTEN], 40);
    assert_int_equal(blocks.count[BLOCK_FORGOTTEN], 1);
    struct policy_measures measures;
    blocks_measure_segments(&blocks, &measures);
    assert_int_equal(measures.reserved_bytes, 100);
    assert_int_equal(measures.free_bytes, 60);
    assert_int_equal(measures.pending_bytes, 60);
    assert_int_equal(measures.forgotten_bytes, 40);
    assert_int_equal(measures.blocks, 2);
    assert_sound(&blocks, NULL);
    blocks_release(&blocks);
}

static void test_unmapped_blocks_are_not_reserved(void **state)
{
    (void)state;
    struct blocks blocks;
    start(&blocks);
    uint32_t first = blocks_add(&blocks, 0, 100, BLOCK_FREE);
    blocks_set_state(&blocks, blocks_split(&blocks, first, 40), BLOCK_UNMAPPED);
    struct policy_measures measures;
    blocks_measure_segments(&blocks, &measures);
    assert_int_equal(measures.reserved_bytes, 40);
    assert_int_equal(measures.blocks, 1);
    assert_sound(&blocks, NULL);
    blocks_release(&blocks);
}

static void test_a_range_is_reserved_as_far_as_it_was_used(void **state)
{
    (void)state;
    struct blocks blocks;
    struct policy_measures measures;
    start(&blocks);
    uint32_t first = blocks_add(&blocks, 0, 100, BLOCK_FREE);
    blocks_measure_range(&blocks, first, &measures);
    assert_int_equal(measures.reserved_bytes, 0);
    assert_int_equal(measures.blocks, 0);
    assert_int_equal(measures.segments, 1);
    uint32_t tail = blocks_split(&blocks, first, 30);
    blocks_set_state(&blocks, first, BLOCK_USED);
    blocks_measure_range(&blocks, tail, &measures);
    assert_int_equal(measures.reserved_bytes, 30);
    assert_int_equal(measures.used_bytes, 30);
    assert_int_equal(measures.blocks, 1);
    blocks_set_state(&blocks, first, BLOCK_FREE);
    blocks_join_above(&blocks, first);
    blocks_measure_range(&blocks, first, &measures);
    assert_int_equal(measures.reserved_bytes, 30);
    assert_int_equal(measures.free_bytes, 30);
    assert_int_equal(measures.blocks, 1);
    blocks_release(&blocks);
}

/* ------------------------------------------------------------------------------ pictures */

struct picture {
    struct policy_block blocks[8];
    size_t count;
};

static void see(void *context, const struct policy_block *block)
{
    struct picture *picture = context;
    assert_in_range(picture->count, 0, 7);
    picture->blocks[picture->count++] = *block;
}

static uint64_t stream_of(const void *context, const struct block *block)
{
    return block->group + *(const uint64_t *)context;
}

/* Two segments, the upper one made first, with an unmapped end. */
static void make_segments(struct blocks *blocks)
{
    uint32_t upper = blocks_add(blocks, 1000, 100, BLOCK_FREE);
    blocks_at(blocks, upper)->group = 3;
    uint32_t end = blocks_split(blocks, upper, 60);
    blocks_set_state(blocks, end, BLOCK_UNMAPPED);
    blocks_set_state(blocks, blocks_split(blocks, upper, 20), BLOCK_PENDING);
    uint32_t lower = blocks_add(blocks, 900, 100, BLOCK_USED);
    blocks_set_state(blocks, blocks_split(blocks, lower, 10), BLOCK_FORGOTTEN);
}

static void test_blocks_are_shown_by_address(void **state)
{
    (void)state;
    struct blocks blocks;
    start(&blocks);
    make_segments(&blocks);
    struct picture picture = {.count = 0};
    uint64_t hundred = 100;
    blocks_each(&blocks, stream_of, &hundred, see, &picture);
    const struct policy_block expected[] = {
        {.offset = 900, .bytes = 10, .stream = 100, .segment = 900, .state = POLICY_BLOCK_USED},
        {.offset = 910,
         .bytes = 90,
         .stream = 100,
         .segment = 900,
         .state = POLICY_BLOCK_FORGOTTEN},
        {.offset = 1000, .bytes = 20, .stream = 103, .segment = 1000, .state = POLICY_BLOCK_FREE},
        {.offset = 1020,
         .bytes = 40,
         .stream = 103,
         .segment = 1000,
         .state = POLICY_BLOCK_PENDING},
    };
    assert_int_equal(picture.count, 4);
    for (size_t i = 0; i < picture.count; i++) {
        assert_int_equal(picture.blocks[i].offset, expected[i].offset);
        assert_int_equal(picture.blocks[i].bytes, expected[i].bytes);
        assert_int_equal(picture.blocks[i].stream, expected[i].stream);
        assert_int_equal(picture.blocks[i].segment, expected[i].segment);
        assert_int_equal(picture.blocks[i].state, expected[i].state);
    }
    blocks_release(&blocks);
}

static void test_without_memory_blocks_are_shown_segment_by_segment(void **state)
{
    (void)state;
    struct chaos chaos;
    chaos_init(&chaos);
    struct blocks blocks;
    blocks_init(&blocks, &chaos.memory);
    assert_int_equal(blocks_reserve(&blocks, 8), 0);
    make_segments(&blocks);
    chaos_arm(&chaos, 1, true);
    struct picture picture = {.count = 0};
    blocks_each(&blocks, NULL, NULL, see, &picture);
    static const uint64_t offsets[] = {1000, 1020, 900, 910};
    assert_int_equal(picture.count, 4);
    for (size_t i = 0; i < picture.count; i++)
        assert_int_equal(picture.blocks[i].offset, offsets[i]);
    blocks_release(&blocks);
    assert_int_equal(chaos.live_pieces, 0);
}

/* ------------------------------------------------------------------------------ the audit */

/* 0: used 0 to 10; 1: free to 30; 2: used to 60; 3: free to 100. */
static void make_range(struct blocks *blocks, struct placements *placements)
{
    start(blocks);
    uint32_t block = blocks_add(blocks, 0, 100, BLOCK_FREE);
    block = blocks_split(blocks, block, 10);
    block = blocks_split(blocks, block, 20);
    blocks_split(blocks, block, 30);
    blocks_set_state(blocks, 0, BLOCK_USED);
    blocks_set_state(blocks, 2, BLOCK_USED);
    *placements = (struct placements){
        .items = {{.reserved_bytes = 10, .offset = 0, .cookie = 0},
                  {.reserved_bytes = 30, .offset = 38, .cookie = 2}},
        .count = 2,
    };
    assert_null(broken_in(blocks, true, placements));
}

static void test_the_audit_names_a_broken_layout(void **state)
{
    (void)state;
    struct blocks blocks;
    struct placements placements;
    make_range(&blocks, &placements);
    uint32_t *links[] = {&blocks.items[1].below, &blocks.items[1].above, &blocks.items[3].below,
                         &blocks.items[0].above, &blocks.items[2].segment};
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        static const uint32_t values[] = {1, 3, 1000, BLOCK_NONE};
        for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
            uint32_t kept = *links[i];
            if (kept == values[k])
                continue;
            *links[i] = values[k];
            assert_string_equal(broken_in(&blocks, true, &placements), "block_layout");
            *links[i] = kept;
        }
    }
    blocks.items[1].offset++;
    assert_string_equal(broken_in(&blocks, true, &placements), "block_layout");
    blocks.items[1].offset--;
    blocks_set_state(&blocks, 0, BLOCK_FREE);
    placements.items[0] = placements.items[1];
    placements.count = 1;
    assert_string_equal(broken_in(&blocks, true, &placements), "block_layout"); /* unmerged */
    assert_null(broken_in(&blocks, false, &placements));
    blocks_release(&blocks);
}

static void test_the_audit_names_broken_states_and_sums(void **state)
{
    (void)state;
    struct blocks blocks;
    struct placements placements;
    make_range(&blocks, &placements);
    blocks.items[1].state = BLOCK_STATES;
    assert_string_equal(broken_in(&blocks, true, &placements), "block_state");
    blocks.items[1].state = BLOCK_FREE;
    struct {
        uint64_t *number;
        const char *name;
    } sums[] = {
        {&blocks.bytes[BLOCK_USED], "gpu_used_sum"},
        {&blocks.count[BLOCK_USED], "gpu_used_sum"},
        {&blocks.bytes[BLOCK_FREE], "gpu_free_sum"},
        {&blocks.bytes[BLOCK_FORGOTTEN], "gpu_forgotten_sum"},
        {&blocks.count[BLOCK_FORGOTTEN], "gpu_forgotten_count"},
        {&blocks.bytes[BLOCK_PENDING], "gpu_reserved_sum"},
        {&blocks.bytes[BLOCK_UNMAPPED], "gpu_reserved_sum"},
    };
    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
        ++*sums[i].number;
        assert_string_equal(broken_in(&blocks, true, &placements), sums[i].name);
        --*sums[i].number;
    }
    blocks.high_water = 59;
    assert_string_equal(broken_in(&blocks, true, &placements), "gpu_reserved_sum");
    blocks.high_water = 60;
    blocks.spares = 1;
    assert_string_equal(broken_in(&blocks, true, &placements), "block_state");
    blocks.spares = 0;
    blocks.first_spare = 1;
    assert_string_equal(broken_in(&blocks, true, &placements), "block_state");
    blocks.first_spare = BLOCK_NONE;
    assert_null(broken_in(&blocks, true, &placements));
    blocks_release(&blocks);
}

static void test_the_audit_names_placements_that_lie_nowhere(void **state)
{
    (void)state;
    struct blocks blocks;
    struct placements placements;
    make_range(&blocks, &placements);
    static const struct policy_placement wrong[] = {
        {.reserved_bytes = 20, .offset = 10, .cookie = 1},   /* a free block */
        {.reserved_bytes = 10, .offset = 0, .cookie = 1000}, /* none */
        {.reserved_bytes = 11, .offset = 0, .cookie = 0},    /* another size */
        {.reserved_bytes = 10, .offset = 10, .cookie = 0},   /* outside */
        {.reserved_bytes = 30, .offset = 30, .cookie = 2},   /* twice */
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct policy_placement kept = placements.items[0];
        placements.items[0] = wrong[i];
        assert_string_equal(broken_in(&blocks, true, &placements), "gpu_placement");
        placements.items[0] = kept;
    }
    placements.count = 1; /* one that nobody has */
    assert_string_equal(broken_in(&blocks, true, &placements), "gpu_placement");
    blocks_release(&blocks);
}

static void test_the_audit_names_segments_that_overlap(void **state)
{
    (void)state;
    struct blocks blocks;
    start(&blocks);
    blocks_add(&blocks, 0, 100, BLOCK_FREE);
    blocks_add(&blocks, 100, 100, BLOCK_FREE);
    assert_null(broken_in(&blocks, true, NULL)); /* they touch, and are two */
    blocks_add(&blocks, 199, 10, BLOCK_FREE);
    assert_string_equal(broken_in(&blocks, true, NULL), "block_layout");
    blocks_release(&blocks);
}

/* ------------------------------------------------------------------------------ memory */

static bool cut_many(struct chaos *chaos, void *context)
{
    (void)context;
    struct blocks blocks;
    blocks_init(&blocks, &chaos->memory);
    bool fine = blocks_reserve(&blocks, 1) == 0;
    if (fine) {
        uint32_t block = blocks_add(&blocks, 0, 1000, BLOCK_FREE);
        while (blocks.length < 100 && fine) {
            struct block *items = blocks.items;
            size_t capacity = blocks.capacity;
            fine = blocks_reserve(&blocks, 1) == 0;
            if (fine)
                block = blocks_split(&blocks, block, 1);
            else
                assert_true(blocks.items == items && blocks.capacity == capacity);
        }
        chaos_arm(chaos, 0, false); /* the audit needs memory as well */
        assert_sound(&blocks, NULL);
        chaos->failed = !fine;
    }
    blocks_release(&blocks);
    return fine;
}

static void test_running_out_of_memory_changes_nothing(void **state)
{
    (void)state;
    for (uint64_t fail_at = 0; fail_at < 6; fail_at++) {
        struct chaos chaos;
        chaos_init(&chaos);
        chaos_arm(&chaos, fail_at, true);
        assert_int_equal(cut_many(&chaos, NULL), fail_at == 0 || fail_at > 4); /* 16 to 128 */
        assert_int_equal(chaos.live_pieces, 0);
    }
}

static void test_numbers_run_out_before_memory_is_asked(void **state)
{
    (void)state;
    struct chaos chaos;
    chaos_init(&chaos);
    struct blocks blocks;
    blocks_init(&blocks, &chaos.memory);
    assert_int_equal(blocks_reserve(&blocks, (size_t)BLOCK_NONE + 1), WORSEGPU_NO_MEMORY);
    assert_int_equal(blocks_reserve(&blocks, SIZE_MAX), WORSEGPU_NO_MEMORY);
    assert_int_equal(chaos.requests, 0);
    blocks_release(&blocks);
}

static void test_an_audit_without_memory_says_so(void **state)
{
    (void)state;
    static const struct placements none;
    struct policy_live live = {.each = each_placement, .context = &none};
    struct chaos chaos;
    chaos_init(&chaos);
    struct blocks blocks;
    blocks_init(&blocks, &chaos.memory);
    assert_int_equal(blocks_reserve(&blocks, 1), 0);
    blocks_add(&blocks, 0, 1, BLOCK_FREE);
    for (uint64_t fail_at = 1; fail_at <= 2; fail_at++) {
        struct audit audit = {0};
        chaos_arm(&chaos, fail_at, false);
        assert_int_equal(blocks_check(&blocks, true, &live, &audit), WORSEGPU_NO_MEMORY);
        assert_int_equal(chaos.live_pieces, 1);
    }
    blocks_release(&blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cut_block_keeps_its_low_part),
        cmocka_unit_test(test_a_joined_block_gives_its_number_back),
        cmocka_unit_test(test_the_number_given_back_last_is_used_first),
        cmocka_unit_test(test_states_carry_their_sums),
        cmocka_unit_test(test_unmapped_blocks_are_not_reserved),
        cmocka_unit_test(test_a_range_is_reserved_as_far_as_it_was_used),
        cmocka_unit_test(test_blocks_are_shown_by_address),
        cmocka_unit_test(test_without_memory_blocks_are_shown_segment_by_segment),
        cmocka_unit_test(test_the_audit_names_a_broken_layout),
        cmocka_unit_test(test_the_audit_names_broken_states_and_sums),
        cmocka_unit_test(test_the_audit_names_placements_that_lie_nowhere),
        cmocka_unit_test(test_the_audit_names_segments_that_overlap),
        cmocka_unit_test(test_running_out_of_memory_changes_nothing),
        cmocka_unit_test(test_numbers_run_out_before_memory_is_asked),
        cmocka_unit_test(test_an_audit_without_memory_says_so),
    };
    return cmocka_run_group_tests_name("blocks", tests, NULL, NULL);
}
