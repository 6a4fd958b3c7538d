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
#include "lib/knobs.h"
#include "lib/python_random.h"
#include "lib/worsegpu.h"

struct device_source;
struct device_watch;
struct policy; /* each policy has its own; the first member is its operations */
struct statistics_sink;

/* What a policy is made of. All of it outlives the policy, but for the struct itself and `knobs`.
 * The capacity in the configuration changes with worsegpu_resize, and may fall below what is
 * reserved. */
struct policy_setup {
    const struct worsegpu_config *config;
    const struct knob_value *knobs; /* one for each knob of the policy, in its order, checked;
                                       texts in them live as long as the policy */
    struct python_random *random;
    struct keyed_hash hash; /* the key for its tables; no part of any decision */
    const struct worsegpu_memory *memory;
    const struct device_source *source; /* where ranges of the device come from; NULL: simulated */
    const struct device_watch *watch;   /* who is told of ranges taken and given back; NULL: nobody
                                         */
};

struct policy_request {
    uint64_t requested_bytes; /* at least 1 */
    uint64_t stream;
    uint64_t alignment;   /* of the offset: a power of two; 0: whatever the policy does by itself */
    bool upper;           /* from the upper end, where the policy has two (vma's linear one) */
    worsegpu_admit admit; /* NULL: nobody is asked */
    void *admit_context;
};

struct policy_free {
    uint64_t stream; /* on which it is freed; mostly the one it was allocated on */
    bool forget;     /* it is forgotten for certain, and nothing is drawn */
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
    uint64_t blocks_scanned; /* how many free blocks the modelled search looks at; 0 with
                                POLICY_HOST */
};

/* What place answers; negative is fatal (WORSEGPU_NO_MEMORY). All but POLICY_PLACED have changed no
 * placement and no account of blocks in use: the façade may then still take the request back, with
 * its random draws. A caching policy may have given cached memory back to the device, and counted
 * its tries, before it says POLICY_FULL; with POLICY_NOT_ADMITTED it holds no more of the device
 * than before. */
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
    uint64_t reserved_bytes; /* taken from the device; where the policy has one range for good, as
                                far up as it was ever used */
    uint64_t used_bytes;
    uint64_t free_bytes; /* reserved, less used and forgotten */
    uint64_t forgotten_bytes;
    uint64_t pending_bytes; /* part of the free ones: freed, but waiting for events of streams */
    uint64_t blocks;        /* within what is reserved */
    uint64_t forgotten_blocks;
    uint64_t segments;     /* pieces taken from the device */
    uint64_t device_calls; /* pieces taken and given back, in all */
    uint64_t retries;      /* flushes of the cache before another try, in all */
    bool cannot_fragment;  /* it has no blocks that could be of the wrong size: fragmentation is 0.0
                            */
};

/* The live allocations on the GPU, for check: calls visit for each. */
typedef void (*policy_visit)(void *context, const struct policy_placement *placement);
struct policy_live {
    void (*each)(const struct policy_live *live, policy_visit visit, void *context);
    const void *context;             /* each's own */
    uint64_t largest_capacity_bytes; /* so far: more was never reserved */
};

/* One block, for each_block. */
enum policy_block_state {
    POLICY_BLOCK_FREE,
    POLICY_BLOCK_USED,
    POLICY_BLOCK_PENDING,
    POLICY_BLOCK_FORGOTTEN
};
struct policy_block {
    uint64_t offset;
    uint64_t bytes;
    uint64_t stream;  /* whose free memory it is, where the policy keeps streams apart; else 0 */
    uint64_t segment; /* offset of the piece of the device it lies in */
    enum policy_block_state state;
};
typedef void (*policy_see)(void *context, const struct policy_block *block);

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

    /* true: can be used again; false: forgotten. Needs no memory, cannot fail. */
    bool (*release)(struct policy *policy, const struct policy_placement *placement,
                    const struct policy_free *how);

    void (*measure)(const struct policy *policy, struct policy_measures *measures);

    /* Recomputes its accounts from its own lists and the live placements. 0, with what it found in
     * the audit, or WORSEGPU_NO_MEMORY. */
    int (*check)(const struct policy *policy, const struct policy_live *live, struct audit *audit);

    /* Calls `see` for every block in the order of offsets. For pictures and explanations. */
    void (*each_block)(const struct policy *policy, policy_see see, void *context);

    /* ---- From here on each may be NULL or 0: the policy has nothing of the kind. */

    /* What can be set, `knob_count` of them. */
    const struct policy_knob *knobs;
    size_t knob_count;

    /* What the types and ranges of the knobs do not say: whether these values fit each other and
     * the configuration. false with a sentence for the user in `problem`. */
    bool (*knobs_fit)(const struct knob_value *values, const struct worsegpu_config *config,
                      char problem[KNOBS_PROBLEM_SIZE]);

    /* The block is used on another stream too: once freed it waits for that stream's events. 0 or
     * WORSEGPU_NO_MEMORY. */
    int (*record_stream)(struct policy *policy, const struct policy_placement *placement,
                         uint64_t stream);

    /* At the device, the `count` oldest events of the stream that have not completed do so; with
     * `newest` the newest ones. The policy itself looks when it would. */
    void (*event_done)(struct policy *policy, uint64_t stream, uint64_t count, bool newest);

    /* Gives everything cached back to the device. */
    void (*empty_cache)(struct policy *policy);

    /* Its own figures under the names of the modelled allocator. */
    void (*statistics)(const struct policy *policy, const struct statistics_sink *sink);

    /* The largest free block: with free_bytes the external fragmentation. O(log n) or better, or
     * its comment says why not. NULL where the policy cannot fragment. */
    uint64_t (*largest_free)(const struct policy *policy);
};

struct policy {
    const struct policy_operations *operations;
};

/* By name, NULL when there is none; by index, NULL after the last. */
const struct policy_operations *policy_find(const char *name);
const struct policy_operations *policy_at(size_t index);

#endif
