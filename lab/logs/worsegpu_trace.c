/* Our own trace: the document that `worsegpu-cli trace --json` prints, {"events":[...],...}, or one
 * event object a line, as `worsegpu-lab convert` writes them. (PROTOCOL.md, method trace.)
 *
 * Requests count, not what became of them: a request that fell back to the host is an allocation
 * like any other, and one that a rule of fault injection refused is a refusal. */
#include <string.h>

#include "lab/logs/formats.h"
#include "lab/logs/json_line.h"
#include "lab/logs/json_scan.h"

struct reading {
    struct json_line line;
    struct log_source *source;
    struct log_problem *problem;
    struct log_filter filter;
    struct log_streams streams;
    struct log_clock clock;
    struct log_facts *facts;
    bool any; /* an event has come */
};

bool log_worsegpu_trace_detect(const unsigned char *head, size_t bytes)
{
    return json_scan_has(head, bytes, false, "operation") ||
           json_scan_has(head, bytes, false, "events");
}

/* ------------------------------------------------------------------------------ one event */

static const uint64_t zero = 0;

static int read_stream(struct reading *reading, const cJSON *event, uint64_t missing,
                       uint64_t *number)
{
    *number = missing;
    if (!json_document_member(event, "stream"))
        return LOG_FINE;
    uint64_t stream = 0;
    int status = json_line_u64(&reading->line, event, "stream", NULL, &stream);
    return status == LOG_FINE ? log_streams_number(&reading->streams, stream, number) : status;
}

static int read_time(struct reading *reading, const cJSON *event, struct log_record *record)
{
    uint64_t sequence, us;
    static const uint64_t one = 1;
    int status = json_line_u64(&reading->line, event, "sequence", &one, &sequence);
    if (status == LOG_FINE)
        status = json_line_u64(&reading->line, event, "time_us", &zero, &us);
    if (status != LOG_FINE)
        return status;
    if (!reading->any) {
        reading->facts->times = json_document_member(event, "time_us") != NULL;
        reading->facts->may_start_midway = sequence > 1;
        reading->any = true;
    }
    if (us > UINT64_MAX / 1000)
        return log_bad(reading->problem, reading->line.binary, reading->line.place,
                       "\"time_us\" is too large");
    if (reading->facts->times)
        record->time_us = log_clock_us(&reading->clock, us * 1000);
    return LOG_FINE;
}

static int read_allocate(struct reading *reading, const cJSON *event, struct log_record *record)
{
    static const uint64_t no_address = LOG_NO_ADDRESS;
    const struct json_line *line = &reading->line;
    int status = LOG_FINE;
    if (record->operation == LOG_ALLOCATE)
        status = json_line_u64(line, event, "allocation_id", NULL, &record->key);
    if (status == LOG_FINE)
        status = json_line_u64(line, event, "requested_bytes", NULL, &record->bytes);
    if (status == LOG_FINE)
        status = json_line_u64(line, event, "alignment", &zero, &record->alignment);
    if (status == LOG_FINE)
        status = json_line_bool(line, event, "upper", &record->upper);
    if (status == LOG_FINE && record->operation == LOG_ALLOCATE)
        status = json_line_u64(line, event, "address", &no_address, &record->address);
    if (status == LOG_FINE && record->operation == LOG_ALLOCATE)
        status = json_line_bool(line, event, "before", &record->before);
    return status == LOG_FINE ? read_stream(reading, event, 0, &record->stream) : status;
}

static int read_use(struct reading *reading, const cJSON *event, struct log_record *record)
{
    int status = json_line_u64(&reading->line, event, "allocation_id", NULL, &record->key);
    if (status != LOG_FINE)
        return status;
    return read_stream(reading, event, record->operation == LOG_FREE ? LOG_OWN_STREAM : 0,
                       &record->stream);
}

static int read_event_done(struct reading *reading, const cJSON *event, struct log_record *record)
{
    static const uint64_t all = UINT64_MAX;
    int status = json_line_u64(&reading->line, event, "count", &all, &record->bytes);
    if (status == LOG_FINE)
        status = json_line_bool(&reading->line, event, "newest", &record->newest);
    return status == LOG_FINE ? read_stream(reading, event, 0, &record->stream) : status;
}

/* A rule of fault injection: only what it refused is a request that is told of nowhere else. */
static int read_fault(struct reading *reading, const cJSON *event, struct log_record *record,
                      bool *given)
{
    const char *action;
    int status = json_line_text(&reading->line, event, "action", false, &action);
    if (status != LOG_FINE)
        return status;
    *given = strcmp(action, "out_of_memory") == 0 || strcmp(action, "quota_exceeded") == 0;
    record->operation = LOG_REFUSED;
    return *given ? read_allocate(reading, event, record) : LOG_FINE;
}

static int read_operation(struct reading *reading, const char *operation, struct log_record *record,
                          bool *given)
{
    static const struct {
        const char *word;
        enum log_operation operation;
        int (*read)(struct reading *reading, const cJSON *event, struct log_record *record);
    } operations[] = {
        {"allocate", LOG_ALLOCATE, read_allocate},
        {"allocate_failed", LOG_REFUSED, read_allocate},
        {"free", LOG_FREE, read_use},
        {"record_stream", LOG_RECORD_STREAM, read_use},
        {"event_done", LOG_EVENT_DONE, read_event_done},
        {"empty_cache", LOG_EMPTY_CACHE, NULL},
    };
    const cJSON *event = json_line_root(&reading->line);
    *given = true;
    if (strcmp(operation, "fault") == 0)
        return read_fault(reading, event, record, given);
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        if (strcmp(operation, operations[i].word) != 0)
            continue;
        record->operation = operations[i].operation;
        return operations[i].read ? operations[i].read(reading, event, record) : LOG_FINE;
    }
    return log_bad(reading->problem, reading->line.binary, reading->line.place,
                   "'%.40s' is no operation of a trace", operation);
}

static int read_event(struct reading *reading)
{
    struct log_record record = {.address = LOG_NO_ADDRESS, .place = reading->line.place};
    const cJSON *event = json_line_root(&reading->line);
    const char *operation = NULL;
    bool given = false;
    int status = json_line_text(&reading->line, event, "operation", false, &operation);
    if (status == LOG_FINE)
        status = read_time(reading, event, &record);
    if (status == LOG_FINE)
        status = read_operation(reading, operation, &record, &given);
    return status == LOG_FINE && given ? log_filter_record(&reading->filter, &record) : status;
}

/* ------------------------------------------------------------------------------ both forms */

static int read_lines(struct reading *reading)
{
    for (;;) {
        bool end;
        int status = json_line_next(&reading->line, reading->source, false, &end);
        if (status != LOG_FINE)
            return status;
        if (end)
            return reading->any ? LOG_FINE
                                : log_bad(reading->problem, false, 1, "the log is empty");
        status = read_event(reading);
        if (status != LOG_FINE)
            return status;
    }
}

static int read_events(struct reading *reading, struct json_scan *scan)
{
    int status = json_scan_into(scan);
    while (status == LOG_FINE) {
        struct log_piece text;
        uint64_t place;
        bool end;
        status = json_scan_element(scan, &text, &place, &end);
        if (status != LOG_FINE || end)
            break;
        status = json_line_read(&reading->line, text, true, place);
        if (status == LOG_FINE)
            status = read_event(reading);
    }
    return status;
}

static int read_document(struct reading *reading)
{
    struct json_scan scan;
    char bracket;
    bool end = false;
    bool events = false;
    int status = json_scan_begin(&scan, reading->source, &bracket, reading->problem);
    while (status == LOG_FINE && !end) {
        struct log_piece name;
        status = json_scan_member(&scan, &name, &end);
        if (status != LOG_FINE || end)
            break;
        uint64_t place = log_source_place(reading->source) + 1;
        if (log_piece_is(name, "error"))
            return log_bad(reading->problem, true, place,
                           "the trace was broken off by an error, which stands here");
        if (!log_piece_is(name, "events")) {
            status = json_scan_pass(&scan);
        } else if (events) {
            return log_bad(reading->problem, true, place, "\"events\" is there twice");
        } else {
            events = true;
            status = read_events(reading, &scan);
        }
    }
    return status == LOG_FINE ? json_scan_end(&scan) : status;
}

static int read_either(struct reading *reading)
{
    const unsigned char *head;
    size_t length;
    int status = log_source_peek(reading->source, LOG_HEAD_BYTES, &head, &length, reading->problem);
    if (status != LOG_FINE)
        return status;
    return json_scan_has(head, length, false, "events") ? read_document(reading)
                                                        : read_lines(reading);
}

int log_worsegpu_trace_read(struct log_source *source, const struct worsegpu_memory *memory,
                            const struct log_sink *sink, struct log_facts *facts,
                            struct log_problem *problem)
{
    struct reading reading = {.source = source, .problem = problem, .facts = facts};
    int status = log_filter_init(&reading.filter, sink, memory, problem);
    if (status != LOG_FINE)
        return status;
    status = log_streams_init(&reading.streams, memory, problem);
    json_line_init(&reading.line, memory, problem);
    if (status == LOG_FINE)
        status = read_either(&reading);
    json_line_release(&reading.line);
    log_streams_release(&reading.streams);
    log_filter_release(&reading.filter);
    return status;
}
