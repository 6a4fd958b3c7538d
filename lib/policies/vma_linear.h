/* The linear algorithm of policy "vma": allocations are only put at the ends of two lists.
 *
 * List A grows upward from offset 0. When it has reached the end of the range, list B begins below
 * it (a ring: first in, first out); or B grows downward from the end of the range, for requests
 * that ask for the upper end (two stacks). An entry that is freed in the middle of its list stays
 * there, dead, and its space is lost until an end of the list has come that far.
 *
 * The blocks themselves are those of the range, whose dead entries are ordinary free blocks; here
 * is only who stands where in a list. Each call is O(1), amortised: an entry is dropped once. Lives
 * inside its policy. */
#ifndef POLICIES_VMA_LINEAR_H
#define POLICIES_VMA_LINEAR_H

#include "lib/policies/class_range.h"
#include "lib/policies/vma_spot.h"

/* Entries have numbers that rise from front to end; number n is at items[n mod capacity]. */
struct vma_entries {
    uint32_t *items; /* the entry's block, which knows its number as `own` and its list as `group`;
                        BLOCK_NONE: dead */
    size_t capacity; /* 0 or a power of two */
    uint64_t front;
    uint64_t end; /* one past the last */
};

struct vma_linear {
    const struct worsegpu_memory *memory;
    struct vma_entries lists[2];
    uint32_t a; /* which of them is A; the other one is B */
    enum vma_mode mode;
    uint64_t live; /* entries; forgotten ones are live for ever */
};

void vma_linear_init(struct vma_linear *linear, const struct worsegpu_memory *memory);
void vma_linear_release(struct vma_linear *linear);

/* Room for one more entry in each list. 0 or WORSEGPU_NO_MEMORY. */
int vma_linear_reserve(struct vma_linear *linear);

/* Whether there is a place; `scanned` is filled in either way. */
bool vma_linear_find(const struct vma_linear *linear, const struct class_range *range,
                     const struct vma_want *want, struct vma_spot *spot);

/* Puts the block, which has been cut to fit the spot, at the end of the spot's list. */
void vma_linear_append(struct vma_linear *linear, struct class_range *range,
                       const struct vma_spot *spot, uint32_t block);

/* The block's entry dies: to be called before the block is taken back. */
void vma_linear_drop(struct vma_linear *linear, const struct class_range *range, uint32_t block);

/* The audit of lists and mode. */
void vma_linear_check(const struct vma_linear *linear, const struct class_range *range,
                      struct audit *audit);

#endif
