/* The live allocations; see handle_table.h.
 *
 * The hash is open, with linear probing; a removal moves the slots behind it up, so there are no
 * tombstones and nothing to clean up later. */
#include "lib/handle_table.h"

#include <string.h>

#include "base/memory.h"

enum {
    FIRST_SLOTS = 32,
    FEW_HOLES = 32,             /* not worth a squeeze */
    MAX_RECORDS = INT32_MAX - 1 /* so that positions and skips fit 32 bits */
};

_Static_assert(WORSEGPU_MAX_LIVE_LIMIT < MAX_RECORDS, "every allocation that may live has a place");

void handle_table_init(struct handle_table *table, const struct keyed_hash *hash,
                       const struct worsegpu_memory *memory)
{
    *table = (struct handle_table){.memory = memory, .hash = *hash};
    tag_pool_init(&table->tags, memory);
}

static void release_tag(struct handle_table *table, struct handle_record *record)
{
    if (!record->tag)
        return;
    tag_pool_give(&table->tags, record->tag, record->tag_bytes);
    record->tag = NULL;
    table->tagged--;
}

void handle_table_release(struct handle_table *table)
{
    for (size_t i = 0; table->tagged > 0 && i < table->length; i++) {
        if (table->records[i].skip == 0)
            release_tag(table, &table->records[i]);
    }
    tag_pool_release(&table->tags);
    memory_release_array(table->memory, table->records, table->capacity, sizeof(*table->records));
    memory_release_array(table->memory, table->slots, table->slot_count, sizeof(*table->slots));
    const struct keyed_hash hash = table->hash;
    handle_table_init(table, &hash, table->memory);
}

static size_t home_of(const struct handle_table *table, uint32_t id_low)
{
    return (size_t)keyed_hash(&table->hash, id_low) & (table->slot_count - 1);
}

static void add_slot(struct handle_table *table, uint64_t id, size_t position)
{
    size_t at = home_of(table, (uint32_t)id);
    while (table->slots[at].position != 0)
        at = (at + 1) & (table->slot_count - 1);
    table->slots[at] = (struct handle_slot){(uint32_t)id, (uint32_t)position + 1};
}

static void fill_slots(struct handle_table *table)
{
    memset(table->slots, 0, table->slot_count * sizeof(*table->slots));
    for (size_t i = 0; i < table->survivors; i++)
        add_slot(table, table->records[i].id, i);
}

static void squeeze(struct handle_table *table)
{
    size_t kept = 0;
    for (size_t i = 0; i < table->length; i++) {
        if (table->records[i].skip != 0)
            continue;
        if (kept != i)
            table->records[kept] = table->records[i];
        kept++;
    }
    table->length = kept;
    table->survivors = kept;
    fill_slots(table);
}

/* The record of an id among the survivors, or NULL. */
static struct handle_record *find_survivor(const struct handle_table *table, uint64_t id)
{
    if (table->survivors == 0)
        return NULL;
    for (size_t at = home_of(table, (uint32_t)id);; at = (at + 1) & (table->slot_count - 1)) {
        const struct handle_slot *slot = &table->slots[at];
        if (slot->position == 0)
            return NULL;
        struct handle_record *record = &table->records[slot->position - 1];
        if (slot->id_low == (uint32_t)id && record->id == id)
            return record;
    }
}

int handle_table_reserve(struct handle_table *table)
{
    if (table->length >= MAX_RECORDS)
        return WORSEGPU_NO_MEMORY;
    if (memory_grow(table->memory, &table->records, &table->capacity, table->length + 1,
                    sizeof(*table->records)) != 0)
        return WORSEGPU_NO_MEMORY;
    if ((table->live + 1) * 2 <= table->slot_count)
        return WORSEGPU_OK;

    size_t slot_count = table->slot_count ? table->slot_count * 2 : FIRST_SLOTS;
    struct handle_slot *slots = memory_allocate_array(table->memory, slot_count, sizeof(*slots));
    if (!slots)
        return WORSEGPU_NO_MEMORY;
    memory_release_array(table->memory, table->slots, table->slot_count, sizeof(*slots));
    table->slots = slots;
    table->slot_count = slot_count;
    if (table->survivors > 0)
        fill_slots(table);
    return WORSEGPU_OK;
}

void handle_table_append(struct handle_table *table, const struct handle_record *record)
{
    struct handle_record *added = &table->records[table->length++];
    *added = *record;
    added->skip = 0;
    table->tagged += added->tag != NULL;
    table->live++;
}

struct handle_record *handle_table_find(const struct handle_table *table, uint64_t id)
{
    struct handle_record *record;
    if (table->length > table->survivors && id >= table->records[table->survivors].id) {
        uint64_t place = id - table->records[table->survivors].id;
        if (place >= table->length - table->survivors)
            return NULL;
        record = &table->records[table->survivors + (size_t)place];
    } else {
        record = find_survivor(table, id);
    }
    return record && record->skip == 0 ? record : NULL;
}

void handle_table_remove(struct handle_table *table, struct handle_record *record)
{
    release_tag(table, record);
    record->skip = 1;
    table->live--;
    size_t holes = table->length - table->live;
    if (holes > FEW_HOLES && holes > table->live)
        squeeze(table);
}

/* The first live record from `position` on. Every hole passed over is told how far the way went, so
 * that the next search goes it in one step. */
static struct handle_record *live_from(struct handle_table *table, size_t position)
{
    size_t end = position;
    while (end < table->length && table->records[end].skip != 0)
        end += table->records[end].skip;
    while (position < end) {
        uint32_t skip = table->records[position].skip;
        table->records[position].skip = (uint32_t)(end - position);
        position += skip;
    }
    return end < table->length ? &table->records[end] : NULL;
}

struct handle_record *handle_table_after(struct handle_table *table, uint64_t after)
{
    size_t low = 0;
    size_t high = table->length;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->records[middle].id <= after)
            low = middle + 1;
        else
            high = middle;
    }
    return live_from(table, low);
}

struct handle_record *handle_table_next(struct handle_table *table,
                                        const struct handle_record *record)
{
    return live_from(table, (size_t)(record - table->records) + 1);
}
