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
    bool force_host; /* a rule wants the allocation on the host */
    bool forget;     /* a rule wants the block forgotten */
    uint64_t cost;   /* in requests, starts at 1; raised by what walks something long */
    struct reply reply;
};

typedef const struct answered *(*handler)(struct call *call);

/* Whether the peer may change this allocator: one that is its own, or any as an admin. NULL: all.
 */
bool call_may_change(const struct call *call, const struct hosted *hosted);

/* The answer to who may not. */
const struct answered *call_not_admin(struct call *call);

/* Whether one more item of a page fits below the hard limit of the output: a page that is too long
 * is cut short, and `more` says so. */
bool call_fits(const struct call *call);

/* Makes room for an answer that shows a whole configuration, before anything changes. */
bool call_reserve_for_config(const struct call *call, const struct worsegpu_config *config);

/* One for each method; which file holds it is said there. */
#define METHOD(name, summary, result) const struct answered *handle_##name(struct call *call);
#include "proto/methods.def"

/* Whether the connection's user may see the allocation of a lease: its own, root everybody's. In
 * handlers.c. */
bool may_see_lease(const struct connection *connection, const struct lease *lease);

/* Writes an event as the peer may see it. In handlers.c. */
void write_event(const struct server *server, const struct peer *peer,
                 const struct worsegpu_event *event, struct json_writer *out);

/* The handler of a method. */
handler handler_of(enum method method);

#endif
