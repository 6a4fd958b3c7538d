/* The audit of sets of blocks in an order; see block_order.h. Trusts no link: each node is reached
 * only from the parent it names, and levels fall on the way down, so that a broken link ends in a
 * name and not in a circle. */
#include "lib/blocks/block_order.h"

enum {
    LEVELS_MAX = 64 /* a balanced tree of 2^32 nodes has fewer */
};

struct order_audit {
    const struct block_nodes *nodes;
    bool (*expect)(const void *context, uint32_t block, const struct block_node *node);
    const void *context;
    struct audit *audit;
    const struct block_node *previous; /* in the order */
    uint64_t members;
};

/* What a subtree comes to. */
struct subtree {
    uint64_t greatest;
    uint64_t count;
    uint32_t level;
};

/* In the order of keys; the recursion is as deep as the tree, so below LEVELS_MAX. */
static struct subtree check_subtree(struct order_audit *check, uint32_t block, uint32_t parent,
                                    uint32_t levels)
{
    struct subtree sums = {0};
    if (block == BLOCK_NONE)
        return sums;
    bool there = block < check->nodes->capacity;
    if (!audit_check(check->audit, INVARIANT_free_index_order,
                     there && check->nodes->items[block].parent == parent &&
                         check->nodes->items[block].level <= levels))
        return sums;
    const struct block_node *node = &check->nodes->items[block];
    if (!audit_check(check->audit, INVARIANT_free_index_order,
                     node->level > 0 && (node->left == BLOCK_NONE || node->left != node->right)))
        return sums;
    struct subtree left = check_subtree(check, node->left, block, node->level - 1);
    audit_check(
        check->audit, INVARIANT_free_index_order,
        !check->previous || check->previous->major < node->major ||
            (check->previous->major == node->major && check->previous->minor < node->minor));
    audit_check(check->audit, INVARIANT_free_index_member,
                check->expect(check->context, block, node));
    check->previous = node;
    check->members++;
    struct subtree right = check_subtree(check, node->right, block, node->level - 1);

    sums.count = 1 + left.count + right.count;
    sums.level = 1 + (left.level > right.level ? left.level : right.level);
    sums.greatest = left.greatest > right.greatest ? left.greatest : right.greatest;
    if (node->weight > sums.greatest)
        sums.greatest = node->weight;
    audit_check(check->audit, INVARIANT_free_index_count, node->count == sums.count);
    audit_check(check->audit, INVARIANT_free_index_order,
                node->level == sums.level && left.level <= right.level + 1 &&
                    right.level <= left.level + 1);
    audit_check(check->audit, INVARIANT_free_index_class, node->greatest == sums.greatest);
    return sums;
}

void block_order_check(const struct block_order *order, const struct block_nodes *nodes,
                       uint64_t expected,
                       bool (*expect)(const void *context, uint32_t block,
                                      const struct block_node *node),
                       const void *context, struct audit *audit)
{
    struct order_audit check = {
        .nodes = nodes, .expect = expect, .context = context, .audit = audit};
    check_subtree(&check, order->root, BLOCK_NONE, LEVELS_MAX);
    audit_check(audit, INVARIANT_free_index_count, check.members == expected);
}
