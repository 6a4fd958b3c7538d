/* Where packed events lie: in memory up to a bound, and what comes after it in a temporary file
 * without a name ($TMPDIR, else /var/tmp). Knows bytes, and that no event has more than
 * EVENTS_PACK_LONGEST of them. Written once, front to back; then read by any number of cursors. */
#ifndef LAB_EVENTS_PACK_H
#define LAB_EVENTS_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/worsegpu_memory.h"
#include "lab/logs/log.h"

enum {
    EVENTS_PACK_LONGEST = 96,
    EVENTS_PACK_BUFFER = 64 * 1024
};

struct events_pack {
    const struct worsegpu_memory *memory;
    size_t bound; /* most bytes in memory */
    uint8_t *held;
    size_t held_bytes;
    size_t held_capacity;
    int file;           /* -1: none was needed */
    uint8_t *unwritten; /* EVENTS_PACK_BUFFER bytes, for the end of the file, while it is written */
    size_t unwritten_bytes;
    uint64_t file_bytes;
};

void events_pack_init(struct events_pack *pack, size_t bound, const struct worsegpu_memory *memory);
void events_pack_release(struct events_pack *pack);

/* Room for one event at the end: *room, EVENTS_PACK_LONGEST bytes, of which events_pack_took says
 * how many it has. log_status; LOG_NO_FILE with a sentence. */
int events_pack_room(struct events_pack *pack, uint8_t **room, struct log_problem *problem);
static inline void events_pack_took(struct events_pack *pack, size_t count)
{
    *(pack->file < 0 ? &pack->held_bytes : &pack->unwritten_bytes) += count;
}
/* Both at once. */
int events_pack_add(struct events_pack *pack, const uint8_t *bytes, size_t count,
                    struct log_problem *problem);
/* Nothing more comes. */
int events_pack_finish(struct events_pack *pack, struct log_problem *problem);

/* A new temporary file that no folder shows, for reading and writing; -1 with errno. */
int events_pack_nameless_file(void);

struct events_cursor {
    const struct events_pack *pack;
    const uint8_t *at; /* what is at hand: to be moved on by the reader */
    const uint8_t *end;
    uint64_t file_place; /* of the file's first byte that is not at hand yet */
    uint8_t *buffer;
};

/* 0, or LOG_NO_MEMORY. */
int events_cursor_begin(struct events_cursor *cursor, const struct events_pack *pack);
void events_cursor_end(struct events_cursor *cursor);

/* Makes sure that a whole event is at hand, unless all is read (at == end). LOG_FINE, or
 * LOG_NO_FILE when the temporary file cannot be read. */
int events_cursor_fill_slowly(struct events_cursor *cursor);
static inline int events_cursor_fill(struct events_cursor *cursor)
{
    return cursor->end - cursor->at >= EVENTS_PACK_LONGEST ? LOG_FINE
                                                           : events_cursor_fill_slowly(cursor);
}

#endif
