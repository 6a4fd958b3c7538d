/* RMM's pool_memory_resource: best fit in the free list of the request's stream, then in those of
 * other streams, then these lists merged into it one by one, then growth from the device.
 *
 * The rules are those of rapidsai/rmm @5d50a37b (include/rmm/mr: pool_memory_resource,
 * stream_ordered_memory_resource, coalescing_free_list), as worsegpu's page on golden allocator
 * data words them. Turns of streams stand for the order of event handles there. Nothing is ever
 * given back to the device. The initial pool is taken when the policy is made; a device that says
 * no leaves the pool empty, and it grows when it is asked. Every offset is whatever the pool has,
 * mostly a multiple of 256: an alignment in the request is ignored, as there.
 *
 * O(log n), where RMM walks its lists; blocks_scanned counts what it would have looked at. One
 * step is not: merging the lists of other streams moves the blocks of the smaller of two lists,
 * each in O(log n). Lives as long as its allocator. */
#include "lib/policies/rmm_pool.h"

#include <stdio.h>

#include "base/memory.h"
#include "lib/statistics.h"
#include "lib/worsegpu.h"

enum {
    UNIT_BYTES = 256 /* sizes are multiples of it */
};

enum {
    KNOB_INITIAL_POOL_SIZE,
    KNOB_MAXIMUM_POOL_SIZE,
    KNOB_DEVICE_GRANULARITY,
    KNOBS
};

static const struct policy_knob rmm_pool_knobs[KNOBS] = {
    {
        .name = "initial_pool_size",
        .type = KNOB_BYTES,
        .default_text = "0",
        .maximum = WORSEGPU_MAX_BYTES,
        .meaning = "taken from the device at the start; 0: the pool begins empty",
    },
    {
        .name = "maximum_pool_size",
        .type = KNOB_BYTES,
        .default_text = "none",
        .maximum = WORSEGPU_MAX_BYTES,
        .meaning = "what the pool may take from the device in all; with it, it grows by half of "
                   "what is left, without it, it doubles",
    },
    {
        .name = "device_granularity",
        .type = KNOB_BYTES,
        .default_text = "2MiB",
        .minimum = UNIT_BYTES,
        .maximum = UINT64_C(1) << 32,
        .meaning = "the device gives out offsets that are multiples of it",
    },
};

static struct rmm_pool *mine(struct policy *policy)
{
    return (struct rmm_pool *)policy;
}

static const struct rmm_pool *mine_to_read(const struct policy *policy)
{
    return (const struct rmm_pool *)policy;
}

static uint64_t rounded_up(uint64_t bytes)
{
    return (bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
}

/* ------------------------------------------------------------------------------ growth */

/* How much growth asks for first; 0: the maximum forbids it. */
static uint64_t first_try(const struct rmm_pool *pool, uint64_t bytes)
{
    uint64_t wish = pool->pool_bytes;
    if (pool->has_maximum) {
        uint64_t left = pool->pool_bytes > pool->maximum_bytes
                            ? 0
                            : rounded_up(pool->maximum_bytes - pool->pool_bytes);
        if (bytes > left)
            return 0;
        wish = left / 2; /* not rounded: blocks stop being multiples of 256 */
    }
    return wish > bytes ? wish : bytes;
}

/* Asks for less and less while the device says no. How much it gave, at *offset; 0: nothing. */
static uint64_t take_region(struct rmm_pool *pool, uint64_t bytes, uint64_t *offset)
{
    uint64_t wish = first_try(pool, bytes);
    while (wish > 0 && device_take(&pool->device, DEVICE_REGION, wish, offset) != 0) {
        if (wish == bytes)
            return 0;
        wish = wish / 2 > bytes ? wish / 2 : bytes;
    }
    return wish;
}

/* A free block in no list yet, of a region that was taken. */
static uint32_t add_region(struct rmm_pool *pool, uint64_t offset, uint64_t bytes)
{
    uint32_t block = blocks_add(&pool->blocks, offset, bytes, BLOCK_FREE);
    blocks_at(&pool->blocks, block)->segment = pool->upstream_blocks++;
    pool->pool_bytes += bytes;
    return block;
}

/* Memory for all that one request can need: a region, a rest, and a turn for the stream of this
 * request and of each free to come, which must not fail. */
static int reserve(struct rmm_pool *pool)
{
    if (blocks_reserve(&pool->blocks, 2) != WORSEGPU_OK ||
        block_nodes_reserve(&pool->nodes, pool->blocks.capacity) != WORSEGPU_OK ||
        device_reserve_memory(&pool->device) != WORSEGPU_OK)
        return WORSEGPU_NO_MEMORY;
    return rmm_streams_reserve(&pool->streams, (size_t)pool->blocks.count[BLOCK_USED] + 2);
}

/* Hands out the low part of a free block in no list; any rest goes into the turn's list. */
static void hand_out(struct rmm_pool *pool, uint32_t block, uint32_t turn, uint64_t bytes,
                     struct policy_outcome *outcome)
{
    if (blocks_at(&pool->blocks, block)->bytes > bytes)
        rmm_list_insert(pool, rmm_streams_list(&pool->streams, turn),
                        blocks_split(&pool->blocks, block, bytes));
    rmm_streams_note(&pool->streams, &pool->nodes, turn);
    blocks_set_state(&pool->blocks, block, BLOCK_USED);
    struct block *at = blocks_at(&pool->blocks, block);
    outcome->placement = (struct policy_placement){
        .reserved_bytes = bytes,
        .offset = at->offset,
        .block_index = (int64_t)block,
        .cookie = block,
    };
}

static int grow(struct rmm_pool *pool, uint32_t turn, uint64_t bytes,
                const struct policy_request *request, struct policy_outcome *outcome)
{
    uint64_t end_before = pool->device.end;
    uint64_t offset = 0;
    uint64_t taken = take_region(pool, bytes, &offset);
    if (taken == 0)
        return POLICY_FULL;
    if (!policy_admits(request, bytes)) {
        /* This device only goes upward: without the old end, requests that are not admitted would
         * use up its addresses. */
        device_give_back(&pool->device, DEVICE_REGION_FREE, offset, taken);
        pool->device.end = end_before;
        return POLICY_NOT_ADMITTED;
    }
    hand_out(pool, add_region(pool, offset, taken), turn, bytes, outcome);
    return POLICY_PLACED;
}

/* ------------------------------------------------------------------------------ the operations */

static void rmm_pool_destroy(struct policy *policy)
{
    struct rmm_pool *pool = mine(policy);
    blocks_release(&pool->blocks);
    block_nodes_release(&pool->nodes);
    device_release(&pool->device);
    rmm_streams_release(&pool->streams);
    memory_release_array(pool->memory, pool, 1, sizeof(*pool));
}

/* The initial pool belongs to stream 0. */
static void take_initial(struct rmm_pool *pool, uint64_t bytes)
{
    uint64_t offset;
    uint32_t turn = rmm_streams_use(&pool->streams, 0);
    if (device_take(&pool->device, DEVICE_REGION, bytes, &offset) != 0)
        return;
    rmm_list_insert(pool, rmm_streams_list(&pool->streams, turn), add_region(pool, offset, bytes));
    rmm_streams_note(&pool->streams, &pool->nodes, turn);
}

static int rmm_pool_create(const struct policy_setup *setup, struct policy **policy)
{
    struct rmm_pool *pool = memory_allocate_zeroed(setup->memory, 1, sizeof(*pool));
    if (!pool)
        return WORSEGPU_NO_MEMORY;
    const struct knob_value *knobs = setup->knobs;
    pool->policy.operations = &policy_rmm_pool;
    pool->memory = setup->memory;
    pool->has_maximum = !knobs[KNOB_MAXIMUM_POOL_SIZE].none;
    pool->maximum_bytes = knobs[KNOB_MAXIMUM_POOL_SIZE].count;
    device_init(&pool->device, setup, DEVICE_UPWARD, DEVICE_LIMIT_END,
                knobs[KNOB_DEVICE_GRANULARITY].count);
    blocks_init(&pool->blocks, setup->memory);
    block_nodes_init(&pool->nodes, setup->memory);
    rmm_streams_init(&pool->streams, setup->memory);
    if (reserve(pool) != WORSEGPU_OK) {
        rmm_pool_destroy(&pool->policy);
        return WORSEGPU_NO_MEMORY;
    }
    if (knobs[KNOB_INITIAL_POOL_SIZE].count > 0)
        take_initial(pool, knobs[KNOB_INITIAL_POOL_SIZE].count);
    *policy = &pool->policy;
    return WORSEGPU_OK;
}

static int rmm_pool_place(struct policy *policy, const struct policy_request *request,
                          struct policy_outcome *outcome)
{
    struct rmm_pool *pool = mine(policy);
    outcome->blocks_scanned = 0;
    if (request->requested_bytes == 0)
        return POLICY_FULL;
    int status = reserve(pool);
    if (status != WORSEGPU_OK)
        return status;

    uint64_t bytes = rounded_up(request->requested_bytes);
    uint32_t turn = rmm_streams_use(&pool->streams, request->stream);
    struct rmm_find find = rmm_search_lists(pool, turn, bytes, &outcome->blocks_scanned);
    if (find.block == BLOCK_NONE)
        find = rmm_search_merging(pool, turn, bytes, &outcome->blocks_scanned);
    if (find.block == BLOCK_NONE)
        return grow(pool, turn, bytes, request, outcome);
    if (!policy_admits(request, bytes))
        return POLICY_NOT_ADMITTED;
    rmm_list_remove(pool, rmm_streams_list(&pool->streams, find.turn), find.block);
    hand_out(pool, find.block, find.turn, bytes, outcome);
    return POLICY_PLACED;
}

static bool rmm_pool_release(struct policy *policy, const struct policy_placement *placement,
                             const struct policy_free *how)
{
    struct rmm_pool *pool = mine(policy);
    uint32_t block = (uint32_t)placement->cookie;
    if (how->forget) {
        blocks_set_state(&pool->blocks, block, BLOCK_FORGOTTEN);
        return false;
    }
    blocks_set_state(&pool->blocks, block, BLOCK_FREE);
    uint32_t turn = rmm_streams_use(&pool->streams, how->stream);
    rmm_list_merge_in(pool, rmm_streams_list(&pool->streams, turn), block);
    rmm_streams_note(&pool->streams, &pool->nodes, turn);
    return true;
}

static void rmm_pool_measure(const struct policy *policy, struct policy_measures *measures)
{
    const struct rmm_pool *pool = mine_to_read(policy);
    blocks_measure_segments(&pool->blocks, measures);
    measures->segments = pool->upstream_blocks;
    measures->device_calls = pool->device.taken_calls + pool->device.given_calls;
}

static uint64_t rmm_pool_largest_free(const struct policy *policy)
{
    return rmm_streams_largest(&mine_to_read(policy)->streams);
}

/* One row for each list that is there. */
static void rmm_pool_statistics(const struct policy *policy, const struct statistics_sink *sink)
{
    static const char *const names[] = {"stream", "blocks", "largest", "total"};
    const struct rmm_pool *pool = mine_to_read(policy);
    const struct rmm_streams *streams = &pool->streams;
    sink->count(sink->context, "pool_size", pool->pool_bytes);
    sink->count(sink->context, "upstream_blocks", pool->upstream_blocks);
    if (!sink->lists)
        return;
    sink->list_begin(sink->context, "lists");
    uint32_t turn = rmm_streams_first(streams, 0, 0);
    while (turn != RMM_TURN_NONE) {
        const struct rmm_list *list = rmm_streams_list(streams, turn);
        const uint64_t row[] = {
            streams->turns[turn].stream,
            block_order_count(&list->order, &pool->nodes),
            block_order_greatest(&list->order, &pool->nodes),
            list->bytes,
        };
        sink->row(sink->context, names, row, sizeof(row) / sizeof(row[0]));
        turn = rmm_streams_first(streams, turn + 1, 0);
    }
    sink->list_end(sink->context);
}

static uint64_t stream_of(const void *context, const struct block *block)
{
    const struct rmm_streams *streams = context;
    return block->state == BLOCK_FREE ? streams->turns[streams->lists[block->group].turn].stream
                                      : 0;
}

static void rmm_pool_each_block(const struct policy *policy, policy_see see, void *context)
{
    const struct rmm_pool *pool = mine_to_read(policy);
    blocks_each(&pool->blocks, stream_of, &pool->streams, see, context);
}

/* Whether the knobs fit each other: the real pool throws where the first piece cannot be had. */
static bool rmm_pool_knobs_fit(const struct knob_value *values,
                               const struct worsegpu_config *config,
                               char problem[KNOBS_PROBLEM_SIZE])
{
    uint64_t initial = values[KNOB_INITIAL_POOL_SIZE].count;
    const char *wrong = NULL;
    if (initial > config->gpu_capacity)
        wrong = "initial_pool_size must be at most gpu_capacity";
    else if (!values[KNOB_MAXIMUM_POOL_SIZE].none && initial > values[KNOB_MAXIMUM_POOL_SIZE].count)
        wrong = "initial_pool_size must be at most maximum_pool_size";
    if (!wrong)
        return true;
    snprintf(problem, KNOBS_PROBLEM_SIZE, "%s", wrong);
    return false;
}

const struct policy_operations policy_rmm_pool = {
    .name = "rmm_pool",
    .summary = "RMM's pool: best fit in a free list for each stream, merged only when needed.",
    .create = rmm_pool_create,
    .destroy = rmm_pool_destroy,
    .place = rmm_pool_place,
    .release = rmm_pool_release,
    .measure = rmm_pool_measure,
    .check = rmm_pool_check,
    .knobs = rmm_pool_knobs,
    .knob_count = KNOBS,
    .knobs_fit = rmm_pool_knobs_fit,
    .statistics = rmm_pool_statistics,
    .largest_free = rmm_pool_largest_free,
    .each_block = rmm_pool_each_block,
};
