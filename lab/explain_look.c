/* The memory of a policy at the moment when it refused a request: pieces, a map, and what lies
 * between the pieces; see explain.h. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lab/explain.h"

/* The blocks while they are collected. */
struct collecting {
    const struct worsegpu_memory *memory;
    struct explain_block *blocks;
    size_t count;
    size_t capacity;
    bool failed;
};

static void see(void *context, const struct policy_block *block)
{
    struct collecting *collecting = context;
    if (collecting->failed || block->bytes == 0)
        return;
    if (memory_grow(collecting->memory, &collecting->blocks, &collecting->capacity,
                    collecting->count + 1, sizeof(*collecting->blocks)) != 0) {
        collecting->failed = true;
        return;
    }
    collecting->blocks[collecting->count++] = (struct explain_block){.offset = block->offset,
                                                                     .bytes = block->bytes,
                                                                     .stream = block->stream,
                                                                     .segment = block->segment,
                                                                     .state = block->state};
}

static bool is_free(const struct explain_block *block)
{
    return block->state == POLICY_BLOCK_FREE;
}

/* Where the range of a policy without segments goes on above its last block. */
static void add_rest(struct explain *explain, struct collecting *collecting)
{
    uint64_t end = 0;
    if (explain->takes_segments || explain->after.cannot_fragment)
        return;
    for (size_t i = 0; i < collecting->count; i++)
        end = collecting->blocks[i].offset + collecting->blocks[i].bytes;
    if (end >= explain->capacity_bytes)
        return;
    struct policy_block rest = {
        .offset = end, .bytes = explain->capacity_bytes - end, .state = POLICY_BLOCK_FREE};
    /* One piece with a free block before it, as every policy with one range would have it. */
    if (collecting->count > 0 && is_free(&collecting->blocks[collecting->count - 1]))
        collecting->blocks[collecting->count - 1].bytes += rest.bytes;
    else
        see(collecting, &rest);
    explain->untaken_bytes = 0;
}

/* ------------------------------------------------------------------------------ owners */

static int by_offset(const void *one, const void *two)
{
    const struct explain_owner *a = *(const struct explain_owner *const *)one;
    const struct explain_owner *b = *(const struct explain_owner *const *)two;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

/* Both are in the order of offsets. A small allocation may share the block of another one. */
static void join(struct collecting *collecting, const struct explain_owner **sorted, size_t count)
{
    size_t next = 0;
    for (size_t i = 0; i < collecting->count; i++) {
        struct explain_block *block = &collecting->blocks[i];
        while (next < count && sorted[next]->offset < block->offset)
            next++;
        if (next < count && sorted[next]->offset - block->offset < block->bytes &&
            block->state == POLICY_BLOCK_USED)
            block->owner = sorted[next];
    }
}

static int find_owners(const struct explain *explain, struct collecting *collecting,
                       const struct explain_owner *owners, size_t count)
{
    size_t live = 0;
    if (count == 0)
        return 0;
    const struct explain_owner **sorted =
        memory_allocate_array(explain->lab->memory, count, sizeof(const struct explain_owner *));
    if (!sorted)
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (owners[i].live)
            sorted[live++] = &owners[i];
    }
    qsort(sorted, live, sizeof(const struct explain_owner *), by_offset);
    join(collecting, sorted, live);
    memory_release_array(explain->lab->memory, sorted, count, sizeof(const struct explain_owner *));
    return 0;
}

/* ------------------------------------------------------------------------------ pieces, map */

static void count_piece(struct explain *explain, uint64_t bytes)
{
    explain->free_pieces++;
    explain->free_bytes += bytes;
    for (size_t i = 0; i < EXPLAIN_LARGEST; i++) {
        uint64_t other = explain->largest[i];
        if (bytes > other) {
            explain->largest[i] = bytes;
            bytes = other;
        }
    }
    explain->largest_count += explain->largest_count < EXPLAIN_LARGEST;
}

/* The blocks side by side, without what lies between segments. */
static void draw_map(struct explain *explain, const struct collecting *collecting)
{
    uint64_t total = 0;
    uint64_t place = 0;
    bool used[EXPLAIN_MAP_CELLS] = {false};
    bool open[EXPLAIN_MAP_CELLS] = {false};
    for (size_t i = 0; i < collecting->count; i++)
        total += collecting->blocks[i].bytes;
    if (total == 0)
        return;
    explain->cell_bytes = total / EXPLAIN_MAP_CELLS + (total % EXPLAIN_MAP_CELLS > 0);
    for (size_t i = 0; i < collecting->count; i++) {
        const struct explain_block *block = &collecting->blocks[i];
        uint64_t first = place / explain->cell_bytes;
        uint64_t last = (place + block->bytes - 1) / explain->cell_bytes;
        for (uint64_t cell = first; cell <= last && cell < EXPLAIN_MAP_CELLS; cell++)
            *(is_free(block) ? &open[cell] : &used[cell]) = true;
        place += block->bytes;
    }
    for (size_t i = 0; i < EXPLAIN_MAP_CELLS; i++)
        explain->map[i] = (char)(used[i] && open[i] ? '+' : used[i] ? '#' : open[i] ? '.' : ' ');
}

/* ------------------------------------------------------------------------------ the window */

static void hold(struct explain_window *window, struct explain_owner owner)
{
    for (size_t i = 0; i < EXPLAIN_HOLDERS; i++) {
        if (i == window->holder_count) {
            window->holders[window->holder_count++] = owner;
            return;
        }
        if (owner.bytes > window->holders[i].bytes) {
            struct explain_owner other = window->holders[i];
            window->holders[i] = owner;
            owner = other;
        }
    }
}

static void keep_window(struct explain *explain, const struct explain_block *blocks, size_t first,
                        size_t last)
{
    struct explain_window *window = &explain->window;
    *window = (struct explain_window){.found = true, .offset = blocks[first].offset};
    for (size_t i = first; i <= last; i++) {
        window->bytes += blocks[i].bytes;
        if (is_free(&blocks[i]))
            continue;
        window->live_bytes += blocks[i].bytes;
        window->live_blocks++;
        if (blocks[i].owner)
            hold(window, *blocks[i].owner);
    }
}

/* Two ends that move up together: of all rows of neighbours in one segment that are large enough,
 * the one with the least that is not free. */
static void find_window(struct explain *explain, const struct collecting *collecting)
{
    const struct explain_block *blocks = collecting->blocks;
    uint64_t total = 0;
    uint64_t live = 0;
    uint64_t best = UINT64_MAX;
    size_t first = 0;
    size_t best_first = 0;
    size_t best_last = 0;
    for (size_t last = 0; last < collecting->count; last++) {
        if (last > 0 && (blocks[last].segment != blocks[last - 1].segment ||
                         blocks[last - 1].offset + blocks[last - 1].bytes != blocks[last].offset)) {
            first = last;
            total = 0;
            live = 0;
        }
        total += blocks[last].bytes;
        live += is_free(&blocks[last]) ? 0 : blocks[last].bytes;
        while (first < last && total - blocks[first].bytes >= explain->asked.bytes) {
            total -= blocks[first].bytes;
            live -= is_free(&blocks[first]) ? 0 : blocks[first].bytes;
            first++;
        }
        if (total >= explain->asked.bytes && live < best) {
            best = live;
            best_first = first;
            best_last = last;
        }
    }
    if (best != UINT64_MAX)
        keep_window(explain, blocks, best_first, best_last);
}

/* ------------------------------------------------------------------------------ segments */

static void keep_segment(struct explain *explain, struct explain_segment segment)
{
    if (segment.free_bytes == 0 || segment.live_blocks == 0)
        return;
    explain->held_segments++;
    explain->held_bytes += segment.free_bytes;
    for (size_t i = 0; i < EXPLAIN_SEGMENTS; i++) {
        if (i == explain->segment_count) {
            explain->segments[explain->segment_count++] = segment;
            return;
        }
        if (segment.free_bytes > explain->segments[i].free_bytes) {
            struct explain_segment other = explain->segments[i];
            explain->segments[i] = segment;
            segment = other;
        }
    }
}

static void find_segments(struct explain *explain, const struct collecting *collecting)
{
    struct explain_segment segment = {.bytes = 0};
    for (size_t i = 0; explain->takes_segments && i < collecting->count; i++) {
        const struct explain_block *block = &collecting->blocks[i];
        if (i == 0 || block->segment != collecting->blocks[i - 1].segment) {
            keep_segment(explain, segment);
            segment = (struct explain_segment){.offset = block->segment};
        }
        segment.bytes += block->bytes;
        segment.free_bytes += is_free(block) ? block->bytes : 0;
        segment.live_blocks += !is_free(block);
        if (block->owner &&
            (segment.oldest.event == 0 || block->owner->event < segment.oldest.event))
            segment.oldest = *block->owner;
    }
    keep_segment(explain, segment);
}

int explain_look(struct explain *explain, struct replay *replay, const struct explain_owner *owners,
                 size_t count)
{
    struct collecting collecting = {.memory = explain->lab->memory};
    int status = 0;
    replay_operations(replay)->each_block(replay_policy(replay), see, &collecting);
    if (!collecting.failed)
        add_rest(explain, &collecting);
    if (collecting.failed)
        status = -1;
    if (status == 0)
        status = find_owners(explain, &collecting, owners, count);
    if (status == 0 && collecting.count > 0) {
        for (size_t i = 0; i < collecting.count; i++) {
            if (is_free(&collecting.blocks[i]))
                count_piece(explain, collecting.blocks[i].bytes);
        }
        draw_map(explain, &collecting);
        find_window(explain, &collecting);
        find_segments(explain, &collecting);
    }
    memory_release_array(collecting.memory, collecting.blocks, collecting.capacity,
                         sizeof(*collecting.blocks));
    return status;
}
