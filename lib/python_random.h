/* The random stream of an allocator: the Mersenne Twister MT19937, seeded and drawn as Python does
 * it.
 *
 * After M. Matsumoto and T. Nishimura, "Mersenne Twister: a 623-dimensionally equidistributed
 * uniform pseudorandom number generator", 1998, with their seeding by an array of words; and after
 * what Python's module `random` documents and shows (tests/golden/README.md,
 * tests/golden/mt19937.json).
 *
 * One stream lives inside each allocator, as long as it does. A copy of the struct is a copy of the
 * stream: both go on with the same numbers. It is no source of secrets. */
#ifndef PYTHON_RANDOM_H
#define PYTHON_RANDOM_H

#include <stdint.h>

#include "worsegpu_memory.h"

enum {
    PYTHON_RANDOM_WORDS = 624 /* of 32 bits: the state of MT19937 */
};

struct python_random {
    uint32_t words[PYTHON_RANDOM_WORDS];
    uint32_t next; /* the word to hand out next; PYTHON_RANDOM_WORDS: make new ones first */
};

/* Starts the stream as Python's random.seed(int) does. `decimal` is -?[0-9]+; the sign and leading
 * zeros make no difference. Takes scratch memory and gives it back.
 * 0, or WORSEGPU_NO_MEMORY: then `random` is as it was. */
int python_random_seed(struct python_random *random, const char *decimal,
                       const struct worsegpu_memory *memory);

/* The next 32 bits of the stream. */
uint32_t python_random_word(struct python_random *random);

/* `bits` random bits, 1 to 32, as Python's getrandbits: the top ones of one word. */
uint32_t python_random_bits(struct python_random *random, unsigned bits);

/* At least 0 and below 1 with 53 random bits, as Python's random(). Two words. */
double python_random_double(struct python_random *random);

/* A number below `count` (1 to 2^31), as the index that Python's choice() picks: as many bits as
 * `count` has, drawn again while the result is not below it. */
uint32_t python_random_choice(struct python_random *random, uint32_t count);

#endif
