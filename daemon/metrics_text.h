/* A text that grows, with what the exposition formats of Prometheus and OpenMetrics want escaped.
 * Without memory it stays as it is, and says so. */
#ifndef METRICS_TEXT_H
#define METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/worsegpu_memory.h"

struct metrics_text {
    const struct worsegpu_memory *memory;
    char *bytes; /* not NUL-terminated */
    size_t length;
    size_t capacity;
    bool failed; /* there was no memory: it is of no use */
};

void metrics_text_init(struct metrics_text *text, const struct worsegpu_memory *memory);
void metrics_text_release(struct metrics_text *text);

/* Adds what printf would write, at most METRICS_TEXT_PIECE bytes. */
enum {
    METRICS_TEXT_PIECE = 255
};
__attribute__((format(printf, 2, 3))) void metrics_text_add(struct metrics_text *text,
                                                            const char *format, ...);

/* Adds name="value" with the value escaped, and a comma before it unless it is the first label. */
void metrics_text_label(struct metrics_text *text, bool first, const char *name, const char *value);

#endif
