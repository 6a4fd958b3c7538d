/* A slow and simple model of a range that is cut into blocks: an array of them by address, and for
 * each free one the moment when it was last put into a list. For the naive models of policies. */
#ifndef NAIVE_RANGE_H
#define NAIVE_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NAIVE_MAX_BLOCKS = 4096
};

struct naive_block {
    uint64_t offset;
    uint64_t bytes;
    uint64_t pushed; /* of a free one: larger is later */
    bool used;
};

struct naive_range {
    struct naive_block blocks[NAIVE_MAX_BLOCKS];
    size_t count;
    uint64_t moment;
};

#define NAIVE_NONE SIZE_MAX

/* One free block, pushed. */
void naive_begin(struct naive_range *range, uint64_t bytes);

/* Cuts the block in this place after `bytes`; the upper part is in the place after it. Neither is
 * pushed. */
void naive_cut(struct naive_range *range, size_t place, uint64_t bytes);
void naive_push(struct naive_range *range, size_t place);

/* Frees the used block at this offset: one with its free neighbours, not pushed. Its place. */
size_t naive_free(struct naive_range *range, uint64_t offset);

/* The list of a size. */
typedef unsigned (*naive_list_of)(uint64_t bytes);
/* The lowest list of at least `least` that has a block, without the block in the place `but`
 * (NAIVE_NONE: with all). 0 and *list, or 1 when there is none. */
int naive_lowest_list(const struct naive_range *range, naive_list_of list_of, unsigned least,
                      size_t but, unsigned *list);
/* The block of this list that was pushed last before the moment `before`, or NAIVE_NONE. */
size_t naive_next_in_list(const struct naive_range *range, naive_list_of list_of, unsigned list,
                          size_t but, uint64_t before);

/* floor(log2(value)) of at least 1, by doubling. */
unsigned naive_log2(uint64_t value);

#endif
