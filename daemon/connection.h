/* One client's connection as a pure state machine: bytes in, bytes out, time as a parameter. No
 * descriptor, no clock, no libuv, so that a test can run the whole daemon over memory with
 * simulated time.
 *
 * It lives from accept until the transport has closed its stream. What it holds in shared
 * allocators goes to the server's endings when it is destroyed, its private allocators to the
 * graveyard.
 *
 * The way round: connection_receive lends it a chunk and it carries out at most
 * max_requests_per_turn requests; connection_run carries on in the next turn; connection_output is
 * what the transport shall write. While more than max_unread_bytes are unread it carries nothing
 * out and wants no input. */
#ifndef CONNECTION_H
#define CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/server.h"
#include "proto/framing.h"
#include "proto/json_writer.h"

/* Who is at the other end, as the kernel told at accept. */
struct peer {
    uid_t uid;
    gid_t gid;
    pid_t pid;  /* for display only: it may be another process by now */
    bool admin; /* root, the daemon's own user, or in the admin group: may change what is shared */
};

/* What a connection has done so far, for `clients`. */
struct connection_counts {
    uint64_t requests;
    uint64_t errors;
    uint64_t bytes_in;
    uint64_t bytes_out;
};

/* A line that a rule has delayed. Until it is due nothing of its connection is read or carried out.
 */
struct delayed_line {
    char *line; /* a copy; NULL when there is none */
    size_t length;
    uint64_t until_ms;
    bool due;
};

struct connection {
    struct server *server;
    RB_ENTRY(connection) by_number; /* in the server's clients */
    struct peer peer;
    struct user *user;
    struct account account; /* what it holds, in all allocators */
    struct connection_counts counts;
    struct moment connected;
    char name[ALLOCATOR_NAME_SIZE]; /* as `hello` gave it, for display only; empty for none */
    uint64_t number;
    struct framing input;
    struct json_writer output;
    size_t in_flight;              /* bytes that the transport took and has not written yet */
    struct holding_list holdings;  /* in shared allocators */
    struct hosted_list allocators; /* private ones */
    uint64_t allocator_count;
    struct subscription_list subscriptions;
    void *stream;           /* the transport's, for itself; NULL without one */
    uint64_t turn_left;     /* requests that may still be carried out in this turn */
    uint64_t line_since_ms; /* when the line now half there began; valid while in_line */
    bool in_line;
    bool held_up;    /* while in_line: since then its answers were unread */
    bool starved;    /* no memory to go on before something has been written */
    bool lines_wait; /* whole lines may still wait in `input` */
    struct delayed_line delayed;
    bool hurried; /* delays are over at once */
    bool input_ended;
    bool broken; /* its output is flushed, then it ends */
};

/* Makes one. NULL without memory. */
struct connection *connection_create(struct server *server, struct peer peer, struct moment now);
void connection_destroy(struct connection *connection);

/* The connection of that number, and the first one with a higher number; NULL when there is none.
 */
struct connection *connection_find(const struct server *server, uint64_t number);
struct connection *connection_after(struct server *server, uint64_t number);

/* A chunk has come. Only when connection_wants_input. The bytes need not stay after the call. */
void connection_receive(struct connection *connection, const char *bytes, size_t length,
                        struct moment now);

/* No more bytes will come: whole lines are still carried out, a half one is dropped. */
void connection_end_input(struct connection *connection);

/* Carries on with lines that wait; call once a turn while connection_wants_turn. */
void connection_run(struct connection *connection, struct moment now);

bool connection_wants_turn(const struct connection *connection);
bool connection_wants_input(const struct connection *connection);

/* Whether all has been done and written: close it. */
bool connection_finished(const struct connection *connection);

/* What is to be written. */
const char *connection_output(const struct connection *connection, size_t *length);

/* The first `length` bytes of it have been written. */
void connection_written(struct connection *connection, size_t length);

/* Takes the whole output out, for a write that takes its time: the caller owns `data` (of
 * `capacity` bytes, from the server's memory) until it gives it back. The bytes count as unread
 * until then. */
char *connection_take_output(struct connection *connection, size_t *length, size_t *capacity);
void connection_give_back(struct connection *connection, char *data, size_t length,
                          size_t capacity);

/* When it must be looked at, whatever comes: the line that is half there must have ended, or a
 * delayed one is due; UINT64_MAX for neither. */
uint64_t connection_deadline_ms(const struct connection *connection);

/* Its deadline has passed. A half line: tells the client and ends it. A delayed one is carried out
 * in its next turn. */
void connection_expire(struct connection *connection, struct moment now);

/* Whether a delayed line waits for its time. */
bool connection_is_delayed(const struct connection *connection);

/* Its delays are over, this one and all to come: the daemon stops, or the client has gone. */
void connection_hurry(struct connection *connection);

/* For the rules. Keeps a line to be carried out later; 0, or -1 without memory: nothing has
 * changed.
 */
int connection_delay(struct connection *connection, const char *line, size_t length,
                     uint64_t until_ms);

/* Ends the connection once its output is flushed; nothing more is read or carried out. */
void connection_break_off(struct connection *connection);

/* What the connection holds in an allocator; NULL when nothing was ever asked for there. */
struct holding *connection_find_holding(struct connection *connection, struct hosted *hosted);

/* For the subscriptions. How many bytes of events it may take now: as much as stays within
 * max_unread_bytes, so that events alone never keep its requests from being read; at least one line
 * while nothing is unread; nothing once it takes no more requests. */
size_t connection_room_for_events(const struct connection *connection);

enum {
    CONNECTION_FULL = 1, /* there is no room before something has been written */
    CONNECTION_POOR = 2  /* there is no memory */
};

/* Appends whole lines to its output. 0, CONNECTION_FULL or CONNECTION_POOR: then nothing has
 * changed. */
int connection_append_events(struct connection *connection, const char *lines, size_t length);

/* For the handlers. What the connection holds in an allocator: made when it is not there yet; NULL
 * without memory. */
struct holding *connection_holding(struct connection *connection, struct hosted *hosted);

/* A shared allocator or one of its own; NULL when there is none. */
struct hosted *connection_allocator(struct connection *connection, const char *name,
                                    size_t name_bytes);

/* Ends a private allocator of its own. */
void connection_close_allocator(struct connection *connection, struct hosted *hosted);

#endif
