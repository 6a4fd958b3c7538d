/* The operations of the torch policies; see torch.h for what they model and torch_internal.h for
 * the other files.
 *
 * A forgotten block stays counted as allocated and active, since PyTorch would know nothing of it:
 * to it, the tensor was never freed. */
#include "lib/policies/torch.h"

#include "base/memory.h"
#include "lib/policies/torch_internal.h"
#include "lib/statistics.h"

enum {
    KNOB_ALLOC_CONF,
    KNOB_MEMORY_FRACTION,
    KNOB_DEVICE_REUSES_ADDRESSES,
    TORCH_KNOBS
};

#define OTHER_KNOBS                                                                                \
    {                                                                                              \
        .name = "memory_fraction",                                                                 \
        .type = KNOB_NUMBER,                                                                       \
        .default_text = "none",                                                                    \
        .meaning = "part of the device that may be taken: set_per_process_memory_fraction",        \
    },                                                                                             \
    {                                                                                              \
        .name = "device_reuses_addresses", .type = KNOB_YESNO, .default_text = "false",            \
        .meaning = "the device gives the lowest address that fits, not one above all others",      \
    }

#define ALLOC_CONF(text)                                                                           \
    {                                                                                              \
        .name = "alloc_conf", .type = KNOB_TEXT, .default_text = text, .maximum = TORCH_TEXT_MAX,  \
        .meaning = "the text of PYTORCH_CUDA_ALLOC_CONF, as PyTorch 2.6 reads it",                 \
    }

static const struct policy_knob torch_knobs[TORCH_KNOBS] = {ALLOC_CONF(""), OTHER_KNOBS};
static const struct policy_knob expandable_knobs[TORCH_KNOBS] = {
    ALLOC_CONF("expandable_segments:True"), OTHER_KNOBS};

/* ------------------------------------------------------------------------------ making */

/* `expandable` before the text, which may say otherwise. */
static bool read_settings(const struct knob_value *knobs, bool expandable,
                          struct torch_settings *settings, char problem[KNOBS_PROBLEM_SIZE])
{
    torch_settings_default(settings);
    settings->expandable = expandable;
    return torch_settings_read(knobs[KNOB_ALLOC_CONF].text, knobs[KNOB_ALLOC_CONF].text_bytes,
                               settings, problem);
}

static bool torch_knobs_fit(const struct knob_value *values, const struct worsegpu_config *config,
                            char problem[KNOBS_PROBLEM_SIZE])
{
    struct torch_settings settings;
    (void)config;
    return read_settings(values, false, &settings, problem);
}

static int create(const struct policy_setup *setup, const struct policy_operations *operations,
                  bool expandable, struct policy **policy)
{
    struct torch *torch = memory_allocate_zeroed(setup->memory, 1, sizeof(*torch));
    if (!torch)
        return WORSEGPU_NO_MEMORY;
    const struct knob_value *knobs = setup->knobs;
    const struct knob_value *fraction = &knobs[KNOB_MEMORY_FRACTION];
    char problem[KNOBS_PROBLEM_SIZE]; /* has none: knobs_fit has read it already */
    torch->policy.operations = operations;
    torch->memory = setup->memory;
    torch->config = setup->config;
    read_settings(knobs, expandable, &torch->settings, problem);
    torch->fraction = fraction->none ? -1 : fraction->number;
    device_init(&torch->device, setup,
                knobs[KNOB_DEVICE_REUSES_ADDRESSES].count ? DEVICE_LOWEST : DEVICE_UPWARD,
                DEVICE_LIMIT_BYTES, TORCH_SEGMENT_STEP);
    blocks_init(&torch->blocks, setup->memory);
    blocks_init(&torch->segments, setup->memory);
    block_nodes_init(&torch->nodes, setup->memory);
    block_nodes_init(&torch->segment_nodes, setup->memory);
    block_nodes_init(&torch->stream_nodes, setup->memory);
    block_nodes_init(&torch->use_nodes, setup->memory);
    torch->segments_by_offset = block_order_empty();
    torch->streams_by_number = block_order_empty();
    torch->recorded = block_order_empty();
    torch->spare_stream = BLOCK_NONE;
    torch->recent_stream = BLOCK_NONE;
    torch->ready_stream = BLOCK_NONE;
    torch->spare_use = BLOCK_NONE;
    *policy = &torch->policy;
    return WORSEGPU_OK;
}

static int torch_create(const struct policy_setup *setup, struct policy **policy)
{
    return create(setup, &policy_torch, false, policy);
}

static int torch_create_expandable(const struct policy_setup *setup, struct policy **policy)
{
    return create(setup, &policy_torch_expandable, true, policy);
}

static void torch_destroy(struct policy *policy)
{
    struct torch *torch = torch_of(policy);
    device_release(&torch->device);
    blocks_release(&torch->blocks);
    blocks_release(&torch->segments);
    block_nodes_release(&torch->nodes);
    block_nodes_release(&torch->segment_nodes);
    block_nodes_release(&torch->use_nodes);
    torch_streams_release(torch);
    memory_release_array(torch->memory, torch->uses, torch->uses_capacity, sizeof(*torch->uses));
    memory_release_array(torch->memory, torch, 1, sizeof(*torch));
}

/* ------------------------------------------------------------------------------ place */

/* Whether a block that is larger than needed is cut. */
static bool splits(const struct torch *torch, const struct torch_want *want, uint64_t bytes)
{
    uint64_t rest = bytes - want->bytes;
    if (want->pool == TORCH_SMALL || torch->settings.expandable)
        return rest >= TORCH_LEAST_BLOCK;
    return want->bytes < torch->settings.max_split_bytes && rest > TORCH_SMALL_REQUEST;
}

/* The caller's limits said no: what was taken from the device for the request goes back. */
static void give_up(struct torch *torch, uint32_t block, const struct torch_want *want)
{
    if (!want->taken)
        return;
    if (torch_is_expandable(torch, blocks_at(&torch->blocks, block)))
        torch_expandable_unmap(torch, block);
    else
        torch_region_give_back(torch, block);
}

static int find_and_hand_out(struct torch *torch, const struct policy_request *request,
                             struct torch_want *want, struct policy_outcome *outcome)
{
    uint32_t block = torch_pool_search(torch, want);
    if (block == BLOCK_NONE)
        block = torch_segments_obtain(torch, want);
    outcome->blocks_scanned = want->scanned;
    if (block == BLOCK_NONE) {
        torch->ooms++;
        return POLICY_FULL;
    }
    uint64_t bytes = blocks_at(&torch->blocks, block)->bytes;
    if (splits(torch, want, bytes))
        bytes = want->bytes;
    if (!policy_admits(request, bytes)) {
        give_up(torch, block, want);
        return POLICY_NOT_ADMITTED;
    }
    torch_pool_hand_out(torch, block, bytes, request->requested_bytes, &outcome->placement);
    return POLICY_PLACED;
}

static int torch_place(struct policy *policy, const struct policy_request *request,
                       struct policy_outcome *outcome)
{
    struct torch *torch = torch_of(policy);
    struct torch_want want = {.bytes =
                                  torch_settings_round(&torch->settings, request->requested_bytes)};
    outcome->blocks_scanned = 0;
    if (request->requested_bytes == 0)
        return POLICY_FULL; /* no pointer, and nothing else happens */
    if (torch_segments_reserve(torch, want.bytes) != 0 || torch_streams_reserve(torch) != 0)
        return WORSEGPU_NO_MEMORY;
    want.pool = want.bytes <= TORCH_SMALL_REQUEST ? TORCH_SMALL : TORCH_LARGE;
    want.stream = torch_stream_take(torch, request->stream);
    torch_events_look(torch);
    int verdict = find_and_hand_out(torch, request, &want, outcome);
    torch_stream_drop(torch, want.stream);
    return verdict;
}

/* ------------------------------------------------------------------------------ release */

static bool torch_release(struct policy *policy, const struct policy_placement *placement,
                          const struct policy_free *how)
{
    struct torch *torch = torch_of(policy);
    uint32_t block = (uint32_t)placement->cookie;
    const struct block *item = blocks_at(&torch->blocks, block);
    if (how->forget) {
        torch_events_forget(torch, block);
        blocks_set_state(&torch->blocks, block, BLOCK_FORGOTTEN);
        return false;
    }
    torch->oversize_allocations -= item->bytes >= torch->settings.max_split_bytes;
    if (item->own > 0) {
        blocks_set_state(&torch->blocks, block, BLOCK_PENDING);
        torch_events_record(torch, block);
    } else {
        torch_pool_give(torch, block);
    }
    return true;
}

static int torch_record_stream(struct policy *policy, const struct policy_placement *placement,
                               uint64_t stream)
{
    return torch_events_use(torch_of(policy), (uint32_t)placement->cookie, stream);
}

static void torch_event_done(struct policy *policy, uint64_t stream, uint64_t count, bool newest)
{
    torch_events_complete(torch_of(policy), stream, count, newest);
}

static void torch_empty_cache(struct policy *policy)
{
    torch_segments_empty(torch_of(policy));
}

/* ------------------------------------------------------------------------------ questions */

uint64_t torch_round_size(const struct policy *policy, uint64_t bytes)
{
    return torch_settings_round(&torch_seen(policy)->settings, bytes);
}

uint64_t torch_retries(const struct policy *policy)
{
    return torch_seen(policy)->retries;
}

static void torch_measure(const struct policy *policy, struct policy_measures *measures)
{
    const struct torch *torch = torch_seen(policy);
    blocks_measure_segments(&torch->blocks, measures);
    measures->segments = torch->segments.count[BLOCK_USED];
    measures->device_calls = torch->device.taken_calls + torch->device.given_calls;
    measures->retries = torch->retries;
}

/* Looks at the largest block of each stream in each pool: O(streams x log n). */
static uint64_t torch_largest_free(const struct policy *policy)
{
    const struct torch *torch = torch_seen(policy);
    uint64_t largest = 0;
    for (uint32_t stream = torch_stream_first(torch); stream != BLOCK_NONE;
         stream = torch_stream_next(torch, stream)) {
        for (int pool = 0; pool < TORCH_POOLS; pool++) {
            uint64_t greatest =
                block_order_greatest(&torch->streams[stream].free[pool], &torch->nodes);
            largest = greatest > largest ? greatest : largest;
        }
    }
    return largest;
}

static uint64_t stream_number(const void *context, const struct block *block)
{
    return torch_stream_of(context, block)->number;
}

static void torch_each_block(const struct policy *policy, policy_see see, void *context)
{
    const struct torch *torch = torch_seen(policy);
    blocks_each(&torch->blocks, stream_number, torch, see, context);
}

static void tell_free_list(const struct torch *torch, const struct statistics_sink *sink,
                           const char *name, enum torch_pool pool)
{
    sink->list_begin(sink->context, name);
    for (uint32_t stream = torch_stream_first(torch); stream != BLOCK_NONE;
         stream = torch_stream_next(torch, stream)) {
        const struct torch_stream *facts = &torch->streams[stream];
        for (uint32_t block = block_order_first(&facts->free[pool], &torch->nodes);
             block != BLOCK_NONE; block = block_order_next(&torch->nodes, block)) {
            const struct block *item = blocks_at(&torch->blocks, block);
            uint64_t row[] = {facts->number, item->offset, item->bytes};
            sink->row(sink->context, NULL, row, sizeof(row) / sizeof(row[0]));
        }
    }
    sink->list_end(sink->context);
}

static void torch_statistics(const struct policy *policy, const struct statistics_sink *sink)
{
    const struct torch *torch = torch_seen(policy);
    const struct blocks *blocks = &torch->blocks;
    uint64_t allocated_bytes = blocks->bytes[BLOCK_USED] + blocks->bytes[BLOCK_FORGOTTEN];
    uint64_t allocations = blocks->count[BLOCK_USED] + blocks->count[BLOCK_FORGOTTEN];
    const struct {
        const char *name;
        uint64_t value;
    } figures[] = {
        {"allocated_bytes", allocated_bytes},
        {"allocated_peak", torch->allocated_peak},
        {"reserved_bytes", torch->device.taken_bytes},
        {"reserved_peak", torch->device.peak_bytes},
        {"active_bytes", allocated_bytes + blocks->bytes[BLOCK_PENDING]},
        {"active_peak", torch->active_peak},
        {"inactive_split_bytes", torch->inactive_split_bytes},
        {"requested_bytes", torch->requested_bytes},
        {"allocations", allocations},
        {"active", allocations + blocks->count[BLOCK_PENDING]},
        {"segments", torch->regions},
        {"inactive_split", torch->inactive_split},
        {"small_reserved_bytes", torch->reserved_bytes[TORCH_SMALL]},
        {"num_alloc_retries", torch->retries},
        {"num_ooms", torch->ooms},
        {"num_sync_all_streams", torch->syncs},
        {"num_device_alloc", torch->device.taken_calls},
        {"num_device_free", torch->device.given_calls},
        {"oversize_allocations", torch->oversize_allocations},
        {"oversize_segments", torch->oversize_segments},
    };
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        sink->count(sink->context, figures[i].name, figures[i].value);
    sink->values(sink->context, "free_blocks", torch->free_blocks, TORCH_POOLS);
    sink->count(sink->context, "pending_events", torch->pending_events);
    if (!sink->lists)
        return;
    tell_free_list(torch, sink, "small", TORCH_SMALL);
    tell_free_list(torch, sink, "large", TORCH_LARGE);
}

#define TORCH_OPERATIONS                                                                           \
    .destroy = torch_destroy, .place = torch_place, .release = torch_release,                      \
    .measure = torch_measure, .check = torch_check, .knob_count = TORCH_KNOBS,                     \
    .knobs_fit = torch_knobs_fit, .record_stream = torch_record_stream,                            \
    .event_done = torch_event_done, .empty_cache = torch_empty_cache,                              \
    .statistics = torch_statistics, .largest_free = torch_largest_free,                            \
    .each_block = torch_each_block

const struct policy_operations policy_torch = {
    .name = "torch",
    .summary =
        "PyTorch's caching allocator: pools by stream, best fit, split and merge in segments.",
    .create = torch_create,
    .knobs = torch_knobs,
    TORCH_OPERATIONS,
};

const struct policy_operations policy_torch_expandable = {
    .name = "torch_expandable",
    .summary = "PyTorch's caching allocator with segments that grow page by page.",
    .create = torch_create_expandable,
    .knobs = expandable_knobs,
    TORCH_OPERATIONS,
};
