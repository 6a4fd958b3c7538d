/* The workloads of shapes.def: what there is, and what was set on one. */
#ifndef LAB_SHAPES_H
#define LAB_SHAPES_H

#include "base/bytes_text.h"
#include "lab/scenario.h"

enum {
    SHAPE_MOST_PARAMETERS = 5,
    SHAPE_PROBLEM_SIZE = 300
};

struct shape_parameter {
    const char *name;
    bool bytes; /* else a plain count */
    uint64_t initial;
    uint64_t least;
    uint64_t most;
    const char *meaning;
};

struct shape {
    const char *name;
    const char *summary;
    const char *story; /* lines */
    /* `values` has one number for each parameter, in order. */
    void (*tell)(struct scenario *scenario, const uint64_t *values);
    struct shape_parameter parameters[SHAPE_MOST_PARAMETERS]; /* fewer end with a NULL name */
};

/* By index, NULL after the last; by name, NULL when there is none. */
const struct shape *shape_at(size_t index);
const struct shape *shape_find(const char *name);
/* The name that was probably meant, or NULL. */
const char *shape_nearest(const char *typed);

size_t shape_parameter_count(const struct shape *shape);
/* A value as it can be typed: "30", "96MiB". */
void shape_number_text(const struct shape_parameter *parameter, uint64_t number,
                       char text[BYTES_TEXT_SIZE]);

/* The parameters' first values, then NAME=VALUE words over them. false with a sentence that says
 * what is wrong, and with the nearest name where one is near. */
bool shape_read(const struct shape *shape, const char *const *words, size_t count,
                uint64_t values[SHAPE_MOST_PARAMETERS], char problem[SHAPE_PROBLEM_SIZE]);

#endif
