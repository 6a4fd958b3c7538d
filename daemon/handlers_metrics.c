/* metrics: what the daemon knows of itself as text for Prometheus. */
#include "daemon/handlers.h"
#include "daemon/metrics.h"

enum {
    BYTES_PER_REQUEST = 512 /* of the text, which cost as much as one request */
};

const struct answered *handle_metrics(struct call *call)
{
    const struct request_text *wish = &call->request->params.format;
    enum metrics_format format = METRICS_OPENMETRICS;
    struct json_writer *out = call->reply.out;
    struct metrics_text text;
    uint64_t blocks = 0;
    if (request_has(call->request, PARAMETER_format))
        format = metrics_format_from_name(wish->bytes, wish->length);
    if (format == METRICS_FORMATS)
        return reply_error_text(&call->reply, ERROR_INVALID_PARAMS, "param", "format",
                                "format must be \"openmetrics\" or \"prometheus\"");
    if (call->reply.silent)
        return reply_nothing(&call->reply);
    metrics_text_init(&text, call->server->memory);
    metrics_write(call->server, call->now, format, &text, &blocks);
    call->cost += text.length / BYTES_PER_REQUEST + blocks / CALL_WALKED_PER_REQUEST;
    if (text.failed) {
        metrics_text_release(&text);
        return reply_error(&call->reply, ERROR_INTERNAL_ERROR,
                           "the daemon is out of memory; try again later");
    }
    reply_begin_result(&call->reply);
    json_writer_member_text(out, "content_type", metrics_content_type(format));
    json_writer_member_string(out, "text", text.bytes, text.length);
    const struct answered *answered = reply_end_result(&call->reply);
    metrics_text_release(&text);
    return answered;
}
