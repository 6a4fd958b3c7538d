/* The events of one device of one log, ready to be replayed any number of times: log records whose
 * frees have found their allocations.
 *
 * Allocations are numbered: `id` 1, 2, ... in their order, and `slot`, the lowest number that no
 * live allocation has, so that a replay needs a table as large as the most that were live at once.
 * Events are kept packed, in memory up to a bound and beyond it in an unlinked temporary file
 * ($TMPDIR, else /var/tmp), so that memory is explained by what is live. */
#ifndef LAB_EVENTS_H
#define LAB_EVENTS_H

#include "lab/logs/log.h"

#define EVENTS_ANY_DEVICE UINT32_MAX

struct events; /* a recording of events */

struct event {
    enum log_operation operation;
    bool before; /* as in struct log_record */
    bool upper;
    bool newest;      /* of an event_done */
    uint32_t slot;    /* of an allocation, free or record_stream */
    uint64_t id;      /* of an allocation, free or record_stream, from 1; 0 in the others */
    uint64_t bytes;   /* of an allocation, refusal or segment, as logged; in a free, of the
                         allocation; of an event_done, how many */
    uint64_t address; /* of an allocation or segment, or LOG_NO_ADDRESS */
    uint64_t stream;  /* in a free: as the free named it */
    uint64_t alignment;
    uint64_t time_us;
    uint64_t place;
};

/* What is true of the whole recording. */
struct events_facts {
    struct log_facts log;
    uint32_t device;  /* which one this is */
    uint32_t devices; /* how many the log has that allocate something */
    uint64_t events;  /* of every kind */
    uint64_t count[LOG_OPERATIONS];
    uint64_t before;        /* allocations that were there at the start */
    uint64_t unknown_frees; /* frees of what the log never allocated: left out */
    uint64_t unknown_uses;  /* record_streams of such: left out too */
    uint64_t doubled;       /* allocations where a live one had the same key: the older one is freed
                               there, which is an event of its own */
    uint64_t streams;       /* distinct ones */
    uint64_t live_at_end;
    uint64_t peak_live;  /* most allocations at once: slots are below it */
    uint64_t peak_bytes; /* most bytes live at once: the floor of every policy */
    uint64_t peak_place; /* place and id of the allocation that reached it first */
    uint64_t peak_id;
    uint64_t span_us;
};

/* Reads a log. `device` EVENTS_ANY_DEVICE: the lowest-numbered one that allocates something; the
 * others are counted and left out. LOG_BAD also where the device asked for allocates nothing.
 * `progress` may be NULL; `done` is as log_source_progress tells it. log_status. */
int events_read(struct log_source *source, const struct log_format *format, uint32_t device,
                const struct worsegpu_memory *memory, void (*progress)(void *context, double done),
                void *progress_context, struct events **events, struct log_problem *problem);
void events_release(struct events *events);
const struct events_facts *events_facts(const struct events *events);

/* A walk from the first event to the last. Several may be under way. */
struct events_walk;
int events_walk_begin(const struct events *events, struct events_walk **walk);
void events_walk_end(struct events_walk *walk);
/* LOG_FINE with *event, LOG_STOPPED after the last one, LOG_NO_FILE when the temporary file cannot
 * be read. */
int events_walk_next(struct events_walk *walk, struct event *event);

#endif
