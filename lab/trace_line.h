/* One event as a line of our own trace, with the keys that the daemon gives its events
 * (PROTOCOL.md, method trace). What is as usual is left out. No state; for convert and generate. */
#ifndef LAB_TRACE_LINE_H
#define LAB_TRACE_LINE_H

#include "lab/logs/log.h"
#include "proto/json_writer.h"

struct trace_line {
    enum log_operation operation;
    uint64_t id;       /* of the allocation; 0: none */
    uint64_t bytes;    /* of an allocation or refusal; of an event_done how many, UINT64_MAX: all */
    uint64_t sequence; /* from 1 */
    uint64_t time_us;
    uint64_t stream;
    uint64_t alignment; /* 0: none */
    bool timed;         /* time_us means something */
    bool tells_stream;
    bool newest;
    bool before;
    bool upper;
};

/* How a trace calls the operation; NULL for what a recorded allocator did by itself, which has no
 * line. */
const char *trace_line_word(enum log_operation operation);

/* Appends it with its line end; nothing where there is no word. Failures stay in the writer. */
void trace_line_write(struct json_writer *writer, const struct trace_line *line);

#endif
