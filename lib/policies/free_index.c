/* The index of free blocks; see free_index.h. */
#include "lib/policies/free_index.h"

#include "base/memory.h"
#include "lib/worsegpu.h"

enum {
    FIRST_PLACES = 32
};

void free_index_init(struct free_index *index, const struct keyed_hash *hash,
                     const struct worsegpu_memory *memory)
{
    *index = (struct free_index){.memory = memory, .hash = *hash};
}

void free_index_release(struct free_index *index)
{
    memory_release_array(index->memory, index->table, index->table_size, sizeof(*index->table));
    *index = (struct free_index){.memory = index->memory, .hash = index->hash};
}

static struct free_class *find(struct free_class *table, size_t table_size,
                               const struct keyed_hash *hash, uint64_t size_bytes)
{
    size_t at = (size_t)keyed_hash(hash, size_bytes) & (table_size - 1);
    while (table[at].size_bytes != 0 && table[at].size_bytes != size_bytes)
        at = (at + 1) & (table_size - 1);
    return &table[at];
}

int free_index_reserve(struct free_index *index)
{
    if ((index->classes + 1) * 2 <= index->table_size)
        return WORSEGPU_OK;
    size_t size = index->table_size ? index->table_size * 2 : FIRST_PLACES;
    struct free_class *table = memory_allocate_zeroed(index->memory, size, sizeof(*table));
    if (!table)
        return WORSEGPU_NO_MEMORY;
    for (size_t i = 0; i < index->table_size; i++) {
        if (index->table[i].size_bytes != 0)
            *find(table, size, &index->hash, index->table[i].size_bytes) = index->table[i];
    }
    memory_release_array(index->memory, index->table, index->table_size, sizeof(*table));
    index->table = table;
    index->table_size = size;
    return WORSEGPU_OK;
}

struct free_class *free_index_class(const struct free_index *index, uint64_t size_bytes)
{
    return find(index->table, index->table_size, &index->hash, size_bytes);
}

void free_index_make_class(struct free_index *index, struct free_class *place, uint64_t size_bytes)
{
    if (place->size_bytes == size_bytes)
        return;
    *place = (struct free_class){.size_bytes = size_bytes, .top = FREE_INDEX_NONE};
    index->classes++;
}

/* Two heaps become one: the top with the higher index goes below the other. */
static uint32_t join(struct free_links *links, uint32_t left, uint32_t right)
{
    uint32_t top = left < right ? left : right;
    uint32_t below = left < right ? right : left;
    links[below].sibling = links[top].child;
    links[top].child = below;
    return top;
}

/* The heap of what stands below a block taken away: join in pairs from left to right, then the
 * pairs from the last to the first. */
static uint32_t join_all(struct free_links *links, uint32_t first)
{
    uint32_t pairs = FREE_INDEX_NONE;
    while (first != FREE_INDEX_NONE) {
        uint32_t pair = first;
        uint32_t second = links[first].sibling;
        first = FREE_INDEX_NONE;
        if (second != FREE_INDEX_NONE) {
            first = links[second].sibling;
            pair = join(links, pair, second);
        }
        links[pair].sibling = pairs;
        pairs = pair;
    }
    uint32_t top = FREE_INDEX_NONE;
    while (pairs != FREE_INDEX_NONE) {
        uint32_t following = links[pairs].sibling;
        top = top == FREE_INDEX_NONE ? pairs : join(links, top, pairs);
        pairs = following;
    }
    return top;
}

uint32_t free_class_take(struct free_class *free_class, struct free_links *links)
{
    uint32_t block = free_class->top;
    free_class->top = join_all(links, links[block].child);
    if (free_class->top != FREE_INDEX_NONE)
        links[free_class->top].sibling = FREE_INDEX_NONE;
    free_class->blocks--;
    return block;
}

void free_class_put(struct free_class *free_class, struct free_links *links, uint32_t block)
{
    links[block] = (struct free_links){FREE_INDEX_NONE, FREE_INDEX_NONE};
    free_class->top =
        free_class->top == FREE_INDEX_NONE ? block : join(links, free_class->top, block);
    links[free_class->top].sibling = FREE_INDEX_NONE;
    free_class->blocks++;
}
