/* OffsetAllocator; see offset.h. */
#include "lib/policies/offset.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/memory.h"
#include "lib/statistics.h"

enum {
    MANTISSA_BITS = 3,
    MANTISSA_VALUES = 1 << MANTISSA_BITS,
    KNOB_MAX_ALLOCS = 0,
    KNOB_UNIT_BYTES = 1
};
#define MAX_UNITS ((uint64_t)UINT32_MAX)

static struct offset_policy *mine(struct policy *policy)
{
    return (struct offset_policy *)policy;
}

static const struct offset_policy *looked_at(const struct policy *policy)
{
    return (const struct offset_policy *)policy;
}

/* ------------------------------------------------------------------------------ classes */

static unsigned floor_log2(uint64_t value)
{
    return 63 - (unsigned)__builtin_clzll(value);
}

uint32_t offset_class_down(uint64_t units)
{
    if (units < MANTISSA_VALUES)
        return (uint32_t)units;
    unsigned shift = floor_log2(units) - MANTISSA_BITS;
    return MANTISSA_VALUES * (shift + 1) + (uint32_t)(units >> shift) % MANTISSA_VALUES;
}

uint32_t offset_class_up(uint64_t units)
{
    if (units < MANTISSA_VALUES)
        return (uint32_t)units;
    unsigned shift = floor_log2(units) - MANTISSA_BITS;
    bool exact = (units & ((UINT64_C(1) << shift) - 1)) == 0;
    return offset_class_down(units) + !exact;
}

uint64_t offset_class_floor(uint32_t class)
{
    if (class < MANTISSA_VALUES)
        return class;
    return (uint64_t)(MANTISSA_VALUES + class % MANTISSA_VALUES) << (class / MANTISSA_VALUES - 1);
}

/* Divisions are slow, and nearly everybody counts in bytes. */
static inline uint64_t units_of(const struct offset_policy *offset, uint64_t bytes)
{
    return offset->unit_bytes == 1 ? bytes : bytes / offset->unit_bytes;
}

static uint32_t class_of(const void *context, const struct block *block)
{
    return offset_class_down(units_of(context, block->bytes));
}

static inline void list(struct offset_policy *offset, uint32_t block)
{
    class_range_push(&offset->range, class_of(offset, blocks_at(&offset->range.blocks, block)),
                     block);
}

/* ------------------------------------------------------------------------------ life */

static int offset_create(const struct policy_setup *setup, struct policy **policy)
{
    struct offset_policy *offset = memory_allocate_zeroed(setup->memory, 1, sizeof(*offset));
    if (!offset)
        return WORSEGPU_NO_MEMORY;
    offset->policy.operations = &policy_offset;
    offset->max_allocs = setup->knobs[KNOB_MAX_ALLOCS].count;
    offset->unit_bytes = setup->knobs[KNOB_UNIT_BYTES].count;
    uint64_t units = setup->config->gpu_capacity / offset->unit_bytes;
    if (class_range_init(&offset->range, setup, units * offset->unit_bytes, false) != WORSEGPU_OK) {
        policy_offset.destroy(&offset->policy);
        return WORSEGPU_NO_MEMORY;
    }
    list(offset, offset->range.last);
    *policy = &offset->policy;
    return WORSEGPU_OK;
}

static void offset_destroy(struct policy *policy)
{
    struct offset_policy *offset = mine(policy);
    const struct worsegpu_memory *memory = offset->range.memory;
    class_range_release_memory(&offset->range);
    memory_release_array(memory, offset, 1, sizeof(*offset));
}

/* ------------------------------------------------------------------------------ place, release */

static bool table_is_full(const struct offset_policy *offset)
{
    const struct blocks *blocks = &offset->range.blocks;
    return blocks->length - blocks->spares + 1 >= offset->max_allocs;
}

/* Cuts a free block that is in no list down to `bytes`; what is left above is listed. The number of
 * the low part. */
static inline uint32_t cut_down(struct offset_policy *offset, uint32_t block, uint64_t bytes)
{
    uint64_t had = blocks_at(&offset->range.blocks, block)->bytes;
    if (had == bytes)
        return block;
    list(offset, class_range_cut(&offset->range, block, bytes));
    return block;
}

static int offset_place(struct policy *policy, const struct policy_request *request,
                        struct policy_outcome *outcome)
{
    struct offset_policy *offset = mine(policy);
    struct class_range *range = &offset->range;
    outcome->blocks_scanned = 0;
    if (class_range_reserve(range, 1) != WORSEGPU_OK)
        return WORSEGPU_NO_MEMORY;

    uint64_t units = units_of(offset, request->requested_bytes);
    units += units * offset->unit_bytes != request->requested_bytes;
    if (request->requested_bytes > range->bytes || table_is_full(offset))
        return POLICY_FULL;
    uint32_t class = class_lists_at_least(&range->lists, offset_class_up(units));
    if (class == CLASS_NONE)
        return POLICY_FULL;
    outcome->blocks_scanned = 1;
    uint32_t block = range->lists.heads[class];
    uint64_t bytes = units * offset->unit_bytes;
    if (!class_range_allows(range, blocks_at(&range->blocks, block)->offset + bytes))
        return POLICY_FULL;
    if (!policy_admits(request, bytes))
        return POLICY_NOT_ADMITTED;

    class_range_remove(range, block);
    class_range_hand_out(range, cut_down(offset, block, bytes), request->requested_bytes,
                         &outcome->placement);
    return POLICY_PLACED;
}

static bool offset_release(struct policy *policy, const struct policy_placement *placement,
                           const struct policy_free *how)
{
    struct offset_policy *offset = mine(policy);
    uint32_t block = class_range_take_back(&offset->range, placement, how);
    if (block == BLOCK_NONE)
        return false;
    list(offset, block);
    return true;
}

/* ------------------------------------------------------------------------------ figures */

static void offset_measure(const struct policy *policy, struct policy_measures *measures)
{
    class_range_measure(&looked_at(policy)->range, measures);
}

static uint64_t offset_largest_free(const struct policy *policy)
{
    return class_range_largest_free(&looked_at(policy)->range);
}

static uint64_t blocks_in(const struct class_range *range, uint32_t class)
{
    uint64_t count = 0;
    for (uint32_t block = range->lists.heads[class]; block != BLOCK_NONE;
         block = blocks_at(&range->blocks, block)->next)
        count++;
    return count;
}

/* In units, as the real one tells them. A full table of nodes makes its report say 0. */
static void offset_statistics(const struct policy *policy, const struct statistics_sink *sink)
{
    const struct offset_policy *offset = looked_at(policy);
    const struct class_range *range = &offset->range;
    uint32_t highest = class_lists_highest(&range->lists);
    bool told = !table_is_full(offset);
    uint64_t free_units = units_of(offset, range->blocks.bytes[BLOCK_FREE]);
    uint64_t largest = highest == CLASS_NONE ? 0 : offset_class_floor(highest);
    sink->count(sink->context, "totalFreeSpace", told ? free_units : 0);
    sink->count(sink->context, "largestFreeRegion", told ? largest : 0);
    if (!sink->lists)
        return;
    sink->list_begin(sink->context, "free_regions");
    for (uint32_t class = class_lists_at_least(&range->lists, 0); class != CLASS_NONE;
         class = class_lists_at_least(&range->lists, class + 1)) {
        uint64_t row[2] = {offset_class_floor(class), blocks_in(range, class)};
        sink->row(sink->context, NULL, row, 2);
    }
    sink->list_end(sink->context);
}

static void offset_each_block(const struct policy *policy, policy_see see, void *context)
{
    blocks_each(&looked_at(policy)->range.blocks, NULL, NULL, see, context);
}

static int offset_check(const struct policy *policy, const struct policy_live *live,
                        struct audit *audit)
{
    const struct offset_policy *offset = looked_at(policy);
    return class_range_check(&offset->range, class_of, offset, live, audit);
}

/* ------------------------------------------------------------------------------ knobs */

static bool offset_knobs_fit(const struct knob_value *values, const struct worsegpu_config *config,
                             char problem[KNOBS_PROBLEM_SIZE])
{
    uint64_t capacity = config->gpu_capacity;
    uint64_t unit = values[KNOB_UNIT_BYTES].count;
    if (unit > capacity) {
        snprintf(problem, KNOBS_PROBLEM_SIZE,
                 "unit_bytes must be at most gpu_capacity, which is %" PRIu64, capacity);
        return false;
    }
    if (capacity / unit > MAX_UNITS) {
        snprintf(problem, KNOBS_PROBLEM_SIZE,
                 "unit_bytes must be at least %" PRIu64 " with a gpu_capacity of %" PRIu64
                 ": offset counts in units of 32 bits",
                 capacity / (MAX_UNITS + 1) + 1, capacity);
        return false;
    }
    return true;
}

static const struct policy_knob offset_knobs[] = {
    [KNOB_MAX_ALLOCS] = {"max_allocs", KNOB_COUNT, "131072", 2, UINT32_MAX, NULL,
                         "Entries of the node table: one for each block, used or free, and one "
                         "spare"},
    [KNOB_UNIT_BYTES] = {"unit_bytes", KNOB_BYTES, "1", 1, WORSEGPU_MAX_BYTES, NULL,
                         "Bytes of one unit; requests are rounded up to whole units"},
};

const struct policy_operations policy_offset = {
    .name = "offset",
    .summary = "OffsetAllocator: 256 float-like size classes, last in first out, cut exactly.",
    .create = offset_create,
    .destroy = offset_destroy,
    .place = offset_place,
    .release = offset_release,
    .measure = offset_measure,
    .check = offset_check,
    .knobs = offset_knobs,
    .knob_count = sizeof(offset_knobs) / sizeof(offset_knobs[0]),
    .knobs_fit = offset_knobs_fit,
    .statistics = offset_statistics,
    .largest_free = offset_largest_free,
    .each_block = offset_each_block,
};
