/* From the parts of a torch snapshot to what they mean; see torch_snapshot.h. */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "lab/logs/torch_parts.h"
#include "lab/logs/torch_snapshot.h"

enum {
    MOST_TRACES = 1024 /* each of them is walked through */
};

struct torch_snapshot {
    const struct worsegpu_memory *memory;
    struct torch_parts parts;
    unsigned int protocol;
    struct torch_snapshot_settings settings;

    struct torch_segment *segments;
    size_t segments_capacity;
    size_t segment_count;
    struct torch_block *blocks;
    size_t blocks_capacity;
    size_t block_count;
    size_t *traces; /* the list of each device, SIZE_MAX: an empty one */
    size_t traces_capacity;
    uint32_t trace_count;
    uint32_t devices;
};

/* ------------------------------------------------------------------------------ the picture */

/* The list in a value: *list NULL where it is empty. */
static int list_in(const struct torch_parts *parts, const struct pickle_value *value,
                   uint64_t place, const char *what, const struct torch_list **list)
{
    *list = NULL;
    if (value->kind == PICKLE_LIST && value->payload == 0)
        return LOG_FINE;
    if (value->kind != PICKLE_KEPT || value->type != TORCH_LIST)
        return log_bad(parts->problem, true, place, "\"%s\" is not a list of what it should hold",
                       what);
    *list = &parts->lists[value->payload];
    if ((*list)->others > 0)
        return log_bad(parts->problem, true, place,
                       "\"%s\" has %" PRIu64 " elements that are not what it should hold", what,
                       (*list)->others);
    return LOG_FINE;
}

static uint64_t requested_of(const struct torch_parts *parts, const struct torch_raw_block *block)
{
    if (block->requested_bytes != UINT64_MAX && block->requested_bytes > 0)
        return block->requested_bytes;
    if (block->history != UINT32_MAX) {
        const struct torch_list *history = &parts->lists[block->history];
        if (history->runs > 0 && history->first.type == TORCH_HISTORY &&
            parts->histories[history->first.first] > 0)
            return parts->histories[history->first.first];
    }
    return block->bytes;
}

/* *at: where the block begins if it does not say so; then where it ends. */
static int add_block(struct torch_snapshot *snapshot, struct torch_segment *segment,
                     const struct torch_raw_block *raw, uint64_t *at)
{
    const struct torch_parts *parts = &snapshot->parts;
    struct torch_block block = {.address = raw->address == UINT64_MAX ? *at : raw->address,
                                .bytes = raw->bytes,
                                .place = raw->place,
                                .in_use = raw->state != TORCH_WORD_INACTIVE};
    uint64_t end = segment->address + segment->bytes;
    if (block.address < *at || block.bytes > end - *at || block.address > end - block.bytes)
        return log_bad(parts->problem, true, block.place,
                       "a block of %" PRIu64 " bytes lies outside of its segment, or on another "
                       "block",
                       block.bytes);
    block.requested_bytes = requested_of(parts, raw);
    if (block.requested_bytes > block.bytes)
        block.requested_bytes = block.bytes;
    if (block.address != *at)
        segment->covered = false;
    *at = block.address + block.bytes;
    if (memory_grow(snapshot->memory, &snapshot->blocks, &snapshot->blocks_capacity,
                    snapshot->block_count + 1, sizeof(*snapshot->blocks)) != 0)
        return LOG_NO_MEMORY;
    snapshot->blocks[snapshot->block_count++] = block;
    segment->block_count++;
    return LOG_FINE;
}

static int add_segment(struct torch_snapshot *snapshot, const struct torch_raw_segment *raw)
{
    const struct torch_parts *parts = &snapshot->parts;
    struct torch_segment segment = {.address = raw->address,
                                    .bytes = raw->bytes,
                                    .stream = raw->stream,
                                    .pool = raw->pool,
                                    .place = raw->place,
                                    .first_block = snapshot->block_count,
                                    .device = raw->device,
                                    .small = raw->small,
                                    .expandable = raw->expandable,
                                    .covered = true};
    const struct torch_list *list;
    int status = list_in(parts, &raw->blocks, raw->place, "blocks", &list);
    uint64_t at = raw->address;
    for (size_t i = 0; list && status == LOG_FINE && i < list->runs; i++) {
        const struct torch_run *run = torch_list_run(list, i);
        if (run->type != TORCH_BLOCK)
            return log_bad(parts->problem, true, raw->place,
                           "\"blocks\" of a segment has something else in it");
        for (uint64_t k = 0; status == LOG_FINE && k < run->count; k++)
            status = add_block(snapshot, &segment, &parts->blocks[run->first + k], &at);
    }
    if (status != LOG_FINE)
        return status;
    segment.covered = segment.covered && at == raw->address + raw->bytes;
    if (memory_grow(snapshot->memory, &snapshot->segments, &snapshot->segments_capacity,
                    snapshot->segment_count + 1, sizeof(*snapshot->segments)) != 0)
        return LOG_NO_MEMORY;
    snapshot->segments[snapshot->segment_count++] = segment;
    if (segment.device >= snapshot->devices)
        snapshot->devices = segment.device + 1;
    return LOG_FINE;
}

static int add_picture(struct torch_snapshot *snapshot, const struct pickle_value *value,
                       uint64_t place)
{
    const struct torch_parts *parts = &snapshot->parts;
    const struct torch_list *list;
    int status = list_in(parts, value, place, "segments", &list);
    for (size_t i = 0; list && status == LOG_FINE && i < list->runs; i++) {
        const struct torch_run *run = torch_list_run(list, i);
        if (run->type != TORCH_SEGMENT)
            return log_bad(parts->problem, true, place, "\"segments\" has something else in it");
        for (uint64_t k = 0; status == LOG_FINE && k < run->count; k++)
            status = add_segment(snapshot, &parts->segments[run->first + k]);
    }
    return status;
}

/* ------------------------------------------------------------------------------ traces, settings
 */

static int add_trace(struct torch_snapshot *snapshot, size_t list, uint64_t place)
{
    const struct torch_parts *parts = &snapshot->parts;
    if (list != SIZE_MAX) {
        const struct torch_list *events = &parts->lists[list];
        if (events->others > 0)
            return log_bad(parts->problem, true, place,
                           "the trace of device %" PRIu32 " has %" PRIu64
                           " elements that are no events",
                           snapshot->trace_count, events->others);
        for (size_t i = 0; i < events->runs; i++)
            if (torch_list_run(events, i)->type != TORCH_EVENT)
                return log_bad(parts->problem, true, place,
                               "the trace of device %" PRIu32 " has something else in it",
                               snapshot->trace_count);
    }
    if (snapshot->trace_count >= MOST_TRACES)
        return log_bad(parts->problem, true, place, "there are traces of more than %d devices",
                       MOST_TRACES);
    if (memory_grow(snapshot->memory, &snapshot->traces, &snapshot->traces_capacity,
                    (size_t)snapshot->trace_count + 1, sizeof(*snapshot->traces)) != 0)
        return LOG_NO_MEMORY;
    snapshot->traces[snapshot->trace_count++] = list;
    if (snapshot->trace_count > snapshot->devices)
        snapshot->devices = snapshot->trace_count;
    return LOG_FINE;
}

static int add_traces(struct torch_snapshot *snapshot, const struct pickle_value *value,
                      uint64_t place)
{
    const struct torch_parts *parts = &snapshot->parts;
    const struct torch_list *list;
    int status = list_in(parts, value, place, "device_traces", &list);
    for (size_t i = 0; list && status == LOG_FINE && i < list->runs; i++) {
        const struct torch_run *run = torch_list_run(list, i);
        if (run->type != TORCH_LIST && run->type != TORCH_EMPTY)
            return log_bad(parts->problem, true, place,
                           "\"device_traces\" has something else than lists in it");
        for (uint64_t k = 0; status == LOG_FINE && k < run->count; k++)
            status = add_trace(
                snapshot, run->type == TORCH_LIST ? (size_t)(run->first + k) : SIZE_MAX, place);
    }
    return status;
}

static const struct torch_record *record_in(const struct torch_parts *parts,
                                            const struct torch_record *record,
                                            enum torch_field field)
{
    if (!torch_record_has(record, field) || record->fields[field].kind != PICKLE_KEPT ||
        record->fields[field].type != TORCH_RECORD)
        return NULL;
    return torch_parts_record(parts, &record->fields[field]);
}

static uint64_t integer_in(const struct torch_record *record, enum torch_field field)
{
    return torch_record_has(record, field) && record->fields[field].kind == PICKLE_INTEGER
               ? record->fields[field].payload
               : 0;
}

static void read_settings(struct torch_snapshot *snapshot, const struct torch_record *record)
{
    const struct torch_parts *parts = &snapshot->parts;
    struct torch_snapshot_settings *settings = &snapshot->settings;
    settings->known = true;
    for (unsigned int i = TORCH_FIELD_CONF; i <= TORCH_FIELD_NEW_CONF; i++) {
        const struct pickle_value *text = &record->fields[i];
        if (!torch_record_has(record, (enum torch_field)i))
            continue;
        if (text->kind == PICKLE_TEXT)
            settings->conf = parts->texts[text->payload];
        else if (text->kind == PICKLE_WORD && text->payload == TORCH_WORD_NOTHING)
            settings->conf = "";
    }
    settings->max_split_bytes = integer_in(record, TORCH_FIELD_MAX_SPLIT_SIZE);
    /* It is -1, or the greatest number there is, where it is not set. */
    settings->has_max_split =
        settings->max_split_bytes > 0 && settings->max_split_bytes < (uint64_t)INT64_MAX;
    const struct pickle_value *threshold = &record->fields[TORCH_FIELD_COLLECTION_THRESHOLD];
    if (torch_record_has(record, TORCH_FIELD_COLLECTION_THRESHOLD) &&
        threshold->kind == PICKLE_NUMBER)
        memcpy(&settings->collection_threshold, &threshold->payload, sizeof(double));
    settings->expandable = torch_record_has(record, TORCH_FIELD_EXPANDABLE_SEGMENTS) &&
                           record->fields[TORCH_FIELD_EXPANDABLE_SEGMENTS].kind == PICKLE_TRUE;
    const struct torch_record *divisions = record_in(parts, record, TORCH_FIELD_DIVISIONS);
    for (unsigned int i = 0; divisions && i < TORCH_SNAPSHOT_DIVISIONS; i++)
        settings->divisions[i] =
            integer_in(divisions, (enum torch_field)(TORCH_FIELD_DIVISION_0 + i));
}

/* ------------------------------------------------------------------------------ the whole */

static int understand(struct torch_snapshot *snapshot, struct pickle_value *top)
{
    struct torch_parts *parts = &snapshot->parts;
    int status = torch_parts_settle(parts, top);
    if (status != LOG_FINE)
        return status;
    if (top->kind == PICKLE_LIST || (top->kind == PICKLE_KEPT && top->type == TORCH_LIST))
        return add_picture(snapshot, top, 1);
    const struct torch_record *record = NULL;
    if (top->kind == PICKLE_KEPT && top->type == TORCH_RECORD)
        record = torch_parts_record(parts, top);
    if (!record || (!torch_record_has(record, TORCH_FIELD_SEGMENTS) &&
                    !torch_record_has(record, TORCH_FIELD_DEVICE_TRACES)))
        return log_bad(parts->problem, true, 1,
                       "it is a pickle, but no torch snapshot: neither a dict with \"segments\" or "
                       "\"device_traces\", nor a list of segments");
    if (torch_record_has(record, TORCH_FIELD_SEGMENTS))
        status = add_picture(snapshot, &record->fields[TORCH_FIELD_SEGMENTS], record->place);
    if (status == LOG_FINE && torch_record_has(record, TORCH_FIELD_DEVICE_TRACES))
        status = add_traces(snapshot, &record->fields[TORCH_FIELD_DEVICE_TRACES], record->place);
    const struct torch_record *settings = record_in(parts, record, TORCH_FIELD_ALLOCATOR_SETTINGS);
    if (status == LOG_FINE && settings)
        read_settings(snapshot, settings);
    return status;
}

int torch_snapshot_load(struct log_source *source, const struct worsegpu_memory *memory,
                        struct torch_snapshot **out, struct log_problem *problem)
{
    *out = NULL;
    struct torch_snapshot *snapshot = memory_allocate_zeroed(memory, 1, sizeof(*snapshot));
    if (!snapshot)
        return LOG_NO_MEMORY;
    snapshot->memory = memory;
    torch_parts_init(&snapshot->parts, memory, problem);
    const struct pickle_owner owner = torch_parts_owner(&snapshot->parts);
    struct pickle_result result;
    int status = pickle_read(source, memory, &owner, &result, problem);
    if (status == LOG_FINE)
        status = understand(snapshot, &result.value);
    if (status == LOG_FINE)
        status = torch_events_finish(&snapshot->parts.events, problem);
    if (status != LOG_FINE) {
        torch_snapshot_release(snapshot);
        return status;
    }
    snapshot->protocol = result.protocol;
    *out = snapshot;
    return LOG_FINE;
}

void torch_snapshot_release(struct torch_snapshot *snapshot)
{
    if (!snapshot)
        return;
    const struct worsegpu_memory *memory = snapshot->memory;
    torch_parts_release(&snapshot->parts);
    memory_release_array(memory, snapshot->segments, snapshot->segments_capacity,
                         sizeof(*snapshot->segments));
    memory_release_array(memory, snapshot->blocks, snapshot->blocks_capacity,
                         sizeof(*snapshot->blocks));
    memory_release_array(memory, snapshot->traces, snapshot->traces_capacity,
                         sizeof(*snapshot->traces));
    memory_release_array(memory, snapshot, 1, sizeof(*snapshot));
}

/* ------------------------------------------------------------------------------ questions */

unsigned int torch_snapshot_protocol(const struct torch_snapshot *snapshot)
{
    return snapshot->protocol;
}

const struct torch_snapshot_settings *torch_snapshot_settings(const struct torch_snapshot *snapshot)
{
    return &snapshot->settings;
}

const struct torch_segment *torch_snapshot_segments(const struct torch_snapshot *snapshot,
                                                    size_t *count)
{
    *count = snapshot->segment_count;
    return snapshot->segments;
}

const struct torch_block *torch_snapshot_blocks(const struct torch_snapshot *snapshot)
{
    return snapshot->blocks;
}

uint32_t torch_snapshot_devices(const struct torch_snapshot *snapshot)
{
    return snapshot->devices;
}

uint64_t torch_snapshot_events(const struct torch_snapshot *snapshot, uint32_t device)
{
    if (device >= snapshot->trace_count || snapshot->traces[device] == SIZE_MAX)
        return 0;
    return snapshot->parts.lists[snapshot->traces[device]].count;
}

int torch_walk_begin(const struct torch_snapshot *snapshot, uint32_t device,
                     struct torch_walk *walk)
{
    *walk = (struct torch_walk){.snapshot = snapshot, .list = SIZE_MAX};
    if (device < snapshot->trace_count)
        walk->list = snapshot->traces[device];
    return torch_cursor_begin(&walk->cursor, &snapshot->parts.events);
}

void torch_walk_end(struct torch_walk *walk)
{
    torch_cursor_end(&walk->cursor);
}

int torch_walk_next(struct torch_walk *walk, struct torch_event *event, struct log_problem *problem)
{
    if (walk->list == SIZE_MAX)
        return LOG_STOPPED;
    const struct torch_list *list = &walk->snapshot->parts.lists[walk->list];
    while (walk->run < list->runs && walk->in_run == torch_list_run(list, walk->run)->count) {
        walk->run++;
        walk->in_run = 0;
    }
    if (walk->run == list->runs)
        return LOG_STOPPED;
    uint64_t number = torch_list_run(list, walk->run)->first + walk->in_run++;
    return torch_cursor_read(&walk->cursor, number, event, problem);
}
