/* What both algorithms of policy "vma" are asked, and answer. */
#ifndef POLICIES_VMA_SPOT_H
#define POLICIES_VMA_SPOT_H

#include <stdbool.h>
#include <stdint.h>

/* Of linear: which ends are in use. */
enum vma_mode {
    VMA_MODE_NONE,
    VMA_MODE_RING,
    VMA_MODE_STACK
};

struct vma_want {
    uint64_t bytes;     /* at least 1 */
    uint64_t alignment; /* a power of two */
    bool upper;         /* linear's upper end */
};

/* Where something goes. */
struct vma_spot {
    uint32_t block; /* the free block it lies in */
    uint64_t offset;
    uint64_t scanned;   /* free blocks, or ends, looked at; filled in without a spot as well */
    uint32_t list;      /* of linear: the list it joins */
    enum vma_mode mode; /* of linear: from then on */
};

#endif
