/* What each method does; see handlers.h. The methods that allocate and free are in
 * handlers_memory.c. */
#include "daemon/handlers.h"

#include <inttypes.h>
#include <string.h>

#include "base/version.h"
#include "daemon/handlers_memory.h"
#include "proto/json_pieces.h"

enum {
    PAGE = 16,           /* events or allocations taken from the engine at a time */
    LONGEST_ITEM = 1024, /* an event or a listed allocation as JSON, its tag escaped */
    LIST_SEARCH = 65536  /* allocations looked at for one answer of list, seen or not */
};

bool call_fits(const struct call *call)
{
    const struct json_writer *out = call->reply.out;
    return out->max_bytes - out->length > 2 * (size_t)LONGEST_ITEM;
}

/* ---------------------------------------------------------------------------------------- info */

static void write_limits(const struct server *server, struct json_writer *out)
{
    json_writer_begin_object(out);
    for (size_t index = 0; index < options_count(); index++) {
        const struct option_info *info = options_info(index);
        if (!info->is_limit)
            continue;
        uint64_t value = options_number(server->options, index);
        /* Few descriptors may allow less than the option. */
        if (strcmp(info->field, "max_connections") == 0)
            value = server->max_connections;
        json_writer_member_u64(out, info->field, value);
    }
    json_writer_member_u64(out, "max_json_depth", PROTO_MAX_JSON_DEPTH);
    json_writer_member_u64(out, "max_trace_limit", WORSEGPU_MAX_TRACE_LIMIT);
    json_writer_end_object(out);
}

static void write_allocators(const struct hosted_list *list, struct json_writer *out)
{
    const struct hosted *hosted;
    TAILQ_FOREACH(hosted, list, link)
    {
        json_writer_begin_object(out);
        hosted_write(hosted, out);
        json_writer_end_object(out);
    }
}

const struct answered *handle_info(struct call *call)
{
    struct json_writer *out = call->reply.out;
    const struct server *server = call->server;
    reply_begin_result(&call->reply);
    json_writer_member_text(out, "server", "worsegpud");
    json_writer_member_text(out, "version", WORSEGPU_VERSION);
    json_writer_member_u64(out, "protocol", WORSEGPU_PROTOCOL);
    json_writer_member_i64(out, "pid", server->pid);
    json_writer_member_u64(out, "uptime_seconds",
                           (call->now.monotonic_ms - server->started.monotonic_ms) / 1000);
    json_writer_key(out, "policies");
    json_writer_begin_array(out);
    for (size_t index = 0; worsegpu_policy_name(index); index++)
        json_writer_text(out, worsegpu_policy_name(index));
    json_writer_end_array(out);
    json_writer_key(out, "allocators");
    json_writer_begin_array(out);
    write_allocators(&server->shared, out);
    write_allocators(&call->connection->allocators, out);
    json_writer_end_array(out);
    json_writer_key(out, "limits");
    write_limits(server, out);
    return reply_end_result(&call->reply);
}

/* ------------------------------------------------------------------------------- open and close */

/* Texts of a request with their NUL. */
struct open_texts {
    char policy[ALLOCATOR_NAME_SIZE];
    char scan[ALLOCATOR_NAME_SIZE];
    char seed[WORSEGPU_MAX_SEED_DIGITS + 2];
    char knobs[WORSEGPU_MAX_KNOBS_BYTES + 1];
};

static const char *copy_text(char *copy, const struct request_text *text)
{
    memcpy(copy, text->bytes, text->length);
    copy[text->length] = '\0';
    return copy;
}

/* The engine's configuration for an open; its texts go into `texts`. NULL when all is right, else
 * the answer. */
static const struct answered *config_of_open(struct call *call, struct worsegpu_config *config,
                                             struct open_texts *texts)
{
    const struct request *request = call->request;
    const struct request_params *params = &request->params;
    server_config(call->server, config);
    if (request_has(request, PARAMETER_policy))
        config->policy = copy_text(texts->policy, &params->policy);
    if (request_has(request, PARAMETER_knobs))
        config->knobs = copy_text(texts->knobs, &params->knobs);
    if (request_has(request, PARAMETER_gpu_capacity))
        config->gpu_capacity = params->gpu_capacity;
    if (request_has(request, PARAMETER_gpu_probability))
        config->gpu_probability = params->gpu_probability;
    if (request_has(request, PARAMETER_forget_probability))
        config->forget_probability = params->forget_probability;
    if (request_has(request, PARAMETER_fallback_on_oom))
        config->fallback_on_oom = params->fallback_on_oom;
    if (request_has(request, PARAMETER_max_request_bytes))
        config->max_request_bytes = params->max_request_bytes;
    if (request_has(request, PARAMETER_trace_limit))
        config->trace_limit = params->trace_limit;
    if (request_has(request, PARAMETER_seed) && params->seed.given)
        config->seed = copy_text(texts->seed, &params->seed.decimal);
    if (request_has(request, PARAMETER_scan) &&
        !worsegpu_scan_from_name(copy_text(texts->scan, &params->scan), &config->scan))
        return reply_error_text(&call->reply, ERROR_INVALID_PARAMS, "param", "scan",
                                "scan must be \"accounted\" or \"walked\"");
    const char *field;
    char message[PROTO_MAX_ERROR_TEXT];
    if (server_check_config(config, &field, message, sizeof(message)) != WORSEGPU_OK)
        return reply_error_text(&call->reply, ERROR_INVALID_PARAMS, "param", field, "%s", message);
    return NULL;
}

bool call_reserve_for_config(const struct call *call, const struct worsegpu_config *config)
{
    /* Each byte of printable ASCII takes two at most. */
    size_t knobs_bytes = config->knobs ? 2 * strlen(config->knobs) : 0;
    return json_writer_reserve(call->reply.out, REPLY_ROOM + knobs_bytes) == 0;
}

const struct answered *handle_open(struct call *call)
{
    struct connection *connection = call->connection;
    const struct request_text *name = &call->request->params.name;
    struct open_texts texts;
    struct worsegpu_config config;
    const struct answered *wrong = config_of_open(call, &config, &texts);
    if (wrong)
        return wrong;
    if (connection_allocator(connection, name->bytes, name->length))
        return reply_error(&call->reply, ERROR_NAME_IN_USE, "there is an allocator '%.*s' already",
                           (int)name->length, name->bytes);
    uint64_t limit = call->server->options->max_allocators_per_connection;
    if (connection->allocator_count >= limit)
        return reply_error_u64(
            &call->reply, ERROR_LIMIT_EXCEEDED, "limit", limit,
            "a connection may have %" PRIu64 " private allocators; close one first", limit);
    struct hosted *hosted;
    if (!call_reserve_for_config(call, &config))
        return reply_error(&call->reply, ERROR_INTERNAL_ERROR,
                           "the daemon is out of memory; try again later");
    int status = hosted_create(call->server->memory, name->bytes, name->length, connection->number,
                               &connection->account, &config, &hosted);
    if (status != WORSEGPU_OK)
        return reply_error(&call->reply, ERROR_INTERNAL_ERROR,
                           status == WORSEGPU_NO_ENTROPY
                               ? "the system gives no random bytes"
                               : "the daemon is out of memory; try again later");
    hosted->seed_is_text = config.seed && call->request->params.seed.is_string;
    TAILQ_INSERT_TAIL(&connection->allocators, hosted, link);
    connection->allocator_count++;
    reply_begin_result(&call->reply);
    hosted_write(hosted, call->reply.out);
    return reply_end_result(&call->reply);
}

const struct answered *handle_close(struct call *call)
{
    if (call->hosted->shared)
        return reply_error(
            &call->reply, ERROR_PERMISSION_DENIED,
            "'%s' is shared and cannot be closed; name a private allocator of this connection",
            call->hosted->name);
    connection_close_allocator(call->connection, call->hosted);
    reply_begin_result(&call->reply);
    json_writer_member_bool(call->reply.out, "closed", true);
    return reply_end_result(&call->reply);
}

/* ------------------------------------------------------------------------------ snapshot, validate
 */

static void write_detail(worsegpu_allocator *engine, const struct worsegpu_snapshot *snapshot,
                         struct json_writer *out)
{
    const struct worsegpu_config *config = worsegpu_configuration(engine);
    uint64_t largest_free;
    json_writer_begin_object(out);
    json_writer_member_text(out, "policy", config->policy);
    json_writer_member_text(out, "scan", worsegpu_scan_name(config->scan));
    json_writer_member_u64(out, "blocks_scanned", snapshot->blocks_scanned);
    json_writer_member_u64(out, "gpu_allocations", snapshot->gpu_allocations);
    json_writer_member_u64(out, "cpu_allocations", snapshot->cpu_allocations);
    json_writer_member_u64(out, "gpu_requested", snapshot->gpu_requested);
    json_writer_member_u64(out, "gpu_forgotten_blocks", snapshot->gpu_forgotten_blocks);
    json_writer_member_u64(out, "peak_gpu_used", snapshot->peak_gpu_used);
    json_writer_member_u64(out, "peak_cpu_bytes", snapshot->peak_cpu_bytes);
    json_writer_member_u64(out, "allocate_calls", snapshot->allocate_calls);
    json_writer_member_u64(out, "free_calls", snapshot->free_calls);
    json_writer_member_u64(out, "oom_fallbacks", snapshot->oom_fallbacks);
    json_writer_member_u64(out, "oom_failures", snapshot->oom_failures);
    json_writer_member_u64(out, "faults", snapshot->faults);
    json_writer_member_u64(out, "last_sequence", snapshot->last_sequence);
    if (worsegpu_largest_free(engine, &largest_free))
        json_writer_member_u64(out, "gpu_largest_free", largest_free);
    else
        json_writer_member_null(out, "gpu_largest_free");
    json_writer_member_u64(out, "gpu_pending", snapshot->gpu_pending);
    json_writer_member_u64(out, "gpu_segments", snapshot->gpu_segments);
    json_writer_member_u64(out, "device_calls", snapshot->device_calls);
    json_writer_member_u64(out, "device_retries", snapshot->device_retries);
    json_writer_end_object(out);
}

const struct answered *handle_snapshot(struct call *call)
{
    struct worsegpu_snapshot snapshot;
    struct json_writer *out = call->reply.out;
    char fragmentation[8];
    worsegpu_snapshot(call->hosted->engine, &snapshot);
    worsegpu_fragmentation_to_text(snapshot.fragmentation, fragmentation);
    reply_begin_result(&call->reply);
    json_writer_member_u64(out, "gpu_capacity", snapshot.gpu_capacity);
    json_writer_member_u64(out, "gpu_reserved", snapshot.gpu_reserved);
    json_writer_member_u64(out, "gpu_unreserved", snapshot.gpu_unreserved);
    json_writer_member_u64(out, "gpu_used", snapshot.gpu_used);
    json_writer_member_u64(out, "gpu_free", snapshot.gpu_free);
    json_writer_member_u64(out, "gpu_forgotten", snapshot.gpu_forgotten);
    json_writer_member_u64(out, "gpu_blocks", snapshot.gpu_blocks);
    json_writer_member_u64(out, "cpu_bytes", snapshot.cpu_bytes);
    json_writer_member_u64(out, "active_allocations", snapshot.active_allocations);
    json_writer_member_u64(out, "trace_events", snapshot.trace_events);
    json_writer_key(out, "fragmentation");
    json_writer_raw_value(out, fragmentation, strlen(fragmentation));
    json_writer_key(out, "detail");
    write_detail(call->hosted->engine, &snapshot, out);
    /* The largest free block may have to be looked for. */
    call->cost += snapshot.gpu_blocks / CALL_WALKED_PER_REQUEST;
    return reply_end_result(&call->reply);
}

const struct answered *handle_validate(struct call *call)
{
    struct worsegpu_snapshot snapshot;
    uint64_t checks;
    const char *broken;
    worsegpu_snapshot(call->hosted->engine, &snapshot);
    call->cost += (snapshot.gpu_blocks + snapshot.active_allocations + snapshot.trace_events) /
                  CALL_WALKED_PER_REQUEST;
    int status = worsegpu_validate(call->hosted->engine, &checks, &broken);
    if (status == WORSEGPU_INVARIANT_VIOLATION)
        return reply_error_text(&call->reply, ERROR_INVARIANT_VIOLATION, "check", broken,
                                "the accounting of '%s' is broken: %s; please report it",
                                call->hosted->name, broken);
    if (status != WORSEGPU_OK)
        return reply_error(&call->reply, ERROR_INTERNAL_ERROR,
                           "the daemon is out of memory; try again later");
    reply_begin_result(&call->reply);
    json_writer_member_bool(call->reply.out, "valid", true);
    json_writer_member_u64(call->reply.out, "checks", checks);
    return reply_end_result(&call->reply);
}

/* --------------------------------------------------------------------------------------- trace */

/* Whether a peer may see a user's tags and names in the trace. */
static bool sees_texts_of(const struct server *server, const struct peer *peer, uid_t user)
{
    return peer->uid == user || peer->uid == 0 || server->trace_visible_to_all;
}

/* The name that a connection gave itself, while it lasts. Its user may be another one than the
 * allocation's: root may free everybody's. */
static void write_client_name(const struct server *server, const struct peer *peer, uint64_t number,
                              struct json_writer *out)
{
    const struct connection *client = connection_find(server, number);
    if (!client || !*client->name)
        return;
    if (sees_texts_of(server, peer, client->peer.uid))
        json_writer_member_text(out, "name", client->name);
    else
        json_writer_member_null(out, "name");
}

/* What a program told. */
static void write_telling(const struct worsegpu_event *event, struct json_writer *out)
{
    if (event->operation == WORSEGPU_RECORD_STREAM) {
        json_writer_member_u64(out, "allocation_id", event->allocation_id);
        json_writer_member_text(out, "device", worsegpu_device_name(event->device));
    } else if (event->operation == WORSEGPU_EVENT_DONE) {
        if (event->count != WORSEGPU_ALL_EVENTS)
            json_writer_member_u64(out, "count", event->count);
        if (event->newest)
            json_writer_member_bool(out, "newest", true);
    }
}

enum {
    /* Constant texts, numbers and names of the two templates below. */
    DECISION_ROOM = 160 + 3 * JSON_PIECES_LONGEST_INTEGER,
    WHEN_ROOM = 48 + 3 * JSON_PIECES_LONGEST_INTEGER
};

static char *write_named(char *at, const char *name)
{
    return JSON_PIECE(json_piece_text(at, name), "\"");
}

/* What an allocator decided: the reference's keys in the reference's order. A template, since every
 * subscriber has it for every request. */
static void write_decision(const struct worsegpu_event *event, struct json_writer *out)
{
    char *at = json_writer_room(out, DECISION_ROOM);
    if (!at)
        return;
    bool failed = event->operation == WORSEGPU_ALLOCATE_FAILED;
    if (failed) {
        at = write_named(JSON_PIECE(at, ",\"reason\":\""), worsegpu_reason_name(event->reason));
        at = json_piece_u64(JSON_PIECE(at, ",\"requested_bytes\":"), event->requested_bytes);
    } else {
        at = json_piece_u64(JSON_PIECE(at, ",\"allocation_id\":"), event->allocation_id);
    }
    if (event->operation == WORSEGPU_ALLOCATE) {
        at = json_piece_u64(JSON_PIECE(at, ",\"requested_bytes\":"), event->requested_bytes);
        at = json_piece_u64(JSON_PIECE(at, ",\"reserved_bytes\":"), event->reserved_bytes);
    }
    if (event->operation == WORSEGPU_FREE)
        at = event->released ? JSON_PIECE(at, ",\"released\":true")
                             : JSON_PIECE(at, ",\"released\":false");
    at = write_named(JSON_PIECE(at, ",\"device\":\""), worsegpu_device_name(event->device));
    if (!failed && event->reason != WORSEGPU_NO_REASON)
        at = write_named(JSON_PIECE(at, ",\"reason\":\""), worsegpu_reason_name(event->reason));
    json_writer_wrote(out, at, true);
}

/* When it was and whose. */
static void write_when(const struct worsegpu_event *event, struct json_writer *out)
{
    char *at = json_writer_room(out, WHEN_ROOM);
    if (!at)
        return;
    at = json_piece_u64(JSON_PIECE(at, ",\"sequence\":"), event->sequence);
    at = json_piece_u64(JSON_PIECE(at, ",\"time_us\":"), event->time_us);
    at = json_piece_u64(JSON_PIECE(at, ",\"client\":"), event->client);
    json_writer_wrote(out, at, true);
}

/* What a rule did. */
static void write_fault(const struct worsegpu_event *event, struct json_writer *out)
{
    json_writer_member_text(out, "action", worsegpu_fault_action_name(event->action));
    json_writer_member_u64(out, "rule", event->rule);
    if (event->allocation_id)
        json_writer_member_u64(out, "allocation_id", event->allocation_id);
    if (event->requested_bytes)
        json_writer_member_u64(out, "requested_bytes", event->requested_bytes);
}

/* The event as the peer may see it; ours come after what the reference has. */
void write_event(const struct server *server, const struct peer *peer,
                 const struct worsegpu_event *event, struct json_writer *out)
{
    json_writer_begin_object(out);
    json_writer_member_text(out, "operation", worsegpu_operation_name(event->operation));
    if (event->operation == WORSEGPU_FAULT)
        write_fault(event, out);
    else if (event->operation > WORSEGPU_FAULT)
        write_telling(event, out);
    else
        write_decision(event, out);
    write_when(event, out);
    if (event->tag_bytes && sees_texts_of(server, peer, event->user))
        json_writer_member_string(out, "tag", event->tag, event->tag_bytes);
    else if (event->tag_bytes)
        json_writer_member_null(out, "tag");
    write_client_name(server, peer, event->client, out);
    if (event->stream_given)
        json_writer_member_u64(out, "stream", event->stream);
    if (event->alignment)
        json_writer_member_u64(out, "alignment", event->alignment);
    if (event->upper)
        json_writer_member_bool(out, "upper", true);
    json_writer_end_object(out);
}

const struct answered *handle_trace(struct call *call)
{
    const struct request *request = call->request;
    struct json_writer *out = call->reply.out;
    uint64_t next = request_has(request, PARAMETER_after) ? request->params.after : 0;
    size_t left =
        request_has(request, PARAMETER_limit) ? (size_t)request->params.limit : PROTO_MAX_PAGE;
    struct worsegpu_event events[PAGE];
    uint64_t dropped;
    bool more = true;
    worsegpu_trace(call->hosted->engine, next, NULL, 0, NULL, NULL, &dropped);
    reply_begin_result(&call->reply);
    json_writer_key(out, "events");
    json_writer_begin_array(out);
    while (more && left && call_fits(call)) {
        size_t count;
        worsegpu_trace(call->hosted->engine, next, events, left < PAGE ? left : PAGE, &count, &more,
                       NULL);
        size_t written = 0;
        for (; written < count && call_fits(call); written++) {
            write_event(call->server, &call->connection->peer, &events[written], out);
            next = events[written].sequence;
        }
        more = more || written < count;
        left -= written;
        call->cost += written / PAGE;
    }
    json_writer_end_array(out);
    json_writer_member_u64(out, "next", next);
    json_writer_member_bool(out, "more", more);
    json_writer_member_u64(out, "dropped", dropped);
    return reply_end_result(&call->reply);
}

const struct answered *handle_trace_clear(struct call *call)
{
    if (!call_may_change(call, call->hosted))
        return call_not_admin(call);
    uint64_t cleared = worsegpu_trace_clear(call->hosted->engine);
    reply_begin_result(&call->reply);
    json_writer_member_u64(call->reply.out, "cleared", cleared);
    return reply_end_result(&call->reply);
}

/* ---------------------------------------------------------------------------------------- list */

static void write_allocation(const struct worsegpu_allocation *allocation, struct json_writer *out)
{
    const struct lease *lease = allocation->owner;
    json_writer_begin_object(out);
    write_placement(allocation, out);
    if (allocation->tag)
        json_writer_member_string(out, "tag", allocation->tag, allocation->tag_bytes);
    json_writer_member_u64(out, "stream", allocation->stream);
    if (lease->holding && lease->holding->account)
        json_writer_member_u64(out, "client", lease->client);
    else
        json_writer_member_null(out, "client");
    json_writer_member_bool(out, "detached", lease->detached);
    json_writer_end_object(out);
}

bool may_see_lease(const struct connection *connection, const struct lease *lease)
{
    return connection->peer.uid == 0 || connection->peer.uid == lease->uid;
}

/* Detached, and the connection that made it has ended. */
static bool is_orphan(const struct lease *lease)
{
    return lease->detached && (!lease->holding || !lease->holding->account);
}

const struct answered *handle_list(struct call *call)
{
    const struct request *request = call->request;
    struct json_writer *out = call->reply.out;
    uint64_t next = request_has(request, PARAMETER_after) ? request->params.after : 0;
    size_t left =
        request_has(request, PARAMETER_limit) ? (size_t)request->params.limit : PROTO_MAX_PAGE;
    struct worsegpu_allocation page[PAGE];
    size_t looked_at = 0;
    bool orphans = request_has(request, PARAMETER_orphans) && request->params.orphans;
    bool more = true;
    reply_begin_result(&call->reply);
    json_writer_key(out, "allocations");
    json_writer_begin_array(out);
    while (more && left && looked_at < LIST_SEARCH && call_fits(call)) {
        size_t count;
        worsegpu_list(call->hosted->engine, next, page, PAGE, &count, &more);
        size_t index = 0;
        for (; index < count && left && call_fits(call); index++) {
            if (may_see_lease(call->connection, page[index].owner) &&
                (!orphans || is_orphan(page[index].owner))) {
                write_allocation(&page[index], out);
                left--;
            }
            next = page[index].handle.allocation_id;
        }
        more = more || index < count;
        looked_at += index;
    }
    call->cost += looked_at / PAGE;
    json_writer_end_array(out);
    json_writer_member_u64(out, "next", next);
    json_writer_member_bool(out, "more", more);
    return reply_end_result(&call->reply);
}

handler handler_of(enum method method)
{
    static const handler handlers[METHODS] = {
#define METHOD(name, summary, result) [METHOD_##name] = handle_##name,
#include "proto/methods.def"
    };
    return handlers[method];
}
