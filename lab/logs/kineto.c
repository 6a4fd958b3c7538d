/* The trace of PyTorch's profiler (Kineto; profile_memory=True): a Chrome trace whose "[memory]"
 * events of device type 1 (CUDA) are allocations and, with negative Bytes, frees; an
 * "[OutOfMemory]" is a refusal.
 *
 * The sizes are those of blocks. Threads write one after the other, so the events are put in the
 * order of their times, and of "Ev Idx" among those of one time. Of all other events only the
 * brackets are looked at: profilers are known to write numbers there that JSON does not have. */
#include <string.h>

#include "base/bytes_text.h"
#include "lab/logs/formats.h"
#include "lab/logs/json_line.h"
#include "lab/logs/json_scan.h"
#include "lab/logs/sort.h"

enum {
    DEVICE_TYPE_CUDA = 1,
    LONGEST_NUMBER = 40
};

struct reading {
    struct json_line line;
    struct log_source *source;
    struct log_problem *problem;
    struct log_filter filter;
    struct log_sort sort;
    bool any; /* a [memory] event of a GPU has come */
};

bool log_kineto_detect(const unsigned char *head, size_t bytes)
{
    static const char *const names[] = {"traceEvents", "schemaVersion", "deviceProperties",
                                        "displayTimeUnit", "baseTimeNanoseconds"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (json_scan_has(head, bytes, false, names[i]))
            return true;
    return json_scan_has(head, bytes, true, "ph");
}

/* ------------------------------------------------------------------------------ one event */

/* A time in microseconds with a fraction, as nanoseconds. */
static bool read_time(struct log_piece text, uint64_t *ns)
{
    struct log_piece halves[2];
    size_t count = log_piece_split(text, '.', halves, 2);
    uint64_t whole, fraction = 0;
    if (count == 2) {
        size_t digits = halves[1].length < 3 ? halves[1].length : 3;
        struct log_piece rest = {halves[1].bytes + digits, halves[1].length - digits};
        uint64_t ignored;
        if (!log_piece_u64((struct log_piece){halves[1].bytes, digits}, &fraction) ||
            (rest.length > 18 ? true : rest.length > 0 && !log_piece_u64(rest, &ignored)))
            return false;
        for (; digits < 3; digits++)
            fraction *= 10;
    }
    return count <= 2 && log_piece_u64(halves[0], &whole) &&
           !__builtin_mul_overflow(whole, UINT64_C(1000), ns) &&
           !__builtin_add_overflow(*ns, fraction, ns);
}

/* With an exponent, as other writers of JSON have it. */
static bool read_scientific_time(struct log_piece text, uint64_t *ns)
{
    char copy[LONGEST_NUMBER];
    double us;
    if (text.length >= sizeof(copy))
        return false;
    memcpy(copy, text.bytes, text.length);
    copy[text.length] = 0;
    if (!number_from_text(copy, &us) || us < 0 || us > 1e16)
        return false;
    *ns = (uint64_t)(us * 1000);
    return true;
}

static int bad_event(struct reading *reading, const char *name)
{
    return log_bad(reading->problem, true, reading->line.place,
                   "the \"%s\" of this [memory] event is missing or wrong", name);
}

static int read_memory_event(struct reading *reading, const cJSON *event, bool refused)
{
    const struct json_document *document = &reading->line.document;
    const cJSON *args = json_document_member(event, "args");
    int64_t type, bytes, device, index = 0;
    struct log_sort_item item = {.place = reading->line.place, .operation = LOG_ALLOCATE};
    if (!json_document_i64(document, json_document_member(args, "Device Type"), &type))
        return bad_event(reading, "Device Type");
    if (type != DEVICE_TYPE_CUDA)
        return LOG_FINE;
    reading->any = true;
    struct log_piece time;
    const cJSON *ts = json_document_member(event, "ts");
    if (!cJSON_IsNumber(ts))
        return bad_event(reading, "ts");
    time.bytes = json_document_spelling(document, ts, &time.length);
    if (!read_time(time, &item.time_ns) && !read_scientific_time(time, &item.time_ns))
        return bad_event(reading, "ts");
    if (!json_document_i64(document, json_document_member(args, "Bytes"), &bytes) ||
        bytes == INT64_MIN)
        return bad_event(reading, "Bytes");
    if (!refused && !json_document_u64(document, json_document_member(args, "Addr"), &item.address))
        return bad_event(reading, "Addr");
    if (!json_document_i64(document, json_document_member(args, "Device Id"), &device) ||
        device < 0 || device >= UINT32_MAX)
        return bad_event(reading, "Device Id");
    const cJSON *given = json_document_member(args, "Ev Idx");
    if (given && (!json_document_i64(document, given, &index) || index < 0))
        return bad_event(reading, "Ev Idx");
    item.order = (uint64_t)index;
    item.key = item.address;
    item.device = (uint32_t)device;
    if (refused) {
        item.operation = LOG_REFUSED;
        item.address = LOG_NO_ADDRESS;
        item.bytes = (uint64_t)(bytes < 0 ? 0 : bytes);
    } else if (bytes < 0) {
        item.operation = LOG_FREE;
        item.address = LOG_NO_ADDRESS;
        item.stream = LOG_OWN_STREAM;
    } else {
        item.bytes = (uint64_t)bytes;
    }
    return log_sort_add(&reading->sort, &item, reading->problem);
}

static int read_event(struct reading *reading, struct log_piece text, uint64_t place)
{
    static const char memory[] = "\"[memory]\"";
    static const char refused[] = "\"[OutOfMemory]\"";
    if (!memmem(text.bytes, text.length, memory, sizeof(memory) - 1) &&
        !memmem(text.bytes, text.length, refused, sizeof(refused) - 1))
        return LOG_FINE;
    int status = json_line_read(&reading->line, text, true, place);
    if (status != LOG_FINE)
        return status;
    const cJSON *event = json_line_root(&reading->line);
    const cJSON *name = json_document_member(event, "name");
    if (!cJSON_IsString(name))
        return LOG_FINE;
    if (strcmp(name->valuestring, "[OutOfMemory]") == 0)
        return read_memory_event(reading, event, true);
    return strcmp(name->valuestring, "[memory]") == 0 ? read_memory_event(reading, event, false)
                                                      : LOG_FINE;
}

/* ------------------------------------------------------------------------------ the document */

static int read_events(struct reading *reading, struct json_scan *scan)
{
    for (;;) {
        struct log_piece text;
        uint64_t place;
        bool end;
        int status = json_scan_element(scan, &text, &place, &end);
        if (status != LOG_FINE || end)
            return status;
        status = read_event(reading, text, place);
        if (status != LOG_FINE)
            return status;
    }
}

static int read_members(struct reading *reading, struct json_scan *scan)
{
    bool events = false;
    for (;;) {
        struct log_piece name;
        bool end;
        int status = json_scan_member(scan, &name, &end);
        if (status != LOG_FINE)
            return status;
        if (end)
            break;
        if (log_piece_is(name, "traceEvents")) {
            if (events)
                return log_bad(reading->problem, true, log_source_place(reading->source) + 1,
                               "\"traceEvents\" is there twice");
            events = true;
            status = json_scan_into(scan);
            if (status == LOG_FINE)
                status = read_events(reading, scan);
        } else {
            status = json_scan_pass(scan);
        }
        if (status != LOG_FINE)
            return status;
    }
    return events ? LOG_FINE
                  : log_bad(reading->problem, true, log_source_place(reading->source),
                            "the trace has no \"traceEvents\"");
}

static int read_document(struct reading *reading)
{
    struct json_scan scan;
    char bracket;
    int status = json_scan_begin(&scan, reading->source, &bracket, reading->problem);
    if (status == LOG_FINE)
        status = bracket == '{' ? read_members(reading, &scan) : read_events(reading, &scan);
    if (status == LOG_FINE)
        status = json_scan_end(&scan);
    if (status == LOG_FINE && !reading->any)
        return log_bad(reading->problem, true, log_source_place(reading->source),
                       "up to here, the end, there is no [memory] event of a GPU: the profiler "
                       "writes them with profile_memory=True");
    return status;
}

int log_kineto_read(struct log_source *source, const struct worsegpu_memory *memory,
                    const struct log_sink *sink, struct log_facts *facts,
                    struct log_problem *problem)
{
    struct reading reading = {.source = source, .problem = problem};
    facts->rounded = true;
    facts->times = true;
    facts->may_start_midway = true; /* the profiler was started in a running program */
    int status = log_filter_init(&reading.filter, sink, memory, problem);
    if (status != LOG_FINE)
        return status;
    log_sort_init(&reading.sort, LOG_SORT_ITEMS, memory);
    json_line_init(&reading.line, memory, problem);
    status = read_document(&reading);
    if (status == LOG_FINE)
        status = log_sort_give(&reading.sort, &reading.filter, problem);
    json_line_release(&reading.line);
    log_sort_release(&reading.sort);
    log_filter_release(&reading.filter);
    return status;
}
