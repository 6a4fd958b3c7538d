/* Streams and connections; see transport.h. */
#include "daemon/transport.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "daemon/deadlines.h"
#include "daemon/peers.h"
#include "daemon/reply.h"

struct moment transport_now(const struct transport *transport)
{
    struct timespec wall;
    struct moment now = {.monotonic_ms = uv_now(transport->loop)};
    clock_gettime(CLOCK_REALTIME, &wall);
    now.wall_us = (uint64_t)wall.tv_sec * 1000000u + (uint64_t)wall.tv_nsec / 1000u;
    return now;
}

static void nothing_to_do(uv_idle_t *idle)
{
    (void)idle;
}

void stream_activate(struct stream *stream)
{
    if (stream->active || stream->closing)
        return;
    stream->active = true;
    TAILQ_INSERT_TAIL(&stream->transport->active, stream, active_link);
}

void transport_keep_awake(struct transport *transport)
{
    if (!uv_is_active((uv_handle_t *)&transport->awake))
        uv_idle_start(&transport->awake, nothing_to_do);
}

/* ------------------------------------------------------------------------------------ closing */

static void on_closed(uv_handle_t *handle)
{
    struct stream *stream = (struct stream *)handle;
    struct transport *transport = stream->transport;
    const struct worsegpu_memory *memory = transport->server->memory;
    TAILQ_REMOVE(&transport->streams, stream, link);
    if (stream->connection) {
        connection_destroy(stream->connection);
        transport_keep_awake(transport); /* the server frees what it held */
    }
    if (transport->spare || transport->stopping)
        memory_release_array(memory, stream, 1, sizeof(*stream));
    else
        transport->spare = memset(stream, 0, sizeof(*stream));
    if (transport->stopping && TAILQ_EMPTY(&transport->streams) && transport->stopped) {
        void (*stopped)(void *context) = transport->stopped;
        transport->stopped = NULL;
        stopped(transport->stopped_context);
    }
}

static void close_stream(struct stream *stream)
{
    if (stream->closing)
        return;
    stream->closing = true;
    if (stream->active)
        TAILQ_REMOVE(&stream->transport->active, stream, active_link);
    stream->active = false;
    if (stream->connection)
        subscriptions_end(stream->connection);
    stream_unwatch(stream);
    uv_close((uv_handle_t *)&stream->pipe, on_closed);
}

/* ------------------------------------------------------------------------------------ writing */

static void on_written(uv_write_t *request, int status)
{
    struct stream *stream = request->data;
    connection_give_back(stream->connection, stream->writing, stream->writing_length,
                         stream->writing_capacity);
    stream->writing = NULL;
    if (status < 0)
        close_stream(stream);
    else
        stream_activate(stream);
}

/* Writes what there is: at once as far as the socket takes it, the rest when it can. */
static void flush(struct stream *stream)
{
    size_t length;
    const char *data = connection_output(stream->connection, &length);
    if (length == 0 || stream->writing)
        return;
    uv_buf_t buffer = uv_buf_init((char *)data, (unsigned)length);
    int written = uv_try_write((uv_stream_t *)&stream->pipe, &buffer, 1);
    if (written < 0 && written != UV_EAGAIN) {
        close_stream(stream);
        return;
    }
    size_t done = written < 0 ? 0 : (size_t)written;
    if (done == length) {
        connection_written(stream->connection, done);
        return;
    }
    stream->writing = connection_take_output(stream->connection, &stream->writing_length,
                                             &stream->writing_capacity);
    buffer = uv_buf_init(stream->writing + done, (unsigned)(length - done));
    stream->write.data = stream;
    int status = uv_write(&stream->write, (uv_stream_t *)&stream->pipe, &buffer, 1, on_written);
    if (status < 0) {
        connection_give_back(stream->connection, stream->writing, stream->writing_length,
                             stream->writing_capacity);
        stream->writing = NULL;
        close_stream(stream);
    }
}

/* ------------------------------------------------------------------------------------ reading */

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct transport *transport = ((struct stream *)handle)->transport;
    (void)suggested;
    *buffer = uv_buf_init(transport->read_buffer, TRANSPORT_READ_BYTES);
}

static void on_read(uv_stream_t *handle, ssize_t count, const uv_buf_t *buffer);

static void set_reading(struct stream *stream)
{
    bool wanted = connection_wants_input(stream->connection) && !stream->transport->stopping;
    if (wanted == stream->reading)
        return;
    if (wanted && uv_read_start((uv_stream_t *)&stream->pipe, give_buffer, on_read) != 0) {
        close_stream(stream);
        return;
    }
    if (!wanted)
        uv_read_stop((uv_stream_t *)&stream->pipe);
    stream->reading = wanted;
}

/* Writes a stream's output, ends it if that was all, and sees whether to read on. Whether it needs
 * another turn. */
static bool settle(struct stream *stream)
{
    struct connection *connection = stream->connection;
    flush(stream);
    if (stream->closing)
        return false;
    if (connection_finished(connection)) {
        close_stream(stream);
        return false;
    }
    set_reading(stream);
    if (stream->closing)
        return false;
    stream_watch(stream);
    return connection_wants_turn(connection);
}

/* Leaves a stream's answers unwritten until the end of the turn, or until many have some.
 *
 * A write wakes a client that sleeps, which costs more than the write itself; while the next
 * requests are carried out it reads its answers and sleeps again. Of writes one after the other,
 * most find the client's processor awake: at depth 64 with 50 connections that takes a tenth off
 * the time of each request, and with single requests off p99 (tests/bench/README.md). All at the
 * end of the turn would be worse: then the answers have left the processor's caches. */
static void write_later(struct stream *stream)
{
    struct transport *transport = stream->transport;
    struct stream *before;
    struct stream *next;
    stream_activate(stream);
    if (++transport->unwritten < TRANSPORT_UNWRITTEN_MOST)
        return;
    /* They are the last ones that became active; who was active before waits for the end. */
    stream = TAILQ_LAST(&transport->active, stream_list);
    while (--transport->unwritten > 0 && (before = TAILQ_PREV(stream, stream_list, active_link)))
        stream = before;
    transport->unwritten = 0;
    for (; stream; stream = next) {
        next = TAILQ_NEXT(stream, active_link);
        flush(stream);
    }
}

static void on_read(uv_stream_t *handle, ssize_t count, const uv_buf_t *buffer)
{
    struct stream *stream = (struct stream *)handle;
    struct connection *connection = stream->connection;
    if (count == 0 || stream->closing)
        return;
    if (count < 0) {
        if (count != UV_EOF) {
            close_stream(stream); /* reset: nobody is left to answer */
            return;
        }
        stream->reading = false;
        uv_read_stop(handle);
        connection_end_input(connection);
        stream_activate(stream);
        return;
    }
    connection_receive(connection, buffer->base, (size_t)count, transport_now(stream->transport));
    stream->ran = true;
    /* libuv would read on at once; nothing may be read while lines wait. */
    if (!connection_wants_input(connection)) {
        stream->reading = false;
        uv_read_stop(handle);
    }
    write_later(stream);
}

/* ----------------------------------------------------------------------------------- the turn */

/* Looks after one stream: its next requests, its output, whether to read on. Whether it needs
 * another turn. */
static bool tend(struct stream *stream, struct moment now)
{
    struct connection *connection = stream->connection;
    if (!stream->ran && connection_wants_turn(connection))
        connection_run(connection, now);
    stream->ran = false;
    return settle(stream);
}

/* So that the loop has another turn: after its timers it would sleep first. */
static void on_events_due(uv_timer_t *timer)
{
    transport_keep_awake(timer->data);
}

/* The processor time of this thread. */
static uint64_t cpu_now_ns(void)
{
    struct timespec used = {.tv_sec = 0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/* How long subscribers may be served in this turn. */
static int64_t give_time(struct transport *transport, uint64_t cpu_ns)
{
    uint64_t wall_ns = uv_hrtime();
    uint64_t passed_ns = wall_ns - transport->events_wall_ns;
    uint64_t used_ns = cpu_ns - transport->events_cpu_ns;
    uint64_t idle_ns = passed_ns > used_ns ? passed_ns - used_ns : 0;
    uint64_t earned = (cpu_ns - transport->events_end_ns) / TRANSPORT_EVENTS_SHARE +
                      idle_ns / TRANSPORT_EVENTS_IDLE_SHARE;
    int64_t left = TRANSPORT_EVENTS_MOST_NS;
    if (earned < TRANSPORT_EVENTS_MOST_NS && transport->events_left_ns + (int64_t)earned < left)
        left = transport->events_left_ns + (int64_t)earned;
    transport->events_wall_ns = wall_ns;
    transport->events_cpu_ns = cpu_ns;
    return left;
}

/* Sends events to those who have subscribed.
 *
 * The requests of others must not pay for that, and copying each event to fifty sockets is many
 * times the work of making it. So this gets a share of the time, by the clock and not by any guess
 * of what things cost. With little traffic that is enough for all events; with more, a subscriber
 * is served less often and gets more at a time, which costs less for each event; with more than
 * even that, subscribers fall behind. */
static void push_events(struct transport *transport)
{
    struct server *server = transport->server;
    struct connection *connection;
    uint64_t now_ms = uv_now(transport->loop);
    if (subscriptions_begin_turn(server, now_ms)) {
        uint64_t cpu_ns = cpu_now_ns();
        int64_t left = give_time(transport, cpu_ns);
        while (left > 0 && (connection = subscriptions_serve(server)) != NULL) {
            struct stream *stream = connection->stream;
            flush(stream);
            if (!stream->closing)
                set_reading(stream);
            uint64_t then_ns = cpu_now_ns();
            left -= (int64_t)(then_ns - cpu_ns);
            cpu_ns = then_ns;
        }
        transport->events_end_ns = cpu_ns;
        transport->events_left_ns = left;
    }
    uint64_t rest_ms = subscriptions_rest_ms(server, now_ms);
    if (rest_ms != UINT64_MAX && !uv_is_active((uv_handle_t *)&transport->events))
        uv_timer_start(&transport->events, on_events_due, rest_ms, 0);
}

static void on_turn_end(uv_check_t *check)
{
    struct transport *transport = check->data;
    struct moment now = {0};
    struct stream *stream;
    struct stream_list again;
    if (!TAILQ_EMPTY(&transport->active) || server_must_reap(transport->server))
        now = transport_now(transport);
    TAILQ_INIT(&again);
    transport->unwritten = 0;
    while ((stream = TAILQ_FIRST(&transport->active)) != NULL) {
        TAILQ_REMOVE(&transport->active, stream, active_link);
        stream->active = false;
        if (tend(stream, now)) {
            stream->active = true;
            TAILQ_INSERT_TAIL(&again, stream, active_link);
        }
    }
    TAILQ_CONCAT(&transport->active, &again, active_link);
    deadlines_end_turn(transport);
    /* Also after a `close`: what it ended waits in the graveyard. */
    bool more = server_must_reap(transport->server) && server_reap(transport->server, now);
    if (transport->server->subscriptions.count > 0)
        push_events(transport);
    if (TAILQ_EMPTY(&transport->active) && !more)
        uv_idle_stop(&transport->awake);
    else
        transport_keep_awake(transport);
}

/* ---------------------------------------------------------------------------------- accepting */

/* Why a peer is not let in; false when it is. */
static bool refusal(struct transport *transport, const struct peer *peer, enum error_kind *kind,
                    uint64_t *limit, const char **why)
{
    struct server *server = transport->server;
    *kind = ERROR_LIMIT_EXCEEDED;
    *limit = server->max_connections;
    *why = "the daemon has all the connections it takes; try again later";
    if (server->connections >= server->max_connections)
        return true;
    if (peer->uid == 0)
        return false;
    const struct user *user = users_find(&server->users, peer->uid);
    *limit = server->options->max_connections_per_user;
    *why = "this user has all the connections it may have; close one first";
    return user && user->connections >= *limit;
}

/* One error line for a client that is not let in; it is small enough for any socket's buffer. */
static void send_away(struct stream *stream, enum error_kind kind, uint64_t limit, const char *why)
{
    struct transport *transport = stream->transport;
    struct request nobody = {.id = {.kind = REQUEST_ID_NONE}};
    struct json_writer out;
    struct reply reply;
    size_t capacity = TRANSPORT_MAX_REFUSAL;
    json_writer_init(&out, transport->server->memory, capacity);
    reply_init(&reply, &out, &nobody);
    if (kind == ERROR_LIMIT_EXCEEDED)
        reply_error_u64(&reply, kind, "limit", limit, "%s", why);
    else
        reply_error(&reply, kind, "%s", why);
    if (out.failure == JSON_WRITER_FINE) {
        size_t sent = 0;
        int more = 1;
        while (more > 0 && sent < out.length) {
            uv_buf_t buffer = uv_buf_init(out.data + sent, (unsigned)(out.length - sent));
            more = uv_try_write((uv_stream_t *)&stream->pipe, &buffer, 1);
            sent += more > 0 ? (size_t)more : 0;
        }
    }
    json_writer_release(&out);
    close_stream(stream);
}

static int descriptor_of(const uv_pipe_t *pipe)
{
    uv_os_fd_t descriptor;
    return uv_fileno((const uv_handle_t *)pipe, &descriptor) == 0 ? descriptor : -1;
}

bool transport_can_accept(const struct transport *transport)
{
    return transport->spare != NULL;
}

void transport_accept(struct transport *transport, int descriptor)
{
    struct server *server = transport->server;
    struct stream *stream = memory_allocate_zeroed(server->memory, 1, sizeof(*stream));
    if (!stream) {
        stream = transport->spare; /* it can at least say so */
        transport->spare = NULL;
    }
    stream->transport = transport;
    uv_pipe_init(transport->loop, &stream->pipe, 0);
    TAILQ_INSERT_TAIL(&transport->streams, stream, link);
    if (uv_pipe_open(&stream->pipe, descriptor) != 0) {
        close(descriptor);
        close_stream(stream);
        return;
    }
    struct peer peer = peer_of(descriptor_of(&stream->pipe));
    enum error_kind kind;
    uint64_t limit;
    const char *why;
    if (!refusal(transport, &peer, &kind, &limit, &why)) {
        if (transport->spare && peer_find_rights(&peer, descriptor_of(&stream->pipe), server) == 0)
            stream->connection = connection_create(server, peer, transport_now(transport));
        kind = ERROR_INTERNAL_ERROR;
        why = "the daemon is out of memory; try again later";
    }
    if (!stream->connection) {
        bool full = kind == ERROR_LIMIT_EXCEEDED;
        server->counts.refused[full ? METRICS_REFUSED_FULL : METRICS_REFUSED_POOR]++;
        log_client(server->log, uv_now(transport->loop),
                   "turned away a client (user %u, process %d): %s", (unsigned)peer.uid,
                   (int)peer.pid, why);
        send_away(stream, kind, limit, why);
        return;
    }
    stream->connection->stream = stream;
    set_reading(stream);
}

void transport_options_changed(struct transport *transport)
{
    struct stream *stream;
    TAILQ_FOREACH(stream, &transport->streams, link)
    {
        if (stream->closing || !stream->connection)
            continue;
        struct peer *peer = &stream->connection->peer;
        if (peer_find_rights(peer, descriptor_of(&stream->pipe), transport->server) != 0)
            log_client(transport->server->log, uv_now(transport->loop),
                       "no memory to look at the groups of process %d: it counts as no admin",
                       (int)peer->pid);
        stream_activate(stream);
    }
    deadlines_ring_at(transport, 0); /* a line that is half there may be due earlier now */
    transport_keep_awake(transport);
}

/* -------------------------------------------------------------------------- beginning and end */

int transport_init(struct transport *transport, uv_loop_t *loop, struct server *server)
{
    memset(transport, 0, sizeof(*transport));
    transport->loop = loop;
    transport->server = server;
    TAILQ_INIT(&transport->streams);
    TAILQ_INIT(&transport->active);
    deadlines_init(transport);
    uv_check_init(loop, &transport->turn_end);
    uv_idle_init(loop, &transport->awake);
    uv_timer_init(loop, &transport->events);
    transport->turn_end.data = transport;
    transport->events.data = transport;
    transport->spare = memory_allocate_zeroed(server->memory, 1, sizeof(*transport->spare));
    if (!transport->spare)
        return UV_ENOMEM;
    return uv_check_start(&transport->turn_end, on_turn_end);
}

void transport_stop(struct transport *transport, void (*stopped)(void *context), void *context)
{
    struct stream *stream;
    transport->stopping = true;
    transport->stopped = stopped;
    transport->stopped_context = context;
    TAILQ_FOREACH(stream, &transport->streams, link)
    {
        if (stream->closing || !stream->connection)
            continue;
        connection_end_input(stream->connection);
        connection_hurry(stream->connection);
        stream_activate(stream);
    }
    transport_keep_awake(transport);
    if (TAILQ_EMPTY(&transport->streams) && transport->stopped) {
        transport->stopped = NULL;
        stopped(context);
    }
}

void transport_abort(struct transport *transport)
{
    struct stream *stream;
    TAILQ_FOREACH(stream, &transport->streams, link)
    {
        close_stream(stream);
    }
}

void transport_close(struct transport *transport)
{
    memory_release_array(transport->server->memory, transport->spare, 1, sizeof(*transport->spare));
    transport->spare = NULL;
    uv_close((uv_handle_t *)&transport->turn_end, NULL);
    uv_close((uv_handle_t *)&transport->awake, NULL);
    uv_close((uv_handle_t *)&transport->deadline, NULL);
    uv_close((uv_handle_t *)&transport->events, NULL);
}
