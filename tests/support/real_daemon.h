/* A real worsegpud for integration tests: started in a room, asked by raw clients, stopped.
 *
 * A daemon belongs to its room (real_process.h) and is killed with it when it still lives. */
#ifndef REAL_DAEMON_H
#define REAL_DAEMON_H

#include <stdint.h>

#include "tests/support/real_client.h"
#include "tests/support/real_process.h"

struct real_daemon {
    struct real_room *room;
    struct real_process *process;
    const char *socket_path;
};

/* How a daemon knows its path: from --socket, or from what surrounds it. */
enum real_daemon_path {
    REAL_DAEMON_TOLD,
    REAL_DAEMON_FINDS
};

/* Starts $WORSEGPU_BUILD/worsegpud with options, the last one NULL, on a socket in the room's
 * folder, and waits until it answers. */
__attribute__((sentinel)) struct real_daemon real_daemon_start(struct real_room *room, ...);

/* The same with its surroundings, at a path of the caller's choice. */
__attribute__((sentinel)) struct real_daemon real_daemon_start_at(struct real_room *room,
                                                                  const struct real_setup *setup,
                                                                  enum real_daemon_path how,
                                                                  const char *socket_path, ...);

/* As real_daemon_start, with the options in a list. */
struct real_daemon real_daemon_start_list(struct real_room *room, const char *const *options);

/* Another client of it. */
struct real_client *real_daemon_connect(const struct real_daemon *daemon);

/* What it has written to stderr so far. */
const char *real_daemon_log(const struct real_daemon *daemon);

/* Ends it with SIGTERM; its status must be 0 and the socket gone. */
void real_daemon_stop(struct real_daemon *daemon);

/* Whether the daemon was built with a sanitizer, whose memory and speed tell nothing. */
bool real_daemon_is_sanitized(void);

#endif
