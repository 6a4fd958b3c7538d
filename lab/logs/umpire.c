/* Umpire's replay logs (LLNL): JSON lines. The newer form has {"category":"operation","name":...},
 * the older one {"kind":"replay","event":...}, which says most things twice: before the call, and
 * again with its "result". Lines that begin with # are comments.
 *
 * Each memory resource (HOST, DEVICE, ...) is a device, numbered in the order that they are made;
 * pools belong to the resource that they are made upon. (Facts: Umpire's replay documentation and
 * tools/replay.) */
#include <string.h>

#include "base/memory.h"
#include "lab/logs/formats.h"
#include "lab/logs/json_line.h"
#include "lab/logs/json_scan.h"

enum {
    NAME_BYTES = 64,
    MOST_ALLOCATORS = 4096
};

/* An allocator by its name, for those that are made upon it. */
struct named {
    char name[NAME_BYTES];
    uint32_t device;
};

struct reading {
    struct json_line line;
    struct log_source *source;
    struct log_problem *problem;
    struct log_filter filter;
    struct log_clock clock;
    const struct worsegpu_memory *memory;
    struct number_map devices; /* from references of allocators */
    struct named *named;
    size_t named_count;
    size_t named_capacity;
    uint32_t resources; /* made so far */

    /* A reallocate of the newer form: its first line has come. What it did in between through
     * allocate and deallocate is in lines of its own. */
    bool resizing;
    bool freed;
    uint64_t resize_from;
    uint64_t resize_bytes;
    uint64_t resize_made; /* what was allocated in between, or 0 */
    uint64_t resize_line;
};

/* Comments and empty lines before the first object are passed. */
bool log_umpire_detect(const unsigned char *head, size_t bytes)
{
    size_t at = 0;
    while (at < bytes && (head[at] == '#' || head[at] == '\n' || head[at] == '\r')) {
        const unsigned char *end = memchr(head + at, '\n', bytes - at);
        if (!end)
            return false;
        at = (size_t)(end - head) + 1;
    }
    return (json_scan_has(head + at, bytes - at, false, "category") &&
            json_scan_has(head + at, bytes - at, false, "name")) ||
           (json_scan_has(head + at, bytes - at, false, "kind") &&
            json_scan_has(head + at, bytes - at, false, "event"));
}

/* ------------------------------------------------------------------------------ allocators */

static int remember(struct reading *reading, const char *name, uint64_t reference, uint32_t device)
{
    struct named one = {.device = device};
    size_t length = strlen(name);
    if (length >= NAME_BYTES)
        return LOG_FINE; /* nothing can be made upon it by name, then */
    memcpy(one.name, name, length);
    if (reading->named_count == MOST_ALLOCATORS)
        return log_bad(reading->problem, false, reading->line.place, "more than %d allocators",
                       MOST_ALLOCATORS);
    if (memory_grow(reading->memory, &reading->named, &reading->named_capacity,
                    reading->named_count + 1, sizeof(*reading->named)) != 0 ||
        number_map_reserve(&reading->devices) != 0)
        return LOG_NO_MEMORY;
    reading->named[reading->named_count++] = one;
    number_map_put(&reading->devices, reference, device);
    return LOG_FINE;
}

/* The youngest of this name; the first resource where there is none. */
static uint32_t device_of_name(const struct reading *reading, const char *name)
{
    for (size_t i = reading->named_count; name && i > 0; i--)
        if (strcmp(reading->named[i - 1].name, name) == 0)
            return reading->named[i - 1].device;
    return 0;
}

static uint32_t device_of(const struct reading *reading, uint64_t reference)
{
    uint32_t device = number_map_find(&reading->devices, reference);
    return device == NUMBER_MAP_NONE ? 0 : device;
}

static int make_resource(struct reading *reading, const char *name, uint64_t reference)
{
    return remember(reading, name ? name : "", reference, reading->resources++);
}

/* ------------------------------------------------------------------------------ records */

static int give(struct reading *reading, enum log_operation operation, uint64_t reference,
                uint64_t pointer, uint64_t bytes, uint64_t ns)
{
    struct log_record record = {.operation = operation,
                                .device = device_of(reading, reference),
                                .key = pointer,
                                .address = operation == LOG_ALLOCATE ? pointer : LOG_NO_ADDRESS,
                                .bytes = bytes,
                                .stream = operation == LOG_FREE ? LOG_OWN_STREAM : 0,
                                .time_us = log_clock_us(&reading->clock, ns),
                                .place = reading->line.place};
    if (pointer == 0 && operation == LOG_FREE)
        return LOG_FINE;
    if (pointer == 0)
        record.operation = LOG_REFUSED;
    if (record.operation == LOG_REFUSED)
        record.address = LOG_NO_ADDRESS;
    return log_filter_record(&reading->filter, &record);
}

static int begin_resize(struct reading *reading, uint64_t from, uint64_t bytes)
{
    if (reading->resizing)
        return log_bad(reading->problem, false, reading->line.place,
                       "a reallocate begins before that of line %llu has told its new pointer",
                       (unsigned long long)reading->resize_line);
    reading->resizing = true;
    reading->freed = false;
    reading->resize_from = from;
    reading->resize_bytes = bytes;
    reading->resize_made = 0;
    reading->resize_line = reading->line.place;
    return LOG_FINE;
}

static int end_resize(struct reading *reading, uint64_t reference, uint64_t pointer, uint64_t ns)
{
    if (!reading->resizing)
        return log_bad(reading->problem, false, reading->line.place,
                       "a reallocate tells its new pointer without having begun");
    reading->resizing = false;
    int status = LOG_FINE;
    if (!reading->freed)
        status = give(reading, LOG_FREE, reference, reading->resize_from, 0, ns);
    if (status == LOG_FINE && (pointer != reading->resize_made || pointer == 0))
        status = give(reading, LOG_ALLOCATE, reference, pointer, reading->resize_bytes, ns);
    return status;
}

/* ------------------------------------------------------------------------------ the newer form */

static int read_new_reallocate(struct reading *reading, const cJSON *numbers, const cJSON *texts,
                               uint64_t reference, uint64_t ns)
{
    uint64_t pointer, bytes;
    int status;
    if (json_document_member(texts, "new_ptr")) {
        status = json_line_pointer(&reading->line, texts, "new_ptr", &pointer);
        return status == LOG_FINE ? end_resize(reading, reference, pointer, ns) : status;
    }
    status = json_line_pointer(&reading->line, texts, "current_ptr", &pointer);
    if (status == LOG_FINE)
        status = json_line_u64(&reading->line, numbers, "size", NULL, &bytes);
    return status == LOG_FINE ? begin_resize(reading, pointer, bytes) : status;
}

static int read_new_made(struct reading *reading, const cJSON *texts, const char *name)
{
    uint64_t reference;
    const char *called, *upon;
    const cJSON *tags = json_document_member(json_line_root(&reading->line), "tags");
    int status = json_line_pointer(&reading->line, texts, "allocator_ref", &reference);
    if (status == LOG_FINE)
        status = json_line_text(&reading->line, tags, "allocator_name", true, &called);
    if (status == LOG_FINE)
        status = json_line_text(&reading->line, texts, "arg0", true, &upon);
    if (status != LOG_FINE)
        return status;
    if (strcmp(name, "make_memory_resource") == 0)
        return make_resource(reading, called, reference);
    return remember(reading, called ? called : "", reference, device_of_name(reading, upon));
}

static int read_new(struct reading *reading, const cJSON *root, uint64_t ns)
{
    const char *category, *name;
    uint64_t pointer, bytes, reference = 0;
    const cJSON *numbers = json_document_member(root, "numeric_args");
    const cJSON *texts = json_document_member(root, "string_args");
    int status = json_line_text(&reading->line, root, "category", false, &category);
    if (status == LOG_FINE)
        status = json_line_text(&reading->line, root, "name", false, &name);
    if (status != LOG_FINE || strcmp(category, "operation") != 0)
        return status;
    if (strcmp(name, "make_memory_resource") == 0 || strcmp(name, "make_allocator") == 0)
        return read_new_made(reading, texts, name);
    bool allocates = strcmp(name, "allocate") == 0;
    bool resizes = strcmp(name, "reallocate") == 0;
    if (!allocates && !resizes && strcmp(name, "deallocate") != 0)
        return LOG_FINE;
    if (json_document_member(texts, "allocator_ref"))
        status = json_line_pointer(&reading->line, texts, "allocator_ref", &reference);
    if (status == LOG_FINE && resizes)
        return read_new_reallocate(reading, numbers, texts, reference, ns);
    if (status == LOG_FINE)
        status = json_line_pointer(&reading->line, texts, "pointer", &pointer);
    if (status == LOG_FINE && allocates)
        status = json_line_u64(&reading->line, numbers, "size", NULL, &bytes);
    if (status != LOG_FINE)
        return status;
    if (allocates) {
        reading->resize_made = pointer;
        return give(reading, LOG_ALLOCATE, reference, pointer, bytes, ns);
    }
    reading->freed |= pointer == reading->resize_from;
    return give(reading, LOG_FREE, reference, pointer, 0, ns);
}

/* ------------------------------------------------------------------------------ the older form */

static int read_old_made(struct reading *reading, const cJSON *payload, const cJSON *result,
                         bool resource)
{
    uint64_t reference;
    const char *called;
    int status = json_line_text(&reading->line, payload, resource ? "name" : "allocator_name", true,
                                &called);
    if (status != LOG_FINE)
        return status;
    if (resource) {
        const char *text = cJSON_IsString(result) ? result->valuestring : "";
        if (!log_piece_pointer((struct log_piece){text, strlen(text)}, &reference))
            return log_bad(reading->problem, false, reading->line.place,
                           "the \"result\" is no address");
        return make_resource(reading, called, reference);
    }
    status = json_line_pointer(&reading->line, result, "allocator_ref", &reference);
    const cJSON *upon = cJSON_GetArrayItem(json_document_member(payload, "args"), 0);
    return status == LOG_FINE
               ? remember(reading, called ? called : "", reference,
                          device_of_name(reading, cJSON_IsString(upon) ? upon->valuestring : NULL))
               : status;
}

static int read_old(struct reading *reading, const cJSON *root, uint64_t ns)
{
    const char *kind, *event;
    uint64_t pointer, bytes = 0, reference = 0;
    const cJSON *payload = json_document_member(root, "payload");
    const cJSON *result = json_document_member(root, "result");
    int status = json_line_text(&reading->line, root, "kind", false, &kind);
    if (status == LOG_FINE)
        status = json_line_text(&reading->line, root, "event", false, &event);
    if (status != LOG_FINE || strcmp(kind, "replay") != 0)
        return status;
    bool resource = strcmp(event, "makeMemoryResource") == 0;
    bool allocates = strcmp(event, "allocate") == 0;
    bool frees = strcmp(event, "deallocate") == 0;
    bool resizes = strcmp(event, "reallocate") == 0;
    if (resource || strcmp(event, "makeAllocator") == 0)
        return result ? read_old_made(reading, payload, result, resource) : LOG_FINE;
    if (!frees && !(allocates && result) && !(resizes && result))
        return LOG_FINE; /* nothing that matters, or before the call */
    if (json_document_member(payload, "allocator_ref"))
        status = json_line_pointer(&reading->line, payload, "allocator_ref", &reference);
    if (status == LOG_FINE && frees) {
        status = json_line_pointer(&reading->line, payload, "memory_ptr", &pointer);
        return status == LOG_FINE ? give(reading, LOG_FREE, reference, pointer, 0, ns) : status;
    }
    if (status == LOG_FINE)
        status = json_line_u64(&reading->line, payload, "size", NULL, &bytes);
    if (status == LOG_FINE && resizes) {
        status = json_line_pointer(&reading->line, payload, "ptr", &pointer);
        if (status == LOG_FINE)
            status = give(reading, LOG_FREE, reference, pointer, 0, ns);
    }
    if (status == LOG_FINE)
        status = json_line_pointer(&reading->line, result, "memory_ptr", &pointer);
    return status == LOG_FINE ? give(reading, LOG_ALLOCATE, reference, pointer, bytes, ns) : status;
}

/* ------------------------------------------------------------------------------ the whole log */

static int read_lines(struct reading *reading, struct log_facts *facts)
{
    bool any = false;
    static const uint64_t zero = 0;
    for (;;) {
        bool end;
        int status = json_line_next(&reading->line, reading->source, true, &end);
        if (status != LOG_FINE)
            return status;
        if (end)
            break;
        const cJSON *root = json_line_root(&reading->line);
        bool old = json_document_member(root, "kind") != NULL;
        uint64_t ns;
        if (!any)
            memcpy(facts->version, old ? "old" : "new", 4);
        any = true;
        status = json_line_u64(&reading->line, root, "timestamp", &zero, &ns);
        facts->times |= ns > 0;
        if (status == LOG_FINE)
            status = old ? read_old(reading, root, ns) : read_new(reading, root, ns);
        if (status != LOG_FINE)
            return status;
    }
    if (reading->resizing)
        return log_bad(reading->problem, false, reading->resize_line,
                       "the log is cut off: this reallocate never tells its new pointer");
    return any ? LOG_FINE : log_bad(reading->problem, false, 1, "the log is empty");
}

int log_umpire_read(struct log_source *source, const struct worsegpu_memory *memory,
                    const struct log_sink *sink, struct log_facts *facts,
                    struct log_problem *problem)
{
    struct reading reading = {.source = source, .problem = problem, .memory = memory};
    int status = log_filter_init(&reading.filter, sink, memory, problem);
    if (status != LOG_FINE)
        return status;
    status = log_map_init(&reading.devices, memory, problem);
    json_line_init(&reading.line, memory, problem);
    if (status == LOG_FINE)
        status = read_lines(&reading, facts);
    json_line_release(&reading.line);
    memory_release_array(memory, reading.named, reading.named_capacity, sizeof(*reading.named));
    number_map_release(&reading.devices);
    log_filter_release(&reading.filter);
    return status;
}
