/* Where leases come from; see lease_pool.h. */
#include "daemon/lease_pool.h"

#include <string.h>

#include "base/memory.h"

/* The leases lie behind it; those that were never taken are not touched. */
struct lease_chunk {
    SLIST_ENTRY(lease_chunk) link;
    size_t count;
    size_t taken; /* so many of them have been in use, the first ones */
};

void lease_pool_init(struct lease_pool *pool, struct users *users,
                     const struct worsegpu_memory *memory)
{
    memset(pool, 0, sizeof(*pool));
    pool->memory = memory;
    pool->users = users;
    pool->next_chunk = LEASE_POOL_FIRST_CHUNK;
    SLIST_INIT(&pool->chunks);
    TAILQ_INIT(&pool->unused);
}

static size_t chunk_bytes(size_t count)
{
    return sizeof(struct lease_chunk) + count * sizeof(struct lease);
}

static struct lease *leases_of(struct lease_chunk *chunk)
{
    return (struct lease *)(void *)(chunk + 1);
}

/* One more chunk, twice as large as the last. Without the memory for it, the smallest there is will
 * do. */
static int grow(struct lease_pool *pool)
{
    size_t count = pool->next_chunk;
    struct lease_chunk *chunk = memory_allocate_array(pool->memory, chunk_bytes(count), 1);
    if (!chunk && count > LEASE_POOL_FIRST_CHUNK) {
        count = LEASE_POOL_FIRST_CHUNK;
        chunk = memory_allocate_array(pool->memory, chunk_bytes(count), 1);
    }
    if (!chunk)
        return -1;
    chunk->count = count;
    chunk->taken = 0;
    SLIST_INSERT_HEAD(&pool->chunks, chunk, link);
    if (pool->next_chunk < LEASE_POOL_LARGEST_CHUNK)
        pool->next_chunk *= 2;
    return 0;
}

/* Gives chunks back until `kept` are left. */
static void shrink(struct lease_pool *pool, size_t kept)
{
    size_t count = 0;
    struct lease_chunk *chunk;
    SLIST_FOREACH(chunk, &pool->chunks, link)
    {
        count++;
    }
    for (; count > kept; count--) {
        chunk = SLIST_FIRST(&pool->chunks);
        SLIST_REMOVE_HEAD(&pool->chunks, link);
        memory_release_array(pool->memory, chunk, chunk_bytes(chunk->count), 1);
    }
}

void lease_pool_release(struct lease_pool *pool)
{
    shrink(pool, 0);
    TAILQ_INIT(&pool->unused);
}

/* One that was given back, or the next of the newest chunk that was never taken. */
static struct lease *find_unused(struct lease_pool *pool)
{
    struct lease *lease = TAILQ_FIRST(&pool->unused);
    if (lease) {
        TAILQ_REMOVE(&pool->unused, lease, link);
        return lease;
    }
    struct lease_chunk *chunk = SLIST_FIRST(&pool->chunks);
    if (!chunk || chunk->taken == chunk->count) {
        if (grow(pool) != 0)
            return NULL;
        chunk = SLIST_FIRST(&pool->chunks);
    }
    return &leases_of(chunk)[chunk->taken++];
}

struct lease *lease_pool_take(struct lease_pool *pool)
{
    struct lease *lease = find_unused(pool);
    if (!lease)
        return NULL;
    memset(lease, 0, sizeof(*lease));
    pool->out++;
    return lease;
}

void lease_pool_give(struct lease_pool *pool, struct lease *lease)
{
    if (!lease)
        return;
    charge_refund(&lease->charge, pool->users);
    TAILQ_INSERT_HEAD(&pool->unused, lease, link);
    if (--pool->out > 0 || SLIST_FIRST(&pool->chunks)->count == LEASE_POOL_FIRST_CHUNK)
        return;
    shrink(pool, 1);
    TAILQ_INIT(&pool->unused);
    SLIST_FIRST(&pool->chunks)->taken = 0;
    pool->next_chunk = (size_t)2 * LEASE_POOL_FIRST_CHUNK;
}
