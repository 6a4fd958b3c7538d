/* list_fit in the order of addresses, through a search tree; see list_fit.h. O(log n) each. */
#include "lib/policies/list_fit.h"

/* Best and worst fit ask for sizes, first and next fit for places. */
static bool by_size(const struct list_fit_policy *list_fit)
{
    return list_fit->fit == LIST_FIT_BEST || list_fit->fit == LIST_FIT_WORST;
}

static void insert(struct list_fit_policy *list_fit, uint32_t block)
{
    const struct block *item = blocks_at(&list_fit->blocks, block);
    if (by_size(list_fit))
        block_order_insert(&list_fit->tree, &list_fit->nodes, block, item->bytes, item->offset, 0);
    else
        block_order_insert(&list_fit->tree, &list_fit->nodes, block, item->offset, 0, item->bytes);
}

static void take_out(struct list_fit_policy *list_fit, uint32_t block)
{
    block_order_remove(&list_fit->tree, &list_fit->nodes, block);
}

/* `block` stands where `old` stood in memory, or begins or ends otherwise now. */
static void replace(struct list_fit_policy *list_fit, uint32_t old, uint32_t block)
{
    const struct block *item = blocks_at(&list_fit->blocks, block);
    if (by_size(list_fit)) {
        take_out(list_fit, old);
        insert(list_fit, block);
    } else {
        block_order_replace(&list_fit->tree, &list_fit->nodes, old, block, item->offset, 0,
                            item->bytes);
    }
}

/* ------------------------------------------------------------------------------ search */

/* From the lowest address on. */
static uint32_t find_first(const struct list_fit_policy *list_fit, uint64_t bytes,
                           uint64_t *scanned)
{
    const struct block_order *tree = &list_fit->tree;
    const struct block_nodes *nodes = &list_fit->nodes;
    uint32_t block = block_order_heavy(tree, nodes, 0, 0, bytes);
    *scanned = block == BLOCK_NONE
                   ? block_order_count(tree, nodes)
                   : block_order_rank(tree, nodes, nodes->items[block].major, 0) + 1;
    return block;
}

/* From the end of the last placement on, and round. */
static uint32_t find_next(const struct list_fit_policy *list_fit, uint64_t bytes, uint64_t *scanned)
{
    const struct block_order *tree = &list_fit->tree;
    const struct block_nodes *nodes = &list_fit->nodes;
    uint64_t passed_over = block_order_rank(tree, nodes, list_fit->next_offset, 0);
    uint32_t block = block_order_heavy(tree, nodes, list_fit->next_offset, 0, bytes);
    if (block == BLOCK_NONE) {
        block = find_first(list_fit, bytes, scanned);
        if (block != BLOCK_NONE)
            *scanned += block_order_count(tree, nodes) - passed_over;
        return block;
    }
    *scanned = block_order_rank(tree, nodes, nodes->items[block].major, 0) + 1 - passed_over;
    return block;
}

/* The least that is large enough, or the greatest; the lowest address among equals. A walk looks at
 * all of the list. */
static uint32_t find_by_size(const struct list_fit_policy *list_fit, uint64_t bytes,
                             uint64_t *scanned)
{
    const struct block_order *tree = &list_fit->tree;
    const struct block_nodes *nodes = &list_fit->nodes;
    *scanned = block_order_count(tree, nodes);
    if (list_fit->fit == LIST_FIT_BEST)
        return block_order_at_least(tree, nodes, bytes, 0);
    uint32_t greatest = block_order_last(tree, nodes);
    if (greatest == BLOCK_NONE || nodes->items[greatest].major < bytes)
        return BLOCK_NONE;
    return block_order_at_least(tree, nodes, nodes->items[greatest].major, 0);
}

uint32_t list_fit_tree_find(const struct list_fit_policy *list_fit, uint64_t bytes,
                            uint64_t *scanned)
{
    if (by_size(list_fit))
        return find_by_size(list_fit, bytes, scanned);
    return list_fit->fit == LIST_FIT_FIRST ? find_first(list_fit, bytes, scanned)
                                           : find_next(list_fit, bytes, scanned);
}

/* ------------------------------------------------------------------------------ changes */

void list_fit_tree_take(struct list_fit_policy *list_fit, uint32_t block, uint32_t rest)
{
    if (rest == BLOCK_NONE)
        take_out(list_fit, block);
    else
        replace(list_fit, block, rest);
}

void list_fit_tree_put(struct list_fit_policy *list_fit, uint32_t block)
{
    const struct blocks *blocks = &list_fit->blocks;
    uint32_t below = blocks_at(blocks, block)->below;
    uint32_t above = blocks_at(blocks, block)->above;
    bool joins_below = list_fit->merge && blocks_is(blocks, below, BLOCK_FREE);
    bool joins_above = list_fit->merge && blocks_is(blocks, above, BLOCK_FREE);
    if (joins_above)
        list_fit_join_above(list_fit, block);
    if (joins_below) {
        if (joins_above)
            take_out(list_fit, above);
        list_fit_join_above(list_fit, below);
        replace(list_fit, below, below);
    } else if (joins_above) {
        replace(list_fit, above, block);
    } else {
        insert(list_fit, block);
    }
}

void list_fit_tree_drop(struct list_fit_policy *list_fit, uint32_t block)
{
    take_out(list_fit, block);
}

/* ------------------------------------------------------------------------------ looking */

uint64_t list_fit_tree_largest(const struct list_fit_policy *list_fit)
{
    const struct block_order *tree = &list_fit->tree;
    const struct block_nodes *nodes = &list_fit->nodes;
    bool free_end = blocks_is(&list_fit->blocks, list_fit->last, BLOCK_FREE);
    uint64_t end_bytes = free_end ? list_fit_known_bytes(list_fit, list_fit->last) : 0;
    uint64_t largest;
    if (by_size(list_fit)) {
        uint32_t greatest = block_order_last(tree, nodes);
        if (greatest != BLOCK_NONE && greatest == list_fit->last)
            greatest = block_order_previous(nodes, greatest);
        largest = greatest == BLOCK_NONE ? 0 : nodes->items[greatest].major;
    } else {
        largest = block_order_greatest_below(
            tree, nodes, blocks_at(&list_fit->blocks, list_fit->last)->offset, 0);
    }
    return end_bytes > largest ? end_bytes : largest;
}

static bool expect_free(const void *context, uint32_t block, const struct block_node *node)
{
    const struct list_fit_policy *list_fit = context;
    if (block >= list_fit->blocks.length || block == list_fit->unlisted)
        return false;
    const struct block *item = blocks_at(&list_fit->blocks, block);
    return item->state == BLOCK_FREE &&
           (by_size(list_fit) ? node->major == item->bytes && node->minor == item->offset
                              : node->major == item->offset && node->weight == item->bytes);
}

void list_fit_tree_check(const struct list_fit_policy *list_fit, struct audit *audit)
{
    block_order_check(&list_fit->tree, &list_fit->nodes, list_fit_listed(list_fit), expect_free,
                      list_fit, audit);
}
