/* hello, clients and resize: who is connected, and what those may do who may change what is shared.
 */
#include <string.h>

#include "daemon/handlers.h"

enum {
    CLIENTS_SEARCH = 16384,  /* connections looked at for one answer, seen or not */
    CLIENTS_PER_REQUEST = 16 /* so many cost as much as one request */
};

const struct answered *handle_hello(struct call *call)
{
    struct connection *connection = call->connection;
    const struct request_text *name = &call->request->params.name;
    memcpy(connection->name, name->bytes, name->length);
    connection->name[name->length] = '\0';
    reply_begin_result(&call->reply);
    json_writer_member_u64(call->reply.out, "client", connection->number);
    json_writer_member_text(call->reply.out, "name", connection->name);
    return reply_end_result(&call->reply);
}

bool call_may_change(const struct call *call, const struct hosted *hosted)
{
    return call->connection->peer.admin || (hosted && !hosted->shared);
}

const struct answered *call_not_admin(struct call *call)
{
    return reply_error(
        &call->reply, ERROR_PERMISSION_DENIED,
        "only root, the daemon's own user and the admin group may change what is shared");
}

const struct answered *handle_resize(struct call *call)
{
    if (!call_may_change(call, call->hosted))
        return call_not_admin(call);
    if (!call_reserve_for_config(call, worsegpu_configuration(call->hosted->engine)))
        return reply_error(&call->reply, ERROR_INTERNAL_ERROR,
                           "the daemon is out of memory; try again later");
    /* Cannot fail: the table of methods allows just the capacities that an engine takes. */
    worsegpu_resize(call->hosted->engine, call->request->params.gpu_capacity);
    reply_begin_result(&call->reply);
    hosted_write(call->hosted, call->reply.out);
    return reply_end_result(&call->reply);
}

static void write_client(const struct call *call, const struct connection *client)
{
    struct json_writer *out = call->reply.out;
    json_writer_begin_object(out);
    json_writer_member_u64(out, "client", client->number);
    if (*client->name)
        json_writer_member_text(out, "name", client->name);
    else
        json_writer_member_null(out, "name");
    json_writer_member_u64(out, "user", client->peer.uid);
    json_writer_member_u64(out, "group", client->peer.gid);
    json_writer_member_i64(out, "process", client->peer.pid);
    json_writer_member_bool(out, "you", client == call->connection);
    json_writer_member_u64(out, "connected_us", client->connected.wall_us);
    json_writer_member_u64(out, "connected_seconds",
                           (call->now.monotonic_ms - client->connected.monotonic_ms) / 1000);
    json_writer_member_u64(out, "allocations", client->account.allocations);
    json_writer_member_u64(out, "gpu_bytes", client->account.gpu_bytes);
    json_writer_member_u64(out, "cpu_bytes", client->account.cpu_bytes);
    json_writer_member_u64(out, "detached", client->account.detached);
    json_writer_member_u64(out, "private_allocators", client->allocator_count);
    json_writer_member_u64(out, "requests", client->counts.requests);
    json_writer_member_u64(out, "errors", client->counts.errors);
    json_writer_member_u64(out, "bytes_in", client->counts.bytes_in);
    json_writer_member_u64(out, "bytes_out", client->counts.bytes_out);
    json_writer_end_object(out);
}

/* A peer sees its own user's connections, who may change what is shared sees all. */
static bool may_see(const struct peer *peer, const struct connection *client)
{
    return peer->admin || peer->uid == client->peer.uid;
}

const struct answered *handle_clients(struct call *call)
{
    const struct request *request = call->request;
    struct json_writer *out = call->reply.out;
    uint64_t next = request_has(request, PARAMETER_after) ? request->params.after : 0;
    uint64_t left = request_has(request, PARAMETER_limit) ? request->params.limit : PROTO_MAX_PAGE;
    uint64_t looked_at = 0;
    const struct connection *client = connection_after(call->server, next);
    reply_begin_result(&call->reply);
    json_writer_key(out, "clients");
    json_writer_begin_array(out);
    while (client && left && looked_at < CLIENTS_SEARCH && call_fits(call)) {
        if (may_see(&call->connection->peer, client)) {
            write_client(call, client);
            left--;
        }
        looked_at++;
        next = client->number;
        client = connection_after(call->server, next);
    }
    call->cost += looked_at / CLIENTS_PER_REQUEST;
    json_writer_end_array(out);
    json_writer_member_u64(out, "next", next);
    json_writer_member_bool(out, "more", client != NULL);
    return reply_end_result(&call->reply);
}
