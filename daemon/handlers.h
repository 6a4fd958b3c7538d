/* What each method does. A handler gets a call whose parameters are of the right form, asks the
 * engine, and answers. */
#ifndef HANDLERS_H
#define HANDLERS_H

#include "daemon/connection.h"
#include "daemon/reply.h"

enum {
    CALL_WALKED_PER_REQUEST =
        4096 /* blocks, allocations or events that cost as much as one request */
};

struct call {
    struct server *server;
    struct connection *connection;
    const struct request *request;
    struct hosted *hosted; /* the allocator it is about, where the method has one */
    struct moment now;
    uint64_t cost; /* in requests, starts at 1; raised by what walks something long */
    struct reply reply;
};

typedef const struct answered *(*handler)(struct call *call);

/* The handler of a method. */
handler handler_of(enum method method);

#endif
