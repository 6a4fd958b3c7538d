/* The client program of the benches; see load_generator.h. */
#include "tests/support/load_generator.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/bench_client.h"

enum {
    MOST_LINE = 160,
    MOST_HANDLE = 64,
    EVENTS_AT_ONCE = 64
};

struct load_connection {
    int socket;
    size_t waiting;    /* answers that have not come yet */
    uint64_t since_ns; /* when their batch was sent */
    bool freeing;      /* by handle: the batch in flight frees what the last one allocated */
    size_t handle_count;
    char (*handles)[MOST_HANDLE];
    char *batch; /* what is sent; with two halves to take turns where depth is 1 */
    size_t first_length;
    size_t length;
    size_t number;
    char *unread; /* by handle: the beginning of an answer that was cut off */
    size_t unread_length;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---------------------------------------------------------------------------------- requests */

static size_t write_request(const struct load *load, const struct load_connection *connection,
                            size_t number, char *line)
{
    const char *format = "";
    switch (load->kind) {
    case LOAD_INCR:
        return (size_t)snprintf(line, MOST_LINE, "*2\r\n$4\r\nINCR\r\n$7\r\ncounter\r\n");
    case LOAD_BY_HANDLE:
        if (connection->freeing)
            return (size_t)snprintf(line, MOST_LINE,
                                    "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"method\":\"free\","
                                    "\"params\":{\"handle\":\"%s\"}}\n",
                                    number, connection->handles[number]);
        return (size_t)snprintf(line, MOST_LINE,
                                "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"method\":\"allocate\","
                                "\"params\":{\"requested_bytes\":4096}}\n",
                                number);
    case LOAD_BY_TAG:
    case LOAD_ECHO:
        format = number % 2 == 0
                     ? "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"method\":\"allocate\",\"params\":"
                       "{\"requested_bytes\":4096,\"tag\":\"t%zu\"}}\n"
                     : "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"method\":\"free\",\"params\":"
                       "{\"tag\":\"t%zu\"}}\n";
        break;
    }
    return (size_t)snprintf(line, MOST_LINE, format, number, number / 2);
}

static void write_batch(const struct load *load, struct load_connection *connection)
{
    size_t requests = load->depth == 1 && load->kind != LOAD_BY_HANDLE ? 2 : load->depth;
    connection->length = 0;
    for (size_t number = 0; number < requests; number++) {
        connection->length +=
            write_request(load, connection, number, connection->batch + connection->length);
        if (number == 0)
            connection->first_length = connection->length;
    }
}

static void send_batch(const struct load *load, struct load_connection *connection)
{
    const char *from = connection->batch;
    size_t length = connection->length;
    if (load->kind == LOAD_BY_HANDLE) {
        write_batch(load, connection);
        length = connection->length;
    } else if (load->depth == 1) {
        bool second = connection->number++ % 2 == 1;
        from += second ? connection->first_length : 0;
        length = second ? length - connection->first_length : connection->first_length;
    }
    connection->waiting = load->depth;
    connection->since_ns = now_ns();
    bench_send(connection->socket, from, length);
}

/* ----------------------------------------------------------------------------------- answers */

static void keep_handles(struct load_connection *connection, const char *bytes, size_t length)
{
    static const char key[] = "\"handle\":\"";
    const char *end = bytes + length;
    for (const char *at = bytes; (at = memmem(at, (size_t)(end - at), key, sizeof(key) - 1));) {
        at += sizeof(key) - 1;
        const char *quote = memchr(at, '"', (size_t)(end - at));
        if (!quote || quote - at >= MOST_HANDLE || connection->handle_count == LOAD_MOST_DEPTH)
            bench_fail("a handle that is none");
        size_t size = (size_t)(quote - at);
        memcpy(connection->handles[connection->handle_count], at, size);
        connection->handles[connection->handle_count++][size] = '\0';
    }
}

enum {
    BUFFER_BYTES = 65536
};

/* Reads what has come. Whether the batch is answered. */
static bool take_answers(const struct load *load, struct load_connection *connection)
{
    static char buffer[2 * BUFFER_BYTES];
    size_t kept = connection->unread_length;
    memcpy(buffer, connection->unread, kept);
    ssize_t got = recv(connection->socket, buffer + kept, BUFFER_BYTES, 0);
    if (got <= 0)
        bench_fail("recv");
    const char *end = buffer + kept + got;
    const char *after_last = buffer;
    size_t lines = 0;
    for (const char *at = buffer + kept; (at = memchr(at, '\n', (size_t)(end - at))); at++) {
        lines++;
        after_last = at + 1;
    }
    if (lines > connection->waiting)
        bench_fail("more answers than requests");
    connection->waiting -= lines;
    if (load->kind == LOAD_BY_HANDLE) {
        if (!connection->freeing)
            keep_handles(connection, buffer, (size_t)(after_last - buffer));
        connection->unread_length = (size_t)(end - after_last);
        if (connection->unread_length > BUFFER_BYTES)
            bench_fail("an answer without end");
        memcpy(connection->unread, after_last, connection->unread_length);
    }
    if (connection->waiting > 0)
        return false;
    if (memmem(buffer, (size_t)(end - buffer), "\"error\"", 7))
        bench_fail("an error came back");
    if (load->kind == LOAD_BY_HANDLE) {
        connection->freeing = !connection->freeing;
        if (!connection->freeing)
            connection->handle_count = 0;
    }
    return true;
}

/* ------------------------------------------------------------------------- beginning and end */

static void *take(size_t count, size_t size)
{
    void *taken = calloc(count, size);
    if (!taken)
        bench_fail("memory");
    return taken;
}

void load_open(struct load *load, enum load_kind kind, const char *path, pid_t server,
               size_t connections, size_t depth)
{
    *load = (struct load){
        .kind = kind, .server = server, .depth = depth, .connection_count = connections};
    load->connections = take(connections, sizeof(*load->connections));
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (load->epoll < 0)
        bench_fail("epoll_create1");
    for (size_t index = 0; index < connections; index++) {
        struct load_connection *connection = &load->connections[index];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        connection->socket = bench_connect(path);
        connection->batch = take(depth + 1, MOST_LINE);
        if (kind == LOAD_BY_HANDLE) {
            connection->handles = take(LOAD_MOST_DEPTH, MOST_HANDLE);
            connection->unread = take(1, BUFFER_BYTES);
        }
        write_batch(load, connection);
        if (epoll_ctl(load->epoll, EPOLL_CTL_ADD, connection->socket, &event) != 0)
            bench_fail("epoll_ctl");
    }
}

void load_close(struct load *load)
{
    for (size_t index = 0; index < load->connection_count; index++) {
        struct load_connection *connection = &load->connections[index];
        close(connection->socket);
        free(connection->batch);
        free(connection->handles);
        free(connection->unread);
    }
    free(load->connections);
    close(load->epoll);
}

/* --------------------------------------------------------------------------------------- runs */

/* Takes the answers that come within `timeout_ms`. Each batch that is answered is noted, and
 * followed by the next one if `again`. How many batches are answered. */
static size_t turn(struct load *load, int timeout_ms, bool again, struct load_result *result)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    size_t answered = 0;
    int count = epoll_wait(load->epoll, events, EVENTS_AT_ONCE, timeout_ms);
    if (count < 0 && errno != EINTR)
        bench_fail("epoll_wait");
    for (int index = 0; index < count; index++) {
        struct load_connection *connection = events[index].data.ptr;
        if (!take_answers(load, connection))
            continue;
        load_histogram_add(&result->latency, now_ns() - connection->since_ns, load->depth);
        result->requests += load->depth;
        answered++;
        if (again)
            send_batch(load, connection);
    }
    return answered;
}

void load_run(struct load *load, double seconds, uint64_t least, struct load_result *result)
{
    size_t in_flight = load->connection_count;
    memset(result, 0, sizeof(*result));
    double cpu = bench_cpu_seconds(load->server);
    double start = bench_seconds_now();
    for (size_t index = 0; index < load->connection_count; index++)
        send_batch(load, &load->connections[index]);
    while (bench_seconds_now() - start < seconds || result->requests < least)
        turn(load, -1, true, result);
    while (in_flight > 0)
        in_flight -= turn(load, -1, false, result);
    result->seconds = bench_seconds_now() - start;
    result->server_cpu_seconds = bench_cpu_seconds(load->server) - cpu;
}

void load_run_at_rate(struct load *load, double seconds, double per_second,
                      struct load_result *result)
{
    size_t in_flight = 0;
    uint64_t sent = 0;
    memset(result, 0, sizeof(*result));
    double cpu = bench_cpu_seconds(load->server);
    double start = bench_seconds_now();
    double passed = 0;
    while (passed < seconds) {
        while ((double)sent < passed * per_second) {
            struct load_connection *next = &load->connections[sent % load->connection_count];
            if (next->waiting > 0)
                break; /* the server is behind by a whole round */
            send_batch(load, next);
            in_flight++;
            sent++;
        }
        in_flight -= turn(load, in_flight ? 0 : 1, false, result);
        passed = bench_seconds_now() - start;
    }
    while (in_flight > 0)
        in_flight -= turn(load, -1, false, result);
    result->seconds = bench_seconds_now() - start;
    result->server_cpu_seconds = bench_cpu_seconds(load->server) - cpu;
}
