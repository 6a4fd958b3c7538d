/* A made-up run as text: our trace, requests for `worsegpu-cli run`, or RMM's CSV log. */
#ifndef LAB_GENERATE_WRITE_H
#define LAB_GENERATE_WRITE_H

#include <stdio.h>

#include "lab/scenario.h"
#include "proto/json_writer.h"

enum generate_form {
    GENERATE_TRACE,
    GENERATE_SCRIPT,
    GENERATE_RMM,
    GENERATE_FORMS
};

/* What RMM's log tells again when an allocation is freed. */
struct generate_allocation {
    uint64_t pointer;
    uint64_t bytes;
    uint64_t stream;
};

/* The sink of a scenario. */
struct generate_writer {
    const struct worsegpu_memory *memory;
    const struct scenario *scenario; /* whose process speaks */
    enum generate_form form;
    FILE *to;
    int failure; /* errno of the first write that failed */
    struct json_writer line;
    uint64_t written;
    struct generate_allocation *allocations; /* by number; only for RMM */
    size_t capacity;
    uint64_t next_pointer;
};

/* As typed: "trace", "script", "rmm". GENERATE_FORMS when there is none of that name. */
enum generate_form generate_form_find(const char *name);

void generate_writer_init(struct generate_writer *writer, enum generate_form form, FILE *to,
                          const struct scenario *scenario, const struct worsegpu_memory *memory);
void generate_writer_release(struct generate_writer *writer);

/* Begins the text; it gives the failure by errno, 0 for none. */
int generate_writer_begin(struct generate_writer *writer);
/* For a log_sink, the context is the writer. For RMM's log only what generate_rmm_tells takes.
 * LOG_FINE, LOG_NO_MEMORY, or LOG_STOPPED with `failure`. */
int generate_writer_record(void *context, const struct log_record *record);

/* For a log_sink, the context is a bool: whether RMM's log has a word for all that was recorded. */
int generate_rmm_tells(void *context, const struct log_record *record);

#endif
