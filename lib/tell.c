/* What a program tells an allocator besides allocating and freeing: that an allocation is used on
 * another stream, that a stream has come further, that the cache shall go. The policies that do not
 * care have no such operation; what is told is recorded all the same. */
#include "lib/allocator_internal.h"

static void record_telling(worsegpu_allocator *allocator, struct trace_record *event,
                           const struct worsegpu_teller *teller)
{
    event->client = teller->client;
    event->time_us = teller->time_us;
    allocator->counters.tellings++;
    trace_push(&allocator->trace, event, NULL);
}

static void note_use(bool *used, bool value)
{
    if (used)
        *used = value;
}

int worsegpu_record_stream(worsegpu_allocator *allocator, const struct worsegpu_handle *handle,
                           uint64_t stream, const struct worsegpu_teller *teller, bool *used)
{
    const struct policy_operations *operations = allocator->policy->operations;
    int status = WORSEGPU_UNKNOWN_HANDLE;
    allocator_lock(allocator);
    const struct handle_record *record = allocator_find(allocator, handle);
    if (record) {
        bool of_use = operations->record_stream && record->device == WORSEGPU_GPU;
        struct policy_placement placement = allocator_placement(record);
        status =
            of_use ? operations->record_stream(allocator->policy, &placement, stream) : WORSEGPU_OK;
        note_use(used, of_use);
    }
    if (status == WORSEGPU_OK) {
        struct trace_record event = {
            .allocation_id = record->id,
            .stream = stream,
            .user = record->user,
            .operation = WORSEGPU_RECORD_STREAM,
            .device = record->device,
            .stream_given = true,
        };
        record_telling(allocator, &event, teller);
    }
    allocator_unlock(allocator);
    return status;
}

void worsegpu_event_done(worsegpu_allocator *allocator, uint64_t stream, uint64_t count,
                         bool newest, const struct worsegpu_teller *teller, bool *used)
{
    const struct policy_operations *operations = allocator->policy->operations;
    struct trace_record event = {
        .requested_bytes = count,
        .stream = stream,
        .user = teller->user,
        .operation = WORSEGPU_EVENT_DONE,
        .device = WORSEGPU_GPU,
        .stream_given = true,
        .newest = newest,
    };
    allocator_lock(allocator);
    if (operations->event_done)
        operations->event_done(allocator->policy, stream, count, newest);
    note_use(used, operations->event_done != NULL);
    record_telling(allocator, &event, teller);
    allocator_unlock(allocator);
}

void worsegpu_empty_cache(worsegpu_allocator *allocator, const struct worsegpu_teller *teller,
                          uint64_t *given_back, bool *used)
{
    const struct policy_operations *operations = allocator->policy->operations;
    struct policy_measures before;
    struct policy_measures after;
    struct trace_record event = {
        .user = teller->user,
        .operation = WORSEGPU_EMPTY_CACHE,
        .device = WORSEGPU_GPU,
    };
    allocator_lock(allocator);
    operations->measure(allocator->policy, &before);
    if (operations->empty_cache)
        operations->empty_cache(allocator->policy);
    operations->measure(allocator->policy, &after);
    note_use(used, operations->empty_cache != NULL);
    if (given_back)
        *given_back = before.reserved_bytes - after.reserved_bytes;
    record_telling(allocator, &event, teller);
    allocator_unlock(allocator);
}
