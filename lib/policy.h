/* What a placement policy must answer. One file in policies/ for each; the table is in policies.c.
 *
 * The façade (allocator.c) checks arguments, keeps handles, the host pool, the counters of the snapshot
 * and the trace. A policy owns the fake GPU's address range: where a request goes, what it really takes,
 * what a free does. It draws from the allocator's random stream and from nothing else.
 *
 * The shape is meant for the real allocators as well: a placement carries the policy's own reference to
 * its block, requests carry a stream, and measures have room for segments and device calls. */
#ifndef POLICY_H
#define POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/python_random.h"
#include "lib/worsegpu.h"

struct policy; /* each policy has its own; the first member is its operations */

struct policy_request {
    uint64_t requested_bytes;
    uint64_t stream;
};

struct policy_placement {
    uint64_t reserved_bytes;
    uint64_t offset;
    int64_t block_index;
    uint64_t cookie; /* the policy's own, given back to release */
};

/* What place answers; negative is fatal (WORSEGPU_NO_MEMORY). */
enum policy_verdict {
    POLICY_PLACED = 0, /* on the GPU, the placement is filled in */
    POLICY_HOST = 1,   /* the policy prefers the host */
    POLICY_FULL = 2,   /* it wanted the GPU, which has no room */
};

/* The policy's accounts, all kept as counters: reading them is O(1). */
struct policy_measures {
    uint64_t reserved_bytes;
    uint64_t used_bytes;
    uint64_t free_bytes;
    uint64_t forgotten_bytes;
    uint64_t blocks;
    uint64_t forgotten_blocks;
    uint64_t blocks_scanned;
};

/* The live allocations on the GPU, for check: calls visit for each. */
typedef void (*policy_visit)(void *context, const struct policy_placement *placement);
struct policy_live {
    void (*each)(const struct policy_live *live, policy_visit visit, void *context);
};

struct policy_operations {
    const char *name;
    const char *summary;

    /* `config` and `random` outlive the policy. 0 or WORSEGPU_NO_MEMORY. */
    int (*create)(const struct worsegpu_config *config, struct python_random *random,
                  const struct worsegpu_memory *memory, struct policy **policy);
    void (*destroy)(struct policy *policy);

    /* Whatever memory it may need is taken before the first draw: once it has drawn it cannot fail. */
    int (*place)(struct policy *policy, const struct policy_request *request,
                 struct policy_placement *placement);

    /* true: can be used again; false: forgotten. Needs no memory, cannot fail. */
    bool (*release)(struct policy *policy, const struct policy_placement *placement);

    void (*measure)(const struct policy *policy, struct policy_measures *measures);

    /* Recomputes its accounts from its own lists and the live placements. WORSEGPU_OK,
     * WORSEGPU_INVARIANT_VIOLATION with *broken naming the first broken invariant (a static text), or
     * WORSEGPU_NO_MEMORY. *checks is raised by one for each comparison made. */
    int (*check)(struct policy *policy, const struct policy_live *live, uint64_t *checks,
                 const char **broken);
};

struct policy {
    const struct policy_operations *operations;
};

/* By name, NULL when there is none; by index, NULL after the last. */
const struct policy_operations *policy_find(const char *name);
const struct policy_operations *policy_at(size_t index);

#endif
