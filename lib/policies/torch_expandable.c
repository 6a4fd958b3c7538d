/* Expandable segments of the torch policies: a long address range for one pool and stream, with
 * memory mapped behind it page by page; see torch_internal.h.
 *
 * Mapping and unmapping is O(log n). The search for a place goes from one unmapped block to the
 * next by address, and from each over its neighbours, as the original does. */
#include "lib/policies/torch_internal.h"

static struct block_order *unmapped_order(struct torch *torch, const struct block *block)
{
    return &torch_stream_of(torch, block)->unmapped[torch_pool_of(block)];
}

static void insert_unmapped(struct torch *torch, uint32_t block)
{
    const struct block *item = blocks_at(&torch->blocks, block);
    block_order_insert(unmapped_order(torch, item), &torch->nodes, block, item->offset, 0,
                       item->bytes);
}

static void remove_unmapped(struct torch *torch, uint32_t block)
{
    const struct block *item = blocks_at(&torch->blocks, block);
    block_order_remove(unmapped_order(torch, item), &torch->nodes, block);
}

/* ------------------------------------------------------------------------------ a place */

/* Whether free and unmapped blocks from this one upwards come to so many bytes. */
static bool has_space(const struct blocks *blocks, uint32_t block, uint64_t bytes,
                      uint64_t *scanned)
{
    uint64_t sum = 0;
    while (sum < bytes &&
           (blocks_is(blocks, block, BLOCK_FREE) || blocks_is(blocks, block, BLOCK_UNMAPPED))) {
        ++*scanned;
        sum += blocks_at(blocks, block)->bytes;
        block = blocks_at(blocks, block)->above;
    }
    return sum >= bytes;
}

static uint32_t find_place(struct torch *torch, struct torch_want *want)
{
    const struct blocks *blocks = &torch->blocks;
    if (want->bytes > torch->greatest_expandable)
        return BLOCK_NONE;
    const struct block_order *order = &torch->streams[want->stream].unmapped[want->pool];
    for (uint32_t block = block_order_first(order, &torch->nodes); block != BLOCK_NONE;
         block = block_order_next(&torch->nodes, block)) {
        uint32_t below = blocks_at(blocks, block)->below;
        uint32_t start = blocks_is(blocks, below, BLOCK_FREE) ? below : block;
        if (has_space(blocks, start, want->bytes, &want->scanned))
            return start;
    }
    return BLOCK_NONE;
}

/* A request that is larger than a whole range reserves one in vain at each try, and the original
 * keeps them all. So that no client can have us keep them without end, addresses run out at
 * TORCH_MOST_RANGES. */
static uint32_t reserve_segment(struct torch *torch, const struct torch_want *want)
{
    if (torch->segments.length - torch->segments.spares >= TORCH_MOST_RANGES)
        return BLOCK_NONE;
    uint64_t page = torch_page(want->pool);
    uint64_t capacity = torch->config->gpu_capacity;
    uint64_t bytes = (capacity + capacity / 8 + page - 1) / page * page;
    uint64_t offset;
    if (device_take(&torch->device, DEVICE_RESERVE, bytes, &offset) != 0)
        return BLOCK_NONE;
    if (bytes > torch->greatest_expandable)
        torch->greatest_expandable = bytes;
    uint32_t group = 2 * want->stream + (uint32_t)want->pool;
    uint32_t block = torch_segment_add(torch, offset, bytes, group, true, BLOCK_UNMAPPED);
    insert_unmapped(torch, block);
    return block;
}

/* ------------------------------------------------------------------------------ mapping */

/* Puts memory behind the first `bytes` of an unmapped block, in whole pages. The free block that it
 * is part of then, in its pool; BLOCK_NONE when the device says no. */
static uint32_t map(struct torch *torch, uint32_t block, uint64_t bytes)
{
    const struct block *item = blocks_at(&torch->blocks, block);
    enum torch_pool pool = torch_pool_of(item);
    uint64_t page = torch_page(pool);
    uint64_t mapped = (bytes + page - 1) / page * page;
    if (device_map(&torch->device, item->offset, mapped) != 0)
        return BLOCK_NONE;
    remove_unmapped(torch, block);
    if (mapped < item->bytes)
        insert_unmapped(torch, blocks_split(&torch->blocks, block, mapped));
    blocks_set_state(&torch->blocks, block, BLOCK_FREE);
    torch->reserved_bytes[pool] += mapped;
    block = torch_pool_merge(torch, block);
    torch_pool_insert(torch, block);
    return block;
}

static uint64_t smaller(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

uint32_t torch_expandable_attempt(struct torch *torch, struct torch_want *want)
{
    uint32_t block = find_place(torch, want);
    if (block == BLOCK_NONE)
        block = reserve_segment(torch, want);
    if (block != BLOCK_NONE && blocks_is(&torch->blocks, block, BLOCK_UNMAPPED))
        block = map(torch, block, smaller(want->bytes, blocks_at(&torch->blocks, block)->bytes));
    /* Steps that went well stay when a later one fails. */
    while (block != BLOCK_NONE && blocks_at(&torch->blocks, block)->bytes < want->bytes) {
        const struct block *item = blocks_at(&torch->blocks, block);
        uint64_t missing = want->bytes - item->bytes;
        block = map(torch, item->above,
                    smaller(missing, blocks_at(&torch->blocks, item->above)->bytes));
    }
    return block;
}

/* ------------------------------------------------------------------------------ unmapping */

/* Joins a block that has just lost its memory with its unmapped neighbours. */
static uint32_t merge_unmapped(struct torch *torch, uint32_t block)
{
    struct blocks *blocks = &torch->blocks;
    uint32_t below = blocks_at(blocks, block)->below;
    uint32_t above = blocks_at(blocks, block)->above;
    if (blocks_is(blocks, above, BLOCK_UNMAPPED)) {
        remove_unmapped(torch, above);
        blocks_join_above(blocks, block);
    }
    if (blocks_is(blocks, below, BLOCK_UNMAPPED)) {
        remove_unmapped(torch, below);
        blocks_join_above(blocks, below);
        block = below;
    }
    return block;
}

void torch_expandable_unmap(struct torch *torch, uint32_t block)
{
    struct blocks *blocks = &torch->blocks;
    const struct block *item = blocks_at(blocks, block);
    enum torch_pool pool = torch_pool_of(item);
    uint64_t page = torch_page(pool);
    uint64_t base = blocks_at(&torch->segments, item->segment)->offset;
    uint64_t from = base + (item->offset - base + page - 1) / page * page;
    uint64_t to = base + (block_end(item) - base) / page * page;
    if (from >= to)
        return;
    torch_pool_remove(torch, block);
    if (item->offset < from) {
        uint32_t upper = blocks_split(blocks, block, from - item->offset);
        torch_pool_insert(torch, block);
        block = upper;
    }
    if (block_end(blocks_at(blocks, block)) > to)
        torch_pool_insert(torch, blocks_split(blocks, block, to - from));
    device_unmap(&torch->device, from, to - from);
    torch->reserved_bytes[pool] -= to - from;
    blocks_set_state(blocks, block, BLOCK_UNMAPPED);
    block = merge_unmapped(torch, block);
    item = blocks_at(blocks, block);
    if (block_is_whole(item)) {
        device_give_back(&torch->device, DEVICE_UNRESERVE, item->offset, item->bytes);
        torch_segment_remove(torch, block);
        return;
    }
    insert_unmapped(torch, block);
}
