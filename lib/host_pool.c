/* The host pool; see host_pool.h. */
#include "lib/host_pool.h"

bool host_pool_has_room(const struct host_pool *pool, uint64_t bytes)
{
    return bytes <= UINT64_MAX - pool->used_bytes;
}

void host_pool_add(struct host_pool *pool, uint64_t bytes)
{
    pool->used_bytes += bytes;
    pool->allocations++;
    if (pool->used_bytes > pool->peak_bytes)
        pool->peak_bytes = pool->used_bytes;
}

void host_pool_remove(struct host_pool *pool, uint64_t bytes)
{
    pool->used_bytes -= bytes;
    pool->allocations--;
}
