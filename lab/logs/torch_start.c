/* The start of a torch trace, found from its end; see torch_start.h. */
#include "lab/logs/torch_start.h"

#include <string.h>

#include "base/memory.h"
#include "lab/number_map.h"
#include "lib/secrets.h"

enum {
    SMALL_SEGMENT = 2 << 20 /* no segment of the large pool is so small */
};

/* What the walk knows of addresses. */
struct finding {
    struct torch_start *start;
    struct number_map live;     /* allocated in the trace, and not freed yet */
    struct number_map before;   /* addresses in start->blocks */
    struct number_map segments; /* taken in the trace, and not given back yet */
};

/* ------------------------------------------------------------------------------ by address */

/* Both kinds of items begin with their address. */
static uint64_t address_at(const unsigned char *items, size_t bytes, size_t index)
{
    uint64_t address;
    memcpy(&address, items + index * bytes, sizeof(address));
    return address;
}

static void swap(unsigned char *items, size_t bytes, size_t a, size_t b)
{
    unsigned char kept[sizeof(struct torch_before) + sizeof(struct torch_before_segment)];
    memcpy(kept, items + a * bytes, bytes);
    memcpy(items + a * bytes, items + b * bytes, bytes);
    memcpy(items + b * bytes, kept, bytes);
}

static void sift(unsigned char *items, size_t bytes, size_t root, size_t count)
{
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= count)
            return;
        if (child + 1 < count &&
            address_at(items, bytes, child) < address_at(items, bytes, child + 1))
            child++;
        if (address_at(items, bytes, root) >= address_at(items, bytes, child))
            return;
        swap(items, bytes, root, child);
        root = child;
    }
}

/* A heap sort: in place, and no order of the file makes it slow. */
static void sort(void *array, size_t bytes, size_t count)
{
    for (size_t i = count / 2; i > 0; i--)
        sift(array, bytes, i - 1, count);
    for (size_t i = count; i > 1; i--) {
        swap(array, bytes, 0, i - 1);
        sift(array, bytes, 0, i - 1);
    }
}

/* ------------------------------------------------------------------------------ finding */

static int remember(struct number_map *map, uint64_t address)
{
    if (number_map_reserve(map) != 0)
        return LOG_NO_MEMORY;
    number_map_put(map, address, 0);
    return LOG_FINE;
}

static int add_block(struct finding *finding, const struct torch_before *block)
{
    struct torch_start *start = finding->start;
    if (number_map_find(&finding->before, block->address) != NUMBER_MAP_NONE)
        return LOG_FINE;
    if (memory_grow(start->memory, &start->blocks, &start->blocks_capacity, start->block_count + 1,
                    sizeof(*start->blocks)) != 0)
        return LOG_NO_MEMORY;
    int status = remember(&finding->before, block->address);
    if (status == LOG_FINE)
        start->blocks[start->block_count++] = *block;
    return status;
}

static int add_segment(struct torch_start *start, const struct torch_before_segment *segment)
{
    if (memory_grow(start->memory, &start->segments, &start->segments_capacity,
                    start->segment_count + 1, sizeof(*start->segments)) != 0)
        return LOG_NO_MEMORY;
    start->segments[start->segment_count++] = *segment;
    return LOG_FINE;
}

static int see_free(struct finding *finding, const struct torch_event *event)
{
    if (number_map_find(&finding->live, event->addr) != NUMBER_MAP_NONE) {
        number_map_remove(&finding->live, event->addr);
        return LOG_FINE;
    }
    struct torch_before block = {.address = event->addr,
                                 .requested_bytes = event->size,
                                 .stream = event->stream,
                                 .place = event->place};
    return add_block(finding, &block);
}

static int see_segment_free(struct finding *finding, const struct torch_event *event)
{
    if (number_map_find(&finding->segments, event->addr) != NUMBER_MAP_NONE) {
        number_map_remove(&finding->segments, event->addr);
        return LOG_FINE;
    }
    struct torch_before_segment segment = {.address = event->addr,
                                           .bytes = event->size,
                                           .stream = event->stream,
                                           .place = event->place,
                                           .small = event->size <= SMALL_SEGMENT};
    return add_segment(finding->start, &segment);
}

static int see_event(struct finding *finding, const struct torch_event *event)
{
    if (event->action == finding->start->freed)
        return see_free(finding, event);
    switch (event->action) {
    case TORCH_ALLOC:
        return remember(&finding->live, event->addr);
    case TORCH_SEGMENT_ALLOC:
        return remember(&finding->segments, event->addr);
    case TORCH_SEGMENT_FREE:
        return see_segment_free(finding, event);
    case TORCH_SEGMENT_MAP:
        finding->start->mapped_bytes += event->size;
        return LOG_FINE;
    case TORCH_SEGMENT_UNMAP:
        finding->start->mapped_bytes -= event->size;
        return LOG_FINE;
    default:
        return LOG_FINE;
    }
}

/* What the picture has and the trace does not explain. Expandable segments grow and shrink in
 * place, so that the trace tells them by what is mapped: they are taken as they are at the end. */
static int see_picture(struct finding *finding, const struct torch_snapshot *snapshot,
                       uint32_t device)
{
    size_t count;
    const struct torch_segment *segments = torch_snapshot_segments(snapshot, &count);
    const struct torch_block *blocks = torch_snapshot_blocks(snapshot);
    int status = LOG_FINE;
    for (size_t i = 0; status == LOG_FINE && i < count; i++) {
        const struct torch_segment *segment = &segments[i];
        if (segment->device != device)
            continue;
        if (number_map_find(&finding->segments, segment->address) == NUMBER_MAP_NONE) {
            struct torch_before_segment before = {.address = segment->address,
                                                  .bytes = segment->bytes,
                                                  .stream = segment->stream,
                                                  .pool = segment->pool,
                                                  .place = segment->place,
                                                  .small = segment->small,
                                                  .expandable = segment->expandable};
            status = add_segment(finding->start, &before);
        }
        for (size_t k = 0; status == LOG_FINE && k < segment->block_count; k++) {
            const struct torch_block *block = &blocks[segment->first_block + k];
            if (!block->in_use ||
                number_map_find(&finding->live, block->address) != NUMBER_MAP_NONE)
                continue;
            struct torch_before before = {.address = block->address,
                                          .requested_bytes = block->requested_bytes,
                                          .block_bytes = block->bytes,
                                          .stream = segment->stream,
                                          .place = block->place};
            status = add_block(finding, &before);
        }
    }
    return status;
}

/* ------------------------------------------------------------------------------ walks */

static int walk_through(struct finding *finding, const struct torch_snapshot *snapshot,
                        uint32_t device, struct log_problem *problem)
{
    struct torch_start *start = finding->start;
    struct torch_walk walk;
    struct torch_event event;
    if (torch_walk_begin(snapshot, device, &walk) != 0)
        return LOG_NO_MEMORY;
    int status = LOG_FINE;
    while (status == LOG_FINE && (status = torch_walk_next(&walk, &event, problem)) == LOG_FINE) {
        if (start->first_place == 0) {
            start->first_place = event.place;
            start->first_time = event.has_time ? event.time_us : UINT64_MAX;
        }
        start->count[event.action]++;
        status = see_event(finding, &event);
    }
    torch_walk_end(&walk);
    return status == LOG_STOPPED ? LOG_FINE : status;
}

/* With `freed` for the events that are frees. */
static int find(const struct torch_snapshot *snapshot, uint32_t device, enum torch_action freed,
                const struct worsegpu_memory *memory, struct torch_start *start,
                struct log_problem *problem)
{
    *start = (struct torch_start){.memory = memory, .freed = freed, .first_time = UINT64_MAX};
    struct keyed_hash hash;
    const struct entropy *entropy = entropy_system();
    if (entropy->draw(entropy->context, hash.key, sizeof(hash.key)) != 0)
        hash = (struct keyed_hash){{0, 0}}; /* slower tables at worst */
    struct finding finding = {.start = start};
    number_map_init(&finding.live, &hash, memory);
    number_map_init(&finding.before, &hash, memory);
    number_map_init(&finding.segments, &hash, memory);
    int status = walk_through(&finding, snapshot, device, problem);
    if (status == LOG_FINE)
        status = see_picture(&finding, snapshot, device);
    number_map_release(&finding.live);
    number_map_release(&finding.before);
    number_map_release(&finding.segments);
    if (status != LOG_FINE)
        torch_start_release(start);
    return status;
}

int torch_start_find(const struct torch_snapshot *snapshot, uint32_t device,
                     const struct worsegpu_memory *memory, struct torch_start *start,
                     struct log_problem *problem)
{
    int status = find(snapshot, device, TORCH_FREE_COMPLETED, memory, start, problem);
    if (status == LOG_FINE && start->count[TORCH_FREE_COMPLETED] == 0 &&
        start->count[TORCH_FREE_REQUESTED] > 0) {
        torch_start_release(start);
        status = find(snapshot, device, TORCH_FREE_REQUESTED, memory, start, problem);
    }
    if (status != LOG_FINE)
        return status;
    sort(start->blocks, sizeof(*start->blocks), start->block_count);
    sort(start->segments, sizeof(*start->segments), start->segment_count);
    start->midway = start->block_count > 0 || start->segment_count > 0;
    return LOG_FINE;
}

void torch_start_release(struct torch_start *start)
{
    memory_release_array(start->memory, start->blocks, start->blocks_capacity,
                         sizeof(*start->blocks));
    memory_release_array(start->memory, start->segments, start->segments_capacity,
                         sizeof(*start->segments));
    start->blocks = NULL;
    start->segments = NULL;
    start->blocks_capacity = 0;
    start->segments_capacity = 0;
}
