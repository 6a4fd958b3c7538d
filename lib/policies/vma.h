/* Policy "vma": the virtual block of VulkanMemoryAllocator.
 *
 * Rules: GPUOpen-LibrariesAndSDKs/VulkanMemoryAllocator at e386068d174c, as the golden data of it
 * shows them. Sizes are not rounded, alignment is honoured. Two algorithms:
 *
 * tlsf: free ranges lie in lists by size class (steps of 8 up to 256, then 32 classes for each
 * power of two), but for the *tail*, the free range at the end, which is in no list. Four
 * strategies say in which order lists and tail are tried.
 *
 * linear: only the ends of what is in use are used, as a ring or as two stacks; see vma_linear.h.
 *
 * tlsf is O(1) where the head of a list fits, which with alignment 1 is nearly always. Otherwise it
 * goes through whole lists, in the order in which they were filled, because the real one does and
 * its answers depend on that order. min_offset and linear are O(log n), but min_offset tries one
 * candidate after another where an alignment makes a large enough one useless. Statistics are
 * O(n), as those of the real one are. */
#ifndef POLICIES_VMA_H
#define POLICIES_VMA_H

#include "lib/policies/class_range.h"
#include "lib/policies/vma_linear.h"
#include "lib/policies/vma_tlsf.h"

extern const struct policy_operations policy_vma;

enum vma_algorithm {
    VMA_TLSF,
    VMA_LINEAR
};

/* Its state, open to the tests that break it. */
struct vma_policy {
    struct policy policy;
    struct class_range range; /* its tail is used by tlsf alone */
    struct vma_linear ends;   /* used by linear alone */
    enum vma_algorithm algorithm;
    enum vma_strategy strategy;
    uint64_t alignment; /* the least */
};

#endif
