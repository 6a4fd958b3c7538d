/* Where the copies of tags come from: pieces of four sizes, some of which are kept when they are
 * given back, so that steady traffic with tags takes no memory. One for each table of handles. */
#ifndef TAG_POOL_H
#define TAG_POOL_H

#include <stddef.h>

#include "lib/worsegpu.h"

enum {
    TAG_POOL_STEP_BYTES = 16, /* sizes are multiples of this */
    TAG_POOL_SIZES = WORSEGPU_MAX_TAG_BYTES / TAG_POOL_STEP_BYTES,
    TAG_POOL_MOST_KEPT = 64 /* unused pieces of each size */
};

struct tag_piece;

struct tag_pool {
    const struct worsegpu_memory *memory;
    struct tag_piece *unused[TAG_POOL_SIZES];
    size_t kept[TAG_POOL_SIZES]; /* how many those are */
};

/* Takes no memory yet. */
void tag_pool_init(struct tag_pool *pool, const struct worsegpu_memory *memory);

/* Gives back what is kept. All pieces must have been given back before. */
void tag_pool_release(struct tag_pool *pool);

/* Room for a tag of 1 to WORSEGPU_MAX_TAG_BYTES; NULL without memory. */
char *tag_pool_take(struct tag_pool *pool, size_t tag_bytes);

/* Takes back the room for a tag of so many bytes. NULL is fine. */
void tag_pool_give(struct tag_pool *pool, char *tag, size_t tag_bytes);

#endif
