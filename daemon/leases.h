/* Who holds what: a lease ties a live allocation to the connection that made it.
 *
 * A lease lives exactly as long as its allocation: the engine keeps a pointer to it as the
 * allocation's owner. A holding is all that one connection holds in one allocator, in the order in
 * which it was made (so lowest id first), with an index of its tags. When a connection ends, its
 * holdings outlive it for as long as it takes to free what is in them. */
#ifndef LEASES_H
#define LEASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <bsd/sys/tree.h>

#include "daemon/users.h"
#include "lib/worsegpu.h"

struct holding;
struct hosted;

struct lease {
    TAILQ_ENTRY(lease) link; /* in its holding */
    RB_ENTRY(lease) by_tag;  /* in its holding's tags, when it has a tag */
    struct holding *holding; /* NULL once it is detached from a connection that ended */
    struct worsegpu_handle handle;
    const char *tag; /* the engine's copy; NULL for none, or once the connection has ended */
    size_t tag_bytes;
    uint64_t client;      /* the connection's number */
    uid_t uid;            /* and its user */
    bool detached;        /* it outlives the connection */
    struct charge charge; /* what its user pays for it */
};

TAILQ_HEAD(lease_list, lease);
RB_HEAD(lease_tags, lease);

struct holding {
    TAILQ_ENTRY(holding) link;
    struct hosted *hosted;
    uint64_t client;
    struct account *account; /* its connection's; NULL once that has ended */
    struct account held;     /* what is in it, a part of that account */
    struct lease_list leases;
    struct lease_tags tags;
};

TAILQ_HEAD(holding_list, holding);

void holding_init(struct holding *holding, struct hosted *hosted, uint64_t client,
                  struct account *account);

/* It belongs to no connection any more: what is in it leaves the connection's account at once. */
void holding_orphan(struct holding *holding);

/* Enters a lease for a new allocation and charges its connection and its user. The tag, if any,
 * must not be in the holding. */
void lease_enter(struct lease *lease, struct holding *holding,
                 const struct worsegpu_allocation *allocation, struct user *user, bool detached);

/* Takes it out of its holding, if it is in one, and out of its connection's account. A detached one
 * lives on without it, still charged to its user: lease_pool_give ends that. */
void lease_leave(struct lease *lease);

/* The lease with this tag, or NULL. O(log n). */
struct lease *holding_find_tag(struct holding *holding, const char *tag, size_t tag_bytes);

#endif
