/* First, next, best or worst fit over one list of free blocks, as textbooks have them. See
 * list_fit.c. The rest is for its own files and for tests that break it. */
#ifndef POLICIES_LIST_FIT_H
#define POLICIES_LIST_FIT_H

#include "lib/blocks/block_order.h"
#include "lib/blocks/blocks.h"
#include "lib/policy.h"

extern const struct policy_operations policy_list_fit;

enum list_fit_choice {
    LIST_FIT_FIRST,
    LIST_FIT_NEXT,
    LIST_FIT_BEST,
    LIST_FIT_WORST
};
enum list_fit_order {
    LIST_FIT_ADDRESS,
    LIST_FIT_SIZE_UP,
    LIST_FIT_SIZE_DOWN,
    LIST_FIT_INSERT_FRONT,
    LIST_FIT_INSERT_BACK
};

struct list_fit_policy {
    struct policy policy;
    const struct worsegpu_memory *memory;
    const struct worsegpu_config *config;
    enum list_fit_choice fit;
    enum list_fit_order order;
    bool merge;
    bool tail_apart; /* tail=apart */
    uint64_t alignment;
    uint64_t header_bytes;

    struct blocks blocks; /* one segment, the lowest block being number 0 */
    uint32_t last;        /* its highest block */
    uint32_t unlisted;    /* with tail_apart: the free block at the end of the range that is in no
                             list, which is `last` then; else, and when there is none, BLOCK_NONE */

    /* With the order of addresses: a tree, by offset with the size as weight for first and next
     * fit, by size and offset for best and worst fit. */
    struct block_nodes nodes;
    struct block_order tree;
    uint64_t next_offset; /* where the next search begins; of next fit */

    /* With any other order: a list, linked by the blocks' `previous` and `next`. */
    uint32_t head;
    uint32_t tail;
    uint32_t rover; /* the entry where the next search begins (BLOCK_NONE: the head); of next fit */
};

static inline bool list_fit_is_tree(const struct list_fit_policy *list_fit)
{
    return list_fit->order == LIST_FIT_ADDRESS;
}

/* By address: list_fit_tree.c. A search answers with a block or BLOCK_NONE, and how many entries
 * the one that is modelled would have looked at. */
uint32_t list_fit_tree_find(const struct list_fit_policy *list_fit, uint64_t bytes,
                            uint64_t *scanned);
/* The block is handed out; `rest` (may be BLOCK_NONE) is what is left of it. */
void list_fit_tree_take(struct list_fit_policy *list_fit, uint32_t block, uint32_t rest);
/* A block that has become free is listed, and merged where that is on. */
void list_fit_tree_put(struct list_fit_policy *list_fit, uint32_t block);
/* A free block is listed no more. */
void list_fit_tree_drop(struct list_fit_policy *list_fit, uint32_t block);
uint64_t list_fit_tree_largest(const struct list_fit_policy *list_fit);
void list_fit_tree_check(const struct list_fit_policy *list_fit, struct audit *audit);

/* The same in any other order: list_fit_list.c. */
uint32_t list_fit_list_find(const struct list_fit_policy *list_fit, uint64_t bytes,
                            uint64_t *scanned);
void list_fit_list_take(struct list_fit_policy *list_fit, uint32_t block, uint32_t rest);
void list_fit_list_put(struct list_fit_policy *list_fit, uint32_t block);
void list_fit_list_drop(struct list_fit_policy *list_fit, uint32_t block);
uint64_t list_fit_list_largest(const struct list_fit_policy *list_fit);
void list_fit_list_check(const struct list_fit_policy *list_fit, struct audit *audit);

/* Joins a block with its neighbour above; both are free. */
void list_fit_join_above(struct list_fit_policy *list_fit, uint32_t block);
/* How many free blocks are in the list. */
uint64_t list_fit_listed(const struct list_fit_policy *list_fit);
/* How much of a free block was ever used: all of it, but for the one at the end of the range. */
uint64_t list_fit_known_bytes(const struct list_fit_policy *list_fit, uint32_t block);

/* For policy_list_fit: list_fit_look.c. */
void list_fit_measure(const struct policy *policy, struct policy_measures *measures);
int list_fit_check(const struct policy *policy, const struct policy_live *live,
                   struct audit *audit);
uint64_t list_fit_largest_free(const struct policy *policy);
void list_fit_statistics(const struct policy *policy, const struct statistics_sink *sink);
void list_fit_each_block(const struct policy *policy, policy_see see, void *context);

#endif
