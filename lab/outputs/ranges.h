/* Ranges of addresses that do not touch what another one holds, each with a number that says whose
 * it is; in the order of addresses. Lives inside its owner. */
#ifndef LAB_OUTPUTS_RANGES_H
#define LAB_OUTPUTS_RANGES_H

#include <stddef.h>
#include <stdint.h>

#include "base/worsegpu_memory.h"

struct range {
    uint64_t offset;
    uint64_t bytes;
    uint64_t tag;
};

struct ranges {
    const struct worsegpu_memory *memory;
    struct range *all;
    size_t count;
    size_t capacity;
};

void ranges_init(struct ranges *ranges, const struct worsegpu_memory *memory);
void ranges_release(struct ranges *ranges);

/* 0, or -1 without memory. */
int ranges_add(struct ranges *ranges, const struct range *range);

/* The first one that ends above `offset`; `count` when there is none. */
size_t ranges_find(const struct ranges *ranges, uint64_t offset);

/* Takes one out by its place in the order. */
void ranges_remove(struct ranges *ranges, size_t at);

/* Takes the piece out that lies in `bytes` from `offset` on, of the first range that has one there:
 * *piece, with its tag. What is left of the range stays. 0; 1 when nothing is there; -1 without
 * memory. */
int ranges_cut(struct ranges *ranges, uint64_t offset, uint64_t bytes, struct range *piece);

#endif
