/* Golden allocator data through the model that its header names: every answer compared.
 *
 * Each line after the header is a request with its recorded answer, something that the recorded
 * allocator did with its device (before the request that caused it), or its figures. A mismatch
 * does not end the run; the first one is explained. Lives for one file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "lab/golden_figures.h"
#include "lab/golden_model.h"
#include "lab/mismatch.h"
#include "lab/replay.h"
#include "lab/verify.h"

enum {
    PLACE_SIZE = 32,
    MOST_IDS = 1 << 28
};

/* Something done with the device. */
struct region {
    enum device_event event;
    uint64_t offset;
    uint64_t bytes;
};
struct regions {
    struct region *items;
    size_t capacity;
    size_t count;
};

struct golden {
    const struct worsegpu_memory *memory;
    struct verify_result *result;
    struct log_problem *problem;
    struct json_document line;
    uint64_t number; /* of the line */
    struct replay *replay;
    struct device_watch watch;
    struct regions expected;
    struct regions got;
    bool failed; /* there was no memory for what was got */
    uint64_t next_id;
    bool begun; /* next_id is known */
    uint64_t requests;
    bool counts_all; /* every request counts in "after", not only allocate and free */
};

static const char *const event_names[] = {
    [DEVICE_REGION] = "region",   [DEVICE_REGION_FREE] = "region_free",
    [DEVICE_RESERVE] = "reserve", [DEVICE_UNRESERVE] = "unreserve",
    [DEVICE_MAP] = "map",         [DEVICE_UNMAP] = "unmap",
};

struct verify_count *verify_count(struct verify_result *result, const char *name)
{
    for (size_t i = 0; i < result->count; i++) {
        if (strcmp(result->counts[i].name, name) == 0)
            return &result->counts[i];
    }
    if (result->count == VERIFY_MAX_COUNTS)
        return &result->counts[VERIFY_MAX_COUNTS - 1];
    result->counts[result->count] = (struct verify_count){.name = name};
    return &result->counts[result->count++];
}

static const char *place_of(const struct golden *golden, char place[PLACE_SIZE])
{
    snprintf(place, PLACE_SIZE, "line %" PRIu64, golden->number);
    return place;
}

/* Notes that something was not equal. */
#define MISMATCH(golden, ...)                                                                      \
    mismatch_note((golden)->result, replay_policy((golden)->replay),                               \
                  place_of(golden, (char[PLACE_SIZE]){0}), __VA_ARGS__)

static void count(struct golden *golden, const char *name, bool equal)
{
    struct verify_count *counted = verify_count(golden->result, name);
    counted->all++;
    counted->equal += equal;
}

/* ------------------------------------------------------------------------------ the device */

static int add_region(struct golden *golden, struct regions *regions, const struct region *region)
{
    if (memory_grow(golden->memory, &regions->items, &regions->capacity, regions->count + 1,
                    sizeof(*regions->items)) != 0)
        return LOG_NO_MEMORY;
    regions->items[regions->count++] = *region;
    return LOG_FINE;
}

static void watch(void *context, enum device_event event, uint64_t offset, uint64_t bytes)
{
    struct golden *golden = context;
    struct region region = {event, offset, bytes};
    if (add_region(golden, &golden->got, &region) != LOG_FINE)
        golden->failed = true;
}

/* Compares what was recorded of the device with what the model did, since the last request. */
static void compare_regions(struct golden *golden)
{
    size_t most =
        golden->expected.count > golden->got.count ? golden->expected.count : golden->got.count;
    for (size_t i = 0; i < most; i++) {
        const struct region *expected =
            i < golden->expected.count ? &golden->expected.items[i] : NULL;
        const struct region *got = i < golden->got.count ? &golden->got.items[i] : NULL;
        bool equal = expected && got && expected->event == got->event &&
                     expected->offset == got->offset && expected->bytes == got->bytes;
        count(golden, "device calls", equal);
        if (equal)
            continue;
        char expected_text[96] = "nothing";
        char got_text[96] = "nothing";
        if (expected)
            snprintf(expected_text, sizeof(expected_text), "%s of %" PRIu64 " bytes at %" PRIu64,
                     event_names[expected->event], expected->bytes, expected->offset);
        if (got)
            snprintf(got_text, sizeof(got_text), "%s of %" PRIu64 " bytes at %" PRIu64,
                     event_names[got->event], got->bytes, got->offset);
        MISMATCH(golden, "with the device: expected %s, got %s", expected_text, got_text);
    }
    golden->expected.count = 0;
    golden->got.count = 0;
}

/* ------------------------------------------------------------------------------ members */

static int bad_member(struct golden *golden, const char *name, const char *what)
{
    return log_bad(golden->problem, false, golden->number, "\"%s\" must be %s", name, what);
}

static int required(struct golden *golden, const char *name, uint64_t *value)
{
    const cJSON *item = json_document_member(golden->line.root, name);
    if (!json_document_u64(&golden->line, item, value))
        return bad_member(golden, name, "a whole number of 0 or more");
    return LOG_FINE;
}

static int optional(struct golden *golden, const char *name, uint64_t otherwise, uint64_t *value)
{
    *value = otherwise;
    return json_document_member(golden->line.root, name) ? required(golden, name, value) : LOG_FINE;
}

/* ------------------------------------------------------------------------------ requests */

/* Carries an event out and compares the device. */
static int carry_out(struct golden *golden, const struct event *event, enum replay_result *result,
                     struct policy_placement *placement, uint64_t *scanned)
{
    if (replay_event(golden->replay, event, result, placement, scanned) != WORSEGPU_OK ||
        golden->failed)
        return LOG_NO_MEMORY;
    if (golden->counts_all || event->operation == LOG_ALLOCATE || event->operation == LOG_FREE)
        golden->requests++;
    compare_regions(golden);
    return LOG_FINE;
}

static void compare_offset(struct golden *golden, const struct event *event, const cJSON *offset,
                           enum replay_result result, const struct policy_placement *placement)
{
    uint64_t expected = 0;
    bool refused = cJSON_IsNull(offset);
    bool equal = refused ? result == REPLAY_REFUSED
                         : result == REPLAY_PLACED &&
                               json_document_u64(&golden->line, offset, &expected) &&
                               expected == placement->offset;
    count(golden, "allocations", equal);
    if (equal)
        return;
    char expected_text[48] = "a refusal";
    char got_text[48] = "a refusal";
    if (!refused && json_document_u64(&golden->line, offset, &expected))
        snprintf(expected_text, sizeof(expected_text), "offset %" PRIu64, expected);
    if (result == REPLAY_PLACED)
        snprintf(got_text, sizeof(got_text), "offset %" PRIu64, placement->offset);
    MISMATCH(golden, "allocate %" PRIu64 " of %" PRIu64 " bytes: expected %s, got %s", event->id,
             event->bytes, expected_text, got_text);
}

static int allocate(struct golden *golden)
{
    uint64_t id;
    uint64_t searched;
    struct event event = {.operation = LOG_ALLOCATE};
    const cJSON *offset = json_document_member(golden->line.root, "offset");
    int status = required(golden, "id", &id);
    if (status == LOG_FINE)
        status = required(golden, "size", &event.bytes);
    if (status == LOG_FINE)
        status = optional(golden, "alignment", 0, &event.alignment);
    if (status == LOG_FINE)
        status = optional(golden, "stream", 0, &event.stream);
    if (status == LOG_FINE)
        status = optional(golden, "searched", UINT64_MAX, &searched);
    if (status != LOG_FINE)
        return status;
    if (!cJSON_IsNull(offset) && !json_document_u64(&golden->line, offset, &(uint64_t){0}))
        return bad_member(golden, "offset", "a whole number of 0 or more, or null");
    if ((golden->begun ? id != golden->next_id : id > 1) || id > MOST_IDS)
        return bad_member(golden, "id", "one more than the last one, beginning with 0 or 1");
    if ((event.alignment & (event.alignment - 1)) != 0 || event.bytes > WORSEGPU_MAX_BYTES)
        return log_bad(golden->problem, false, golden->number,
                       "\"size\" must be below 2^53 and \"alignment\" a power of two");
    golden->begun = true;
    golden->next_id = id + 1;
    event.id = id;
    event.slot = (uint32_t)id;
    event.upper = cJSON_IsTrue(json_document_member(golden->line.root, "upper"));
    enum replay_result result;
    struct policy_placement placement;
    uint64_t scanned;
    status = carry_out(golden, &event, &result, &placement, &scanned);
    if (status != LOG_FINE)
        return status;
    compare_offset(golden, &event, offset, result, &placement);
    if (searched != UINT64_MAX) {
        count(golden, "searches", searched == scanned);
        if (searched != scanned)
            MISMATCH(golden,
                     "allocate %" PRIu64 " of %" PRIu64 " bytes: expected %" PRIu64
                     " elements searched, got %" PRIu64,
                     id, event.bytes, searched, scanned);
    }
    return LOG_FINE;
}

/* free, record_stream: about an allocation that there was. */
static int about_an_id(struct golden *golden, enum log_operation operation)
{
    struct event event = {.operation = operation};
    int status = required(golden, "id", &event.id);
    if (status == LOG_FINE)
        status = optional(golden, "stream", 0, &event.stream);
    if (status != LOG_FINE)
        return status;
    if (!golden->begun || event.id >= golden->next_id)
        return bad_member(golden, "id", "that of an allocation");
    event.slot = (uint32_t)event.id;
    enum replay_result result;
    struct policy_placement placement;
    uint64_t scanned;
    return carry_out(golden, &event, &result, &placement, &scanned);
}

static int take_free(struct golden *golden)
{
    return about_an_id(golden, LOG_FREE);
}

static int take_record_stream(struct golden *golden)
{
    return about_an_id(golden, LOG_RECORD_STREAM);
}

static int take_event_done(struct golden *golden)
{
    struct event event = {.operation = LOG_EVENT_DONE};
    uint64_t newest;
    int status = required(golden, "stream", &event.stream);
    if (status == LOG_FINE)
        status = optional(golden, "newest", 0, &newest);
    if (status == LOG_FINE)
        status = optional(golden, "oldest", UINT64_MAX, &event.bytes);
    if (status != LOG_FINE)
        return status;
    if (newest > 0) {
        event.newest = true;
        event.bytes = newest;
    }
    enum replay_result result;
    struct policy_placement placement;
    uint64_t scanned;
    return carry_out(golden, &event, &result, &placement, &scanned);
}

static int take_empty_cache(struct golden *golden)
{
    struct event event = {.operation = LOG_EMPTY_CACHE};
    enum replay_result result;
    struct policy_placement placement;
    uint64_t scanned;
    return carry_out(golden, &event, &result, &placement, &scanned);
}

/* ------------------------------------------------------------------------------ figures */

static int take_statistics(struct golden *golden)
{
    uint64_t after;
    int status = required(golden, "after", &after);
    if (status != LOG_FINE)
        return status;
    if (after != golden->requests)
        return log_bad(golden->problem, false, golden->number,
                       "\"after\" is %" PRIu64 ", but %" PRIu64 " requests came before", after,
                       golden->requests);
    char place[PLACE_SIZE];
    count(golden, "statistics",
          golden_figures_equal(&golden->line, 2, replay_policy(golden->replay), golden->result,
                               place_of(golden, place)));
    return LOG_FINE;
}

/* ------------------------------------------------------------------------------ lines */

static int take_region(struct golden *golden, enum device_event event)
{
    struct region region = {.event = event};
    int status = required(golden, "offset", &region.offset);
    if (status == LOG_FINE)
        status = required(golden, "size", &region.bytes);
    return status == LOG_FINE ? add_region(golden, &golden->expected, &region) : status;
}

static const struct {
    const char *name;
    int (*take)(struct golden *golden);
} requests[] = {
    {"allocate", allocate},
    {"free", take_free},
    {"record_stream", take_record_stream},
    {"event_done", take_event_done},
    {"empty_cache", take_empty_cache},
    {"stats", take_statistics},
    {"free_list", take_statistics},
};

static int take_line(struct golden *golden)
{
    const cJSON *operation = json_document_member(golden->line.root, "op");
    const char *name = cJSON_IsString(operation) ? operation->valuestring : "";
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        if (strcmp(name, requests[i].name) == 0)
            return requests[i].take(golden);
    }
    for (size_t i = 0; i < sizeof(event_names) / sizeof(event_names[0]); i++) {
        if (strcmp(name, event_names[i]) == 0)
            return take_region(golden, (enum device_event)i);
    }
    return log_bad(golden->problem, false, golden->number, "there is no operation '%s'", name);
}

static int read_line(struct golden *golden, struct log_source *source, bool *ended)
{
    const char *text;
    size_t length;
    int status = log_source_line(source, &text, &length, golden->problem);
    *ended = status == LOG_FINE && length == SIZE_MAX;
    if (status != LOG_FINE || *ended)
        return status;
    golden->number++;
    switch (json_document_read(&golden->line, text, length)) {
    case STRICT_JSON_FINE:
        break;
    case STRICT_JSON_REFUSED:
        return log_bad(golden->problem, false, golden->number, "this is not JSON");
    default:
        return LOG_NO_MEMORY;
    }
    if (!cJSON_IsObject(golden->line.root))
        return log_bad(golden->problem, false, golden->number, "a line must be a JSON object");
    return LOG_FINE;
}

/* The model that the header names. */
static int begin(struct golden *golden)
{
    struct golden_model model;
    int status = golden_model_read(&golden->line, &model, golden->problem);
    if (status != LOG_FINE)
        return status;
    snprintf(golden->result->model, sizeof(golden->result->model), "%s", model.text);
    golden->counts_all = strncmp(model.text, "torch", strlen("torch")) == 0;
    struct replay_choice choice = {
        .text = model.text,
        .capacity_bytes = model.capacity_bytes,
        .watch = &golden->watch,
    };
    char problem[REPLAY_PROBLEM_SIZE];
    status = replay_create(&choice, golden->memory, &golden->replay, problem);
    if (status < 0 || golden->failed)
        return LOG_NO_MEMORY;
    if (status != WORSEGPU_OK)
        return log_bad(golden->problem, false, 1, "%s", problem);
    return LOG_FINE;
}

static int read_all(struct golden *golden, struct log_source *source)
{
    bool ended;
    int status = read_line(golden, source, &ended);
    if (status == LOG_FINE && ended)
        return log_bad(golden->problem, false, 1, "the file is empty");
    if (status == LOG_FINE)
        status = begin(golden);
    while (status == LOG_FINE) {
        status = read_line(golden, source, &ended);
        if (status != LOG_FINE || ended)
            break;
        status = take_line(golden);
    }
    if (status == LOG_FINE)
        compare_regions(golden);
    return status;
}

int verify_golden(struct log_source *source, const struct worsegpu_memory *memory,
                  struct verify_result *result, struct log_problem *problem)
{
    memset(result, 0, sizeof(*result));
    struct golden golden = {.memory = memory, .result = result, .problem = problem};
    golden.watch = (struct device_watch){.context = &golden, .tell = watch};
    json_document_init(&golden.line, memory);
    int status = read_all(&golden, source);
    replay_destroy(golden.replay);
    json_document_release(&golden.line);
    memory_release_array(memory, golden.expected.items, golden.expected.capacity,
                         sizeof(*golden.expected.items));
    memory_release_array(memory, golden.got.items, golden.got.capacity, sizeof(*golden.got.items));
    return status;
}
