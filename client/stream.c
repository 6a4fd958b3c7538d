/* Bytes to the daemon and back. Never waits for writing alone: whoever waits also reads, so the two
 * sides cannot both stand with full buffers. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/memory.h"
#include "client/client_state.h"

enum {
    READ_BYTES = 64 * 1024 /* room made for one reading */
};

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

struct client_deadline client_deadline_start(const worsegpu_client *client)
{
    struct client_deadline deadline = {.never = client->timeout_ms == 0};
    if (!deadline.never && __builtin_add_overflow(now_ms(), client->timeout_ms, &deadline.at_ms))
        deadline.at_ms = UINT64_MAX;
    return deadline;
}

/* Milliseconds for poll; -1 for ever, 0 when it is over. */
static int remaining_ms(struct client_deadline deadline)
{
    if (deadline.never)
        return -1;
    uint64_t now = now_ms();
    if (now >= deadline.at_ms)
        return 0;
    uint64_t left = deadline.at_ms - now;
    return left > INT_MAX ? INT_MAX : (int)left;
}

void client_stream_release(worsegpu_client *client)
{
    memory_release_array(client->memory, client->in.data, client->in.capacity, 1);
}

size_t worsegpu_client_unsent(const worsegpu_client *client)
{
    return client->out.length - client->sent;
}

static size_t held_bytes(const worsegpu_client *client)
{
    return client->in.end - client->in.start;
}

/* Drops what is sent from the front of `out` once that is worth the moving. */
static void forget_sent(worsegpu_client *client)
{
    size_t left = worsegpu_client_unsent(client);
    if (client->sent == 0 || (left > 0 && client->sent < client->out.length / 2))
        return;
    memmove(client->out.data, client->out.data + client->sent, left);
    json_writer_cut(&client->out, left);
    client->sent = 0;
}

/* The connection is gone for sending: what was queued will never be heard. */
static void end_sending(worsegpu_client *client)
{
    client->send_ended = true;
    json_writer_cut(&client->out, 0);
    client->sent = 0;
}

static void send_some(worsegpu_client *client)
{
    if (client->send_ended)
        end_sending(client);
    while (!client->send_ended && worsegpu_client_unsent(client) > 0) {
        ssize_t count = send(client->descriptor, client->out.data + client->sent,
                             worsegpu_client_unsent(client), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0) {
            client->sent += (size_t)count;
            continue;
        }
        if (errno == EAGAIN)
            break;
        if (errno != EINTR)
            end_sending(client);
    }
    forget_sent(client);
}

/* Makes room for one reading. 0, or -1 with nothing changed. */
static int make_room(worsegpu_client *client)
{
    struct client_input *in = &client->in;
    if (in->start == in->end)
        in->start = in->scanned = in->end = 0;
    if (in->capacity - in->end >= READ_BYTES)
        return 0;
    if (in->start > 0 &&
        in->start >= in->end - in->start) { /* moving is cheap: at least half has been taken */
        memmove(in->data, in->data + in->start, in->end - in->start);
        in->scanned -= in->start;
        in->end -= in->start;
        in->start = 0;
    }
    return memory_grow(client->memory, &in->data, &in->capacity, in->end + READ_BYTES, 1);
}

/* Reads what is there. *count is how many bytes. */
static int read_some(worsegpu_client *client, size_t *count, struct worsegpu_client_error *error)
{
    *count = 0;
    while (!client->receive_ended && held_bytes(client) < WORSEGPU_CLIENT_MAX_HELD_BYTES) {
        /* The last answer lies in the buffer that may move now. */
        client->result = NULL;
        client->result_item = NULL;
        if (make_room(client) < 0)
            return client_error_no_memory(error);
        struct client_input *in = &client->in;
        size_t room = in->capacity - in->end;
        ssize_t got = recv(client->descriptor, in->data + in->end, room, MSG_DONTWAIT);
        if (got > 0) {
            in->end += (size_t)got;
            *count += (size_t)got;
            if ((size_t)got < room)
                break;
        } else if (got < 0 && errno == EAGAIN) {
            break;
        } else if (got == 0 || errno != EINTR) {
            client->receive_ended = true;
        }
    }
    return WORSEGPU_CLIENT_OK;
}

int client_stream_advance(worsegpu_client *client, struct worsegpu_client_error *error)
{
    size_t count;
    send_some(client);
    int status = read_some(client, &count, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    if (client->receive_ended && count == 0)
        return client_error_set(error, WORSEGPU_CLIENT_CLOSED, "the daemon closed the connection");
    return WORSEGPU_CLIENT_OK;
}

/* Waits until something can be sent or read. */
static int wait_for_any(worsegpu_client *client, struct client_deadline deadline,
                        struct worsegpu_client_error *error)
{
    for (;;) {
        short events = held_bytes(client) < WORSEGPU_CLIENT_MAX_HELD_BYTES ? POLLIN : 0;
        if (worsegpu_client_unsent(client) > 0)
            events = (short)(events | POLLOUT);
        struct pollfd waiting = {.fd = client->descriptor, .events = events};
        int count = poll(&waiting, 1, remaining_ms(deadline));
        if (count > 0)
            return WORSEGPU_CLIENT_OK;
        if (count == 0)
            return client_error_set(error, WORSEGPU_CLIENT_TIMEOUT, "no answer within %.6g seconds",
                                    (double)client->timeout_ms / 1000.0);
        if (errno != EINTR)
            return client_error_set(error, WORSEGPU_CLIENT_CLOSED,
                                    "cannot wait for the socket (%s)", client_error_system(errno));
    }
}

int client_stream_flush(worsegpu_client *client, struct client_deadline deadline,
                        struct worsegpu_client_error *error)
{
    for (;;) {
        send_some(client);
        if (client->send_ended)
            return client_error_set(error, WORSEGPU_CLIENT_CLOSED,
                                    "the daemon closed the connection");
        if (worsegpu_client_unsent(client) == 0)
            return WORSEGPU_CLIENT_OK;
        size_t count;
        int status = read_some(client, &count, error);
        if (status != WORSEGPU_CLIENT_OK)
            return status;
        if (client->receive_ended) {
            end_sending(client);
            continue;
        }
        if (held_bytes(client) >= WORSEGPU_CLIENT_MAX_HELD_BYTES)
            return client_error_set(error, WORSEGPU_CLIENT_BUSY,
                                    "%zu bytes of answers wait to be received", held_bytes(client));
        status = wait_for_any(client, deadline, error);
        if (status != WORSEGPU_CLIENT_OK)
            return status;
    }
}

int client_stream_peek(worsegpu_client *client, const char **line, size_t *length,
                       struct worsegpu_client_error *error)
{
    struct client_input *in = &client->in;
    *line = NULL;
    *length = 0;
    const char *end =
        in->scanned < in->end ? memchr(in->data + in->scanned, '\n', in->end - in->scanned) : NULL;
    in->scanned = end ? (size_t)(end - in->data) : in->end;
    size_t bytes = in->scanned - in->start;
    if (bytes > WORSEGPU_CLIENT_MAX_REPLY_BYTES) {
        client->broken = WORSEGPU_CLIENT_BAD_REPLY;
        return client_error_set(error, WORSEGPU_CLIENT_BAD_REPLY,
                                "an answer is longer than %zu bytes",
                                WORSEGPU_CLIENT_MAX_REPLY_BYTES);
    }
    if (end) {
        *line = in->data + in->start;
        *length = bytes;
    }
    return WORSEGPU_CLIENT_OK;
}

void client_stream_take(worsegpu_client *client, size_t length)
{
    client->in.start += length + 1;
    client->in.scanned = client->in.start;
}

int client_stream_line(worsegpu_client *client, struct client_deadline deadline, const char **line,
                       size_t *length, struct worsegpu_client_error *error)
{
    for (;;) {
        send_some(client);
        int status = client_stream_peek(client, line, length, error);
        if (status != WORSEGPU_CLIENT_OK || *line)
            return status;
        size_t count;
        status = read_some(client, &count, error);
        if (status != WORSEGPU_CLIENT_OK)
            return status;
        if (count > 0)
            continue;
        if (client->receive_ended)
            return client_error_set(error, WORSEGPU_CLIENT_CLOSED,
                                    worsegpu_client_ended_inside_line(client)
                                        ? "the daemon closed the connection inside an answer"
                                        : "the daemon closed the connection without an answer");
        status = wait_for_any(client, deadline, error);
        if (status != WORSEGPU_CLIENT_OK)
            return status;
    }
}

bool worsegpu_client_has_ended(const worsegpu_client *client)
{
    return client->receive_ended;
}

bool worsegpu_client_ended_inside_line(const worsegpu_client *client)
{
    return client->receive_ended && held_bytes(client) > 0 &&
           client->in.data[client->in.end - 1] != '\n';
}
