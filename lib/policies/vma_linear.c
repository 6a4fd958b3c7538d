/* The linear algorithm of policy "vma"; see vma_linear.h. */
#include "lib/policies/vma_linear.h"

#include "base/memory.h"

enum {
    FIRST_CAPACITY = 64
};

void vma_linear_init(struct vma_linear *linear, const struct worsegpu_memory *memory)
{
    *linear = (struct vma_linear){.memory = memory};
}

void vma_linear_release(struct vma_linear *linear)
{
    for (int i = 0; i < 2; i++)
        memory_release_array(linear->memory, linear->lists[i].items, linear->lists[i].capacity,
                             sizeof(uint32_t));
}

/* ------------------------------------------------------------------------------ entries */

static uint32_t *entry(const struct vma_entries *entries, uint64_t number)
{
    return &entries->items[number & (entries->capacity - 1)];
}

static bool is_empty(const struct vma_entries *entries)
{
    return entries->front == entries->end;
}

static const struct vma_entries *list_a(const struct vma_linear *linear)
{
    return &linear->lists[linear->a];
}

static const struct vma_entries *list_b(const struct vma_linear *linear)
{
    return &linear->lists[1 - linear->a];
}

/* The blocks at the ends of a list that is not empty: they are live always. */
static const struct block *first_block(const struct class_range *range,
                                       const struct vma_entries *entries)
{
    return blocks_at(&range->blocks, *entry(entries, entries->front));
}

static const struct block *last_block(const struct class_range *range,
                                      const struct vma_entries *entries)
{
    return blocks_at(&range->blocks, *entry(entries, entries->end - 1));
}

static int reserve(const struct vma_linear *linear, struct vma_entries *entries)
{
    if (entries->end - entries->front < entries->capacity)
        return WORSEGPU_OK;
    if (entries->capacity > SIZE_MAX / 2)
        return WORSEGPU_NO_MEMORY;
    struct vma_entries grown = *entries;
    grown.capacity = entries->capacity ? entries->capacity * 2 : FIRST_CAPACITY;
    grown.items = memory_allocate_array(linear->memory, grown.capacity, sizeof(uint32_t));
    if (!grown.items)
        return WORSEGPU_NO_MEMORY;
    for (uint64_t number = entries->front; number != entries->end; number++)
        *entry(&grown, number) = *entry(entries, number);
    memory_release_array(linear->memory, entries->items, entries->capacity, sizeof(uint32_t));
    *entries = grown;
    return WORSEGPU_OK;
}

int vma_linear_reserve(struct vma_linear *linear)
{
    int status = reserve(linear, &linear->lists[0]);
    return status == WORSEGPU_OK ? reserve(linear, &linear->lists[1]) : status;
}

/* ------------------------------------------------------------------------------ find */

static uint64_t rounded_up(uint64_t offset, uint64_t alignment)
{
    return (offset + alignment - 1) & ~(alignment - 1);
}

/* Above the last entry of A. */
static bool find_above(const struct vma_linear *linear, const struct class_range *range,
                       const struct vma_want *want, struct vma_spot *spot)
{
    const struct vma_entries *a = list_a(linear);
    const struct block *last = is_empty(a) ? NULL : last_block(range, a);
    const struct block *top =
        linear->mode == VMA_MODE_STACK ? last_block(range, list_b(linear)) : NULL;
    spot->scanned++;
    spot->offset = last ? rounded_up(block_end(last), want->alignment) : 0;
    if (spot->offset + want->bytes > (top ? top->offset : range->bytes))
        return false;
    /* With nothing live the whole range is one free block. */
    spot->block = last ? last->above : top ? top->below : range->last;
    spot->list = linear->a;
    spot->mode = linear->mode;
    return true;
}

/* Above the last entry of B, below the first one of A: the ring. */
static bool find_wrapped(const struct vma_linear *linear, const struct class_range *range,
                         const struct vma_want *want, struct vma_spot *spot)
{
    const struct vma_entries *b = list_b(linear);
    if (is_empty(list_a(linear)))
        return false;
    const struct block *limit = first_block(range, list_a(linear));
    const struct block *last = is_empty(b) ? NULL : last_block(range, b);
    spot->scanned++;
    spot->offset = last ? rounded_up(block_end(last), want->alignment) : 0;
    /* A is not empty, so its blocks are there. */
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    if (spot->offset + want->bytes > limit->offset)
        return false;
    spot->block = limit->below;
    spot->list = 1 - linear->a;
    spot->mode = VMA_MODE_RING;
    return true;
}

/* Below the last entry of B, or the end of the range. */
static bool find_upper(const struct vma_linear *linear, const struct class_range *range,
                       const struct vma_want *want, struct vma_spot *spot)
{
    const struct vma_entries *a = list_a(linear);
    const struct vma_entries *b = list_b(linear);
    if (linear->mode == VMA_MODE_RING)
        return false;
    const struct block *top = is_empty(b) ? NULL : last_block(range, b);
    uint64_t end = top ? top->offset : range->bytes;
    uint64_t least = is_empty(a) ? 0 : block_end(last_block(range, a));
    spot->scanned++;
    if (end < want->bytes)
        return false;
    spot->offset = (end - want->bytes) & ~(want->alignment - 1);
    if (spot->offset < least)
        return false;
    spot->block = top ? top->below : range->last;
    spot->list = 1 - linear->a;
    spot->mode = VMA_MODE_STACK;
    return true;
}

bool vma_linear_find(const struct vma_linear *linear, const struct class_range *range,
                     const struct vma_want *want, struct vma_spot *spot)
{
    spot->scanned = 0;
    if (want->bytes > range->bytes)
        return false;
    if (want->upper)
        return find_upper(linear, range, want, spot);
    if (linear->mode != VMA_MODE_RING && find_above(linear, range, want, spot))
        return true;
    return linear->mode != VMA_MODE_STACK && find_wrapped(linear, range, want, spot);
}

/* ------------------------------------------------------------------------------ change */

void vma_linear_append(struct vma_linear *linear, struct class_range *range,
                       const struct vma_spot *spot, uint32_t block)
{
    struct vma_entries *entries = &linear->lists[spot->list];
    struct block *item = blocks_at(&range->blocks, block);
    item->group = spot->list;
    item->own = entries->end;
    *entry(entries, entries->end++) = block;
    linear->mode = spot->mode;
    linear->live++;
}

/* Drops dead entries at both ends. */
static void trim(struct vma_entries *entries)
{
    while (!is_empty(entries) && *entry(entries, entries->front) == BLOCK_NONE)
        entries->front++;
    while (!is_empty(entries) && *entry(entries, entries->end - 1) == BLOCK_NONE)
        entries->end--;
}

void vma_linear_drop(struct vma_linear *linear, const struct class_range *range, uint32_t block)
{
    const struct block *item = blocks_at(&range->blocks, block);
    *entry(&linear->lists[item->group], item->own) = BLOCK_NONE;
    linear->live--;
    trim(&linear->lists[0]);
    trim(&linear->lists[1]);
    if (is_empty(list_b(linear)))
        linear->mode = VMA_MODE_NONE;
    if (is_empty(list_a(linear)) && linear->mode == VMA_MODE_RING) {
        linear->a = 1 - linear->a;
        linear->mode = VMA_MODE_NONE;
    }
}

/* ------------------------------------------------------------------------------ audit */

static bool is_in_use(const struct block *item)
{
    return item->state == BLOCK_USED || item->state == BLOCK_FORGOTTEN;
}

/* One list: its ends are live, its live entries and their blocks name each other, and lie in the
 * order of the list. How many are live. */
static uint64_t check_entries(const struct vma_linear *linear, const struct class_range *range,
                              uint32_t list, bool downward, struct audit *audit)
{
    const struct vma_entries *entries = &linear->lists[list];
    uint64_t live = 0;
    if (!audit_check(audit, INVARIANT_block_layout,
                     entries->end - entries->front <= entries->capacity) ||
        is_empty(entries))
        return 0;
    audit_check(audit, INVARIANT_block_layout,
                *entry(entries, entries->front) != BLOCK_NONE &&
                    *entry(entries, entries->end - 1) != BLOCK_NONE);
    const struct block *before = NULL;
    for (uint64_t number = entries->front; number != entries->end; number++) {
        uint32_t block = *entry(entries, number);
        if (block == BLOCK_NONE)
            continue;
        if (!audit_check(audit, INVARIANT_block_layout, block < range->blocks.length))
            return live;
        const struct block *item = blocks_at(&range->blocks, block);
        audit_check(audit, INVARIANT_block_layout,
                    is_in_use(item) && item->group == list && item->own == number);
        audit_check(audit, INVARIANT_block_layout,
                    !before || (downward ? block_end(item) <= before->offset
                                         : block_end(before) <= item->offset));
        before = item;
        live++;
    }
    return live;
}

void vma_linear_check(const struct vma_linear *linear, const struct class_range *range,
                      struct audit *audit)
{
    const struct blocks *blocks = &range->blocks;
    uint64_t live =
        check_entries(linear, range, linear->a, false, audit) +
        check_entries(linear, range, 1 - linear->a, linear->mode == VMA_MODE_STACK, audit);
    audit_check(audit, INVARIANT_block_layout,
                live == linear->live &&
                    live == blocks->count[BLOCK_USED] + blocks->count[BLOCK_FORGOTTEN]);
    audit_check(audit, INVARIANT_block_layout,
                is_empty(list_b(linear)) == (linear->mode == VMA_MODE_NONE) &&
                    (linear->mode != VMA_MODE_RING || !is_empty(list_a(linear))));
}
