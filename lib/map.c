/* A map of the fake GPU: its address range cut into equal cells, and what is in each. One pass over
 * the blocks, one over the live allocations; it takes no memory and changes nothing. */
#include <string.h>

#include "lib/allocator_internal.h"

/* A map being drawn. */
struct drawing {
    struct worsegpu_cell *cells;
    const struct worsegpu_map *map;
};

static uint64_t least(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

/* Calls `add` with each cell that the piece of the range lies in, and how much of it does. */
static void spread(const struct drawing *drawing, uint64_t offset, uint64_t bytes,
                   void (*add)(struct worsegpu_cell *cell, uint64_t bytes, const void *what),
                   const void *what)
{
    const struct worsegpu_map *map = drawing->map;
    uint64_t end;
    if (__builtin_add_overflow(offset, bytes, &end))
        end = UINT64_MAX;
    end = least(end, map->from + map->bytes);
    if (offset < map->from)
        offset = map->from;
    while (offset < end) {
        uint64_t index = (offset - map->from) / map->cell_bytes;
        uint64_t part = least(end - offset, map->cell_bytes - (offset - map->from) % map->cell_bytes);
        add(&drawing->cells[index], part, what);
        offset += part;
    }
}

static void add_state(struct worsegpu_cell *cell, uint64_t bytes, const void *what)
{
    switch (*(const enum policy_block_state *)what) {
    case POLICY_BLOCK_FREE:
        cell->free_bytes += bytes;
        break;
    case POLICY_BLOCK_USED:
        cell->used_bytes += bytes;
        break;
    case POLICY_BLOCK_PENDING:
        cell->pending_bytes += bytes;
        break;
    case POLICY_BLOCK_FORGOTTEN:
        cell->forgotten_bytes += bytes;
        break;
    }
}

static void add_block(void *context, const struct policy_block *block)
{
    spread(context, block->offset, block->bytes, add_state, &block->state);
}

/* Allocations come by their ids, so that the first of equals keeps the cell. */
static void add_allocation(struct worsegpu_cell *cell, uint64_t bytes, const void *what)
{
    const struct handle_record *record = what;
    if (bytes <= cell->allocation_bytes)
        return;
    cell->allocation_id = record->id;
    cell->allocation_bytes = bytes;
    cell->owner = record->owner;
}

static void add_live(worsegpu_allocator *allocator, const struct drawing *drawing)
{
    struct policy_measures measures;
    allocator->policy->operations->measure(allocator->policy, &measures);
    uint64_t row = 0;
    for (const struct handle_record *record = handle_table_after(&allocator->live, 0); record;
         record = handle_table_next(&allocator->live, record)) {
        if (record->device != WORSEGPU_GPU)
            continue;
        /* A mere counter gives no places: there they stand in a row, as its blocks do. */
        uint64_t offset = measures.cannot_fragment ? row : record->offset;
        row += record->reserved_bytes;
        spread(drawing, offset, record->reserved_bytes, add_allocation, record);
    }
}

static void find_end(void *context, const struct policy_block *block)
{
    uint64_t *end = context;
    *end = block->offset + block->bytes;
}

/* The capacity, or the end of the last block: a resize leaves blocks above the capacity, and
 * addresses do not run out where they are only reserved. */
static uint64_t end_of_range(const worsegpu_allocator *allocator)
{
    uint64_t end = 0;
    allocator->policy->operations->each_block(allocator->policy, find_end, &end);
    uint64_t capacity = allocator->config.gpu_capacity;
    return end > capacity ? end : capacity;
}

int worsegpu_map(worsegpu_allocator *allocator, uint64_t from, uint64_t bytes,
                 struct worsegpu_cell *cells, size_t count, struct worsegpu_map *map)
{
    uint64_t end;
    if (count == 0 || count > WORSEGPU_MAX_CELLS || __builtin_add_overflow(from, bytes, &end))
        return WORSEGPU_INVALID_ARGUMENT;
    allocator_lock(allocator);
    if (bytes == 0) {
        end = end_of_range(allocator);
        bytes = end > from ? end - from : 0;
    }
    *map = (struct worsegpu_map){.from = from, .bytes = bytes};
    if (bytes > 0) {
        map->cell_bytes = (bytes - 1) / count + 1;
        map->cells = (size_t)((bytes - 1) / map->cell_bytes + 1);
        memset(cells, 0, map->cells * sizeof(*cells));
        struct drawing drawing = {.cells = cells, .map = map};
        allocator->policy->operations->each_block(allocator->policy, add_block, &drawing);
        add_live(allocator, &drawing);
    }
    allocator_unlock(allocator);
    return WORSEGPU_OK;
}
