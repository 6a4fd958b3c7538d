/* A document of events as lines; see trace_lines.h. */
#include "client/cli/trace_lines.h"

#include <string.h>

/* How such a document begins, blanks apart. */
static const char BEGINNING[] = "{\"events\":[";
#define BEGINNING_LENGTH (sizeof(BEGINNING) - 1)

void trace_lines_init(struct trace_lines *lines)
{
    memset(lines, 0, sizeof(*lines));
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

/* Compares the beginning of the file. How many bytes were taken. */
static size_t take_beginning(struct trace_lines *lines, const char *bytes, size_t length)
{
    size_t taken = 0;
    while (lines->state == TRACE_LINES_BEGIN && taken < length) {
        char byte = bytes[taken];
        bool fits = byte == BEGINNING[lines->matched];
        if ((!fits && !is_blank(byte)) || lines->held_length == sizeof(lines->held)) {
            lines->state = TRACE_LINES_AS_IT_IS;
            break;
        }
        lines->held[lines->held_length++] = byte;
        lines->matched += fits;
        taken++;
        if (lines->matched == BEGINNING_LENGTH) {
            lines->state = TRACE_LINES_EVENTS;
            lines->held_length = 0;
        }
    }
    return taken;
}

/* One byte of the array, as it shall be; '\0' for nothing. */
static char cut_event(struct trace_lines *lines, char byte)
{
    if (lines->in_string) {
        lines->in_string = lines->escaped || byte != '"';
        lines->escaped = !lines->escaped && byte == '\\';
        return byte;
    }
    switch (byte) {
    case '"':
        lines->in_string = true;
        return byte;
    case '{':
    case '[':
        lines->depth++;
        return byte;
    case ']':
        if (lines->depth == 0) {
            lines->state = TRACE_LINES_TAIL;
            return '\n';
        }
        lines->depth--;
        return byte;
    case '}':
        lines->depth -= lines->depth > 0;
        return byte;
    case ',':
        return lines->depth == 0 ? '\n' : byte;
    case '\n':
    case '\r':
        return ' ';
    default:
        return byte;
    }
}

char *trace_lines_cut(struct trace_lines *lines, char *chunk, size_t *length)
{
    size_t taken = take_beginning(lines, chunk, *length);
    size_t written = 0;
    if (lines->state == TRACE_LINES_BEGIN) {
        *length = 0;
        return chunk;
    }
    /* What was held and is no beginning goes before the rest, where there is room for it. */
    char *start = chunk + taken - lines->held_length;
    if (lines->state == TRACE_LINES_AS_IT_IS) {
        memmove(start, lines->held, lines->held_length);
        *length = *length - taken + lines->held_length;
        lines->held_length = 0;
        return start;
    }
    for (size_t at = taken; at < *length; at++) {
        char byte = chunk[at];
        if (lines->state == TRACE_LINES_EVENTS) {
            byte = cut_event(lines, byte);
        } else if (lines->state == TRACE_LINES_TAIL) {
            if (byte == '\n')
                lines->state = TRACE_LINES_AS_IT_IS;
            byte = '\0';
        }
        if (byte != '\0')
            chunk[written++] = byte;
    }
    *length = written;
    return chunk;
}

const char *trace_lines_rest(struct trace_lines *lines, size_t *length)
{
    *length = lines->state == TRACE_LINES_BEGIN ? lines->held_length : 0;
    lines->held_length = 0;
    return lines->held;
}

bool trace_lines_unfinished(const struct trace_lines *lines)
{
    return lines->state == TRACE_LINES_EVENTS;
}
