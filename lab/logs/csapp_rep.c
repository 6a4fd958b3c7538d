/* The .rep traces of the malloc lab of CS:APP: two or four numbers (heap size, ids, operations,
 * weight; the first and last may be missing), then `a ID BYTES`, `r ID BYTES`, `f ID`.
 *
 * The numbers in front must be true, which is how a trace that was cut off is known. */
#include <inttypes.h>
#include <string.h>

#include "lab/logs/formats.h"
#include "lab/logs/text.h"

enum {
    MOST_NUMBERS = 4
};

struct reading {
    struct log_source *source;
    struct log_problem *problem;
    struct log_filter filter;
    struct number_map live; /* which ids are live */
    uint64_t numbers[MOST_NUMBERS];
    size_t number_count;
    uint64_t ids;
    uint64_t operations;
    uint64_t seen; /* operations so far */
    uint64_t line;
};

static bool is_operation(struct log_piece line)
{
    return line.length > 1 &&
           (line.bytes[0] == 'a' || line.bytes[0] == 'r' || line.bytes[0] == 'f') &&
           line.bytes[1] == ' ';
}

/* The next line of a text that has any, trimmed. */
static bool next_line(struct log_piece *text, struct log_piece *line, bool *whole)
{
    while (text->length > 0) {
        const char *lf = memchr(text->bytes, '\n', text->length);
        size_t length = lf ? (size_t)(lf - text->bytes) : text->length;
        *line = log_piece_trim((struct log_piece){text->bytes, length});
        *whole = lf != NULL;
        text->bytes += lf ? length + 1 : length;
        text->length -= lf ? length + 1 : length;
        if (line->length > 0)
            return true;
    }
    return false;
}

bool log_csapp_rep_detect(const unsigned char *head, size_t bytes)
{
    struct log_piece text = {(const char *)head, bytes};
    struct log_piece line;
    bool whole;
    size_t numbers = 0;
    uint64_t number;
    while (next_line(&text, &line, &whole)) {
        if (is_operation(line))
            return numbers == 2 || numbers == MOST_NUMBERS;
        if (!log_piece_u64(line, &number) || ++numbers > MOST_NUMBERS)
            return false;
    }
    return numbers >= 2;
}

/* ------------------------------------------------------------------------------ operations */

static int read_header(struct reading *reading)
{
    size_t count = reading->number_count;
    if (count != 2 && count != MOST_NUMBERS)
        return log_bad(reading->problem, false, reading->line,
                       "%zu numbers stand before the first operation instead of 2 or 4", count);
    size_t first = count == MOST_NUMBERS ? 1 : 0;
    reading->ids = reading->numbers[first];
    reading->operations = reading->numbers[first + 1];
    return LOG_FINE;
}

static int give(struct reading *reading, enum log_operation operation, uint64_t id, uint64_t bytes)
{
    struct log_record record = {.operation = operation,
                                .key = id,
                                .address = LOG_NO_ADDRESS,
                                .bytes = bytes,
                                .place = reading->line};
    if (operation == LOG_FREE) {
        record.stream = LOG_OWN_STREAM;
        number_map_remove(&reading->live, id);
    } else {
        if (number_map_reserve(&reading->live) != 0)
            return LOG_NO_MEMORY;
        number_map_put(&reading->live, id, 0);
    }
    return log_filter_record(&reading->filter, &record);
}

static int read_operation(struct reading *reading, struct log_piece line)
{
    struct log_problem *problem = reading->problem;
    struct log_piece words[3];
    size_t count = log_piece_split(line, ' ', words, 3);
    char what = line.bytes[0];
    uint64_t id, bytes = 0;
    if (count != (what == 'f' ? 2u : 3u) || words[0].length != 1)
        return log_bad(problem, false, reading->line,
                       "'%.*s' is no operation: a ID BYTES, r ID BYTES, f ID", LOG_SHOWN(line));
    if (reading->seen++ == reading->operations)
        return log_bad(problem, false, reading->line,
                       "more operations than the %" PRIu64 " that the header tells of",
                       reading->operations);
    if (what == 'f' && log_piece_is(words[1], "-1"))
        return LOG_FINE; /* free(NULL) */
    if (!log_piece_u64(words[1], &id) || id >= reading->ids)
        return log_bad(problem, false, reading->line,
                       "'%.*s' is none of the %" PRIu64 " ids that the header tells of",
                       LOG_SHOWN(words[1]), reading->ids);
    if (count == 3 && !log_piece_u64(words[2], &bytes))
        return log_bad(problem, false, reading->line, "'%.*s' is no size in bytes",
                       LOG_SHOWN(words[2]));
    bool live = number_map_find(&reading->live, id) != NUMBER_MAP_NONE;
    if (live != (what != 'a'))
        return log_bad(problem, false, reading->line,
                       live ? "id %" PRIu64 " is allocated already"
                            : "id %" PRIu64 " is not allocated at this moment",
                       id);
    int status = LOG_FINE;
    if (what != 'a')
        status = give(reading, LOG_FREE, id, 0);
    if (what != 'f' && status == LOG_FINE)
        status = give(reading, LOG_ALLOCATE, id, bytes);
    return status;
}

static int read_line(struct reading *reading, struct log_piece line)
{
    bool header = reading->seen == 0 && reading->ids == 0 && reading->operations == 0;
    uint64_t number;
    if (header && log_piece_u64(line, &number)) {
        if (reading->number_count == MOST_NUMBERS)
            return log_bad(reading->problem, false, reading->line,
                           "a fifth number before the first operation");
        reading->numbers[reading->number_count++] = number;
        return LOG_FINE;
    }
    if (!is_operation(line))
        return log_bad(reading->problem, false, reading->line,
                       "'%.*s' is no operation: a ID BYTES, r ID BYTES, f ID", LOG_SHOWN(line));
    int status = header ? read_header(reading) : LOG_FINE;
    return status == LOG_FINE ? read_operation(reading, line) : status;
}

static int read_lines(struct reading *reading)
{
    for (;;) {
        struct log_piece line;
        int status = log_source_line(reading->source, &line.bytes, &line.length, reading->problem);
        if (status != LOG_FINE)
            return status;
        reading->line = log_source_lines(reading->source);
        if (line.length == SIZE_MAX)
            break;
        line = log_piece_trim(line);
        if (line.length > 0)
            status = read_line(reading, line);
        if (status != LOG_FINE)
            return status;
    }
    int status = LOG_FINE;
    if (reading->seen == 0)
        status = read_header(reading);
    if (status == LOG_FINE && reading->seen < reading->operations)
        status = log_bad(reading->problem, false, reading->line,
                         "the log ends after %" PRIu64 " of the %" PRIu64
                         " operations that its header tells of: it is cut off",
                         reading->seen, reading->operations);
    return status;
}

int log_csapp_rep_read(struct log_source *source, const struct worsegpu_memory *memory,
                       const struct log_sink *sink, struct log_facts *facts,
                       struct log_problem *problem)
{
    struct reading reading = {.source = source, .problem = problem};
    (void)facts;
    int status = log_filter_init(&reading.filter, sink, memory, problem);
    if (status != LOG_FINE)
        return status;
    status = log_map_init(&reading.live, memory, problem);
    if (status == LOG_FINE)
        status = read_lines(&reading);
    number_map_release(&reading.live);
    log_filter_release(&reading.filter);
    return status;
}
