/* Where worsegpu takes its memory from: the replaceable allocator behind both libraries and the
 * daemon.
 *
 * One function does it all, so that it is easy to replace, to limit and to let fail. Sizes are
 * given back at release, so that a replacement can keep accounts without a header of its own. */
#ifndef WORSEGPU_MEMORY_H
#define WORSEGPU_MEMORY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A source of memory. The struct must outlive everything made with it.
 *
 * resize(context, pointer, old_bytes, new_bytes):
 *   pointer NULL (old_bytes 0)   a new piece of new_bytes, or NULL when there is none
 *   new_bytes 0                  gives `pointer` back, which has old_bytes; returns NULL; cannot
 * fail otherwise                    like realloc: the piece, moved or not, or NULL with the old one
 * intact What it returns is aligned for any type. It must be safe for threads if what uses it is.
 */
struct worsegpu_memory {
    void *(*resize)(void *context, void *pointer, size_t old_bytes, size_t new_bytes);
    void *context;
};

#ifdef __cplusplus
}
#endif

#endif
