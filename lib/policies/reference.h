/* Policy "reference": an honest counter, what the benchmark compares "worse" with.
 *
 * A request takes exactly what it asks for, on the GPU as long as it fits, and a free gives all of
 * it back, unless it is told to forget. A counter has no addresses: block_index is always 0, and
 * the offset is the bytes reserved before. What is in use counts as one block in a snapshot, and
 * what is forgotten as another. */
#ifndef POLICIES_REFERENCE_H
#define POLICIES_REFERENCE_H

#include "lib/policy.h"

extern const struct policy_operations policy_reference;

/* Its state, open to the tests that break it. Lives as long as its allocator. */
struct reference_policy {
    struct policy policy;
    const struct worsegpu_memory *memory;
    const struct worsegpu_config *config;
    uint64_t used_bytes;
    uint64_t forgotten_bytes; /* by worsegpu_forget: it loses nothing by itself */
};

#endif
