/* The streams of the RMM pool in their turn, each with the free list that it owns.
 *
 * A stream gets the next turn when it is first used, and keeps it. Its list comes and goes: "there"
 * says whether it is. Over the turns lies a tree of greatest blocks and of numbers of blocks, so
 * that "the first list in turn with a block of at least so many bytes", "the next list that is
 * there" and "how many blocks do the lists before this one have" take O(log streams).
 *
 * Past RMM_STREAMS_MAX streams, all further ones share the last turn: what a client can make us
 * keep is bounded. Lives inside its policy; only rmm_streams_reserve needs memory. */
#ifndef RMM_STREAMS_H
#define RMM_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/blocks/block_order.h"
#include "worsegpu_memory.h"

enum {
    RMM_STREAMS_MAX = 1 << 16 /* a power of two */
};
#define RMM_TURN_NONE UINT32_MAX

/* Free blocks, ordered by size, then offset. `name` is the group of its blocks. */
struct rmm_list {
    struct block_order order;
    uint64_t bytes;
    uint32_t turn; /* whose list it is */
};

struct rmm_turn {
    uint64_t stream;
    uint32_t list; /* its place in `lists`; every turn has one, empty while it is not there */
    bool there;
};

/* A node of the tree over the turns. */
struct rmm_reach {
    uint64_t greatest; /* bytes of the greatest block, plus 1; 0: no list is there */
    uint64_t blocks;
};

struct rmm_streams {
    const struct worsegpu_memory *memory;
    struct rmm_turn *turns;
    struct rmm_list *lists; /* as many as turns */
    struct rmm_reach *tree; /* [1] is the root, [leaves + turn] a turn; room for 2 * capacity */
    size_t turns_capacity;
    size_t lists_capacity;
    size_t capacity; /* of all: 0 or a power of two */
    uint32_t length; /* turns given */
    uint32_t leaves; /* of the tree as it stands: 0 or a power of two, at least `length` */
    struct block_nodes nodes;
    struct block_order by_stream; /* turns, keyed by stream */
};

void rmm_streams_init(struct rmm_streams *streams, const struct worsegpu_memory *memory);
void rmm_streams_release(struct rmm_streams *streams);

/* Room for so many more streams (less where the maximum is reached). 0 or WORSEGPU_NO_MEMORY. */
int rmm_streams_reserve(struct rmm_streams *streams, size_t more);

/* The stream's turn; given now if it had none. Its list is there from now on. */
uint32_t rmm_streams_use(struct rmm_streams *streams, uint64_t stream);

static inline struct rmm_list *rmm_streams_list(const struct rmm_streams *streams, uint32_t turn)
{
    return &streams->lists[streams->turns[turn].list];
}

/* After its list has changed: puts the tree right. */
void rmm_streams_note(struct rmm_streams *streams, const struct block_nodes *blocks, uint32_t turn);

/* The first turn from `from` on whose list is there and has a block of at least `bytes` (0: whose
 * list is there), or RMM_TURN_NONE. */
uint32_t rmm_streams_first(const struct rmm_streams *streams, uint32_t from, uint64_t bytes);

/* Blocks in all lists of turns below this one. */
uint64_t rmm_streams_blocks_before(const struct rmm_streams *streams, uint32_t turn);

/* Blocks in all lists. */
static inline uint64_t rmm_streams_blocks(const struct rmm_streams *streams)
{
    return streams->leaves > 0 ? streams->tree[1].blocks : 0;
}

/* Exchanges what the two turns have for lists. The tree is not put right. */
void rmm_streams_swap(struct rmm_streams *streams, uint32_t one, uint32_t other);

/* The list, empty by now, is no longer there. */
void rmm_streams_drop(struct rmm_streams *streams, uint32_t turn);

/* Of the greatest block in any list; 0: there is none. */
uint64_t rmm_streams_largest(const struct rmm_streams *streams);

/* The audit: turns and lists belong to each other, the tree says what the lists say. */
void rmm_streams_check(const struct rmm_streams *streams, const struct block_nodes *blocks,
                       struct audit *audit);

#endif
