/* What the files of the torch policies share; see torch.h for what they model.
 *
 *   torch_config.c      the text of PYTORCH_CUDA_ALLOC_CONF, rounding
 *   torch_streams.c     which streams there are
 *   torch_pool.c        free blocks: in and out of a pool, merging, searching
 *   torch_segments.c    segments from the device and back, collection, emptying the cache
 *   torch_expandable.c  segments that grow page by page
 *   torch_events.c      record_stream and the frees that wait for events
 *   torch_restore.c     a start in the middle of a run, for the lab
 *   torch_check.c       the audit
 *   torch.c             the operations
 *
 * All memory is taken at the beginning of place and record_stream; nothing else can fail. */
#ifndef POLICIES_TORCH_INTERNAL_H
#define POLICIES_TORCH_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/blocks/block_order.h"
#include "lib/blocks/blocks.h"
#include "lib/blocks/device.h"
#include "lib/policies/torch_config.h"
#include "lib/policy.h"

#define TORCH_LEAST_BLOCK UINT64_C(512)
#define TORCH_SMALL_REQUEST (UINT64_C(1) << 20)   /* up to this: the small pool */
#define TORCH_SMALL_SEGMENT (UINT64_C(2) << 20)   /* also the page of a small expandable segment */
#define TORCH_MEDIUM_REQUEST (UINT64_C(10) << 20) /* below this: a segment of the next size */
#define TORCH_LARGE_SEGMENT (UINT64_C(20) << 20)  /* also the page of a large expandable segment */
#define TORCH_SEGMENT_STEP (UINT64_C(2) << 20)    /* larger segments are multiples of it */

enum torch_pool {
    TORCH_SMALL,
    TORCH_LARGE,
    TORCH_POOLS
};

enum {
    TORCH_TEXT_MAX = 1024,   /* bytes of alloc_conf */
    TORCH_ATTEMPTS = 3,      /* that one place can make, each of which may take a segment */
    TORCH_MOST_RANGES = 4096 /* segments at once, after which there are no addresses for more */
};

/* A stream exists as long as something of it does. Its pools are ordered by (bytes, offset), its
 * unmapped blocks by offset. */
struct torch_stream {
    uint64_t number;
    uint64_t uses; /* its segments, recorded uses and events, and a place under way */
    struct block_order free[TORCH_POOLS];
    struct block_order unmapped[TORCH_POOLS];
    uint32_t first_event; /* the queue of its events, oldest first, or BLOCK_NONE */
    uint32_t last_event;
    uint32_t waiting; /* an event before which all have completed, or BLOCK_NONE: all have */
    uint32_t next;    /* in the list of ready streams, or of spare places */
    uint8_t ready;    /* 1: its oldest event has completed */
};

/* That a block is used on another stream; from its free on, an event in that stream's queue. */
struct torch_use {
    uint32_t block;
    uint32_t stream;
    uint32_t previous; /* in the queue */
    uint32_t next;     /* in the queue, or of spare places */
    uint8_t done;      /* 1: it has completed, at the device */
};

/* Blocks: `group` is 2 x stream + pool, `segment` the number in `segments`. `own` of a free block
 * is the pool's counter of searches when it was put there, of a used block how many other streams
 * use it, of a pending one how many events it waits for. */
struct torch {
    struct policy policy;
    const struct worsegpu_memory *memory;
    const struct worsegpu_config *config;
    struct torch_settings settings;
    double fraction; /* of the device that may be taken; negative: not set */

    struct blocks blocks;
    struct block_nodes nodes; /* of free and unmapped blocks */
    struct device device;

    /* Segments: `segment` is the number of the lowest block, which stays the same as long as the
     * segment is there; `flags` whether it is expandable. */
    struct blocks segments;
    struct block_nodes segment_nodes;
    struct block_order segments_by_offset;
    uint64_t regions;             /* segments that are not expandable */
    uint64_t greatest_expandable; /* bytes, of all that ever were */

    struct torch_stream *streams;
    size_t streams_capacity;
    size_t streams_length;
    uint32_t spare_stream;
    uint32_t recent_stream; /* the last one found */
    uint32_t ready_stream;  /* the list of streams whose oldest event has completed */
    struct block_nodes stream_nodes;
    struct block_order streams_by_number;

    struct torch_use *uses;
    size_t uses_capacity;
    size_t uses_length;
    uint32_t spare_use;
    struct block_nodes use_nodes;
    struct block_order recorded; /* uses of blocks that are not freed yet, by (block, stream) */
    uint64_t pending_events;

    uint64_t searches[TORCH_POOLS]; /* counted while collection is on */
    uint64_t free_blocks[TORCH_POOLS];
    uint64_t reserved_bytes[TORCH_POOLS];
    uint64_t inactive_split; /* free blocks that are not whole segments; no expandable ones */
    uint64_t inactive_split_bytes;
    uint64_t requested_bytes; /* of what is handed out or waits for events */
    uint64_t allocated_peak;
    uint64_t active_peak;
    uint64_t oversize_allocations;
    uint64_t oversize_segments;
    uint64_t retries;
    uint64_t ooms;
    uint64_t syncs;
};

/* What place looks for, and what became of it. */
struct torch_want {
    uint64_t bytes; /* rounded */
    uint32_t stream;
    enum torch_pool pool;
    uint64_t scanned; /* free blocks looked at */
    bool taken;       /* memory was taken from the device for it */
};

static inline struct torch *torch_of(struct policy *policy)
{
    return (struct torch *)policy;
}

static inline const struct torch *torch_seen(const struct policy *policy)
{
    return (const struct torch *)policy;
}

static inline enum torch_pool torch_pool_of(const struct block *block)
{
    return (enum torch_pool)(block->group & 1U);
}

static inline struct torch_stream *torch_stream_of(const struct torch *torch,
                                                   const struct block *block)
{
    return &torch->streams[block->group >> 1];
}

static inline bool torch_is_expandable(const struct torch *torch, const struct block *block)
{
    return torch->settings.expandable && torch->segments.items[block->segment].flags != 0;
}

static inline bool torch_collects(const struct torch *torch)
{
    return torch->settings.collection_threshold > 0 && torch->fraction >= 0;
}

/* What the memory fraction allows. */
uint64_t torch_allowed_bytes(const struct torch *torch);

/* ---- torch_streams.c */

/* Room for one more stream. 0 or WORSEGPU_NO_MEMORY. */
int torch_streams_reserve(struct torch *torch);
/* The place of a stream, made if need be, with one use more. After torch_streams_reserve. */
uint32_t torch_stream_take(struct torch *torch, uint64_t number);
/* BLOCK_NONE when nothing of the stream exists. */
uint32_t torch_stream_find(const struct torch *torch, uint64_t number);
/* One use less: the last one ends it. */
void torch_stream_drop(struct torch *torch, uint32_t stream);
void torch_streams_release(struct torch *torch);

/* Streams in the order of their numbers; BLOCK_NONE at the end. */
static inline uint32_t torch_stream_first(const struct torch *torch)
{
    return block_order_first(&torch->streams_by_number, &torch->stream_nodes);
}

static inline uint32_t torch_stream_next(const struct torch *torch, uint32_t stream)
{
    return block_order_next(&torch->stream_nodes, stream);
}

/* ---- torch_pool.c */

void torch_pool_insert(struct torch *torch, uint32_t block);
void torch_pool_remove(struct torch *torch, uint32_t block);
/* Joins a block in state FREE that is in no pool with free neighbours, which leave theirs. The
 * union. */
uint32_t torch_pool_merge(struct torch *torch, uint32_t block);
/* Makes a block that was used or pending free: merges, goes into its pool. */
void torch_pool_give(struct torch *torch, uint32_t block);
/* The block to be handed out, still in its pool, or BLOCK_NONE. */
uint32_t torch_pool_search(struct torch *torch, struct torch_want *want);
/* A block in its pool is handed out, but for what lies above its first `bytes`. */
void torch_pool_hand_out(struct torch *torch, uint32_t block, uint64_t bytes,
                         uint64_t requested_bytes, struct policy_placement *placement);

/* ---- torch_segments.c */

/* Room for all that one place may need. 0 or WORSEGPU_NO_MEMORY. */
int torch_segments_reserve(struct torch *torch, uint64_t bytes);
/* A new segment of one block in this state (in no pool yet); its stream has one use more. */
uint32_t torch_segment_add(struct torch *torch, uint64_t offset, uint64_t bytes, uint32_t group,
                           bool expandable, enum block_state state);
/* Ends a segment that is one block in no pool. */
void torch_segment_remove(struct torch *torch, uint32_t block);
/* Whether the block is a region of its own that could go back. */
bool torch_region_is_whole(const struct torch *torch, const struct block *block);
/* Gives a whole free region, which is in its pool, back to the device. */
void torch_region_give_back(struct torch *torch, uint32_t block);
/* All that is tried when no cached block serves. The block, in its pool, or BLOCK_NONE. */
uint32_t torch_segments_obtain(struct torch *torch, struct torch_want *want);
void torch_segments_empty(struct torch *torch);

/* ---- torch_expandable.c */

uint32_t torch_expandable_attempt(struct torch *torch, struct torch_want *want);
/* Takes the pages that lie completely inside a free block away from it. */
void torch_expandable_unmap(struct torch *torch, uint32_t block);
/* The page of a pool. */
static inline uint64_t torch_page(enum torch_pool pool)
{
    return pool == TORCH_SMALL ? TORCH_SMALL_SEGMENT : TORCH_LARGE_SEGMENT;
}

/* ---- torch_events.c */

int torch_events_use(struct torch *torch, uint32_t block, uint64_t number);
/* At a free: records an event for each other stream that uses the block. */
void torch_events_record(struct torch *torch, uint32_t block);
/* The block is lost: its uses are too. */
void torch_events_forget(struct torch *torch, uint32_t block);
void torch_events_complete(struct torch *torch, uint64_t number, uint64_t count, bool newest);
/* Looks at the queues: takes completed events off their fronts. */
void torch_events_look(struct torch *torch);
/* Waits for all events. */
void torch_events_synchronize(struct torch *torch);

/* ---- torch_check.c */

int torch_check(const struct policy *policy, const struct policy_live *live, struct audit *audit);

#endif
