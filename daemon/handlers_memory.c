/* allocate and free; see handlers_memory.h. */
#include "daemon/handlers_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/quota.h"
#include "proto/json_pieces.h"

enum {
    /* Constant texts, numbers and names of the two templates below. */
    PLACEMENT_ROOM = 160 + WORSEGPU_HANDLE_TEXT_SIZE + 5 * JSON_PIECES_LONGEST_INTEGER,
    RELEASE_ROOM = 96
};

/* One after the other in a template, since nearly every answer has these. */
void write_placement(const struct worsegpu_allocation *allocation, struct json_writer *out)
{
    char *at = json_writer_room(out, PLACEMENT_ROOM);
    if (!at)
        return;
    at = JSON_PIECE(at, "\"allocation_id\":");
    at = json_piece_u64(at, allocation->handle.allocation_id);
    at = JSON_PIECE(at, ",\"handle\":\"");
    at += worsegpu_handle_to_text(&allocation->handle, at);
    at = JSON_PIECE(at, "\",\"requested_bytes\":");
    at = json_piece_u64(at, allocation->requested_bytes);
    at = JSON_PIECE(at, ",\"reserved_bytes\":");
    at = json_piece_u64(at, allocation->reserved_bytes);
    if (allocation->device == WORSEGPU_GPU) {
        at = JSON_PIECE(at, ",\"device\":\"gpu\",\"block_index\":");
        at = json_piece_i64(at, allocation->block_index);
        at = JSON_PIECE(at, ",\"offset\":");
        at = json_piece_u64(at, allocation->offset);
        json_writer_wrote(out, at, true);
        return;
    }
    at = JSON_PIECE(at, ",\"device\":\"");
    at = json_piece_text(at, worsegpu_device_name(allocation->device));
    at = JSON_PIECE(at, "\",\"block_index\":");
    at = json_piece_i64(at, allocation->block_index);
    at = JSON_PIECE(at, ",\"reason\":\"");
    at = json_piece_text(at, worsegpu_reason_name(allocation->reason));
    at = JSON_PIECE(at, "\"");
    json_writer_wrote(out, at, true);
}

/* Why the engine refused. */
static const struct answered *refuse_allocate(struct call *call, int status)
{
    const struct worsegpu_config *config = worsegpu_configuration(call->hosted->engine);
    uint64_t requested_bytes = call->request->params.requested_bytes;
    struct worsegpu_snapshot snapshot;
    switch (status) {
    case WORSEGPU_OUT_OF_MEMORY:
        return reply_error_u64(
            &call->reply, ERROR_OUT_OF_MEMORY, "requested_bytes", requested_bytes,
            "'%s' has no room for %" PRIu64 " bytes and fallback_on_oom is false",
            call->hosted->name, requested_bytes);
    case WORSEGPU_INVALID_ARGUMENT:
        return reply_error_text(&call->reply, ERROR_INVALID_PARAMS, "param", "requested_bytes",
                                "requested_bytes is %" PRIu64
                                ", more than this allocator's max_request_bytes, "
                                "%" PRIu64,
                                requested_bytes, config->max_request_bytes);
    case WORSEGPU_LIMIT_EXCEEDED:
        worsegpu_snapshot(call->hosted->engine, &snapshot);
        if (snapshot.active_allocations >= config->max_live_allocations)
            return reply_error_u64(&call->reply, ERROR_LIMIT_EXCEEDED, "limit",
                                   config->max_live_allocations,
                                   "'%s' has its %" PRIu64 " live allocations; free some first",
                                   call->hosted->name, config->max_live_allocations);
        return reply_error_u64(&call->reply, ERROR_LIMIT_EXCEEDED, "limit", UINT64_MAX,
                               "the host pool would pass 2^64 - 1 bytes");
    case WORSEGPU_NO_ENTROPY:
        return reply_error(&call->reply, ERROR_INTERNAL_ERROR, "the system gives no random bytes");
    default:
        return reply_error(&call->reply, ERROR_INTERNAL_ERROR,
                           "the daemon is out of memory; try again later");
    }
}

/* What a scan that is really walked costs more than a small request. */
static uint64_t cost_of_scan(worsegpu_allocator *engine)
{
    struct worsegpu_snapshot snapshot;
    if (worsegpu_configuration(engine)->scan != WORSEGPU_SCAN_WALKED)
        return 0;
    worsegpu_snapshot(engine, &snapshot);
    return snapshot.gpu_blocks / CALL_WALKED_PER_REQUEST;
}

static struct quota quota_of(const struct call *call)
{
    struct quota quota = {
        .options = call->server->options,
        .client = &call->connection->account,
        .user = &call->connection->user->account,
        .host_capacity = call->hosted->host_capacity,
        .which = "",
    };
    if (quota.host_capacity) {
        struct worsegpu_snapshot snapshot;
        worsegpu_snapshot(call->hosted->engine, &snapshot);
        quota.host_used = snapshot.cpu_bytes;
    }
    return quota;
}

static const struct answered *refuse_quota(struct call *call, const struct quota *quota)
{
    char message[PROTO_MAX_ERROR_TEXT];
    uint64_t left = quota->used < quota->limit ? quota->limit - quota->used : 0;
    snprintf(message, sizeof(message),
             "%s is %" PRIu64 ", of which %" PRIu64 " are used and %" PRIu64 " left", quota->which,
             quota->limit, quota->used, left);
    reply_begin_error(&call->reply, ERROR_QUOTA_EXCEEDED, message);
    json_writer_member_text(call->reply.out, "which", quota->which);
    json_writer_member_u64(call->reply.out, "limit", quota->limit);
    json_writer_member_u64(call->reply.out, "used", quota->used);
    json_writer_member_u64(call->reply.out, "left", left);
    return reply_end_error(&call->reply);
}

const struct answered *handle_allocate(struct call *call)
{
    const struct request *request = call->request;
    const struct request_params *params = &request->params;
    struct worsegpu_request wanted = {
        .requested_bytes = params->requested_bytes,
        .stream_given = request_has(request, PARAMETER_stream),
        .client = call->connection->number,
        .time_us = call->now.wall_us,
        .user = call->connection->peer.uid,
        .force_host = call->force_host,
    };
    if (wanted.stream_given)
        wanted.stream = params->stream;
    if (request_has(request, PARAMETER_alignment))
        wanted.alignment = params->alignment;
    if (wanted.alignment & (wanted.alignment - 1))
        return reply_error_text(&call->reply, ERROR_INVALID_PARAMS, "param", "alignment",
                                "alignment must be 0 or a power of two, not %" PRIu64,
                                wanted.alignment);
    wanted.upper = request_has(request, PARAMETER_upper) && params->upper;
    struct holding *holding = connection_holding(call->connection, call->hosted);
    if (!holding)
        return refuse_allocate(call, WORSEGPU_NO_MEMORY);
    if (request_has(request, PARAMETER_tag)) {
        wanted.tag = params->tag.bytes;
        wanted.tag_bytes = params->tag.length;
        if (holding_find_tag(holding, wanted.tag, wanted.tag_bytes))
            return reply_error(
                &call->reply, ERROR_NAME_IN_USE,
                "this connection has a live allocation with this tag; free it or take another");
    }
    struct lease *lease = lease_pool_take(&call->server->leases);
    if (!lease)
        return refuse_allocate(call, WORSEGPU_NO_MEMORY);
    wanted.owner = lease;
    struct quota quota = quota_of(call);
    if (quota_applies(&quota)) {
        wanted.admit = quota_admit;
        wanted.admit_context = &quota;
    }
    struct worsegpu_allocation allocation;
    int status = worsegpu_allocate(call->hosted->engine, &wanted, &allocation);
    if (status != WORSEGPU_OK) {
        lease_pool_give(&call->server->leases, lease);
        return status == WORSEGPU_NOT_ADMITTED ? refuse_quota(call, &quota)
                                               : refuse_allocate(call, status);
    }
    call->cost += cost_of_scan(call->hosted->engine);
    bool detached = request_has(request, PARAMETER_detached) && params->detached;
    lease_enter(lease, holding, &allocation, call->connection->user, detached);
    if (call->reply.silent)
        return reply_nothing(&call->reply);
    reply_begin_result(&call->reply);
    write_placement(&allocation, call->reply.out);
    return reply_end_result(&call->reply);
}

/* Whether a handle is live in another allocator that this connection may use. */
static bool lives_elsewhere(const struct call *call, const struct worsegpu_handle *handle)
{
    struct worsegpu_allocation allocation;
    const struct hosted_list *lists[] = {&call->server->shared, &call->connection->allocators};
    for (size_t index = 0; index < sizeof(lists) / sizeof(lists[0]); index++) {
        struct hosted *hosted;
        TAILQ_FOREACH(hosted, lists[index], link)
        {
            if (worsegpu_find(hosted->engine, handle, &allocation) == WORSEGPU_OK)
                return true;
        }
    }
    return false;
}

/* The handle that a request names. NULL when it is found, else the answer. */
static const struct answered *named_handle(struct call *call, struct worsegpu_handle *handle)
{
    const struct request *request = call->request;
    const struct request_text *text = &request->params.handle;
    bool by_handle = request_has(request, PARAMETER_handle);
    bool by_tag = request_has(request, PARAMETER_tag);
    if (by_handle == by_tag)
        return reply_error_text(&call->reply, ERROR_INVALID_PARAMS, "param",
                                by_handle ? "tag" : "handle", "%s takes either handle or tag, %s",
                                method_info(request->method)->name,
                                by_handle ? "not both" : "and got neither");
    if (by_handle) {
        if (!worsegpu_handle_from_text(text->bytes, text->length, handle))
            return reply_error(
                &call->reply, ERROR_UNKNOWN_HANDLE,
                "this is no handle; allocate and list give them, as ID-<32 hex digits>");
        return NULL;
    }
    struct holding *holding = connection_holding(call->connection, call->hosted);
    if (!holding)
        return reply_error(&call->reply, ERROR_INTERNAL_ERROR,
                           "the daemon is out of memory; try again later");
    struct lease *lease =
        holding_find_tag(holding, request->params.tag.bytes, request->params.tag.length);
    if (!lease)
        return reply_error(&call->reply, ERROR_UNKNOWN_HANDLE,
                           "this connection has no live allocation with this tag in '%s'",
                           call->hosted->name);
    *handle = lease->handle;
    return NULL;
}

const struct answered *find_named_allocation(struct call *call, struct worsegpu_handle *handle,
                                             struct worsegpu_allocation *allocation)
{
    const struct answered *wrong = named_handle(call, handle);
    if (wrong)
        return wrong;
    if (worsegpu_find(call->hosted->engine, handle, allocation) != WORSEGPU_OK) {
        if (lives_elsewhere(call, handle))
            return reply_error(&call->reply, ERROR_FOREIGN_HANDLE,
                               "this handle is of another allocator than '%s'", call->hosted->name);
        return reply_error(
            &call->reply, ERROR_UNKNOWN_HANDLE,
            "no live allocation of '%s' has this handle; it may have been freed already",
            call->hosted->name);
    }
    const struct lease *lease = allocation->owner;
    if (lease->uid != call->connection->peer.uid && call->connection->peer.uid != 0)
        return reply_error(&call->reply, ERROR_PERMISSION_DENIED,
                           "this allocation belongs to another user, who alone may %s",
                           call->request->method == METHOD_free ? "free it" : "say so");
    return NULL;
}

static void write_release(const struct worsegpu_release *release, struct json_writer *out)
{
    char *at = json_writer_room(out, RELEASE_ROOM);
    if (!at)
        return;
    at = JSON_PIECE(at, "\"allocation_id\":");
    at = json_piece_u64(at, release->allocation_id);
    at = JSON_PIECE(at, ",\"device\":\"");
    at = json_piece_text(at, worsegpu_device_name(release->device));
    at = JSON_PIECE(at, "\",\"released\":");
    at = release->released ? JSON_PIECE(at, "true") : JSON_PIECE(at, "false");
    json_writer_wrote(out, at, true);
}

const struct answered *handle_free(struct call *call)
{
    const struct request *request = call->request;
    struct worsegpu_handle handle;
    struct worsegpu_allocation allocation;
    struct worsegpu_release release;
    const struct answered *wrong = find_named_allocation(call, &handle, &allocation);
    if (wrong)
        return wrong;
    struct worsegpu_freeing how = {
        .stream_given = request_has(request, PARAMETER_stream),
        .forget = call->forget,
        .client = call->connection->number,
        .time_us = call->now.wall_us,
    };
    if (how.stream_given)
        how.stream = request->params.stream;
    lease_leave(allocation.owner); /* before the engine's copy of its tag goes */
    worsegpu_free_on(call->hosted->engine, &handle, &how, &release);
    lease_pool_give(&call->server->leases, release.owner);
    if (call->reply.silent)
        return reply_nothing(&call->reply);
    reply_begin_result(&call->reply);
    write_release(&release, call->reply.out);
    return reply_end_result(&call->reply);
}
