/* Every request a call of the driver. See driver.c. */
#ifndef POLICIES_DRIVER_H
#define POLICIES_DRIVER_H

#include "lib/blocks/block_order.h"
#include "lib/blocks/blocks.h"
#include "lib/blocks/device.h"
#include "lib/policy.h"

extern const struct policy_operations policy_driver;

/* Open to the tests that break it. */
struct driver_policy {
    struct policy policy;
    const struct worsegpu_memory *memory;
    uint64_t granularity;
    uint64_t small_limit; /* requests up to it share granules; 0: none do */
    struct device device;
    struct blocks blocks; /* each piece of the device is a segment */
    struct block_nodes nodes;
    struct block_order free_parts; /* of shared granules, by offset; the weight is the size */
    uint64_t shared_granules;
};

#endif
