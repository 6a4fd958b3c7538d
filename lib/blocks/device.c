/* The simulated device below a caching policy; see device.h.
 *
 * The room above each range is its weight in the order of offsets, so that the lowest place that
 * fits is found in O(log n), as is every range by its address. */
#include "lib/blocks/device.h"

#include "base/memory.h"

/* Ranges are told apart by these states. The `own` of a reserved one is how much of it is mapped.
 */
enum {
    RANGE_MEMORY = BLOCK_USED,
    RANGE_RESERVED = BLOCK_UNMAPPED
};

void device_init(struct device *device, const struct policy_setup *setup, enum device_places places,
                 enum device_limit limit, uint64_t granularity)
{
    *device = (struct device){
        .memory = setup->memory,
        .source = setup->source,
        .watch = setup->watch,
        .capacity_bytes = &setup->config->gpu_capacity,
        .places = places,
        .limit = limit,
        .granularity = granularity,
        .by_offset = block_order_empty(),
    };
    blocks_init(&device->ranges, setup->memory);
    block_nodes_init(&device->nodes, setup->memory);
}

void device_release(struct device *device)
{
    blocks_release(&device->ranges);
    block_nodes_release(&device->nodes);
    device->by_offset = block_order_empty();
}

int device_reserve_memory(struct device *device)
{
    if (blocks_reserve(&device->ranges, 1) != 0)
        return WORSEGPU_NO_MEMORY;
    return block_nodes_reserve(&device->nodes, device->ranges.capacity);
}

/* ------------------------------------------------------------------------------ ranges */

static bool round_up(const struct device *device, uint64_t offset, uint64_t *rounded)
{
    uint64_t over = offset % device->granularity;
    return !__builtin_add_overflow(offset, over ? device->granularity - over : 0, rounded);
}

/* The room between a range and the one after it (or BLOCK_NONE). */
static uint64_t room_above(const struct device *device, uint32_t range, uint32_t next)
{
    uint64_t place;
    if (!round_up(device, block_end(blocks_at(&device->ranges, range)), &place))
        return 0;
    if (next == BLOCK_NONE)
        return UINT64_MAX;
    uint64_t offset = blocks_at(&device->ranges, next)->offset;
    return offset > place ? offset - place : 0;
}

/* Keys have the number in them: a recorded log may name an offset twice. */
static void insert(struct device *device, uint32_t range, uint64_t room)
{
    block_order_insert(&device->by_offset, &device->nodes, range,
                       blocks_at(&device->ranges, range)->offset, range, room);
}

/* The room above a range has changed with its neighbour. */
static void refresh_room(struct device *device, uint32_t range)
{
    if (range == BLOCK_NONE)
        return;
    uint32_t next = block_order_next(&device->nodes, range);
    uint64_t room = room_above(device, range, next);
    block_order_remove(&device->by_offset, &device->nodes, range);
    insert(device, range, room);
}

static void add_range(struct device *device, uint64_t offset, uint64_t bytes, uint8_t state)
{
    uint32_t range = blocks_add(&device->ranges, offset, bytes, (enum block_state)state);
    uint32_t next = block_order_at_least(&device->by_offset, &device->nodes, offset, range);
    insert(device, range, room_above(device, range, next));
    refresh_room(device, block_order_previous(&device->nodes, range));
}

static void remove_range(struct device *device, uint32_t range)
{
    uint32_t previous = block_order_previous(&device->nodes, range);
    block_order_remove(&device->by_offset, &device->nodes, range);
    blocks_remove(&device->ranges, range);
    refresh_room(device, previous);
}

/* The range with the greatest offset at or below this one. */
static uint32_t range_at(const struct device *device, uint64_t offset)
{
    return block_order_below(&device->by_offset, &device->nodes, offset, UINT64_MAX);
}

/* ------------------------------------------------------------------------------ accounts */

static void tell(const struct device *device, enum device_event event, uint64_t offset,
                 uint64_t bytes)
{
    if (device->watch)
        device->watch->tell(device->watch->context, event, offset, bytes);
}

static void count_taken(struct device *device, uint64_t bytes)
{
    device->taken_bytes += bytes;
    device->taken_calls++;
    if (device->taken_bytes > device->peak_bytes)
        device->peak_bytes = device->taken_bytes;
}

static void count_given(struct device *device, uint64_t bytes)
{
    device->taken_bytes -= bytes;
    device->given_calls++;
}

bool device_has_room(const struct device *device, uint64_t bytes)
{
    uint64_t capacity = *device->capacity_bytes;
    if (device->source)
        return true;
    return device->taken_bytes <= capacity && bytes <= capacity - device->taken_bytes;
}

/* ------------------------------------------------------------------------------ taking */

static bool find_place(const struct device *device, uint64_t bytes, uint64_t *offset)
{
    if (device->places == DEVICE_UPWARD)
        return round_up(device, device->end, offset);
    uint32_t first = block_order_first(&device->by_offset, &device->nodes);
    *offset = 0;
    if (first == BLOCK_NONE || blocks_at(&device->ranges, first)->offset >= bytes)
        return true;
    uint32_t below = block_order_heavy(&device->by_offset, &device->nodes, 0, 0, bytes);
    return below != BLOCK_NONE &&
           round_up(device, block_end(blocks_at(&device->ranges, below)), offset);
}

static bool simulate(const struct device *device, enum device_event event, uint64_t bytes,
                     uint64_t *offset)
{
    uint64_t end;
    if (device->limit == DEVICE_LIMIT_BYTES && event == DEVICE_REGION &&
        !device_has_room(device, bytes))
        return false;
    if (!find_place(device, bytes, offset) || __builtin_add_overflow(*offset, bytes, &end))
        return false;
    return device->limit == DEVICE_LIMIT_BYTES || end <= *device->capacity_bytes;
}

int device_take(struct device *device, enum device_event event, uint64_t bytes, uint64_t *offset)
{
    const struct device_source *source = device->source;
    if (source ? source->take(source->context, event, bytes, offset) != 0
               : !simulate(device, event, bytes, offset))
        return 1;
    add_range(device, *offset, bytes, event == DEVICE_REGION ? RANGE_MEMORY : RANGE_RESERVED);
    if (*offset + bytes > device->end)
        device->end = *offset + bytes;
    if (event == DEVICE_REGION)
        count_taken(device, bytes);
    tell(device, event, *offset, bytes);
    return 0;
}

void device_give_back(struct device *device, enum device_event event, uint64_t offset,
                      uint64_t bytes)
{
    uint64_t left = bytes;
    while (left > 0) {
        uint32_t range = block_order_at_least(&device->by_offset, &device->nodes, offset, 0);
        if (range == BLOCK_NONE || blocks_at(&device->ranges, range)->bytes > left)
            break;
        left -= blocks_at(&device->ranges, range)->bytes;
        remove_range(device, range);
    }
    if (event == DEVICE_REGION_FREE)
        count_given(device, bytes);
    if (device->source)
        device->source->give_back(device->source->context, event, offset, bytes);
    tell(device, event, offset, bytes);
}

int device_map(struct device *device, uint64_t offset, uint64_t bytes)
{
    const struct device_source *source = device->source;
    uint64_t place = offset;
    if (source ? source->take(source->context, DEVICE_MAP, bytes, &place) != 0
               : !device_has_room(device, bytes))
        return 1;
    uint32_t range = range_at(device, offset);
    if (range != BLOCK_NONE)
        blocks_at(&device->ranges, range)->own += bytes;
    count_taken(device, bytes);
    tell(device, DEVICE_MAP, offset, bytes);
    return 0;
}

void device_unmap(struct device *device, uint64_t offset, uint64_t bytes)
{
    uint32_t range = range_at(device, offset);
    if (range != BLOCK_NONE)
        blocks_at(&device->ranges, range)->own -= bytes;
    count_given(device, bytes);
    if (device->source)
        device->source->give_back(device->source->context, DEVICE_UNMAP, offset, bytes);
    tell(device, DEVICE_UNMAP, offset, bytes);
}

bool device_range_ends_at(const struct device *device, uint64_t offset)
{
    uint32_t below = block_order_below(&device->by_offset, &device->nodes, offset, 0);
    return below != BLOCK_NONE && block_end(blocks_at(&device->ranges, below)) == offset;
}

/* ------------------------------------------------------------------------------ audit */

static bool expect_range(const void *context, uint32_t block, const struct block_node *node)
{
    const struct device *device = context;
    return block < device->ranges.length && device->ranges.items[block].state != BLOCK_SPARE &&
           device->ranges.items[block].offset == node->major && node->minor == block;
}

void device_check(const struct device *device, struct audit *audit)
{
    const struct blocks *ranges = &device->ranges;
    uint64_t present = 0;
    uint64_t taken_bytes = 0;
    for (size_t i = 0; i < ranges->length; i++) {
        const struct block *range = &ranges->items[i];
        if (range->state == BLOCK_SPARE)
            continue;
        present++;
        taken_bytes += range->state == RANGE_MEMORY ? range->bytes : range->own;
        audit_check(audit, INVARIANT_block_state, range->bytes > 0);
    }
    audit_check(audit, INVARIANT_gpu_reserved_sum,
                device->taken_bytes == taken_bytes && device->peak_bytes >= taken_bytes);
    struct audit order = {0};
    block_order_check(&device->by_offset, &device->nodes, present, expect_range, device, &order);
    audit->checks += order.checks;
    if (order.broken) {
        if (!audit->broken)
            audit->broken = order.broken;
        return; /* its links lead nowhere */
    }
    uint32_t range = block_order_first(&device->by_offset, &device->nodes);
    while (range != BLOCK_NONE) {
        uint32_t next = block_order_next(&device->nodes, range);
        if (next != BLOCK_NONE)
            audit_check(audit, INVARIANT_block_layout,
                        block_end(blocks_at(ranges, range)) <= blocks_at(ranges, next)->offset);
        audit_check(audit, INVARIANT_free_index_class,
                    device->nodes.items[range].weight == room_above(device, range, next));
        range = next;
    }
}
