/* Blocks: what an address range is cut into. Shared by all policies that split and merge.
 *
 * A *segment* is one contiguous range, wholly covered by blocks that are linked to their neighbours
 * by address; blocks of different segments never touch, even where their addresses do. A block is
 * named by its number, which it keeps until it is merged away; numbers are used again, the last one
 * given back first. Free blocks are found through an index of the policy's own choice
 * (block_order.h, class_lists.h); this module knows only neighbours, states and sums.
 *
 * Lives inside its policy. Whatever needs memory is in blocks_reserve; all else cannot fail. */
#ifndef BLOCKS_BLOCKS_H
#define BLOCKS_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/policy.h"
#include "worsegpu_memory.h"

#define BLOCK_NONE UINT32_MAX

enum block_state {
    BLOCK_SPARE,     /* no block: its number is waiting to be used again */
    BLOCK_FREE,      /* can be handed out */
    BLOCK_USED,      /* handed out */
    BLOCK_PENDING,   /* freed, but not to be used again yet */
    BLOCK_FORGOTTEN, /* freed by the client, lost by the allocator */
    BLOCK_UNMAPPED,  /* an address range without memory behind it */
    BLOCK_STATES
};

/* 64 bytes: one line of the cache. */
struct block {
    uint64_t offset;
    uint64_t bytes;
    uint64_t requested_bytes; /* the policy's: as asked for, of a used block */
    uint64_t own;             /* the policy's */
    uint32_t below;           /* neighbours by address in its segment, or BLOCK_NONE */
    uint32_t above;
    uint32_t segment;  /* the policy's name for its segment; blocks_split hands it on */
    uint32_t group;    /* the policy's: a pool, a stream, ...; blocks_split hands it on */
    uint32_t list;     /* class_lists': the class it is listed in */
    uint32_t previous; /* class_lists': its neighbours in that list */
    uint32_t next;
    uint8_t state; /* enum block_state; to be changed by blocks_set_state alone */
    uint8_t flags; /* the policy's */
};

struct blocks {
    const struct worsegpu_memory *memory;
    struct block *items;
    size_t capacity;
    size_t length; /* numbers ever given */
    size_t spares;
    uint32_t first_spare;         /* linked by `next` */
    uint64_t bytes[BLOCK_STATES]; /* sums by state */
    uint64_t count[BLOCK_STATES]; /* and how many */
    uint64_t high_water;          /* greatest end of a used block so far */
};

/* Takes no memory yet. */
void blocks_init(struct blocks *blocks, const struct worsegpu_memory *memory);
void blocks_release(struct blocks *blocks);

/* Grows for blocks_reserve. */
int blocks_grow(struct blocks *blocks, size_t more);

/* Makes sure that `more` blocks can be made. 0 or WORSEGPU_NO_MEMORY; after it blocks->capacity
 * says how many numbers there can be. Blocks may move in memory. */
static inline int blocks_reserve(struct blocks *blocks, size_t more)
{
    if (more <= blocks->capacity - blocks->length + blocks->spares)
        return 0;
    return blocks_grow(blocks, more);
}

/* A new block without neighbours: a whole segment. Its other fields are 0, its links BLOCK_NONE. */
uint32_t blocks_add(struct blocks *blocks, uint64_t offset, uint64_t bytes, enum block_state state);

/* Ends a block that is a whole segment. */
void blocks_remove(struct blocks *blocks, uint32_t block);

static inline struct block *blocks_at(const struct blocks *blocks, uint32_t block)
{
    return &blocks->items[block];
}

static inline uint64_t block_end(const struct block *block)
{
    return block->offset + block->bytes;
}

/* Whether `neighbour` is a block (may be BLOCK_NONE) in this state. */
static inline bool blocks_is(const struct blocks *blocks, uint32_t neighbour,
                             enum block_state state)
{
    return neighbour != BLOCK_NONE && blocks->items[neighbour].state == (uint8_t)state;
}

/* A block without neighbours is a whole segment. */
static inline bool block_is_whole(const struct block *block)
{
    return block->below == BLOCK_NONE && block->above == BLOCK_NONE;
}

/* A number for a new block; for the functions below. */
static inline uint32_t blocks_take_number(struct blocks *blocks)
{
    uint32_t block = blocks->first_spare;
    if (block == BLOCK_NONE)
        return (uint32_t)blocks->length++;
    blocks->first_spare = blocks->items[block].next;
    blocks->spares--;
    return block;
}

/* Ends a number; for the functions below. */
static inline void blocks_give_number(struct blocks *blocks, uint32_t block)
{
    struct block *item = &blocks->items[block];
    item->state = BLOCK_SPARE;
    item->next = blocks->first_spare;
    blocks->first_spare = block;
    blocks->spares++;
}

static inline void blocks_set_state(struct blocks *blocks, uint32_t block, enum block_state state)
{
    struct block *item = &blocks->items[block];
    blocks->bytes[item->state] -= item->bytes;
    blocks->count[item->state]--;
    item->state = (uint8_t)state;
    blocks->bytes[state] += item->bytes;
    blocks->count[state]++;
    if (state == BLOCK_USED && block_end(item) > blocks->high_water)
        blocks->high_water = block_end(item);
}

/* Cuts a block after its first `bytes` (fewer than it has; 0 makes a lower part of no size, which
 * blocks_check does not take for a block); the new upper part has the same state, segment and
 * group. Its number. */
static inline uint32_t blocks_split(struct blocks *blocks, uint32_t block, uint64_t bytes)
{
    uint32_t number = blocks_take_number(blocks);
    struct block *lower = &blocks->items[block];
    blocks->items[number] = (struct block){
        .offset = lower->offset + bytes,
        .bytes = lower->bytes - bytes,
        .below = block,
        .above = lower->above,
        .segment = lower->segment,
        .group = lower->group,
        .list = BLOCK_NONE,
        .previous = BLOCK_NONE,
        .next = BLOCK_NONE,
        .state = lower->state,
    };
    if (lower->above != BLOCK_NONE)
        blocks->items[lower->above].below = number;
    lower->above = number;
    lower->bytes = bytes;
    blocks->count[lower->state]++;
    return number;
}

/* Joins a block with its neighbour above, whose number ends. Both have the same state. The union
 * keeps the lower one's other fields. */
static inline void blocks_join_above(struct blocks *blocks, uint32_t block)
{
    struct block *lower = &blocks->items[block];
    uint32_t ending = lower->above;
    const struct block *upper = &blocks->items[ending];
    lower->bytes += upper->bytes;
    lower->above = upper->above;
    if (upper->above != BLOCK_NONE)
        blocks->items[upper->above].below = block;
    blocks->count[lower->state]--;
    blocks_give_number(blocks, ending);
}

/* Measures of a policy that has one range for good: reserved is as far up as it was ever used, and
 * free what of that is neither used nor forgotten. `segments` 1, no device call. `tail` is the free
 * block at the end of the range, or BLOCK_NONE: it does not count as one of the blocks unless it
 * begins below the high water. */
void blocks_measure_range(const struct blocks *blocks, uint32_t tail,
                          struct policy_measures *measures);

/* Measures of a policy that takes segments: reserved is all that is not unmapped. The caller fills
 * in segments, device_calls, retries. */
void blocks_measure_segments(const struct blocks *blocks, struct policy_measures *measures);

/* The audit of all blocks: states, layout of each segment (neighbours linked both ways, no gap, no
 * overlap, no two free neighbours left unmerged where `merges`), segments apart from each other,
 * sums by state, and that the live placements lie on the used blocks, one on each: the cookie is
 * the block's number, the offset lies in it, reserved_bytes is its size. 0, or WORSEGPU_NO_MEMORY.
 * O(n log n). */
int blocks_check(const struct blocks *blocks, bool merges, const struct policy_live *live,
                 struct audit *audit);

/* For each_block: every block but spare and unmapped ones, by offset. Sorts a copy: O(n log n);
 * without memory for it, segment by segment, these in the order of the numbers of their lowest
 * blocks. The segment is told as the offset of its
 * lowest block. `stream_of` may be NULL. */
void blocks_each(const struct blocks *blocks,
                 uint64_t (*stream_of)(const void *context, const struct block *block),
                 const void *stream_context, policy_see see, void *context);

#endif
