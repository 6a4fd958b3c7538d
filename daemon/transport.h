/* Streams and connections: the only room that knows libuv's streams.
 *
 * Reads go into one buffer that all share; what is read is handed to the connection at once.
 * Answers are written once a turn of the loop. Connections whose requests still wait, or whose dead
 * still hold memory, get their next turn before the loop sleeps. One `struct transport` for each
 * daemon. */
#ifndef TRANSPORT_H
#define TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <uv.h>

#include "daemon/connection.h"

enum {
    TRANSPORT_READ_BYTES = 65536,
    TRANSPORT_MAX_REFUSAL = 512 /* an error line for a client that is not let in */
};

struct stream;
TAILQ_HEAD(stream_list, stream);

struct transport {
    uv_loop_t *loop;
    struct server *server;
    struct stream_list streams; /* all that are open */
    struct stream_list active;  /* those to look after at the end of this turn */
    struct stream_list in_line; /* those with a line half there, oldest first */
    uv_check_t turn_end;
    uv_idle_t awake;     /* runs while somebody waits for a turn: the loop does not sleep */
    uv_timer_t deadline; /* of the oldest line half there */
    uint64_t deadline_at_ms;
    struct stream *spare; /* for a client that there is no memory for: to tell it so */
    uv_stream_t *waiting; /* where a client waits while not even that one is free */

    bool stopping;
    void (*stopped)(
        void *context); /* told once, when it is stopping and the last stream has closed */
    void *stopped_context;
    char read_buffer[TRANSPORT_READ_BYTES];
};

/* 0 or a libuv error. */
int transport_init(struct transport *transport, uv_loop_t *loop, struct server *server);

/* Takes the next connection from a listening stream: serves it, or tells it in one line why not. */
void transport_accept(struct transport *transport, uv_stream_t *listening);

/* Reads nothing more; what was read is answered and flushed, then each stream closes. `stopped` is
 * called when none is left. */
void transport_stop(struct transport *transport, void (*stopped)(void *context), void *context);

/* Closes what is still open, flushed or not. */
void transport_abort(struct transport *transport);

/* Closes its own handles; the loop must run once more for that. */
void transport_close(struct transport *transport);

/* The clocks, read once a turn. */
struct moment transport_now(const struct transport *transport);

#endif
