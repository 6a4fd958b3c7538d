/* The free lists of the RMM pool: insertion with merging, and the three searches. The rules are
 * told in rmm_pool.c. */
#include "lib/policies/rmm_pool.h"

/* ------------------------------------------------------------------------------ the free lists */

void rmm_list_insert(struct rmm_pool *pool, struct rmm_list *list, uint32_t block)
{
    struct block *at = blocks_at(&pool->blocks, block);
    at->group = (uint32_t)(list - pool->streams.lists);
    block_order_insert(&list->order, &pool->nodes, block, at->bytes, at->offset, at->bytes);
    list->bytes += at->bytes;
}

void rmm_list_remove(struct rmm_pool *pool, struct rmm_list *list, uint32_t block)
{
    list->bytes -= blocks_at(&pool->blocks, block)->bytes;
    block_order_remove(&list->order, &pool->nodes, block);
}

/* Whether a neighbour lies in this list. */
bool rmm_is_in(const struct rmm_pool *pool, const struct rmm_list *list, uint32_t block)
{
    return blocks_is(&pool->blocks, block, BLOCK_FREE) &&
           &pool->streams.lists[blocks_at(&pool->blocks, block)->group] == list;
}

/* Puts a free block into a list. It merges with its neighbours of the same list. Neighbours are
 * always of the same upstream block, so that nothing merges with a head below it, as RMM's mark of
 * a head has it. */
void rmm_list_merge_in(struct rmm_pool *pool, struct rmm_list *list, uint32_t block)
{
    uint32_t above = blocks_at(&pool->blocks, block)->above;
    if (rmm_is_in(pool, list, above)) {
        rmm_list_remove(pool, list, above);
        blocks_join_above(&pool->blocks, block);
    }
    uint32_t below = blocks_at(&pool->blocks, block)->below;
    if (rmm_is_in(pool, list, below)) {
        rmm_list_remove(pool, list, below);
        blocks_join_above(&pool->blocks, below);
        block = below;
    }
    rmm_list_insert(pool, list, block);
}

static uint32_t best_fit(const struct rmm_pool *pool, const struct rmm_list *list, uint64_t bytes)
{
    return block_order_at_least(&list->order, &pool->nodes, bytes, 0);
}

/* All blocks of the other turn's list go to this one's, where they merge; the other list is gone.
 * The union is the same whichever way they move: the smaller list is the one taken apart. */
static void absorb(struct rmm_pool *pool, uint32_t turn, uint32_t other)
{
    struct rmm_streams *streams = &pool->streams;
    if (block_order_count(&rmm_streams_list(streams, other)->order, &pool->nodes) >
        block_order_count(&rmm_streams_list(streams, turn)->order, &pool->nodes))
        rmm_streams_swap(streams, turn, other);
    struct rmm_list *into = rmm_streams_list(streams, turn);
    struct rmm_list *from = rmm_streams_list(streams, other);
    while (from->order.root != BLOCK_NONE) {
        uint32_t block = from->order.root;
        rmm_list_remove(pool, from, block);
        rmm_list_merge_in(pool, into, block);
    }
    rmm_streams_drop(streams, other);
    rmm_streams_note(streams, &pool->nodes, turn);
}

/* ------------------------------------------------------------------------------ the search */

/* In the list of the request's stream, then in each other list in turn. */
struct rmm_find rmm_search_lists(const struct rmm_pool *pool, uint32_t turn, uint64_t bytes,
                                 uint64_t *scanned)
{
    const struct rmm_streams *streams = &pool->streams;
    const struct rmm_list *own = rmm_streams_list(streams, turn);
    uint64_t own_blocks = block_order_count(&own->order, &pool->nodes);
    struct rmm_find find = {best_fit(pool, own, bytes), turn};
    *scanned += own_blocks;
    if (find.block != BLOCK_NONE || streams->length == 1)
        return find;
    /* The own list has no such block, and so is not found here. */
    uint32_t other = rmm_streams_first(streams, 0, bytes);
    if (other != RMM_TURN_NONE) {
        const struct rmm_list *list = rmm_streams_list(streams, other);
        find = (struct rmm_find){best_fit(pool, list, bytes), other};
        *scanned += rmm_streams_blocks_before(streams, other) +
                    block_order_count(&list->order, &pool->nodes) - (other > turn ? own_blocks : 0);
        return find;
    }
    *scanned += rmm_streams_blocks(streams) - own_blocks;
    return find;
}

/* Merges one other list after the other into that of the request's stream, until it fits. */
struct rmm_find rmm_search_merging(struct rmm_pool *pool, uint32_t turn, uint64_t bytes,
                                   uint64_t *scanned)
{
    struct rmm_streams *streams = &pool->streams;
    struct rmm_find find = {BLOCK_NONE, turn};
    uint32_t other = rmm_streams_first(streams, 0, 0);
    while (other != RMM_TURN_NONE && find.block == BLOCK_NONE) {
        if (other != turn) {
            absorb(pool, turn, other);
            const struct rmm_list *own = rmm_streams_list(streams, turn);
            find.block = best_fit(pool, own, bytes);
            *scanned += block_order_count(&own->order, &pool->nodes);
        }
        other = rmm_streams_first(streams, other + 1, 0);
    }
    return find;
}
