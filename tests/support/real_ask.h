/* Requests of a raw client (real_client.h) without a forest of backslashes. */
#ifndef REAL_ASK_H
#define REAL_ASK_H

#include "tests/support/real_client.h"

/* Calls a method, with id 1. The parameters are made as printf does, and ' stands for ":
 *
 *     real_ask(client, "allocate", "'requested_bytes':%u,'tag':'a'", bytes)
 *
 * The reply is valid until the next one of this client. */
__attribute__((format(printf, 3, 4))) const cJSON *
real_ask(struct real_client *client, const char *method, const char *format, ...);

/* Sends whole request lines, all at once and without waiting for a reply; ' stands for ". The
 * daemon reads them together. */
void real_ask_later(struct real_client *client, const char *lines);

/* How many items an array in a reply has. */
unsigned real_json_count(const cJSON *reply, const char *path);

#endif
