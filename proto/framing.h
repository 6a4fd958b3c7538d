/* Bytes -> lines. Knows nothing of JSON. Every byte is looked at once, however it arrives.
 *
 * Whole lines are given back where they came, without a copy; only what is left over is kept here,
 * so an idle connection holds nothing. At most max_line_bytes and one chunk are ever held. */
#ifndef FRAMING_H
#define FRAMING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/worsegpu_memory.h"

struct framing {
    const struct worsegpu_memory *memory;
    size_t max_line_bytes; /* of a line with its CR and LF */
    char *held;            /* bytes kept from earlier chunks */
    size_t held_start;     /* first byte not given out yet */
    size_t held_scanned;   /* up to here there is no LF */
    size_t held_end;
    size_t held_capacity;
    const char *chunk;    /* the borrowed chunk, between feed and keep */
    size_t chunk_start;   /* first byte of it not given out yet */
    size_t chunk_scanned; /* up to here there is no LF */
    size_t chunk_end;
    bool discarding; /* inside a line that was too long */
};

enum framing_result {
    FRAMING_NO_MEMORY = -1, /* nothing is lost: call framing_next again */
    FRAMING_MORE = 0,       /* no whole line is left */
    FRAMING_LINE = 1,       /* a line, without its LF and one CR before it */
    FRAMING_TOO_LONG = 2    /* a line passed max_line_bytes; told once, its rest is thrown away */
};

void framing_init(struct framing *framing, const struct worsegpu_memory *memory,
                  size_t max_line_bytes);
void framing_release(struct framing *framing);

/* Lends a chunk, which must stay until framing_keep. Only when no chunk is lent. */
void framing_feed(struct framing *framing, const char *bytes, size_t length);

/* The next whole line; it stays valid until the next call of any framing function. It may be
 * written to (`line` points into memory that the caller or this module owns). */
enum framing_result framing_next(struct framing *framing, const char **line, size_t *length);

/* Ends the loan: copies what was not given out. 0, or -1 without memory: the chunk is still lent,
 * what is left of it can still be taken with framing_next. */
int framing_keep(struct framing *framing);

/* Whether anything is left that has not been given out, a whole line or a part of one. */
static inline bool framing_has_bytes(const struct framing *framing)
{
    return framing->chunk_start < framing->chunk_end || framing->held_start < framing->held_end;
}

/* Whether a line has begun and not ended (bytes of it are held, or it is being thrown away). Whole
 * lines not given out yet do not count. */
bool framing_in_line(const struct framing *framing);

#endif
