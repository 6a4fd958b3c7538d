/* Finding values in a valid JSON text; see json_span.h. Nothing is checked here: strict_json did
 * that. Even so no byte outside the text is ever read. */
#include "client/json_span.h"

#include <stdbool.h>
#include <string.h>

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static size_t skip_blanks(struct json_span text, size_t at)
{
    while (at < text.length && is_blank(text.bytes[at]))
        at++;
    return at;
}

static size_t skip_string(struct json_span text, size_t at)
{
    for (at++; at < text.length && text.bytes[at] != '"'; at++) {
        if (text.bytes[at] == '\\')
            at++;
    }
    return at < text.length ? at + 1 : text.length;
}

static size_t skip_value(struct json_span text, size_t at)
{
    size_t depth = 0;
    while (at < text.length) {
        char byte = text.bytes[at];
        if (byte == '"') {
            at = skip_string(text, at);
            if (depth == 0)
                return at;
            continue;
        }
        if (byte == '{' || byte == '[') {
            depth++;
        } else if (byte == '}' || byte == ']') {
            if (depth == 0)
                return at; /* the end of what the value is in */
            if (--depth == 0)
                return at + 1;
        } else if (depth == 0 && (byte == ',' || is_blank(byte))) {
            return at;
        }
        at++;
    }
    return at;
}

struct json_span json_span_next(struct json_span text, size_t *position, struct json_span *name)
{
    const struct json_span none = {NULL, 0};
    size_t at = skip_blanks(text, *position);
    if (name)
        *name = none;
    if (*position == 0) {
        if (at >= text.length || (text.bytes[at] != '{' && text.bytes[at] != '['))
            return none;
        at = skip_blanks(text, at + 1);
    } else if (at < text.length && text.bytes[at] == ',') {
        at = skip_blanks(text, at + 1);
    }
    if (at >= text.length || text.bytes[at] == '}' || text.bytes[at] == ']')
        return none;
    size_t end = skip_value(text, at);
    size_t after = skip_blanks(text, end);
    if (after < text.length && text.bytes[after] == ':') {
        if (name)
            *name = (struct json_span){text.bytes + at + 1, end - at - 2};
        at = skip_blanks(text, after + 1);
        end = skip_value(text, at);
    }
    *position = end;
    return (struct json_span){text.bytes + at, end - at};
}

struct json_span json_span_child(struct json_span text, size_t index)
{
    size_t position = 0;
    struct json_span value = json_span_next(text, &position, NULL);
    while (value.bytes && index-- > 0)
        value = json_span_next(text, &position, NULL);
    return value;
}

struct json_span json_span_member(struct json_span text, const char *name)
{
    size_t position = 0;
    size_t length = strlen(name);
    struct json_span key;
    struct json_span value = json_span_next(text, &position, &key);
    while (value.bytes &&
           !(key.bytes && key.length == length && memcmp(key.bytes, name, length) == 0))
        value = json_span_next(text, &position, &key);
    return value;
}
