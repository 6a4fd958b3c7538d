/* One line in, one answer appended: decodes a request and calls its handler. */
#ifndef DISPATCH_H
#define DISPATCH_H

#include "daemon/connection.h"

/* Carries out one line. The connection's output must have REPLY_ROOM, or, with `poor`,
 * REPLY_ERROR_ROOM: then a request is not carried out but answered with internal_error. Returns
 * what it cost, in requests: 1, or more for a method that walks something long, 0 for an empty
 * line. */
uint64_t dispatch_line(struct connection *connection, const char *line, size_t length, bool poor,
                       struct moment now);

/* The same for a line that a rule has delayed: it meets no rule again. */
uint64_t dispatch_delayed_line(struct connection *connection, const char *line, size_t length,
                               bool poor, struct moment now);

/* Answers a line that could not be looked at: too long, or no memory to decode it. */
void dispatch_refuse(struct connection *connection, enum error_kind kind, const char *message);

#endif
