/* Short ways to a `struct worsegpu_memory`; see memory.h. */
#include "base/memory.h"

#include <stdint.h>
#include <string.h>

enum {
    FIRST_CAPACITY = 16 /* items that a growing array starts with */
};

void *memory_allocate_array(const struct worsegpu_memory *memory, size_t count, size_t item_bytes)
{
    return memory_resize_array(memory, NULL, 0, count, item_bytes);
}

void *memory_allocate_zeroed(const struct worsegpu_memory *memory, size_t count, size_t item_bytes)
{
    void *array = memory_allocate_array(memory, count, item_bytes);
    if (array)
        memset(array, 0, count * item_bytes);
    return array;
}

void *memory_resize_array(const struct worsegpu_memory *memory, void *array, size_t old_count,
                          size_t new_count, size_t item_bytes)
{
    size_t new_bytes;
    if (__builtin_mul_overflow(new_count, item_bytes, &new_bytes) || new_bytes == 0)
        return NULL;
    return memory->resize(memory->context, array, old_count * item_bytes, new_bytes);
}

void memory_release_array(const struct worsegpu_memory *memory, void *array, size_t count,
                          size_t item_bytes)
{
    if (array)
        memory->resize(memory->context, array, count * item_bytes, 0);
}

int memory_grow(const struct worsegpu_memory *memory, void *array, size_t *capacity, size_t needed,
                size_t item_bytes)
{
    if (needed <= *capacity)
        return 0;
    size_t target = *capacity ? *capacity : FIRST_CAPACITY;
    while (target < needed) {
        if (target > SIZE_MAX / 2)
            return -1;
        target *= 2;
    }
    void *current;
    memcpy(&current, array, sizeof(current));
    void *grown = memory_resize_array(memory, current, *capacity, target, item_bytes);
    if (!grown)
        return -1;
    memcpy(array, &grown, sizeof(grown));
    *capacity = target;
    return 0;
}
