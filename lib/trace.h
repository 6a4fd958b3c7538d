/* The trace of an allocator: the newest events, in a ring that is taken whole at creation.
 *
 * So recording never fails and costs the same always. The ring's memory is not touched before an
 * event falls on it: what is never used stays with the system. Tags lie in an array of their own,
 * which costs nothing where nobody uses tags. With a limit of 0 nothing is recorded and the
 * sequence stays 0. */
#ifndef TRACE_H
#define TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/worsegpu.h"

/* An event without what follows from its place in the ring (its sequence). */
struct trace_record {
    uint64_t allocation_id;
    uint64_t requested_bytes; /* of an event_done: its count */
    uint64_t reserved_bytes;
    uint64_t stream;
    uint64_t client;
    uint64_t time_us;
    uint64_t rule; /* of a fault */
    uint32_t user;
    uint8_t operation; /* enum worsegpu_operation */
    uint8_t action;    /* enum worsegpu_fault_action, of a fault */
    uint8_t device;    /* enum worsegpu_device */
    uint8_t reason;    /* enum worsegpu_reason */
    uint8_t tag_bytes;
    bool released;
    bool stream_given;
    bool upper;
    bool newest;
    uint8_t alignment; /* 0: none; else one more than its logarithm to base 2 */
};

/* The ring is taken whole: a field that makes it larger costs every allocator that keeps a trace.
 */
_Static_assert(sizeof(struct trace_record) == 72, "a record is as small as it can be");

struct trace_tag {
    char text[WORSEGPU_MAX_TAG_BYTES];
};

struct trace {
    const struct worsegpu_memory *memory;
    struct trace_record *records; /* `limit` of them; NULL when that is 0 */
    struct trace_tag *tags;       /* beside them */
    size_t limit;
    size_t next;            /* where the next event goes */
    size_t count;           /* retained */
    uint64_t last_sequence; /* of the newest event ever recorded */
};

/* 0, or WORSEGPU_NO_MEMORY: then there is nothing to release. */
int trace_init(struct trace *trace, size_t limit, const struct worsegpu_memory *memory);
void trace_release(struct trace *trace);

/* Records an event; the oldest one goes when the ring is full. `tag` has record->tag_bytes bytes.
 */
void trace_push(struct trace *trace, const struct trace_record *record, const char *tag);

/* As worsegpu_trace; none of the pointers may be NULL, but `events` when `limit` is 0. */
void trace_read(const struct trace *trace, uint64_t after, struct worsegpu_event *events,
                size_t limit, size_t *count, bool *more, uint64_t *dropped);

/* Forgets what is retained; how many events that were. */
size_t trace_clear(struct trace *trace);

/* The event `age` places before the newest; `age` is below trace->count. */
const struct trace_record *trace_at(const struct trace *trace, size_t age);

#endif
