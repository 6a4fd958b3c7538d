/* What a service manager is told, and what it hands over; see service.h. */
#include "daemon/service.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "base/bytes_text.h"

/* ------------------------------------------------------------------------------ the socket */

/* The path of a socket in the file system. false when it has none. */
static bool path_of(int descriptor, char path[SOCKET_PATH_SIZE])
{
    struct sockaddr_un address;
    socklen_t length = sizeof(address);
    memset(&address, 0, sizeof(address));
    if (getsockname(descriptor, (struct sockaddr *)&address, &length) != 0 ||
        address.sun_family != AF_UNIX || address.sun_path[0] == '\0')
        return false;
    snprintf(path, SOCKET_PATH_SIZE, "%.*s", (int)sizeof(address.sun_path), address.sun_path);
    return true;
}

enum service_socket service_take_socket(struct socket_file *file, const char *wish,
                                        char message[SOCKET_MESSAGE_SIZE])
{
    file->descriptor = -1;
    file->lock = -1;
    int count = sd_listen_fds(1);
    if (count == 0)
        return SERVICE_SOCKET_NONE;
    if (count < 0) {
        snprintf(message, SOCKET_MESSAGE_SIZE, "cannot take the sockets that were handed over: %s",
                 strerror(-count));
        return SERVICE_SOCKET_WRONG;
    }
    if (count != 1) {
        snprintf(message, SOCKET_MESSAGE_SIZE,
                 "%d sockets were handed over; one is wanted: leave one ListenStream= in the "
                 "socket unit",
                 count);
        return SERVICE_SOCKET_WRONG;
    }
    int descriptor = SD_LISTEN_FDS_START;
    if (sd_is_socket(descriptor, AF_UNIX, SOCK_STREAM, 1) <= 0 ||
        !path_of(descriptor, file->path)) {
        snprintf(message, SOCKET_MESSAGE_SIZE,
                 "what was handed over is no listening Unix stream socket with a path: use "
                 "ListenStream=/a/path in the socket unit");
        return SERVICE_SOCKET_WRONG;
    }
    if (*wish && strcmp(wish, file->path) != 0) {
        snprintf(message, SOCKET_MESSAGE_SIZE,
                 "the socket that was handed over is %s, but --socket says %.100s; leave --socket "
                 "out",
                 file->path, wish);
        return SERVICE_SOCKET_WRONG;
    }
    file->descriptor = descriptor;
    return SERVICE_SOCKET_TAKEN;
}

/* ------------------------------------------------------------------------------ words */

void service_describe(const struct server *server, char text[SERVICE_STATUS_SIZE])
{
    uint64_t live = 0;
    uint64_t used = 0;
    uint64_t capacity = 0;
    const struct hosted *hosted;
    TAILQ_FOREACH(hosted, &server->shared, link)
    {
        struct worsegpu_snapshot snapshot;
        worsegpu_snapshot(hosted->engine, &snapshot);
        live += snapshot.active_allocations;
        used += snapshot.gpu_used;
        capacity += snapshot.gpu_capacity;
    }
    char used_text[BYTES_TEXT_SIZE];
    char capacity_text[BYTES_TEXT_SIZE];
    bytes_to_text(used, false, used_text);
    bytes_to_text(capacity, false, capacity_text);
    snprintf(text, SERVICE_STATUS_SIZE,
             "%" PRIu64 " client%s, %" PRIu64 " live allocation%s, %s of %s used",
             server->connections, server->connections == 1 ? "" : "s", live, live == 1 ? "" : "s",
             used_text, capacity_text);
}

/* A socket of which the manager has the other end, that never blocks. -1 when there is none. */
static int open_manager(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t length = path ? strlen(path) : 0;
    if (length < 2 || length >= sizeof(address.sun_path) || (*path != '/' && *path != '@'))
        return -1;
    memcpy(address.sun_path, path, length);
    if (*path == '@')
        address.sun_path[0] = '\0'; /* a name that is in no folder */
    int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        return -1;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    if (connect(descriptor, (const struct sockaddr *)&address, size) == 0)
        return descriptor;
    close(descriptor);
    return -1;
}

/* Sends what a manager wants to hear. sd_notify(3) would wait for ever for one that does not listen
 * any more; we wait so long at most. Whether it was sent. */
static bool tell(const char *words, int wait_ms)
{
    int descriptor = open_manager();
    if (descriptor < 0)
        return false;
    struct pollfd room = {.fd = descriptor, .events = POLLOUT};
    ssize_t length = (ssize_t)strlen(words);
    ssize_t sent = -1;
    for (int tries = 0; tries < SERVICE_TRIES && sent < 0; tries++) {
        sent = send(descriptor, words, (size_t)length, MSG_NOSIGNAL);
        bool again = sent < 0 && (errno == EINTR || errno == EAGAIN);
        if (!again || (errno == EAGAIN && poll(&room, 1, wait_ms) <= 0))
            break;
    }
    close(descriptor);
    return sent == length;
}

static const char ready[] = "READY=1";

/* Sends the status line where it has changed. */
static void send_status(struct service *service)
{
    static const char name[] = "STATUS=";
    char words[sizeof(name) + SERVICE_STATUS_SIZE];
    char *status = words + sizeof(name) - 1;
    memcpy(words, name, sizeof(name));
    service_describe(service->server, status);
    if (strcmp(status, service->status) != 0 && tell(words, 0))
        memcpy(service->status, status, sizeof(service->status));
}

static void on_status(uv_timer_t *timer)
{
    struct service *service = timer->data;
    if (!service->ready)
        service->ready = tell(ready, 0);
    send_status(service);
}

static void on_watchdog(uv_timer_t *timer)
{
    (void)timer;
    tell("WATCHDOG=1", 0);
}

void service_init(struct service *service, uv_loop_t *loop, const struct server *server)
{
    uint64_t watchdog_us = 0;
    memset(service, 0, sizeof(*service));
    service->server = server;
    service->notifies = getenv("NOTIFY_SOCKET") != NULL;
    tell("STATUS=starting", SERVICE_WAIT_MS);
    if (sd_watchdog_enabled(0, &watchdog_us) > 0)
        service->watchdog_ms = watchdog_us / 2000 > 0 ? watchdog_us / 2000 : 1;
    uv_timer_init(loop, &service->watchdog);
    uv_timer_init(loop, &service->status_timer);
    service->status_timer.data = service;
}

void service_ready(struct service *service)
{
    if (!service->notifies)
        return;
    service->ready = tell(ready, SERVICE_WAIT_MS);
    send_status(service);
    uv_timer_start(&service->status_timer, on_status, SERVICE_STATUS_MS, SERVICE_STATUS_MS);
    if (service->watchdog_ms > 0)
        uv_timer_start(&service->watchdog, on_watchdog, 0, service->watchdog_ms);
}

void service_reloading(struct service *service)
{
    char words[64];
    if (!service->notifies)
        return;
    snprintf(words, sizeof(words), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, uv_hrtime() / 1000);
    tell(words, SERVICE_WAIT_MS);
}

void service_reloaded(struct service *service)
{
    if (!service->notifies)
        return;
    service->ready = tell(ready, SERVICE_WAIT_MS);
    send_status(service);
}

void service_stopping(struct service *service)
{
    if (!service->notifies)
        return;
    uv_timer_stop(&service->status_timer);
    tell("STOPPING=1\nSTATUS=stopping", SERVICE_WAIT_MS);
}

void service_close(struct service *service)
{
    uv_close((uv_handle_t *)&service->watchdog, NULL);
    uv_close((uv_handle_t *)&service->status_timer, NULL);
}
