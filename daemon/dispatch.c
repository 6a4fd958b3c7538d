/* One line in, one answer appended; see dispatch.h. */
#include "daemon/dispatch.h"

#include <string.h>

#include "daemon/faults.h"
#include "daemon/handlers.h"
#include "daemon/reply.h"

/* The allocator a request is about. false: it has been answered. */
static bool find_allocator(struct call *call)
{
    const struct request *request = call->request;
    uint64_t takes = method_info(request->method)->takes;
    if (!(takes >> PARAMETER_allocator & 1u))
        return true;
    if (request_has(request, PARAMETER_allocator)) {
        const struct request_text *name = &request->params.allocator;
        call->hosted = connection_allocator(call->connection, name->bytes, name->length);
    } else {
        call->hosted = TAILQ_FIRST(&call->server->shared);
    }
    if (call->hosted)
        return true;
    reply_error(&call->reply, ERROR_UNKNOWN_ALLOCATOR,
                "there is no allocator '%.*s' for this connection; info lists those there are",
                (int)request->params.allocator.length, request->params.allocator.bytes);
    return false;
}

static void count_error(struct connection *connection, const struct reply *reply)
{
    connection->counts.errors++;
    connection->server->counts.errors[reply->kind]++;
}

static uint64_t dispatch(struct connection *connection, const char *line, size_t length, bool poor,
                         bool judged, struct moment now)
{
    struct request request;
    struct request_problem problem;
    struct server *server = connection->server;
    enum request_result result = request_decode(&server->decoder, line, length, &request, &problem);
    if (result == REQUEST_EMPTY)
        return 0;
    metrics_begin_request(&server->counts, request.method);
    struct call call = {
        .server = server, .connection = connection, .request = &request, .now = now, .cost = 1};
    reply_init(&call.reply, &connection->output, &request);
    if (result == REQUEST_NO_MEMORY || poor)
        reply_error(&call.reply, ERROR_INTERNAL_ERROR,
                    "the daemon is out of memory; try again later");
    else if (result == REQUEST_REFUSED)
        reply_problem(&call.reply, &problem);
    else if (find_allocator(&call)) {
        enum fault_course course = FAULT_GO_ON;
        if (!judged && faults_possible(&call))
            course = faults_meet(&call, line, length);
        if (course == FAULT_DELAYED)
            return call.cost;
        if (course == FAULT_GO_ON)
            handler_of(request.method)(&call);
    }
    connection->counts.requests++;
    if (call.reply.failed)
        count_error(connection, &call.reply);
    metrics_count_request(&server->counts, request.method);
    return call.cost;
}

uint64_t dispatch_line(struct connection *connection, const char *line, size_t length, bool poor,
                       struct moment now)
{
    return dispatch(connection, line, length, poor, false, now);
}

uint64_t dispatch_delayed_line(struct connection *connection, const char *line, size_t length,
                               bool poor, struct moment now)
{
    return dispatch(connection, line, length, poor, true, now);
}

void dispatch_refuse(struct connection *connection, enum error_kind kind, const char *message)
{
    struct request nobody = {.id = {.kind = REQUEST_ID_NONE}};
    struct reply reply;
    reply_init(&reply, &connection->output, &nobody);
    reply_error(&reply, kind, "%s", message);
    count_error(connection, &reply);
}
