/* One stream, and what time will bring to it: lines that do not end, and lines that a rule has
 * delayed. Shared by transport.c and deadlines.c alone.
 *
 * Streams that wait for time stand in one of two lists of the transport. Its one timer rings for
 * the first of them that is due, or earlier: each ring sets it anew. */
#ifndef DEADLINES_H
#define DEADLINES_H

#include "daemon/transport.h"

/* What time will bring to a stream. */
enum waiting_for {
    WAITS_FOR_NOTHING,
    WAITS_FOR_LINE, /* that is half there */
    WAITS_FOR_DELAY
};

struct stream {
    uv_pipe_t pipe; /* first: libuv gives it back to us */
    uv_write_t write;
    TAILQ_ENTRY(stream) link;
    TAILQ_ENTRY(stream) active_link;
    TAILQ_ENTRY(stream) watch_link; /* in the list of what it waits for */
    struct transport *transport;
    struct connection *connection;
    char *writing; /* the buffer of a write under way */
    size_t writing_length;
    size_t writing_capacity;
    bool active;
    enum waiting_for watched; /* which list it is in */
    bool reading;
    bool ran; /* has had its turn already */
    bool closing;
};

/* Has the loop look after a stream at the end of this turn. In transport.c, like the next. */
void stream_activate(struct stream *stream);

/* The loop does not sleep before it has had another turn. */
void transport_keep_awake(struct transport *transport);

/* Makes the lists and the timer; the loop and the server must be there. */
void deadlines_init(struct transport *transport);

/* Puts a stream into the list that it belongs in now. */
void stream_watch(struct stream *stream);
void stream_unwatch(struct stream *stream);

/* When all that was read in this turn has been looked after: ends what is due. */
void deadlines_end_turn(struct transport *transport);

/* Sees to it that the timer rings at this time or earlier. */
void deadlines_ring_at(struct transport *transport, uint64_t due);

#endif
