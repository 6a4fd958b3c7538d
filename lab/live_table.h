/* What is alive while a log is read: allocations by the key the log gives them, each in a slot,
 * which is the lowest number that is free.
 *
 * Lives inside one device's reading. Only live_table_reserve needs memory. */
#ifndef LAB_LIVE_TABLE_H
#define LAB_LIVE_TABLE_H

#include "lab/number_map.h"

#define LIVE_NONE NUMBER_MAP_NONE

struct live {
    uint64_t id;
    uint64_t key;
    uint64_t bytes;
    uint64_t stream;
};

struct live_table {
    const struct worsegpu_memory *memory;
    struct number_map slots; /* by key */
    struct live *live;       /* by slot */
    size_t live_capacity;
    uint32_t slot_count; /* slots ever used */
    uint32_t *spare;     /* unused ones below slot_count: a heap, the lowest first */
    size_t spare_capacity;
    size_t spares;
};

/* Takes no memory yet. */
void live_table_init(struct live_table *table, const struct keyed_hash *hash,
                     const struct worsegpu_memory *memory);
void live_table_release(struct live_table *table);

/* Room for one more. 0, or -1 when there is no memory. */
int live_table_reserve(struct live_table *table);

/* Its slot. Only after live_table_reserve; nothing else has its key. */
uint32_t live_table_add(struct live_table *table, const struct live *live);

/* LIVE_NONE: no such key. */
uint32_t live_table_find(const struct live_table *table, uint64_t key);

void live_table_remove(struct live_table *table, uint32_t slot);

#endif
