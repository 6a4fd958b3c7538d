/* Looking at an allocator: what is live, the accounts, the policy's own figures, the trace. Nothing
 * here decides anything. */
#include "lib/allocator_internal.h"
#include "lib/snapshot.h"
#include "lib/statistics.h"

void worsegpu_list(worsegpu_allocator *allocator, uint64_t after,
                   struct worsegpu_allocation *allocations, size_t limit, size_t *count, bool *more)
{
    allocator_lock(allocator);
    size_t found = 0;
    const struct handle_record *record = handle_table_after(&allocator->live, after);
    while (record && found < limit) {
        allocator_describe(record, &allocations[found++]);
        record = handle_table_next(&allocator->live, record);
    }
    *count = found;
    *more = record != NULL;
    allocator_unlock(allocator);
}

void worsegpu_snapshot(worsegpu_allocator *allocator, struct worsegpu_snapshot *snapshot)
{
    allocator_lock(allocator);
    const struct allocator_counters *counters = &allocator->counters;
    struct policy_measures measures;
    allocator->policy->operations->measure(allocator->policy, &measures);
    uint64_t capacity = allocator->config.gpu_capacity;
    uint64_t reserved = measures.reserved_bytes;
    *snapshot = (struct worsegpu_snapshot){
        .gpu_capacity = capacity,
        .gpu_reserved = reserved,
        .gpu_unreserved = reserved < capacity ? capacity - reserved : 0,
        .gpu_used = measures.used_bytes,
        .gpu_free = measures.free_bytes,
        .gpu_forgotten = measures.forgotten_bytes,
        .gpu_blocks = measures.blocks,
        .cpu_bytes = allocator->host.used_bytes,
        .active_allocations = allocator->live.live,
        .trace_events = allocator->trace.count,
        .fragmentation = measures.cannot_fragment
                             ? 0.0
                             : snapshot_fragmentation(measures.free_bytes, measures.reserved_bytes),
        .blocks_scanned = counters->blocks_scanned,
        .gpu_allocations = counters->gpu_allocations,
        .cpu_allocations = allocator->host.allocations,
        .gpu_requested = counters->gpu_requested,
        .gpu_forgotten_blocks = measures.forgotten_blocks,
        .peak_gpu_used = counters->peak_gpu_used,
        .peak_cpu_bytes = allocator->host.peak_bytes,
        .allocate_calls = counters->allocate_calls,
        .free_calls = counters->free_calls,
        .oom_fallbacks = counters->oom_fallbacks,
        .oom_failures = counters->oom_failures,
        .faults = counters->faults,
        .last_sequence = allocator->trace.last_sequence,
        .gpu_pending = measures.pending_bytes,
        .gpu_segments = measures.segments,
        .device_calls = measures.device_calls,
        .device_retries = measures.retries,
    };
    allocator_unlock(allocator);
}

bool worsegpu_largest_free(worsegpu_allocator *allocator, uint64_t *bytes)
{
    const struct policy_operations *operations = allocator->policy->operations;
    *bytes = 0;
    if (!operations->largest_free)
        return false;
    allocator_lock(allocator);
    *bytes = operations->largest_free(allocator->policy);
    allocator_unlock(allocator);
    return true;
}

/* ------------------------------------------------------------------------------ statistics */

/* The policies' sink has lists besides, which are not asked for here. */
static void tell_count(void *context, const char *name, uint64_t value)
{
    const struct worsegpu_figures *figures = context;
    figures->count(figures->context, name, value);
}

static void tell_number(void *context, const char *name, double value)
{
    const struct worsegpu_figures *figures = context;
    figures->number(figures->context, name, value);
}

static void tell_none(void *context, const char *name)
{
    const struct worsegpu_figures *figures = context;
    figures->none(figures->context, name);
}

static void tell_values(void *context, const char *name, const uint64_t *values, size_t count)
{
    const struct worsegpu_figures *figures = context;
    figures->values(figures->context, name, values, count);
}

static void pass_list(void *context, const char *name)
{
    (void)context;
    (void)name;
}

static void pass_row(void *context, const char *const *names, const uint64_t *values, size_t count)
{
    (void)context;
    (void)names;
    (void)values;
    (void)count;
}

static void pass_end(void *context)
{
    (void)context;
}

bool worsegpu_statistics(worsegpu_allocator *allocator, const struct worsegpu_figures *figures)
{
    const struct policy_operations *operations = allocator->policy->operations;
    struct worsegpu_figures copy = *figures;
    const struct statistics_sink sink = {
        .context = &copy,
        .lists = false,
        .count = tell_count,
        .number = tell_number,
        .none = tell_none,
        .values = tell_values,
        .list_begin = pass_list,
        .row = pass_row,
        .list_end = pass_end,
    };
    if (!operations->statistics)
        return false;
    allocator_lock(allocator);
    operations->statistics(allocator->policy, &sink);
    allocator_unlock(allocator);
    return true;
}

/* ------------------------------------------------------------------------------ trace */

void worsegpu_trace(worsegpu_allocator *allocator, uint64_t after, struct worsegpu_event *events,
                    size_t limit, size_t *count, bool *more, uint64_t *dropped)
{
    size_t found;
    bool others;
    uint64_t lost;
    allocator_lock(allocator);
    trace_read(&allocator->trace, after, events, limit, &found, &others, &lost);
    allocator_unlock(allocator);
    if (count)
        *count = found;
    if (more)
        *more = others;
    if (dropped)
        *dropped = lost;
}

uint64_t worsegpu_trace_clear(worsegpu_allocator *allocator)
{
    allocator_lock(allocator);
    uint64_t cleared = trace_clear(&allocator->trace);
    allocator_unlock(allocator);
    return cleared;
}
