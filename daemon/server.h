/* What all connections share: the allocators, the decoder, the limits, and the dead whose
 * belongings are still being freed. Knows no descriptor, no clock and no loop: time comes as a
 * parameter. One for each daemon, from start to end. */
#ifndef SERVER_H
#define SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/allocators.h"
#include "daemon/lease_pool.h"
#include "daemon/log.h"
#include "daemon/memory_budget.h"
#include "daemon/metrics_counts.h"
#include "daemon/options.h"
#include "daemon/rules.h"
#include "daemon/spare_buffers.h"
#include "daemon/subscriptions.h"
#include "daemon/users.h"
#include "proto/request.h"

/* One reading of the clocks. */
struct moment {
    uint64_t wall_us;      /* since the epoch, for events only */
    uint64_t monotonic_ms; /* for timeouts and uptime */
};

enum {
    REAP_PER_TURN = 4096 /* allocations of ended connections freed in one turn of the loop */
};

struct connection;
RB_HEAD(client_tree, connection);

struct server {
    const struct options *options;
    const struct worsegpu_memory *memory;
    const struct memory_budget *budget; /* where the memory comes from; NULL: not told */
    struct log *log;
    struct metrics_counts counts;
    struct request_decoder decoder;
    struct lease_pool leases;
    struct users users;
    struct rules rules;
    struct subscriptions subscriptions;
    struct client_tree clients; /* the connections, by number */
    struct hosted_list shared;
    struct hosted_list graveyard; /* private allocators that have ended */
    struct holding_list endings;  /* what ended connections still hold in shared ones */
    struct spare_buffers spares;  /* for answers */
    struct moment started;
    bool trace_visible_to_all;
    uid_t uid;                /* the daemon's own user, who may do what root may */
    int64_t pid;              /* shown by info */
    uint64_t next_connection; /* numbers from 1 */
    uint64_t connections;     /* open now */
    uint64_t max_connections; /* the option, or less where descriptors are few */
};

/* Makes it with the shared allocators of the options, which it looks at as long as it lives.
 * WORSEGPU_OK, or what worsegpu_create answers; `message` then says why, in one line. */
int server_init(struct server *server, const struct options *options,
                const struct worsegpu_memory *memory, struct log *log, struct moment now,
                char *message, size_t message_size);
void server_release(struct server *server);

/* Takes from the options what it keeps of them: at the start, and when they have changed. */
void server_follow_options(struct server *server);

/* Frees at most REAP_PER_TURN allocations of those that have ended, oldest ending first and lowest
 * id first in each. Whether there is more. */
bool server_reap(struct server *server, struct moment now);

/* Whether something has ended that is not freed yet: server_reap is to be called once a turn. */
bool server_must_reap(const struct server *server);

/* The engine's configuration as far as the daemon's options describe it: the start for the shared
 * allocators, and for what `open` changes. */
void server_config(const struct server *server, struct worsegpu_config *config);

/* Checks a configuration: WORSEGPU_OK, or WORSEGPU_INVALID_ARGUMENT with *field naming the member
 * that is wrong, and a message that says what it must be. */
int server_check_config(const struct worsegpu_config *config, const char **field, char *message,
                        size_t message_size);

#endif
