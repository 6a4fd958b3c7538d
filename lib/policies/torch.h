/* Policies "torch" and "torch_expandable": PyTorch's CUDA caching allocator, as of 2.6.0.
 *
 * Two pools (up to 1 MiB, above), each kept apart by stream; best fit among the free blocks of the
 * stream; blocks are split and merge again inside the segment that they were cut from; segments
 * come from the device in 2 MiB, 20 MiB or larger pieces and go back only when the device is full
 * or the cache is emptied. The second policy has `expandable_segments:True`: one long address range
 * for each pool and stream, with pages of memory put behind it as needed.
 *
 * The rules are facts about c10/cuda/CUDACachingAllocator.cpp and CUDAAllocatorConfig.cpp of
 * pytorch/pytorch @1eba9b3aa3c43f86f4a2c807ac8e12c4a7767340 (v2.6.0), as the page
 * golden-allocators/README.md, section "PyTorch caching allocator", tells them; no code of it is
 * here. PyTorch has no alignment of a request: every offset is a multiple of 512, and one that asks
 * for more is treated like any other.
 *
 * What the lab needs to check a recorded snapshot is below: a start in the middle of a run, and
 * questions about segments. */
#ifndef POLICIES_TORCH_H
#define POLICIES_TORCH_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/policy.h"

extern const struct policy_operations policy_torch;
extern const struct policy_operations policy_torch_expandable;

/* What a request of so many bytes is rounded up to (at least 1 byte). */
uint64_t torch_round_size(const struct policy *policy, uint64_t bytes);

/* How large a segment is taken for a rounded request that no cached block serves. */
uint64_t torch_segment_size(const struct policy *policy, uint64_t rounded_bytes);

/* ---- Restoring a state that a log begins with: before the first place, on a policy made with a
 * device source, which is not asked. None of it counts as a call to the device, nor is the watch
 * told. */

/* A segment that was there already: one free block of its stream, in the small or the large pool.
 * 0, WORSEGPU_NO_MEMORY, or 1 when it is empty, is no multiple of 512, or overlaps another. */
int torch_restore_segment(struct policy *policy, uint64_t offset, uint64_t bytes, uint64_t stream,
                          bool small);

/* An allocation that was there already: cuts [offset, offset + bytes) out of a free block. What is
 * left below and above stays free. 0 with *placement, WORSEGPU_NO_MEMORY, or 1 when no free block
 * holds the whole range. O(log n + blocks in the segment). */
int torch_restore_block(struct policy *policy, uint64_t offset, uint64_t bytes,
                        uint64_t requested_bytes, struct policy_placement *placement);

/* ---- Questions and releases during a replay. */

struct torch_segment_facts {
    uint64_t offset;
    uint64_t bytes;
    uint64_t stream;
    bool small;
    bool expandable;
    bool whole_and_free; /* it could be given back now */
};

/* The segment in which `offset` lies; false: in none. */
bool torch_segment_at(const struct policy *policy, uint64_t offset,
                      struct torch_segment_facts *facts);

/* Gives one whole free segment back to the device, as a recorded release says. 0, or 1 when none
 * begins there or when it is not whole and free: nothing has changed then. */
int torch_release_segment(struct policy *policy, uint64_t offset);

/* How often it has emptied its cache because the device had said no. */
uint64_t torch_retries(const struct policy *policy);

#endif
