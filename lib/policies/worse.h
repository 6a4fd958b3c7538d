/* Policy "worse": the decisions of the Python reference, bit for bit (tests/golden/README.md).
 *
 * A list of blocks that only grows. A request goes to the GPU with gpu_probability; its size is
 * rounded up to a bucket drawn from four, and sometimes doubled. It takes the first free block of
 * exactly that size, else a new block at the end, else the GPU is full. Blocks are never split,
 * joined or given back, and a free may forget its block. */
#ifndef POLICIES_WORSE_H
#define POLICIES_WORSE_H

#include "lib/policies/free_index.h"
#include "lib/policy.h"

extern const struct policy_operations policy_worse;

/* A block's size and state in one word, so that a walk over the list reads nothing else: a free
 * block is its plain size. Sizes stay below 2^54 (twice WORSEGPU_MAX_BYTES rounded up), far from
 * the two bits. */
#define WORSE_STATE_SHIFT 62
#define WORSE_SIZE_BITS ((UINT64_C(1) << WORSE_STATE_SHIFT) - 1)

enum worse_state {
    WORSE_FREE,
    WORSE_USED,
    WORSE_FORGOTTEN
};

/* Its state, open to the tests that break it. Lives as long as its allocator. Three arrays for the
 * blocks, by what is looked at together; the index is used only with WORSEGPU_SCAN_ACCOUNTED. */
struct worse_policy {
    struct policy policy;
    const struct worsegpu_memory *memory;
    const struct worsegpu_config *config;
    struct python_random *random;
    uint64_t *states;         /* size and state of each block */
    uint64_t *offsets;        /* where each begins */
    struct free_links *links; /* the index's */
    size_t states_capacity;
    size_t offsets_capacity;
    size_t links_capacity;
    size_t blocks;
    struct free_index index;
    uint64_t reserved_bytes;
    uint64_t used_bytes;
    uint64_t free_bytes;
    uint64_t forgotten_bytes;
    uint64_t forgotten_blocks;
    uint64_t largest_free_bytes; /* at least the size of the largest free block */
    bool largest_is_stale;       /* it may be more than that */
    struct worse_policy *self;   /* for the look that keeps what it finds */
};

/* The audit of its lists; in worse_check.c. */
int worse_check(const struct policy *policy, const struct policy_live *live, struct audit *audit);

#endif
