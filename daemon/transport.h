/* Streams and connections: the only room that knows libuv's streams.
 *
 * Reads go into one buffer that all share; what is read is handed to the connection at once.
 * Answers are written at the end of the turn of the loop, or as soon as a few clients have some, in
 * one write for each client. Connections whose requests still wait, or whose dead still hold
 * memory, get their next turn before the loop sleeps; then subscribers get their events. One
 * `struct transport` for each daemon. */
#ifndef TRANSPORT_H
#define TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <uv.h>

#include "daemon/connection.h"

enum {
    TRANSPORT_READ_BYTES = 65536,
    TRANSPORT_UNWRITTEN_MOST = SPARE_BUFFERS_MOST - 1, /* whose answers wait; each has a buffer */
    TRANSPORT_EVENTS_SHARE = 8, /* subscribers get an 8th of the time that all else takes ... */
    TRANSPORT_EVENTS_IDLE_SHARE =
        10, /* ... and a 10th of that in which there is nothing to do ... */
    TRANSPORT_EVENTS_MOST_NS = 500000, /* ... of which so much at most may be saved up */
    TRANSPORT_LOOK_MS = 1000, /* how often delayed clients are looked at, whether they are there */
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
    struct stream_list delayed; /* those with a line that a rule has delayed, in no order */
    uv_check_t turn_end;
    uv_idle_t awake;     /* runs while somebody waits for a turn: the loop does not sleep */
    uv_timer_t deadline; /* of the oldest line half there, or the first delayed one */
    uv_timer_t events;   /* when subscribers are served next, if nothing else has a turn before */
    uint64_t events_wall_ns; /* when they were last given time, by the clock ... */
    uint64_t events_cpu_ns;  /* ... and by the processor time of this thread ... */
    uint64_t events_end_ns;  /* ... which was this when they had used it ... */
    int64_t events_left_ns;  /* ... and how much they have now */
    uint64_t deadline_at_ms;
    bool deadline_rung;    /* it has come in this turn */
    uint64_t looked_at_ms; /* when delayed clients were looked at last */
    size_t unwritten;      /* streams that have been read and not answered yet in this turn */
    struct stream *spare;  /* for a client that there is no memory for: to tell it so */

    bool stopping;
    void (*stopped)(
        void *context); /* told once, when it is stopping and the last stream has closed */
    void *stopped_context;
    char read_buffer[TRANSPORT_READ_BYTES];
};

/* 0 or a libuv error. */
int transport_init(struct transport *transport, uv_loop_t *loop, struct server *server);

/* Whether there is room for one more connection, if only to tell it that there is no memory. */
bool transport_can_accept(const struct transport *transport);

/* Takes over a new connection while there is room: serves it, or tells it in one line why not. */
void transport_accept(struct transport *transport, int descriptor);

/* The options have changed: each peer's rights are looked at anew, and so is what each stream may
 * do. */
void transport_options_changed(struct transport *transport);

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
