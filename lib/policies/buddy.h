/* The binary buddy system. See buddy.c. */
#ifndef POLICIES_BUDDY_H
#define POLICIES_BUDDY_H

#include "lib/blocks/blocks.h"
#include "lib/blocks/class_lists.h"
#include "lib/policy.h"

extern const struct policy_operations policy_buddy;

/* Open to the tests that break it. */
struct buddy_policy {
    struct policy policy;
    const struct worsegpu_memory *memory;
    const struct worsegpu_config *config;
    uint64_t minimum_bytes;
    uint64_t bytes;            /* of the range: less than the least block may be left over */
    uint32_t last;             /* the block at its end; BLOCK_NONE: there is no block at all */
    struct blocks blocks;      /* one segment */
    struct class_lists orders; /* free blocks of 2^class bytes */
};

#endif
