/* What rules do to a request; see faults.h. */
#include "daemon/faults.h"

#include <inttypes.h>
#include <stdio.h>

/* ------------------------------------------------------------------------ a request as rules see
 * it
 */

/* Of an allocate. false: it will be refused. */
static bool see_allocate(const struct call *call, struct rule_occasion *occasion)
{
    const struct request *request = call->request;
    const struct worsegpu_config *config = worsegpu_configuration(call->hosted->engine);
    if (request->params.requested_bytes > config->max_request_bytes)
        return false;
    occasion->of_allocation = true;
    occasion->size_bytes = request->params.requested_bytes;
    occasion->stream_given = request_has(request, PARAMETER_stream);
    if (occasion->stream_given)
        occasion->stream = request->params.stream;
    if (!request_has(request, PARAMETER_tag))
        return true;
    occasion->tag = request->params.tag.bytes;
    occasion->tag_bytes = request->params.tag.length;
    struct holding *holding = connection_find_holding(call->connection, call->hosted);
    return !holding || !holding_find_tag(holding, occasion->tag, occasion->tag_bytes);
}

/* The handle that a free or a record_stream names; false when it names none. */
static bool find_handle(const struct call *call, struct worsegpu_handle *handle)
{
    const struct request *request = call->request;
    bool by_tag = request_has(request, PARAMETER_tag);
    if (request_has(request, PARAMETER_handle))
        return !by_tag && worsegpu_handle_from_text(request->params.handle.bytes,
                                                    request->params.handle.length, handle);
    struct holding *holding =
        by_tag ? connection_find_holding(call->connection, call->hosted) : NULL;
    struct lease *lease =
        holding ? holding_find_tag(holding, request->params.tag.bytes, request->params.tag.length)
                : NULL;
    if (lease)
        *handle = lease->handle;
    return lease != NULL;
}

/* Of a free or a record_stream: what is known of the allocation. false: it will be refused. */
static bool see_free(const struct call *call, struct rule_occasion *occasion,
                     struct worsegpu_allocation *allocation)
{
    const struct peer *peer = &call->connection->peer;
    struct worsegpu_handle handle;
    if (!find_handle(call, &handle) ||
        worsegpu_find(call->hosted->engine, &handle, allocation) != WORSEGPU_OK)
        return false;
    const struct lease *lease = allocation->owner;
    if (peer->uid != lease->uid && peer->uid != 0)
        return false;
    occasion->of_allocation = true;
    occasion->size_bytes = allocation->requested_bytes;
    occasion->stream = allocation->stream;
    occasion->stream_given = allocation->stream_given;
    occasion->tag = allocation->tag;
    occasion->tag_bytes = allocation->tag_bytes;
    return true;
}

/* ------------------------------------------------------------------------------- what happens */

/* Enters it in the trace of the allocator; in the first shared one's where the method has none. */
static void record(const struct call *call, const struct rule *rule,
                   const struct rule_occasion *occasion, uint64_t allocation_id)
{
    const struct hosted *hosted = call->hosted ? call->hosted : TAILQ_FIRST(&call->server->shared);
    struct worsegpu_fault fault = {
        .action = rule->wish.action,
        .rule = rule->number,
        .allocation_id = allocation_id,
        .requested_bytes = occasion->size_bytes,
        .stream = occasion->stream,
        .stream_given = occasion->stream_given,
        .tag = occasion->tag,
        .tag_bytes = occasion->tag_bytes,
        .client = occasion->client,
        .user = occasion->user,
        .time_us = call->now.wall_us,
    };
    worsegpu_record_fault(hosted->engine, &fault);
}

static void answer_out_of_memory(struct call *call, const struct rule *rule)
{
    uint64_t requested_bytes = call->request->params.requested_bytes;
    char message[PROTO_MAX_ERROR_TEXT];
    snprintf(message, sizeof(message),
             "'%s' has no room for %" PRIu64 " bytes, says rule %" PRIu64 " of fault injection",
             call->hosted->name, requested_bytes, rule->number);
    reply_begin_error(&call->reply, ERROR_OUT_OF_MEMORY, message);
    json_writer_member_u64(call->reply.out, "requested_bytes", requested_bytes);
    json_writer_member_u64(call->reply.out, "rule", rule->number);
    reply_end_error(&call->reply);
}

static void answer_quota_exceeded(struct call *call, const struct rule *rule)
{
    char message[PROTO_MAX_ERROR_TEXT];
    snprintf(message, sizeof(message), "nothing is left, says rule %" PRIu64 " of fault injection",
             rule->number);
    reply_begin_error(&call->reply, ERROR_QUOTA_EXCEEDED, message);
    json_writer_member_text(call->reply.out, "which", "rule");
    json_writer_member_u64(call->reply.out, "limit", 0);
    json_writer_member_u64(call->reply.out, "used", 0);
    json_writer_member_u64(call->reply.out, "left", 0);
    json_writer_member_u64(call->reply.out, "rule", rule->number);
    reply_end_error(&call->reply);
}

static enum fault_course happen(struct call *call, const struct rule *rule)
{
    switch (rule->wish.action) {
    case WORSEGPU_FAULT_OUT_OF_MEMORY:
        answer_out_of_memory(call, rule);
        return FAULT_ANSWERED;
    case WORSEGPU_FAULT_QUOTA_EXCEEDED:
        answer_quota_exceeded(call, rule);
        return FAULT_ANSWERED;
    case WORSEGPU_FAULT_HOST_FALLBACK:
        call->force_host = true;
        return FAULT_GO_ON;
    case WORSEGPU_FAULT_FORGET:
        call->forget = true;
        return FAULT_GO_ON;
    case WORSEGPU_FAULT_DELAY:
        return FAULT_DELAYED;
    case WORSEGPU_FAULT_DISCONNECT_BEFORE:
        connection_break_off(call->connection);
        return FAULT_ANSWERED;
    case WORSEGPU_FAULT_DISCONNECT_AFTER:
        connection_break_off(call->connection);
        call->reply.silent = true;
        return FAULT_GO_ON;
    case WORSEGPU_FAULT_ACTIONS:
        break;
    }
    return FAULT_GO_ON;
}

enum fault_course faults_meet(struct call *call, const char *line, size_t length)
{
    const struct request *request = call->request;
    const struct peer *peer = &call->connection->peer;
    struct worsegpu_allocation allocation = {.handle = {.allocation_id = 0}};
    struct rule_occasion occasion = {.method = request->method,
                                     .process = peer->pid,
                                     .user = peer->uid,
                                     .client = call->connection->number,
                                     .hosted = call->hosted};
    if (request->method == METHOD_allocate && !see_allocate(call, &occasion))
        return FAULT_GO_ON;
    bool names_one = request->method == METHOD_free || request->method == METHOD_record_stream;
    if (names_one && !see_free(call, &occasion, &allocation))
        return FAULT_GO_ON;
    struct rule *rule = rules_judge(&call->server->rules, &occasion);
    if (!rule)
        return FAULT_GO_ON;
    if (rule->wish.action == WORSEGPU_FAULT_DELAY &&
        connection_delay(call->connection, line, length,
                         call->now.monotonic_ms + rule->wish.delay_ms) != 0) {
        reply_error(&call->reply, ERROR_INTERNAL_ERROR,
                    "the daemon is out of memory; try again later");
        return FAULT_ANSWERED;
    }
    rule_fire(rule);
    record(call, rule, &occasion, allocation.handle.allocation_id);
    return happen(call, rule);
}
