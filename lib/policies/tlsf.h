/* Policy "tlsf": Matthew Conte's two-level segregated fit, with its headers in the range.
 *
 * Rules: mattconte/tlsf 3.1 at deff9ab50934, 64-bit, as the golden data of it shows them. A word
 * has 8 bytes. The range is the pool; the control structure lies elsewhere, as if the pool had been
 * added by itself at an address that is a multiple of every alignment asked for.
 *
 * A block here is a header of 8 bytes and the payload above it: a placement's offset is that of the
 * payload, and what it reserves has the header in it. The library loses 16 bytes of a pool: 8 are
 * the header of its first block, which is part of that block here; the other 8, the end mark at the
 * top, lie above the last block, as what the capacity has above a multiple of 8 does.
 *
 * The limit of sizes is 2^fl_index_max. O(1), but for the largest free block, which is looked for
 * in a list. */
#ifndef POLICIES_TLSF_H
#define POLICIES_TLSF_H

#include "lib/policies/class_range.h"

extern const struct policy_operations policy_tlsf;

/* Its state, open to the tests that break it. */
struct tlsf_policy {
    struct policy policy;
    struct class_range range; /* all but the end mark */
    uint64_t limit;           /* payloads are smaller */
};

/* The list of a payload size: 32 for each first number. */
uint32_t tlsf_list_of(uint64_t payload_bytes);

#endif
