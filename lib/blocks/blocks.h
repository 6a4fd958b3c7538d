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
    uint64_t requested_bytes; /* as asked for, of a used block */
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

/* Makes sure that `more` blocks can be made. 0 or WORSEGPU_NO_MEMORY; after it blocks->capacity
 * says how many numbers there can be. Blocks may move in memory. */
int blocks_reserve(struct blocks *blocks, size_t more);

/* A new block without neighbours: a whole segment. Its other fields are 0, its links BLOCK_NONE. */
uint32_t blocks_add(struct blocks *blocks, uint64_t offset, uint64_t bytes, enum block_state state);

/* Cuts a block after its first `bytes` (more than 0, fewer than it has); the new upper part has the
 * same state, segment and group. Its number. */
uint32_t blocks_split(struct blocks *blocks, uint32_t block, uint64_t bytes);

/* Joins a block with its neighbour above, whose number ends. Both have the same state. The union
 * keeps the lower one's other fields. */
void blocks_join_above(struct blocks *blocks, uint32_t block);

/* Ends a block that is a whole segment. */
void blocks_remove(struct blocks *blocks, uint32_t block);

void blocks_set_state(struct blocks *blocks, uint32_t block, enum block_state state);

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
 * without memory for it, in the order of their numbers. The segment is told as the offset of its
 * lowest block. `stream_of` may be NULL. */
void blocks_each(const struct blocks *blocks,
                 uint64_t (*stream_of)(const void *context, const struct block *block),
                 const void *stream_context, policy_see see, void *context);

#endif
