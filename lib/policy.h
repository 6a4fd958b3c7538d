/* What a placement policy must answer. One file in policies/ for each; the table is in policies.c.
 *
 * The façade (allocator.c) checks arguments, keeps handles, the host pool, the counters of the
 * snapshot and the trace. A policy owns the fake GPU's address range: where a request goes, what it
 * really takes, what a free does. It draws from the allocator's random stream and from nothing
 * else.
 *
 * The shape is meant for the real allocators as well: a placement carries the policy's own
 * reference to its block, requests carry a stream, and measures have room for segments and device
 * calls. */
#ifndef POLICY_H
#define POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/invariants.h"
#include "lib/keyed_hash.h"
#include "lib/python_random.h"
#include "lib/worsegpu.h"

struct handle_table;
struct policy; /* each policy has its own; the first member is its operations */

/* What a policy is made of. All of it outlives the policy; the struct itself need not. The capacity
 * in the configuration changes with worsegpu_resize, and may fall below what is reserved. */
struct policy_setup {
    const struct worsegpu_config *config;
    struct python_random *random;
    struct keyed_hash hash; /* the key for its tables; no part of any decision */
    const struct worsegpu_memory *memory;
};

struct policy_request {
    uint64_t requested_bytes;
    uint64_t stream;
    worsegpu_admit admit; /* NULL: nobody is asked */
    void *admit_context;
};

struct policy_placement {
    uint64_t reserved_bytes;
    uint64_t offset;
    int64_t block_index;
    uint64_t cookie; /* the policy's own, given back to release */
};

/* What place found out. The placement is filled in only with POLICY_PLACED. */
struct policy_outcome {
    struct policy_placement placement;
    uint64_t blocks_scanned; /* how many blocks a linear search would have looked at; 0 with
                                POLICY_HOST */
};

/* What place answers; negative is fatal (WORSEGPU_NO_MEMORY). All but POLICY_PLACED have changed
 * nothing in the policy itself: the façade may then still take the request back, with its random
 * draws. */
enum policy_verdict {
    POLICY_PLACED = 0,       /* on the GPU, the placement is filled in */
    POLICY_HOST = 1,         /* the policy prefers the host */
    POLICY_FULL = 2,         /* it wanted the GPU, which has no room */
    POLICY_NOT_ADMITTED = 3, /* policy_admits said no */
};

/* Whether the caller's own limits let it have this much of the GPU. To be asked once for a request,
 * when a place is found and before anything is taken: after a yes, place must succeed. */
static inline bool policy_admits(const struct policy_request *request, uint64_t reserved_bytes)
{
    return !request->admit || request->admit(request->admit_context, WORSEGPU_GPU, reserved_bytes);
}

/* The policy's accounts, all kept as counters: reading them is O(1). */
struct policy_measures {
    uint64_t reserved_bytes;
    uint64_t used_bytes;
    uint64_t free_bytes;
    uint64_t forgotten_bytes;
    uint64_t blocks;
    uint64_t forgotten_blocks;
    bool cannot_fragment; /* it has no blocks that could be of the wrong size: fragmentation is 0.0
                           */
};

/* The live allocations on the GPU, for check: calls visit for each. */
typedef void (*policy_visit)(void *context, const struct policy_placement *placement);
struct policy_live {
    void (*each)(const struct policy_live *live, policy_visit visit, void *context);
    const struct handle_table *table; /* the façade's */
    uint64_t largest_capacity_bytes;  /* so far: more was never reserved */
};

struct policy_operations {
    const char *name;
    const char *summary;

    /* 0 or WORSEGPU_NO_MEMORY. */
    int (*create)(const struct policy_setup *setup, struct policy **policy);
    void (*destroy)(struct policy *policy);

    /* Whatever memory it may need is taken before the first draw: once it has drawn it cannot fail.
     */
    int (*place)(struct policy *policy, const struct policy_request *request,
                 struct policy_outcome *outcome);

    /* true: can be used again; false: forgotten. With `forget` it is forgotten for certain, and
     * nothing is drawn. Needs no memory, cannot fail. */
    bool (*release)(struct policy *policy, const struct policy_placement *placement, bool forget);

    void (*measure)(const struct policy *policy, struct policy_measures *measures);

    /* Recomputes its accounts from its own lists and the live placements. 0, with what it found in
     * the audit, or WORSEGPU_NO_MEMORY. */
    int (*check)(const struct policy *policy, const struct policy_live *live, struct audit *audit);
};

struct policy {
    const struct policy_operations *operations;
};

/* By name, NULL when there is none; by index, NULL after the last. */
const struct policy_operations *policy_find(const char *name);
const struct policy_operations *policy_at(size_t index);

#endif
