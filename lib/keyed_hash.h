/* A hash with a secret key, for tables whose keys a client can choose.
 *
 * Whoever does not know the key cannot pick sizes or numbers that fall on the same place, so no
 * choice of theirs makes a table slow. One 64 by 64 bit multiplication whose halves are folded
 * together. The key decides only where things lie in memory, never what an allocator answers. */
#ifndef KEYED_HASH_H
#define KEYED_HASH_H

#include <stdint.h>

/* Filled with random bytes once, then never changed. */
struct keyed_hash {
    uint64_t key[2];
};

static inline uint64_t keyed_hash(const struct keyed_hash *hash, uint64_t value)
{
    /* The bits set by force keep the factor large and odd, whatever the key. */
    unsigned __int128 product =
        (unsigned __int128)(value ^ hash->key[0]) * (hash->key[1] | UINT64_C(0x8000000000000001));
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#endif
