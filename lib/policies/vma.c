/* VMA's virtual block; see vma.h. */
#include "lib/policies/vma.h"

#include <stdio.h>

#include "base/memory.h"
#include "lib/statistics.h"

enum {
    KNOB_ALGORITHM,
    KNOB_STRATEGY,
    KNOB_ALIGNMENT
};

static struct vma_policy *mine(struct policy *policy)
{
    return (struct vma_policy *)policy;
}

static const struct vma_policy *looked_at(const struct policy *policy)
{
    return (const struct vma_policy *)policy;
}

static inline void list(struct vma_policy *vma, uint32_t block)
{
    class_range_push(&vma->range, vma_list_of(blocks_at(&vma->range.blocks, block)->bytes), block);
}

/* ------------------------------------------------------------------------------ life */

static int vma_create(const struct policy_setup *setup, struct policy **policy)
{
    struct vma_policy *vma = memory_allocate_zeroed(setup->memory, 1, sizeof(*vma));
    if (!vma)
        return WORSEGPU_NO_MEMORY;
    vma->policy.operations = &policy_vma;
    vma->algorithm = (enum vma_algorithm)setup->knobs[KNOB_ALGORITHM].count;
    vma->strategy = (enum vma_strategy)setup->knobs[KNOB_STRATEGY].count;
    vma->alignment = setup->knobs[KNOB_ALIGNMENT].count;
    vma_linear_init(&vma->ends, setup->memory);
    bool ordered = vma->algorithm == VMA_TLSF && vma->strategy == VMA_MIN_OFFSET;
    if (class_range_init(&vma->range, setup, setup->config->gpu_capacity, ordered) != WORSEGPU_OK) {
        policy_vma.destroy(&vma->policy);
        return WORSEGPU_NO_MEMORY;
    }
    if (vma->algorithm == VMA_TLSF)
        vma->range.tail = vma->range.last;
    else
        list(vma, vma->range.last);
    *policy = &vma->policy;
    return WORSEGPU_OK;
}

static void vma_destroy(struct policy *policy)
{
    struct vma_policy *vma = mine(policy);
    const struct worsegpu_memory *memory = vma->range.memory;
    vma_linear_release(&vma->ends);
    class_range_release_memory(&vma->range);
    memory_release_array(memory, vma, 1, sizeof(*vma));
}

/* ------------------------------------------------------------------------------ place, release */

/* Cuts the wanted piece out of the spot's block: first what is below it is listed, then what is
 * above it, unless that is the new tail. The number of the piece. */
static inline uint32_t carve(struct vma_policy *vma, const struct vma_spot *spot, uint64_t bytes)
{
    struct class_range *range = &vma->range;
    uint32_t block = spot->block;
    bool from_tail = block == range->tail;
    if (from_tail)
        range->tail = BLOCK_NONE;
    else
        class_range_remove(range, block);
    uint64_t gap = spot->offset - blocks_at(&range->blocks, block)->offset;
    if (gap > 0) {
        uint32_t below = block;
        block = class_range_cut(range, below, gap);
        list(vma, below);
    }
    if (blocks_at(&range->blocks, block)->bytes > bytes) {
        uint32_t rest = class_range_cut(range, block, bytes);
        if (from_tail)
            range->tail = rest;
        else
            list(vma, rest);
    }
    return block;
}

static int vma_place(struct policy *policy, const struct policy_request *request,
                     struct policy_outcome *outcome)
{
    struct vma_policy *vma = mine(policy);
    struct class_range *range = &vma->range;
    bool linear = vma->algorithm == VMA_LINEAR;
    outcome->blocks_scanned = 0;
    if (class_range_reserve(range, 2) != WORSEGPU_OK ||
        (linear && vma_linear_reserve(&vma->ends) != WORSEGPU_OK))
        return WORSEGPU_NO_MEMORY;
    if (request->requested_bytes == 0)
        return POLICY_FULL;

    const struct vma_want want = {
        .bytes = request->requested_bytes,
        .alignment = request->alignment > vma->alignment ? request->alignment : vma->alignment,
        .upper = request->upper,
    };
    struct vma_spot spot;
    bool found = linear ? vma_linear_find(&vma->ends, range, &want, &spot)
                        : vma_tlsf_find(range, vma->strategy, &want, &spot);
    outcome->blocks_scanned = spot.scanned;
    if (!found || !class_range_allows(range, spot.offset + want.bytes))
        return POLICY_FULL;
    if (!policy_admits(request, want.bytes))
        return POLICY_NOT_ADMITTED;

    uint32_t block = carve(vma, &spot, want.bytes);
    if (linear)
        vma_linear_append(&vma->ends, range, &spot, block);
    class_range_hand_out(range, block, want.bytes, &outcome->placement);
    return POLICY_PLACED;
}

static bool vma_release(struct policy *policy, const struct policy_placement *placement,
                        const struct policy_free *how)
{
    struct vma_policy *vma = mine(policy);
    struct class_range *range = &vma->range;
    if (vma->algorithm == VMA_LINEAR && !how->forget)
        vma_linear_drop(&vma->ends, range, (uint32_t)placement->cookie);
    uint32_t block = class_range_take_back(range, placement, how);
    if (block == BLOCK_NONE)
        return false;
    if (vma->algorithm == VMA_TLSF && block == range->last)
        range->tail = block;
    else
        list(vma, block);
    return true;
}

/* ------------------------------------------------------------------------------ figures */

static void vma_measure(const struct policy *policy, struct policy_measures *measures)
{
    class_range_measure(&looked_at(policy)->range, measures);
}

static uint64_t vma_largest_free(const struct policy *policy)
{
    return class_range_largest_free(&looked_at(policy)->range);
}

struct extent {
    uint64_t count;
    uint64_t least;
    uint64_t greatest;
};

static void extend(struct extent *extent, uint64_t bytes)
{
    extent->count++;
    if (bytes < extent->least)
        extent->least = bytes;
    if (bytes > extent->greatest)
        extent->greatest = bytes;
}

/* A forgotten block is an allocation like any other to the library that never heard of a free. */
static void vma_statistics(const struct policy *policy, const struct statistics_sink *sink)
{
    const struct class_range *range = &looked_at(policy)->range;
    const struct blocks *blocks = &range->blocks;
    struct extent allocations = {.least = UINT64_MAX};
    struct extent holes = {.least = UINT64_MAX};
    for (size_t i = 0; i < blocks->length; i++) {
        const struct block *item = &blocks->items[i];
        if (item->state == BLOCK_FREE)
            extend(&holes, item->bytes);
        else if (item->state != BLOCK_SPARE)
            extend(&allocations, item->bytes);
    }
    sink->count(sink->context, "blockCount", 1);
    sink->count(sink->context, "blockBytes", range->bytes);
    sink->count(sink->context, "allocationCount", allocations.count);
    sink->count(sink->context, "allocationBytes",
                blocks->bytes[BLOCK_USED] + blocks->bytes[BLOCK_FORGOTTEN]);
    sink->count(sink->context, "allocationSizeMin", allocations.least);
    sink->count(sink->context, "allocationSizeMax", allocations.greatest);
    sink->count(sink->context, "unusedRangeCount", holes.count);
    sink->count(sink->context, "unusedRangeSizeMin", holes.least);
    sink->count(sink->context, "unusedRangeSizeMax", holes.greatest);
}

static void vma_each_block(const struct policy *policy, policy_see see, void *context)
{
    blocks_each(&looked_at(policy)->range.blocks, NULL, NULL, see, context);
}

static uint32_t class_of(const void *context, const struct block *block)
{
    const struct class_range *range = context;
    bool is_tail = range->tail != BLOCK_NONE && block == blocks_at(&range->blocks, range->tail);
    return is_tail ? CLASS_NONE : vma_list_of(block->bytes);
}

static int vma_check(const struct policy *policy, const struct policy_live *live,
                     struct audit *audit)
{
    const struct vma_policy *vma = looked_at(policy);
    const struct class_range *range = &vma->range;
    int status = class_range_check(range, class_of, range, live, audit);
    if (status != WORSEGPU_OK || audit->broken)
        return status; /* what follows trusts the links */
    if (vma->algorithm == VMA_LINEAR)
        vma_linear_check(&vma->ends, range, audit);
    else
        audit_check(audit, INVARIANT_free_index_member,
                    (range->tail != BLOCK_NONE) ==
                        blocks_is(&range->blocks, range->last, BLOCK_FREE));
    return WORSEGPU_OK;
}

/* ------------------------------------------------------------------------------ knobs */

static bool vma_knobs_fit(const struct knob_value *values, const struct worsegpu_config *config,
                          char problem[KNOBS_PROBLEM_SIZE])
{
    (void)config;
    uint64_t alignment = values[KNOB_ALIGNMENT].count;
    if ((alignment & (alignment - 1)) == 0)
        return true;
    snprintf(problem, KNOBS_PROBLEM_SIZE, "alignment must be a power of two");
    return false;
}

static const struct policy_knob vma_knobs[] = {
    [KNOB_ALGORITHM] = {"algorithm", KNOB_CHOICE, "tlsf", 0, 0, "tlsf linear",
                        "How free space is found: lists by size, or the ends of what is in use"},
    [KNOB_STRATEGY] = {"strategy", KNOB_CHOICE, "default", 0, 0,
                       "default min_time min_memory min_offset",
                       "Of tlsf: which free ranges are tried first; linear has none"},
    [KNOB_ALIGNMENT] = {"alignment", KNOB_BYTES, "1", 1, UINT64_C(1) << 52, NULL,
                        "The least alignment of an allocation, a power of two"},
};

const struct policy_operations policy_vma = {
    .name = "vma",
    .summary =
        "VulkanMemoryAllocator's virtual block: TLSF in four strategies, or ring and stacks.",
    .create = vma_create,
    .destroy = vma_destroy,
    .place = vma_place,
    .release = vma_release,
    .measure = vma_measure,
    .check = vma_check,
    .knobs = vma_knobs,
    .knob_count = sizeof(vma_knobs) / sizeof(vma_knobs[0]),
    .knobs_fit = vma_knobs_fit,
    .statistics = vma_statistics,
    .largest_free = vma_largest_free,
    .each_block = vma_each_block,
};
