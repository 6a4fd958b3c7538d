/* Streams and connections; see transport.h. */
#include "daemon/transport.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/memory.h"
#include "daemon/reply.h"

struct stream {
    uv_pipe_t pipe; /* first: libuv gives it back to us */
    uv_write_t write;
    TAILQ_ENTRY(stream) link;
    TAILQ_ENTRY(stream) active_link;
    TAILQ_ENTRY(stream) line_link;
    struct transport *transport;
    struct connection *connection;
    char *writing; /* the buffer of a write under way */
    size_t writing_length;
    size_t writing_capacity;
    bool active;
    bool watched; /* in the list of lines half there */
    bool reading;
    bool ran; /* has had its turn already */
    bool closing;
};

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

/* Has the loop look after a stream at the end of this turn. */
static void activate(struct stream *stream)
{
    if (stream->active || stream->closing)
        return;
    stream->active = true;
    TAILQ_INSERT_TAIL(&stream->transport->active, stream, active_link);
}

static void keep_awake(struct transport *transport)
{
    if (!uv_is_active((uv_handle_t *)&transport->awake))
        uv_idle_start(&transport->awake, nothing_to_do);
}

/* ------------------------------------------------------------------------------------ closing */

static void unwatch(struct stream *stream)
{
    if (stream->watched)
        TAILQ_REMOVE(&stream->transport->in_line, stream, line_link);
    stream->watched = false;
}

/* The spare stream is back: a client may be waiting for it. */
static void keep_spare(struct transport *transport, struct stream *stream)
{
    uv_stream_t *waiting = transport->waiting;
    memset(stream, 0, sizeof(*stream));
    transport->spare = stream;
    transport->waiting = NULL;
    if (waiting)
        transport_accept(transport, waiting);
}

static void on_closed(uv_handle_t *handle)
{
    struct stream *stream = (struct stream *)handle;
    struct transport *transport = stream->transport;
    const struct worsegpu_memory *memory = transport->server->memory;
    TAILQ_REMOVE(&transport->streams, stream, link);
    if (stream->connection) {
        connection_destroy(stream->connection);
        keep_awake(transport); /* the server frees what it held */
    }
    if (transport->spare || transport->stopping)
        memory_release_array(memory, stream, 1, sizeof(*stream));
    else
        keep_spare(transport, stream);
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
    unwatch(stream);
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
        activate(stream);
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

static void on_read(uv_stream_t *handle, ssize_t count, const uv_buf_t *buffer)
{
    struct stream *stream = (struct stream *)handle;
    if (count == 0 || stream->closing)
        return;
    if (count < 0) {
        if (count != UV_EOF) {
            close_stream(stream); /* reset: nobody is left to answer */
            return;
        }
        stream->reading = false;
        uv_read_stop(handle);
        connection_end_input(stream->connection);
    } else {
        connection_receive(stream->connection, buffer->base, (size_t)count,
                           transport_now(stream->transport));
        stream->ran = true;
        /* libuv would read on at once; nothing may be read while lines wait. */
        if (!connection_wants_input(stream->connection)) {
            stream->reading = false;
            uv_read_stop(handle);
        }
    }
    activate(stream);
}

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

/* ----------------------------------------------------------------------- lines that do not end */

static void on_deadline(uv_timer_t *timer);

/* Sets the timer for the oldest line half there. */
static void set_deadline(struct transport *transport)
{
    struct stream *oldest = TAILQ_FIRST(&transport->in_line);
    if (!oldest) {
        uv_timer_stop(&transport->deadline);
        return;
    }
    uint64_t due = connection_deadline_ms(oldest->connection);
    if (uv_is_active((uv_handle_t *)&transport->deadline) && transport->deadline_at_ms <= due)
        return; /* it rings early enough; then it is set anew */
    uint64_t now = uv_now(transport->loop);
    transport->deadline_at_ms = due;
    uv_timer_start(&transport->deadline, on_deadline, due > now ? due - now : 0, 0);
}

static void watch(struct stream *stream)
{
    bool in_line = connection_deadline_ms(stream->connection) != UINT64_MAX;
    if (in_line == stream->watched)
        return;
    if (in_line) {
        TAILQ_INSERT_TAIL(&stream->transport->in_line, stream, line_link);
        stream->watched = true;
        set_deadline(stream->transport);
    } else {
        unwatch(stream);
    }
}

static void on_deadline(uv_timer_t *timer)
{
    struct transport *transport = timer->data;
    struct moment now = transport_now(transport);
    struct stream *stream;
    while ((stream = TAILQ_FIRST(&transport->in_line)) != NULL &&
           connection_deadline_ms(stream->connection) <= now.monotonic_ms) {
        unwatch(stream);
        connection_expire(stream->connection, now);
        activate(stream);
    }
    set_deadline(transport);
    keep_awake(transport);
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
    watch(stream);
    return connection_wants_turn(connection);
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
    while ((stream = TAILQ_FIRST(&transport->active)) != NULL) {
        TAILQ_REMOVE(&transport->active, stream, active_link);
        stream->active = false;
        if (tend(stream, now)) {
            stream->active = true;
            TAILQ_INSERT_TAIL(&again, stream, active_link);
        }
    }
    TAILQ_CONCAT(&transport->active, &again, active_link);
    /* Also after a `close`: what it ended waits in the graveyard. */
    bool more = server_must_reap(transport->server) && server_reap(transport->server, now);
    if (TAILQ_EMPTY(&transport->active) && !more)
        uv_idle_stop(&transport->awake);
    else
        keep_awake(transport);
}

/* ---------------------------------------------------------------------------------- accepting */

/* Why a peer is not let in; false when it is. */
static bool refusal(struct transport *transport, const struct peer *peer, enum error_kind *kind,
                    uint64_t *limit, const char **why)
{
    const struct server *server = transport->server;
    const struct stream *stream;
    uint64_t of_user = 0;
    *kind = ERROR_LIMIT_EXCEEDED;
    *limit = server->max_connections;
    *why = "the daemon has all the connections it takes; try again later";
    if (server->connections >= server->max_connections)
        return true;
    if (peer->uid == 0)
        return false;
    TAILQ_FOREACH(stream, &transport->streams, link)
    {
        of_user +=
            stream->connection && !stream->closing && stream->connection->peer.uid == peer->uid;
    }
    *limit = server->options->max_connections_per_user;
    *why = "this user has all the connections it may have; close one first";
    return of_user >= *limit;
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
        uv_buf_t buffer = uv_buf_init(out.data, (unsigned)out.length);
        uv_try_write((uv_stream_t *)&stream->pipe, &buffer, 1);
    }
    json_writer_release(&out);
    close_stream(stream);
}

static struct peer peer_of(const uv_pipe_t *pipe)
{
    struct ucred credentials = {.pid = 0, .uid = (uid_t)-1, .gid = (gid_t)-1};
    socklen_t length = sizeof(credentials);
    uv_os_fd_t descriptor;
    if (uv_fileno((const uv_handle_t *)pipe, &descriptor) == 0)
        getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &length);
    return (struct peer){.uid = credentials.uid, .gid = credentials.gid, .pid = credentials.pid};
}

void transport_accept(struct transport *transport, uv_stream_t *listening)
{
    struct server *server = transport->server;
    struct stream *stream = memory_allocate_zeroed(server->memory, 1, sizeof(*stream));
    if (!stream) {
        /* The spare one can at least say so. While it is in use the client waits in the queue. */
        stream = transport->spare;
        transport->spare = NULL;
        transport->waiting = stream ? NULL : listening;
        if (!stream)
            return;
    }
    stream->transport = transport;
    uv_pipe_init(transport->loop, &stream->pipe, 0);
    TAILQ_INSERT_TAIL(&transport->streams, stream, link);
    if (uv_accept(listening, (uv_stream_t *)&stream->pipe) != 0) {
        close_stream(stream);
        return;
    }
    struct peer peer = peer_of(&stream->pipe);
    enum error_kind kind;
    uint64_t limit;
    const char *why;
    if (!refusal(transport, &peer, &kind, &limit, &why)) {
        stream->connection = transport->spare ? connection_create(server, peer) : NULL;
        kind = ERROR_INTERNAL_ERROR;
        why = "the daemon is out of memory; try again later";
    }
    if (!stream->connection) {
        log_client(server->log, uv_now(transport->loop),
                   "turned away a client (user %u, process %d): %s", (unsigned)peer.uid,
                   (int)peer.pid, why);
        send_away(stream, kind, limit, why);
        return;
    }
    set_reading(stream);
}

/* -------------------------------------------------------------------------- beginning and end */

int transport_init(struct transport *transport, uv_loop_t *loop, struct server *server)
{
    memset(transport, 0, sizeof(*transport));
    transport->loop = loop;
    transport->server = server;
    TAILQ_INIT(&transport->streams);
    TAILQ_INIT(&transport->active);
    TAILQ_INIT(&transport->in_line);
    uv_check_init(loop, &transport->turn_end);
    uv_idle_init(loop, &transport->awake);
    uv_timer_init(loop, &transport->deadline);
    transport->turn_end.data = transport;
    transport->deadline.data = transport;
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
        activate(stream);
    }
    keep_awake(transport);
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
}
