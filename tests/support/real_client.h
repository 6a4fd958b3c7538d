/* Raw clients of a daemon for integration tests: bytes over a socket, and answers as JSON.
 *
 * They know the wire and nothing of our client library, so that they can misbehave. A client
 * belongs to its room (real_process.h) and is closed with it. Waiting too long fails the test. */
#ifndef REAL_CLIENT_H
#define REAL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "tests/support/real_process.h"

struct real_client {
    struct real_client *next;
    int descriptor; /* -1 once closed */
    char *received; /* bytes not handed out yet: start to length */
    size_t start;
    size_t length;
    size_t capacity;
    bool ended;   /* the daemon has closed */
    cJSON *reply; /* the last one */
};

/* Connects, or fails the test. */
struct real_client *real_client_connect(struct real_room *room, const char *socket_path);

/* Whether somebody listens there. Leaves no connection behind: when it returns, the daemon has
 * forgotten it. */
bool real_client_probe(const char *socket_path);

/* Sends all of it; the second ends it with LF. The third sends what goes without waiting, and says
 * how much: nothing also when the daemon has closed. */
void real_client_send_bytes(struct real_client *client, const char *bytes, size_t length);
void real_client_send(struct real_client *client, const char *line);
size_t real_client_send_some(struct real_client *client, const char *bytes, size_t length);

/* The next line without its LF, valid until the next call; NULL when the daemon has closed. */
const char *real_client_line(struct real_client *client);

/* The next line as JSON, valid until the next reply of this client; there must be one. */
const cJSON *real_client_reply(struct real_client *client);
const cJSON *real_client_call(struct real_client *client, const char *line);

/* Whether bytes or the end can be read without waiting. */
bool real_client_has_news(struct real_client *client);

/* The daemon must close without another byte. */
void real_client_expect_end(struct real_client *client);

void real_client_shutdown(struct real_client *client); /* its writing side */
void real_client_close(struct real_client *client);

/* All clients of a room. */
void real_clients_close(struct real_room *room);
void real_clients_release(struct real_room *room);

/* A value in a reply by its path, as in "result.allocations.0.handle"; there must be one. */
const cJSON *real_json(const cJSON *reply, const char *path);
bool real_json_has(const cJSON *reply, const char *path);
uint64_t real_json_number(const cJSON *reply, const char *path);
const char *real_json_text(const cJSON *reply, const char *path);
bool real_json_true(const cJSON *reply, const char *path);

/* The reply must be an error of that kind. */
void real_json_expect_error(const cJSON *reply, const char *kind);

#endif
