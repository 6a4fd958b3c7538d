/* Records in the form of the golden allocator data: NDJSON, a header with the allocator and its
 * configuration, then operations with their answers, for `inspect` and `compare`. (`verify` reads
 * them itself, since it compares the answers.) */
#include <stdio.h>
#include <string.h>

#include "lab/logs/formats.h"
#include "lab/logs/json_line.h"
#include "lab/logs/json_scan.h"

struct reading {
    struct json_line line;
    struct log_source *source;
    struct log_filter filter;
    struct log_streams streams;
};

bool log_golden_detect(const unsigned char *head, size_t bytes)
{
    return json_scan_has(head, bytes, false, "allocator") &&
           json_scan_has(head, bytes, false, "capacity");
}

static const uint64_t zero = 0;

static int read_stream(struct reading *reading, const cJSON *root, uint64_t missing,
                       uint64_t *number)
{
    const cJSON *item = json_document_member(root, "stream");
    *number = missing;
    if (!item)
        return LOG_FINE;
    uint64_t stream = 0;
    int status = json_line_u64(&reading->line, root, "stream", NULL, &stream);
    return status == LOG_FINE ? log_streams_number(&reading->streams, stream, number) : status;
}

static int read_allocate(struct reading *reading, const cJSON *root, struct log_record *record)
{
    const struct json_line *line = &reading->line;
    int status = json_line_u64(line, root, "id", NULL, &record->key);
    if (status == LOG_FINE)
        status = json_line_u64(line, root, "size", NULL, &record->bytes);
    if (status == LOG_FINE)
        status = json_line_u64(line, root, "alignment", &zero, &record->alignment);
    if (status == LOG_FINE)
        status = json_line_bool(line, root, "upper", &record->upper);
    if (status == LOG_FINE)
        status = read_stream(reading, root, 0, &record->stream);
    if (status != LOG_FINE)
        return status;
    record->operation = LOG_ALLOCATE;
    if (!cJSON_IsNull(json_document_member(root, "offset")))
        return json_line_u64(line, root, "offset", NULL, &record->address);
    record->operation = LOG_REFUSED;
    record->key = 0;
    return LOG_FINE;
}

static int read_use(struct reading *reading, const cJSON *root, enum log_operation operation,
                    struct log_record *record)
{
    record->operation = operation;
    int status = json_line_u64(&reading->line, root, "id", NULL, &record->key);
    if (status != LOG_FINE)
        return status;
    return read_stream(reading, root, operation == LOG_FREE ? LOG_OWN_STREAM : 0, &record->stream);
}

static int read_event_done(struct reading *reading, const cJSON *root, struct log_record *record)
{
    static const uint64_t all = UINT64_MAX;
    record->operation = LOG_EVENT_DONE;
    record->newest = json_document_member(root, "newest") != NULL;
    int status = json_line_u64(&reading->line, root, record->newest ? "newest" : "oldest", &all,
                               &record->bytes);
    return status == LOG_FINE ? read_stream(reading, root, 0, &record->stream) : status;
}

static int read_range(struct reading *reading, const cJSON *root, enum log_operation operation,
                      struct log_record *record)
{
    record->operation = operation;
    int status = json_line_u64(&reading->line, root, "offset", NULL, &record->address);
    return status == LOG_FINE ? json_line_u64(&reading->line, root, "size", NULL, &record->bytes)
                              : status;
}

static int read_operation(struct reading *reading, const char *op, struct log_record *record,
                          bool *given)
{
    static const struct {
        const char *op;
        enum log_operation operation;
    } ranges[] = {{"region", LOG_SEGMENT_ALLOCATE},
                  {"region_free", LOG_SEGMENT_FREE},
                  {"map", LOG_SEGMENT_MAP},
                  {"unmap", LOG_SEGMENT_UNMAP}};
    /* Figures, and address ranges without memory behind them: nothing was asked for. */
    static const char *const passed[] = {"stats", "free_list", "reserve", "unreserve"};
    const cJSON *root = json_line_root(&reading->line);
    *given = true;
    if (strcmp(op, "allocate") == 0)
        return read_allocate(reading, root, record);
    if (strcmp(op, "free") == 0)
        return read_use(reading, root, LOG_FREE, record);
    if (strcmp(op, "record_stream") == 0)
        return read_use(reading, root, LOG_RECORD_STREAM, record);
    if (strcmp(op, "event_done") == 0)
        return read_event_done(reading, root, record);
    record->operation = LOG_EMPTY_CACHE;
    if (strcmp(op, "empty_cache") == 0)
        return LOG_FINE;
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (strcmp(op, ranges[i].op) == 0)
            return read_range(reading, root, ranges[i].operation, record);
    *given = false;
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
        if (strcmp(op, passed[i]) == 0)
            return LOG_FINE;
    return log_bad(reading->line.problem, false, reading->line.place, "'%.40s' is no op", op);
}

static int read_header(struct reading *reading, struct log_facts *facts)
{
    bool end;
    const char *allocator = NULL;
    int status = json_line_next(&reading->line, reading->source, false, &end);
    if (status == LOG_FINE && end)
        return log_bad(reading->line.problem, false, 1, "the log is empty");
    const cJSON *root = json_line_root(&reading->line);
    if (status == LOG_FINE)
        status = json_line_text(&reading->line, root, "allocator", false, &allocator);
    if (status == LOG_FINE)
        status = json_line_u64(&reading->line, root, "capacity", NULL, &facts->capacity_bytes);
    if (status == LOG_FINE)
        snprintf(facts->version, sizeof(facts->version), "%s", allocator);
    return status;
}

static int read_lines(struct reading *reading, struct log_facts *facts)
{
    int status = read_header(reading, facts);
    while (status == LOG_FINE) {
        bool end, given;
        const char *op;
        status = json_line_next(&reading->line, reading->source, false, &end);
        if (status != LOG_FINE || end)
            break;
        struct log_record record = {.address = LOG_NO_ADDRESS, .place = reading->line.place};
        status = json_line_text(&reading->line, json_line_root(&reading->line), "op", false, &op);
        if (status == LOG_FINE)
            status = read_operation(reading, op, &record, &given);
        if (status == LOG_FINE && given)
            status = log_filter_record(&reading->filter, &record);
    }
    return status;
}

int log_golden_read(struct log_source *source, const struct worsegpu_memory *memory,
                    const struct log_sink *sink, struct log_facts *facts,
                    struct log_problem *problem)
{
    struct reading reading = {.source = source};
    int status = log_filter_init(&reading.filter, sink, memory, problem);
    if (status != LOG_FINE)
        return status;
    status = log_streams_init(&reading.streams, memory, problem);
    json_line_init(&reading.line, memory, problem);
    if (status == LOG_FINE)
        status = read_lines(&reading, facts);
    json_line_release(&reading.line);
    log_streams_release(&reading.streams);
    log_filter_release(&reading.filter);
    return status;
}
