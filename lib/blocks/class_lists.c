/* The beginning and the audit of lists by size class; see class_lists.h, where the rest is. */
#include "lib/blocks/class_lists.h"

#include <stdbool.h>

void class_lists_init(struct class_lists *lists)
{
    *lists = (struct class_lists){0};
    for (size_t i = 0; i < CLASS_LISTS_MAX; i++)
        lists->heads[i] = BLOCK_NONE;
}

/* Goes through one list. A block has one `previous`, and the first has none, so that no broken link
 * leads round in a circle. How many are in it. */
static uint64_t check_list(const struct class_lists *lists, const struct blocks *blocks,
                           uint32_t class,
                           uint32_t (*class_of)(const void *context, const struct block *block),
                           const void *context, struct audit *audit)
{
    uint64_t members = 0;
    uint32_t previous = BLOCK_NONE;
    for (uint32_t block = lists->heads[class]; block != BLOCK_NONE;) {
        if (!audit_check(audit, INVARIANT_free_index_member, block < blocks->length))
            break;
        const struct block *item = blocks_at(blocks, block);
        if (!audit_check(audit, INVARIANT_free_index_order, item->previous == previous))
            break;
        audit_check(audit, INVARIANT_free_index_member,
                    item->state == BLOCK_FREE && item->list == class);
        audit_check(audit, INVARIANT_free_index_class, class_of(context, item) == class);
        members++;
        previous = block;
        block = item->next;
    }
    return members;
}

void class_lists_check(const struct class_lists *lists, const struct blocks *blocks,
                       uint32_t (*class_of)(const void *context, const struct block *block),
                       const void *context, struct audit *audit)
{
    uint64_t members = 0;
    for (uint32_t class = 0; class < CLASS_LISTS_MAX; class += 1) {
        uint64_t word = lists->words[class / 64];
        bool in_map = (word >> (class % 64) & 1) != 0;
        bool in_groups = (lists->groups >> (class / 64) & 1) != 0;
        audit_check(audit, INVARIANT_free_index_class,
                    in_map == (lists->heads[class] != BLOCK_NONE) && in_groups == (word != 0));
        members += check_list(lists, blocks, class, class_of, context, audit);
    }
    uint64_t expected = 0;
    for (size_t i = 0; i < blocks->length; i++) {
        const struct block *item = &blocks->items[i];
        expected += item->state == BLOCK_FREE && class_of(context, item) != CLASS_NONE;
    }
    audit_check(audit, INVARIANT_free_index_count, members == expected);
    audit_check(audit, INVARIANT_free_index_class, lists->groups >> (CLASS_LISTS_MAX / 64) == 0);
}
