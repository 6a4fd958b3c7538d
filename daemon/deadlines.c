/* Lines that do not end, and delayed ones; see deadlines.h. */
#include "daemon/deadlines.h"

#include <poll.h>

static struct stream_list *watch_list(struct transport *transport, enum waiting_for what)
{
    return what == WAITS_FOR_LINE ? &transport->in_line : &transport->delayed;
}

void stream_unwatch(struct stream *stream)
{
    if (stream->watched != WAITS_FOR_NOTHING)
        TAILQ_REMOVE(watch_list(stream->transport, stream->watched), stream, watch_link);
    stream->watched = WAITS_FOR_NOTHING;
}

static void on_deadline(uv_timer_t *timer);

void deadlines_ring_at(struct transport *transport, uint64_t due)
{
    uint64_t now = uv_now(transport->loop);
    if (uv_is_active((uv_handle_t *)&transport->deadline) && transport->deadline_at_ms <= due)
        return;
    transport->deadline_at_ms = due;
    uv_timer_start(&transport->deadline, on_deadline, due > now ? due - now : 0, 0);
}

/* When something must be done about a stream. Those that are delayed are looked at now and then:
 * they are not read from, so nothing else would tell that the client has gone. */
static uint64_t due_at(const struct stream *stream)
{
    uint64_t due = connection_deadline_ms(stream->connection);
    uint64_t look = uv_now(stream->transport->loop) + TRANSPORT_LOOK_MS;
    return stream->watched == WAITS_FOR_DELAY && look < due ? look : due;
}

/* A line that has begun just now, after one that was watched: its place is behind all others. */
static void keep_order(struct stream *stream)
{
    struct stream_list *list = watch_list(stream->transport, stream->watched);
    if (stream->connection->line_since_ms < uv_now(stream->transport->loop))
        return;
    TAILQ_REMOVE(list, stream, watch_link);
    TAILQ_INSERT_TAIL(list, stream, watch_link);
}

void stream_watch(struct stream *stream)
{
    enum waiting_for what = connection_is_delayed(stream->connection) ? WAITS_FOR_DELAY
                            : connection_deadline_ms(stream->connection) != UINT64_MAX
                                ? WAITS_FOR_LINE
                                : WAITS_FOR_NOTHING;
    if (what == stream->watched && what != WAITS_FOR_DELAY) {
        if (what == WAITS_FOR_LINE)
            keep_order(stream);
        return;
    }
    if (what != stream->watched) {
        stream_unwatch(stream);
        stream->watched = what;
        if (what != WAITS_FOR_NOTHING)
            TAILQ_INSERT_TAIL(watch_list(stream->transport, what), stream, watch_link);
    }
    if (what != WAITS_FOR_NOTHING)
        deadlines_ring_at(stream->transport, due_at(stream));
}

/* Whether the other end of a stream that is not read from has been closed. */
static bool has_gone(const struct stream *stream)
{
    struct pollfd other = {.events = 0};
    uv_os_fd_t descriptor;
    if (uv_fileno((const uv_handle_t *)&stream->pipe, &descriptor) != 0)
        return true;
    other.fd = descriptor;
    return poll(&other, 1, 0) == 1 && (other.revents & (POLLHUP | POLLERR)) != 0;
}

static void expire_lines(struct transport *transport, struct moment now)
{
    struct stream *stream;
    while ((stream = TAILQ_FIRST(&transport->in_line)) != NULL &&
           connection_deadline_ms(stream->connection) <= now.monotonic_ms) {
        stream_unwatch(stream);
        connection_expire(stream->connection, now);
        stream_activate(stream);
    }
    if (stream)
        deadlines_ring_at(transport, due_at(stream));
}

/* Whether a delayed stream still waits; `look`: whether its client has gone, too. */
static bool still_waits(struct stream *stream, bool look, struct moment now)
{
    if (look && has_gone(stream))
        connection_hurry(stream->connection); /* there is nobody left to wait */
    else if (connection_deadline_ms(stream->connection) <= now.monotonic_ms)
        connection_expire(stream->connection, now);
    return connection_is_delayed(stream->connection);
}

static void expire_delays(struct transport *transport, struct moment now)
{
    struct stream *stream = TAILQ_FIRST(&transport->delayed);
    uint64_t due = UINT64_MAX;
    bool look = now.monotonic_ms - transport->looked_at_ms >= TRANSPORT_LOOK_MS;
    if (look)
        transport->looked_at_ms = now.monotonic_ms;
    while (stream) {
        struct stream *next = TAILQ_NEXT(stream, watch_link);
        if (!still_waits(stream, look, now)) {
            stream_unwatch(stream);
            stream_activate(stream);
        } else if (due_at(stream) < due) {
            due = due_at(stream);
        }
        stream = next;
    }
    if (due != UINT64_MAX)
        deadlines_ring_at(transport, due);
}

/* The loop runs its timers before it reads. After a turn that came late, what was sent in time may
 * not have been read yet: so what is due is looked for at the end of the turn. */
static void on_deadline(uv_timer_t *timer)
{
    struct transport *transport = timer->data;
    transport->deadline_rung = true;
    transport_keep_awake(transport);
}

void deadlines_end_turn(struct transport *transport)
{
    if (!transport->deadline_rung)
        return;
    struct moment now = transport_now(transport);
    transport->deadline_rung = false;
    expire_lines(transport, now);
    expire_delays(transport, now);
}

void deadlines_init(struct transport *transport)
{
    TAILQ_INIT(&transport->in_line);
    TAILQ_INIT(&transport->delayed);
    uv_timer_init(transport->loop, &transport->deadline);
    transport->deadline.data = transport;
}
