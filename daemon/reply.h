/* Answers: the only way in which a handler can end is one of these functions.
 *
 * Handlers return a `const struct answered *`, which nothing but reply_... can make: the compiler
 * sees to it that each path through a handler answers once. A reply is written straight into the
 * connection's output; when it turns out too long or memory runs out, it is cut off again and an
 * error stands in its place. */
#ifndef REPLY_H
#define REPLY_H

#include <stdint.h>

#include "proto/json_writer.h"
#include "proto/request.h"

struct answered;

struct reply {
    struct json_writer *out;
    const struct request_id *id;
    bool silent;          /* a notification: carried out, never answered */
    bool failed;          /* it is an error ... */
    enum error_kind kind; /* ... of this kind */
    size_t start;         /* where this answer begins in the output */
};

enum {
    REPLY_ROOM = 8192,      /* made sure of before a request is carried out: what changes something
                               answers in less, so that its answer cannot fail */
    REPLY_ERROR_ROOM = 3072 /* an error with a message, an echo and an id, all escaped */
};

void reply_init(struct reply *reply, struct json_writer *out, const struct request *request);

/* The answer to a notification that went well: none. For handlers that are worth the trouble of not
 * writing what would be cut off again; `reply->silent` says when. */
const struct answered *reply_nothing(struct reply *reply);

/* A result: begin, write the members of the object, end. */
void reply_begin_result(struct reply *reply);
const struct answered *reply_end_result(struct reply *reply);

/* An error with up to one member beside `kind` in its data. */
__attribute__((format(printf, 3, 4))) const struct answered *
reply_error(struct reply *reply, enum error_kind kind, const char *format, ...);
__attribute__((format(printf, 5, 6))) const struct answered *
reply_error_u64(struct reply *reply, enum error_kind kind, const char *name, uint64_t value,
                const char *format, ...);
__attribute__((format(printf, 5, 6))) const struct answered *
reply_error_text(struct reply *reply, enum error_kind kind, const char *name, const char *value,
                 const char *format, ...);

/* An error with any members beside `kind` in its data: begin, write them, end. */
void reply_begin_error(struct reply *reply, enum error_kind kind, const char *message);
const struct answered *reply_end_error(struct reply *reply);

/* The error that request_decode found. */
const struct answered *reply_problem(struct reply *reply, const struct request_problem *problem);

#endif
