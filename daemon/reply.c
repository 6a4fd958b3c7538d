/* Answers; see reply.h. */
#include "daemon/reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/json_pieces.h"

enum {
    TEMPLATE_ROOM = 64 /* for the beginning of an answer: the version, a number as id, the key */
};

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

/* Begins an answer: its version and its id, and the key of what follows. As a template where the id
 * is a number, as it nearly always is. */
static void begin(struct reply *reply, const char *key, size_t key_length)
{
    struct json_writer *out = reply->out;
    if (reply->silent)
        out->failure = JSON_WRITER_MUTED; /* until it is cut at the end */
    char *at = reply->id->kind == REQUEST_ID_INTEGER ? json_writer_room(out, TEMPLATE_ROOM) : NULL;
    if (at) {
        at = JSON_PIECE(at, "{\"jsonrpc\":\"2.0\",\"id\":");
        at = json_piece_i64(at, reply->id->integer);
        at = JSON_PIECE(at, ",\"");
        at = json_piece_bytes(at, key, key_length);
        at = JSON_PIECE(at, "\":{");
        json_writer_wrote(out, at, false);
        return;
    }
    json_writer_begin_object(out);
    json_writer_member_text(out, "jsonrpc", "2.0");
    json_writer_key(out, "id");
    request_id_write(out, reply->id);
    json_writer_key_bytes(out, key, key_length);
    json_writer_begin_object(out);
}

/* Ends what `begin` began. */
static const struct answered *end(struct reply *reply)
{
    char *at = json_writer_room(reply->out, 3);
    if (at)
        json_writer_wrote(reply->out, JSON_PIECE(at, "}}\n"), false);
    if (reply->silent)
        json_writer_cut(reply->out, reply->start);
    return &done;
}

void reply_begin_error(struct reply *reply, enum error_kind kind, const char *message)
{
    reply->failed = true;
    reply->kind = kind;
    json_writer_cut(reply->out, reply->start);
    begin(reply, "error", 5);
    json_writer_member_i64(reply->out, "code", error_code(kind));
    json_writer_member_text(reply->out, "message", message);
    json_writer_key(reply->out, "data");
    json_writer_begin_object(reply->out);
    json_writer_member_text(reply->out, "kind", error_kind_name(kind));
}

const struct answered *reply_end_error(struct reply *reply)
{
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
    begin(reply, "result", 6);
}

/* What stands in the place of a result that could not be written whole. */
static const struct answered *not_written(struct reply *reply, enum json_writer_failure failure)
{
    if (failure == JSON_WRITER_TOO_LONG)
        return reply_error_u64(
            reply, ERROR_LIMIT_EXCEEDED, "limit", reply->out->max_bytes,
            "the answer is longer than max_output_bytes; ask for less at a time");
    return reply_error(reply, ERROR_INTERNAL_ERROR, "the daemon is out of memory; try again later");
}

const struct answered *reply_end_result(struct reply *reply)
{
    const struct answered *answered = end(reply);
    enum json_writer_failure failure = reply->out->failure;
    if (failure == JSON_WRITER_TOO_LONG || failure == JSON_WRITER_NO_MEMORY)
        return not_written(reply, failure);
    return answered;
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
