/* Which allocators there are, and who owns them.
 *
 * A hosted allocator is an engine's allocator with its name. Shared ones live as long as the
 * daemon; a private one belongs to a connection. An ended one waits in the server's graveyard until
 * its leases have been given back, a piece each turn of the loop, so that a million of them stall
 * nobody. */
#ifndef ALLOCATORS_H
#define ALLOCATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "daemon/lease_pool.h"
#include "daemon/leases.h"
#include "proto/json_writer.h"

enum {
    ALLOCATOR_NAME_SIZE = 65
};

struct hosted {
    TAILQ_ENTRY(hosted) link;
    worsegpu_allocator *engine;
    struct holding holding; /* of a private one: all that is in it */
    bool shared;
    uint64_t host_capacity; /* bytes of its host pool; 0: no limit */
    bool seed_is_text;      /* how the seed is shown: as it was given */
    char name[ALLOCATOR_NAME_SIZE];
};

TAILQ_HEAD(hosted_list, hosted);

/* Makes one. What worsegpu_create answers; *hosted is NULL unless that is WORSEGPU_OK. `name` has 1
 * to 64 bytes. `client` and `account` are the owner's; 0 and NULL make a shared one. */
int hosted_create(const struct worsegpu_memory *memory, const char *name, size_t name_bytes,
                  uint64_t client, struct account *account, const struct worsegpu_config *config,
                  struct hosted **hosted);

/* Ends it at once with all leases on it. NULL is fine. */
void hosted_destroy(const struct worsegpu_memory *memory, struct lease_pool *leases,
                    struct hosted *hosted);

/* Gives back at most `budget` leases of a private one that has ended, so that hosted_destroy has
 * little left to do; how many there were. Nothing else may be done with it from then on. */
size_t hosted_drain(struct lease_pool *leases, struct hosted *hosted, size_t budget);

struct hosted *hosted_find(struct hosted_list *list, const char *name, size_t name_bytes);

/* Writes its name and configuration as members of the object that is open. */
void hosted_write(const struct hosted *hosted, struct json_writer *out);

#endif
