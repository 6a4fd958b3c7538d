/* Results as structs: allocators, allocations, accounts, events; see typed_results.h. */
#include "client/typed_results.h"

#include <string.h>

#include "base/memory.h"

/* ------------------------------------------------------------------------------ single results */

int typed_read_count(worsegpu_client *client, const char *name, uint64_t *count,
                     struct worsegpu_client_error *error)
{
    struct reader reader = reader_start(client, client->result_item);
    uint64_t value = reader_u64(&reader, name);
    if (count)
        *count = value;
    return reader_end(client, &reader, error);
}

/* The seed is shown as it was given: a string, or a number whose spelling is copied. NULL when it
 * is neither, or when there is no memory. */
static const char *read_seed(worsegpu_client *client, struct reader *reader)
{
    const cJSON *item = json_document_member(reader->object, "seed");
    if (cJSON_IsString(item))
        return item->valuestring;
    int64_t value;
    if (!json_document_i64(reader->document, item, &value)) {
        reader_miss(reader, "seed");
        return NULL;
    }
    size_t length;
    const char *spelling = json_document_spelling(reader->document, item, &length);
    if (client->page_bytes < length + 1) {
        void *grown =
            memory_resize_array(client->memory, client->page, client->page_bytes, length + 1, 1);
        if (!grown)
            return NULL;
        client->page = grown;
        client->page_bytes = length + 1;
    }
    memcpy(client->page, spelling, length);
    ((char *)client->page)[length] = '\0';
    return client->page;
}

int typed_read_config(worsegpu_client *client, struct worsegpu_client_config *config,
                      struct worsegpu_client_error *error)
{
    struct reader reader = reader_start(client, client->result_item);
    const cJSON *policy = json_document_member(client->result_item, "policy");
    const cJSON *knobs = json_document_member(client->result_item, "knobs");
    const cJSON *scan = json_document_member(client->result_item, "scan");
    if (!cJSON_IsString(policy))
        reader_miss(&reader, "policy");
    if (!cJSON_IsString(scan))
        reader_miss(&reader, "scan");
    *config = (struct worsegpu_client_config){
        .gpu_capacity_given = true,
        .gpu_probability_given = true,
        .forget_probability_given = true,
        .fallback_on_oom_given = true,
        .max_request_bytes_given = true,
        .trace_limit_given = true,
        .gpu_capacity = reader_u64(&reader, "gpu_capacity"),
        .gpu_probability = reader_double(&reader, "gpu_probability"),
        .forget_probability = reader_double(&reader, "forget_probability"),
        .fallback_on_oom = reader_bool(&reader, "fallback_on_oom"),
        .max_request_bytes = reader_u64(&reader, "max_request_bytes"),
        .trace_limit = reader_u64(&reader, "trace_limit"),
        .policy = cJSON_GetStringValue(policy),
        .knobs = cJSON_IsString(knobs) ? knobs->valuestring : "",
        .scan = cJSON_GetStringValue(scan),
        .seed = read_seed(client, &reader),
    };
    if (!reader.missing && !config->seed)
        return client_error_no_memory(error);
    return reader_end(client, &reader, error);
}

static void read_allocation(struct reader *reader, struct worsegpu_client_allocation *allocation)
{
    memset(allocation, 0, sizeof(*allocation));
    allocation->allocation_id = reader_u64(reader, "allocation_id");
    reader_text(reader, "handle", allocation->handle, sizeof(allocation->handle));
    allocation->requested_bytes = reader_u64(reader, "requested_bytes");
    allocation->reserved_bytes = reader_u64(reader, "reserved_bytes");
    allocation->device = reader_device(reader);
    const cJSON *index = json_document_member(reader->object, "block_index");
    if (!json_document_i64(reader->document, index, &allocation->block_index))
        reader_miss(reader, "block_index");
    if (allocation->device == WORSEGPU_CLIENT_GPU)
        allocation->offset = reader_u64(reader, "offset");
    else
        reader_text(reader, "reason", allocation->reason, sizeof(allocation->reason));
}

int worsegpu_client_read_allocation(worsegpu_client *client,
                                    struct worsegpu_client_allocation *allocation,
                                    struct worsegpu_client_error *error)
{
    struct reader reader = reader_start(client, client->result_item);
    read_allocation(&reader, allocation);
    return reader_end(client, &reader, error);
}

int worsegpu_client_read_release(worsegpu_client *client, struct worsegpu_client_release *release,
                                 struct worsegpu_client_error *error)
{
    struct reader reader = reader_start(client, client->result_item);
    release->allocation_id = reader_u64(&reader, "allocation_id");
    release->device = reader_device(&reader);
    release->released = reader_bool(&reader, "released");
    return reader_end(client, &reader, error);
}

static void read_fragmentation(struct reader *reader, struct worsegpu_client_snapshot *snapshot)
{
    size_t length = 0;
    const char *spelling = "";
    const cJSON *item = json_document_member(reader->object, "fragmentation");
    snapshot->fragmentation = reader_double(reader, "fragmentation");
    if (cJSON_IsNumber(item))
        spelling = json_document_spelling(reader->document, item, &length);
    if (length >= sizeof(snapshot->fragmentation_text)) {
        reader_miss(reader, "fragmentation");
        length = 0;
    }
    memcpy(snapshot->fragmentation_text, spelling, length);
    snapshot->fragmentation_text[length] = '\0';
}

int worsegpu_client_read_snapshot(worsegpu_client *client,
                                  struct worsegpu_client_snapshot *snapshot,
                                  struct worsegpu_client_error *error)
{
    struct reader reader = reader_start(client, client->result_item);
    memset(snapshot, 0, sizeof(*snapshot));
    snapshot->gpu_capacity = reader_u64(&reader, "gpu_capacity");
    snapshot->gpu_reserved = reader_u64(&reader, "gpu_reserved");
    snapshot->gpu_unreserved = reader_u64(&reader, "gpu_unreserved");
    snapshot->gpu_used = reader_u64(&reader, "gpu_used");
    snapshot->gpu_free = reader_u64(&reader, "gpu_free");
    snapshot->gpu_forgotten = reader_u64(&reader, "gpu_forgotten");
    snapshot->gpu_blocks = reader_u64(&reader, "gpu_blocks");
    snapshot->cpu_bytes = reader_u64(&reader, "cpu_bytes");
    snapshot->active_allocations = reader_u64(&reader, "active_allocations");
    snapshot->trace_events = reader_u64(&reader, "trace_events");
    read_fragmentation(&reader, snapshot);

    const cJSON *detail = json_document_member(client->result_item, "detail");
    if (!cJSON_IsObject(detail))
        reader_miss(&reader, "detail");
    reader.object = detail;
    reader_text(&reader, "policy", snapshot->detail.policy, sizeof(snapshot->detail.policy));
    reader_text(&reader, "scan", snapshot->detail.scan, sizeof(snapshot->detail.scan));
    snapshot->detail.blocks_scanned = reader_u64(&reader, "blocks_scanned");
    snapshot->detail.gpu_allocations = reader_u64(&reader, "gpu_allocations");
    snapshot->detail.cpu_allocations = reader_u64(&reader, "cpu_allocations");
    snapshot->detail.gpu_requested = reader_u64(&reader, "gpu_requested");
    snapshot->detail.gpu_forgotten_blocks = reader_u64(&reader, "gpu_forgotten_blocks");
    snapshot->detail.peak_gpu_used = reader_u64(&reader, "peak_gpu_used");
    snapshot->detail.peak_cpu_bytes = reader_u64(&reader, "peak_cpu_bytes");
    snapshot->detail.allocate_calls = reader_u64(&reader, "allocate_calls");
    snapshot->detail.free_calls = reader_u64(&reader, "free_calls");
    snapshot->detail.oom_fallbacks = reader_u64(&reader, "oom_fallbacks");
    snapshot->detail.oom_failures = reader_u64(&reader, "oom_failures");
    snapshot->detail.faults = reader_u64(&reader, "faults");
    snapshot->detail.last_sequence = reader_u64(&reader, "last_sequence");
    snapshot->detail.gpu_largest_free_given =
        reader_u64_if_given(&reader, "gpu_largest_free", &snapshot->detail.gpu_largest_free);
    reader_u64_if_given(&reader, "gpu_pending", &snapshot->detail.gpu_pending);
    reader_u64_if_given(&reader, "gpu_segments", &snapshot->detail.gpu_segments);
    reader_u64_if_given(&reader, "device_calls", &snapshot->detail.device_calls);
    reader_u64_if_given(&reader, "device_retries", &snapshot->detail.device_retries);
    return reader_end(client, &reader, error);
}

int typed_read_info(worsegpu_client *client, struct worsegpu_client_info *info,
                    struct worsegpu_client_error *error)
{
    struct reader reader = reader_start(client, client->result_item);
    memset(info, 0, sizeof(*info));
    reader_text(&reader, "server", info->server, sizeof(info->server));
    reader_text(&reader, "version", info->version, sizeof(info->version));
    info->protocol = reader_u64(&reader, "protocol");
    info->pid = reader_u64(&reader, "pid");
    info->uptime_seconds = reader_u64(&reader, "uptime_seconds");
    const cJSON *limits = json_document_member(client->result_item, "limits");
    if (!cJSON_IsObject(limits))
        reader_miss(&reader, "limits");
    reader.object = limits;
    info->max_line_bytes = reader_u64(&reader, "max_line_bytes");
    info->max_json_depth = reader_u64(&reader, "max_json_depth");
    info->max_connections = reader_u64(&reader, "max_connections");
    info->max_connections_per_user = reader_u64(&reader, "max_connections_per_user");
    info->max_allocators_per_connection = reader_u64(&reader, "max_allocators_per_connection");
    info->max_live_allocations = reader_u64(&reader, "max_live_allocations");
    info->max_output_bytes = reader_u64(&reader, "max_output_bytes");
    info->max_trace_limit = reader_u64(&reader, "max_trace_limit");
    return reader_end(client, &reader, error);
}

/* ------------------------------------------------------------------------------ pages */

void typed_read_event(struct reader *reader, struct worsegpu_client_event *event)
{
    memset(event, 0, sizeof(*event));
    event->sequence = reader_u64(reader, "sequence");
    reader_text(reader, "operation", event->operation, sizeof(event->operation));
    reader_text_if_given(reader, "reason", event->reason, sizeof(event->reason));
    bool fault = strcmp(event->operation, "fault") == 0;
    bool nowhere = fault || strcmp(event->operation, "event_done") == 0 ||
                   strcmp(event->operation, "empty_cache") == 0;
    event->device = nowhere ? WORSEGPU_CLIENT_GPU : reader_device(reader);
    if (fault) {
        reader_text(reader, "action", event->action, sizeof(event->action));
        event->rule = reader_u64(reader, "rule");
    }
    event->released = cJSON_IsTrue(json_document_member(reader->object, "released"));
    reader_u64_if_given(reader, "allocation_id", &event->allocation_id);
    reader_u64_if_given(reader, "requested_bytes", &event->requested_bytes);
    reader_u64_if_given(reader, "reserved_bytes", &event->reserved_bytes);
    event->time_given = reader_u64_if_given(reader, "time_us", &event->time_us);
    event->client_given = reader_u64_if_given(reader, "client", &event->client);
    event->stream_given = reader_u64_if_given(reader, "stream", &event->stream);
    reader_u64_if_given(reader, "alignment", &event->alignment);
    event->upper = cJSON_IsTrue(json_document_member(reader->object, "upper"));
    reader_u64_if_given(reader, "count", &event->count);
    event->newest = cJSON_IsTrue(json_document_member(reader->object, "newest"));
    reader_text_if_given(reader, "tag", event->tag, sizeof(event->tag));
    reader_text_if_given(reader, "name", event->name, sizeof(event->name));
}

int typed_read_trace(worsegpu_client *client, uint64_t after, struct worsegpu_client_trace *page,
                     struct worsegpu_client_error *error)
{
    struct reader reader = reader_start(client, client->result_item);
    void *items;
    int status = reader_page(client, &reader, "events", sizeof(struct worsegpu_client_event),
                             &items, &page->count, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct worsegpu_client_event *events = items;
    page->events = events;
    reader_page_end(&reader, after, &page->next, &page->more);
    page->dropped = reader_u64(&reader, "dropped");
    size_t index = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, json_document_member(client->result_item, "events"))
    {
        reader.object = item;
        if (events)
            typed_read_event(&reader, &events[index++]);
    }
    return reader_end(client, &reader, error);
}

static void read_listed(struct reader *reader, struct worsegpu_client_allocation *allocation)
{
    read_allocation(reader, allocation);
    reader_text_if_given(reader, "tag", allocation->tag, sizeof(allocation->tag));
    allocation->stream_given = reader_u64_if_given(reader, "stream", &allocation->stream);
    allocation->client_given = reader_u64_if_given(reader, "client", &allocation->client);
    allocation->detached = reader_bool(reader, "detached");
}

int typed_read_list(worsegpu_client *client, uint64_t after, struct worsegpu_client_list *page,
                    struct worsegpu_client_error *error)
{
    struct reader reader = reader_start(client, client->result_item);
    void *items;
    int status =
        reader_page(client, &reader, "allocations", sizeof(struct worsegpu_client_allocation),
                    &items, &page->count, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct worsegpu_client_allocation *allocations = items;
    page->allocations = allocations;
    reader_page_end(&reader, after, &page->next, &page->more);
    size_t index = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, json_document_member(client->result_item, "allocations"))
    {
        reader.object = item;
        if (allocations)
            read_listed(&reader, &allocations[index++]);
    }
    return reader_end(client, &reader, error);
}
