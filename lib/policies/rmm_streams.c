/* Streams in turn, and the tree over their lists; see rmm_streams.h. */
#include "lib/policies/rmm_streams.h"

#include "base/memory.h"
#include "lib/invariants.h"
#include "lib/worsegpu.h"

enum {
    LEAST_CAPACITY = 4
};

void rmm_streams_init(struct rmm_streams *streams, const struct worsegpu_memory *memory)
{
    *streams = (struct rmm_streams){.memory = memory, .by_stream = block_order_empty()};
    block_nodes_init(&streams->nodes, memory);
}

void rmm_streams_release(struct rmm_streams *streams)
{
    memory_release_array(streams->memory, streams->turns, streams->turns_capacity,
                         sizeof(*streams->turns));
    memory_release_array(streams->memory, streams->lists, streams->lists_capacity,
                         sizeof(*streams->lists));
    memory_release_array(streams->memory, streams->tree, 2 * streams->capacity,
                         sizeof(*streams->tree));
    block_nodes_release(&streams->nodes);
}

int rmm_streams_reserve(struct rmm_streams *streams, size_t more)
{
    size_t room = RMM_STREAMS_MAX - streams->length;
    size_t needed = streams->length + (more < room ? more : room);
    if (needed <= streams->capacity)
        return WORSEGPU_OK;
    size_t capacity = streams->capacity > 0 ? streams->capacity : LEAST_CAPACITY;
    while (capacity < needed)
        capacity *= 2;
    if (memory_grow(streams->memory, &streams->turns, &streams->turns_capacity, capacity,
                    sizeof(*streams->turns)) != 0 ||
        memory_grow(streams->memory, &streams->lists, &streams->lists_capacity, capacity,
                    sizeof(*streams->lists)) != 0 ||
        block_nodes_reserve(&streams->nodes, capacity) != WORSEGPU_OK)
        return WORSEGPU_NO_MEMORY;
    struct rmm_reach *tree =
        streams->tree ? memory_resize_array(streams->memory, streams->tree, 2 * streams->capacity,
                                            2 * capacity, sizeof(*tree))
                      : memory_allocate_array(streams->memory, 2 * capacity, sizeof(*tree));
    if (!tree)
        return WORSEGPU_NO_MEMORY;
    streams->tree = tree;
    streams->capacity = capacity;
    return WORSEGPU_OK;
}

/* What a node has to say, from its two children. */
static struct rmm_reach joined(const struct rmm_reach *tree, uint32_t node)
{
    const struct rmm_reach *left = tree + 2 * (size_t)node;
    const struct rmm_reach *right = left + 1;
    return (struct rmm_reach){
        .greatest = left->greatest > right->greatest ? left->greatest : right->greatest,
        .blocks = left->blocks + right->blocks,
    };
}

/* The tree has twice the leaves from now on. Done for every doubling of the streams, and so O(1)
 * for each stream. */
static void double_leaves(struct rmm_streams *streams)
{
    struct rmm_reach *tree = streams->tree;
    uint32_t leaves = streams->leaves > 0 ? 2 * streams->leaves : 1;
    for (uint32_t turn = streams->leaves; turn-- > 0;)
        tree[leaves + turn] = tree[streams->leaves + turn];
    for (uint32_t turn = streams->leaves; turn < leaves; turn++)
        tree[leaves + turn] = (struct rmm_reach){0};
    for (uint32_t node = leaves; node-- > 1;)
        tree[node] = joined(tree, node);
    streams->leaves = leaves;
}

static void set_leaf(struct rmm_streams *streams, uint32_t turn, struct rmm_reach reach)
{
    uint32_t node = streams->leaves + turn;
    streams->tree[node] = reach;
    while (node > 1) {
        node /= 2;
        streams->tree[node] = joined(streams->tree, node);
    }
}

static uint32_t add_turn(struct rmm_streams *streams, uint64_t stream)
{
    uint32_t turn = streams->length++;
    streams->turns[turn] = (struct rmm_turn){.stream = stream, .list = turn};
    streams->lists[turn] = (struct rmm_list){.order = block_order_empty(), .turn = turn};
    block_order_insert(&streams->by_stream, &streams->nodes, turn, stream, 0, 0);
    if (turn >= streams->leaves)
        double_leaves(streams);
    return turn;
}

static uint32_t find_turn(struct rmm_streams *streams, uint64_t stream)
{
    uint32_t turn = block_order_at_least(&streams->by_stream, &streams->nodes, stream, 0);
    if (turn != BLOCK_NONE && streams->turns[turn].stream == stream)
        return turn;
    if (streams->length == RMM_STREAMS_MAX)
        return RMM_STREAMS_MAX - 1;
    return add_turn(streams, stream);
}

uint32_t rmm_streams_use(struct rmm_streams *streams, uint64_t stream)
{
    /* Most programs use the first stream only, or mostly. */
    bool first = streams->length > 0 && streams->turns[0].stream == stream;
    uint32_t turn = first ? 0 : find_turn(streams, stream);
    if (!streams->turns[turn].there) {
        streams->turns[turn].there = true;
        set_leaf(streams, turn, (struct rmm_reach){.greatest = 1});
    }
    return turn;
}

static struct rmm_reach reach_of(const struct rmm_streams *streams,
                                 const struct block_nodes *blocks, uint32_t turn)
{
    if (!streams->turns[turn].there)
        return (struct rmm_reach){0};
    const struct block_order *order = &rmm_streams_list(streams, turn)->order;
    return (struct rmm_reach){
        .greatest = block_order_greatest(order, blocks) + 1,
        .blocks = block_order_count(order, blocks),
    };
}

void rmm_streams_note(struct rmm_streams *streams, const struct block_nodes *blocks, uint32_t turn)
{
    set_leaf(streams, turn, reach_of(streams, blocks, turn));
}

uint32_t rmm_streams_first(const struct rmm_streams *streams, uint32_t from, uint64_t bytes)
{
    const struct rmm_reach *tree = streams->tree;
    uint64_t wanted = bytes + 1;
    if (from >= streams->leaves)
        return RMM_TURN_NONE;
    uint32_t node = streams->leaves + from;
    while (tree[node].greatest < wanted) {
        while (node % 2 == 1) /* nothing to its right below the same parent */
            node /= 2;
        if (node == 0)
            return RMM_TURN_NONE;
        node++;
    }
    while (node < streams->leaves) {
        node *= 2;
        if (tree[node].greatest < wanted)
            node++;
    }
    return node - streams->leaves;
}

uint64_t rmm_streams_blocks_before(const struct rmm_streams *streams, uint32_t turn)
{
    uint64_t blocks = 0;
    for (uint32_t node = streams->leaves + turn; node > 1; node /= 2) {
        if (node % 2 == 1)
            blocks += streams->tree[node - 1].blocks;
    }
    return blocks;
}

void rmm_streams_swap(struct rmm_streams *streams, uint32_t one, uint32_t other)
{
    uint32_t list = streams->turns[one].list;
    streams->turns[one].list = streams->turns[other].list;
    streams->turns[other].list = list;
    rmm_streams_list(streams, one)->turn = one;
    rmm_streams_list(streams, other)->turn = other;
}

void rmm_streams_drop(struct rmm_streams *streams, uint32_t turn)
{
    streams->turns[turn].there = false;
    set_leaf(streams, turn, (struct rmm_reach){0});
}

uint64_t rmm_streams_largest(const struct rmm_streams *streams)
{
    uint64_t greatest = streams->leaves > 0 ? streams->tree[1].greatest : 0;
    return greatest > 0 ? greatest - 1 : 0;
}

struct expected {
    const struct rmm_streams *streams;
};

static bool expect_turn(const void *context, uint32_t turn, const struct block_node *node)
{
    const struct expected *expected = context;
    return turn < expected->streams->length && node->minor == 0 &&
           node->major == expected->streams->turns[turn].stream;
}

static bool same_reach(struct rmm_reach one, struct rmm_reach other)
{
    return one.greatest == other.greatest && one.blocks == other.blocks;
}

void rmm_streams_check(const struct rmm_streams *streams, const struct block_nodes *blocks,
                       struct audit *audit)
{
    struct expected expected = {streams};
    if (!audit_check(audit, INVARIANT_free_index_class,
                     streams->length <= streams->leaves && streams->leaves <= streams->capacity))
        return;
    block_order_check(&streams->by_stream, &streams->nodes, streams->length, expect_turn, &expected,
                      audit);
    for (uint32_t turn = 0; turn < streams->leaves; turn++) {
        struct rmm_reach reach = {0};
        if (turn < streams->length) {
            const struct rmm_turn *at = &streams->turns[turn];
            if (!audit_check(audit, INVARIANT_free_index_class,
                             at->list < streams->length && streams->lists[at->list].turn == turn))
                return;
            const struct rmm_list *list = &streams->lists[at->list];
            audit_check(audit, INVARIANT_free_index_class,
                        at->there || (list->order.root == BLOCK_NONE && list->bytes == 0));
            if (!audit_check(audit, INVARIANT_free_index_class,
                             list->order.root == BLOCK_NONE || list->order.root < blocks->capacity))
                return;
            reach = reach_of(streams, blocks, turn);
        }
        audit_check(audit, INVARIANT_free_index_class,
                    same_reach(streams->tree[streams->leaves + turn], reach));
    }
    for (uint32_t node = 1; node < streams->leaves; node++)
        audit_check(audit, INVARIANT_free_index_class,
                    same_reach(streams->tree[node], joined(streams->tree, node)));
}
