/* How long things took: a histogram with 32 steps to each power of two, so that every figure read
 * from it is at most 3 % too high, whatever its size. */
#ifndef LOAD_HISTOGRAM_H
#define LOAD_HISTOGRAM_H

#include <stdint.h>

enum {
    LOAD_HISTOGRAM_STEP_BITS = 5,
    LOAD_HISTOGRAM_STEPS = 1 << LOAD_HISTOGRAM_STEP_BITS,
    LOAD_HISTOGRAM_PLACES = (64 - LOAD_HISTOGRAM_STEP_BITS + 1) * LOAD_HISTOGRAM_STEPS
};

/* All zero: empty. */
struct load_histogram {
    uint64_t count;
    uint64_t places[LOAD_HISTOGRAM_PLACES];
};

/* Enters `times` durations of the same length. */
void load_histogram_add(struct load_histogram *histogram, uint64_t nanoseconds, uint64_t times);

/* The duration that `share` of all (0.5: the median) did not pass; 0 when there are none. */
uint64_t load_histogram_at(const struct load_histogram *histogram, double share);

#endif
