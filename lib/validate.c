/* The audit of an allocator: everything recomputed from the live allocations, the policy's own
 * lists and the trace, and compared with the counters. It changes nothing and trusts no counter. */
#include "lib/allocator_internal.h"

/* What the live allocations say. */
struct live_sums {
    uint64_t gpu_allocations;
    uint64_t gpu_requested;
    uint64_t gpu_reserved;
    uint64_t cpu_allocations;
    uint64_t cpu_requested;
};

static void visit_live(const struct policy_live *live, policy_visit visit, void *context)
{
    const struct handle_table *table = live->context;
    for (size_t i = 0; i < table->length; i++) {
        const struct handle_record *record = &table->records[i];
        if (record->skip != 0 || record->device != WORSEGPU_GPU)
            continue;
        struct policy_placement placement = allocator_placement(record);
        visit(context, &placement);
    }
}

static void sum_live(const struct handle_table *table, struct live_sums *sums)
{
    for (size_t i = 0; i < table->length; i++) {
        const struct handle_record *record = &table->records[i];
        if (record->skip != 0)
            continue;
        if (record->device == WORSEGPU_GPU) {
            sums->gpu_allocations++;
            sums->gpu_requested += record->requested_bytes;
            sums->gpu_reserved += record->reserved_bytes;
        } else {
            sums->cpu_allocations++;
            sums->cpu_requested += record->requested_bytes;
        }
    }
}

static void check_sums(const worsegpu_allocator *allocator, struct audit *audit)
{
    const struct allocator_counters *counters = &allocator->counters;
    struct policy_measures measures;
    struct live_sums sums = {0};
    allocator->policy->operations->measure(allocator->policy, &measures);
    sum_live(&allocator->live, &sums);
    audit_check(audit, INVARIANT_gpu_live_sum,
                measures.used_bytes == sums.gpu_reserved &&
                    counters->gpu_used == sums.gpu_reserved);
    audit_check(audit, INVARIANT_gpu_requested_sum, counters->gpu_requested == sums.gpu_requested);
    audit_check(audit, INVARIANT_gpu_live_count, counters->gpu_allocations == sums.gpu_allocations);
    audit_check(audit, INVARIANT_cpu_bytes_sum, allocator->host.used_bytes == sums.cpu_requested);
    audit_check(audit, INVARIANT_cpu_live_count,
                allocator->host.allocations == sums.cpu_allocations);
}

static void check_live(const worsegpu_allocator *allocator, struct audit *audit)
{
    const struct handle_table *table = &allocator->live;
    uint64_t before = 0;
    size_t live = 0;
    size_t reachable = 0; /* no hole so far leads further than here */
    for (size_t i = 0; i < table->length; i++) {
        const struct handle_record *record = &table->records[i];
        audit_check(audit, INVARIANT_live_order,
                    record->id > before && record->id <= allocator->counters.last_id);
        before = record->id;
        if (record->skip != 0) {
            if (i + record->skip > reachable)
                reachable = i + record->skip;
            continue;
        }
        live++;
        audit_check(audit, INVARIANT_live_holes, reachable <= i);
        audit_check(audit, INVARIANT_live_index, handle_table_find(table, record->id) == record);
        audit_check(audit, INVARIANT_live_tag,
                    record->tag
                        ? record->tag_bytes >= 1 && record->tag_bytes <= WORSEGPU_MAX_TAG_BYTES
                        : record->tag_bytes == 0);
    }
    audit_check(audit, INVARIANT_live_holes, reachable <= table->length);
    audit_check(audit, INVARIANT_live_count, table->live == live);
    audit_check(audit, INVARIANT_live_limit, live <= allocator->config.max_live_allocations);

    size_t filled = 0;
    for (size_t i = 0; table->survivors > 0 && i < table->slot_count; i++)
        filled += table->slots[i].position != 0;
    audit_check(audit, INVARIANT_live_index, filled == table->survivors);
}

static void check_counters(const worsegpu_allocator *allocator, struct audit *audit)
{
    const struct allocator_counters *counters = &allocator->counters;
    audit_check(audit, INVARIANT_calls_balance,
                counters->allocate_calls - counters->free_calls == allocator->live.live &&
                    counters->allocate_calls == counters->last_id);
    audit_check(audit, INVARIANT_oom_calls, counters->oom_fallbacks <= counters->allocate_calls);
    audit_check(audit, INVARIANT_peak_gpu_used_bound,
                counters->peak_gpu_used >= counters->gpu_used &&
                    counters->peak_gpu_used <= allocator->largest_capacity_bytes);
    audit_check(audit, INVARIANT_peak_cpu_bytes_bound,
                allocator->host.peak_bytes >= allocator->host.used_bytes);
}

static void check_trace(const worsegpu_allocator *allocator, struct audit *audit)
{
    const struct trace *trace = &allocator->trace;
    const struct allocator_counters *counters = &allocator->counters;
    if (!audit_check(audit, INVARIANT_trace_limit,
                     trace->limit == allocator->config.trace_limit &&
                         trace->count <= trace->limit && trace->count <= trace->last_sequence &&
                         trace->next < trace->limit + (trace->limit == 0)))
        return;
    uint64_t events = counters->allocate_calls + counters->free_calls + counters->oom_failures +
                      counters->faults + counters->tellings;
    audit_check(audit, INVARIANT_trace_sequence,
                trace->last_sequence == (trace->limit > 0 ? events : 0));
    uint64_t before = 0;
    for (size_t age = trace->count; age-- > 0;) {
        const struct trace_record *event = trace_at(trace, age);
        audit_check(audit, INVARIANT_trace_order,
                    event->operation < WORSEGPU_OPERATIONS &&
                        event->action < WORSEGPU_FAULT_ACTIONS &&
                        event->tag_bytes <= WORSEGPU_MAX_TAG_BYTES);
        if (event->operation != WORSEGPU_ALLOCATE)
            continue;
        audit_check(audit, INVARIANT_trace_order,
                    event->allocation_id <= counters->last_id &&
                        (before == 0 || event->allocation_id == before + 1));
        before = event->allocation_id;
    }
}

int worsegpu_validate(worsegpu_allocator *allocator, uint64_t *checks, const char **broken)
{
    struct audit audit = {0};
    allocator_lock(allocator);
    struct policy_live live = {
        .each = visit_live,
        .context = &allocator->live,
        .largest_capacity_bytes = allocator->largest_capacity_bytes,
    };
    int status = allocator->policy->operations->check(allocator->policy, &live, &audit);
    if (status == WORSEGPU_OK) {
        check_sums(allocator, &audit);
        check_live(allocator, &audit);
        check_counters(allocator, &audit);
        check_trace(allocator, &audit);
    }
    allocator_unlock(allocator);
    if (status != WORSEGPU_OK)
        return status;
    if (checks)
        *checks = audit.checks;
    if (broken)
        *broken = audit.broken;
    return audit.broken ? WORSEGPU_INVARIANT_VIOLATION : WORSEGPU_OK;
}
