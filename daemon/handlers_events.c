/* subscribe and unsubscribe: events as they happen. */
#include "daemon/handlers.h"

const struct answered *handle_subscribe(struct call *call)
{
    uint64_t after;
    if (request_has(call->request, PARAMETER_after)) {
        after = call->request->params.after;
    } else {
        struct worsegpu_snapshot snapshot;
        worsegpu_snapshot(call->hosted->engine, &snapshot);
        after = snapshot.last_sequence;
    }
    if (subscriptions_add(call->connection, call->hosted, after) != 0)
        return reply_error(&call->reply, ERROR_INTERNAL_ERROR,
                           "the daemon is out of memory; try again later");
    reply_begin_result(&call->reply);
    json_writer_member_text(call->reply.out, "allocator", call->hosted->name);
    json_writer_member_u64(call->reply.out, "next", after);
    return reply_end_result(&call->reply);
}

const struct answered *handle_unsubscribe(struct call *call)
{
    bool was = subscriptions_remove(call->connection, call->hosted);
    reply_begin_result(&call->reply);
    json_writer_member_bool(call->reply.out, "unsubscribed", was);
    return reply_end_result(&call->reply);
}
