/* The search of policy "vma" through its lists; see vma_tlsf.h. */
#include "lib/policies/vma_tlsf.h"

/* Looks at one free block: whether it fits, and where. */
static inline bool look_at(const struct class_range *range, uint32_t block,
                           const struct vma_want *want, struct vma_spot *spot)
{
    const struct block *item = blocks_at(&range->blocks, block);
    uint64_t offset = (item->offset + want->alignment - 1) & ~(want->alignment - 1);
    spot->scanned++;
    if (item->bytes < want->bytes + (offset - item->offset))
        return false;
    spot->block = block;
    spot->offset = offset;
    return true;
}

/* All of one list; CLASS_NONE has nothing. */
static bool look_in_list(const struct class_range *range, uint32_t class,
                         const struct vma_want *want, struct vma_spot *spot)
{
    if (class == CLASS_NONE)
        return false;
    for (uint32_t block = range->lists.heads[class]; block != BLOCK_NONE;
         block = blocks_at(&range->blocks, block)->next) {
        if (look_at(range, block, want, spot))
            return true;
    }
    return false;
}

static bool look_at_tail(const struct class_range *range, const struct vma_want *want,
                         struct vma_spot *spot)
{
    return range->tail != BLOCK_NONE && look_at(range, range->tail, want, spot);
}

/* The lists above the bigger one; none when there was no bigger one. */
static bool look_higher(const struct class_range *range, uint32_t bigger,
                        const struct vma_want *want, struct vma_spot *spot)
{
    while (bigger != CLASS_NONE) {
        bigger = class_lists_at_least(&range->lists, bigger + 1);
        if (look_in_list(range, bigger, want, spot))
            return true;
    }
    return false;
}

static uint32_t own_list(const struct class_range *range, const struct vma_want *want)
{
    return class_lists_at_least(&range->lists, vma_list_of(want->bytes));
}

/* The list in which every block is large enough, as long as nothing is lost by alignment. */
static uint32_t bigger_list(const struct class_range *range, const struct vma_want *want)
{
    uint64_t bytes = want->bytes;
    if (bytes <= 248)
        bytes += 8;
    else if (bytes <= 256)
        bytes = 257;
    else
        bytes += UINT64_C(1) << (63 - (unsigned)__builtin_clzll(bytes) - 5);
    return class_lists_at_least(&range->lists, vma_list_of(bytes));
}

/* The listed block of the lowest offset. What is looked at: all of them up to it. */
static bool find_lowest(const struct class_range *range, const struct vma_want *want,
                        struct vma_spot *spot)
{
    uint64_t from = 0;
    uint32_t block;
    while ((block = block_order_heavy(&range->by_offset, &range->nodes, from, 0, want->bytes)) !=
           BLOCK_NONE) {
        from = block_end(blocks_at(&range->blocks, block));
        if (look_at(range, block, want, spot)) {
            spot->scanned = block_order_rank(&range->by_offset, &range->nodes, from, 0);
            return true;
        }
    }
    spot->scanned = block_order_count(&range->by_offset, &range->nodes);
    return look_at_tail(range, want, spot);
}

bool vma_tlsf_find(const struct class_range *range, enum vma_strategy strategy,
                   const struct vma_want *want, struct vma_spot *spot)
{
    spot->scanned = 0;
    if (want->bytes > range->blocks.bytes[BLOCK_FREE])
        return false;
    if (strategy == VMA_MIN_OFFSET)
        return find_lowest(range, want, spot);
    uint32_t bigger = bigger_list(range, want);
    switch (strategy) {
    case VMA_MIN_TIME:
        if ((bigger != CLASS_NONE && look_at(range, range->lists.heads[bigger], want, spot)) ||
            look_at_tail(range, want, spot) || look_in_list(range, bigger, want, spot) ||
            look_in_list(range, own_list(range, want), want, spot))
            return true;
        break;
    case VMA_MIN_MEMORY:
        if (look_in_list(range, own_list(range, want), want, spot) ||
            look_at_tail(range, want, spot) || look_in_list(range, bigger, want, spot))
            return true;
        break;
    default:
        if (look_in_list(range, bigger, want, spot) || look_at_tail(range, want, spot) ||
            look_in_list(range, own_list(range, want), want, spot))
            return true;
        break;
    }
    return look_higher(range, bigger, want, spot);
}
