/* A range with lists by size class: what is not called for each request; see class_range.h. */
#include "lib/policies/class_range.h"

int class_range_init(struct class_range *range, const struct policy_setup *setup, uint64_t bytes,
                     bool ordered)
{
    range->memory = setup->memory;
    range->config = setup->config;
    range->bytes = bytes;
    range->tail = BLOCK_NONE;
    range->ordered = ordered;
    blocks_init(&range->blocks, setup->memory);
    class_lists_init(&range->lists);
    block_nodes_init(&range->nodes, setup->memory);
    range->by_offset = block_order_empty();
    if (class_range_reserve(range, 1) != WORSEGPU_OK)
        return WORSEGPU_NO_MEMORY;
    range->last = blocks_add(&range->blocks, 0, bytes, BLOCK_FREE);
    return WORSEGPU_OK;
}

void class_range_release_memory(struct class_range *range)
{
    block_nodes_release(&range->nodes);
    blocks_release(&range->blocks);
}

static bool last_is_free(const struct class_range *range)
{
    return blocks_is(&range->blocks, range->last, BLOCK_FREE);
}

void class_range_measure(const struct class_range *range, struct policy_measures *measures)
{
    blocks_measure_range(&range->blocks, last_is_free(range) ? range->last : BLOCK_NONE, measures);
}

/* The highest list below `class` that is not empty, or CLASS_NONE. */
static uint32_t class_below(const struct class_lists *lists, uint32_t class)
{
    uint32_t word = class / 64;
    uint64_t bits = lists->words[word] & ((UINT64_C(1) << class % 64) - 1);
    while (bits == 0 && word > 0)
        bits = lists->words[--word];
    return bits == 0 ? CLASS_NONE : word * 64 + 63 - (uint32_t)__builtin_clzll(bits);
}

/* The largest block in the lists but for the last block of the range. */
static uint64_t largest_before_last(const struct class_range *range)
{
    uint64_t largest = 0;
    uint32_t class = class_lists_highest(&range->lists);
    while (class != CLASS_NONE && largest == 0) {
        uint32_t block = range->lists.heads[class];
        while (block != BLOCK_NONE) {
            const struct block *item = blocks_at(&range->blocks, block);
            if (block != range->last && item->bytes > largest)
                largest = item->bytes;
            block = item->next;
        }
        class = class_below(&range->lists, class);
    }
    return largest;
}

uint64_t class_range_largest(const struct class_range *range)
{
    uint64_t largest = largest_before_last(range);
    uint64_t last = last_is_free(range) ? blocks_at(&range->blocks, range->last)->bytes : 0;
    return last > largest ? last : largest;
}

uint64_t class_range_largest_free(const struct class_range *range)
{
    uint64_t largest = largest_before_last(range);
    uint64_t begin = blocks_at(&range->blocks, range->last)->offset;
    uint64_t high = range->blocks.high_water;
    uint64_t last = last_is_free(range) && high > begin ? high - begin : 0;
    return last > largest ? last : largest;
}

static bool ordered_as_it_should(const void *context, uint32_t block, const struct block_node *node)
{
    const struct class_range *range = context;
    const struct block *item = blocks_at(&range->blocks, block);
    return item->state == BLOCK_FREE && block != range->tail && node->major == item->offset &&
           node->weight == item->bytes;
}

int class_range_check(const struct class_range *range,
                      uint32_t (*class_of)(const void *context, const struct block *block),
                      const void *context, const struct policy_live *live, struct audit *audit)
{
    const struct blocks *blocks = &range->blocks;
    int status = blocks_check(blocks, true, live, audit);
    if (status != WORSEGPU_OK)
        return status;
    bool last_there = range->last < blocks->length &&
                      blocks_at(blocks, range->last)->state != BLOCK_SPARE &&
                      blocks_at(blocks, range->last)->above == BLOCK_NONE &&
                      block_end(blocks_at(blocks, range->last)) == range->bytes;
    if (!audit_check(audit, INVARIANT_block_layout, last_there))
        return WORSEGPU_OK;
    audit_check(audit, INVARIANT_block_layout,
                range->tail == BLOCK_NONE || (range->tail == range->last && last_is_free(range)));
    audit_check(audit, INVARIANT_gpu_capacity_bound,
                blocks->high_water <= live->largest_capacity_bytes);
    class_lists_check(&range->lists, blocks, class_of, context, audit);
    if (range->ordered)
        block_order_check(&range->by_offset, &range->nodes,
                          blocks->count[BLOCK_FREE] - (range->tail != BLOCK_NONE),
                          ordered_as_it_should, range, audit);
    return WORSEGPU_OK;
}
