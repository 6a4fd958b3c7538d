/* Torch snapshots as a log: what was there, then the events of the trace, device by device.
 *
 * A snapshot without a trace is a picture: its blocks in use are allocations that were there before
 * a log without events. The memory of an allocation is free again when its free is completed (with
 * other streams that is later than when it is requested); in a trace that has no completed ones,
 * the requested ones count. */
#include "lab/logs/torch_snapshot.h"

#include <stdio.h>
#include <string.h>

#include "lab/logs/formats.h"
#include "lab/logs/pickle.h"
#include "lab/logs/torch_start.h"
#include "lab/number_map.h"
#include "lib/secrets.h"

struct telling {
    const struct log_sink *sink;
    struct number_map streams;
    uint64_t first_time;
    uint64_t last_us; /* time stands still rather than go back */
    uint32_t device;
};

/* Streams are handles: they are numbered as they come, and the default one stays 0. */
static int stream_number(struct telling *telling, uint64_t stream, uint64_t *number)
{
    *number = 0;
    if (stream == 0)
        return LOG_FINE;
    uint32_t known = number_map_find(&telling->streams, stream);
    if (known == NUMBER_MAP_NONE) {
        if (number_map_reserve(&telling->streams) != 0)
            return LOG_NO_MEMORY;
        known = (uint32_t)telling->streams.count + 1;
        number_map_put(&telling->streams, stream, known);
    }
    *number = known;
    return LOG_FINE;
}

static int tell(struct telling *telling, struct log_record *record, uint64_t stream)
{
    record->device = telling->device;
    int status = stream_number(telling, stream, &record->stream);
    return status == LOG_FINE ? telling->sink->record(telling->sink->context, record) : status;
}

static int tell_before(struct telling *telling, const struct torch_start *start)
{
    int status = LOG_FINE;
    for (size_t i = 0; status == LOG_FINE && i < start->block_count; i++) {
        const struct torch_before *block = &start->blocks[i];
        struct log_record record = {.operation = LOG_ALLOCATE,
                                    .before = true,
                                    .key = block->address,
                                    .address = block->address,
                                    .bytes = block->requested_bytes,
                                    .place = block->place};
        status = tell(telling, &record, block->stream);
    }
    return status;
}

/* false: nothing that a log tells. */
static bool operation_of(enum torch_action action, enum torch_action freed,
                         enum log_operation *operation)
{
    if (action == freed) {
        *operation = LOG_FREE;
        return true;
    }
    switch (action) {
    case TORCH_ALLOC:
        *operation = LOG_ALLOCATE;
        return true;
    case TORCH_OOM:
        *operation = LOG_REFUSED;
        return true;
    case TORCH_SEGMENT_ALLOC:
        *operation = LOG_SEGMENT_ALLOCATE;
        return true;
    case TORCH_SEGMENT_FREE:
        *operation = LOG_SEGMENT_FREE;
        return true;
    case TORCH_SEGMENT_MAP:
        *operation = LOG_SEGMENT_MAP;
        return true;
    case TORCH_SEGMENT_UNMAP:
        *operation = LOG_SEGMENT_UNMAP;
        return true;
    default:
        return false;
    }
}

static int tell_event(struct telling *telling, const struct torch_event *event,
                      enum torch_action freed)
{
    struct log_record record = {.address = LOG_NO_ADDRESS, .place = event->place};
    if (!operation_of(event->action, freed, &record.operation))
        return LOG_FINE;
    if (record.operation != LOG_REFUSED) {
        record.key = event->addr;
        record.address = event->addr;
    }
    if (record.operation != LOG_FREE)
        record.bytes = event->size;
    if (event->has_time && event->time_us > telling->first_time)
        record.time_us = event->time_us - telling->first_time;
    if (record.time_us < telling->last_us)
        record.time_us = telling->last_us;
    telling->last_us = record.time_us;
    return tell(telling, &record, event->stream);
}

static int tell_device(struct telling *telling, const struct torch_snapshot *snapshot,
                       const struct worsegpu_memory *memory, struct log_facts *facts,
                       struct log_problem *problem)
{
    struct torch_start start;
    int status = torch_start_find(snapshot, telling->device, memory, &start, problem);
    if (status != LOG_FINE)
        return status;
    if (start.first_time != UINT64_MAX)
        facts->times = true;
    struct torch_walk walk;
    status = torch_walk_begin(snapshot, telling->device, &walk);
    if (status == LOG_FINE) {
        status = tell_before(telling, &start);
        while (status == LOG_FINE) {
            struct torch_event event;
            status = torch_walk_next(&walk, &event, problem);
            if (status == LOG_STOPPED) {
                status = LOG_FINE;
                break;
            }
            if (status == LOG_FINE)
                status = tell_event(telling, &event, start.freed);
        }
        torch_walk_end(&walk);
    }
    torch_start_release(&start);
    return status;
}

/* Of all devices: times are told since then. */
static int find_first_time(const struct torch_snapshot *snapshot, uint64_t *first,
                           struct log_problem *problem)
{
    *first = UINT64_MAX;
    int status = LOG_FINE;
    for (uint32_t i = 0; status == LOG_FINE && i < torch_snapshot_devices(snapshot); i++) {
        struct torch_walk walk;
        struct torch_event event;
        if (torch_walk_begin(snapshot, i, &walk) != 0)
            return LOG_NO_MEMORY;
        status = torch_walk_next(&walk, &event, problem);
        if (status == LOG_FINE && event.has_time && event.time_us < *first)
            *first = event.time_us;
        if (status == LOG_STOPPED)
            status = LOG_FINE;
        torch_walk_end(&walk);
    }
    return status;
}

bool log_torch_snapshot_detect(const unsigned char *head, size_t bytes)
{
    return pickle_detect(head, bytes);
}

int log_torch_snapshot_read(struct log_source *source, const struct worsegpu_memory *memory,
                            const struct log_sink *sink, struct log_facts *facts,
                            struct log_problem *problem)
{
    struct torch_snapshot *snapshot;
    int status = torch_snapshot_load(source, memory, &snapshot, problem);
    if (status != LOG_FINE)
        return status;
    snprintf(facts->version, sizeof(facts->version), "protocol %u",
             torch_snapshot_protocol(snapshot));
    facts->may_start_midway = true;
    struct keyed_hash hash;
    const struct entropy *entropy = entropy_system();
    if (entropy->draw(entropy->context, hash.key, sizeof(hash.key)) != 0)
        hash = (struct keyed_hash){{0, 0}}; /* slower tables at worst */
    struct telling telling = {.sink = sink};
    number_map_init(&telling.streams, &hash, memory);
    status = find_first_time(snapshot, &telling.first_time, problem);
    for (uint32_t i = 0; status == LOG_FINE && i < torch_snapshot_devices(snapshot); i++) {
        telling.device = i;
        telling.last_us = 0;
        status = tell_device(&telling, snapshot, memory, facts, problem);
    }
    number_map_release(&telling.streams);
    torch_snapshot_release(snapshot);
    return status;
}
