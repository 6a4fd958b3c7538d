/* Short ways to a `struct worsegpu_memory`: arrays with checked sizes, growing, the system's own
 * source.
 *
 * Every module takes its memory through these, so that a test can let each single allocation fail.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <stddef.h>

#include "base/worsegpu_memory.h"

/* malloc, realloc and free. Never NULL; lives for ever. */
const struct worsegpu_memory *memory_system(void);

/* `count` items of `item_bytes` each, not initialised. NULL when there is no memory, when the size
 * overflows, or when it is zero. */
void *memory_allocate_array(const struct worsegpu_memory *memory, size_t count, size_t item_bytes);

/* The same, filled with zero bytes. */
void *memory_allocate_zeroed(const struct worsegpu_memory *memory, size_t count, size_t item_bytes);

/* Resizes an array. NULL leaves the old one as it was. new_count must not be 0. */
void *memory_resize_array(const struct worsegpu_memory *memory, void *array, size_t old_count,
                          size_t new_count, size_t item_bytes);

/* Gives an array back. NULL is fine. */
void memory_release_array(const struct worsegpu_memory *memory, void *array, size_t count,
                          size_t item_bytes);

/* Makes *array (with *capacity items; NULL and 0 at first) hold at least `needed` items, doubling.
 * 0, or -1 when there is no memory: then nothing has changed. `array` is the address of the
 * pointer. */
int memory_grow(const struct worsegpu_memory *memory, void *array, size_t *capacity, size_t needed,
                size_t item_bytes);

#endif
