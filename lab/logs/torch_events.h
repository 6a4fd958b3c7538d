/* The events of a torch trace, packed: some 14 bytes each, in memory up to a bound and beyond it in
 * a temporary file (lab/events_pack.h).
 *
 * Events are numbered from 0 in the order in which they are added. Lives inside one snapshot. */
#ifndef LOGS_TORCH_EVENTS_H
#define LOGS_TORCH_EVENTS_H

#include "lab/events_pack.h"

enum torch_action {
    TORCH_ALLOC,
    TORCH_FREE_REQUESTED,
    TORCH_FREE_COMPLETED,
    TORCH_SEGMENT_ALLOC,
    TORCH_SEGMENT_FREE,
    TORCH_SEGMENT_MAP,
    TORCH_SEGMENT_UNMAP,
    TORCH_OOM,
    TORCH_OTHER_ACTION, /* snapshot, annotations, what later versions may add */
    TORCH_ACTIONS
};

struct torch_event {
    enum torch_action action;
    bool has_addr;
    bool has_size;
    bool has_time;
    uint64_t addr; /* with TORCH_OOM: what was free on the device */
    uint64_t size; /* as asked for; with TORCH_OOM rounded */
    uint64_t stream;
    uint64_t time_us;
    uint64_t place; /* of its dict */
};

struct torch_events {
    struct events_pack pack;
    uint64_t count;
    uint64_t bytes;
    struct torch_event last; /* what the next one is told against */
    uint64_t *starts;        /* where each piece of so many events begins */
    size_t starts_capacity;
};

void torch_events_init(struct torch_events *events, const struct worsegpu_memory *memory);
void torch_events_release(struct torch_events *events);

/* log_status. */
int torch_events_add(struct torch_events *events, const struct torch_event *event,
                     struct log_problem *problem);
/* No more are added: from now on they can be read. */
int torch_events_finish(struct torch_events *events, struct log_problem *problem);

struct torch_cursor {
    const struct torch_events *events;
    struct events_cursor cursor;
    uint64_t next;
    struct torch_event last;
};

/* 0, or LOG_NO_MEMORY. */
int torch_cursor_begin(struct torch_cursor *cursor, const struct torch_events *events);
void torch_cursor_end(struct torch_cursor *cursor);
/* The event of this number (below `count`); the one after the last read is the cheapest.
 * log_status.
 */
int torch_cursor_read(struct torch_cursor *cursor, uint64_t number, struct torch_event *event,
                      struct log_problem *problem);

#endif
