/* What glibc's mtrace writes: "+ POINTER SIZE" allocates, "- POINTER" frees, "< POINTER" and then
 * "> POINTER SIZE" resize, "! POINTER SIZE" is a resize that failed; each after "@ CALLER" where
 * the caller is known. (Facts: glibc malloc/mtrace-impl.c.)
 *
 * "= Start" begins it and "= End" ends it, unless the program did not get so far. */
#include <string.h>

#include "lab/logs/formats.h"
#include "lab/logs/text.h"

enum {
    MOST_WORDS = 64 /* a caller may have blanks in it */
};

struct reading {
    struct log_source *source;
    struct log_problem *problem;
    struct log_filter filter;
    uint64_t line;
    bool started;
    bool ended;
    bool resizing; /* a "<" that waits for its ">" */
};

bool log_glibc_mtrace_detect(const unsigned char *head, size_t bytes)
{
    const unsigned char *end = bytes > 0 ? memchr(head, '\n', bytes) : NULL;
    struct log_piece line = {(const char *)head, end ? (size_t)(end - head) : bytes};
    return log_piece_is(log_piece_trim(line), "= Start") ||
           (bytes >= 2 && head[0] == '@' && head[1] == ' ');
}

static int give(struct reading *reading, enum log_operation operation, uint64_t pointer,
                uint64_t bytes)
{
    struct log_record record = {.operation = operation,
                                .key = pointer,
                                .address = operation == LOG_ALLOCATE ? pointer : LOG_NO_ADDRESS,
                                .bytes = bytes,
                                .stream = operation == LOG_FREE ? LOG_OWN_STREAM : 0,
                                .place = reading->line};
    return log_filter_record(&reading->filter, &record);
}

static int no_event(const struct reading *reading, struct log_piece line)
{
    return log_bad(reading->problem, false, reading->line, "'%.*s' is no line of mtrace",
                   LOG_SHOWN(line));
}

/* What allocates, with a size: `what` is one of + > !. */
static int read_sized(struct reading *reading, char what, uint64_t pointer, uint64_t bytes)
{
    if ((what == '>') != reading->resizing)
        return log_bad(reading->problem, false, reading->line,
                       what == '>' ? "a '>' without a '<' before it"
                                   : "after a '<', a '>' must follow");
    reading->resizing = false;
    if (what == '!' || pointer == 0)
        return give(reading, LOG_REFUSED, 0, bytes);
    return give(reading, LOG_ALLOCATE, pointer, bytes);
}

static int read_event(struct reading *reading, struct log_piece line)
{
    struct log_piece words[MOST_WORDS];
    size_t count = log_piece_split(line, ' ', words, MOST_WORDS);
    uint64_t pointer, bytes;
    if (count > MOST_WORDS || count < 2)
        return no_event(reading, line);
    struct log_piece *last = &words[count - 1];
    bool caller = log_piece_is(words[0], "@");
    if (count == 3 + (caller ? 2u : 0u) || (caller && count > 5)) {
        char what = last[-2].length == 1 ? last[-2].bytes[0] : 0;
        if ((what == '+' || what == '>' || what == '!') && log_piece_pointer(last[-1], &pointer) &&
            log_piece_hex(last[0], &bytes)) {
            if (!log_source_line_ended(reading->source))
                return log_bad(reading->problem, false, reading->line,
                               "the log is cut off: its last line has no end");
            return read_sized(reading, what, pointer, bytes);
        }
    }
    char what = last[-1].length == 1 ? last[-1].bytes[0] : 0;
    if ((count != 2 && !caller) || (what != '-' && what != '<') ||
        !log_piece_pointer(last[0], &pointer))
        return no_event(reading, line);
    if (!log_source_line_ended(reading->source))
        return log_bad(reading->problem, false, reading->line,
                       "the log is cut off: its last line has no end");
    if (reading->resizing)
        return log_bad(reading->problem, false, reading->line, "after a '<', a '>' must follow");
    reading->resizing = what == '<';
    return pointer == 0 ? LOG_FINE : give(reading, LOG_FREE, pointer, 0);
}

static int read_line(struct reading *reading, struct log_piece line)
{
    if (log_piece_is(line, "= Start")) {
        if (reading->started && !reading->ended)
            return log_bad(reading->problem, false, reading->line,
                           "a second '= Start' without an '= End' before it");
        reading->started = true;
        reading->ended = false;
        return LOG_FINE;
    }
    reading->started = true;
    if (reading->ended)
        return log_bad(reading->problem, false, reading->line, "a line after '= End'");
    if (log_piece_is(line, "= End")) {
        reading->ended = true;
        if (reading->resizing)
            return log_bad(reading->problem, false, reading->line,
                           "after a '<', a '>' must follow");
        return LOG_FINE;
    }
    return read_event(reading, line);
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
    if (reading->resizing)
        return log_bad(reading->problem, false, reading->line,
                       "the log is cut off: a '<' has no '>'");
    if (!reading->started)
        return log_bad(reading->problem, false, 1, "the log is empty");
    return LOG_FINE;
}

int log_glibc_mtrace_read(struct log_source *source, const struct worsegpu_memory *memory,
                          const struct log_sink *sink, struct log_facts *facts,
                          struct log_problem *problem)
{
    struct reading reading = {.source = source, .problem = problem};
    facts->may_start_midway = true; /* a program may call mtrace() at any time */
    int status = log_filter_init(&reading.filter, sink, memory, problem);
    if (status != LOG_FINE)
        return status;
    status = read_lines(&reading);
    log_filter_release(&reading.filter);
    return status;
}
