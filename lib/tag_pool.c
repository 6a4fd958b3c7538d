/* Copies of tags; see tag_pool.h. */
#include "lib/tag_pool.h"

#include <string.h>

#include "base/memory.h"

/* What an unused piece holds. */
struct tag_piece {
    struct tag_piece *next;
};

_Static_assert(sizeof(struct tag_piece) <= TAG_POOL_STEP_BYTES, "it fits into any piece");
_Static_assert(WORSEGPU_MAX_TAG_BYTES % TAG_POOL_STEP_BYTES == 0, "the longest tag has a size");

void tag_pool_init(struct tag_pool *pool, const struct worsegpu_memory *memory)
{
    *pool = (struct tag_pool){.memory = memory};
}

static size_t size_of(size_t tag_bytes)
{
    return (tag_bytes - 1) / TAG_POOL_STEP_BYTES;
}

static size_t piece_bytes(size_t size)
{
    return (size + 1) * TAG_POOL_STEP_BYTES;
}

void tag_pool_release(struct tag_pool *pool)
{
    for (size_t size = 0; size < TAG_POOL_SIZES; size++) {
        struct tag_piece *piece;
        while ((piece = pool->unused[size]) != NULL) {
            pool->unused[size] = piece->next;
            memory_release_array(pool->memory, piece, piece_bytes(size), 1);
        }
        pool->kept[size] = 0;
    }
}

char *tag_pool_take(struct tag_pool *pool, size_t tag_bytes)
{
    size_t size = size_of(tag_bytes);
    struct tag_piece *piece = pool->unused[size];
    if (!piece)
        return memory_allocate_array(pool->memory, piece_bytes(size), 1);
    pool->unused[size] = piece->next;
    pool->kept[size]--;
    return (char *)piece;
}

void tag_pool_give(struct tag_pool *pool, char *tag, size_t tag_bytes)
{
    if (!tag)
        return;
    size_t size = size_of(tag_bytes);
    if (pool->kept[size] == TAG_POOL_MOST_KEPT) {
        memory_release_array(pool->memory, tag, piece_bytes(size), 1);
        return;
    }
    struct tag_piece *piece = (struct tag_piece *)(void *)tag;
    piece->next = pool->unused[size];
    pool->unused[size] = piece;
    pool->kept[size]++;
}
