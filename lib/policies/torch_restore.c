/* A torch policy that starts in the middle of a run, and questions about its segments: what the lab
 * needs to check a recorded snapshot; see torch.h. */
#include "lib/policies/torch.h"

#include "lib/policies/torch_internal.h"

/* A device source that says where the segment is. */
static int take_recorded(void *context, enum device_event event, uint64_t bytes, uint64_t *offset)
{
    (void)event;
    (void)bytes;
    *offset = *(const uint64_t *)context;
    return 0;
}

static void give_nothing(void *context, enum device_event event, uint64_t offset, uint64_t bytes)
{
    (void)context;
    (void)event;
    (void)offset;
    (void)bytes;
}

/* Lets the device know the range, as if it had been there from the beginning. */
static void take_at(struct device *device, uint64_t offset, uint64_t bytes)
{
    struct device_source recorded = {&offset, take_recorded, give_nothing};
    const struct device_source *source = device->source;
    const struct device_watch *watch = device->watch;
    uint64_t place;
    device->source = &recorded;
    device->watch = NULL;
    device_take(device, DEVICE_REGION, bytes, &place);
    device->source = source;
    device->watch = watch;
    device->taken_calls--;
}

/* The segment with the greatest offset at or below this one; BLOCK_NONE. */
static uint32_t segment_below(const struct torch *torch, uint64_t offset)
{
    return block_order_below(&torch->segments_by_offset, &torch->segment_nodes, offset, UINT64_MAX);
}

int torch_restore_segment(struct policy *policy, uint64_t offset, uint64_t bytes, uint64_t stream,
                          bool small)
{
    struct torch *torch = torch_of(policy);
    enum torch_pool pool = small ? TORCH_SMALL : TORCH_LARGE;
    uint64_t end;
    if (bytes == 0 || bytes % TORCH_LEAST_BLOCK != 0 || bytes > WORSEGPU_MAX_BYTES ||
        __builtin_add_overflow(offset, bytes, &end))
        return 1;
    uint32_t below = segment_below(torch, end - 1);
    if (below != BLOCK_NONE && block_end(blocks_at(&torch->segments, below)) > offset)
        return 1;
    if (torch_segments_reserve(torch, 0) != 0 || torch_streams_reserve(torch) != 0)
        return WORSEGPU_NO_MEMORY;
    uint32_t place = torch_stream_take(torch, stream);
    take_at(&torch->device, offset, bytes);
    uint32_t block =
        torch_segment_add(torch, offset, bytes, 2 * place + (uint32_t)pool, false, BLOCK_FREE);
    torch->regions++;
    torch->reserved_bytes[pool] += bytes;
    torch->oversize_segments += bytes >= torch->settings.max_split_bytes;
    torch_pool_insert(torch, block);
    torch_stream_drop(torch, place);
    return 0;
}

/* The block of any state in which `offset` lies; BLOCK_NONE. */
static uint32_t block_at(const struct torch *torch, uint64_t offset)
{
    uint32_t segment = segment_below(torch, offset);
    if (segment == BLOCK_NONE || block_end(blocks_at(&torch->segments, segment)) <= offset)
        return BLOCK_NONE;
    uint32_t block = blocks_at(&torch->segments, segment)->segment;
    while (block_end(blocks_at(&torch->blocks, block)) <= offset)
        block = blocks_at(&torch->blocks, block)->above;
    return block;
}

int torch_restore_block(struct policy *policy, uint64_t offset, uint64_t bytes,
                        uint64_t requested_bytes, struct policy_placement *placement)
{
    struct torch *torch = torch_of(policy);
    uint32_t block = block_at(torch, offset);
    if (bytes == 0 || !blocks_is(&torch->blocks, block, BLOCK_FREE) ||
        block_end(blocks_at(&torch->blocks, block)) - offset < bytes)
        return 1;
    if (torch_segments_reserve(torch, bytes) != 0)
        return WORSEGPU_NO_MEMORY;
    uint64_t gap = offset - blocks_at(&torch->blocks, block)->offset;
    if (gap > 0) {
        torch_pool_remove(torch, block);
        uint32_t upper = blocks_split(&torch->blocks, block, gap);
        torch_pool_insert(torch, block);
        torch_pool_insert(torch, upper);
        block = upper;
    }
    torch_pool_hand_out(torch, block, bytes, requested_bytes, placement);
    return 0;
}

static bool could_go_back(const struct torch *torch, uint32_t segment)
{
    const struct block *block =
        blocks_at(&torch->blocks, blocks_at(&torch->segments, segment)->segment);
    return block->state == BLOCK_FREE && torch_region_is_whole(torch, block);
}

bool torch_segment_at(const struct policy *policy, uint64_t offset,
                      struct torch_segment_facts *facts)
{
    const struct torch *torch = torch_seen(policy);
    uint32_t segment = segment_below(torch, offset);
    if (segment == BLOCK_NONE || block_end(blocks_at(&torch->segments, segment)) <= offset)
        return false;
    const struct block *item = blocks_at(&torch->segments, segment);
    *facts = (struct torch_segment_facts){
        .offset = item->offset,
        .bytes = item->bytes,
        .stream = torch_stream_of(torch, item)->number,
        .small = torch_pool_of(item) == TORCH_SMALL,
        .expandable = item->flags != 0,
        .whole_and_free = could_go_back(torch, segment),
    };
    return true;
}

int torch_release_segment(struct policy *policy, uint64_t offset)
{
    struct torch *torch = torch_of(policy);
    uint32_t segment = segment_below(torch, offset);
    if (segment == BLOCK_NONE || blocks_at(&torch->segments, segment)->offset != offset ||
        !could_go_back(torch, segment))
        return 1;
    torch_region_give_back(torch, blocks_at(&torch->segments, segment)->segment);
    return 0;
}
