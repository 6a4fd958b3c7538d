/* Sets of blocks in an order: search trees over block numbers. Best fit (size, then offset), first
 * fit (offset, with the largest size below each node), any order with a rank.
 *
 * A set is a root; any number of sets share one array of nodes, in which a block's number is its
 * place, so that a block is in at most one of the sets that share it. Keys are pairs of numbers,
 * compared first part first; no key is twice in a set. Each node also has a `weight`, and knows the
 * greatest weight and the number of nodes below it.
 *
 * Balanced, in O(log n) whatever the keys. Only block_nodes_reserve needs memory. */
#ifndef BLOCKS_BLOCK_ORDER_H
#define BLOCKS_BLOCK_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/blocks/blocks.h"

/* Open to the tests that break it; to be changed by the functions below alone. */
struct block_node {
    uint64_t major;
    uint64_t minor;
    uint32_t left;
    uint32_t right;
    uint64_t weight;
    uint64_t greatest; /* weight in this node and below it */
    uint32_t count;    /* nodes in this subtree */
    uint32_t level;    /* height: 1 without children */
    uint32_t parent;
    uint32_t unused[3]; /* 64 bytes; those that a search reads come first */
};

struct block_nodes {
    const struct worsegpu_memory *memory;
    struct block_node *items;
    size_t capacity;
};

struct block_order {
    uint32_t root; /* BLOCK_NONE: empty */
};

void block_nodes_init(struct block_nodes *nodes, const struct worsegpu_memory *memory);
void block_nodes_release(struct block_nodes *nodes);
/* Grows for block_nodes_reserve. */
int block_nodes_grow(struct block_nodes *nodes, size_t capacity);
/* Room for blocks with numbers below `capacity`. 0 or WORSEGPU_NO_MEMORY. */
static inline int block_nodes_reserve(struct block_nodes *nodes, size_t capacity)
{
    return capacity <= nodes->capacity ? 0 : block_nodes_grow(nodes, capacity);
}

static inline struct block_order block_order_empty(void)
{
    return (struct block_order){.root = BLOCK_NONE};
}

void block_order_insert(struct block_order *order, struct block_nodes *nodes, uint32_t block,
                        uint64_t major, uint64_t minor, uint64_t weight);
void block_order_remove(struct block_order *order, struct block_nodes *nodes, uint32_t block);

/* `block` takes the place of `old` (which may be itself) with another key and weight. The key must
 * stand where the old one stood: between the neighbours. Much cheaper than the two above. */
void block_order_replace(struct block_order *order, struct block_nodes *nodes, uint32_t old,
                         uint32_t block, uint64_t major, uint64_t minor, uint64_t weight);

/* The first block with a key of at least (major, minor), or BLOCK_NONE. */
uint32_t block_order_at_least(const struct block_order *order, const struct block_nodes *nodes,
                              uint64_t major, uint64_t minor);
/* The last block with a key below (major, minor), or BLOCK_NONE. */
uint32_t block_order_below(const struct block_order *order, const struct block_nodes *nodes,
                           uint64_t major, uint64_t minor);

/* The first block with a key of at least (major, minor) and a weight of at least `weight`, or
 * BLOCK_NONE. */
uint32_t block_order_heavy(const struct block_order *order, const struct block_nodes *nodes,
                           uint64_t major, uint64_t minor, uint64_t weight);

/* How many blocks have a key below (major, minor). */
uint64_t block_order_rank(const struct block_order *order, const struct block_nodes *nodes,
                          uint64_t major, uint64_t minor);

uint64_t block_order_count(const struct block_order *order, const struct block_nodes *nodes);
/* The greatest weight in it; 0 when it is empty. */
uint64_t block_order_greatest(const struct block_order *order, const struct block_nodes *nodes);
/* The greatest weight among the blocks with a key below (major, minor), or 0. */
uint64_t block_order_greatest_below(const struct block_order *order,
                                    const struct block_nodes *nodes, uint64_t major,
                                    uint64_t minor);

/* First, last, and the neighbours of a block that is in the set; BLOCK_NONE at the ends. */
uint32_t block_order_first(const struct block_order *order, const struct block_nodes *nodes);
uint32_t block_order_last(const struct block_order *order, const struct block_nodes *nodes);
uint32_t block_order_next(const struct block_nodes *nodes, uint32_t block);
uint32_t block_order_previous(const struct block_nodes *nodes, uint32_t block);

/* The audit: order, balance, counts, weights. `expect` is asked for each block in the set and says
 * whether it belongs there with this key and weight; `expected` is how many belong there. */
void block_order_check(const struct block_order *order, const struct block_nodes *nodes,
                       uint64_t expected,
                       bool (*expect)(const void *context, uint32_t block,
                                      const struct block_node *node),
                       const void *context, struct audit *audit);

#endif
