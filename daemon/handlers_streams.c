/* record_stream, event_done, empty_cache and statistics: what the models of caching allocators are
 * told and tell besides. */
#include <math.h>

#include "daemon/handlers_memory.h"

static struct worsegpu_teller teller_of(const struct call *call)
{
    return (struct worsegpu_teller){
        .client = call->connection->number,
        .user = call->connection->peer.uid,
        .time_us = call->now.wall_us,
    };
}

static uint64_t stream_of(const struct request *request)
{
    return request_has(request, PARAMETER_stream) ? request->params.stream : 0;
}

const struct answered *handle_record_stream(struct call *call)
{
    struct worsegpu_handle handle;
    struct worsegpu_allocation allocation;
    const struct answered *wrong = find_named_allocation(call, &handle, &allocation);
    if (wrong)
        return wrong;
    struct worsegpu_teller teller = teller_of(call);
    bool used;
    if (worsegpu_record_stream(call->hosted->engine, &handle, stream_of(call->request), &teller,
                               &used) != WORSEGPU_OK)
        return reply_error(&call->reply, ERROR_INTERNAL_ERROR,
                           "the daemon is out of memory; try again later");
    reply_begin_result(&call->reply);
    json_writer_member_u64(call->reply.out, "allocation_id", handle.allocation_id);
    json_writer_member_text(call->reply.out, "device", worsegpu_device_name(allocation.device));
    json_writer_member_bool(call->reply.out, "used", used);
    return reply_end_result(&call->reply);
}

const struct answered *handle_event_done(struct call *call)
{
    const struct request *request = call->request;
    struct worsegpu_teller teller = teller_of(call);
    uint64_t count =
        request_has(request, PARAMETER_count) ? request->params.count : WORSEGPU_ALL_EVENTS;
    bool newest = request_has(request, PARAMETER_newest) && request->params.newest;
    bool used;
    worsegpu_event_done(call->hosted->engine, stream_of(request), count, newest, &teller, &used);
    reply_begin_result(&call->reply);
    json_writer_member_u64(call->reply.out, "stream", stream_of(request));
    json_writer_member_bool(call->reply.out, "used", used);
    return reply_end_result(&call->reply);
}

const struct answered *handle_empty_cache(struct call *call)
{
    struct worsegpu_teller teller = teller_of(call);
    struct worsegpu_snapshot snapshot;
    uint64_t given_back;
    bool used;
    worsegpu_snapshot(call->hosted->engine, &snapshot);
    call->cost += snapshot.gpu_blocks / CALL_WALKED_PER_REQUEST;
    worsegpu_empty_cache(call->hosted->engine, &teller, &given_back, &used);
    reply_begin_result(&call->reply);
    json_writer_member_u64(call->reply.out, "given_back", given_back);
    json_writer_member_bool(call->reply.out, "used", used);
    return reply_end_result(&call->reply);
}

/* ---------------------------------------------------------------------------------- statistics */

static void write_count(void *context, const char *name, uint64_t value)
{
    json_writer_member_u64(context, name, value);
}

static void write_number(void *context, const char *name, double value)
{
    if (isfinite(value))
        json_writer_member_double(context, name, value);
    else
        json_writer_member_null(context, name);
}

static void write_none(void *context, const char *name)
{
    json_writer_member_null(context, name);
}

static void write_values(void *context, const char *name, const uint64_t *values, size_t count)
{
    struct json_writer *out = context;
    json_writer_key(out, name);
    json_writer_begin_array(out);
    for (size_t index = 0; index < count; index++)
        json_writer_u64(out, values[index]);
    json_writer_end_array(out);
}

const struct answered *handle_statistics(struct call *call)
{
    struct json_writer *out = call->reply.out;
    const struct worsegpu_figures figures = {
        .context = out,
        .count = write_count,
        .number = write_number,
        .none = write_none,
        .values = write_values,
    };
    reply_begin_result(&call->reply);
    json_writer_member_text(out, "policy", worsegpu_configuration(call->hosted->engine)->policy);
    json_writer_key(out, "statistics");
    json_writer_begin_object(out);
    worsegpu_statistics(call->hosted->engine, &figures);
    json_writer_end_object(out);
    return reply_end_result(&call->reply);
}
