/* What is alive while a log is read; see live_table.h. */
#include "lab/live_table.h"

#include "base/memory.h"

void live_table_init(struct live_table *table, const struct keyed_hash *hash,
                     const struct worsegpu_memory *memory)
{
    *table = (struct live_table){.memory = memory};
    number_map_init(&table->slots, hash, memory);
}

void live_table_release(struct live_table *table)
{
    number_map_release(&table->slots);
    memory_release_array(table->memory, table->live, table->live_capacity, sizeof(*table->live));
    memory_release_array(table->memory, table->spare, table->spare_capacity, sizeof(*table->spare));
    table->live = NULL;
    table->live_capacity = 0;
    table->spare = NULL;
    table->spare_capacity = 0;
    table->slot_count = 0;
    table->spares = 0;
}

int live_table_reserve(struct live_table *table)
{
    if (number_map_reserve(&table->slots) != 0)
        return -1;
    if (table->spares > 0)
        return 0;
    size_t needed = (size_t)table->slot_count + 1;
    if (needed >= LIVE_NONE || memory_grow(table->memory, &table->live, &table->live_capacity,
                                           needed, sizeof(*table->live)) != 0)
        return -1;
    return memory_grow(table->memory, &table->spare, &table->spare_capacity, needed,
                       sizeof(*table->spare));
}

/* The root of the heap leaves; its last number sinks from there. */
static uint32_t take_spare(struct live_table *table)
{
    uint32_t *heap = table->spare;
    uint32_t lowest = heap[0];
    uint32_t sinking = heap[--table->spares];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < table->spares; at = child) {
        if (child + 1 < table->spares && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= sinking)
            break;
        heap[at] = heap[child];
    }
    heap[at] = sinking;
    return lowest;
}

uint32_t live_table_add(struct live_table *table, const struct live *live)
{
    uint32_t slot = table->spares > 0 ? take_spare(table) : table->slot_count++;
    table->live[slot] = *live;
    number_map_put(&table->slots, live->key, slot);
    return slot;
}

uint32_t live_table_find(const struct live_table *table, uint64_t key)
{
    return number_map_find(&table->slots, key);
}

void live_table_remove(struct live_table *table, uint32_t slot)
{
    uint32_t *heap = table->spare;
    size_t at = table->spares++;
    number_map_remove(&table->slots, table->live[slot].key);
    for (; at > 0 && heap[(at - 1) / 2] > slot; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = slot;
}
