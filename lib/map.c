/* A map of the fake GPU: its address range cut into equal cells, and what is in each. Two passes
 * over the blocks, in whatever order they come, one over the live allocations. */
#include <string.h>

#include "lib/allocator_internal.h"

/* A map being drawn. */
struct drawing {
    struct worsegpu_cell *cells;
    const struct worsegpu_map *map;
    uint64_t free_end; /* free blocks count up to here */
};

/* What the blocks are together. */
struct extent {
    uint64_t end; /* of the last one */
    uint64_t bytes;
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
        uint64_t part =
            least(end - offset, map->cell_bytes - (offset - map->from) % map->cell_bytes);
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
    const struct drawing *drawing = context;
    uint64_t bytes = block->bytes;
    if (block->state == POLICY_BLOCK_FREE) {
        if (block->offset >= drawing->free_end)
            return;
        bytes = least(bytes, drawing->free_end - block->offset);
    }
    spread(drawing, block->offset, bytes, add_state, &block->state);
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

static void add_live(worsegpu_allocator *allocator, const struct drawing *drawing, bool in_a_row)
{
    uint64_t row = 0;
    for (const struct handle_record *record = handle_table_after(&allocator->live, 0); record;
         record = handle_table_next(&allocator->live, record)) {
        if (record->device != WORSEGPU_GPU)
            continue;
        uint64_t offset = in_a_row ? row : record->offset;
        row += record->reserved_bytes;
        spread(drawing, offset, record->reserved_bytes, add_allocation, record);
    }
}

static void measure_block(void *context, const struct policy_block *block)
{
    struct extent *extent = context;
    uint64_t end = block->offset + block->bytes;
    if (end > extent->end)
        extent->end = end;
    extent->bytes += block->bytes;
}

static void draw(worsegpu_allocator *allocator, struct worsegpu_cell *cells,
                 const struct worsegpu_map *map, const struct extent *extent)
{
    const struct policy_operations *operations = allocator->policy->operations;
    struct policy_measures measures;
    operations->measure(allocator->policy, &measures);
    struct drawing drawing = {.cells = cells, .map = map, .free_end = UINT64_MAX};
    /* A policy with one range for good has it reserved only as far up as it was ever used. */
    if (extent->bytes > measures.reserved_bytes)
        drawing.free_end = measures.reserved_bytes;
    memset(cells, 0, map->cells * sizeof(*cells));
    operations->each_block(allocator->policy, add_block, &drawing);
    /* A mere counter gives no places: there they stand in a row, as its blocks do. */
    add_live(allocator, &drawing, measures.cannot_fragment);
}

int worsegpu_map(worsegpu_allocator *allocator, uint64_t from, uint64_t bytes,
                 struct worsegpu_cell *cells, size_t count, struct worsegpu_map *map)
{
    uint64_t end;
    if (count == 0 || count > WORSEGPU_MAX_CELLS || __builtin_add_overflow(from, bytes, &end))
        return WORSEGPU_INVALID_ARGUMENT;
    allocator_lock(allocator);
    struct extent extent = {0};
    allocator->policy->operations->each_block(allocator->policy, measure_block, &extent);
    if (bytes == 0) {
        /* A resize leaves blocks above the capacity; so does a device whose addresses do not run
         * out. */
        uint64_t capacity = allocator->config.gpu_capacity;
        end = extent.end > capacity ? extent.end : capacity;
        bytes = end > from ? end - from : 0;
    }
    *map = (struct worsegpu_map){.from = from, .bytes = bytes};
    if (bytes > 0) {
        map->cell_bytes = (bytes - 1) / count + 1;
        map->cells = (size_t)((bytes - 1) / map->cell_bytes + 1);
        draw(allocator, cells, map, &extent);
    }
    allocator_unlock(allocator);
    return WORSEGPU_OK;
}
