/* Answers; see reply.h. */
#include "daemon/reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct answered {
    char once;
};

static const struct answered done = {0};

void reply_init(struct reply *reply, struct json_writer *out, const struct request *request)
{
    reply->out = out;
    reply->id = &request->id;
    reply->silent = request->notification;
    reply->failed = false;
    reply->kind = ERROR_KINDS;
    reply->start = out->length;
}

static void begin(struct reply *reply)
{
    if (reply->silent)
        reply->out->failure = JSON_WRITER_MUTED; /* until it is cut at the end */
    json_writer_begin_object(reply->out);
    json_writer_member_text(reply->out, "jsonrpc", "2.0");
    json_writer_key(reply->out, "id");
    request_id_write(reply->out, reply->id);
}

static const struct answered *end(struct reply *reply)
{
    json_writer_end_object(reply->out);
    json_writer_newline(reply->out);
    if (reply->silent)
        json_writer_cut(reply->out, reply->start);
    return &done;
}

void reply_begin_error(struct reply *reply, enum error_kind kind, const char *message)
{
    reply->failed = true;
    reply->kind = kind;
    json_writer_cut(reply->out, reply->start);
    begin(reply);
    json_writer_key(reply->out, "error");
    json_writer_begin_object(reply->out);
    json_writer_member_i64(reply->out, "code", error_code(kind));
    json_writer_member_text(reply->out, "message", message);
    json_writer_key(reply->out, "data");
    json_writer_begin_object(reply->out);
    json_writer_member_text(reply->out, "kind", error_kind_name(kind));
}

const struct answered *reply_end_error(struct reply *reply)
{
    json_writer_end_object(reply->out);
    json_writer_end_object(reply->out);
    return end(reply);
}

const struct answered *reply_nothing(struct reply *reply)
{
    json_writer_cut(reply->out, reply->start);
    return &done;
}

void reply_begin_result(struct reply *reply)
{
    begin(reply);
    json_writer_key(reply->out, "result");
    json_writer_begin_object(reply->out);
}

const struct answered *reply_end_result(struct reply *reply)
{
    json_writer_end_object(reply->out);
    enum json_writer_failure failure = reply->out->failure;
    if (failure == JSON_WRITER_TOO_LONG)
        return reply_error_u64(
            reply, ERROR_LIMIT_EXCEEDED, "limit", reply->out->max_bytes,
            "the answer is longer than max_output_bytes; ask for less at a time");
    if (failure == JSON_WRITER_NO_MEMORY)
        return reply_error(reply, ERROR_INTERNAL_ERROR,
                           "the daemon is out of memory; try again later");
    return end(reply);
}

const struct answered *reply_error(struct reply *reply, enum error_kind kind, const char *format,
                                   ...)
{
    char message[PROTO_MAX_ERROR_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    reply_begin_error(reply, kind, message);
    return reply_end_error(reply);
}

const struct answered *reply_error_u64(struct reply *reply, enum error_kind kind, const char *name,
                                       uint64_t value, const char *format, ...)
{
    char message[PROTO_MAX_ERROR_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    reply_begin_error(reply, kind, message);
    json_writer_member_u64(reply->out, name, value);
    return reply_end_error(reply);
}

const struct answered *reply_error_text(struct reply *reply, enum error_kind kind, const char *name,
                                        const char *value, const char *format, ...)
{
    char message[PROTO_MAX_ERROR_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    reply_begin_error(reply, kind, message);
    json_writer_member_text(reply->out, name, value);
    return reply_end_error(reply);
}

const struct answered *reply_problem(struct reply *reply, const struct request_problem *problem)
{
    reply_begin_error(reply, problem->kind, problem->message);
    if (problem->data_name)
        json_writer_member_string(reply->out, problem->data_name, problem->data.bytes,
                                  problem->data.length);
    return reply_end_error(reply);
}
