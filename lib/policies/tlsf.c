/* TLSF; see tlsf.h. */
#include "lib/policies/tlsf.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/memory.h"
#include "lib/statistics.h"

enum {
    WORD_BYTES = 8,
    HEADER_BYTES = 8, /* in front of each payload; the end mark is one more */
    LEAST_PAYLOAD = 24,
    SPLIT_BYTES = 32,  /* the least rest that becomes a block: a header and the least payload */
    SMALL_BYTES = 256, /* below it lists are 8 bytes apart */
    LISTS_EACH = 32,   /* second-level lists of a first-level one */
    FIRST_LOG2 = 7,    /* first number 1 is for sizes from 2^8 on */
    LEAST_CAPACITY = LEAST_PAYLOAD + 2 * HEADER_BYTES,
    KNOB_FL_INDEX_MAX = 0
};

static struct tlsf_policy *mine(struct policy *policy)
{
    return (struct tlsf_policy *)policy;
}

static const struct tlsf_policy *looked_at(const struct policy *policy)
{
    return (const struct tlsf_policy *)policy;
}

static inline unsigned floor_log2(uint64_t value)
{
    return 63 - (unsigned)__builtin_clzll(value);
}

static inline uint64_t rounded_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

uint32_t tlsf_list_of(uint64_t payload_bytes)
{
    if (payload_bytes < SMALL_BYTES)
        return (uint32_t)(payload_bytes / WORD_BYTES);
    unsigned log2 = floor_log2(payload_bytes);
    return LISTS_EACH * (log2 - FIRST_LOG2) + (uint32_t)(payload_bytes >> (log2 - 5)) - LISTS_EACH;
}

static uint32_t class_of(const void *context, const struct block *block)
{
    (void)context;
    return tlsf_list_of(block->bytes - HEADER_BYTES);
}

static inline void list(struct class_range *range, uint32_t block)
{
    class_range_push(range, class_of(NULL, blocks_at(&range->blocks, block)), block);
}

/* ------------------------------------------------------------------------------ life */

/* All blocks together, headers with them. */
static uint64_t range_bytes(uint64_t capacity_bytes)
{
    return capacity_bytes / WORD_BYTES * WORD_BYTES - HEADER_BYTES;
}

static int tlsf_create(const struct policy_setup *setup, struct policy **policy)
{
    struct tlsf_policy *tlsf = memory_allocate_zeroed(setup->memory, 1, sizeof(*tlsf));
    if (!tlsf)
        return WORSEGPU_NO_MEMORY;
    tlsf->policy.operations = &policy_tlsf;
    tlsf->limit = UINT64_C(1) << setup->knobs[KNOB_FL_INDEX_MAX].count;
    if (class_range_init(&tlsf->range, setup, range_bytes(setup->config->gpu_capacity), false) !=
        WORSEGPU_OK) {
        policy_tlsf.destroy(&tlsf->policy);
        return WORSEGPU_NO_MEMORY;
    }
    list(&tlsf->range, tlsf->range.last);
    *policy = &tlsf->policy;
    return WORSEGPU_OK;
}

static void tlsf_destroy(struct policy *policy)
{
    struct tlsf_policy *tlsf = mine(policy);
    const struct worsegpu_memory *memory = tlsf->range.memory;
    class_range_release_memory(&tlsf->range);
    memory_release_array(memory, tlsf, 1, sizeof(*tlsf));
}

/* ------------------------------------------------------------------------------ place, release */

/* The free block for a payload: the head of the lowest list whose blocks are all large enough, or
 * BLOCK_NONE. The list may be one at or above the limit, where no block is. */
static inline uint32_t search(const struct tlsf_policy *tlsf, uint64_t bytes)
{
    if (bytes >= SMALL_BYTES)
        bytes += (UINT64_C(1) << (floor_log2(bytes) - 5)) - 1;
    uint32_t class = class_lists_at_least(&tlsf->range.lists, tlsf_list_of(bytes));
    return class == CLASS_NONE ? BLOCK_NONE : tlsf->range.lists.heads[class];
}

/* How much is left below a payload with this alignment: nothing, or enough for a block. */
static inline uint64_t gap_below(uint64_t payload, uint64_t alignment)
{
    uint64_t aligned = rounded_up(payload, alignment);
    uint64_t gap = aligned - payload;
    if (gap > 0 && gap < SPLIT_BYTES) {
        uint64_t short_of = SPLIT_BYTES - gap;
        aligned = rounded_up(aligned + (short_of > alignment ? short_of : alignment), alignment);
    }
    return aligned - payload;
}

static int tlsf_place(struct policy *policy, const struct policy_request *request,
                      struct policy_outcome *outcome)
{
    struct tlsf_policy *tlsf = mine(policy);
    struct class_range *range = &tlsf->range;
    outcome->blocks_scanned = 0;
    if (class_range_reserve(range, 2) != WORSEGPU_OK)
        return WORSEGPU_NO_MEMORY;

    uint64_t alignment = request->alignment > WORD_BYTES ? request->alignment : WORD_BYTES;
    if (request->requested_bytes == 0 || request->requested_bytes >= tlsf->limit ||
        alignment >= tlsf->limit)
        return POLICY_FULL;
    uint64_t payload = rounded_up(request->requested_bytes, WORD_BYTES);
    if (payload < LEAST_PAYLOAD)
        payload = LEAST_PAYLOAD;
    uint64_t wanted = payload;
    if (alignment > WORD_BYTES)
        wanted = rounded_up(payload + alignment + SPLIT_BYTES, alignment);
    uint32_t block = wanted < tlsf->limit ? search(tlsf, wanted) : BLOCK_NONE;
    if (block == BLOCK_NONE)
        return POLICY_FULL;
    outcome->blocks_scanned = 1;

    /* Where it will lie, before anything is cut. */
    const struct block *found = blocks_at(&range->blocks, block);
    uint64_t gap = gap_below(found->offset + HEADER_BYTES, alignment);
    uint64_t bytes = found->bytes - gap;
    if (bytes >= payload + HEADER_BYTES + SPLIT_BYTES)
        bytes = payload + HEADER_BYTES;
    if (!class_range_allows(range, found->offset + gap + bytes))
        return POLICY_FULL;
    if (!policy_admits(request, bytes))
        return POLICY_NOT_ADMITTED;

    class_range_remove(range, block);
    if (gap > 0) {
        uint32_t below = block;
        block = class_range_cut(range, below, gap);
        list(range, below);
    }
    if (bytes < blocks_at(&range->blocks, block)->bytes)
        list(range, class_range_cut(range, block, bytes));
    class_range_hand_out(range, block, request->requested_bytes, &outcome->placement);
    outcome->placement.offset += HEADER_BYTES;
    return POLICY_PLACED;
}

static bool tlsf_release(struct policy *policy, const struct policy_placement *placement,
                         const struct policy_free *how)
{
    struct class_range *range = &mine(policy)->range;
    uint32_t block = class_range_take_back(range, placement, how);
    if (block == BLOCK_NONE)
        return false;
    list(range, block);
    return true;
}

/* ------------------------------------------------------------------------------ figures */

static void tlsf_measure(const struct policy *policy, struct policy_measures *measures)
{
    class_range_measure(&looked_at(policy)->range, measures);
}

static uint64_t tlsf_largest_free(const struct policy *policy)
{
    return class_range_largest_free(&looked_at(policy)->range);
}

/* What a walk over the pool finds, in payload bytes. It knows used and free blocks alone: a
 * forgotten one was never freed. */
static void tlsf_statistics(const struct policy *policy, const struct statistics_sink *sink)
{
    const struct class_range *range = &looked_at(policy)->range;
    const struct blocks *blocks = &range->blocks;
    uint64_t used = blocks->count[BLOCK_USED] + blocks->count[BLOCK_FORGOTTEN];
    uint64_t used_bytes = blocks->bytes[BLOCK_USED] + blocks->bytes[BLOCK_FORGOTTEN];
    uint64_t free_blocks = blocks->count[BLOCK_FREE];
    uint64_t largest = class_range_largest(range);
    sink->count(sink->context, "used_blocks", used);
    sink->count(sink->context, "used_bytes", used_bytes - used * HEADER_BYTES);
    sink->count(sink->context, "free_blocks", free_blocks);
    sink->count(sink->context, "free_bytes",
                blocks->bytes[BLOCK_FREE] - free_blocks * HEADER_BYTES);
    sink->count(sink->context, "largest_free", largest > 0 ? largest - HEADER_BYTES : 0);
}

static void tlsf_each_block(const struct policy *policy, policy_see see, void *context)
{
    blocks_each(&looked_at(policy)->range.blocks, NULL, NULL, see, context);
}

static int tlsf_check(const struct policy *policy, const struct policy_live *live,
                      struct audit *audit)
{
    return class_range_check(&looked_at(policy)->range, class_of, NULL, live, audit);
}

/* ------------------------------------------------------------------------------ knobs */

static bool tlsf_knobs_fit(const struct knob_value *values, const struct worsegpu_config *config,
                           char problem[KNOBS_PROBLEM_SIZE])
{
    uint64_t capacity = config->gpu_capacity;
    if (capacity < LEAST_CAPACITY) {
        snprintf(problem, KNOBS_PROBLEM_SIZE,
                 "tlsf needs a gpu_capacity of at least %d: a header, %d bytes and the end mark",
                 LEAST_CAPACITY, LEAST_PAYLOAD);
        return false;
    }
    /* A pool is one free block at first, and that must have a list. */
    uint64_t payload = range_bytes(capacity) - HEADER_BYTES;
    if (payload >> values[KNOB_FL_INDEX_MAX].count == 0)
        return true;
    snprintf(problem, KNOBS_PROBLEM_SIZE,
             "fl_index_max must be at least %u with a gpu_capacity of %" PRIu64
             ": it is log2 of the size limit",
             floor_log2(payload) + 1, capacity);
    return false;
}

static const struct policy_knob tlsf_knobs[] = {
    [KNOB_FL_INDEX_MAX] = {"fl_index_max", KNOB_COUNT, "32", 9, 53, NULL,
                           "log2 of the size that no block reaches; the library is built with 32"},
};

const struct policy_operations policy_tlsf = {
    .name = "tlsf",
    .summary = "Two-level segregated fit as mattconte/tlsf has it, its headers in the range.",
    .create = tlsf_create,
    .destroy = tlsf_destroy,
    .place = tlsf_place,
    .release = tlsf_release,
    .measure = tlsf_measure,
    .check = tlsf_check,
    .knobs = tlsf_knobs,
    .knob_count = sizeof(tlsf_knobs) / sizeof(tlsf_knobs[0]),
    .knobs_fit = tlsf_knobs_fit,
    .statistics = tlsf_statistics,
    .largest_free = tlsf_largest_free,
    .each_block = tlsf_each_block,
};
