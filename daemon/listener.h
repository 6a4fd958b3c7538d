/* The listening socket: hands each new client to the transport. Lives from start to the beginning
 * of the stop. */
#ifndef LISTENER_H
#define LISTENER_H

#include <uv.h>

#include "daemon/transport.h"

struct listener {
    uv_pipe_t pipe;
    struct transport *transport;
};

/* Takes over a descriptor that is bound and listening. 0 or a libuv error. */
int listener_start(struct listener *listener, uv_loop_t *loop, int descriptor,
                   struct transport *transport);

/* Lets nobody in any more; those who wait in the queue are told that the daemon is stopping. */
void listener_stop(struct listener *listener);

#endif
