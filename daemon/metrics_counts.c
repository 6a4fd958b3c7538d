/* What the daemon counts as it goes; see metrics_counts.h. */
#include "daemon/metrics_counts.h"

#include <stdbool.h>

_Static_assert(METHODS <= UINT8_MAX, "a method fits into a byte of a group");

static const struct {
    uint64_t most_ns;
    const char *seconds; /* canonical numbers of OpenMetrics 1.0.0 */
} buckets[METRICS_BUCKETS] = {
    {1000, "1e-06"},     {2000, "2e-06"},       {5000, "5e-06"},     {10000, "1e-05"},
    {20000, "2e-05"},    {50000, "5e-05"},      {100000, "0.0001"},  {200000, "0.0002"},
    {500000, "0.0005"},  {1000000, "0.001"},    {2000000, "0.002"},  {5000000, "0.005"},
    {10000000, "0.01"},  {20000000, "0.02"},    {50000000, "0.05"},  {100000000, "0.1"},
    {200000000, "0.2"},  {500000000, "0.5"},    {1000000000, "1.0"}, {2000000000, "2.0"},
    {5000000000, "5.0"}, {10000000000, "10.0"},
};

uint64_t metrics_bucket_ns(size_t bucket)
{
    return buckets[bucket].most_ns;
}

const char *metrics_bucket_seconds(size_t bucket)
{
    return buckets[bucket].seconds;
}

void metrics_latency_add(struct metrics_latency *latency, uint64_t duration_ns)
{
    /* From the short end: most requests take a few microseconds. */
    size_t bucket = 0;
    while (bucket < METRICS_BUCKETS && duration_ns > buckets[bucket].most_ns)
        bucket++;
    latency->counts[bucket]++;
    latency->sum_ns += duration_ns;
}

void metrics_begin_burst(struct metrics_counts *counts)
{
    if (counts->now_ns)
        counts->last_ns = counts->now_ns(counts->now_context);
}

static bool is_quick(enum method method)
{
    return method == METHOD_allocate || method == METHOD_free;
}

/* Enters the time since the last look at the clock, in equal parts, for all requests of the group.
 */
static void end_group(struct metrics_counts *counts)
{
    uint64_t now_ns = counts->now_ns(counts->now_context);
    uint64_t each_ns = (now_ns - counts->last_ns) / counts->group_count;
    for (size_t index = 0; index < counts->group_count; index++)
        if (counts->group[index] < METHODS)
            metrics_latency_add(&counts->latency[counts->group[index]], each_ns);
    counts->last_ns = now_ns;
    counts->group_count = 0;
}

void metrics_begin_request(struct metrics_counts *counts, enum method method)
{
    if (counts->group_count > 0 && !is_quick(method))
        end_group(counts);
}

void metrics_count_request(struct metrics_counts *counts, enum method method)
{
    counts->requests[method]++;
    if (!counts->now_ns)
        return;
    counts->group[counts->group_count++] = (uint8_t)method;
    if (counts->group_count == METRICS_GROUP || !is_quick(method))
        end_group(counts);
}

void metrics_end_burst(struct metrics_counts *counts)
{
    if (counts->group_count > 0)
        end_group(counts);
}
