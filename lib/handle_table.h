/* The live allocations of one allocator: by id in O(1), and in the order of their ids.
 *
 * Ids go up by one, so a new record is appended and the array is in id order by itself. A removed
 * record leaves a hole; when more than half are holes, they are squeezed out. So the array has two
 * parts: the survivors of the last squeeze, found through a hash with a secret key that is made
 * anew at each squeeze, and behind them one record for every id since, found by counting. Appending
 * and removing touch no hash. Removing needs no memory, not even when it squeezes.
 *
 * Records move when the array grows or is squeezed: pointers to them last until the next append or
 * remove. Tags are pieces of their own and stay where they are for as long as the allocation lives.
 */
#ifndef HANDLE_TABLE_H
#define HANDLE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/keyed_hash.h"
#include "lib/tag_pool.h"
#include "lib/worsegpu.h"

struct handle_record {
    uint64_t id;
    uint8_t secret[16];
    uint64_t requested_bytes;
    uint64_t reserved_bytes;
    uint64_t offset;
    int64_t block_index;
    uint64_t cookie; /* the policy's */
    uint64_t stream;
    uint32_t user;
    char *tag; /* tag_bytes long, NULL for none; from the table's pool */
    void *owner;
    uint8_t device; /* enum worsegpu_device */
    uint8_t reason; /* enum worsegpu_reason */
    uint8_t tag_bytes;
    bool stream_given;
    uint32_t skip; /* 0: live; else a hole, and no live record is closer than so many places on */
};

struct handle_slot {
    uint32_t id_low;   /* the low half of the id, so that most misses need no look at the record */
    uint32_t position; /* plus 1; 0: empty */
};

struct handle_table {
    const struct worsegpu_memory *memory;
    struct handle_record *records;
    size_t capacity;
    size_t length; /* records in the array, holes included */
    size_t live;
    size_t tagged;             /* live ones that have a tag */
    struct tag_pool tags;      /* where their tags come from */
    size_t survivors;          /* the first records: those that the slots lead to, dead or alive */
    struct handle_slot *slots; /* not initialised before the first squeeze */
    size_t slot_count;         /* a power of two, at least twice the live ones; or 0 */
    struct keyed_hash hash;
};

/* Takes no memory yet. */
void handle_table_init(struct handle_table *table, const struct keyed_hash *hash,
                       const struct worsegpu_memory *memory);
void handle_table_release(struct handle_table *table);

/* Makes sure that one record can be appended. 0 or WORSEGPU_NO_MEMORY. */
int handle_table_reserve(struct handle_table *table);

/* Appends a copy of `record`, whose id is one above the last one appended. Only after
 * handle_table_reserve. */
void handle_table_append(struct handle_table *table, const struct handle_record *record);

/* By id; NULL when it is not live. */
struct handle_record *handle_table_find(const struct handle_table *table, uint64_t id);

/* Removes a live record and gives its tag back. */
void handle_table_remove(struct handle_table *table, struct handle_record *record);

/* The first live record with an id above `after`, or NULL. O(log length) and the holes passed over,
 * which are passed over only once. */
struct handle_record *handle_table_after(struct handle_table *table, uint64_t after);

/* The live record that follows a live one, or NULL. */
struct handle_record *handle_table_next(struct handle_table *table,
                                        const struct handle_record *record);

#endif
