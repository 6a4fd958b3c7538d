/* A policy's own figures, under the names that the modelled allocator gives them, told to whoever
 * asks. Names and values are in the order of telling; texts are static. */
#ifndef STATISTICS_H
#define STATISTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct statistics_sink {
    void *context;
    bool lists; /* whether lists that grow with the blocks are wanted; without them, a policy tells
                   only figures of fixed size */
    void (*count)(void *context, const char *name, uint64_t value);
    void (*number)(void *context, const char *name, double value);
    void (*none)(void *context, const char *name); /* there is no such figure now */
    void (*values)(void *context, const char *name, const uint64_t *values, size_t count);

    /* A list of rows: list_begin, row..., list_end. A row is `count` values; with `names` (one for
     * each) it is an object, with NULL an array. */
    void (*list_begin)(void *context, const char *name);
    void (*row)(void *context, const char *const *names, const uint64_t *values, size_t count);
    void (*list_end)(void *context);
};

#endif
