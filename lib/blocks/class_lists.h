/* Free blocks in lists by size class, with a map of which classes are not empty: the index of the
 * TLSF family. The classes themselves are the policy's.
 *
 * A list is last in, first out; its links lie in the blocks. Finding the lowest class at or above
 * another that is not empty looks at two words. Lives inside its policy; needs no memory. */
#ifndef BLOCKS_CLASS_LISTS_H
#define BLOCKS_CLASS_LISTS_H

#include <stddef.h>
#include <stdint.h>

#include "lib/blocks/blocks.h"

enum {
    CLASS_LISTS_MAX = 2048 /* classes are below this */
};
#define CLASS_NONE UINT32_MAX

struct class_lists {
    uint64_t groups;                      /* bit g: words[g] is not 0 */
    uint64_t words[CLASS_LISTS_MAX / 64]; /* bit c mod 64 of word c div 64: class c is not empty */
    uint32_t heads[CLASS_LISTS_MAX];      /* BLOCK_NONE: empty */
};

void class_lists_init(struct class_lists *lists);

/* The block is put at the head of the list of its class, which its `list` field says from then on.
 */
static inline void class_lists_push(struct class_lists *lists, struct blocks *blocks,
                                    uint32_t class, uint32_t block)
{
    struct block *item = blocks_at(blocks, block);
    uint32_t head = lists->heads[class];
    item->list = class;
    item->previous = BLOCK_NONE;
    item->next = head;
    if (head != BLOCK_NONE)
        blocks_at(blocks, head)->previous = block;
    lists->heads[class] = block;
    lists->words[class / 64] |= UINT64_C(1) << (class % 64);
    lists->groups |= UINT64_C(1) << (class / 64);
}

static inline void class_lists_remove(struct class_lists *lists, struct blocks *blocks,
                                      uint32_t block)
{
    struct block *item = blocks_at(blocks, block);
    uint32_t class = item->list;
    if (item->next != BLOCK_NONE)
        blocks_at(blocks, item->next)->previous = item->previous;
    if (item->previous != BLOCK_NONE) {
        blocks_at(blocks, item->previous)->next = item->next;
    } else {
        lists->heads[class] = item->next;
        if (item->next == BLOCK_NONE) {
            lists->words[class / 64] &= ~(UINT64_C(1) << (class % 64));
            if (lists->words[class / 64] == 0)
                lists->groups &= ~(UINT64_C(1) << (class / 64 % 64));
        }
    }
    item->list = BLOCK_NONE;
    item->previous = BLOCK_NONE;
    item->next = BLOCK_NONE;
}

/* The lowest class of at least `class` that is not empty, or CLASS_NONE. `class` may be past the
 * last one. */
static inline uint32_t class_lists_at_least(const struct class_lists *lists, uint32_t class)
{
    if (class >= CLASS_LISTS_MAX)
        return CLASS_NONE;
    uint32_t group = class / 64;
    uint64_t word = lists->words[group] & (UINT64_MAX << (class % 64));
    if (word == 0) {
        uint64_t above = lists->groups & (UINT64_MAX << group << 1); /* at most bit 32 */
        if (above == 0)
            return CLASS_NONE;
        group = (uint32_t)__builtin_ctzll(above);
        word = lists->words[group];
    }
    return group * 64 + (uint32_t)__builtin_ctzll(word);
}

/* The highest class that is not empty, or CLASS_NONE. */
static inline uint32_t class_lists_highest(const struct class_lists *lists)
{
    if (lists->groups == 0)
        return CLASS_NONE;
    uint32_t group = 63 - (uint32_t)__builtin_clzll(lists->groups);
    return group * 64 + 63 - (uint32_t)__builtin_clzll(lists->words[group]);
}

/* The audit: links, map, and that every free block for which `class_of` gives a class is in the
 * list of it, and no other block is in any. `class_of` gives CLASS_NONE for a free block that must
 * be in no list. */
void class_lists_check(const struct class_lists *lists, const struct blocks *blocks,
                       uint32_t (*class_of)(const void *context, const struct block *block),
                       const void *context, struct audit *audit);

#endif
