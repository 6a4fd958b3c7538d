/* Who has events sent as they happen.
 *
 * A subscription is one connection's wish for the events of one allocator. It remembers the last
 * sequence it was sent and reads on from there in the allocator's own trace, so that whoever reads
 * slowly costs no memory: it falls behind, and when events it has not got are dropped it is told
 * how many. It lives until it is taken back, its allocator is closed or its connection ends.
 *
 * A subscription that has everything is idle and looked at only when its allocator has news; one
 * whose connection has no room is parked until some of its output has been written; the others wait
 * in one queue and are served in turn. An event is written as JSON once for all subscribers of the
 * same user: pages keep the newest lines ready to be copied.
 *
 * Most of what an event costs is the write to a socket, not its bytes. So the subscribers of a
 * shared allocator who have everything are woken for news at most once in SUBSCRIPTIONS_REST_MS:
 * one event alone goes out at once, a stream of them goes out in batches, and all get the same
 * batch.
 *
 * Nothing here knows how much of this a turn may do: whoever calls subscriptions_serve stops when
 * it has been enough. */
#ifndef SUBSCRIPTIONS_H
#define SUBSCRIPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/worsegpu_memory.h"

struct connection;
struct hosted;
struct server;
struct subscription;
struct subscription_topic;
struct subscription_page;

TAILQ_HEAD(subscription_list, subscription);
TAILQ_HEAD(subscription_topics, subscription_topic);

enum {
    SUBSCRIPTIONS_PAGES = 16, /* of lines ready to be copied, for all allocators and users */
    SUBSCRIPTIONS_PAGE_BYTES = 16384,   /* in each */
    SUBSCRIPTIONS_MOST_AT_ONCE = 65536, /* bytes for one subscription before the next is served */
    SUBSCRIPTIONS_REST_MS = 10, /* between two wake-ups of the subscribers of a shared allocator */
    SUBSCRIPTIONS_LONGEST_LINE = 1280 /* an event with all around it, its tag escaped */
};

struct subscriptions {
    const struct worsegpu_memory *memory;
    size_t count;                      /* subscriptions there are */
    struct subscription_topics topics; /* shared allocators that have any */
    struct subscription_list waiting;  /* to be served, in turn */
    bool poor;                         /* there was no memory: nothing more in this turn */
    uint64_t page_clock;
    struct subscription_page *pages[SUBSCRIPTIONS_PAGES]; /* NULL: not needed so far */
};

void subscriptions_init(struct subscriptions *subscriptions, const struct worsegpu_memory *memory);

/* Gives back what is left once all connections have ended. */
void subscriptions_release(struct subscriptions *subscriptions);

/* Subscribes a connection to an allocator, from the event after `after` on; where it has subscribed
 * before, that starts anew. 0, or -1 without memory: then nothing has changed. */
int subscriptions_add(struct connection *connection, struct hosted *hosted, uint64_t after);

/* Ends a subscription. false when there is none. */
bool subscriptions_remove(struct connection *connection, const struct hosted *hosted);

/* Ends all of a connection. */
void subscriptions_end(struct connection *connection);

/* Some of a connection's requests have been carried out: looks whether its private allocators have
 * news. */
void subscriptions_look_at_private(struct connection *connection);

/* Some of a connection's output has been written. */
void subscriptions_drained(struct connection *connection);

/* Looks whether the shared allocators have news; once a turn, before subscriptions_serve. Whether
 * anybody is to be served. */
bool subscriptions_begin_turn(struct server *server, uint64_t now_ms);

/* Appends events to the output of the connection whose turn it is, which is to be written then.
 * NULL when nobody is left, or there is no memory in this turn. */
struct connection *subscriptions_serve(struct server *server);

/* In how many milliseconds another turn is wanted, if nothing else brings one before; UINT64_MAX:
 * none. */
uint64_t subscriptions_rest_ms(const struct server *server, uint64_t now_ms);

#endif
