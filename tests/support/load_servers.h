/* The servers that a load is put on: worsegpud, redis-server, and an echo. Each is a process of its
 * own on a Unix socket, ended with load_server_stop. */
#ifndef LOAD_SERVERS_H
#define LOAD_SERVERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/support/load_generator.h"

enum {
    LOAD_PATH_SIZE = 160
};

struct load_server {
    const char *name;
    enum load_kind kind;
    pid_t pid;
    char path[LOAD_PATH_SIZE];
};

/* Lets this process and those it starts open so many files as far as that is allowed; how many that
 * are. */
uint64_t load_raise_open_files(uint64_t wanted);

/* $WORSEGPU_BUILD/worsegpud (default build) with limits out of the way and the same seed always;
 * `options` are more of its options, the last one NULL. */
struct load_server load_start_daemon(const char *name, enum load_kind kind, const char *folder,
                                     const char *const *options);

/* redis-server without persistence; false when there is no such program. */
bool load_start_redis(const char *folder, struct load_server *server);

/* A loop of libuv that sends back what it gets, from one shared buffer, without a copy: what is
 * left of a server when it does nothing. In a process forked off this one: no loop may have been
 * made before. */
struct load_server load_start_echo(const char *folder);

/* Waits until it answers, with somebody connected and gone again. */
void load_wait_for(const struct load_server *server);

void load_server_stop(struct load_server *server);

/* The memory of a process that is nobody else's, in bytes. */
uint64_t load_server_memory(const struct load_server *server);

/* A process that subscribes to all events of a daemon and reads them for ever; kill it at the end.
 */
pid_t load_start_subscriber(const struct load_server *server);

#endif
