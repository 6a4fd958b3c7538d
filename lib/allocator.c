/* The façade of the engine: one request in, one decision out, one event recorded.
 *
 * The order inside worsegpu_allocate is what makes failures harmless: checks first, then every
 * piece of memory that may be needed, then randomness for the handle, then the policy's draws, and
 * from there on nothing can fail. Only two can still say no after the draws, the caller's own
 * `admit` and a host pool whose counter is nearly full: where one of them may, the random stream is
 * kept as it was before, and put back if it does. */
#include <string.h>

#include "base/memory.h"
#include "lib/allocator_internal.h"

enum {
    WORDS_OF_A_DECISION = 128 /* of the random stream; more than any takes */
};

void allocator_lock(worsegpu_allocator *allocator)
{
    if (!allocator->config.single_threaded)
        pthread_mutex_lock(&allocator->mutex);
}

void allocator_unlock(worsegpu_allocator *allocator)
{
    if (!allocator->config.single_threaded)
        pthread_mutex_unlock(&allocator->mutex);
}

void allocator_describe(const struct handle_record *record, struct worsegpu_allocation *allocation)
{
    allocation->handle.allocation_id = record->id;
    memcpy(allocation->handle.secret, record->secret, SECRET_BYTES);
    allocation->requested_bytes = record->requested_bytes;
    allocation->reserved_bytes = record->reserved_bytes;
    allocation->device = (enum worsegpu_device)record->device;
    allocation->reason = (enum worsegpu_reason)record->reason;
    allocation->block_index = record->block_index;
    allocation->offset = record->offset;
    allocation->stream = record->stream;
    allocation->stream_given = record->stream_given;
    allocation->tag = record->tag;
    allocation->tag_bytes = record->tag_bytes;
    allocation->owner = record->owner;
}

struct policy_placement allocator_placement(const struct handle_record *record)
{
    return (struct policy_placement){
        .reserved_bytes = record->reserved_bytes,
        .offset = record->offset,
        .block_index = record->block_index,
        .cookie = record->cookie,
    };
}

/* ------------------------------------------------------------------------------ allocate */

static bool tag_is_fine(const char *tag, size_t tag_bytes)
{
    return tag ? tag_bytes >= 1 && tag_bytes <= WORSEGPU_MAX_TAG_BYTES : tag_bytes == 0;
}

static bool alignment_is_fine(uint64_t alignment)
{
    return alignment <= WORSEGPU_MAX_ALIGNMENT && (alignment & (alignment - 1)) == 0;
}

static bool request_is_fine(const worsegpu_allocator *allocator,
                            const struct worsegpu_request *request)
{
    bool size_fine = request->requested_bytes >= 1 &&
                     request->requested_bytes <= allocator->config.max_request_bytes;
    return size_fine && alignment_is_fine(request->alignment) &&
           tag_is_fine(request->tag, request->tag_bytes);
}

/* As a trace keeps it. */
static uint8_t packed_alignment(uint64_t alignment)
{
    return (uint8_t)(alignment ? __builtin_ctzll(alignment) + 1 : 0);
}

static void record_allocate(worsegpu_allocator *allocator, const struct worsegpu_request *request,
                            const struct handle_record *record)
{
    struct trace_record event = {
        .allocation_id = record->id,
        .requested_bytes = request->requested_bytes,
        .reserved_bytes = record->reserved_bytes,
        .stream = request->stream,
        .client = request->client,
        .user = request->user,
        .time_us = request->time_us,
        .operation = WORSEGPU_ALLOCATE,
        .device = record->device,
        .reason = record->reason,
        .tag_bytes = record->tag_bytes,
        .stream_given = request->stream_given,
        .upper = request->upper,
        .alignment = packed_alignment(request->alignment),
    };
    trace_push(&allocator->trace, &event, request->tag);
}

static void record_failure(worsegpu_allocator *allocator, const struct worsegpu_request *request)
{
    struct trace_record event = {
        .requested_bytes = request->requested_bytes,
        .stream = request->stream,
        .client = request->client,
        .user = request->user,
        .time_us = request->time_us,
        .operation = WORSEGPU_ALLOCATE_FAILED,
        .device = WORSEGPU_GPU,
        .reason = WORSEGPU_GPU_OOM,
        .tag_bytes = (uint8_t)request->tag_bytes,
        .stream_given = request->stream_given,
        .upper = request->upper,
        .alignment = packed_alignment(request->alignment),
    };
    trace_push(&allocator->trace, &event, request->tag);
}

/* Notes a placement on the GPU in the record and the counters. */
static void put_on_gpu(worsegpu_allocator *allocator, const struct policy_placement *placement,
                       struct handle_record *record)
{
    struct allocator_counters *counters = &allocator->counters;
    record->device = WORSEGPU_GPU;
    record->reason = WORSEGPU_NO_REASON;
    record->reserved_bytes = placement->reserved_bytes;
    record->offset = placement->offset;
    record->block_index = placement->block_index;
    record->cookie = placement->cookie;
    counters->gpu_allocations++;
    counters->gpu_requested += record->requested_bytes;
    counters->gpu_used += placement->reserved_bytes;
    if (counters->gpu_used > counters->peak_gpu_used)
        counters->peak_gpu_used = counters->gpu_used;
}

static void put_on_host(worsegpu_allocator *allocator, enum worsegpu_reason reason,
                        struct handle_record *record)
{
    record->device = WORSEGPU_CPU;
    record->reason = (uint8_t)reason;
    record->reserved_bytes = record->requested_bytes;
    record->offset = 0;
    record->block_index = -1;
    record->cookie = 0;
    host_pool_add(&allocator->host, record->requested_bytes);
    if (reason == WORSEGPU_GPU_OOM)
        allocator->counters.oom_fallbacks++;
}

/* Where it shall go, as policy_verdict. */
static int ask_policy(worsegpu_allocator *allocator, const struct worsegpu_request *request,
                      struct policy_outcome *outcome)
{
    struct policy_request wish = {
        .requested_bytes = request->requested_bytes,
        .stream = request->stream,
        .alignment = request->alignment,
        .upper = request->upper,
        .admit = request->admit,
        .admit_context = request->admit_context,
    };
    return allocator->policy->operations->place(allocator->policy, &wish, outcome);
}

/* Whether the host may take it: WORSEGPU_OK, WORSEGPU_LIMIT_EXCEEDED or WORSEGPU_NOT_ADMITTED. */
static int admit_to_host(const struct worsegpu_request *request, bool host_has_room)
{
    if (!host_has_room)
        return WORSEGPU_LIMIT_EXCEEDED;
    if (request->admit &&
        !request->admit(request->admit_context, WORSEGPU_CPU, request->requested_bytes))
        return WORSEGPU_NOT_ADMITTED;
    return WORSEGPU_OK;
}

/* Notes where the random stream is, so that a decision's draws can be taken back. Its words change
 * only when new ones are made: they are copied where that may happen within the decision. (A size
 * can be drawn again and again; a hundred times in a row is about as likely as to guess a handle.)
 */
static void note_random(worsegpu_allocator *allocator)
{
    allocator->random_is_kept = allocator->random.next > PYTHON_RANDOM_WORDS - WORDS_OF_A_DECISION;
    if (allocator->random_is_kept)
        allocator->random_before = allocator->random;
    allocator->random_before.next = allocator->random.next;
}

static void take_random_back(worsegpu_allocator *allocator)
{
    if (allocator->random_is_kept)
        allocator->random = allocator->random_before;
    else if (allocator->random.next >= allocator->random_before.next)
        allocator->random.next = allocator->random_before.next;
}

/* Asks the policy and carries out what it says. On WORSEGPU_OK the record says where the allocation
 * is, and all accounts have it. */
static int decide(worsegpu_allocator *allocator, const struct worsegpu_request *request,
                  struct handle_record *record)
{
    bool host_has_room = host_pool_has_room(&allocator->host, request->requested_bytes);
    if (!host_has_room || request->admit)
        note_random(allocator);

    struct policy_outcome outcome = {.blocks_scanned = 0};
    int verdict = request->force_host ? POLICY_FULL : ask_policy(allocator, request, &outcome);
    if (verdict < 0)
        return verdict;
    if (verdict == POLICY_FULL && !request->force_host && !allocator->config.fallback_on_oom) {
        allocator->counters.blocks_scanned += outcome.blocks_scanned;
        allocator->counters.oom_failures++;
        record_failure(allocator, request);
        return WORSEGPU_OUT_OF_MEMORY;
    }
    int status = WORSEGPU_OK;
    if (verdict == POLICY_NOT_ADMITTED)
        status = WORSEGPU_NOT_ADMITTED;
    else if (verdict != POLICY_PLACED)
        status = admit_to_host(request, host_has_room);
    if (status != WORSEGPU_OK) {
        take_random_back(allocator);
        return status;
    }
    allocator->counters.blocks_scanned += outcome.blocks_scanned;
    if (verdict == POLICY_PLACED)
        put_on_gpu(allocator, &outcome.placement, record);
    else
        put_on_host(allocator, verdict == POLICY_FULL ? WORSEGPU_GPU_OOM : WORSEGPU_PROBABILITY,
                    record);
    return WORSEGPU_OK;
}

static int allocate(worsegpu_allocator *allocator, const struct worsegpu_request *request,
                    struct worsegpu_allocation *allocation)
{
    if (!request_is_fine(allocator, request))
        return WORSEGPU_INVALID_ARGUMENT;
    if (allocator->live.live >= allocator->config.max_live_allocations)
        return WORSEGPU_LIMIT_EXCEEDED;
    int status = handle_table_reserve(&allocator->live);
    if (status != WORSEGPU_OK)
        return status;

    struct handle_record record = {
        .requested_bytes = request->requested_bytes,
        .stream = request->stream,
        .user = request->user,
        .tag_bytes = (uint8_t)request->tag_bytes,
        .stream_given = request->stream_given,
        .owner = request->owner,
    };
    if (request->tag) {
        record.tag = tag_pool_take(&allocator->live.tags, request->tag_bytes);
        if (!record.tag)
            return WORSEGPU_NO_MEMORY;
        memcpy(record.tag, request->tag, request->tag_bytes);
    }
    status = secrets_prepare(&allocator->secrets);
    if (status == WORSEGPU_OK)
        status = decide(allocator, request, &record);
    if (status != WORSEGPU_OK) {
        tag_pool_give(&allocator->live.tags, record.tag, request->tag_bytes);
        return status;
    }
    record.id = ++allocator->counters.last_id;
    secrets_take(&allocator->secrets, record.secret);
    handle_table_append(&allocator->live, &record);
    allocator->counters.allocate_calls++;
    record_allocate(allocator, request, &record);
    allocator_describe(&record, allocation);
    return WORSEGPU_OK;
}

int worsegpu_allocate(worsegpu_allocator *allocator, const struct worsegpu_request *request,
                      struct worsegpu_allocation *allocation)
{
    allocator_lock(allocator);
    int status = allocate(allocator, request, allocation);
    allocator_unlock(allocator);
    return status;
}

/* ------------------------------------------------------------------------------ find and free */

/* Compares all bytes, whatever the first ones say, so that time tells nothing about a secret. */
static bool same_secret(const uint8_t left[SECRET_BYTES], const uint8_t right[SECRET_BYTES])
{
    unsigned difference = 0;
    for (size_t i = 0; i < SECRET_BYTES; i++)
        difference |= (unsigned)(left[i] ^ right[i]);
    return difference == 0;
}

struct handle_record *allocator_find(const worsegpu_allocator *allocator,
                                     const struct worsegpu_handle *handle)
{
    struct handle_record *record = handle_table_find(&allocator->live, handle->allocation_id);
    return record && same_secret(record->secret, handle->secret) ? record : NULL;
}

int worsegpu_find(worsegpu_allocator *allocator, const struct worsegpu_handle *handle,
                  struct worsegpu_allocation *allocation)
{
    allocator_lock(allocator);
    const struct handle_record *record = allocator_find(allocator, handle);
    if (record)
        allocator_describe(record, allocation);
    allocator_unlock(allocator);
    return record ? WORSEGPU_OK : WORSEGPU_UNKNOWN_HANDLE;
}

/* Takes an allocation out of the pool where it lies. false: the policy has forgotten its block. */
static bool give_back(worsegpu_allocator *allocator, const struct handle_record *record,
                      const struct policy_free *how)
{
    if (record->device == WORSEGPU_CPU) {
        host_pool_remove(&allocator->host, record->requested_bytes);
        return true;
    }
    struct policy_placement placement = allocator_placement(record);
    allocator->counters.gpu_allocations--;
    allocator->counters.gpu_requested -= record->requested_bytes;
    allocator->counters.gpu_used -= record->reserved_bytes;
    return allocator->policy->operations->release(allocator->policy, &placement, how);
}

static void release(worsegpu_allocator *allocator, struct handle_record *record,
                    const struct worsegpu_freeing *freeing, struct worsegpu_release *result)
{
    struct policy_free how = {
        .stream = freeing->stream_given ? freeing->stream : record->stream,
        .forget = freeing->forget,
    };
    bool released = give_back(allocator, record, &how);
    allocator->counters.free_calls++;
    struct trace_record event = {
        .allocation_id = record->id,
        .stream = how.stream,
        .client = freeing->client,
        .user = record->user,
        .time_us = freeing->time_us,
        .operation = WORSEGPU_FREE,
        .device = record->device,
        .reason = released ? WORSEGPU_NO_REASON : WORSEGPU_FORGOTTEN,
        .tag_bytes = record->tag_bytes,
        .released = released,
        .stream_given = record->stream_given || freeing->stream_given,
    };
    trace_push(&allocator->trace, &event, record->tag);
    if (result) {
        result->allocation_id = record->id;
        result->device = (enum worsegpu_device)record->device;
        result->released = released;
        result->owner = record->owner;
    }
    handle_table_remove(&allocator->live, record);
}

int worsegpu_free_on(worsegpu_allocator *allocator, const struct worsegpu_handle *handle,
                     const struct worsegpu_freeing *how, struct worsegpu_release *result)
{
    allocator_lock(allocator);
    struct handle_record *record = allocator_find(allocator, handle);
    if (record)
        release(allocator, record, how, result);
    allocator_unlock(allocator);
    return record ? WORSEGPU_OK : WORSEGPU_UNKNOWN_HANDLE;
}

int worsegpu_free(worsegpu_allocator *allocator, const struct worsegpu_handle *handle,
                  uint64_t client, uint64_t time_us, struct worsegpu_release *result)
{
    const struct worsegpu_freeing how = {.client = client, .time_us = time_us};
    return worsegpu_free_on(allocator, handle, &how, result);
}

int worsegpu_forget(worsegpu_allocator *allocator, const struct worsegpu_handle *handle,
                    uint64_t client, uint64_t time_us, struct worsegpu_release *result)
{
    const struct worsegpu_freeing how = {.forget = true, .client = client, .time_us = time_us};
    return worsegpu_free_on(allocator, handle, &how, result);
}

/* ------------------------------------------------------------------------------ resize, faults */

int worsegpu_resize(worsegpu_allocator *allocator, uint64_t gpu_capacity)
{
    if (gpu_capacity < 1 || gpu_capacity > WORSEGPU_MAX_BYTES)
        return WORSEGPU_INVALID_ARGUMENT;
    allocator_lock(allocator);
    allocator->config.gpu_capacity = gpu_capacity;
    if (gpu_capacity > allocator->largest_capacity_bytes)
        allocator->largest_capacity_bytes = gpu_capacity;
    allocator_unlock(allocator);
    return WORSEGPU_OK;
}

int worsegpu_record_fault(worsegpu_allocator *allocator, const struct worsegpu_fault *fault)
{
    if ((unsigned)fault->action >= WORSEGPU_FAULT_ACTIONS ||
        !tag_is_fine(fault->tag, fault->tag_bytes))
        return WORSEGPU_INVALID_ARGUMENT;
    struct trace_record event = {
        .allocation_id = fault->allocation_id,
        .requested_bytes = fault->requested_bytes,
        .stream = fault->stream,
        .client = fault->client,
        .user = fault->user,
        .time_us = fault->time_us,
        .rule = fault->rule,
        .operation = WORSEGPU_FAULT,
        .action = (uint8_t)fault->action,
        .tag_bytes = (uint8_t)fault->tag_bytes,
        .stream_given = fault->stream_given,
    };
    allocator_lock(allocator);
    allocator->counters.faults++;
    trace_push(&allocator->trace, &event, fault->tag);
    allocator_unlock(allocator);
    return WORSEGPU_OK;
}
