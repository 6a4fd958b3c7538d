/* All blocks by address, in a copy: for audits and pictures. O(n log n), in place. */
#ifndef BLOCKS_BLOCKS_SORT_H
#define BLOCKS_BLOCKS_SORT_H

#include <stddef.h>
#include <stdint.h>

#include "lib/blocks/blocks.h"

struct block_place {
    uint64_t offset;
    uint32_t block;
};

/* Fills `places` (room for all numbers ever given) with the blocks that are not spare, sorted by
 * offset, then number. How many. */
size_t blocks_sort(const struct blocks *blocks, struct block_place *places);

#endif
