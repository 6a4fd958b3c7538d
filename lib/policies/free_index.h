/* Which free block of exactly this size has the lowest index? The index behind scan=accounted.
 *
 * A class for each size that ever was, found through a hash with a secret key, so that no choice of
 * sizes makes it slow. A class holds its free blocks in a pairing heap, lowest index on top, whose
 * links lie in the blocks themselves: a block can be put back without any memory. After M. Fredman,
 * R. Sedgewick, D. Sleator and R. Tarjan, "The pairing heap: a new form of self-adjusting heap",
 * 1986.
 *
 * Lives inside its policy. */
#ifndef POLICIES_FREE_INDEX_H
#define POLICIES_FREE_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "lib/keyed_hash.h"
#include "worsegpu_memory.h"

#define FREE_INDEX_NONE UINT32_MAX /* no block */

/* The part of a block that belongs to the index. */
struct free_links {
    uint32_t child;   /* the first block below this one */
    uint32_t sibling; /* the next one below the same block */
};

struct free_class {
    uint64_t size_bytes; /* 0: an empty place in the table */
    uint32_t top;        /* the free block with the lowest index, or FREE_INDEX_NONE */
    uint32_t blocks;     /* free blocks in it */
};

struct free_index {
    const struct worsegpu_memory *memory;
    struct free_class *table; /* open, with linear probing; at most half full */
    size_t table_size;        /* a power of two, or 0 */
    size_t classes;
    struct keyed_hash hash;
};

/* Takes no memory yet. */
void free_index_init(struct free_index *index, const struct keyed_hash *hash,
                     const struct worsegpu_memory *memory);
void free_index_release(struct free_index *index);

/* Makes sure that one more class can be made. 0 or WORSEGPU_NO_MEMORY. */
int free_index_reserve(struct free_index *index);

/* The class of a size (not 0), or the empty place where it belongs. Only after free_index_reserve.
 * It is valid until the next free_index_reserve. */
struct free_class *free_index_class(const struct free_index *index, uint64_t size_bytes);

/* Makes an empty place a class of this size; does nothing to one that is a class already. */
void free_index_make_class(struct free_index *index, struct free_class *place, uint64_t size_bytes);

/* Takes the block with the lowest index out of a class that has one. */
uint32_t free_class_take(struct free_class *free_class, struct free_links *links);

/* Puts a block into the class. */
void free_class_put(struct free_class *free_class, struct free_links *links, uint32_t block);

#endif
