/* The table of formats, and reading a log with the one that it is in; see log.h. */
#include "lab/logs/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lab/logs/formats.h"

#define FORMAT(function, name, summary)                                                            \
    {name, summary, log_##function##_detect, log_##function##_read},
static const struct log_format formats[] = {
#include "lab/logs/formats.def"
    {NULL, NULL, NULL, NULL}, /* after the last one */
};
#undef FORMAT

enum {
    FORMATS = sizeof(formats) / sizeof(formats[0]) - 1
};

const struct log_format *log_format_at(size_t index)
{
    return index < FORMATS ? &formats[index] : NULL;
}

const struct log_format *log_format_find(const char *name)
{
    for (size_t i = 0; i < FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

int log_read(struct log_source *source, const struct log_format *format,
             const struct worsegpu_memory *memory, const struct log_sink *sink,
             struct log_facts *facts, struct log_problem *problem)
{
    memset(facts, 0, sizeof(*facts));
    facts->format = format ? format->name : "";
    if (!format) {
        const unsigned char *head;
        size_t bytes;
        int status = log_source_peek(source, LOG_HEAD_BYTES, &head, &bytes, problem);
        if (status != LOG_FINE)
            return status;
        format = log_detect(head, bytes < LOG_HEAD_BYTES ? bytes : LOG_HEAD_BYTES, problem);
        if (!format)
            return LOG_BAD;
        facts->format = format->name;
    }
    return format->read(source, memory, sink, facts, problem);
}

void log_printable(const void *bytes, size_t length, char *text, size_t room)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *from = bytes;
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        bool plain = from[i] >= 0x20 && from[i] < 0x7f;
        /* Room for this one, for "..." if another follows, and for the NUL. */
        if (used + (plain ? 1 : 4) + (i + 1 < length ? 3 : 0) + 1 > room) {
            memcpy(text + used, "...", 3);
            used += 3;
            break;
        }
        if (plain) {
            text[used++] = (char)from[i];
            continue;
        }
        text[used++] = '\\';
        text[used++] = 'x';
        text[used++] = digits[from[i] >> 4];
        text[used++] = digits[from[i] & 15];
    }
    text[used] = 0;
}

int log_bad(struct log_problem *problem, bool binary, uint64_t place, const char *format, ...)
{
    char sentence[LOG_PROBLEM_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    if (length < 0)
        sentence[0] = 0;
    int start = snprintf(problem->text, sizeof(problem->text), "%s %" PRIu64 ": ",
                         binary ? "byte" : "line", place);
    log_printable(sentence, strlen(sentence), problem->text + start,
                  sizeof(problem->text) - (size_t)start);
    return LOG_BAD;
}
