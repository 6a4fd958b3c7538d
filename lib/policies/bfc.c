/* TensorFlow's and XLA's BFC allocator: the least free chunk that fits, a generous rule for when to
 * split it, regions that double.
 *
 * The rules are those of google/tsl @82f832b5 (tsl/framework/bfc_allocator), as worsegpu's page on
 * golden allocator data words them; where that version would ask the device for the same bytes for
 * ever, it asks for 256 fewer each time, as XLA does today. The limit is fixed when the policy is
 * made. Alignment in a request is ignored, as there. A forgotten chunk counts as used: the modelled
 * allocator was never told.
 *
 * O(log n). Chunks lie in bins by the binary logarithm of their size, each ordered by size, then
 * offset; blocks_scanned counts what the original's walk through the bins looks at. Giving back
 * regions without a used chunk takes O(log n) for each. Lives as long as its allocator. */
#include "lib/policies/bfc.h"

#include "base/memory.h"
#include "lib/statistics.h"
#include "lib/worsegpu.h"

#define MIB (UINT64_C(1) << 20)
#define FIRST_STEP_BYTES (2 * MIB)
#define DEFAULT_SPLIT_BYTES (128 * MIB)
enum {
    KNOB_LIMIT,
    KNOB_ALLOW_GROWTH,
    KNOB_GARBAGE_COLLECTION,
    KNOB_FRAGMENTATION_FRACTION,
    KNOB_DEVICE_GRANULARITY,
    KNOB_DEVICE_COALESCES,
    KNOBS
};

static const struct policy_knob bfc_knobs[KNOBS] = {
    {
        .name = "limit",
        .type = KNOB_BYTES,
        .default_text = "none",
        .minimum = 1,
        .maximum = WORSEGPU_MAX_BYTES,
        .meaning = "what it may take from the device in all; none: the capacity at the start",
    },
    {
        .name = "allow_growth",
        .type = KNOB_YESNO,
        .default_text = "false",
        .meaning = "begins with a region of 2 MiB and doubles; else the first region is the limit",
    },
    {
        .name = "garbage_collection",
        .type = KNOB_YESNO,
        .default_text = "false",
        .meaning = "gives regions without a used chunk back when it cannot grow",
    },
    {
        .name = "fragmentation_fraction",
        .type = KNOB_NUMBER,
        .default_text = "0",
        .meaning = "of the limit: a chunk with so much to spare is split; 0: 128 MiB",
    },
    {
        .name = "device_granularity",
        .type = KNOB_BYTES,
        .default_text = "2MiB",
        .minimum = BFC_UNIT_BYTES,
        .maximum = UINT64_C(1) << 32,
        .meaning = "the device gives out offsets that are multiples of it",
    },
    {
        .name = "device_coalesces",
        .type = KNOB_YESNO,
        .default_text = "true",
        .meaning = "a region that begins where another one ends is joined with it",
    },
};

static struct bfc *mine(struct policy *policy)
{
    return (struct bfc *)policy;
}

static const struct bfc *mine_to_read(const struct policy *policy)
{
    return (const struct bfc *)policy;
}

uint32_t bfc_bin_of(uint64_t bytes)
{
    uint32_t bin = 63 - (uint32_t)__builtin_clzll(bytes / BFC_UNIT_BYTES | 1);
    return bin < BFC_BINS ? bin : BFC_BINS - 1;
}

static uint64_t in_use_bytes(const struct bfc *bfc)
{
    return bfc->chunks.bytes[BLOCK_USED] + bfc->chunks.bytes[BLOCK_FORGOTTEN];
}

/* ------------------------------------------------------------------------------ free chunks */

/* The region has no used chunk from now on, or has one again. */
static void note_empty(struct bfc *bfc, uint32_t region, uint64_t bytes)
{
    bfc->empty_bytes -= bfc->region_nodes.items[region].weight;
    bfc->empty_bytes += bytes;
    block_order_remove(&bfc->regions_by_offset, &bfc->region_nodes, region);
    block_order_insert(&bfc->regions_by_offset, &bfc->region_nodes, region,
                       blocks_at(&bfc->regions, region)->offset, region, bytes);
}

void bfc_bin_insert(struct bfc *bfc, uint32_t chunk)
{
    const struct block *at = blocks_at(&bfc->chunks, chunk);
    uint32_t number = bfc_bin_of(at->bytes);
    struct bfc_bin *bin = &bfc->bins[number];
    block_order_insert(&bin->free, &bfc->chunk_nodes, chunk, at->bytes, at->offset, 0);
    bin->free_bytes += at->bytes;
    bfc->bins_with_free |= UINT32_C(1) << number;
    if (bfc->collects && block_is_whole(at))
        note_empty(bfc, at->segment, at->bytes);
}

/* To be done while the chunk still has its size and its neighbours. */
void bfc_bin_remove(struct bfc *bfc, uint32_t chunk)
{
    const struct block *at = blocks_at(&bfc->chunks, chunk);
    uint32_t number = bfc_bin_of(at->bytes);
    struct bfc_bin *bin = &bfc->bins[number];
    block_order_remove(&bin->free, &bfc->chunk_nodes, chunk);
    bin->free_bytes -= at->bytes;
    if (bin->free.root == BLOCK_NONE)
        bfc->bins_with_free &= ~(UINT32_C(1) << number);
    if (bfc->collects && block_is_whole(at))
        note_empty(bfc, at->segment, 0);
}

/* The least chunk of at least so many bytes, the lowest among equals. The original looks at each
 * chunk in the bin of the request until one is large enough, then at the first of a higher bin. */
static uint32_t search(const struct bfc *bfc, uint64_t bytes, uint64_t *scanned)
{
    uint32_t number = bfc_bin_of(bytes);
    const struct block_order *own = &bfc->bins[number].free;
    *scanned += block_order_rank(own, &bfc->chunk_nodes, bytes, 0);
    uint32_t chunk = block_order_at_least(own, &bfc->chunk_nodes, bytes, 0);
    if (chunk == BLOCK_NONE) {
        uint32_t higher = bfc->bins_with_free >> number >> 1 << 1 << number;
        if (higher == 0)
            return BLOCK_NONE;
        chunk = block_order_first(&bfc->bins[__builtin_ctz(higher)].free, &bfc->chunk_nodes);
    }
    *scanned += 1;
    return chunk;
}

/* How much of a chunk a request gets: all of it, unless that would waste too much. */
static uint64_t portion(const struct bfc *bfc, uint64_t chunk_bytes, uint64_t bytes)
{
    uint64_t rest = chunk_bytes - bytes;
    bool splits = rest >= bytes || rest >= bfc->split_bytes;
    return splits ? bytes : chunk_bytes;
}

/* Hands out the low part of a free chunk that is in no bin. */
static void hand_out(struct bfc *bfc, uint32_t chunk, uint64_t bytes,
                     struct policy_outcome *outcome)
{
    struct block *at = blocks_at(&bfc->chunks, chunk);
    if (at->bytes > bytes) {
        uint32_t rest = blocks_split(&bfc->chunks, chunk, bytes);
        if (blocks_at(&bfc->chunks, rest)->above == BLOCK_NONE)
            blocks_at(&bfc->regions, at->segment)->own = rest;
        bfc_bin_insert(bfc, rest);
    }
    blocks_set_state(&bfc->chunks, chunk, BLOCK_USED);
    struct bfc_bin *bin = &bfc->bins[bfc_bin_of(bytes)];
    bin->used_chunks++;
    bin->used_bytes += bytes;

    struct bfc_counters *counters = &bfc->counters;
    uint64_t in_use = in_use_bytes(bfc);
    counters->allocations++;
    if (in_use > counters->peak_in_use_bytes)
        counters->peak_in_use_bytes = in_use;
    if (bytes > counters->largest_allocation_bytes)
        counters->largest_allocation_bytes = bytes;
    outcome->placement = (struct policy_placement){
        .reserved_bytes = bytes,
        .offset = at->offset,
        .block_index = (int64_t)chunk,
        .cookie = chunk,
    };
}

/* Grows, and serves the request from what came: nothing else is large enough. */
static int grow(struct bfc *bfc, uint64_t bytes, const struct policy_request *request,
                struct policy_outcome *outcome)
{
    uint64_t step_before = bfc->step_bytes;
    uint64_t offset = 0;
    uint64_t taken = bfc_take_region(bfc, bytes, &offset);
    if (taken == 0)
        return POLICY_FULL;
    uint32_t region = bfc_region_below(bfc, offset);
    uint64_t chunk_bytes = taken;
    if (region != BLOCK_NONE) {
        const struct block *last =
            blocks_at(&bfc->chunks, (uint32_t)blocks_at(&bfc->regions, region)->own);
        chunk_bytes += last->state == BLOCK_FREE ? last->bytes : 0;
    }
    uint64_t given = portion(bfc, chunk_bytes, bytes);
    if (!policy_admits(request, given)) {
        device_give_back(&bfc->device, DEVICE_REGION_FREE, offset, taken);
        bfc->step_bytes = step_before;
        return POLICY_NOT_ADMITTED;
    }
    uint32_t chunk = region == BLOCK_NONE ? bfc_add_region(bfc, offset, taken)
                                          : bfc_extend_region(bfc, region, taken);
    bfc->pool_bytes += taken;
    if (bfc->pool_bytes > bfc->counters.peak_pool_bytes)
        bfc->counters.peak_pool_bytes = bfc->pool_bytes;
    /* The search that is made again sees what is too small in its bin, then the new chunk. */
    outcome->blocks_scanned +=
        block_order_count(&bfc->bins[bfc_bin_of(bytes)].free, &bfc->chunk_nodes) + 1;
    hand_out(bfc, chunk, given, outcome);
    return POLICY_PLACED;
}

/* ------------------------------------------------------------------------------ the operations */

static int bfc_create(const struct policy_setup *setup, struct policy **policy)
{
    struct bfc *bfc = memory_allocate_zeroed(setup->memory, 1, sizeof(*bfc));
    if (!bfc)
        return WORSEGPU_NO_MEMORY;
    const struct knob_value *knobs = setup->knobs;
    bfc->policy.operations = &policy_bfc;
    bfc->memory = setup->memory;
    bfc->limit_bytes =
        knobs[KNOB_LIMIT].none ? setup->config->gpu_capacity : knobs[KNOB_LIMIT].count;
    uint64_t first_step = bfc->limit_bytes;
    if (knobs[KNOB_ALLOW_GROWTH].count && first_step > FIRST_STEP_BYTES)
        first_step = FIRST_STEP_BYTES;
    bfc->step_bytes = bfc_rounded_up(first_step);
    double fraction = knobs[KNOB_FRAGMENTATION_FRACTION].number;
    bfc->split_bytes =
        fraction > 0 ? (uint64_t)(fraction * (double)bfc->limit_bytes) : DEFAULT_SPLIT_BYTES;
    bfc->collects = knobs[KNOB_GARBAGE_COLLECTION].count != 0;
    bfc->coalesces = knobs[KNOB_DEVICE_COALESCES].count != 0;
    device_init(&bfc->device, setup, DEVICE_LOWEST, DEVICE_LIMIT_END,
                knobs[KNOB_DEVICE_GRANULARITY].count);
    blocks_init(&bfc->chunks, setup->memory);
    block_nodes_init(&bfc->chunk_nodes, setup->memory);
    blocks_init(&bfc->regions, setup->memory);
    block_nodes_init(&bfc->region_nodes, setup->memory);
    bfc->regions_by_offset = block_order_empty();
    for (uint32_t bin = 0; bin < BFC_BINS; bin++)
        bfc->bins[bin].free = block_order_empty();
    *policy = &bfc->policy;
    return WORSEGPU_OK;
}

static void bfc_destroy(struct policy *policy)
{
    struct bfc *bfc = mine(policy);
    blocks_release(&bfc->chunks);
    block_nodes_release(&bfc->chunk_nodes);
    blocks_release(&bfc->regions);
    block_nodes_release(&bfc->region_nodes);
    device_release(&bfc->device);
    memory_release_array(bfc->memory, bfc, 1, sizeof(*bfc));
}

/* Memory for a rest. */
static int reserve_chunk(struct bfc *bfc)
{
    if (blocks_reserve(&bfc->chunks, 1) != WORSEGPU_OK)
        return WORSEGPU_NO_MEMORY;
    return block_nodes_reserve(&bfc->chunk_nodes, bfc->chunks.capacity);
}

/* Memory for a region and its chunk, and a rest. */
static int reserve_region(struct bfc *bfc)
{
    if (blocks_reserve(&bfc->chunks, 2) != WORSEGPU_OK ||
        block_nodes_reserve(&bfc->chunk_nodes, bfc->chunks.capacity) != WORSEGPU_OK ||
        blocks_reserve(&bfc->regions, 1) != WORSEGPU_OK ||
        block_nodes_reserve(&bfc->region_nodes, bfc->regions.capacity) != WORSEGPU_OK)
        return WORSEGPU_NO_MEMORY;
    return device_reserve_memory(&bfc->device);
}

static int place_by_growth(struct bfc *bfc, uint64_t bytes, const struct policy_request *request,
                           struct policy_outcome *outcome)
{
    int status = reserve_region(bfc);
    if (status != WORSEGPU_OK)
        return status;
    int verdict = grow(bfc, bytes, request, outcome);
    if (verdict == POLICY_FULL && bfc_collect(bfc, bytes))
        verdict = grow(bfc, bytes, request, outcome);
    return verdict;
}

static int bfc_place(struct policy *policy, const struct policy_request *request,
                     struct policy_outcome *outcome)
{
    struct bfc *bfc = mine(policy);
    outcome->blocks_scanned = 0;
    if (request->requested_bytes == 0)
        return POLICY_FULL;
    int status = reserve_chunk(bfc);
    if (status != WORSEGPU_OK)
        return status;
    uint64_t bytes = bfc_rounded_up(request->requested_bytes);
    uint32_t chunk = search(bfc, bytes, &outcome->blocks_scanned);
    if (chunk == BLOCK_NONE)
        return place_by_growth(bfc, bytes, request, outcome);
    uint64_t given = portion(bfc, blocks_at(&bfc->chunks, chunk)->bytes, bytes);
    if (!policy_admits(request, given))
        return POLICY_NOT_ADMITTED;
    bfc_bin_remove(bfc, chunk);
    hand_out(bfc, chunk, given, outcome);
    return POLICY_PLACED;
}

/* Joins a chunk with the one above it, both in no bin. */
static void join_above(struct bfc *bfc, uint32_t chunk)
{
    blocks_join_above(&bfc->chunks, chunk);
    const struct block *at = blocks_at(&bfc->chunks, chunk);
    if (at->above == BLOCK_NONE)
        blocks_at(&bfc->regions, at->segment)->own = chunk;
}

static bool bfc_release(struct policy *policy, const struct policy_placement *placement,
                        const struct policy_free *how)
{
    struct bfc *bfc = mine(policy);
    uint32_t chunk = (uint32_t)placement->cookie;
    if (how->forget) {
        blocks_set_state(&bfc->chunks, chunk, BLOCK_FORGOTTEN);
        return false;
    }
    struct bfc_bin *bin = &bfc->bins[bfc_bin_of(placement->reserved_bytes)];
    bin->used_chunks--;
    bin->used_bytes -= placement->reserved_bytes;
    blocks_set_state(&bfc->chunks, chunk, BLOCK_FREE);
    uint32_t above = blocks_at(&bfc->chunks, chunk)->above;
    if (blocks_is(&bfc->chunks, above, BLOCK_FREE)) {
        bfc_bin_remove(bfc, above);
        join_above(bfc, chunk);
    }
    uint32_t below = blocks_at(&bfc->chunks, chunk)->below;
    if (blocks_is(&bfc->chunks, below, BLOCK_FREE)) {
        bfc_bin_remove(bfc, below);
        join_above(bfc, below);
        chunk = below;
    }
    bfc_bin_insert(bfc, chunk);
    return true;
}

static void bfc_measure(const struct policy *policy, struct policy_measures *measures)
{
    const struct bfc *bfc = mine_to_read(policy);
    blocks_measure_segments(&bfc->chunks, measures);
    measures->segments = bfc->regions.count[BLOCK_USED];
    measures->device_calls = bfc->device.taken_calls + bfc->device.given_calls;
    measures->retries = bfc->counters.collections;
}

static uint64_t bfc_largest_free(const struct policy *policy)
{
    const struct bfc *bfc = mine_to_read(policy);
    if (bfc->bins_with_free == 0)
        return 0;
    const struct bfc_bin *bin = &bfc->bins[31 - __builtin_clz(bfc->bins_with_free)];
    return blocks_at(&bfc->chunks, block_order_last(&bin->free, &bfc->chunk_nodes))->bytes;
}

static void tell_bins(const struct bfc *bfc, const struct statistics_sink *sink)
{
    sink->list_begin(sink->context, "bins");
    for (uint32_t number = 0; number < BFC_BINS; number++) {
        const struct bfc_bin *bin = &bfc->bins[number];
        const uint64_t row[] = {
            number,           block_order_count(&bin->free, &bfc->chunk_nodes) + bin->used_chunks,
            bin->used_chunks, bin->free_bytes + bin->used_bytes,
            bin->used_bytes,
        };
        if (row[1] > 0)
            sink->row(sink->context, NULL, row, sizeof(row) / sizeof(row[0]));
    }
    sink->list_end(sink->context);
}

static void bfc_statistics(const struct policy *policy, const struct statistics_sink *sink)
{
    const struct bfc *bfc = mine_to_read(policy);
    const struct bfc_counters *counters = &bfc->counters;
    uint64_t in_use = in_use_bytes(bfc);
    uint64_t free_bytes = bfc->chunks.bytes[BLOCK_FREE];
    uint64_t largest = bfc_largest_free(policy);
    sink->count(sink->context, "num_allocs", counters->allocations);
    sink->count(sink->context, "bytes_in_use", in_use);
    sink->count(sink->context, "peak_bytes_in_use", counters->peak_in_use_bytes);
    sink->count(sink->context, "largest_alloc_size", counters->largest_allocation_bytes);
    sink->count(sink->context, "pool_bytes", bfc->pool_bytes);
    sink->count(sink->context, "peak_pool_bytes", counters->peak_pool_bytes);
    if (free_bytes > 0)
        sink->number(sink->context, "fragmentation",
                     (double)(free_bytes - largest) / (double)free_bytes);
    else
        sink->none(sink->context, "fragmentation");
    sink->count(sink->context, "free_chunks", bfc->chunks.count[BLOCK_FREE]);
    sink->count(sink->context, "largest_free_chunk", largest);
    if (sink->lists)
        tell_bins(bfc, sink);
}

static void bfc_each_block(const struct policy *policy, policy_see see, void *context)
{
    blocks_each(&mine_to_read(policy)->chunks, NULL, NULL, see, context);
}

const struct policy_operations policy_bfc = {
    .name = "bfc",
    .summary = "TensorFlow's and XLA's BFC: best fit in bins, splits late, regions that double.",
    .create = bfc_create,
    .destroy = bfc_destroy,
    .place = bfc_place,
    .release = bfc_release,
    .measure = bfc_measure,
    .check = bfc_check,
    .knobs = bfc_knobs,
    .knob_count = KNOBS,
    .statistics = bfc_statistics,
    .largest_free = bfc_largest_free,
    .each_block = bfc_each_block,
};
