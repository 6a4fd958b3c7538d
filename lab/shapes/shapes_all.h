/* What each shape of shapes.def does; see shapes.h. */
#ifndef SHAPES_ALL_H
#define SHAPES_ALL_H

#include "lab/scenario.h"

#define SHAPE(name, summary, story)                                                                \
    void shape_##name(struct scenario *scenario, const uint64_t *values);
#include "lab/shapes.def"

#endif
