/* What an inspection of a log finds, between the walk that finds it (inspect.c) and the printing
 * (inspect_print.c). */
#ifndef LAB_INSPECT_H
#define LAB_INSPECT_H

#include "lab/lab.h"

enum {
    INSPECT_BUCKETS = 65 /* 0, 1, 2 to 3, 4 to 7, ...: by how many bits a number has */
};

/* An allocation that is live in the walk. */
struct inspect_alive {
    uint64_t id; /* 0: none */
    uint64_t place;
    uint64_t bytes;
    uint64_t event;
    uint64_t time_us;
    uint64_t stream;
};

struct inspect_findings {
    const struct events_facts *facts;
    struct inspect_alive *alive; /* by slot, facts->peak_live of them */
    uint64_t live_bytes;
    uint64_t live;
    uint64_t peak_event; /* number of the event that reached the peak */
    uint64_t peak_count; /* live allocations then */
    uint64_t size_count[INSPECT_BUCKETS];
    uint64_t size_bytes[INSPECT_BUCKETS];
    uint64_t event_life[INSPECT_BUCKETS];
    uint64_t time_life[INSPECT_BUCKETS];
    uint64_t freed;
    uint64_t elsewhere; /* freed on another stream than allocated */
    uint64_t refused_bytes;
    uint64_t leaked_bytes;
    struct inspect_alive largest_leak;
};

/* The exit status. */
int inspect_print_text(struct lab *lab, const struct inspect_findings *found);
int inspect_print_json(struct lab *lab, const struct inspect_findings *found);

#endif
