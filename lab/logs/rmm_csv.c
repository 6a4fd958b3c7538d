/* RMM's CSV log, of every version: that of the old memory manager, and that of
 * logging_resource_adaptor from 0.14 to today.
 *
 * The versions differ in their columns, in how times and streams are written, and in what a
 * failure looks like (facts: rapidsai/rmm, logging_resource_adaptor.hpp and its history). Streams
 * are tokens: the same text is the same stream, since a bare 10 is decimal in old logs and hex in
 * new ones. The header may be missing where rows were cut out of something larger. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes_text.h"
#include "lab/logs/formats.h"
#include "lab/logs/text.h"

enum {
    MOST_FIELDS = 64, /* the last column of the old manager, a place in a source, may have commas */
    NO_COLUMN = -1
};

#define DAY_NS UINT64_C(86400000000000)

/* Where each thing stands in a row. */
struct layout {
    const char *header;
    size_t fields;
    bool more_fields; /* the last one may have commas in it */
    int time;
    int action;
    int device;
    int pointer;
    int size;
    int stream;
};

static const struct layout layouts[] = {
    {"Thread,Time,Action,Pointer,Size,Stream", 6, false, 1, 2, NO_COLUMN, 3, 4, 5},
    {"Time,Action,Pointer,Size,Stream", 5, false, 0, 1, NO_COLUMN, 2, 3, 4},
    {"Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,Current Allocs,"
     "Start,End,Elapsed,Location",
     12, true, 8, 0, 1, 2, 4, 3},
};

enum {
    LAYOUTS = sizeof(layouts) / sizeof(layouts[0]),
    OLD_MANAGER = 2
};

struct action {
    const char *word;
    bool old; /* of the old manager */
    enum log_operation operation;
};

static const struct action actions[] = {
    {"allocate", false, LOG_ALLOCATE},
    {"free", false, LOG_FREE},
    {"deallocate", false, LOG_FREE},
    {"allocate failure", false, LOG_REFUSED},
    {"Alloc", true, LOG_ALLOCATE},
    {"Free", true, LOG_FREE},
    /* Tells the new address only. If the old one is the same, the recording frees it there. */
    {"Realloc", true, LOG_ALLOCATE},
};

struct reading {
    struct log_source *source;
    struct log_problem *problem;
    struct log_facts *facts;
    struct log_filter filter;
    struct log_streams streams;
    struct log_clock clock;
    const struct layout *layout;
    uint64_t line;
    bool whole_line;  /* it ends with LF */
    uint64_t days_ns; /* added to times of the day: midnights that have passed */
    uint64_t last_ns;
    bool colon; /* what was seen: microseconds after a colon, streams with 0x, failures */
    bool prefix;
    bool failure;
    uint64_t rows;
};

/* ------------------------------------------------------------------------------ telling it */

static const struct action *find_action(struct log_piece word)
{
    word = log_piece_trim(word);
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
        if (log_piece_is(word, actions[i].word))
            return &actions[i];
    return NULL;
}

static const struct layout *find_header(struct log_piece line)
{
    line = log_piece_trim(line);
    for (size_t i = 0; i < LAYOUTS; i++)
        if (log_piece_is(line, layouts[i].header))
            return &layouts[i];
    return NULL;
}

/* The layout that a row without a header has: told by how many fields there are, how it begins, and
 * which of them is an action. */
static const struct layout *guess(struct log_piece line)
{
    struct log_piece fields[MOST_FIELDS];
    size_t count = log_piece_split(line, ',', fields, MOST_FIELDS);
    for (size_t i = 0; i < LAYOUTS && count <= MOST_FIELDS; i++) {
        const struct layout *layout = &layouts[i];
        if (count != layout->fields && !(layout->more_fields && count > layout->fields))
            continue;
        const struct action *action = find_action(fields[layout->action]);
        bool digit = line.bytes[0] >= '0' && line.bytes[0] <= '9'; /* of a thread or a time */
        if (action && action->old == (i == OLD_MANAGER) && (action->old || digit))
            return layout;
    }
    return NULL;
}

bool log_rmm_csv_detect(const unsigned char *head, size_t bytes)
{
    const char *text = (const char *)head;
    while (bytes > 0 && (*text == '\n' || *text == '\r')) {
        text++;
        bytes--;
    }
    const char *end = bytes > 0 ? memchr(text, '\n', bytes) : NULL;
    struct log_piece line = {text, end ? (size_t)(end - text) : bytes};
    return find_header(line) || guess(line);
}

/* ------------------------------------------------------------------------------ times */

/* Digits after the point, as nanoseconds. */
static bool read_fraction(struct log_piece digits, uint64_t *ns)
{
    if (digits.length > 9)
        digits.length = 9;
    if (!log_piece_u64(digits, ns))
        return false;
    for (size_t i = digits.length; i < 9; i++)
        *ns *= 10;
    return true;
}

/* HH:MM:SS:ffffff or HH:MM:SS.ffffff. Goes on counting over midnight. */
static bool read_time_of_day(struct reading *reading, struct log_piece text, uint64_t *ns)
{
    struct log_piece parts[4];
    size_t count = log_piece_split(text, ':', parts, 4);
    uint64_t hours, minutes, seconds, fraction = 0;
    if (count == 4) {
        reading->colon = true;
        if (!read_fraction(parts[3], &fraction))
            return false;
    } else if (count == 3) {
        struct log_piece halves[2];
        if (log_piece_split(parts[2], '.', halves, 2) != 2 || !read_fraction(halves[1], &fraction))
            return false;
        parts[2] = halves[0];
    } else {
        return false;
    }
    if (!log_piece_u64(parts[0], &hours) || !log_piece_u64(parts[1], &minutes) ||
        !log_piece_u64(parts[2], &seconds) || hours > 23 || minutes > 59 || seconds > 60)
        return false;
    *ns = ((hours * 60 + minutes) * 60 + seconds) * 1000000000 + fraction + reading->days_ns;
    if (reading->rows > 0 && *ns + DAY_NS / 2 < reading->last_ns) {
        reading->days_ns += DAY_NS;
        *ns += DAY_NS;
    }
    return true;
}

/* Since the epoch, or since some start: in seconds unless it is too large for them. */
static bool read_plain_time(struct log_piece text, uint64_t *ns)
{
    struct log_piece halves[2];
    size_t count = log_piece_split(text, '.', halves, 2);
    uint64_t whole, fraction = 0;
    if (count > 2 || !log_piece_u64(halves[0], &whole) ||
        (count == 2 && !read_fraction(halves[1], &fraction)))
        return false;
    uint64_t scale = 1000000000;
    for (uint64_t limit = UINT64_C(100000000000); whole >= limit && scale > 1; limit *= 1000)
        scale /= 1000;
    return !__builtin_mul_overflow(whole, scale, ns) &&
           !__builtin_add_overflow(*ns, fraction / (1000000000 / scale), ns);
}

/* As C++ streams write a double: 1.5e-05. */
static bool read_seconds(struct log_piece text, uint64_t *ns)
{
    char copy[40];
    double seconds;
    if (text.length >= sizeof(copy))
        return false;
    memcpy(copy, text.bytes, text.length);
    copy[text.length] = 0;
    if (!number_from_text(copy, &seconds) || seconds < 0 || seconds > 1e9)
        return false;
    *ns = (uint64_t)(seconds * 1e9);
    return true;
}

static bool read_time(struct reading *reading, struct log_piece text, uint64_t *ns)
{
    text = log_piece_trim(text);
    bool fine = reading->layout == &layouts[OLD_MANAGER]
                    ? read_plain_time(text, ns) || read_seconds(text, ns)
                    : read_time_of_day(reading, text, ns) || read_plain_time(text, ns);
    if (fine)
        reading->last_ns = *ns;
    return fine;
}

/* ------------------------------------------------------------------------------ rows */

static int read_stream(struct reading *reading, struct log_piece text, uint64_t *number)
{
    uint64_t stream;
    text = log_piece_trim(text);
    if (!log_piece_pointer(text, &stream))
        return log_bad(reading->problem, false, reading->line, "'%.*s' is no stream",
                       LOG_SHOWN(text));
    bool prefix = text.length > 2 && text.bytes[1] == 'x';
    bool cut = reading->prefix && !prefix; /* of 0x2, a 0 */
    reading->prefix |= prefix;
    /* A log that was cut off in its last field: a stream that nobody has seen before is suspect. */
    if (!reading->whole_line && reading->layout != &layouts[OLD_MANAGER] &&
        (cut || !log_streams_knows(&reading->streams, stream)))
        return log_bad(reading->problem, false, reading->line,
                       "the log is cut off: the row has no end, and its stream '%.*s' is in no "
                       "other row",
                       LOG_SHOWN(text));
    return log_streams_number(&reading->streams, stream, number);
}

static int read_device(struct reading *reading, const struct log_piece *fields, uint32_t *device)
{
    uint64_t value = 0;
    if (reading->layout->device != NO_COLUMN &&
        (!log_piece_u64(log_piece_trim(fields[reading->layout->device]), &value) ||
         value >= UINT32_MAX))
        return log_bad(reading->problem, false, reading->line, "'%.*s' is no device",
                       LOG_SHOWN(fields[reading->layout->device]));
    *device = (uint32_t)value;
    return LOG_FINE;
}

static int read_row(struct reading *reading, struct log_piece line)
{
    const struct layout *layout = reading->layout;
    struct log_problem *problem = reading->problem;
    struct log_piece fields[MOST_FIELDS];
    size_t count = log_piece_split(line, ',', fields, MOST_FIELDS);
    if (count < layout->fields || (count > layout->fields && !layout->more_fields))
        return log_bad(problem, false, reading->line, "the row has %zu fields instead of %zu%s",
                       count, layout->fields, reading->whole_line ? "" : ": the log is cut off");
    const struct action *action = find_action(fields[layout->action]);
    if (!action || action->old != (layout == &layouts[OLD_MANAGER]))
        return log_bad(problem, false, reading->line, "'%.*s' is no action of such a log",
                       LOG_SHOWN(fields[layout->action]));
    struct log_record record = {.operation = action->operation, .place = reading->line};
    uint64_t ns;
    if (!read_time(reading, fields[layout->time], &ns))
        return log_bad(problem, false, reading->line, "'%.*s' is no time",
                       LOG_SHOWN(fields[layout->time]));
    if (!log_piece_pointer(log_piece_trim(fields[layout->pointer]), &record.key))
        return log_bad(problem, false, reading->line, "'%.*s' is no pointer",
                       LOG_SHOWN(fields[layout->pointer]));
    if (!log_piece_u64(log_piece_trim(fields[layout->size]), &record.bytes))
        return log_bad(problem, false, reading->line, "'%.*s' is no size in bytes",
                       LOG_SHOWN(fields[layout->size]));
    int status = read_device(reading, fields, &record.device);
    if (status == LOG_FINE)
        status = read_stream(reading, fields[layout->stream], &record.stream);
    if (status != LOG_FINE)
        return status;
    reading->rows++;
    reading->failure |= record.operation == LOG_REFUSED;
    record.time_us = log_clock_us(&reading->clock, ns);
    record.address = record.key;
    if (record.key == 0 && record.operation == LOG_FREE)
        return LOG_FINE; /* freeing nothing is allowed */
    if (record.key == 0 && record.operation == LOG_ALLOCATE)
        record.operation = LOG_REFUSED;
    if (record.operation != LOG_ALLOCATE)
        record.address = LOG_NO_ADDRESS;
    if (record.operation == LOG_FREE)
        record.bytes = 0;
    if (record.operation == LOG_REFUSED)
        record.key = 0;
    return log_filter_record(&reading->filter, &record);
}

static void name_version(const struct reading *reading)
{
    const char *version = "24.12 or later";
    if (reading->layout == &layouts[OLD_MANAGER])
        version = "before 0.14";
    else if (reading->layout->fields == 5)
        version = "0.14";
    else if (reading->colon)
        version = reading->prefix ? "0.17 to 21.05" : "0.15 or 0.16";
    else if (reading->prefix)
        version = reading->failure ? "22.04 to 24.10" : "21.06 to 24.10";
    if (reading->rows > 0)
        snprintf(reading->facts->version, sizeof(reading->facts->version), "%s", version);
}

static int read_lines(struct reading *reading)
{
    bool first = true;
    for (;;) {
        const char *bytes;
        size_t length;
        int status = log_source_line(reading->source, &bytes, &length, reading->problem);
        if (status != LOG_FINE)
            return status;
        if (length == SIZE_MAX)
            break;
        reading->line = log_source_lines(reading->source);
        reading->whole_line = log_source_line_ended(reading->source);
        struct log_piece line = {bytes, length};
        if (log_piece_trim(line).length == 0)
            continue;
        if (first) {
            first = false;
            reading->layout = find_header(line);
            if (reading->layout)
                continue;
            reading->layout = guess(line);
            reading->facts->may_start_midway = true;
        } else if (find_header(line)) {
            return log_bad(reading->problem, false, reading->line,
                           "a second header: are these two logs in one file?");
        }
        if (!reading->layout)
            return log_bad(reading->problem, false, reading->line,
                           "this is neither the header nor a row of an RMM log");
        status = read_row(reading, line);
        if (status != LOG_FINE)
            return status;
    }
    if (first)
        return log_bad(reading->problem, false, 1, "the log is empty");
    name_version(reading);
    return LOG_FINE;
}

int log_rmm_csv_read(struct log_source *source, const struct worsegpu_memory *memory,
                     const struct log_sink *sink, struct log_facts *facts,
                     struct log_problem *problem)
{
    struct reading reading = {.source = source, .problem = problem, .facts = facts};
    facts->times = true;
    int status = log_filter_init(&reading.filter, sink, memory, problem);
    if (status != LOG_FINE)
        return status;
    status = log_streams_init(&reading.streams, memory, problem);
    if (status == LOG_FINE)
        status = read_lines(&reading);
    log_streams_release(&reading.streams);
    log_filter_release(&reading.filter);
    return status;
}
