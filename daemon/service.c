/* What a service manager is told, and what it hands over; see service.h. */
#include "daemon/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

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

/* Sends the status line where it has changed. */
static void send_status(struct service *service)
{
    char status[SERVICE_STATUS_SIZE];
    service_describe(service->server, status);
    if (strcmp(status, service->status) == 0)
        return;
    memcpy(service->status, status, sizeof(status));
    sd_notifyf(0, "STATUS=%s", status);
}

static void on_status(uv_timer_t *timer)
{
    send_status(timer->data);
}

static void on_watchdog(uv_timer_t *timer)
{
    (void)timer;
    sd_notify(0, "WATCHDOG=1");
}

void service_init(struct service *service, uv_loop_t *loop, const struct server *server)
{
    uint64_t watchdog_us = 0;
    memset(service, 0, sizeof(*service));
    service->server = server;
    service->notifies = sd_notify(0, "STATUS=starting") > 0;
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
    sd_notify(0, "READY=1");
    send_status(service);
    uv_timer_start(&service->status_timer, on_status, SERVICE_STATUS_MS, SERVICE_STATUS_MS);
    if (service->watchdog_ms > 0)
        uv_timer_start(&service->watchdog, on_watchdog, 0, service->watchdog_ms);
}

void service_reloading(struct service *service)
{
    if (service->notifies)
        sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, uv_hrtime() / 1000);
}

void service_reloaded(struct service *service)
{
    if (!service->notifies)
        return;
    sd_notify(0, "READY=1");
    send_status(service);
}

void service_stopping(struct service *service)
{
    if (!service->notifies)
        return;
    uv_timer_stop(&service->status_timer);
    sd_notify(0, "STOPPING=1\nSTATUS=stopping");
}

void service_close(struct service *service)
{
    uv_close((uv_handle_t *)&service->watchdog, NULL);
    uv_close((uv_handle_t *)&service->status_timer, NULL);
}
