/* Reading a log into events, and walking through them; see events.h.
 *
 * Each device of the log has its own table of live allocations, until a lower-numbered one turns
 * out to be the one that is wanted: from then on the higher one is only remembered by its number.
 * What it had before stays in the packed events, where walks pass it over. */
#include "lab/events.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/memory.h"
#include "lab/events_code.h"
#include "lab/events_pack.h"
#include "lab/live_table.h"
#include "lib/secrets.h"
#include "lib/worsegpu.h"

enum {
    HELD_BYTES = 32 * 1024 * 1024, /* of packed events in memory */
    MOST_DEVICES = 256,
    PROGRESS_EVERY = 8192 /* records */
};

_Static_assert((int)EVENTS_CODE_LONGEST <= (int)EVENTS_PACK_LONGEST, "a packed event fits");

struct events {
    const struct worsegpu_memory *memory;
    struct events_pack pack;
    struct events_facts facts;
};

struct events_walk {
    struct events_cursor cursor;
    struct events_code code;
    uint32_t device;
};

/* One device while the log is read. */
struct device_reading {
    uint32_t number;
    bool allocates;
    bool left_out; /* it is not the one that is wanted: nothing more is kept of it */
    struct events_facts facts;
    struct live_table live;
    struct number_map streams;
    uint64_t live_bytes;
    uint64_t first_time_us;
    uint64_t last_time_us;
    bool timed; /* first and last time are known */
};

struct reading {
    const struct worsegpu_memory *memory;
    struct events_pack *pack;
    struct events_code code;
    struct keyed_hash hash;
    uint32_t wanted; /* EVENTS_ANY_DEVICE: not told */
    uint32_t lowest; /* that allocates, so far */
    struct device_reading *devices;
    size_t device_count;
    size_t device_capacity;
    size_t last; /* the device of the last record */
    struct log_source *source;
    struct log_problem *problem;
    void (*progress)(void *context, double done);
    void *progress_context;
    uint64_t records;
};

/* ------------------------------------------------------------------------------ devices */

static void forget_tables(struct device_reading *device)
{
    live_table_release(&device->live);
    number_map_release(&device->streams);
}

/* The device of a record. log_status. */
static int find_device(struct reading *reading, uint32_t number, struct device_reading **device)
{
    size_t at = reading->last;
    if (at >= reading->device_count || reading->devices[at].number != number) {
        at = 0;
        while (at < reading->device_count && reading->devices[at].number != number)
            at++;
    }
    if (at == MOST_DEVICES) {
        snprintf(reading->problem->text, sizeof(reading->problem->text),
                 "the log has more than %d devices", (int)MOST_DEVICES);
        return LOG_BAD;
    }
    if (at == reading->device_count) {
        if (memory_grow(reading->memory, &reading->devices, &reading->device_capacity, at + 1,
                        sizeof(*reading->devices)) != 0)
            return LOG_NO_MEMORY;
        struct device_reading *added = &reading->devices[reading->device_count++];
        *added = (struct device_reading){.number = number};
        live_table_init(&added->live, &reading->hash, reading->memory);
        number_map_init(&added->streams, &reading->hash, reading->memory);
        added->left_out = reading->wanted != EVENTS_ANY_DEVICE ? number != reading->wanted
                                                               : number > reading->lowest;
    }
    reading->last = at;
    *device = &reading->devices[at];
    return LOG_FINE;
}

/* The device allocates: without one asked for, the higher ones are not wanted any more. */
static void note_allocates(struct reading *reading, struct device_reading *device)
{
    device->allocates = true;
    if (reading->wanted != EVENTS_ANY_DEVICE || device->number >= reading->lowest)
        return;
    reading->lowest = device->number;
    for (size_t i = 0; i < reading->device_count; i++) {
        if (reading->devices[i].number <= device->number)
            continue;
        reading->devices[i].left_out = true;
        forget_tables(&reading->devices[i]);
    }
}

/* ------------------------------------------------------------------------------ records */

static int add_event(struct reading *reading, struct device_reading *device,
                     const struct event *event)
{
    uint8_t bytes[EVENTS_CODE_LONGEST];
    size_t count = events_code_write(&reading->code, event, device->number, bytes);
    device->facts.events++;
    device->facts.count[event->operation]++;
    return events_pack_add(reading->pack, bytes, count, reading->problem);
}

static struct event event_of(const struct log_record *record)
{
    return (struct event){.operation = record->operation,
                          .before = record->before,
                          .upper = record->upper,
                          .newest = record->newest,
                          .bytes = record->bytes,
                          .address = record->address,
                          .stream = record->stream,
                          .alignment = record->alignment,
                          .time_us = record->time_us,
                          .place = record->place};
}

/* Frees what a slot holds; the stream is that of `how`. */
static int free_slot(struct reading *reading, struct device_reading *device, uint32_t slot,
                     const struct log_record *how, uint64_t stream)
{
    const struct live *live = &device->live.live[slot];
    struct event event = {.operation = LOG_FREE,
                          .slot = slot,
                          .id = live->id,
                          .bytes = live->bytes,
                          .address = LOG_NO_ADDRESS,
                          .stream = stream,
                          .time_us = how->time_us,
                          .place = how->place};
    device->live_bytes -= live->bytes;
    device->facts.live_at_end--;
    live_table_remove(&device->live, slot);
    return add_event(reading, device, &event);
}

static void note_peak(struct device_reading *device, const struct event *event)
{
    struct events_facts *facts = &device->facts;
    if (facts->live_at_end > facts->peak_live)
        facts->peak_live = facts->live_at_end;
    if (device->live_bytes <= facts->peak_bytes)
        return;
    facts->peak_bytes = device->live_bytes;
    facts->peak_place = event->place;
    facts->peak_id = event->id;
}

static int read_allocation(struct reading *reading, struct device_reading *device,
                           const struct log_record *record)
{
    uint32_t older = live_table_find(&device->live, record->key);
    if (older != LIVE_NONE) {
        device->facts.doubled++;
        int status = free_slot(reading, device, older, record, device->live.live[older].stream);
        if (status != LOG_FINE)
            return status;
    }
    if (live_table_reserve(&device->live) != 0)
        return LOG_NO_MEMORY;
    uint64_t live_bytes;
    if (__builtin_add_overflow(device->live_bytes, record->bytes, &live_bytes)) {
        snprintf(reading->problem->text, sizeof(reading->problem->text),
                 "line or byte %" PRIu64 ": what is live comes to more than 2^64 bytes",
                 record->place);
        return LOG_BAD;
    }
    struct event event = event_of(record);
    event.id = device->facts.count[LOG_ALLOCATE] + 1;
    event.slot = live_table_add(
        &device->live, &(struct live){event.id, record->key, record->bytes, record->stream});
    device->live_bytes = live_bytes;
    device->facts.live_at_end++;
    device->facts.before += record->before;
    note_peak(device, &event);
    return add_event(reading, device, &event);
}

static int read_use(struct reading *reading, struct device_reading *device,
                    const struct log_record *record)
{
    uint32_t slot = live_table_find(&device->live, record->key);
    if (record->operation == LOG_FREE) {
        if (slot != LIVE_NONE)
            return free_slot(reading, device, slot, record,
                             record->stream == LOG_OWN_STREAM ? device->live.live[slot].stream
                                                              : record->stream);
        device->facts.unknown_frees++;
        return LOG_FINE;
    }
    if (slot == LIVE_NONE) {
        device->facts.unknown_uses++;
        return LOG_FINE;
    }
    struct event event = event_of(record);
    event.slot = slot;
    event.id = device->live.live[slot].id;
    return add_event(reading, device, &event);
}

static int note_stream(struct device_reading *device, uint64_t stream)
{
    if (number_map_find(&device->streams, stream) != NUMBER_MAP_NONE)
        return LOG_FINE;
    if (number_map_reserve(&device->streams) != 0)
        return LOG_NO_MEMORY;
    number_map_put(&device->streams, stream, 0);
    return LOG_FINE;
}

static void note_time(struct device_reading *device, uint64_t time_us)
{
    if (!device->timed || time_us < device->first_time_us)
        device->first_time_us = time_us;
    if (!device->timed || time_us > device->last_time_us)
        device->last_time_us = time_us;
    device->timed = true;
}

static bool has_stream(const struct log_record *record)
{
    switch (record->operation) {
    case LOG_FREE:
        return record->stream != LOG_OWN_STREAM;
    case LOG_ALLOCATE:
    case LOG_RECORD_STREAM:
    case LOG_EVENT_DONE:
        return true;
    default:
        return false;
    }
}

static int read_record(void *context, const struct log_record *record)
{
    struct reading *reading = context;
    struct device_reading *device;
    if (reading->progress && ++reading->records % PROGRESS_EVERY == 0)
        reading->progress(reading->progress_context, log_source_progress(reading->source));
    int status = find_device(reading, record->device, &device);
    if (status != LOG_FINE)
        return status;
    if (record->operation == LOG_ALLOCATE && !device->allocates)
        note_allocates(reading, device);
    if (device->left_out)
        return LOG_FINE;
    note_time(device, record->time_us);
    if (has_stream(record) && note_stream(device, record->stream) != LOG_FINE)
        return LOG_NO_MEMORY;
    struct event event;
    switch (record->operation) {
    case LOG_ALLOCATE:
        return read_allocation(reading, device, record);
    case LOG_FREE:
    case LOG_RECORD_STREAM:
        return read_use(reading, device, record);
    case LOG_REFUSED:
    case LOG_EVENT_DONE:
    case LOG_EMPTY_CACHE:
    case LOG_SEGMENT_ALLOCATE:
    case LOG_SEGMENT_FREE:
    case LOG_SEGMENT_MAP:
    case LOG_SEGMENT_UNMAP:
    case LOG_OPERATIONS:
    default:
        event = event_of(record);
        return add_event(reading, device, &event);
    }
}

/* ------------------------------------------------------------------------------ the whole log */

static int no_such_device(const struct reading *reading)
{
    char list[200] = "";
    size_t length = 0;
    for (size_t i = 0; i < reading->device_count; i++) {
        if (!reading->devices[i].allocates || length + 16 > sizeof(list))
            continue;
        int more = snprintf(list + length, sizeof(list) - length, "%s%" PRIu32,
                            length > 0 ? ", " : "", reading->devices[i].number);
        length += (size_t)more;
    }
    snprintf(reading->problem->text, sizeof(reading->problem->text),
             "device %" PRIu32 " allocates nothing in this log%s%s", reading->wanted,
             length > 0 ? "; these do: " : "", list);
    return LOG_BAD;
}

/* Chooses the device and makes its facts those of the recording. log_status. */
static int choose(struct reading *reading, const struct log_facts *log, struct events *events)
{
    const struct device_reading *chosen = NULL;
    uint32_t allocating = 0;
    for (size_t i = 0; i < reading->device_count; i++) {
        const struct device_reading *device = &reading->devices[i];
        allocating += device->allocates;
        if (!device->left_out &&
            (!chosen || device->allocates > chosen->allocates ||
             (device->allocates == chosen->allocates && device->number < chosen->number)))
            chosen = device;
    }
    if (reading->wanted != EVENTS_ANY_DEVICE && !(chosen && chosen->allocates))
        return no_such_device(reading);
    if (chosen) {
        events->facts = chosen->facts;
        events->facts.device = chosen->number;
        events->facts.streams = chosen->streams.count;
        events->facts.span_us = log->times ? chosen->last_time_us - chosen->first_time_us : 0;
    }
    events->facts.devices = allocating;
    events->facts.log = *log;
    return LOG_FINE;
}

static int read_all(struct reading *reading, const struct log_format *format, struct events *events)
{
    struct log_facts log = {0};
    const struct log_sink sink = {.context = reading, .record = read_record};
    int status = log_read(reading->source, format, reading->memory, &sink, &log, reading->problem);
    if (status == LOG_FINE)
        status = events_pack_finish(reading->pack, reading->problem);
    if (status == LOG_FINE)
        status = choose(reading, &log, events);
    for (size_t i = 0; i < reading->device_count; i++)
        forget_tables(&reading->devices[i]);
    memory_release_array(reading->memory, reading->devices, reading->device_capacity,
                         sizeof(*reading->devices));
    return status;
}

int events_read(struct log_source *source, const struct log_format *format, uint32_t device,
                const struct worsegpu_memory *memory, void (*progress)(void *context, double done),
                void *progress_context, struct events **events, struct log_problem *problem)
{
    struct keyed_hash hash;
    const struct entropy *entropy = entropy_system();
    *events = NULL;
    if (entropy->draw(entropy->context, hash.key, sizeof(hash.key)) != WORSEGPU_OK) {
        snprintf(problem->text, sizeof(problem->text), "the system has no random bytes to give");
        return LOG_NO_FILE;
    }
    struct events *made = memory_allocate_zeroed(memory, 1, sizeof(*made));
    if (!made)
        return LOG_NO_MEMORY;
    made->memory = memory;
    events_pack_init(&made->pack, HELD_BYTES, memory);
    struct reading reading = {.memory = memory,
                              .pack = &made->pack,
                              .hash = hash,
                              .wanted = device,
                              .lowest = UINT32_MAX,
                              .source = source,
                              .problem = problem,
                              .progress = progress,
                              .progress_context = progress_context};
    int status = read_all(&reading, format, made);
    if (status != LOG_FINE) {
        events_release(made);
        return status;
    }
    *events = made;
    return LOG_FINE;
}

void events_release(struct events *events)
{
    if (!events)
        return;
    events_pack_release(&events->pack);
    memory_release_array(events->memory, events, 1, sizeof(*events));
}

const struct events_facts *events_facts(const struct events *events)
{
    return &events->facts;
}

/* ------------------------------------------------------------------------------ walks */

int events_walk_begin(const struct events *events, struct events_walk **walk)
{
    *walk = memory_allocate_zeroed(events->memory, 1, sizeof(**walk));
    if (!*walk)
        return LOG_NO_MEMORY;
    (*walk)->device = events->facts.device;
    int status = events_cursor_begin(&(*walk)->cursor, &events->pack);
    if (status != LOG_FINE) {
        memory_release_array(events->memory, *walk, 1, sizeof(**walk));
        *walk = NULL;
    }
    return status;
}

void events_walk_end(struct events_walk *walk)
{
    if (!walk)
        return;
    const struct worsegpu_memory *memory = walk->cursor.pack->memory;
    events_cursor_end(&walk->cursor);
    memory_release_array(memory, walk, 1, sizeof(*walk));
}

int events_walk_next(struct events_walk *walk, struct event *event)
{
    struct events_cursor *cursor = &walk->cursor;
    do {
        int status = events_cursor_fill(cursor);
        if (status != LOG_FINE)
            return status;
        if (cursor->at == cursor->end)
            return LOG_STOPPED;
        cursor->at = events_code_read(&walk->code, cursor->at, event);
    } while (walk->code.device != walk->device);
    return LOG_FINE;
}
