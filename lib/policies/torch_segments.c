/* Segments of the torch policies: taken from the device when no cached block serves, and given
 * back; see torch_internal.h.
 *
 * Taking one is O(log n). What gives back goes through the free blocks of the pools, as the
 * original does: it happens when the device is full, when a threshold is passed, or on demand. */
#include "lib/policies/torch.h"
#include "lib/policies/torch_internal.h"

static uint64_t round_up(uint64_t bytes, uint64_t step)
{
    return (bytes + step - 1) / step * step;
}

static uint64_t smaller(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

uint64_t torch_segment_size(const struct policy *policy, uint64_t rounded_bytes)
{
    (void)policy;
    if (rounded_bytes <= TORCH_SMALL_REQUEST)
        return TORCH_SMALL_SEGMENT;
    if (rounded_bytes < TORCH_MEDIUM_REQUEST)
        return TORCH_LARGE_SEGMENT;
    return round_up(rounded_bytes, TORCH_SEGMENT_STEP);
}

uint64_t torch_allowed_bytes(const struct torch *torch)
{
    return (uint64_t)(torch->fraction * (double)torch->config->gpu_capacity);
}

/* ------------------------------------------------------------------------------ memory */

/* How many blocks can become more without a request: unmapping cuts a block into three at most, and
 * it must have a whole page. Each time, one such block and one page are gone. */
static size_t unmapping_room(const struct torch *torch, uint64_t blocks, uint64_t bytes)
{
    uint64_t pages = torch->reserved_bytes[TORCH_SMALL] / TORCH_SMALL_SEGMENT +
                     torch->reserved_bytes[TORCH_LARGE] / TORCH_LARGE_SEGMENT +
                     bytes / TORCH_SMALL_SEGMENT + 2;
    return (size_t)(2 * smaller(pages, torch->blocks.length - torch->blocks.spares + blocks));
}

int torch_segments_reserve(struct torch *torch, uint64_t bytes)
{
    size_t attempts = torch->settings.expandable ? TORCH_ATTEMPTS : 1;
    size_t blocks = 2 * attempts + 2; /* a new segment and a cut each, and cuts for the request */
    size_t room = torch->settings.expandable ? unmapping_room(torch, blocks, bytes) : 0;
    if (blocks_reserve(&torch->blocks, blocks + room) != 0 ||
        block_nodes_reserve(&torch->nodes, torch->blocks.capacity) != 0 ||
        blocks_reserve(&torch->segments, attempts) != 0 ||
        block_nodes_reserve(&torch->segment_nodes, torch->segments.capacity) != 0)
        return WORSEGPU_NO_MEMORY;
    /* device_reserve_memory, for as many ranges. */
    if (blocks_reserve(&torch->device.ranges, attempts) != 0)
        return WORSEGPU_NO_MEMORY;
    return block_nodes_reserve(&torch->device.nodes, torch->device.ranges.capacity);
}

/* ------------------------------------------------------------------------------ segments */

uint32_t torch_segment_add(struct torch *torch, uint64_t offset, uint64_t bytes, uint32_t group,
                           bool expandable, enum block_state state)
{
    uint32_t segment = blocks_add(&torch->segments, offset, bytes, BLOCK_USED);
    uint32_t block = blocks_add(&torch->blocks, offset, bytes, state);
    struct block *facts = blocks_at(&torch->segments, segment);
    struct block *item = blocks_at(&torch->blocks, block);
    facts->segment = block;
    facts->group = group;
    facts->flags = expandable;
    item->segment = segment;
    item->group = group;
    block_order_insert(&torch->segments_by_offset, &torch->segment_nodes, segment, offset, segment,
                       0);
    torch_stream_of(torch, item)->uses++;
    return block;
}

void torch_segment_remove(struct torch *torch, uint32_t block)
{
    const struct block *item = blocks_at(&torch->blocks, block);
    uint32_t segment = item->segment;
    uint32_t stream = item->group >> 1;
    block_order_remove(&torch->segments_by_offset, &torch->segment_nodes, segment);
    blocks_remove(&torch->segments, segment);
    blocks_remove(&torch->blocks, block);
    torch_stream_drop(torch, stream);
}

bool torch_region_is_whole(const struct torch *torch, const struct block *block)
{
    return block_is_whole(block) && !torch_is_expandable(torch, block);
}

void torch_region_give_back(struct torch *torch, uint32_t block)
{
    const struct block *item = blocks_at(&torch->blocks, block);
    uint64_t bytes = item->bytes;
    torch_pool_remove(torch, block);
    device_give_back(&torch->device, DEVICE_REGION_FREE, item->offset, bytes);
    torch->regions--;
    torch->reserved_bytes[torch_pool_of(item)] -= bytes;
    torch->oversize_segments -= bytes >= torch->settings.max_split_bytes;
    torch_segment_remove(torch, block);
}

static uint32_t take_region(struct torch *torch, const struct torch_want *want, uint64_t bytes)
{
    uint64_t offset;
    if (device_take(&torch->device, DEVICE_REGION, bytes, &offset) != 0)
        return BLOCK_NONE;
    uint32_t group = 2 * want->stream + (uint32_t)want->pool;
    uint32_t block = torch_segment_add(torch, offset, bytes, group, false, BLOCK_FREE);
    torch->regions++;
    torch->reserved_bytes[want->pool] += bytes;
    torch->oversize_segments += bytes >= torch->settings.max_split_bytes;
    torch_pool_insert(torch, block);
    return block;
}

static uint32_t attempt(struct torch *torch, struct torch_want *want)
{
    uint64_t bytes = torch_segment_size(&torch->policy, want->bytes);
    if (torch->fraction >= 0 && torch->device.taken_bytes + bytes > torch_allowed_bytes(torch))
        return BLOCK_NONE;
    uint32_t block = torch->settings.expandable ? torch_expandable_attempt(torch, want)
                                                : take_region(torch, want, bytes);
    want->taken = block != BLOCK_NONE;
    return block;
}

/* ------------------------------------------------------------------------------ giving back */

/* Calls `visit` for each free block of at least so many bytes, in the order of the pool. The visit
 * may take the block out of the pool and end its stream, and may put in others that stand before
 * it. */
static void each_free(struct torch *torch, enum torch_pool pool, uint64_t least_bytes,
                      void (*visit)(struct torch *torch, uint32_t block, void *context),
                      void *context)
{
    uint32_t next_stream;
    for (uint32_t stream = torch_stream_first(torch); stream != BLOCK_NONE; stream = next_stream) {
        next_stream = torch_stream_next(torch, stream);
        uint32_t block =
            block_order_at_least(&torch->streams[stream].free[pool], &torch->nodes, least_bytes, 0);
        while (block != BLOCK_NONE) {
            uint32_t next = block_order_next(&torch->nodes, block);
            visit(torch, block, context);
            block = next;
        }
    }
}

static void give_back_if_whole(struct torch *torch, uint32_t block, void *context)
{
    (void)context;
    if (torch_region_is_whole(torch, blocks_at(&torch->blocks, block)))
        torch_region_give_back(torch, block);
}

static void unmap_if_expandable(struct torch *torch, uint32_t block, void *context)
{
    (void)context;
    if (torch_is_expandable(torch, blocks_at(&torch->blocks, block)))
        torch_expandable_unmap(torch, block);
}

/* Whether any free block is a whole region; where segments are expandable, whether one may be. So a
 * device that stays full costs no walk again and again. */
static bool may_have_whole_regions(const struct torch *torch)
{
    return torch->regions > 0 && torch->free_blocks[TORCH_SMALL] + torch->free_blocks[TORCH_LARGE] >
                                     torch->inactive_split;
}

/* All whole regions of all streams, and the pages of expandable segments. What unmapping leaves of
 * a block is smaller than a page, so it stands before that block and is not met again. */
static void empty_pool(struct torch *torch, enum torch_pool pool)
{
    if (may_have_whole_regions(torch))
        each_free(torch, pool, 0, give_back_if_whole, NULL);
    if (torch->settings.expandable)
        each_free(torch, pool, torch_page(pool), unmap_if_expandable, NULL);
}

void torch_segments_empty(struct torch *torch)
{
    torch->syncs++;
    torch_events_synchronize(torch);
    empty_pool(torch, TORCH_LARGE);
    empty_pool(torch, TORCH_SMALL);
}

/* With a largest size for splitting, before everything goes: one block of the request's stream that
 * is large enough, or from the largest down as many as are needed. Whether that was enough. */
static bool release_some(struct torch *torch, const struct torch_want *want)
{
    uint64_t most = torch->settings.max_split_bytes;
    if (most == UINT64_MAX || torch->regions == 0)
        return false;
    const struct block_order *order = &torch->streams[want->stream].free[want->pool];
    uint64_t target = want->bytes < most ? most : want->bytes;
    uint32_t block = block_order_at_least(order, &torch->nodes, target, 0);
    while (block != BLOCK_NONE && !torch_region_is_whole(torch, blocks_at(&torch->blocks, block)))
        block = block_order_next(&torch->nodes, block);
    if (block != BLOCK_NONE) {
        torch_region_give_back(torch, block);
        return true;
    }
    uint64_t released = 0;
    uint32_t previous;
    for (block = block_order_last(order, &torch->nodes); block != BLOCK_NONE && released < target;
         block = previous) {
        const struct block *item = blocks_at(&torch->blocks, block);
        previous = block_order_previous(&torch->nodes, block);
        if (item->bytes < most)
            break;
        if (torch_region_is_whole(torch, item)) {
            released += item->bytes;
            torch_region_give_back(torch, block);
        }
    }
    return released >= target;
}

/* ------------------------------------------------------------------------------ collection */

struct collection {
    uint64_t ages; /* sum, of the whole regions in the large pool */
    uint64_t blocks;
    uint64_t released_bytes;
    double mean;
    bool released; /* in this pass */
};

static uint64_t age_of(const struct torch *torch, const struct block *block)
{
    return torch->searches[TORCH_LARGE] - block->own;
}

static void add_age(struct torch *torch, uint32_t block, void *context)
{
    struct collection *collection = context;
    const struct block *item = blocks_at(&torch->blocks, block);
    if (!torch_region_is_whole(torch, item))
        return;
    collection->ages += age_of(torch, item);
    collection->blocks++;
}

static void collect_if_old(struct torch *torch, uint32_t block, void *context)
{
    struct collection *collection = context;
    const struct block *item = blocks_at(&torch->blocks, block);
    uint64_t age = age_of(torch, item);
    if (!torch_region_is_whole(torch, item) || (double)age < collection->mean)
        return;
    collection->ages -= age;
    collection->blocks--;
    collection->released_bytes += item->bytes;
    collection->released = true;
    torch_region_give_back(torch, block);
}

/* Gives back regions that have been free for longer than the mean, pass by pass. A pass is never
 * cut short. */
static void collect(struct torch *torch)
{
    double allowed = (double)torch_allowed_bytes(torch);
    uint64_t threshold = (uint64_t)(torch->settings.collection_threshold * allowed);
    uint64_t total = torch->device.taken_bytes;
    struct collection collection = {0};
    if (total <= threshold || torch->regions == 0)
        return;
    each_free(torch, TORCH_LARGE, 0, add_age, &collection);
    do {
        if (collection.blocks == 0)
            return;
        collection.released = false;
        collection.mean = (double)collection.ages / (double)collection.blocks;
        each_free(torch, TORCH_LARGE, 0, collect_if_old, &collection);
    } while (collection.released && collection.released_bytes < total - threshold);
}

/* ------------------------------------------------------------------------------ in turn */

uint32_t torch_segments_obtain(struct torch *torch, struct torch_want *want)
{
    if (torch_collects(torch))
        collect(torch);
    uint32_t block = attempt(torch, want);
    if (block != BLOCK_NONE)
        return block;
    if (release_some(torch, want)) {
        block = attempt(torch, want);
        if (block != BLOCK_NONE)
            return block;
    }
    /* The pools are not searched again, even if what came back would do. */
    torch_segments_empty(torch);
    torch->retries++;
    return attempt(torch, want);
}
