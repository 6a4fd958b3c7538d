/* Ranges of addresses in their order; see ranges.h. */
#include "lab/outputs/ranges.h"

#include <string.h>

#include "base/memory.h"

void ranges_init(struct ranges *ranges, const struct worsegpu_memory *memory)
{
    *ranges = (struct ranges){.memory = memory};
}

void ranges_release(struct ranges *ranges)
{
    memory_release_array(ranges->memory, ranges->all, ranges->capacity, sizeof(*ranges->all));
}

size_t ranges_find(const struct ranges *ranges, uint64_t offset)
{
    size_t low = 0;
    size_t high = ranges->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->all[middle].offset + ranges->all[middle].bytes > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int reserve(struct ranges *ranges)
{
    return memory_grow(ranges->memory, &ranges->all, &ranges->capacity, ranges->count + 1,
                       sizeof(*ranges->all));
}

/* After reserve. */
static void insert(struct ranges *ranges, size_t at, const struct range *range)
{
    memmove(&ranges->all[at + 1], &ranges->all[at], (ranges->count - at) * sizeof(*ranges->all));
    ranges->all[at] = *range;
    ranges->count++;
}

int ranges_add(struct ranges *ranges, const struct range *range)
{
    if (reserve(ranges) != 0)
        return -1;
    insert(ranges, ranges_find(ranges, range->offset), range);
    return 0;
}

void ranges_remove(struct ranges *ranges, size_t at)
{
    ranges->count--;
    memmove(&ranges->all[at], &ranges->all[at + 1], (ranges->count - at) * sizeof(*ranges->all));
}

int ranges_cut(struct ranges *ranges, uint64_t offset, uint64_t bytes, struct range *piece)
{
    uint64_t end = offset + bytes;
    size_t at = ranges_find(ranges, offset);
    if (at == ranges->count || ranges->all[at].offset >= end)
        return 1;
    struct range whole = ranges->all[at];
    uint64_t whole_end = whole.offset + whole.bytes;
    uint64_t from = whole.offset > offset ? whole.offset : offset;
    uint64_t to = whole_end < end ? whole_end : end;
    if (from > whole.offset && to < whole_end) {
        const struct range above = {to, whole_end - to, whole.tag};
        if (reserve(ranges) != 0)
            return -1;
        insert(ranges, at + 1, &above);
    }
    if (from > whole.offset)
        ranges->all[at].bytes = from - whole.offset;
    else if (to < whole_end)
        ranges->all[at] = (struct range){to, whole_end - to, whole.tag};
    else
        ranges_remove(ranges, at);
    *piece = (struct range){from, to - from, whole.tag};
    return 0;
}
