/* Sets of blocks in an order; see block_order.h. The audit is in block_order_check.c.
 *
 * Height-balanced trees, after G. Adelson-Velsky and E. Landis, 1962: `level` is a node's height,
 * and the heights of its two sides differ by at most one. Nothing is random, and no choice of keys
 * makes them deep. Counts and greatest weights are corrected on the way down when a block is put
 * in, and on the way up when it is taken out. */
#include "lib/blocks/block_order.h"

#include "base/memory.h"

typedef unsigned __int128 whole_key; /* both parts: one comparison, without a jump between them */

static inline whole_key key_of(uint64_t major, uint64_t minor)
{
    return (whole_key)major << 64 | minor;
}

static inline bool before(const struct block_node *node, whole_key key)
{
    return key_of(node->major, node->minor) < key;
}

/* One of two, without a jump: searches take either side as often, which no processor guesses. */
static inline uint32_t choose(bool second, uint32_t first_one, uint32_t second_one)
{
    return first_one ^ ((first_one ^ second_one) & (0 - (uint32_t)second));
}

void block_nodes_init(struct block_nodes *nodes, const struct worsegpu_memory *memory)
{
    *nodes = (struct block_nodes){.memory = memory};
}

void block_nodes_release(struct block_nodes *nodes)
{
    memory_release_array(nodes->memory, nodes->items, nodes->capacity, sizeof(*nodes->items));
    block_nodes_init(nodes, nodes->memory);
}

int block_nodes_grow(struct block_nodes *nodes, size_t capacity)
{
    if (memory_grow(nodes->memory, &nodes->items, &nodes->capacity, capacity,
                    sizeof(*nodes->items)) != 0)
        return WORSEGPU_NO_MEMORY;
    return 0;
}

/* ------------------------------------------------------------------------------ balance */

static inline uint32_t level_of(const struct block_node *items, uint32_t block)
{
    return block == BLOCK_NONE ? 0 : items[block].level;
}

static inline uint32_t count_of(const struct block_node *items, uint32_t block)
{
    return block == BLOCK_NONE ? 0 : items[block].count;
}

static inline uint64_t greatest_of(const struct block_node *items, uint32_t block)
{
    return block == BLOCK_NONE ? 0 : items[block].greatest;
}

static inline uint32_t level_above(uint32_t left, uint32_t right)
{
    return (left > right ? left : right) + 1;
}

static inline void refresh_greatest(struct block_node *items, struct block_node *node)
{
    uint64_t greatest = node->weight;
    uint64_t left = greatest_of(items, node->left);
    uint64_t right = greatest_of(items, node->right);
    greatest = left > greatest ? left : greatest;
    node->greatest = right > greatest ? right : greatest;
}

static inline void refresh_level(struct block_node *items, struct block_node *node)
{
    node->level = level_above(level_of(items, node->left), level_of(items, node->right));
}

/* Lets the parent of `old` (or the root) lead to `new`, which may be BLOCK_NONE. */
static inline void replace_child(struct block_order *order, struct block_node *items,
                                 uint32_t parent, uint32_t old, uint32_t new)
{
    if (parent == BLOCK_NONE)
        order->root = new;
    else if (items[parent].left == old)
        items[parent].left = new;
    else
        items[parent].right = new;
    if (new != BLOCK_NONE)
        items[new].parent = parent;
}

/* The child on one side of `top` takes its place, and `top` goes down on the other side. */
static void rotate(struct block_order *order, struct block_node *items, uint32_t top,
                   bool right_child_rises)
{
    struct block_node *sinking = &items[top];
    uint32_t child = right_child_rises ? sinking->right : sinking->left;
    struct block_node *rising = &items[child];
    uint32_t between = right_child_rises ? rising->left : rising->right;
    replace_child(order, items, sinking->parent, top, child);
    if (right_child_rises) {
        sinking->right = between;
        rising->left = top;
    } else {
        sinking->left = between;
        rising->right = top;
    }
    sinking->parent = child;
    if (between != BLOCK_NONE)
        items[between].parent = top;
    rising->count = sinking->count;
    rising->greatest = sinking->greatest;
    sinking->count = 1 + count_of(items, sinking->left) + count_of(items, sinking->right);
    refresh_greatest(items, sinking);
    refresh_level(items, sinking);
    refresh_level(items, rising);
}

/* Restores the balance at a node whose sides may differ by two, and its level. The node that is now
 * in its place. */
static inline uint32_t settle(struct block_order *order, struct block_node *items, uint32_t top)
{
    struct block_node *node = &items[top];
    uint32_t left = level_of(items, node->left);
    uint32_t right = level_of(items, node->right);
    if (left > right + 1) {
        const struct block_node *child = &items[node->left];
        if (level_of(items, child->right) > level_of(items, child->left))
            rotate(order, items, node->left, true);
        rotate(order, items, top, false);
        return node->parent;
    }
    if (right > left + 1) {
        const struct block_node *child = &items[node->right];
        if (level_of(items, child->left) > level_of(items, child->right))
            rotate(order, items, node->right, false);
        rotate(order, items, top, true);
        return node->parent;
    }
    node->level = level_above(left, right);
    return top;
}

/* ------------------------------------------------------------------------------ changes */

void block_order_insert(struct block_order *order, struct block_nodes *nodes, uint32_t block,
                        uint64_t major, uint64_t minor, uint64_t weight)
{
    struct block_node *items = nodes->items;
    whole_key key = key_of(major, minor);
    uint32_t parent = BLOCK_NONE;
    uint32_t place = order->root;
    bool right = false;
    while (place != BLOCK_NONE) {
        struct block_node *node = &items[place];
        parent = place;
        node->count++;
        node->greatest = node->greatest < weight ? weight : node->greatest;
        right = before(node, key);
        place = choose(right, node->left, node->right);
    }
    items[block] = (struct block_node){
        .major = major,
        .minor = minor,
        .weight = weight,
        .greatest = weight,
        .left = BLOCK_NONE,
        .right = BLOCK_NONE,
        .parent = parent,
        .count = 1,
        .level = 1,
    };
    if (parent == BLOCK_NONE)
        order->root = block;
    else if (right)
        items[parent].right = block;
    else
        items[parent].left = block;

    while (parent != BLOCK_NONE) {
        uint32_t level = items[parent].level;
        uint32_t top = settle(order, items, parent);
        if (items[top].level == level)
            break;
        parent = items[top].parent;
    }
}

/* Takes the node out of its place. The lowest node whose children have changed. *most: no node with
 * a greatest weight above it has lost that. */
static uint32_t unlink_node(struct block_order *order, struct block_node *items, uint32_t block,
                            uint64_t *most)
{
    const struct block_node *node = &items[block];
    *most = node->weight;
    if (node->left == BLOCK_NONE || node->right == BLOCK_NONE) {
        uint32_t child = node->left == BLOCK_NONE ? node->right : node->left;
        replace_child(order, items, node->parent, block, child);
        return node->parent;
    }
    /* The next block in the order has no left child; it takes the place. */
    uint32_t next = node->right;
    while (items[next].left != BLOCK_NONE)
        next = items[next].left;
    struct block_node *heir = &items[next];
    *most = heir->weight > *most ? heir->weight : *most; /* gone from between its two places */
    uint32_t changed = heir->parent == block ? next : heir->parent;
    if (heir->parent != block) {
        replace_child(order, items, heir->parent, next, heir->right);
        heir->right = node->right;
        items[heir->right].parent = next;
    }
    heir->left = node->left;
    items[heir->left].parent = next;
    heir->count = node->count;
    heir->greatest = node->greatest;
    heir->level = node->level;
    replace_child(order, items, node->parent, block, next);
    return changed;
}

void block_order_remove(struct block_order *order, struct block_nodes *nodes, uint32_t block)
{
    struct block_node *items = nodes->items;
    uint64_t most;
    uint32_t place = unlink_node(order, items, block, &most);
    bool unsettled = true;
    while (place != BLOCK_NONE) {
        struct block_node *node = &items[place];
        node->count--;
        if (node->greatest <= most)
            refresh_greatest(items, node);
        if (unsettled) {
            uint32_t level = node->level;
            place = settle(order, items, place);
            unsettled = items[place].level != level;
        }
        place = items[place].parent;
    }
}

void block_order_replace(struct block_order *order, struct block_nodes *nodes, uint32_t old,
                         uint32_t block, uint64_t major, uint64_t minor, uint64_t weight)
{
    struct block_node *items = nodes->items;
    struct block_node *node = &items[block];
    if (block != old) {
        *node = items[old];
        replace_child(order, items, node->parent, old, block);
        if (node->left != BLOCK_NONE)
            items[node->left].parent = block;
        if (node->right != BLOCK_NONE)
            items[node->right].parent = block;
    }
    node->major = major;
    node->minor = minor;
    node->weight = weight;
    /* Further up nothing changes once a greatest weight has not. */
    for (uint32_t place = block; place != BLOCK_NONE; place = items[place].parent) {
        uint64_t greatest = items[place].greatest;
        refresh_greatest(items, &items[place]);
        if (items[place].greatest == greatest)
            break;
    }
}

/* ------------------------------------------------------------------------------ searches */

uint32_t block_order_at_least(const struct block_order *order, const struct block_nodes *nodes,
                              uint64_t major, uint64_t minor)
{
    const struct block_node *items = nodes->items;
    whole_key key = key_of(major, minor);
    uint32_t found = BLOCK_NONE;
    uint32_t place = order->root;
    while (place != BLOCK_NONE) {
        const struct block_node *node = &items[place];
        bool right = before(node, key);
        found = choose(right, place, found);
        place = choose(right, node->left, node->right);
    }
    return found;
}

uint32_t block_order_below(const struct block_order *order, const struct block_nodes *nodes,
                           uint64_t major, uint64_t minor)
{
    const struct block_node *items = nodes->items;
    whole_key key = key_of(major, minor);
    uint32_t found = BLOCK_NONE;
    uint32_t place = order->root;
    while (place != BLOCK_NONE) {
        const struct block_node *node = &items[place];
        bool right = before(node, key);
        found = choose(right, found, place);
        place = choose(right, node->left, node->right);
    }
    return found;
}

/* The first heavy enough one in a subtree that has one. */
static uint32_t first_heavy(const struct block_node *items, uint32_t place, uint64_t weight)
{
    for (;;) {
        const struct block_node *node = &items[place];
        if (greatest_of(items, node->left) >= weight && node->left != BLOCK_NONE)
            place = node->left;
        else if (node->weight >= weight)
            return place;
        else
            place = node->right;
    }
}

uint32_t block_order_heavy(const struct block_order *order, const struct block_nodes *nodes,
                           uint64_t major, uint64_t minor, uint64_t weight)
{
    const struct block_node *items = nodes->items;
    uint32_t place = order->root;
    if (place == BLOCK_NONE || items[place].greatest < weight)
        return BLOCK_NONE;
    if (major == 0 && minor == 0)
        return first_heavy(items, place, weight);
    place = block_order_at_least(order, nodes, major, minor);
    while (place != BLOCK_NONE) {
        /* All below it on the left is done with, or has a lower key. */
        const struct block_node *node = &items[place];
        if (node->weight >= weight)
            return place;
        if (node->right != BLOCK_NONE && items[node->right].greatest >= weight)
            return first_heavy(items, node->right, weight);
        while (node->parent != BLOCK_NONE && items[node->parent].right == place) {
            place = node->parent;
            node = &items[place];
        }
        place = node->parent;
    }
    return BLOCK_NONE;
}

uint64_t block_order_rank(const struct block_order *order, const struct block_nodes *nodes,
                          uint64_t major, uint64_t minor)
{
    const struct block_node *items = nodes->items;
    whole_key key = key_of(major, minor);
    uint64_t rank = 0;
    uint32_t place = order->root;
    while (place != BLOCK_NONE) {
        const struct block_node *node = &items[place];
        if (before(node, key)) {
            rank += 1 + (uint64_t)count_of(items, node->left);
            place = node->right;
        } else {
            place = node->left;
        }
    }
    return rank;
}

uint64_t block_order_count(const struct block_order *order, const struct block_nodes *nodes)
{
    return count_of(nodes->items, order->root);
}

uint64_t block_order_greatest(const struct block_order *order, const struct block_nodes *nodes)
{
    return greatest_of(nodes->items, order->root);
}

uint64_t block_order_greatest_below(const struct block_order *order,
                                    const struct block_nodes *nodes, uint64_t major, uint64_t minor)
{
    const struct block_node *items = nodes->items;
    whole_key key = key_of(major, minor);
    uint64_t greatest = 0;
    uint32_t place = order->root;
    while (place != BLOCK_NONE) {
        const struct block_node *node = &items[place];
        if (!before(node, key)) {
            place = node->left;
            continue;
        }
        uint64_t left = greatest_of(items, node->left);
        greatest = left > greatest ? left : greatest;
        greatest = node->weight > greatest ? node->weight : greatest;
        place = node->right;
    }
    return greatest;
}

/* ------------------------------------------------------------------------------ neighbours */

static uint32_t leftmost(const struct block_node *items, uint32_t place)
{
    while (place != BLOCK_NONE && items[place].left != BLOCK_NONE)
        place = items[place].left;
    return place;
}

static uint32_t rightmost(const struct block_node *items, uint32_t place)
{
    while (place != BLOCK_NONE && items[place].right != BLOCK_NONE)
        place = items[place].right;
    return place;
}

uint32_t block_order_first(const struct block_order *order, const struct block_nodes *nodes)
{
    return leftmost(nodes->items, order->root);
}

uint32_t block_order_last(const struct block_order *order, const struct block_nodes *nodes)
{
    return rightmost(nodes->items, order->root);
}

uint32_t block_order_next(const struct block_nodes *nodes, uint32_t block)
{
    const struct block_node *items = nodes->items;
    if (items[block].right != BLOCK_NONE)
        return leftmost(items, items[block].right);
    uint32_t parent = items[block].parent;
    while (parent != BLOCK_NONE && items[parent].right == block) {
        block = parent;
        parent = items[block].parent;
    }
    return parent;
}

uint32_t block_order_previous(const struct block_nodes *nodes, uint32_t block)
{
    const struct block_node *items = nodes->items;
    if (items[block].left != BLOCK_NONE)
        return rightmost(items, items[block].left);
    uint32_t parent = items[block].parent;
    while (parent != BLOCK_NONE && items[parent].left == block) {
        block = parent;
        parent = items[block].parent;
    }
    return parent;
}
