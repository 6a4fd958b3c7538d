/* Where leases come from: chunks that grow, so that steady traffic takes no memory and a million
 * leases lie together on few pages. One for each server.
 *
 * What was taken is kept until no lease is out; then all chunks but the first go back. */
#ifndef LEASE_POOL_H
#define LEASE_POOL_H

#include <stddef.h>
#include <sys/queue.h>

#include "daemon/leases.h"

enum {
    LEASE_POOL_FIRST_CHUNK = 256,    /* leases: more than clients usually have in flight at once */
    LEASE_POOL_LARGEST_CHUNK = 65536 /* doubling up to this */
};

struct lease_chunk;
SLIST_HEAD(lease_chunks, lease_chunk);

struct lease_pool {
    const struct worsegpu_memory *memory;
    struct users *users;        /* who get their charges back */
    struct lease_chunks chunks; /* newest, so largest, first */
    struct lease_list unused;
    size_t out; /* leases taken and not given back */
    size_t next_chunk;
};

void lease_pool_init(struct lease_pool *pool, struct users *users,
                     const struct worsegpu_memory *memory);

/* Gives all memory back. Every lease must have been given back. */
void lease_pool_release(struct lease_pool *pool);

/* An empty lease, in no holding; NULL without memory. */
struct lease *lease_pool_take(struct lease_pool *pool);

/* Takes it back and refunds its charge. The allocation must be gone, the lease in no holding. NULL
 * is fine. */
void lease_pool_give(struct lease_pool *pool, struct lease *lease);

#endif
