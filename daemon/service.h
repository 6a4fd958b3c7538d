/* Under a service manager: a socket handed over, word given of what happens, a watchdog fed.
 *
 * The manager is spoken to over $NOTIFY_SOCKET (sd_notify(3)); without one all of this does
 * nothing. The watchdog is fed by a timer of the loop itself, so that a loop that stands still is a
 * daemon that is restarted. The status line is what `systemctl status` shows; it is sent when it
 * changes, at most once a SERVICE_STATUS_MS. A manager that has stopped listening holds nothing up.
 * Lives as long as the daemon. */
#ifndef SERVICE_H
#define SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "daemon/server.h"
#include "daemon/socket_file.h"

enum {
    SERVICE_STATUS_MS = 1000,
    SERVICE_WAIT_MS = 500, /* for a manager whose queue is full, with what it must hear */
    SERVICE_TRIES = 8,     /* when others take the room, or a signal comes */
    SERVICE_STATUS_SIZE = 256
};

struct service {
    const struct server *server;
    bool notifies;        /* somebody listens */
    bool ready;           /* and has been told that it is ready */
    uint64_t watchdog_ms; /* how often it is fed, half of what the manager waits; 0: never */
    uv_timer_t watchdog;
    uv_timer_t status_timer;
    char status[SERVICE_STATUS_SIZE]; /* as sent last */
};

enum service_socket {
    SERVICE_SOCKET_NONE,  /* nothing was handed over: make one */
    SERVICE_SOCKET_TAKEN, /* `file` has it; it is not ours to remove */
    SERVICE_SOCKET_WRONG  /* `message` says what is wrong with what was handed over */
};

/* Takes the socket that the manager listens on for us (sd_listen_fds(3)), if there is one. `wish`
 * is the path that the options ask for, "" for none: another one than the manager's is wrong. */
enum service_socket service_take_socket(struct socket_file *file, const char *wish,
                                        char message[SOCKET_MESSAGE_SIZE]);

/* The timers; says nothing yet. */
void service_init(struct service *service, uv_loop_t *loop, const struct server *server);

/* It serves: "ready", the first status, and the watchdog from now on. */
void service_ready(struct service *service);

/* The configuration is read again, and has been. */
void service_reloading(struct service *service);
void service_reloaded(struct service *service);

/* It stops: "stopping"; the watchdog is still fed until service_close, which lets the loop end. */
void service_stopping(struct service *service);
void service_close(struct service *service);

/* Clients, live allocations, what is used of the GPUs: one line. */
void service_describe(const struct server *server, char text[SERVICE_STATUS_SIZE]);

#endif
