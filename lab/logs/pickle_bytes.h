/* The bytes of a pickle while it is read: what is at hand of its source, and numbers in it. Lives
 * inside one reading. */
#ifndef LOGS_PICKLE_BYTES_H
#define LOGS_PICKLE_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct log_problem;
struct log_source;

struct pickle_bytes {
    struct log_source *source;
    struct log_problem *problem;
    const unsigned char *piece; /* what was peeked at; NULL: nothing yet */
    const unsigned char *at;    /* the next one; to be moved on by the reader */
    const unsigned char *end;
    uint64_t piece_place; /* of the piece's first byte, from 1 */
};

/* Where `at` is, from 1. */
static inline uint64_t pickle_bytes_place(const struct pickle_bytes *bytes)
{
    return bytes->piece_place + (uint64_t)(bytes->at - bytes->piece);
}

/* Looks for `least` bytes from here; there are fewer only at the end. log_status. */
int pickle_bytes_look(struct pickle_bytes *bytes, size_t least);

/* `count` bytes from here must be at hand: log_status, LOG_BAD where it ends before. */
int pickle_bytes_want(struct pickle_bytes *bytes, size_t count);

/* Moves on, however far. log_status. */
int pickle_bytes_pass(struct pickle_bytes *bytes, uint64_t count);

/* LOG_BAD: it ends here. */
int pickle_bytes_cut_off(struct pickle_bytes *bytes);

/* An unsigned number of up to 8 bytes, lowest byte first. */
static inline uint64_t pickle_number(const unsigned char *bytes, size_t count)
{
    uint64_t number = 0;
    for (size_t i = 0; i < count; i++)
        number |= (uint64_t)bytes[i] << (8 * i);
    return number;
}

#endif
