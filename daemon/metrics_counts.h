/* What the daemon counts as it goes, for `metrics`: requests, errors, bytes, and how long each
 * method takes.
 *
 * Whoever owns the clock lends it: without one no time is measured. It is read once for each
 * request and once more where a burst begins, since the end of one request is the beginning of the
 * next. One for each server, zeroed at its start. */
#ifndef METRICS_COUNTS_H
#define METRICS_COUNTS_H

#include <stdint.h>

#include "proto/errors.h"
#include "proto/methods.h"

enum {
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

/* One of them has been; METHODS for a line that names no method. */
void metrics_count_request(struct metrics_counts *counts, enum method method);

/* The highest duration of a bucket in nanoseconds, and as a number of seconds the way
 * OpenMetrics writes one. */
uint64_t metrics_bucket_ns(size_t bucket);
const char *metrics_bucket_seconds(size_t bucket);

/* Enters one duration. */
void metrics_latency_add(struct metrics_latency *latency, uint64_t duration_ns);

#endif
