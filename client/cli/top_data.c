/* What `top` knows; see top_data.h. */
#include "client/cli/top_data.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "client/client_state.h"

enum {
    MOST_NEWS = 100000 /* events taken at one look, so that keys are heard all the same */
};

void top_data_init(struct top_data *data, struct cli *cli)
{
    memset(data, 0, sizeof(*data));
    data->cli = cli;
    gpus_init(&data->gpus, cli->memory);
    if (cli_allocator(cli))
        snprintf(data->wanted, sizeof(data->wanted), "%s", cli_allocator(cli));
}

void top_data_release(struct top_data *data)
{
    const struct worsegpu_memory *memory = data->cli->memory;
    worsegpu_client_disconnect(data->client);
    gpus_release(&data->gpus);
    memory_release_array(memory, data->cells, data->cell_capacity, sizeof(*data->cells));
    memory_release_array(memory, data->processes, data->process_capacity, sizeof(*data->processes));
    memory_release_array(memory, data->before, data->before_capacity, sizeof(*data->before));
}

/* ------------------------------------------------------------------------------ processes */

static int by_client(const void *left, const void *right)
{
    const struct worsegpu_client_peer *a = &((const struct top_process *)left)->peer;
    const struct worsegpu_client_peer *b = &((const struct top_process *)right)->peer;
    return (a->client > b->client) - (a->client < b->client);
}

static int by_gpu(const void *left, const void *right)
{
    const struct worsegpu_client_peer *a = &((const struct top_process *)left)->peer;
    const struct worsegpu_client_peer *b = &((const struct top_process *)right)->peer;
    int order = (a->gpu_bytes < b->gpu_bytes) - (a->gpu_bytes > b->gpu_bytes);
    return order != 0 ? order : by_client(left, right);
}

static int by_allocations(const void *left, const void *right)
{
    const struct worsegpu_client_peer *a = &((const struct top_process *)left)->peer;
    const struct worsegpu_client_peer *b = &((const struct top_process *)right)->peer;
    int order = (a->allocations < b->allocations) - (a->allocations > b->allocations);
    return order != 0 ? order : by_client(left, right);
}

static void sort(struct top_data *data)
{
    static int (*const orders[TOP_SORTS])(const void *, const void *) = {
        [TOP_BY_GPU] = by_gpu, [TOP_BY_ALLOCATIONS] = by_allocations, [TOP_BY_CLIENT] = by_client};
    if (data->view.process_count > 0)
        qsort(data->processes, data->view.process_count, sizeof(*data->processes),
              orders[data->view.sort]);
}

/* How many requests each has made since the last look. Both lists are by connection. */
static uint64_t count_requests(struct top_data *data, double seconds)
{
    uint64_t sum = 0;
    size_t old = 0;
    for (size_t i = 0; i < data->view.process_count; i++) {
        struct top_process *process = &data->processes[i];
        while (old < data->before_count && data->before[old].peer.client < process->peer.client)
            old++;
        uint64_t before = 0;
        if (old < data->before_count && data->before[old].peer.client == process->peer.client)
            before = data->before[old].peer.requests;
        uint64_t made = process->peer.requests >= before ? process->peer.requests - before : 0;
        process->requests = seconds > 0.0 ? (double)made / seconds : 0.0;
        sum += made;
    }
    return sum;
}

static int take_processes(struct top_data *data, double seconds, uint64_t *requests,
                          struct worsegpu_client_error *error)
{
    const struct worsegpu_memory *memory = data->cli->memory;
    size_t count = data->gpus.peer_count;
    data->view.process_count = 0;
    if (memory_grow(memory, &data->processes, &data->process_capacity, count + 1,
                    sizeof(*data->processes)) != 0 ||
        memory_grow(memory, &data->before, &data->before_capacity, count + 1,
                    sizeof(*data->before)) != 0)
        return client_error_no_memory(error);
    for (size_t i = 0; i < count; i++)
        data->processes[i] = (struct top_process){.peer = data->gpus.peers[i], .rank = i};
    data->view.processes = data->processes;
    data->view.process_count = count;
    *requests = count_requests(data, seconds);
    memcpy(data->before, data->processes, count * sizeof(*data->processes));
    data->before_count = count;
    sort(data);
    return WORSEGPU_CLIENT_OK;
}

/* ------------------------------------------------------------------------------ the GPU */

/* The GPU to show: the wanted one, or else the first. */
static const struct gpu *choose(struct top_data *data)
{
    size_t index = 0;
    for (size_t i = 0; i < data->gpus.count; i++) {
        if (strcmp(data->gpus.items[i].name, data->wanted) == 0)
            index = i;
    }
    struct top_view *view = &data->view;
    if (data->gpus.count == 0)
        return NULL;
    const struct gpu *gpu = &data->gpus.items[index];
    if (strcmp(view->gpu, gpu->name) != 0)
        data->counters.known = false;
    snprintf(view->gpu, sizeof(view->gpu), "%s", gpu->name);
    view->gpu_index = index;
    view->gpu_count = data->gpus.count;
    view->snapshot = gpu->snapshot;
    return gpu;
}

static int take_map(struct top_data *data, size_t map_cells, struct worsegpu_client_error *error)
{
    struct worsegpu_client_map map;
    int status = worsegpu_client_map(data->client, data->view.gpu, 0, 0, map_cells, &map, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    data->view.cell_count = 0;
    if (memory_grow(data->cli->memory, &data->cells, &data->cell_capacity, map.count + 1,
                    sizeof(*data->cells)) != 0)
        return client_error_no_memory(error);
    for (size_t i = 0; i < map.count; i++)
        data->cells[i] = map.cells[i];
    data->view.cells = data->cells;
    data->view.cell_count = map.count;
    data->view.cell_bytes = map.cell_bytes;
    return WORSEGPU_CLIENT_OK;
}

static double rate(uint64_t now, uint64_t before, double seconds)
{
    return now >= before ? (double)(now - before) / seconds : 0.0;
}

static void take_rates(struct top_data *data, uint64_t time_ms, double seconds, uint64_t requests)
{
    struct top_rates *rates = &data->view.rates;
    struct top_counters *counters = &data->counters;
    const struct worsegpu_client_snapshot *snapshot = &data->view.snapshot;
    uint64_t full = snapshot->detail.oom_fallbacks + snapshot->detail.oom_failures;
    *rates = (struct top_rates){.known = counters->known && seconds > 0.0};
    if (rates->known) {
        rates->allocations = rate(snapshot->detail.allocate_calls, counters->allocations, seconds);
        rates->frees = rate(snapshot->detail.free_calls, counters->frees, seconds);
        rates->full = rate(full, counters->full, seconds);
        rates->requests = (double)requests / seconds;
    }
    *counters = (struct top_counters){.known = true,
                                      .time_ms = time_ms,
                                      .allocations = snapshot->detail.allocate_calls,
                                      .frees = snapshot->detail.free_calls,
                                      .full = full};
}

/* ------------------------------------------------------------------------------ events */

static char *add_event(struct top_view *view)
{
    if (view->event_count == TOP_EVENTS) {
        memmove(view->events[0], view->events[1], sizeof(view->events) - sizeof(view->events[0]));
        view->event_count--;
    }
    return view->events[view->event_count++];
}

static void describe(const struct worsegpu_client_event *event, char text[TOP_EVENT_SIZE])
{
    size_t length = 0;
    char piece[TOP_EVENT_SIZE];
    const char *device = event->device == WORSEGPU_CLIENT_GPU ? "gpu" : "cpu";
    snprintf(text, TOP_EVENT_SIZE, "%" PRIu64 " %s", event->sequence, event->operation);
#define ADD(condition, ...)                                                                        \
    if (condition) {                                                                               \
        length = strlen(text);                                                                     \
        snprintf(piece, sizeof(piece), __VA_ARGS__);                                               \
        snprintf(text + length, TOP_EVENT_SIZE - length, " %s", piece);                            \
    }
    ADD(event->allocation_id > 0, "%" PRIu64, event->allocation_id)
    ADD(event->requested_bytes > 0, "%" PRIu64 " bytes", event->requested_bytes)
    ADD(event->allocation_id > 0 && event->rule == 0, "%s", device)
    ADD(event->released, "released")
    ADD(event->reason[0] != '\0', "%s", event->reason)
    ADD(event->rule > 0, "%s by rule %" PRIu64, event->action, event->rule)
    ADD(event->client_given, "client %" PRIu64, event->client)
    ADD(event->name[0] != '\0', "%s", event->name)
    ADD(event->tag[0] != '\0', "tag %s", event->tag)
#undef ADD
}

/* Has the events of the GPU that is shown sent, the newest retained ones first. An allocator may
 * refuse that: then there are none. */
static int subscribe(struct top_data *data, struct worsegpu_client_error *error)
{
    struct top_view *view = &data->view;
    if (strcmp(data->subscribed, view->gpu) == 0)
        return WORSEGPU_CLIENT_OK;
    int status = WORSEGPU_CLIENT_OK;
    if (data->subscribed[0] != '\0')
        status = worsegpu_client_unsubscribe(data->client, data->subscribed, error);
    if (status != WORSEGPU_CLIENT_OK && status != WORSEGPU_CLIENT_REFUSED)
        return status;
    view->event_count = 0;
    uint64_t last = view->snapshot.detail.last_sequence;
    uint64_t retained = view->snapshot.trace_events;
    uint64_t wanted = retained < TOP_EVENTS ? retained : TOP_EVENTS;
    uint64_t after = last > wanted ? last - wanted : 0;
    snprintf(data->subscribed, sizeof(data->subscribed), "%s", view->gpu);
    status = worsegpu_client_subscribe(data->client, view->gpu, &after, NULL, error);
    return status == WORSEGPU_CLIENT_REFUSED ? WORSEGPU_CLIENT_OK : status;
}

static int take_events(struct top_data *data, struct worsegpu_client_error *error)
{
    for (size_t i = 0; i < MOST_NEWS; i++) {
        struct worsegpu_client_notice notice;
        bool taken;
        int status = worsegpu_client_take_event(data->client, &notice, &taken, error);
        if (status != WORSEGPU_CLIENT_OK || !taken)
            return status;
        if (notice.allocator[0] != '\0' && strcmp(notice.allocator, data->view.gpu) != 0)
            continue; /* those of the GPU before */
        char *text = add_event(&data->view);
        if (notice.missed > 0)
            snprintf(text, TOP_EVENT_SIZE, "%" PRIu64 " events missed", notice.missed);
        else
            describe(&notice.event, text);
    }
    return WORSEGPU_CLIENT_OK;
}

/* ------------------------------------------------------------------------------ looking */

static int connect_again(struct top_data *data, struct worsegpu_client_error *error)
{
    int status = cli_try_connect(data->cli, &data->client, error);
    if (status != WORSEGPU_CLIENT_OK)
        data->client = NULL;
    data->subscribed[0] = '\0';
    data->before_count = 0;
    data->counters.known = false;
    return status;
}

static int look(struct top_data *data, size_t map_cells, uint64_t time_ms,
                struct worsegpu_client_error *error)
{
    struct top_view *view = &data->view;
    uint64_t requests = 0;
    int status = data->client ? WORSEGPU_CLIENT_OK : connect_again(data, error);
    if (status == WORSEGPU_CLIENT_OK)
        status = gpus_read(&data->gpus, data->client, NULL, NULL, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    snprintf(view->daemon, sizeof(view->daemon), "%s %s, process %" PRIu64, data->gpus.info.server,
             data->gpus.info.version, data->gpus.info.pid);
    if (!choose(data))
        return WORSEGPU_CLIENT_OK;
    double seconds =
        data->counters.known ? (double)(time_ms - data->counters.time_ms) / 1000.0 : 0.0;
    status = take_map(data, map_cells, error);
    if (status == WORSEGPU_CLIENT_OK)
        status = gpus_read_peers(&data->gpus, data->client, NULL, error);
    if (status == WORSEGPU_CLIENT_OK)
        status = take_processes(data, seconds, &requests, error);
    if (status == WORSEGPU_CLIENT_OK)
        take_rates(data, time_ms, seconds, requests);
    if (status == WORSEGPU_CLIENT_OK)
        status = subscribe(data, error);
    return status == WORSEGPU_CLIENT_OK ? take_events(data, error) : status;
}

int top_data_look(struct top_data *data, size_t map_cells, uint64_t time_ms,
                  struct worsegpu_client_error *error)
{
    int status = look(data, map_cells, time_ms, error);
    data->view.trouble[0] = '\0';
    if (status == WORSEGPU_CLIENT_OK)
        return status;
    /* The end is cut on a narrow screen, and a socket's path may be long: what is done about it
     * comes first. */
    snprintf(data->view.trouble, sizeof(data->view.trouble), "trying again: %.180s",
             error->message);
    if (status != WORSEGPU_CLIENT_REFUSED) {
        worsegpu_client_disconnect(data->client);
        data->client = NULL;
    }
    return status;
}

void top_data_next_gpu(struct top_data *data)
{
    if (data->gpus.count == 0)
        return;
    size_t next = (data->view.gpu_index + 1) % data->gpus.count;
    snprintf(data->wanted, sizeof(data->wanted), "%s", data->gpus.items[next].name);
}

void top_data_next_sort(struct top_data *data)
{
    data->view.sort = (data->view.sort + 1) % TOP_SORTS;
    sort(data);
}
