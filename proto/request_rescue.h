/* What can be read of a request when there is no memory for its tree. For request.c alone. */
#ifndef REQUEST_RESCUE_H
#define REQUEST_RESCUE_H

#include "proto/request.h"

/* Reads the id of a line that strict_json has found right, and whether it is a notification, so
 * that the error goes where it belongs. Takes no memory. What it does not find stays as it was. */
void request_rescue(const char *line, size_t length, struct request *request);

#endif
