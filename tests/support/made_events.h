/* For tests: what a shape or a public case asks for, written down and read back as events. */
#ifndef MADE_EVENTS_H
#define MADE_EVENTS_H

#include "lab/cases.h"
#include "lab/events.h"
#include "lab/generate_write.h"
#include "lab/shapes.h"

/* The text of a workload, which the caller frees. */
char *made_shape_text(const struct shape *shape, const uint64_t *values, const char *seed,
                      enum generate_form form, const struct worsegpu_memory *memory);
char *made_case_text(const struct public_case *public_case, size_t variant, enum generate_form form,
                     const struct worsegpu_memory *memory);

/* Read back as a log of the format that its content has; the caller releases the events. */
struct events *made_events(const char *text);

#endif
