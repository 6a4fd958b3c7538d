/* The byte and allocation limits of a connection, its user, and an allocator's host pool: asked by
 * the engine when it is known where an allocation would go and what it would take. */
#ifndef QUOTA_H
#define QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/options.h"
#include "daemon/users.h"
#include "lib/worsegpu.h"

struct quota {
    const struct options *options;
    const struct account *client;
    const struct account *user;
    uint64_t host_capacity; /* of the allocator; 0: no limit */
    uint64_t host_used;
    /* After a refusal: which limit, what it is, how much of it is taken. */
    const char *which;
    uint64_t limit;
    uint64_t used;
};

/* Whether any limit is set at all: without one nobody need be asked. */
bool quota_applies(const struct quota *quota);

/* A worsegpu_admit with a quota as its context. */
bool quota_admit(void *context, enum worsegpu_device device, uint64_t reserved_bytes);

#endif
