/* From numbers to numbers; see number_map.h. */
#include "lab/number_map.h"

#include "base/memory.h"

enum {
    FIRST_PLACES = 64
};

void number_map_init(struct number_map *map, const struct keyed_hash *hash,
                     const struct worsegpu_memory *memory)
{
    *map = (struct number_map){.memory = memory, .hash = *hash};
}

void number_map_release(struct number_map *map)
{
    memory_release_array(map->memory, map->entries, map->capacity, sizeof(*map->entries));
    map->entries = NULL;
    map->capacity = 0;
    map->count = 0;
}

static size_t home_of(const struct number_map *map, uint64_t key)
{
    return (size_t)keyed_hash(&map->hash, key) & (map->capacity - 1);
}

/* Where the key is, or the empty place where it would go. The map has places. */
static size_t place_of(const struct number_map *map, uint64_t key)
{
    size_t at = home_of(map, key);
    while (map->entries[at].value != NUMBER_MAP_NONE && map->entries[at].key != key)
        at = (at + 1) & (map->capacity - 1);
    return at;
}

int number_map_reserve(struct number_map *map)
{
    if ((map->count + 1) * 2 <= map->capacity)
        return 0;
    struct number_map larger = *map;
    larger.capacity = map->capacity ? map->capacity * 2 : FIRST_PLACES;
    larger.entries = memory_allocate_array(map->memory, larger.capacity, sizeof(*larger.entries));
    if (!larger.entries)
        return -1;
    for (size_t i = 0; i < larger.capacity; i++)
        larger.entries[i] = (struct number_map_entry){0, NUMBER_MAP_NONE};
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->entries[i].value != NUMBER_MAP_NONE)
            larger.entries[place_of(&larger, map->entries[i].key)] = map->entries[i];
    }
    memory_release_array(map->memory, map->entries, map->capacity, sizeof(*map->entries));
    *map = larger;
    return 0;
}

uint32_t number_map_find(const struct number_map *map, uint64_t key)
{
    if (map->count == 0)
        return NUMBER_MAP_NONE;
    return map->entries[place_of(map, key)].value;
}

void number_map_put(struct number_map *map, uint64_t key, uint32_t value)
{
    struct number_map_entry *entry = &map->entries[place_of(map, key)];
    map->count += entry->value == NUMBER_MAP_NONE;
    *entry = (struct number_map_entry){key, value};
}

void number_map_remove(struct number_map *map, uint64_t key)
{
    if (map->count == 0)
        return;
    size_t hole = place_of(map, key);
    if (map->entries[hole].value == NUMBER_MAP_NONE)
        return;
    map->count--;
    /* What lies behind moves up, unless that would put it before its home. */
    size_t mask = map->capacity - 1;
    for (size_t at = (hole + 1) & mask; map->entries[at].value != NUMBER_MAP_NONE;
         at = (at + 1) & mask) {
        size_t way = (at - home_of(map, map->entries[at].key)) & mask;
        if (way < ((at - hole) & mask))
            continue;
        map->entries[hole] = map->entries[at];
        hole = at;
    }
    map->entries[hole].value = NUMBER_MAP_NONE;
}
