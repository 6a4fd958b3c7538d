/* The listening socket; see listener.h. */
#include "daemon/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/reply.h"
#include "daemon/socket_file.h"

/* Says once that nobody can come in, and once that it goes on. */
static void tell(struct listener *listener, int problem)
{
    struct log *log = listener->transport->server->log;
    if (problem == listener->told)
        return;
    listener->told = problem;
    if (problem)
        log_write(log, LOG_LEVEL_WARNING, "cannot take new clients: %s; they wait",
                  uv_strerror(problem));
    else
        log_write(log, LOG_LEVEL_INFO, "new clients are taken again");
}

static void on_clients(uv_poll_t *poll, int status, int events);

static int listen_on(struct listener *listener)
{
    return uv_poll_start(&listener->poll, UV_READABLE, on_clients);
}

static void on_rested(uv_timer_t *timer)
{
    listen_on(timer->data);
}

static void rest(struct listener *listener)
{
    uv_poll_stop(&listener->poll);
    uv_timer_start(&listener->rest, on_rested, LISTENER_REST_MS, 0);
}

/* Whether the kernel will watch a client for us: libuv does not ask, but ends the process when it
 * will not. 0 or a libuv error. */
static int watch_once(const uv_loop_t *loop, int client)
{
    struct epoll_event nothing = {.events = 0};
    int poll = uv_backend_fd(loop);
    if (epoll_ctl(poll, EPOLL_CTL_ADD, client, &nothing) != 0 ||
        epoll_ctl(poll, EPOLL_CTL_DEL, client, &nothing) != 0)
        return uv_translate_sys_error(errno);
    return 0;
}

static void on_clients(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = poll->data;
    (void)events;
    int problem = status;
    for (int count = 0; count < LISTENER_CLIENTS_A_TURN && problem == 0; count++) {
        if (!transport_can_accept(listener->transport)) {
            rest(listener);
            return;
        }
        int client = accept4(listener->descriptor, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (client >= 0) {
            problem = watch_once(poll->loop, client);
            if (problem) {
                close(client);
                continue;
            }
            tell(listener, 0);
            transport_accept(listener->transport, client);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            problem = uv_translate_sys_error(errno);
        }
    }
    if (problem == 0)
        return; /* the others come in the next turn */
    tell(listener, problem);
    rest(listener);
}

/* Whether a client could have a descriptor now: without a single one nobody is ever served. */
static int look_for_room(int descriptor)
{
    int another = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (another < 0)
        return uv_translate_sys_error(errno);
    close(another);
    return 0;
}

int listener_start(struct listener *listener, uv_loop_t *loop, int descriptor,
                   struct transport *transport)
{
    listener->transport = transport;
    listener->descriptor = descriptor;
    int status = look_for_room(descriptor);
    if (status == 0)
        status = uv_poll_init(loop, &listener->poll, descriptor);
    if (status != 0) {
        close(descriptor);
        return status;
    }
    uv_timer_init(loop, &listener->rest);
    listener->poll.data = listener;
    listener->rest.data = listener;
    listener->open = true;
    return listen_on(listener);
}

/* All of it, or as much as goes without waiting. */
static void send_line(int client, const char *line, size_t length)
{
    ssize_t count;
    while (length > 0 && (count = send(client, line, length, MSG_NOSIGNAL)) > 0) {
        line += count;
        length -= (size_t)count;
    }
}

/* One line for each client that waits, as far as memory allows. */
static void send_queue_away(const struct listener *listener)
{
    struct request nobody = {.id = {.kind = REQUEST_ID_NONE}};
    struct json_writer out;
    struct reply reply;
    int client;
    json_writer_init(&out, listener->transport->server->memory, TRANSPORT_MAX_REFUSAL);
    reply_init(&reply, &out, &nobody);
    reply_error(&reply, ERROR_SHUTTING_DOWN, "the daemon is stopping");
    while ((client = accept4(listener->descriptor, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >=
           0) {
        if (out.failure == JSON_WRITER_FINE)
            send_line(client, out.data, out.length);
        close(client);
    }
    json_writer_release(&out);
}

void listener_stop(struct listener *listener)
{
    if (!listener->open)
        return;
    listener->open = false;
    send_queue_away(listener);
    uv_close((uv_handle_t *)&listener->poll, NULL);
    uv_close((uv_handle_t *)&listener->rest, NULL);
    close(listener->descriptor);
}
