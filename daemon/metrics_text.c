/* A text that grows; see metrics_text.h. */
#include "daemon/metrics_text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

void metrics_text_init(struct metrics_text *text, const struct worsegpu_memory *memory)
{
    memset(text, 0, sizeof(*text));
    text->memory = memory;
}

void metrics_text_release(struct metrics_text *text)
{
    memory_release_array(text->memory, text->bytes, text->capacity, 1);
    metrics_text_init(text, text->memory);
}

static void add_bytes(struct metrics_text *text, const char *bytes, size_t length)
{
    if (text->failed)
        return;
    if (memory_grow(text->memory, &text->bytes, &text->capacity, text->length + length, 1) != 0) {
        text->failed = true;
        return;
    }
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
}

void metrics_text_add(struct metrics_text *text, const char *format, ...)
{
    char piece[METRICS_TEXT_PIECE + 1];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(piece, sizeof(piece), format, arguments);
    va_end(arguments);
    assert(length >= 0 && length <= METRICS_TEXT_PIECE);
    add_bytes(text, piece, (size_t)length);
}

void metrics_text_label(struct metrics_text *text, bool first, const char *name, const char *value)
{
    metrics_text_add(text, "%s%s=\"", first ? "" : ",", name);
    for (; *value; value++) {
        if (*value == '\n')
            add_bytes(text, "\\n", 2);
        else if (*value == '"' || *value == '\\')
            metrics_text_add(text, "\\%c", *value);
        else
            add_bytes(text, value, 1);
    }
    add_bytes(text, "\"", 1);
}
