/* A recursive reader of RFC 8259 that builds nothing; see strict_json.h.
 *
 * Recursion goes no deeper than PROTO_MAX_JSON_DEPTH. The keys of all open objects lie on one
 * stack; when an object ends, its own are compared and popped. The workspace keeps its memory from
 * text to text. */
#include "proto/strict_json.h"

#include <string.h>

#include "base/memory.h"
#include "proto/json_text.h"
#include "proto/limits.h"

enum {
    FEW_KEYS = 16 /* up to so many are compared pairwise, more are sorted */
};

struct reader {
    struct strict_json *json;
    const char *text;
    size_t length;
    size_t at; /* the next byte */
    unsigned depth;
};

static enum strict_json_result read_value(struct reader *reader);

void strict_json_init(struct strict_json *json, const struct worsegpu_memory *memory)
{
    *json = (struct strict_json){.memory = memory};
}

void strict_json_release(struct strict_json *json)
{
    memory_release_array(json->memory, json->numbers, json->number_capacity,
                         sizeof(json->numbers[0]));
    memory_release_array(json->memory, json->keys, json->key_capacity, sizeof(json->keys[0]));
    strict_json_init(json, json->memory);
}

static enum strict_json_result refuse_at(struct reader *reader, const char *why, size_t where)
{
    reader->json->why = why;
    reader->json->where = where;
    return STRICT_JSON_REFUSED;
}

static enum strict_json_result refuse(struct reader *reader, const char *why)
{
    return refuse_at(reader, why, reader->at);
}

/* The next byte, -1 at the end. */
static int peek(const struct reader *reader)
{
    return reader->at < reader->length ? (unsigned char)reader->text[reader->at] : -1;
}

static void skip_blanks(struct reader *reader)
{
    while (reader->at < reader->length && json_text_is_blank(reader->text[reader->at]))
        reader->at++;
}

static bool is_digit(int byte)
{
    return byte >= '0' && byte <= '9';
}

static void skip_digits(struct reader *reader)
{
    while (is_digit(peek(reader)))
        reader->at++;
}

static enum strict_json_result read_number(struct reader *reader)
{
    struct strict_json *json = reader->json;
    size_t start = reader->at;
    if (peek(reader) == '-')
        reader->at++;
    if (!is_digit(peek(reader)))
        return refuse(reader, "a digit is missing");
    if (peek(reader) == '0') {
        reader->at++;
        if (is_digit(peek(reader)))
            return refuse_at(reader, "a number begins with a needless zero", start);
    }
    skip_digits(reader);
    if (peek(reader) == '.') {
        reader->at++;
        if (!is_digit(peek(reader)))
            return refuse(reader, "a digit is missing");
        skip_digits(reader);
    }
    if (peek(reader) == 'e' || peek(reader) == 'E') {
        reader->at++;
        if (peek(reader) == '+' || peek(reader) == '-')
            reader->at++;
        if (!is_digit(peek(reader)))
            return refuse(reader, "a digit is missing");
        skip_digits(reader);
    }
    if (memory_grow(json->memory, &json->numbers, &json->number_capacity, json->number_count + 1,
                    sizeof(json->numbers[0])))
        return STRICT_JSON_NO_MEMORY;
    json->numbers[json->number_count++] =
        (struct strict_json_span){(uint32_t)start, (uint32_t)(reader->at - start)};
    return STRICT_JSON_FINE;
}

/* Four hex digits of a \u escape, which stand at `at`; -1 when they do not. */
static long hex_at(const struct reader *reader, size_t at)
{
    return reader->length - at < 4 ? -1 : json_text_hex4(reader->text + at);
}

/* An escape; reader->at is at the backslash. */
static enum strict_json_result read_escape(struct reader *reader)
{
    size_t start = reader->at++;
    int byte = peek(reader);
    if (byte == -1)
        return refuse(reader, "the text ends within a string");
    reader->at++;
    if (byte != 'u')
        return memchr("\"\\/bfnrt", byte, 8) ? STRICT_JSON_FINE
                                             : refuse_at(reader, "no such escape", start);
    long unit = hex_at(reader, reader->at);
    if (unit < 0)
        return refuse_at(reader, "\\u without four hex digits", start);
    if (unit == 0)
        return refuse_at(reader, "\\u0000 is not taken", start);
    reader->at += 4;
    if (unit < 0xd800 || unit > 0xdfff)
        return STRICT_JSON_FINE;
    if (unit >= 0xdc00 || reader->length - reader->at < 6 || reader->text[reader->at] != '\\' ||
        reader->text[reader->at + 1] != 'u')
        return refuse_at(reader, "a lone surrogate", start);
    unit = hex_at(reader, reader->at + 2);
    if (unit < 0xdc00 || unit > 0xdfff)
        return refuse_at(reader, "a lone surrogate", start);
    reader->at += 6;
    return STRICT_JSON_FINE;
}

/* A string; reader->at is at its first quote. Its inside becomes *key. */
static enum strict_json_result read_string(struct reader *reader, struct strict_json_key *key)
{
    size_t start = ++reader->at;
    key->escaped = false;
    for (;;) {
        int byte = peek(reader);
        if (byte == '"')
            break;
        if (byte == -1)
            return refuse(reader, "the text ends within a string");
        if (byte < 0x20)
            return refuse(reader, "a raw control character in a string");
        if (byte == '\\') {
            key->escaped = true;
            enum strict_json_result result = read_escape(reader);
            if (result != STRICT_JSON_FINE)
                return result;
        } else if (byte < 0x80) {
            reader->at++;
        } else {
            size_t bytes =
                json_text_utf8_length(reader->text + reader->at, reader->length - reader->at);
            if (bytes == 0)
                return refuse(reader, "invalid UTF-8");
            reader->at += bytes;
        }
    }
    key->text = (struct strict_json_span){(uint32_t)start, (uint32_t)(reader->at - start)};
    reader->at++;
    return STRICT_JSON_FINE;
}

/* Two keys by their bytes after unescaping. Below, at or above 0. */
static int compare_keys(const char *text, const struct strict_json_key *a,
                        const struct strict_json_key *b)
{
    const char *bytes_a = text + a->text.start;
    const char *bytes_b = text + b->text.start;
    if (a->escaped || b->escaped)
        return json_text_compare_unescaped(bytes_a, a->text.length, bytes_b, b->text.length);
    size_t common = a->text.length < b->text.length ? a->text.length : b->text.length;
    int order = memcmp(bytes_a, bytes_b, common);
    if (order != 0)
        return order;
    return (a->text.length > b->text.length) - (a->text.length < b->text.length);
}

static bool same_key(const char *text, const struct strict_json_key *a,
                     const struct strict_json_key *b)
{
    if (!a->escaped && !b->escaped && a->text.length != b->text.length)
        return false;
    return compare_keys(text, a, b) == 0;
}

/* Lets keys[root] sink to its place in a heap whose largest is on top. */
static void sink(const char *text, struct strict_json_key *keys, size_t root, size_t count)
{
    struct strict_json_key sinking = keys[root];
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= count)
            break;
        if (child + 1 < count && compare_keys(text, &keys[child], &keys[child + 1]) < 0)
            child++;
        if (compare_keys(text, &sinking, &keys[child]) >= 0)
            break;
        keys[root] = keys[child];
        root = child;
    }
    keys[root] = sinking;
}

/* Heap sort: needs no memory, and no order of keys makes it slow (qsort promises neither). */
static void sort_keys(const char *text, struct strict_json_key *keys, size_t count)
{
    for (size_t root = count / 2; root-- > 0;)
        sink(text, keys, root, count);
    for (size_t last = count - 1; last > 0; last--) {
        struct strict_json_key largest = keys[0];
        keys[0] = keys[last];
        keys[last] = largest;
        sink(text, keys, 0, last);
    }
}

/* Ends the object whose keys begin at `first` on the stack. */
static enum strict_json_result end_keys(struct reader *reader, size_t first)
{
    struct strict_json *json = reader->json;
    size_t count = json->key_count - first;
    /* Nothing may be added to a NULL, not even 0. */
    struct strict_json_key *keys = count > 0 ? json->keys + first : NULL;
    json->key_count = first;
    bool sorted = count > FEW_KEYS;
    if (sorted)
        sort_keys(reader->text, keys, count);
    for (size_t i = 1; i < count; i++)
        for (size_t j = sorted ? i - 1 : 0; j < i; j++)
            if (same_key(reader->text, &keys[i], &keys[j])) {
                uint32_t a = keys[i].text.start;
                uint32_t b = keys[j].text.start;
                return refuse_at(reader, "a key stands twice in one object", (a > b ? a : b) - 1);
            }
    return STRICT_JSON_FINE;
}

/* One member; reader->at is at what should be its key. */
static enum strict_json_result read_member(struct reader *reader)
{
    struct strict_json *json = reader->json;
    struct strict_json_key key;
    if (peek(reader) != '"')
        return refuse(reader, "a key is missing");
    enum strict_json_result result = read_string(reader, &key);
    if (result != STRICT_JSON_FINE)
        return result;
    if (memory_grow(json->memory, &json->keys, &json->key_capacity, json->key_count + 1,
                    sizeof(json->keys[0])))
        return STRICT_JSON_NO_MEMORY;
    json->keys[json->key_count++] = key;
    skip_blanks(reader);
    if (peek(reader) != ':')
        return refuse(reader, "a colon is missing");
    reader->at++;
    return read_value(reader);
}

/* An object or array; reader->at is at its bracket. */
static enum strict_json_result read_container(struct reader *reader, bool is_object)
{
    int end = is_object ? '}' : ']';
    size_t first_key = reader->json->key_count;
    if (reader->depth == PROTO_MAX_JSON_DEPTH)
        return refuse(reader, "nested too deeply");
    reader->depth++;
    reader->at++;
    skip_blanks(reader);
    if (peek(reader) != end) {
        for (;;) {
            skip_blanks(reader);
            enum strict_json_result result = is_object ? read_member(reader) : read_value(reader);
            if (result != STRICT_JSON_FINE)
                return result;
            skip_blanks(reader);
            if (peek(reader) != ',')
                break;
            reader->at++;
        }
        if (peek(reader) != end)
            return refuse(reader,
                          is_object ? "a comma or } is missing" : "a comma or ] is missing");
    }
    reader->at++;
    reader->depth--;
    return is_object ? end_keys(reader, first_key) : STRICT_JSON_FINE;
}

static enum strict_json_result read_word(struct reader *reader, const char *word, size_t length)
{
    if (reader->length - reader->at < length ||
        memcmp(reader->text + reader->at, word, length) != 0)
        return refuse(reader, "a value is missing");
    reader->at += length;
    return STRICT_JSON_FINE;
}

static enum strict_json_result read_value(struct reader *reader)
{
    struct strict_json_key unused;
    skip_blanks(reader);
    switch (peek(reader)) {
    case '{':
        return read_container(reader, true);
    case '[':
        return read_container(reader, false);
    case '"':
        return read_string(reader, &unused);
    case 't':
        return read_word(reader, "true", 4);
    case 'f':
        return read_word(reader, "false", 5);
    case 'n':
        return read_word(reader, "null", 4);
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        return read_number(reader);
    default:
        return refuse(reader, "a value is missing");
    }
}

enum strict_json_result strict_json_check(struct strict_json *json, const char *text, size_t length)
{
    struct reader reader = {.json = json, .text = text, .length = length};
    json->number_count = 0;
    json->key_count = 0;
    json->why = NULL;
    json->where = 0;
    if (length > (size_t)INT32_MAX)
        return refuse(&reader, "the text is too long");
    enum strict_json_result result = read_value(&reader);
    if (result != STRICT_JSON_FINE)
        return result;
    skip_blanks(&reader);
    return reader.at == length ? STRICT_JSON_FINE : refuse(&reader, "something follows the value");
}

bool strict_json_is_integer(const char *number, size_t length)
{
    size_t at = length > 0 && number[0] == '-' ? 1 : 0;
    if (at == length || (number[at] == '0' && length - at > 1))
        return false;
    while (at < length && is_digit((unsigned char)number[at]))
        at++;
    return at == length;
}
