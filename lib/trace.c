/* The ring of events; see trace.h. */
#include "lib/trace.h"

#include <string.h>

#include "base/memory.h"

int trace_init(struct trace *trace, size_t limit, const struct worsegpu_memory *memory)
{
    *trace = (struct trace){.memory = memory, .limit = limit};
    if (limit == 0)
        return WORSEGPU_OK;
    trace->records = memory_allocate_array(memory, limit, sizeof(*trace->records));
    if (!trace->records)
        return WORSEGPU_NO_MEMORY;
    trace->tags = memory_allocate_array(memory, limit, sizeof(*trace->tags));
    if (!trace->tags) {
        trace_release(trace);
        return WORSEGPU_NO_MEMORY;
    }
    return WORSEGPU_OK;
}

void trace_release(struct trace *trace)
{
    memory_release_array(trace->memory, trace->tags, trace->limit, sizeof(*trace->tags));
    memory_release_array(trace->memory, trace->records, trace->limit, sizeof(*trace->records));
    trace->tags = NULL;
    trace->records = NULL;
}

void trace_push(struct trace *trace, const struct trace_record *record, const char *tag)
{
    if (trace->limit == 0)
        return;
    size_t at = trace->next;
    trace->records[at] = *record;
    if (record->tag_bytes > 0)
        memcpy(trace->tags[at].text, tag, record->tag_bytes);
    trace->next = at + 1 < trace->limit ? at + 1 : 0;
    if (trace->count < trace->limit)
        trace->count++;
    trace->last_sequence++;
}

static size_t place_of(const struct trace *trace, size_t age)
{
    size_t back = age + 1;
    return trace->next >= back ? trace->next - back : trace->next + trace->limit - back;
}

const struct trace_record *trace_at(const struct trace *trace, size_t age)
{
    return &trace->records[place_of(trace, age)];
}

static void copy_out(const struct trace *trace, size_t at, uint64_t sequence,
                     struct worsegpu_event *event)
{
    const struct trace_record *record = &trace->records[at];
    event->sequence = sequence;
    event->operation = (enum worsegpu_operation)record->operation;
    event->device = (enum worsegpu_device)record->device;
    event->reason = (enum worsegpu_reason)record->reason;
    event->released = record->released;
    event->stream_given = record->stream_given;
    event->upper = record->upper;
    event->newest = record->newest;
    event->allocation_id = record->allocation_id;
    bool counts = event->operation == WORSEGPU_EVENT_DONE;
    event->requested_bytes = counts ? 0 : record->requested_bytes;
    event->count = counts ? record->requested_bytes : 0;
    event->alignment = record->alignment ? UINT64_C(1) << (record->alignment - 1) : 0;
    event->reserved_bytes = record->reserved_bytes;
    event->stream = record->stream;
    event->client = record->client;
    event->user = record->user;
    event->time_us = record->time_us;
    event->rule = record->rule;
    event->action = (enum worsegpu_fault_action)record->action;
    event->tag_bytes = record->tag_bytes;
    memset(event->tag, 0, sizeof(event->tag));
    if (record->tag_bytes > 0)
        memcpy(event->tag, trace->tags[at].text, record->tag_bytes);
}

void trace_read(const struct trace *trace, uint64_t after, struct worsegpu_event *events,
                size_t limit, size_t *count, bool *more, uint64_t *dropped)
{
    uint64_t before_first = trace->last_sequence - trace->count;
    *dropped = after < before_first ? before_first - after : 0;
    uint64_t from = after < before_first ? before_first : after;
    uint64_t waiting = from < trace->last_sequence ? trace->last_sequence - from : 0;
    *count = waiting < limit ? (size_t)waiting : limit;
    *more = waiting > limit;
    for (size_t i = 0; i < *count; i++)
        copy_out(trace, place_of(trace, (size_t)waiting - 1 - i), from + 1 + i, &events[i]);
}

size_t trace_clear(struct trace *trace)
{
    size_t cleared = trace->count;
    trace->count = 0;
    return cleared;
}
