/* Policy "offset": OffsetAllocator, as it hands out ranges of a buffer.
 *
 * Rules: sebbbi/OffsetAllocator at 3610a7377088, as the golden data of it shows them. A size is put
 * into one of 256 classes, a float with three bits of mantissa; a free block lies in the list of
 * its size rounded down to a class, a request begins at its size rounded up to one. The head of the
 * lowest list that is not empty is taken, whatever else would fit better, and cut exactly. There is
 * a table of nodes: every block, free or not, takes one, and the last of them is never used.
 *
 * It counts in units, 32 bits of them. A request takes whole units. What is left of the capacity
 * above the last whole unit is never used. Alignment is not known to it: a request's is ignored.
 *
 * A request of 0 bytes gets a block of no size at the low end of the block it would have been cut
 * from. The façade never asks for one, and `check` does not take it for a block. O(1), but for the
 * largest free block, which is looked for in a list. */
#ifndef POLICIES_OFFSET_H
#define POLICIES_OFFSET_H

#include "lib/policies/class_range.h"

extern const struct policy_operations policy_offset;

/* Its state, open to the tests that break it. */
struct offset_policy {
    struct policy policy;
    struct class_range range;
    uint64_t unit_bytes;
    uint64_t max_allocs; /* entries of the node table */
};

/* The class of a size in units, rounded down and rounded up, and the least size of a class. */
uint32_t offset_class_down(uint64_t units);
uint32_t offset_class_up(uint64_t units);
uint64_t offset_class_floor(uint32_t class);

#endif
