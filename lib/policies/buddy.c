/* buddy: the binary buddy system. Blocks are powers of two, cut in halves and joined with the other
 * half.
 *
 * After K. Knowlton, "A fast storage allocator", 1965, and D. Knuth, "The Art of Computer
 * Programming", volume 1, section 2.5. A request is rounded up to a power of two, at least
 * `minimum_block`. The free block most recently listed of the least size that is large enough is
 * taken, and halved until it fits: the low half goes on, the high half is listed. A freed block
 * joins its buddy, which is the block of its own size whose offset differs in the bit of that size
 * alone, while that is free and whole; and so on with the union.
 *
 * A capacity that is no power of two is covered by falling powers of two from offset 0 on. They
 * never join: of the block beyond its end, each could be the buddy, but not its size. What is less
 * than the least block stays unused at the end.
 *
 * An alignment that a request asks for is had by a block of at least that size. Each operation
 * takes a step for each power of two, O(log of the capacity). A smaller capacity lets nothing end
 * above it that would end higher up than anything did before; a larger one gives nothing. */
#include "lib/policies/buddy.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/memory.h"
#include "lib/statistics.h"

enum {
    KNOB_MINIMUM_BLOCK,
    KNOBS
};
enum {
    HIGHEST_ORDER = 63 /* sizes are at most 2^63 */
};

static struct buddy_policy *mine(struct policy *policy)
{
    return (struct buddy_policy *)policy;
}

static const struct buddy_policy *mine_to_read(const struct policy *policy)
{
    return (const struct buddy_policy *)policy;
}

/* The exponent of a power of two. */
static uint32_t order_of(uint64_t bytes)
{
    return (uint32_t)__builtin_ctzll(bytes);
}

static uint64_t power_at_most(uint64_t bytes)
{
    return UINT64_C(1) << (63 - __builtin_clzll(bytes));
}

static bool is_power(uint64_t bytes)
{
    return bytes != 0 && (bytes & (bytes - 1)) == 0;
}

static void list(struct buddy_policy *buddy, uint32_t block)
{
    uint64_t bytes = blocks_at(&buddy->blocks, block)->bytes;
    class_lists_push(&buddy->orders, &buddy->blocks, order_of(bytes), block);
}

/* Cuts a block; the number of the upper part. */
static uint32_t cut(struct buddy_policy *buddy, uint32_t block, uint64_t bytes)
{
    uint32_t upper = blocks_split(&buddy->blocks, block, bytes);
    if (block == buddy->last)
        buddy->last = upper;
    return upper;
}

/* ------------------------------------------------------------------------------ life */

static void buddy_destroy(struct policy *policy)
{
    struct buddy_policy *buddy = mine(policy);
    blocks_release(&buddy->blocks);
    memory_release_array(buddy->memory, buddy, 1, sizeof(*buddy));
}

/* Falling powers of two. After blocks_reserve. */
static void cover(struct buddy_policy *buddy)
{
    if (buddy->bytes == 0)
        return;
    buddy->last = blocks_add(&buddy->blocks, 0, buddy->bytes, BLOCK_FREE);
    for (uint32_t block = buddy->last; block != BLOCK_NONE;) {
        uint64_t bytes = blocks_at(&buddy->blocks, block)->bytes;
        uint64_t power = power_at_most(bytes);
        uint32_t above = power < bytes ? cut(buddy, block, power) : BLOCK_NONE;
        list(buddy, block);
        block = above;
    }
}

static int buddy_create(const struct policy_setup *setup, struct policy **policy)
{
    struct buddy_policy *buddy = memory_allocate_zeroed(setup->memory, 1, sizeof(*buddy));
    if (!buddy)
        return WORSEGPU_NO_MEMORY;
    buddy->policy.operations = &policy_buddy;
    buddy->memory = setup->memory;
    buddy->config = setup->config;
    buddy->minimum_bytes = setup->knobs[KNOB_MINIMUM_BLOCK].count;
    buddy->bytes = setup->config->gpu_capacity - setup->config->gpu_capacity % buddy->minimum_bytes;
    buddy->last = BLOCK_NONE;
    blocks_init(&buddy->blocks, setup->memory);
    class_lists_init(&buddy->orders);
    if (blocks_reserve(&buddy->blocks, HIGHEST_ORDER + 1) != WORSEGPU_OK) {
        buddy_destroy(&buddy->policy);
        return WORSEGPU_NO_MEMORY;
    }
    cover(buddy);
    *policy = &buddy->policy;
    return WORSEGPU_OK;
}

static bool buddy_knobs_fit(const struct knob_value *values, const struct worsegpu_config *config,
                            char problem[KNOBS_PROBLEM_SIZE])
{
    (void)config;
    if (is_power(values[KNOB_MINIMUM_BLOCK].count))
        return true;
    snprintf(problem, KNOBS_PROBLEM_SIZE,
             "minimum_block must be a power of two, and %" PRIu64 " is none",
             values[KNOB_MINIMUM_BLOCK].count);
    return false;
}

/* ------------------------------------------------------------------------------ place, release */

/* The size of the block for a request; 0 when there is no such power of two. */
static uint64_t bytes_for(const struct buddy_policy *buddy, const struct policy_request *request)
{
    uint64_t bytes = buddy->minimum_bytes;
    if (request->alignment > bytes)
        bytes = request->alignment;
    if (request->requested_bytes > UINT64_C(1) << HIGHEST_ORDER)
        return 0;
    if (request->requested_bytes > bytes)
        bytes = request->requested_bytes;
    return is_power(bytes) ? bytes : power_at_most(bytes) << 1;
}

static bool allowed(const struct buddy_policy *buddy, uint64_t end)
{
    return end <= buddy->config->gpu_capacity || end <= buddy->blocks.high_water;
}

static int buddy_place(struct policy *policy, const struct policy_request *request,
                       struct policy_outcome *outcome)
{
    struct buddy_policy *buddy = mine(policy);
    struct blocks *blocks = &buddy->blocks;
    outcome->blocks_scanned = 0;
    if (blocks_reserve(blocks, HIGHEST_ORDER) != WORSEGPU_OK)
        return WORSEGPU_NO_MEMORY;
    uint64_t bytes = bytes_for(buddy, request);
    uint32_t order =
        bytes == 0 ? CLASS_NONE : class_lists_at_least(&buddy->orders, order_of(bytes));
    if (order == CLASS_NONE)
        return POLICY_FULL;
    outcome->blocks_scanned = 1;
    uint32_t block = buddy->orders.heads[order];
    if (!allowed(buddy, blocks_at(blocks, block)->offset + bytes))
        return POLICY_FULL;
    if (!policy_admits(request, bytes))
        return POLICY_NOT_ADMITTED;

    class_lists_remove(&buddy->orders, blocks, block);
    while (blocks_at(blocks, block)->bytes > bytes)
        list(buddy, cut(buddy, block, blocks_at(blocks, block)->bytes / 2));
    blocks_set_state(blocks, block, BLOCK_USED);
    struct block *item = blocks_at(blocks, block);
    outcome->placement = (struct policy_placement){
        .reserved_bytes = bytes,
        .offset = item->offset,
        .block_index = block,
        .cookie = block,
    };
    return POLICY_PLACED;
}

/* The buddy of a block when it is free and whole, or BLOCK_NONE. */
static uint32_t free_buddy(const struct blocks *blocks, uint32_t block)
{
    const struct block *item = blocks_at(blocks, block);
    uint32_t other = (item->offset & item->bytes) == 0 ? item->above : item->below;
    return blocks_is(blocks, other, BLOCK_FREE) && blocks_at(blocks, other)->bytes == item->bytes
               ? other
               : BLOCK_NONE;
}

static bool buddy_release(struct policy *policy, const struct policy_placement *placement,
                          const struct policy_free *how)
{
    struct buddy_policy *buddy = mine(policy);
    struct blocks *blocks = &buddy->blocks;
    uint32_t block = (uint32_t)placement->cookie;
    if (how->forget) {
        blocks_set_state(blocks, block, BLOCK_FORGOTTEN);
        return false;
    }
    blocks_set_state(blocks, block, BLOCK_FREE);
    uint32_t other;
    while ((other = free_buddy(blocks, block)) != BLOCK_NONE) {
        class_lists_remove(&buddy->orders, blocks, other);
        uint32_t lower = other == blocks_at(blocks, block)->below ? other : block;
        blocks_join_above(blocks, lower);
        block = lower;
        if (blocks_at(blocks, block)->above == BLOCK_NONE)
            buddy->last = block;
    }
    list(buddy, block);
    return true;
}

/* ------------------------------------------------------------------------------ looking */

/* The free blocks that were never used do not count. They are at the end of the range, one for each
 * size at the most and for each power of two that the capacity is made of. */
static void buddy_measure(const struct policy *policy, struct policy_measures *measures)
{
    const struct buddy_policy *buddy = mine_to_read(policy);
    const struct blocks *blocks = &buddy->blocks;
    blocks_measure_range(blocks, BLOCK_NONE, measures);
    for (uint32_t block = buddy->last;
         block != BLOCK_NONE && blocks_at(blocks, block)->offset >= blocks->high_water;
         block = blocks_at(blocks, block)->below)
        measures->blocks--;
}

/* The first block in a list that was used in all its length is as large as any in lists below.
 * Those passed over before reach above what was ever used: a few, see buddy_measure. */
static uint64_t buddy_largest_free(const struct policy *policy)
{
    const struct buddy_policy *buddy = mine_to_read(policy);
    const struct blocks *blocks = &buddy->blocks;
    uint64_t largest = 0;
    for (uint32_t order = HIGHEST_ORDER + 1; order-- > 0;) {
        for (uint32_t block = buddy->orders.heads[order]; block != BLOCK_NONE;
             block = blocks_at(blocks, block)->next) {
            const struct block *item = blocks_at(blocks, block);
            if (block_end(item) <= blocks->high_water)
                return item->bytes > largest ? item->bytes : largest;
            if (item->offset < blocks->high_water && blocks->high_water - item->offset > largest)
                largest = blocks->high_water - item->offset;
        }
    }
    return largest;
}

static uint32_t class_of(const void *context, const struct block *block)
{
    (void)context;
    return is_power(block->bytes) ? order_of(block->bytes) : CLASS_NONE;
}

static int buddy_check(const struct policy *policy, const struct policy_live *live,
                       struct audit *audit)
{
    const struct buddy_policy *buddy = mine_to_read(policy);
    const struct blocks *blocks = &buddy->blocks;
    int status = blocks_check(blocks, false, live, audit);
    if (status != WORSEGPU_OK)
        return status;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < blocks->length; i++) {
        const struct block *item = &blocks->items[i];
        if (item->state == BLOCK_SPARE)
            continue;
        bytes += item->bytes;
        bool sound = is_power(item->bytes) && item->bytes >= buddy->minimum_bytes &&
                     item->offset % item->bytes == 0;
        if (!audit_check(audit, INVARIANT_block_layout, sound))
            return WORSEGPU_OK;
        audit_check(audit, INVARIANT_block_layout,
                    (item->below == BLOCK_NONE) == (item->offset == 0) &&
                        (item->above == BLOCK_NONE) == (i == buddy->last));
    }
    audit_check(audit, INVARIANT_block_layout, bytes == buddy->bytes);
    if (audit->broken)
        return WORSEGPU_OK; /* links may lead nowhere */
    for (uint32_t i = 0; i < blocks->length; i++) {
        if (blocks->items[i].state == BLOCK_FREE)
            audit_check(audit, INVARIANT_block_layout, free_buddy(blocks, i) == BLOCK_NONE);
    }
    audit_check(audit, INVARIANT_gpu_capacity_bound,
                blocks->high_water <= live->largest_capacity_bytes);
    class_lists_check(&buddy->orders, blocks, class_of, NULL, audit);
    return WORSEGPU_OK;
}

/* Free blocks of each size, as a kernel's report of its buddy system has them. */
static void buddy_statistics(const struct policy *policy, const struct statistics_sink *sink)
{
    const struct buddy_policy *buddy = mine_to_read(policy);
    const struct blocks *blocks = &buddy->blocks;
    static const char *const names[] = {"bytes", "blocks"};
    sink->count(sink->context, "free_blocks", blocks->count[BLOCK_FREE]);
    sink->count(sink->context, "free_bytes", blocks->bytes[BLOCK_FREE]);
    if (!sink->lists)
        return;
    sink->list_begin(sink->context, "free_sizes");
    for (uint32_t order = 0; order <= HIGHEST_ORDER; order++) {
        uint64_t row[] = {UINT64_C(1) << order, 0};
        for (uint32_t block = buddy->orders.heads[order]; block != BLOCK_NONE;
             block = blocks_at(blocks, block)->next)
            row[1]++;
        if (row[1] > 0)
            sink->row(sink->context, names, row, sizeof(row) / sizeof(row[0]));
    }
    sink->list_end(sink->context);
}

static void buddy_each_block(const struct policy *policy, policy_see see, void *context)
{
    blocks_each(&mine_to_read(policy)->blocks, NULL, NULL, see, context);
}

static const struct policy_knob knobs[KNOBS] = {
    [KNOB_MINIMUM_BLOCK] = {.name = "minimum_block",
                            .type = KNOB_BYTES,
                            .default_text = "256",
                            .minimum = 1,
                            .maximum = UINT64_C(1) << 40,
                            .meaning = "the least block, a power of two"},
};

const struct policy_operations policy_buddy = {
    .name = "buddy",
    .summary = "The binary buddy system: powers of two, halved and joined again.",
    .create = buddy_create,
    .destroy = buddy_destroy,
    .place = buddy_place,
    .release = buddy_release,
    .measure = buddy_measure,
    .check = buddy_check,
    .knobs = knobs,
    .knob_count = KNOBS,
    .knobs_fit = buddy_knobs_fit,
    .statistics = buddy_statistics,
    .largest_free = buddy_largest_free,
    .each_block = buddy_each_block,
};
