/* The TLSF algorithm of policy "vma": which free range a request gets, by strategy.
 *
 * default tries the list in which everything is large enough, the tail, the list of the size
 * itself, and the lists above; min_time first looks at the head of a list alone; min_memory begins
 * with the list of the size itself; min_offset takes the lowest offset. */
#ifndef POLICIES_VMA_TLSF_H
#define POLICIES_VMA_TLSF_H

#include "lib/policies/class_range.h"
#include "lib/policies/vma_spot.h"

enum vma_strategy {
    VMA_DEFAULT,
    VMA_MIN_TIME,
    VMA_MIN_MEMORY,
    VMA_MIN_OFFSET
};

/* The list of a size of at least 1. */
static inline uint32_t vma_list_of(uint64_t bytes)
{
    if (bytes <= 256)
        return (uint32_t)((bytes - 1) / 8);
    unsigned log2 = 63 - (unsigned)__builtin_clzll(bytes);
    return 32 * (log2 - 8) + (uint32_t)(bytes >> (log2 - 5));
}

/* Whether there is a place. */
bool vma_tlsf_find(const struct class_range *range, enum vma_strategy strategy,
                   const struct vma_want *want, struct vma_spot *spot);

#endif
