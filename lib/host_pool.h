/* The host pool of an allocator: a counter of the requested bytes that live outside the fake GPU.
 *
 * It has no size of its own; only the counter's 64 bits bound it. Lives inside its allocator. */
#ifndef HOST_POOL_H
#define HOST_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct host_pool {
    uint64_t used_bytes;
    uint64_t peak_bytes;
    uint64_t allocations; /* live ones */
};

/* Whether `bytes` more can be counted. */
bool host_pool_has_room(const struct host_pool *pool, uint64_t bytes);

/* Only when it has room. */
void host_pool_add(struct host_pool *pool, uint64_t bytes);

/* `bytes` as they were added. */
void host_pool_remove(struct host_pool *pool, uint64_t bytes);

#endif
