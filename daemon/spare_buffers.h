/* Buffers for answers that no connection uses just now.
 *
 * A connection borrows one while it answers and gives it back once all is written, so that steady
 * traffic takes no memory and idle connections hold none. One is taken at the start: an answer can
 * be given when there is no memory left. */
#ifndef SPARE_BUFFERS_H
#define SPARE_BUFFERS_H

#include <stddef.h>

#include "base/memory.h"

enum {
    SPARE_BUFFERS_FIRST_BYTES = 16384,   /* of the one taken at the start */
    SPARE_BUFFERS_MOST = 16,             /* are kept ... */
    SPARE_BUFFERS_MOST_BYTES = 524288,   /* ... of so many bytes in all ... */
    SPARE_BUFFERS_LARGEST_BYTES = 131072 /* ... and none larger than this */
};

struct spare_buffer {
    char *data;
    size_t capacity;
};

struct spare_buffers {
    const struct worsegpu_memory *memory;
    struct spare_buffer items[SPARE_BUFFERS_MOST];
    size_t count;
    size_t bytes; /* of all of them */
};

/* 0, or -1 without memory for the first; `release` is fine after both. */
int spare_buffers_init(struct spare_buffers *spares, const struct worsegpu_memory *memory);
void spare_buffers_release(struct spare_buffers *spares);

/* Hands one out, the one given back last. Its data is NULL when there is none. */
struct spare_buffer spare_buffers_borrow(struct spare_buffers *spares);

/* Takes a buffer of the same memory over, to keep or to free it. One that is too small for any
 * answer should not be given; data may be NULL. */
void spare_buffers_give(struct spare_buffers *spares, struct spare_buffer buffer);

/* Keeps at most so many, the largest. */
void spare_buffers_trim(struct spare_buffers *spares, size_t most);

#endif
