/* What fuzz targets share: taking decisions from the front of the input, and saying what must hold.
 * All they do follows from the input alone: no clock, no randomness. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

static inline void insist(bool holds)
{
    if (!holds)
        abort();
}

/* The next byte; 0 when there is none left. */
static inline uint8_t fuzz_byte(struct fuzz_input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

/* At most `most` bytes; fewer at the end. */
static inline const uint8_t *fuzz_bytes(struct fuzz_input *input, size_t most, size_t *length)
{
    const uint8_t *bytes = input->at;
    *length = input->left < most ? input->left : most;
    input->at += *length;
    input->left -= *length;
    return bytes;
}

/* The lengths of pieces: a byte says how many there are, then come the lengths less 1; they are
 * used round and round. */
struct fuzz_cuts {
    const uint8_t *lengths;
    size_t count;
    size_t next;
};

static inline struct fuzz_cuts fuzz_take_cuts(struct fuzz_input *input)
{
    struct fuzz_cuts cuts = {.next = 0};
    cuts.lengths = fuzz_bytes(input, fuzz_byte(input) % 16u, &cuts.count);
    return cuts;
}

/* How long the next piece of `left` bytes is: at least 1 while something is left. */
static inline size_t fuzz_cut(struct fuzz_cuts *cuts, size_t left)
{
    size_t length = cuts->count ? cuts->lengths[cuts->next++ % cuts->count] + (size_t)1 : left;
    return length < left ? length : left;
}

/* A copy of exactly that length, so that who reads past it is seen; to be freed. */
static inline char *fuzz_copy(const uint8_t *bytes, size_t length)
{
    char *copy = malloc(length ? length : 1);
    insist(copy != NULL);
    if (length)
        memcpy(copy, bytes, length);
    return copy;
}

#endif
