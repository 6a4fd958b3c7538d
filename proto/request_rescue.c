/* Finding the id of a request without memory; see request_rescue.h.
 *
 * The text is known to be strict JSON: so each quote, colon and bracket is where it must be, and
 * the members can be stepped over by looking at strings and brackets alone. Nothing here outlives
 * the call. */
#include "proto/request_rescue.h"

#include "proto/json_text.h"
#include "proto/request_short.h"

static size_t after_blanks(const char *line, size_t at)
{
    while (json_text_is_blank(line[at]))
        at++;
    return at;
}

/* The place after the string whose first quote is at `at`. */
static size_t after_string(const char *line, size_t at)
{
    for (at++; line[at] != '"'; at++)
        if (line[at] == '\\')
            at++;
    return at + 1;
}

/* The place of the comma or brace that ends the value at `at`. */
static size_t after_value(const char *line, size_t at)
{
    unsigned depth = 0;
    for (;;) {
        char byte = line[at];
        if (depth == 0 && (byte == ',' || byte == '}'))
            return at;
        if (byte == '"') {
            at = after_string(line, at);
            continue;
        }
        if (byte == '{' || byte == '[')
            depth++;
        if (byte == '}' || byte == ']')
            depth--;
        at++;
    }
}

static void read_id(const char *line, size_t start, size_t end, struct request_id *id)
{
    while (json_text_is_blank(line[end - 1]))
        end--;
    if (line[start] == '"') {
        size_t length =
            json_text_unescape(line + start + 1, end - start - 2, id->string, sizeof(id->string));
        if (length <= sizeof(id->string)) {
            id->kind = REQUEST_ID_STRING;
            id->length = length;
        }
    } else if (request_is_safe_integer(line + start, end - start, &id->integer)) {
        id->kind = REQUEST_ID_INTEGER;
    }
}

void request_rescue(const char *line, size_t length, struct request *request)
{
    bool has_id = false;
    bool has_method = false;
    size_t at = 0;
    while (at < length && json_text_is_blank(line[at]))
        at++;
    if (at == length || line[at] != '{')
        return;
    do {
        size_t key = after_blanks(line, at + 1);
        if (line[key] == '}')
            break;
        size_t key_end = after_string(line, key);
        size_t value = after_blanks(line, after_blanks(line, key_end) + 1);
        at = after_value(line, value);
        const char *name = line + key + 1;
        size_t name_length = key_end - key - 2;
        if (json_text_compare_unescaped(name, name_length, "id", 2) == 0) {
            has_id = true;
            read_id(line, value, at, &request->id);
        } else if (json_text_compare_unescaped(name, name_length, "method", 6) == 0) {
            has_method = line[value] == '"';
        }
    } while (line[at] == ',');
    request->notification = has_method && !has_id;
}
