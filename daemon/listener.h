/* The listening socket: hands each new client to the transport. Lives from start to the beginning
 * of the stop.
 *
 * It takes clients itself instead of having libuv do it: where accepting fails and goes on failing,
 * because descriptors or memory are used up, libuv would try again and again within one turn of the
 * loop, or take clients only to drop them. Here those who wait go on waiting, and everybody else is
 * served. */
#ifndef LISTENER_H
#define LISTENER_H

#include <stdbool.h>

#include <uv.h>

#include "daemon/transport.h"

enum {
    LISTENER_CLIENTS_A_TURN = 64,
    LISTENER_REST_MS = 20 /* before it tries again what has just failed */
};

struct listener {
    uv_poll_t poll; /* tells when clients wait */
    uv_timer_t rest;
    int descriptor;
    bool open;
    int told; /* the failure that the log knows of; 0 for none */
    struct transport *transport;
};

/* Takes over a descriptor that is bound and listening. 0 or a libuv error, also then it is taken
 * over. */
int listener_start(struct listener *listener, uv_loop_t *loop, int descriptor,
                   struct transport *transport);

/* Lets nobody in any more; those who wait in the queue are told that the daemon is stopping. May be
 * called again, and when it never started. */
void listener_stop(struct listener *listener);

#endif
