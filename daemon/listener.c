/* The listening socket; see listener.h. */
#include "daemon/listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include "daemon/reply.h"
#include "daemon/socket_file.h"

static void on_connection(uv_stream_t *stream, int status)
{
    struct listener *listener = stream->data;
    if (status == 0)
        transport_accept(listener->transport, stream);
}

int listener_start(struct listener *listener, uv_loop_t *loop, int descriptor,
                   struct transport *transport)
{
    listener->transport = transport;
    uv_pipe_init(loop, &listener->pipe, 0);
    listener->pipe.data = listener;
    int status = uv_pipe_open(&listener->pipe, descriptor);
    if (status == 0)
        status = uv_listen((uv_stream_t *)&listener->pipe, SOCKET_BACKLOG, on_connection);
    return status;
}

/* One line for each client that waits, as far as memory allows. */
static void send_queue_away(const struct listener *listener, int descriptor)
{
    struct request nobody = {.id = {.kind = REQUEST_ID_NONE}};
    struct json_writer out;
    struct reply reply;
    int client;
    json_writer_init(&out, listener->transport->server->memory, TRANSPORT_MAX_REFUSAL);
    reply_init(&reply, &out, &nobody);
    reply_error(&reply, ERROR_SHUTTING_DOWN, "the daemon is stopping");
    while ((client = accept4(descriptor, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        if (out.failure == JSON_WRITER_FINE)
            send(client, out.data, out.length, MSG_NOSIGNAL);
        close(client);
    }
    json_writer_release(&out);
}

void listener_stop(struct listener *listener)
{
    uv_os_fd_t descriptor;
    if (uv_is_closing((uv_handle_t *)&listener->pipe))
        return;
    if (uv_fileno((uv_handle_t *)&listener->pipe, &descriptor) == 0)
        send_queue_away(listener, descriptor);
    uv_close((uv_handle_t *)&listener->pipe, NULL);
}
