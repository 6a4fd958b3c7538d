/* From numbers that a log chose (addresses, handles, streams) to small numbers of ours: a hash
 * table with a secret key, so that no log can be made slow on purpose.
 *
 * Open addressing; removing leaves no marks behind and needs no memory. Lives inside its owner. */
#ifndef LAB_NUMBER_MAP_H
#define LAB_NUMBER_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/worsegpu_memory.h"
#include "lib/keyed_hash.h"

#define NUMBER_MAP_NONE UINT32_MAX

struct number_map_entry {
    uint64_t key;
    uint32_t value; /* NUMBER_MAP_NONE: an empty place */
};

struct number_map {
    const struct worsegpu_memory *memory;
    struct keyed_hash hash;
    struct number_map_entry *entries;
    size_t capacity; /* a power of two, at least twice `count`; or 0 */
    size_t count;
};

/* Takes no memory yet. */
void number_map_init(struct number_map *map, const struct keyed_hash *hash,
                     const struct worsegpu_memory *memory);
void number_map_release(struct number_map *map);

/* Room for one more. 0, or -1 when there is no memory. */
int number_map_reserve(struct number_map *map);

/* The value, or NUMBER_MAP_NONE. */
uint32_t number_map_find(const struct number_map *map, uint64_t key);

/* A new key, or another value for a present one. Only after number_map_reserve; the value is not
 * NUMBER_MAP_NONE. */
void number_map_put(struct number_map *map, uint64_t key, uint32_t value);

/* Does nothing where the key is not there. */
void number_map_remove(struct number_map *map, uint64_t key);

#endif
