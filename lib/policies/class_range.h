/* One address range whose free blocks lie in lists by size class: what the policies of the TLSF
 * family share (offset, tlsf, vma).
 *
 * The range is there for good, from offset 0 on, as long as its policy. A policy adds its own
 * classes, its search and its way of cutting; here are merging, ends, the limit of a smaller
 * capacity, measures and audits. What is called for each request is inline: a call of the policy
 * takes some tens of nanoseconds. */
#ifndef POLICIES_CLASS_RANGE_H
#define POLICIES_CLASS_RANGE_H

#include "lib/blocks/block_order.h"
#include "lib/blocks/blocks.h"
#include "lib/blocks/class_lists.h"
#include "lib/policy.h"

/* Open to the tests that break it. */
struct class_range {
    const struct worsegpu_memory *memory;
    const struct worsegpu_config *config;
    uint64_t bytes; /* of the range; it keeps them when the capacity changes */
    uint32_t last;  /* the block at its end */
    uint32_t tail;  /* a free block at its end that is in no list (vma's); else BLOCK_NONE */
    bool ordered;   /* the listed blocks are in `by_offset` too, their size being the weight */
    struct blocks blocks;
    struct class_lists lists;
    struct block_nodes nodes;
    struct block_order by_offset;
};

/* A range of `bytes`, one free block, which is in no list yet. 0 or WORSEGPU_NO_MEMORY; released
 * either way by class_range_release_memory. */
int class_range_init(struct class_range *range, const struct policy_setup *setup, uint64_t bytes,
                     bool ordered);
void class_range_release_memory(struct class_range *range);

/* Room for `more` blocks. 0 or WORSEGPU_NO_MEMORY. */
static inline int class_range_reserve(struct class_range *range, size_t more)
{
    if (blocks_reserve(&range->blocks, more) != WORSEGPU_OK)
        return WORSEGPU_NO_MEMORY;
    if (range->ordered && range->nodes.capacity < range->blocks.capacity)
        return block_nodes_reserve(&range->nodes, range->blocks.capacity);
    return WORSEGPU_OK;
}

/* The measures; see blocks_measure_range. */
void class_range_measure(const struct class_range *range, struct policy_measures *measures);

/* The largest free block, as far as it lies in what was ever used. Walks the highest list that has
 * any but the last block: the real libraries have no better index either. */
uint64_t class_range_largest_free(const struct class_range *range);
/* The same with the last block as large as it is. */
uint64_t class_range_largest(const struct class_range *range);

/* The audit. `class_of` as for class_lists_check. */
int class_range_check(const struct class_range *range,
                      uint32_t (*class_of)(const void *context, const struct block *block),
                      const void *context, const struct policy_live *live, struct audit *audit);

/* Whether the capacity of now lets something end here: never further up than it already was when
 * the capacity has become smaller. */
static inline bool class_range_allows(const struct class_range *range, uint64_t end)
{
    return end <= range->config->gpu_capacity || end <= range->blocks.high_water;
}

static inline void class_range_push(struct class_range *range, uint32_t class, uint32_t block)
{
    class_lists_push(&range->lists, &range->blocks, class, block);
    if (range->ordered) {
        const struct block *item = blocks_at(&range->blocks, block);
        block_order_insert(&range->by_offset, &range->nodes, block, item->offset, 0, item->bytes);
    }
}

static inline void class_range_remove(struct class_range *range, uint32_t block)
{
    class_lists_remove(&range->lists, &range->blocks, block);
    if (range->ordered)
        block_order_remove(&range->by_offset, &range->nodes, block);
}

/* To be called for a block that has got another size or neighbour. */
static inline void class_range_note_last(struct class_range *range, uint32_t block)
{
    if (blocks_at(&range->blocks, block)->above == BLOCK_NONE)
        range->last = block;
}

/* Cuts a block that is in no list; the number of the upper part. */
static inline uint32_t class_range_cut(struct class_range *range, uint32_t block, uint64_t bytes)
{
    uint32_t upper = blocks_split(&range->blocks, block, bytes);
    class_range_note_last(range, upper);
    return upper;
}

/* Hands a free block out that is in no list. The placement's offset is the block's. */
static inline void class_range_hand_out(struct class_range *range, uint32_t block,
                                        uint64_t requested_bytes,
                                        struct policy_placement *placement)
{
    blocks_set_state(&range->blocks, block, BLOCK_USED);
    struct block *item = blocks_at(&range->blocks, block);
    item->requested_bytes = requested_bytes;
    *placement = (struct policy_placement){
        .reserved_bytes = item->bytes,
        .offset = item->offset,
        .block_index = (int64_t)block,
        .cookie = block,
    };
}

/* Takes a used block back: free, and one with its free neighbours, which leave their lists. The
 * number of the union, which is in no list; BLOCK_NONE when it is to be forgotten. */
static inline uint32_t class_range_take_back(struct class_range *range,
                                             const struct policy_placement *placement,
                                             const struct policy_free *how)
{
    struct blocks *blocks = &range->blocks;
    uint32_t block = (uint32_t)placement->cookie;
    if (how->forget) {
        blocks_set_state(blocks, block, BLOCK_FORGOTTEN);
        return BLOCK_NONE;
    }
    blocks_set_state(blocks, block, BLOCK_FREE);
    uint32_t below = blocks_at(blocks, block)->below;
    if (blocks_is(blocks, below, BLOCK_FREE)) {
        class_range_remove(range, below);
        blocks_join_above(blocks, below);
        block = below;
    }
    uint32_t above = blocks_at(blocks, block)->above;
    if (blocks_is(blocks, above, BLOCK_FREE)) {
        if (above != range->tail)
            class_range_remove(range, above);
        blocks_join_above(blocks, block);
    }
    class_range_note_last(range, block);
    return block;
}

#endif
