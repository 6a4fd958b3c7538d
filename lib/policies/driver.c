/* driver: no allocator at all, every request is a cudaMalloc and every free a cudaFree.
 *
 * After what is known of the driver from outside (gpu-allocators.md, section A7, which names
 * PyTorch's pull request 17120): memory is given in granules of 2 MiB, offsets are multiples of 256
 * at least, requests of more than 1 MiB get granules of their own, smaller ones share some. Which
 * one of several places the driver takes is not known. Here a small request, rounded up to 256
 * bytes, goes to the lowest address in a shared granule where it fits, or into a new one; freed
 * neighbours merge, and a granule goes back with its last request. Others take the lowest address
 * where their granules fit.
 *
 * The bytes of the device are the limit; addresses do not run out, so that offsets may lie above
 * the capacity: memory of a device that has pages is not fragmented by others' addresses. Each
 * operation is O(log n). An alignment that a request asks for is had up to the granularity.
 *
 * A new granule is taken before the caller's limits are asked, since only the device knows whether
 * it has one, and goes back when they say no. */
#include "lib/policies/driver.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/memory.h"
#include "lib/statistics.h"

enum {
    SMALL_ALIGNMENT = 256
};
enum {
    KNOB_GRANULARITY,
    KNOB_SHARE_SMALL,
    KNOB_SMALL_LIMIT,
    KNOBS
};

static struct driver_policy *mine(struct policy *policy)
{
    return (struct driver_policy *)policy;
}

static const struct driver_policy *mine_to_read(const struct policy *policy)
{
    return (const struct driver_policy *)policy;
}

/* Rounded up to a multiple; false when that is no number. */
static bool round_up(uint64_t bytes, uint64_t multiple, uint64_t *rounded)
{
    uint64_t over = bytes % multiple;
    return !__builtin_add_overflow(bytes, over ? multiple - over : 0, rounded);
}

/* ------------------------------------------------------------------------------ life */

static int driver_create(const struct policy_setup *setup, struct policy **policy)
{
    struct driver_policy *driver = memory_allocate_zeroed(setup->memory, 1, sizeof(*driver));
    if (!driver)
        return WORSEGPU_NO_MEMORY;
    driver->policy.operations = &policy_driver;
    driver->memory = setup->memory;
    driver->granularity = setup->knobs[KNOB_GRANULARITY].count;
    uint64_t small_limit = setup->knobs[KNOB_SMALL_LIMIT].count;
    if (small_limit > driver->granularity)
        small_limit = driver->granularity;
    driver->small_limit = setup->knobs[KNOB_SHARE_SMALL].count != 0 ? small_limit : 0;
    device_init(&driver->device, setup, DEVICE_LOWEST, DEVICE_LIMIT_BYTES, driver->granularity);
    blocks_init(&driver->blocks, setup->memory);
    block_nodes_init(&driver->nodes, setup->memory);
    driver->free_parts = block_order_empty();
    *policy = &driver->policy;
    return WORSEGPU_OK;
}

static void driver_destroy(struct policy *policy)
{
    struct driver_policy *driver = mine(policy);
    block_nodes_release(&driver->nodes);
    blocks_release(&driver->blocks);
    device_release(&driver->device);
    memory_release_array(driver->memory, driver, 1, sizeof(*driver));
}

static bool driver_knobs_fit(const struct knob_value *values, const struct worsegpu_config *config,
                             char problem[KNOBS_PROBLEM_SIZE])
{
    (void)config;
    uint64_t granularity = values[KNOB_GRANULARITY].count;
    if (granularity % SMALL_ALIGNMENT == 0)
        return true;
    snprintf(problem, KNOBS_PROBLEM_SIZE,
             "granularity must be a multiple of %d, and %" PRIu64 " is none", SMALL_ALIGNMENT,
             granularity);
    return false;
}

/* ------------------------------------------------------------------------------ place */

static int reserve(struct driver_policy *driver)
{
    if (blocks_reserve(&driver->blocks, 2) != WORSEGPU_OK ||
        block_nodes_reserve(&driver->nodes, driver->blocks.capacity) != WORSEGPU_OK)
        return WORSEGPU_NO_MEMORY;
    return device_reserve_memory(&driver->device);
}

static void hand_out(struct driver_policy *driver, uint32_t block, struct policy_outcome *outcome)
{
    blocks_set_state(&driver->blocks, block, BLOCK_USED);
    struct block *item = blocks_at(&driver->blocks, block);
    outcome->placement = (struct policy_placement){
        .reserved_bytes = item->bytes,
        .offset = item->offset,
        .block_index = block,
        .cookie = block,
    };
}

/* A piece of the device, of which `bytes` are for this request. POLICY_PLACED with its block, all
 * of the piece, which is free; or why there is none. */
static int take_piece(struct driver_policy *driver, const struct policy_request *request,
                      uint64_t piece_bytes, uint64_t bytes, uint32_t *block)
{
    uint64_t offset;
    if (device_take(&driver->device, DEVICE_REGION, piece_bytes, &offset) != 0)
        return POLICY_FULL;
    if (!policy_admits(request, bytes)) {
        device_give_back(&driver->device, DEVICE_REGION_FREE, offset, piece_bytes);
        return POLICY_NOT_ADMITTED;
    }
    *block = blocks_add(&driver->blocks, offset, piece_bytes, BLOCK_FREE);
    return POLICY_PLACED;
}

static int place_large(struct driver_policy *driver, const struct policy_request *request,
                       struct policy_outcome *outcome)
{
    uint64_t bytes;
    if (!round_up(request->requested_bytes, driver->granularity, &bytes))
        return POLICY_FULL;
    uint32_t block;
    int verdict = take_piece(driver, request, bytes, bytes, &block);
    if (verdict == POLICY_PLACED)
        hand_out(driver, block, outcome);
    return verdict;
}

static int place_small(struct driver_policy *driver, const struct policy_request *request,
                       struct policy_outcome *outcome)
{
    struct blocks *blocks = &driver->blocks;
    struct block_order *parts = &driver->free_parts;
    uint64_t bytes;
    if (!round_up(request->requested_bytes, SMALL_ALIGNMENT, &bytes))
        return POLICY_FULL;
    uint32_t block = block_order_heavy(parts, &driver->nodes, 0, 0, bytes);
    if (block == BLOCK_NONE) {
        outcome->blocks_scanned = block_order_count(parts, &driver->nodes);
        int verdict = take_piece(driver, request, driver->granularity, bytes, &block);
        if (verdict != POLICY_PLACED)
            return verdict;
        driver->shared_granules++;
    } else {
        outcome->blocks_scanned =
            block_order_rank(parts, &driver->nodes, blocks_at(blocks, block)->offset, 0) + 1;
        if (!policy_admits(request, bytes))
            return POLICY_NOT_ADMITTED;
        block_order_remove(parts, &driver->nodes, block);
    }
    blocks_at(blocks, block)->group = true; /* shared; the rest, too */
    if (blocks_at(blocks, block)->bytes > bytes) {
        uint32_t rest = blocks_split(blocks, block, bytes);
        const struct block *item = blocks_at(blocks, rest);
        block_order_insert(parts, &driver->nodes, rest, item->offset, 0, item->bytes);
    }
    hand_out(driver, block, outcome);
    return POLICY_PLACED;
}

static int driver_place(struct policy *policy, const struct policy_request *request,
                        struct policy_outcome *outcome)
{
    struct driver_policy *driver = mine(policy);
    outcome->blocks_scanned = 0;
    if (reserve(driver) != WORSEGPU_OK)
        return WORSEGPU_NO_MEMORY;
    bool small =
        request->requested_bytes <= driver->small_limit && request->alignment <= SMALL_ALIGNMENT;
    return small ? place_small(driver, request, outcome) : place_large(driver, request, outcome);
}

/* ------------------------------------------------------------------------------ release */

static uint32_t merge(struct driver_policy *driver, uint32_t block)
{
    struct blocks *blocks = &driver->blocks;
    uint32_t above = blocks_at(blocks, block)->above;
    uint32_t below = blocks_at(blocks, block)->below;
    if (blocks_is(blocks, above, BLOCK_FREE)) {
        block_order_remove(&driver->free_parts, &driver->nodes, above);
        blocks_join_above(blocks, block);
    }
    if (blocks_is(blocks, below, BLOCK_FREE)) {
        block_order_remove(&driver->free_parts, &driver->nodes, below);
        blocks_join_above(blocks, below);
        block = below;
    }
    return block;
}

static bool driver_release(struct policy *policy, const struct policy_placement *placement,
                           const struct policy_free *how)
{
    struct driver_policy *driver = mine(policy);
    struct blocks *blocks = &driver->blocks;
    uint32_t block = (uint32_t)placement->cookie;
    if (how->forget) {
        blocks_set_state(blocks, block, BLOCK_FORGOTTEN);
        return false;
    }
    blocks_set_state(blocks, block, BLOCK_FREE);
    block = merge(driver, block);
    const struct block *item = blocks_at(blocks, block);
    if (block_is_whole(item)) {
        driver->shared_granules -= item->group;
        device_give_back(&driver->device, DEVICE_REGION_FREE, item->offset, item->bytes);
        blocks_remove(blocks, block);
    } else {
        block_order_insert(&driver->free_parts, &driver->nodes, block, item->offset, 0,
                           item->bytes);
    }
    return true;
}

/* ------------------------------------------------------------------------------ looking */

static void driver_measure(const struct policy *policy, struct policy_measures *measures)
{
    const struct driver_policy *driver = mine_to_read(policy);
    blocks_measure_segments(&driver->blocks, measures);
    measures->segments = driver->device.taken_calls - driver->device.given_calls;
    measures->device_calls = driver->device.taken_calls + driver->device.given_calls;
    measures->cannot_fragment = driver->small_limit == 0;
}

static uint64_t driver_largest_free(const struct policy *policy)
{
    const struct driver_policy *driver = mine_to_read(policy);
    return block_order_greatest(&driver->free_parts, &driver->nodes);
}

static bool expect_free(const void *context, uint32_t block, const struct block_node *node)
{
    const struct driver_policy *driver = context;
    if (block >= driver->blocks.length)
        return false;
    const struct block *item = blocks_at(&driver->blocks, block);
    return item->state == BLOCK_FREE && node->major == item->offset && node->weight == item->bytes;
}

static int driver_check(const struct policy *policy, const struct policy_live *live,
                        struct audit *audit)
{
    const struct driver_policy *driver = mine_to_read(policy);
    const struct blocks *blocks = &driver->blocks;
    int status = blocks_check(blocks, true, live, audit);
    if (status != WORSEGPU_OK)
        return status;
    uint64_t pieces = 0;
    uint64_t shared = 0;
    for (size_t i = 0; i < blocks->length; i++) {
        const struct block *item = &blocks->items[i];
        if (item->state == BLOCK_SPARE)
            continue;
        pieces += item->below == BLOCK_NONE;
        shared += item->below == BLOCK_NONE && item->group;
        audit_check(audit, INVARIANT_block_state,
                    item->group || (block_is_whole(item) && item->state != BLOCK_FREE));
        audit_check(audit, INVARIANT_block_state,
                    !block_is_whole(item) || item->state != BLOCK_FREE);
    }
    audit_check(audit, INVARIANT_gpu_reserved_sum,
                driver->device.taken_bytes == blocks->bytes[BLOCK_FREE] +
                                                  blocks->bytes[BLOCK_USED] +
                                                  blocks->bytes[BLOCK_FORGOTTEN]);
    audit_check(audit, INVARIANT_gpu_reserved_sum,
                driver->device.taken_calls - driver->device.given_calls == pieces &&
                    driver->shared_granules == shared);
    audit_check(audit, INVARIANT_gpu_capacity_bound,
                driver->device.source ||
                    driver->device.taken_bytes <= live->largest_capacity_bytes);
    device_check(&driver->device, audit);
    block_order_check(&driver->free_parts, &driver->nodes, blocks->count[BLOCK_FREE], expect_free,
                      driver, audit);
    return WORSEGPU_OK;
}

static void driver_statistics(const struct policy *policy, const struct statistics_sink *sink)
{
    const struct driver_policy *driver = mine_to_read(policy);
    sink->count(sink->context, "reserved_bytes", driver->device.taken_bytes);
    sink->count(sink->context, "reserved_bytes_peak", driver->device.peak_bytes);
    sink->count(sink->context, "shared_granules", driver->shared_granules);
    sink->count(sink->context, "num_device_alloc", driver->device.taken_calls);
    sink->count(sink->context, "num_device_free", driver->device.given_calls);
}

static void driver_each_block(const struct policy *policy, policy_see see, void *context)
{
    blocks_each(&mine_to_read(policy)->blocks, NULL, NULL, see, context);
}

static const struct policy_knob knobs[KNOBS] = {
    [KNOB_GRANULARITY] = {.name = "granularity",
                          .type = KNOB_BYTES,
                          .default_text = "2MiB",
                          .minimum = SMALL_ALIGNMENT,
                          .maximum = UINT64_C(1) << 32,
                          .meaning = "the device gives memory in multiples of it"},
    [KNOB_SHARE_SMALL] = {.name = "share_small",
                          .type = KNOB_YESNO,
                          .default_text = "true",
                          .meaning = "whether small requests share granules"},
    [KNOB_SMALL_LIMIT] =
        {.name = "small_limit",
         .type = KNOB_BYTES,
         .default_text = "1MiB",
         .minimum = 1,
         .maximum = UINT64_C(1) << 32,
         .meaning = "the largest request that shares a granule, where it is not above one"},
};

const struct policy_operations policy_driver = {
    .name = "driver",
    .summary = "No allocator: each request is a cudaMalloc, in granules of 2 MiB.",
    .create = driver_create,
    .destroy = driver_destroy,
    .place = driver_place,
    .release = driver_release,
    .measure = driver_measure,
    .check = driver_check,
    .knobs = knobs,
    .knob_count = KNOBS,
    .knobs_fit = driver_knobs_fit,
    .statistics = driver_statistics,
    .largest_free = driver_largest_free,
    .each_block = driver_each_block,
};
