/* The pools of the torch policies: free blocks by stream, size and offset; see torch_internal.h.
 *
 * In and out is O(log n). So is searching, but for the step of expandable segments that goes on
 * from block to block, as the original does. */
#include "lib/policies/torch_internal.h"

static bool counts_as_split(const struct torch *torch, const struct block *block)
{
    return !block_is_whole(block) && !torch_is_expandable(torch, block);
}

void torch_pool_insert(struct torch *torch, uint32_t block)
{
    struct block *item = blocks_at(&torch->blocks, block);
    enum torch_pool pool = torch_pool_of(item);
    item->own = torch->searches[pool];
    torch->free_blocks[pool]++;
    if (counts_as_split(torch, item)) {
        torch->inactive_split++;
        torch->inactive_split_bytes += item->bytes;
    }
    block_order_insert(&torch_stream_of(torch, item)->free[pool], &torch->nodes, block, item->bytes,
                       item->offset, item->bytes);
}

void torch_pool_remove(struct torch *torch, uint32_t block)
{
    const struct block *item = blocks_at(&torch->blocks, block);
    enum torch_pool pool = torch_pool_of(item);
    torch->free_blocks[pool]--;
    if (counts_as_split(torch, item)) {
        torch->inactive_split--;
        torch->inactive_split_bytes -= item->bytes;
    }
    block_order_remove(&torch_stream_of(torch, item)->free[pool], &torch->nodes, block);
}

uint32_t torch_pool_merge(struct torch *torch, uint32_t block)
{
    struct blocks *blocks = &torch->blocks;
    uint32_t below = blocks_at(blocks, block)->below;
    uint32_t above = blocks_at(blocks, block)->above;
    if (blocks_is(blocks, above, BLOCK_FREE)) {
        torch_pool_remove(torch, above);
        blocks_join_above(blocks, block);
    }
    if (blocks_is(blocks, below, BLOCK_FREE)) {
        torch_pool_remove(torch, below);
        blocks_join_above(blocks, below);
        block = below;
    }
    return block;
}

void torch_pool_give(struct torch *torch, uint32_t block)
{
    torch->requested_bytes -= blocks_at(&torch->blocks, block)->requested_bytes;
    blocks_set_state(&torch->blocks, block, BLOCK_FREE);
    torch_pool_insert(torch, torch_pool_merge(torch, block));
}

/* How large a block of an expandable segment could grow. */
static uint64_t reach(const struct torch *torch, uint32_t block)
{
    const struct block *item = blocks_at(&torch->blocks, block);
    if (!blocks_is(&torch->blocks, item->above, BLOCK_UNMAPPED))
        return item->bytes;
    return item->bytes + blocks_at(&torch->blocks, item->above)->bytes;
}

/* Goes on to the next block of the stream as long as that one has the smaller reach: the growing
 * end of a segment is used last. */
static uint32_t spare_the_growing_end(const struct torch *torch, uint32_t block, uint64_t *scanned)
{
    while (torch_is_expandable(torch, blocks_at(&torch->blocks, block))) {
        uint32_t next = block_order_next(&torch->nodes, block);
        if (next == BLOCK_NONE)
            break;
        ++*scanned;
        if (reach(torch, next) >= reach(torch, block))
            break;
        block = next;
    }
    return block;
}

uint32_t torch_pool_search(struct torch *torch, struct torch_want *want)
{
    const struct torch_settings *settings = &torch->settings;
    if (torch_collects(torch))
        torch->searches[want->pool]++;
    uint32_t block = block_order_at_least(&torch->streams[want->stream].free[want->pool],
                                          &torch->nodes, want->bytes, 0);
    if (block == BLOCK_NONE)
        return BLOCK_NONE;
    want->scanned++;
    if (settings->expandable)
        block = spare_the_growing_end(torch, block, &want->scanned);
    /* One block is judged, no other is tried. */
    uint64_t bytes = blocks_at(&torch->blocks, block)->bytes;
    if (want->bytes < settings->max_split_bytes)
        return bytes < settings->max_split_bytes ? block : BLOCK_NONE;
    return bytes < want->bytes + settings->non_split_rounding_bytes ? block : BLOCK_NONE;
}

static void count_handed_out(struct torch *torch, const struct block *item)
{
    const struct blocks *blocks = &torch->blocks;
    uint64_t allocated = blocks->bytes[BLOCK_USED] + blocks->bytes[BLOCK_FORGOTTEN];
    uint64_t active = allocated + blocks->bytes[BLOCK_PENDING];
    torch->requested_bytes += item->requested_bytes;
    torch->oversize_allocations += item->bytes >= torch->settings.max_split_bytes;
    if (allocated > torch->allocated_peak)
        torch->allocated_peak = allocated;
    if (active > torch->active_peak)
        torch->active_peak = active;
}

void torch_pool_hand_out(struct torch *torch, uint32_t block, uint64_t bytes,
                         uint64_t requested_bytes, struct policy_placement *placement)
{
    torch_pool_remove(torch, block);
    if (bytes < blocks_at(&torch->blocks, block)->bytes)
        torch_pool_insert(torch, blocks_split(&torch->blocks, block, bytes));
    struct block *item = blocks_at(&torch->blocks, block);
    blocks_set_state(&torch->blocks, block, BLOCK_USED);
    item->requested_bytes = requested_bytes;
    item->own = 0;
    count_handed_out(torch, item);
    *placement = (struct policy_placement){
        .reserved_bytes = bytes,
        .offset = item->offset,
        .block_index = (int64_t)block,
        .cookie = block,
    };
}
