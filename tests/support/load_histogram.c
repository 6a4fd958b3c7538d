/* A histogram of durations; see load_histogram.h. */
#include "tests/support/load_histogram.h"

/* Up to LOAD_HISTOGRAM_STEPS each duration has a place of its own; above, the highest bit chooses
 * the power of two and the bits behind it the step. */
static unsigned place_of(uint64_t nanoseconds)
{
    if (nanoseconds < LOAD_HISTOGRAM_STEPS)
        return (unsigned)nanoseconds;
    unsigned shift = 63u - (unsigned)__builtin_clzll(nanoseconds) - LOAD_HISTOGRAM_STEP_BITS;
    return (shift + 1) * LOAD_HISTOGRAM_STEPS +
           (unsigned)(nanoseconds >> shift) % LOAD_HISTOGRAM_STEPS;
}

/* The longest duration that falls on a place. */
static uint64_t longest_of(unsigned place)
{
    if (place < LOAD_HISTOGRAM_STEPS)
        return place;
    unsigned shift = place / LOAD_HISTOGRAM_STEPS - 1;
    uint64_t step = place % LOAD_HISTOGRAM_STEPS + LOAD_HISTOGRAM_STEPS;
    return (step << shift) + ((UINT64_C(1) << shift) - 1);
}

void load_histogram_add(struct load_histogram *histogram, uint64_t nanoseconds, uint64_t times)
{
    histogram->places[place_of(nanoseconds)] += times;
    histogram->count += times;
}

uint64_t load_histogram_at(const struct load_histogram *histogram, double share)
{
    uint64_t wanted = (uint64_t)((double)histogram->count * share);
    uint64_t passed = 0;
    if (histogram->count == 0)
        return 0;
    if (wanted >= histogram->count)
        wanted = histogram->count - 1;
    for (unsigned place = 0; place < LOAD_HISTOGRAM_PLACES; place++) {
        passed += histogram->places[place];
        if (passed > wanted)
            return longest_of(place);
    }
    return UINT64_MAX;
}
