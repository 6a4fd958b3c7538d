/* Holding the short way and the long way through a request against each other. */
#ifndef REQUEST_WAYS_H
#define REQUEST_WAYS_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/request.h"

/* Decodes the bytes both ways, from a copy of exactly their length, and fails the test where the
 * two differ. true when the short way sufficed. */
bool request_ways_agree(struct request_decoder decoders[2], const char *bytes, size_t length);

#endif
