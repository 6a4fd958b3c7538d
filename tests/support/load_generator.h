/* One client program that loads any server of lines: many connections, each with a batch of
 * requests in flight, in one thread with epoll.
 *
 * What it does for a request is the same whatever it talks to, so that its own cost falls on every
 * server alike: it sends bytes made beforehand and counts the line ends of what comes back. Only
 * freeing by handle needs a look into the answers. Ends the program when something fails
 * (bench_client.h). */
#ifndef LOAD_GENERATOR_H
#define LOAD_GENERATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/support/load_histogram.h"

enum {
    LOAD_MOST_DEPTH = 64
};

/* What is asked for. */
enum load_kind {
    LOAD_BY_TAG,    /* worsegpud: allocate with a tag, free by that tag */
    LOAD_BY_HANDLE, /* worsegpud: allocate, free by the handle that came back */
    LOAD_INCR,      /* redis: INCR of one counter */
    LOAD_ECHO       /* the requests of LOAD_BY_TAG to somebody who sends them back */
};

struct load_connection;

struct load {
    enum load_kind kind;
    pid_t server;
    size_t depth;
    size_t connection_count;
    struct load_connection *connections;
    int epoll;
};

/* What a run came to. */
struct load_result {
    uint64_t requests;
    double seconds;
    double server_cpu_seconds;
    struct load_histogram latency; /* from sending a batch until the last answer to it is there */
};

/* Connects to the server at `path`. */
void load_open(struct load *load, enum load_kind kind, const char *path, pid_t server,
               size_t connections, size_t depth);
void load_close(struct load *load);

/* Loads it for so long, and with so many requests at least, each connection sending its next batch
 * as soon as the last one is answered. */
void load_run(struct load *load, double seconds, uint64_t least, struct load_result *result);

/* Loads it with so many requests a second in all, the connections taking turns; depth 1. */
void load_run_at_rate(struct load *load, double seconds, double per_second,
                      struct load_result *result);

#endif
