/* The short way through a request line, and what both ways share. For request.c alone. */
#ifndef REQUEST_SHORT_H
#define REQUEST_SHORT_H

#include "proto/request.h"

/* Decodes a line of the usual shape in place, without memory: a flat object of plain ASCII strings,
 * plain integers and booleans, in which everything is right. true when the whole request is filled
 * in; false when the line needs the long way, whatever the reason: then `request` holds nothing of
 * use. */
bool request_short(const char *line, size_t length, struct request *request);

/* Where a parameter's value lies, a REQUEST_C_<its type>. */
void *request_field(struct request_params *params, enum parameter parameter);

/* Whether bytes are of A-Z a-z 0-9 . _ -, the first a letter or digit. */
bool request_is_name(const char *bytes, size_t length);

/* Whether bytes are -?[0-9]+ of at most `most` digits. */
bool request_is_decimal(const char *bytes, size_t length, uint64_t most);

/* Reads a plain integer within +-(2^53 - 1), no -0, which is all there is. */
bool request_is_safe_integer(const char *bytes, size_t length, int64_t *value);

#endif
