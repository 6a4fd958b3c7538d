/* list_fit in any order but that of addresses: a linked list, walked as the original walks it; see
 * list_fit.h. */
#include "lib/policies/list_fit.h"

static struct block *entry(const struct list_fit_policy *list_fit, uint32_t block)
{
    return blocks_at(&list_fit->blocks, block);
}

/* ------------------------------------------------------------------------------ search */

static uint32_t find_next(const struct list_fit_policy *list_fit, uint64_t bytes, uint64_t *scanned)
{
    uint64_t entries = list_fit_listed(list_fit);
    uint32_t block = list_fit->rover == BLOCK_NONE ? list_fit->head : list_fit->rover;
    for (*scanned = 0; *scanned < entries;) {
        ++*scanned;
        if (entry(list_fit, block)->bytes >= bytes)
            return block;
        block = entry(list_fit, block)->next;
        if (block == BLOCK_NONE)
            block = list_fit->head;
    }
    return BLOCK_NONE;
}

uint32_t list_fit_list_find(const struct list_fit_policy *list_fit, uint64_t bytes,
                            uint64_t *scanned)
{
    if (list_fit->fit == LIST_FIT_NEXT)
        return find_next(list_fit, bytes, scanned);
    uint32_t found = BLOCK_NONE;
    *scanned = 0;
    for (uint32_t block = list_fit->head; block != BLOCK_NONE;
         block = entry(list_fit, block)->next) {
        uint64_t size = entry(list_fit, block)->bytes;
        ++*scanned;
        if (size < bytes)
            continue;
        if (list_fit->fit == LIST_FIT_FIRST)
            return block;
        if (found == BLOCK_NONE ||
            (list_fit->fit == LIST_FIT_BEST ? size < entry(list_fit, found)->bytes
                                            : size > entry(list_fit, found)->bytes))
            found = block;
    }
    return found;
}

/* ------------------------------------------------------------------------------ links */

/* Puts a block behind `previous`, or in front of all with BLOCK_NONE. */
static void link_behind(struct list_fit_policy *list_fit, uint32_t previous, uint32_t block)
{
    uint32_t next = previous == BLOCK_NONE ? list_fit->head : entry(list_fit, previous)->next;
    entry(list_fit, block)->previous = previous;
    entry(list_fit, block)->next = next;
    if (previous == BLOCK_NONE)
        list_fit->head = block;
    else
        entry(list_fit, previous)->next = block;
    if (next == BLOCK_NONE)
        list_fit->tail = block;
    else
        entry(list_fit, next)->previous = block;
}

static void unlink_entry(struct list_fit_policy *list_fit, uint32_t block)
{
    struct block *item = entry(list_fit, block);
    if (item->previous == BLOCK_NONE)
        list_fit->head = item->next;
    else
        entry(list_fit, item->previous)->next = item->next;
    if (item->next == BLOCK_NONE)
        list_fit->tail = item->previous;
    else
        entry(list_fit, item->next)->previous = item->previous;
    item->previous = BLOCK_NONE;
    item->next = BLOCK_NONE;
}

void list_fit_list_take(struct list_fit_policy *list_fit, uint32_t block, uint32_t rest)
{
    uint32_t previous = entry(list_fit, block)->previous;
    uint32_t next = entry(list_fit, block)->next;
    unlink_entry(list_fit, block);
    if (rest != BLOCK_NONE)
        link_behind(list_fit, previous, rest);
    list_fit->rover = rest != BLOCK_NONE ? rest : next;
}

/* ------------------------------------------------------------------------------ order */

static bool stands_wrong(const struct list_fit_policy *list_fit, uint32_t previous, uint32_t block)
{
    uint64_t left = entry(list_fit, previous)->bytes;
    uint64_t right = entry(list_fit, block)->bytes;
    return list_fit->order == LIST_FIT_SIZE_UP ? left > right : left < right;
}

/* Sorts by size; equals keep their order. By insertion: few entries ever stand wrong. */
static void sort(struct list_fit_policy *list_fit)
{
    uint32_t block =
        list_fit->head == BLOCK_NONE ? BLOCK_NONE : entry(list_fit, list_fit->head)->next;
    while (block != BLOCK_NONE) {
        uint32_t next = entry(list_fit, block)->next;
        uint32_t previous = entry(list_fit, block)->previous;
        if (stands_wrong(list_fit, previous, block)) {
            unlink_entry(list_fit, block);
            while (previous != BLOCK_NONE && stands_wrong(list_fit, previous, block))
                previous = entry(list_fit, previous)->previous;
            link_behind(list_fit, previous, block);
        }
        block = next;
    }
}

/* One pass: an entry swallows the next one while that begins where it ends. */
static void merge(struct list_fit_policy *list_fit)
{
    uint32_t block = list_fit->head;
    while (block != BLOCK_NONE) {
        uint32_t next = entry(list_fit, block)->next;
        if (next != BLOCK_NONE && next == entry(list_fit, block)->above) {
            unlink_entry(list_fit, next);
            if (list_fit->rover == next)
                list_fit->rover = block;
            list_fit_join_above(list_fit, block);
        } else {
            block = next;
        }
    }
}

void list_fit_list_put(struct list_fit_policy *list_fit, uint32_t block)
{
    bool front = list_fit->order == LIST_FIT_INSERT_FRONT;
    link_behind(list_fit, front ? BLOCK_NONE : list_fit->tail, block);
    if (list_fit->order == LIST_FIT_SIZE_UP || list_fit->order == LIST_FIT_SIZE_DOWN)
        sort(list_fit);
    if (list_fit->merge)
        merge(list_fit);
}

void list_fit_list_drop(struct list_fit_policy *list_fit, uint32_t block)
{
    if (list_fit->rover == block)
        list_fit->rover = entry(list_fit, block)->next;
    unlink_entry(list_fit, block);
}

/* ------------------------------------------------------------------------------ looking */

/* Walks the list, which knows no sizes. */
uint64_t list_fit_list_largest(const struct list_fit_policy *list_fit)
{
    uint64_t largest =
        list_fit->unlisted == BLOCK_NONE ? 0 : list_fit_known_bytes(list_fit, list_fit->unlisted);
    for (uint32_t block = list_fit->head; block != BLOCK_NONE;
         block = entry(list_fit, block)->next) {
        uint64_t bytes = list_fit_known_bytes(list_fit, block);
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

void list_fit_list_check(const struct list_fit_policy *list_fit, struct audit *audit)
{
    const struct blocks *blocks = &list_fit->blocks;
    uint64_t members = 0;
    uint32_t previous = BLOCK_NONE;
    bool rover_there = list_fit->rover == BLOCK_NONE;
    /* A block has one `previous`, and the first has none: no broken link leads round in a circle.
     */
    for (uint32_t block = list_fit->head; block != BLOCK_NONE;) {
        if (!audit_check(audit, INVARIANT_free_index_member,
                         block < blocks->length && block != list_fit->unlisted &&
                             blocks->items[block].state == BLOCK_FREE) ||
            !audit_check(audit, INVARIANT_free_index_order,
                         blocks->items[block].previous == previous))
            return;
        members++;
        rover_there = rover_there || block == list_fit->rover;
        previous = block;
        block = blocks->items[block].next;
    }
    audit_check(audit, INVARIANT_free_index_order, list_fit->tail == previous && rover_there);
    audit_check(audit, INVARIANT_free_index_count, members == list_fit_listed(list_fit));
}
