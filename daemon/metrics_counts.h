/* What the daemon counts as it goes, for `metrics`: requests, errors, bytes, and how long each
 * method takes.
 *
 * Whoever owns the clock lends it: without one no time is measured. It is read once for each
 * request and once more where a burst begins, since the end of one request is the beginning of the
 * next. `allocate` and `free` take less than ten looks at the clock: where several follow one
 * another in a burst, one look times a group of them, and each is entered with its equal part. One
 * for each server, zeroed at its start. */
#ifndef METRICS_COUNTS_H
#define METRICS_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/errors.h"
#include "proto/methods.h"

enum {
    METRICS_GROUP = 8,   /* requests timed by one look at the clock, at most */
    METRICS_BUCKETS = 22 /* 1 us, 2 us, 5 us, 10 us, ... 10 s; those that took longer come after */
};

struct metrics_latency {
    uint64_t counts[METRICS_BUCKETS + 1]; /* of each bucket alone */
    uint64_t sum_ns;
};

enum metrics_refusal {
    METRICS_REFUSED_FULL, /* a limit of connections was met */
    METRICS_REFUSED_POOR, /* there was no memory */
    METRICS_REFUSALS
};

struct metrics_counts {
    uint64_t (*now_ns)(void *context); /* a clock that never goes back; NULL: none */
    void *now_context;
    uint64_t last_ns;               /* the last reading */
    size_t group_count;             /* requests since then, which are not timed yet ... */
    uint8_t group[METRICS_GROUP];   /* ... and the method of each */
    uint64_t requests[METHODS + 1]; /* the last: lines that name no method */
    uint64_t errors[ERROR_KINDS];
    uint64_t refused[METRICS_REFUSALS]; /* connections */
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t events_sent;
    uint64_t events_missed;
    struct metrics_latency latency[METHODS];
};

/* Some requests will be carried out now, one after the other. */
void metrics_begin_burst(struct metrics_counts *counts);

/* It is known what the next one of them asks for; METHODS for a line that names no method. */
void metrics_begin_request(struct metrics_counts *counts, enum method method);

/* It has been carried out. */
void metrics_count_request(struct metrics_counts *counts, enum method method);

/* No more follow in this burst. */
void metrics_end_burst(struct metrics_counts *counts);

/* The highest duration of a bucket in nanoseconds, and as a number of seconds the way
 * OpenMetrics writes one. */
uint64_t metrics_bucket_ns(size_t bucket);
const char *metrics_bucket_seconds(size_t bucket);

/* Enters one duration. */
void metrics_latency_add(struct metrics_latency *latency, uint64_t duration_ns);

#endif
