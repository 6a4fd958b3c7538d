/* The table CUDA_GPU_MEMORY_USAGE_EVENTS of an Nsight Systems export, as `sqlite3 -csv -header`
 * prints it (nsys profile --cuda-memory-usage=true, nsys export --type sqlite).
 *
 * Shows what programs took from the driver, of all processes on the machine: the same address in
 * two processes is two allocations of one device. Columns are found by their names, since versions
 * add some. Host memory (memKind 0 and 1) is left out. Rows come in no promised order, so they are
 * put in that of their times. */
#include <inttypes.h>
#include <string.h>

#include "lab/logs/formats.h"
#include "lab/logs/sort.h"
#include "lab/logs/text.h"

enum column {
    COLUMN_START,
    COLUMN_ADDRESS,
    COLUMN_BYTES,
    COLUMN_OPERATION,
    COLUMN_PROCESS,
    COLUMN_DEVICE,
    COLUMN_STREAM,
    COLUMN_KIND,
    COLUMNS
};

static const struct {
    const char *name;
    bool needed;
} columns[COLUMNS] = {
    [COLUMN_START] = {"start", true},        [COLUMN_ADDRESS] = {"address", true},
    [COLUMN_BYTES] = {"bytes", true},        [COLUMN_OPERATION] = {"memoryOperationType", true},
    [COLUMN_PROCESS] = {"globalPid", false}, [COLUMN_DEVICE] = {"deviceId", false},
    [COLUMN_STREAM] = {"streamId", false},   [COLUMN_KIND] = {"memKind", false},
};

enum {
    MOST_FIELDS = 64,
    PINNED_MEMORY = 1, /* of memKind, as 0: pageable memory */
    ADDRESS_BITS = 52,
    MOST_PROCESSES = 1 << (64 - ADDRESS_BITS)
};

struct reading {
    struct log_source *source;
    struct log_problem *problem;
    struct log_filter filter;
    struct log_sort sort;
    struct log_streams streams;
    struct log_streams processes;
    size_t fields;
    size_t column[COLUMNS]; /* which field it is; `fields` where there is none */
    uint64_t line;
};

/* Cuts a row of CSV (RFC 4180) into its fields. Quoted ones lose their quotes; a quote inside one
 * stays double, since no column that counts has any. How many, 0 where the quotes are wrong,
 * MOST_FIELDS + 1 where there are more. */
static size_t split_row(struct log_piece line, struct log_piece fields[MOST_FIELDS])
{
    size_t count = 0;
    size_t at = 0;
    for (;;) {
        if (count == MOST_FIELDS)
            return MOST_FIELDS + 1;
        size_t start = at;
        size_t end;
        if (at < line.length && line.bytes[at] == '"') {
            start = ++at;
            while (at < line.length &&
                   (line.bytes[at] != '"' || (at + 1 < line.length && line.bytes[at + 1] == '"')))
                at += line.bytes[at] == '"' ? 2 : 1;
            if (at >= line.length)
                return 0;
            end = at++;
            if (at < line.length && line.bytes[at] != ',')
                return 0;
        } else {
            while (at < line.length && line.bytes[at] != ',')
                at++;
            end = at;
        }
        fields[count++] = (struct log_piece){line.bytes + start, end - start};
        if (at == line.length)
            return count;
        at++;
    }
}

/* Finds the columns by the names in the first line; false where a needed one is missing. */
static bool find_columns(struct log_piece line, size_t *count, size_t column[COLUMNS])
{
    struct log_piece fields[MOST_FIELDS];
    *count = split_row(line, fields);
    if (*count > MOST_FIELDS)
        return false;
    for (size_t i = 0; i < COLUMNS; i++) {
        column[i] = *count;
        for (size_t j = *count; j > 0; j--)
            if (log_piece_is(fields[j - 1], columns[i].name))
                column[i] = j - 1;
        if (column[i] == *count && columns[i].needed)
            return false;
    }
    return true;
}

bool log_nsys_csv_detect(const unsigned char *head, size_t bytes)
{
    const unsigned char *end = memchr(head, '\n', bytes);
    struct log_piece line = {(const char *)head, end ? (size_t)(end - head) : bytes};
    size_t count;
    size_t column[COLUMNS];
    return find_columns(log_piece_trim(line), &count, column);
}

/* ------------------------------------------------------------------------------ rows */

/* A number in a column; what is empty or has no column is 0, unless it is needed. */
static int read_number(const struct reading *reading, const struct log_piece *fields,
                       enum column which, uint64_t *value)
{
    *value = 0;
    if (reading->column[which] == reading->fields)
        return LOG_FINE;
    struct log_piece text = fields[reading->column[which]];
    if (text.length == 0 && !columns[which].needed)
        return LOG_FINE;
    if (log_piece_u64(text, value))
        return LOG_FINE;
    return log_bad(reading->problem, false, reading->line, "the %s '%.*s' is no whole number",
                   columns[which].name, LOG_SHOWN(text));
}

/* The upper bits of globalPid are the process; the same address of two processes are two keys. */
static int make_key(struct reading *reading, uint64_t process, uint64_t address, uint64_t *key)
{
    uint64_t number;
    int status = log_streams_number(&reading->processes, (process >> 24 & 0xffffff) + 1, &number);
    if (status != LOG_FINE)
        return status;
    if (number > MOST_PROCESSES)
        return log_bad(reading->problem, false, reading->line,
                       "this is process %" PRIu64 ": more than %d cannot be told apart", number,
                       MOST_PROCESSES);
    if (address >> ADDRESS_BITS != 0)
        return log_bad(reading->problem, false, reading->line,
                       "the address %" PRIu64 " has more than %d bits", address, ADDRESS_BITS);
    *key = (number - 1) << ADDRESS_BITS | address;
    return LOG_FINE;
}

static int read_row(struct reading *reading, struct log_piece line)
{
    struct log_piece fields[MOST_FIELDS];
    size_t count = split_row(line, fields);
    if (count != reading->fields)
        return log_bad(reading->problem, false, reading->line,
                       count == 0 ? "the quotes are wrong%s%s"
                                  : "the row has not as many fields as the header%s%s",
                       log_source_line_ended(reading->source) ? "" : ": ",
                       log_source_line_ended(reading->source) ? "" : "the log is cut off");
    if (!log_source_line_ended(reading->source))
        for (size_t i = 0; i < COLUMNS; i++)
            if (reading->column[i] == reading->fields - 1 && fields[count - 1].length > 0)
                return log_bad(reading->problem, false, reading->line,
                               "the log is cut off: its last row has no end");
    uint64_t values[COLUMNS];
    for (size_t i = 0; i < COLUMNS; i++) {
        int status = read_number(reading, fields, (enum column)i, &values[i]);
        if (status != LOG_FINE)
            return status;
    }
    if (values[COLUMN_OPERATION] > 1)
        return log_bad(reading->problem, false, reading->line,
                       "the memoryOperationType is neither 0 (allocation) nor 1 (free)");
    if (values[COLUMN_DEVICE] >= UINT32_MAX)
        return log_bad(reading->problem, false, reading->line, "the deviceId is too large");
    bool kind = reading->column[COLUMN_KIND] < reading->fields &&
                fields[reading->column[COLUMN_KIND]].length > 0;
    if (kind && values[COLUMN_KIND] <= PINNED_MEMORY)
        return LOG_FINE;
    bool frees = values[COLUMN_OPERATION] == 1;
    struct log_sort_item item = {.time_ns = values[COLUMN_START],
                                 .place = reading->line,
                                 .address = frees ? LOG_NO_ADDRESS : values[COLUMN_ADDRESS],
                                 .bytes = frees ? 0 : values[COLUMN_BYTES],
                                 .device = (uint32_t)values[COLUMN_DEVICE],
                                 .operation = frees ? LOG_FREE : LOG_ALLOCATE};
    int status = make_key(reading, values[COLUMN_PROCESS], values[COLUMN_ADDRESS], &item.key);
    if (status == LOG_FINE)
        status = log_streams_number(&reading->streams, values[COLUMN_STREAM], &item.stream);
    return status == LOG_FINE ? log_sort_add(&reading->sort, &item, reading->problem) : status;
}

static int read_lines(struct reading *reading)
{
    bool header = true;
    for (;;) {
        struct log_piece line;
        int status = log_source_line(reading->source, &line.bytes, &line.length, reading->problem);
        if (status != LOG_FINE)
            return status;
        if (line.length == SIZE_MAX)
            break;
        reading->line = log_source_lines(reading->source);
        line = log_piece_trim(line);
        if (line.length == 0)
            continue;
        if (header && !find_columns(line, &reading->fields, reading->column))
            return log_bad(reading->problem, false, reading->line,
                           "the header must name start, address, bytes and memoryOperationType");
        if (!header)
            status = read_row(reading, line);
        if (status != LOG_FINE)
            return status;
        header = false;
    }
    return header ? log_bad(reading->problem, false, 1, "the log is empty") : LOG_FINE;
}

int log_nsys_csv_read(struct log_source *source, const struct worsegpu_memory *memory,
                      const struct log_sink *sink, struct log_facts *facts,
                      struct log_problem *problem)
{
    struct reading reading = {.source = source, .problem = problem};
    facts->times = true;
    facts->may_start_midway = true; /* the profiler may have been started in a running program */
    int status = log_filter_init(&reading.filter, sink, memory, problem);
    if (status != LOG_FINE)
        return status;
    log_sort_init(&reading.sort, LOG_SORT_ITEMS, memory);
    status = log_streams_init(&reading.streams, memory, problem);
    if (status == LOG_FINE)
        status = log_streams_init(&reading.processes, memory, problem);
    if (status == LOG_FINE)
        status = read_lines(&reading);
    if (status == LOG_FINE)
        status = log_sort_give(&reading.sort, &reading.filter, problem);
    log_streams_release(&reading.processes);
    log_streams_release(&reading.streams);
    log_sort_release(&reading.sort);
    log_filter_release(&reading.filter);
    return status;
}
