/* The audit of the torch policies: blocks, device, segments, pools, streams, events and figures,
 * each recomputed from the blocks; see torch_internal.h. Trusts no link and no count. Its scratch
 * memory lives as long as one audit. O(n log n). */
#include "base/memory.h"
#include "lib/policies/torch_internal.h"

/* What the blocks say. */
struct sums {
    uint64_t inactive_split;
    uint64_t inactive_split_bytes;
    uint64_t requested_bytes;
    uint64_t oversize_allocations;
    uint64_t recorded; /* uses of blocks that are handed out */
    uint64_t pending;  /* events that blocks wait for */
    uint64_t reserved_bytes[TORCH_POOLS];
    uint64_t segments; /* lowest blocks */
};

static bool is_stream(const struct torch *torch, uint32_t stream)
{
    return stream < torch->streams_length && torch->streams[stream].uses > 0;
}

static bool is_block(const struct torch *torch, uint32_t block)
{
    return block < torch->blocks.length && torch->blocks.items[block].state != BLOCK_SPARE;
}

/* ------------------------------------------------------------------------------ blocks */

/* Whether the block's stream and segment exist and know it; nothing else is looked at before. */
static bool belongs(const struct torch *torch, uint32_t block)
{
    const struct block *item = blocks_at(&torch->blocks, block);
    if (!is_stream(torch, item->group >> 1) || item->segment >= torch->segments.length)
        return false;
    const struct block *segment = blocks_at(&torch->segments, item->segment);
    return segment->state == BLOCK_USED && segment->group == item->group &&
           item->offset >= segment->offset && block_end(item) <= block_end(segment) &&
           (item->below != BLOCK_NONE ||
            (segment->segment == block && segment->offset == item->offset)) &&
           (item->above != BLOCK_NONE || block_end(item) == block_end(segment));
}

static void add_block(const struct torch *torch, const struct block *item, struct sums *sums)
{
    bool handed_out = item->state == BLOCK_USED || item->state == BLOCK_FORGOTTEN;
    if (item->below == BLOCK_NONE)
        sums->segments++;
    if (item->state == BLOCK_UNMAPPED)
        return;
    sums->reserved_bytes[torch_pool_of(item)] += item->bytes;
    if (item->state == BLOCK_FREE) {
        if (!block_is_whole(item) && !torch_is_expandable(torch, item)) {
            sums->inactive_split++;
            sums->inactive_split_bytes += item->bytes;
        }
        return;
    }
    sums->requested_bytes += item->requested_bytes;
    if (handed_out)
        sums->recorded += item->own;
    else
        sums->pending += item->own;
    if (handed_out && item->bytes >= torch->settings.max_split_bytes)
        sums->oversize_allocations++;
}

static void check_blocks(const struct torch *torch, struct audit *audit, struct sums *sums)
{
    const struct blocks *blocks = &torch->blocks;
    for (size_t i = 0; i < blocks->length; i++) {
        const struct block *item = &blocks->items[i];
        if (item->state == BLOCK_SPARE)
            continue;
        if (!audit_check(audit, INVARIANT_block_layout, belongs(torch, (uint32_t)i)))
            return;
        audit_check(audit, INVARIANT_block_layout,
                    item->state != BLOCK_UNMAPPED ||
                        (torch_is_expandable(torch, item) &&
                         !blocks_is(blocks, item->above, BLOCK_UNMAPPED)));
        audit_check(audit, INVARIANT_block_state, item->state != BLOCK_PENDING || item->own > 0);
        add_block(torch, item, sums);
    }
}

static void check_sums(const struct torch *torch, const struct policy_live *live,
                       struct audit *audit, const struct sums *sums)
{
    const struct blocks *blocks = &torch->blocks;
    uint64_t allocated = blocks->bytes[BLOCK_USED] + blocks->bytes[BLOCK_FORGOTTEN];
    audit_check(audit, INVARIANT_gpu_reserved_sum,
                torch->reserved_bytes[TORCH_SMALL] == sums->reserved_bytes[TORCH_SMALL] &&
                    torch->reserved_bytes[TORCH_LARGE] == sums->reserved_bytes[TORCH_LARGE] &&
                    torch->device.taken_bytes ==
                        sums->reserved_bytes[TORCH_SMALL] + sums->reserved_bytes[TORCH_LARGE]);
    audit_check(audit, INVARIANT_gpu_capacity_bound,
                torch->device.source || torch->device.taken_bytes <= live->largest_capacity_bytes);
    audit_check(audit, INVARIANT_gpu_free_sum,
                torch->inactive_split == sums->inactive_split &&
                    torch->inactive_split_bytes == sums->inactive_split_bytes &&
                    torch->free_blocks[TORCH_SMALL] + torch->free_blocks[TORCH_LARGE] ==
                        blocks->count[BLOCK_FREE]);
    audit_check(audit, INVARIANT_gpu_used_sum,
                torch->requested_bytes == sums->requested_bytes &&
                    torch->oversize_allocations == sums->oversize_allocations &&
                    torch->allocated_peak >= allocated &&
                    torch->active_peak >= allocated + blocks->bytes[BLOCK_PENDING]);
    audit_check(audit, INVARIANT_block_layout, sums->segments == torch->segments.count[BLOCK_USED]);
}

/* ------------------------------------------------------------------------------ segments */

static bool expect_segment(const void *context, uint32_t block, const struct block_node *node)
{
    const struct torch *torch = context;
    return block < torch->segments.length && torch->segments.items[block].state == BLOCK_USED &&
           torch->segments.items[block].offset == node->major && node->minor == block;
}

static void check_segments(const struct torch *torch, struct audit *audit, uint64_t *uses)
{
    uint64_t regions = 0;
    uint64_t oversize = 0;
    uint64_t count = 0;
    for (size_t i = 0; i < torch->segments.length; i++) {
        const struct block *segment = &torch->segments.items[i];
        if (segment->state == BLOCK_SPARE)
            continue;
        count++;
        if (audit_check(audit, INVARIANT_block_state, is_stream(torch, segment->group >> 1)))
            uses[segment->group >> 1]++;
        regions += segment->flags == 0;
        oversize += segment->flags == 0 && segment->bytes >= torch->settings.max_split_bytes;
    }
    audit_check(audit, INVARIANT_block_state,
                count == torch->segments.count[BLOCK_USED] && regions == torch->regions &&
                    oversize == torch->oversize_segments);
    block_order_check(&torch->segments_by_offset, &torch->segment_nodes, count, expect_segment,
                      torch, audit);
}

/* ------------------------------------------------------------------------------ pools */

struct pool_audit {
    const struct torch *torch;
    uint32_t group;
};

static bool expect_free(const void *context, uint32_t block, const struct block_node *node)
{
    const struct pool_audit *pool = context;
    if (!is_block(pool->torch, block))
        return false;
    const struct block *item = blocks_at(&pool->torch->blocks, block);
    return item->state == BLOCK_FREE && item->group == pool->group && node->major == item->bytes &&
           node->minor == item->offset && node->weight == item->bytes &&
           item->own <= pool->torch->searches[torch_pool_of(item)];
}

static bool expect_unmapped(const void *context, uint32_t block, const struct block_node *node)
{
    const struct pool_audit *pool = context;
    if (!is_block(pool->torch, block))
        return false;
    const struct block *item = blocks_at(&pool->torch->blocks, block);
    return item->state == BLOCK_UNMAPPED && item->group == pool->group &&
           node->major == item->offset && node->weight == item->bytes;
}

/* How many nodes the root says that there are; 0 for a root that leads nowhere. */
static uint64_t count_of(const struct block_order *order, const struct block_nodes *nodes)
{
    return order->root < nodes->capacity ? nodes->items[order->root].count : 0;
}

/* A block is in the pool of its group alone, so that the sums show whether all are there. */
static void check_pools(const struct torch *torch, struct audit *audit)
{
    uint64_t free_blocks[TORCH_POOLS] = {0};
    uint64_t unmapped = 0;
    for (uint32_t stream = 0; stream < torch->streams_length; stream++) {
        const struct torch_stream *facts = &torch->streams[stream];
        if (facts->uses == 0)
            continue;
        for (uint32_t pool = 0; pool < TORCH_POOLS; pool++) {
            const struct pool_audit here = {torch, 2 * stream + pool};
            uint64_t free_here = count_of(&facts->free[pool], &torch->nodes);
            uint64_t unmapped_here = count_of(&facts->unmapped[pool], &torch->nodes);
            free_blocks[pool] += free_here;
            unmapped += unmapped_here;
            block_order_check(&facts->free[pool], &torch->nodes, free_here, expect_free, &here,
                              audit);
            block_order_check(&facts->unmapped[pool], &torch->nodes, unmapped_here, expect_unmapped,
                              &here, audit);
        }
    }
    audit_check(audit, INVARIANT_free_index_count,
                free_blocks[TORCH_SMALL] == torch->free_blocks[TORCH_SMALL] &&
                    free_blocks[TORCH_LARGE] == torch->free_blocks[TORCH_LARGE] &&
                    unmapped == torch->blocks.count[BLOCK_UNMAPPED]);
}

/* ------------------------------------------------------------------------------ events */

static bool is_use(const struct torch *torch, uint32_t use)
{
    return use < torch->uses_length && is_stream(torch, torch->uses[use].stream) &&
           is_block(torch, torch->uses[use].block);
}

static bool expect_use(const void *context, uint32_t block, const struct block_node *node)
{
    const struct torch *torch = context;
    return is_use(torch, block) && torch->uses[block].block == node->major &&
           torch->uses[block].stream == node->minor &&
           blocks_is(&torch->blocks, torch->uses[block].block, BLOCK_USED);
}

/* One queue: its links, and that all before `waiting` have completed. How many events it has. */
static uint64_t check_queue(const struct torch *torch, uint32_t stream, struct audit *audit)
{
    const struct torch_stream *queue = &torch->streams[stream];
    uint64_t count = 0;
    uint32_t previous = BLOCK_NONE;
    bool passed = false; /* the one that `waiting` names */
    for (uint32_t event = queue->first_event; event != BLOCK_NONE;
         event = torch->uses[event].next) {
        if (!audit_check(audit, INVARIANT_block_state,
                         is_use(torch, event) && torch->uses[event].stream == stream &&
                             torch->uses[event].previous == previous &&
                             count < torch->pending_events))
            return count;
        passed = passed || event == queue->waiting;
        audit_check(audit, INVARIANT_block_state,
                    (passed || torch->uses[event].done) &&
                        blocks_is(&torch->blocks, torch->uses[event].block, BLOCK_PENDING));
        previous = event;
        count++;
    }
    audit_check(audit, INVARIANT_block_state,
                queue->last_event == previous && (queue->waiting == BLOCK_NONE || passed));
    audit_check(audit, INVARIANT_block_state,
                queue->ready ==
                    (queue->first_event != BLOCK_NONE && torch->uses[queue->first_event].done));
    return count;
}

static void check_events(const struct torch *torch, const struct sums *sums, struct audit *audit,
                         uint64_t *uses)
{
    uint64_t pending = 0;
    uint64_t ready = 0;
    for (uint32_t stream = 0; stream < torch->streams_length; stream++) {
        if (torch->streams[stream].uses == 0)
            continue;
        uint64_t events = check_queue(torch, stream, audit);
        uses[stream] += events;
        pending += events;
        ready += torch->streams[stream].ready;
    }
    audit_check(audit, INVARIANT_block_state,
                pending == torch->pending_events && sums->pending == pending);
    block_order_check(&torch->recorded, &torch->use_nodes, sums->recorded, expect_use, torch,
                      audit);
    if (audit->broken)
        return; /* its links lead nowhere */
    for (uint32_t use = block_order_first(&torch->recorded, &torch->use_nodes); use != BLOCK_NONE;
         use = block_order_next(&torch->use_nodes, use))
        uses[torch->uses[use].stream]++;
    uint64_t listed = 0;
    for (uint32_t stream = torch->ready_stream;
         stream < torch->streams_length && torch->streams[stream].ready && listed <= ready;
         stream = torch->streams[stream].next)
        listed++;
    audit_check(audit, INVARIANT_block_state, listed == ready);
}

/* ------------------------------------------------------------------------------ streams */

static bool expect_stream(const void *context, uint32_t block, const struct block_node *node)
{
    const struct torch *torch = context;
    return is_stream(torch, block) && torch->streams[block].number == node->major;
}

static void check_streams(const struct torch *torch, struct audit *audit, const uint64_t *uses)
{
    uint64_t streams = 0;
    for (uint32_t stream = 0; stream < torch->streams_length; stream++) {
        streams += torch->streams[stream].uses > 0;
        audit_check(audit, INVARIANT_block_state, torch->streams[stream].uses == uses[stream]);
    }
    block_order_check(&torch->streams_by_number, &torch->stream_nodes, streams, expect_stream,
                      torch, audit);
    audit_check(audit, INVARIANT_block_state,
                torch->recent_stream == BLOCK_NONE || is_stream(torch, torch->recent_stream));
}

int torch_check(const struct policy *policy, const struct policy_live *live, struct audit *audit)
{
    const struct torch *torch = torch_seen(policy);
    size_t scratch = torch->streams_length + 1; /* never nothing */
    struct sums sums = {0};
    uint64_t *uses = memory_allocate_zeroed(torch->memory, scratch, sizeof(*uses));
    if (!uses)
        return WORSEGPU_NO_MEMORY;
    int status = blocks_check(&torch->blocks, true, live, audit);
    if (status == WORSEGPU_OK && !audit->broken) {
        device_check(&torch->device, audit);
        check_blocks(torch, audit, &sums);
        check_sums(torch, live, audit, &sums);
        check_segments(torch, audit, uses);
        check_pools(torch, audit);
        check_events(torch, &sums, audit, uses);
        if (!audit->broken)
            check_streams(torch, audit, uses);
    }
    memory_release_array(torch->memory, uses, scratch, sizeof(*uses));
    return status;
}
