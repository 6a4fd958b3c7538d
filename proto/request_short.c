/* The short way through a request line; see request_short.h. It must be fast: nearly all lines go
 * it.
 *
 * A cursor runs over the line once. Each read_ function moves it past what it is named for and says
 * whether that was there in its plainest form; the first that was not ends the attempt. */
#include "proto/request_short.h"

#include <string.h>

#include "proto/json_text.h"

struct cursor {
    const char *at;
    const char *end;
    struct request *request;
};

static const size_t FIELD_OFFSETS[PARAMETERS] = {
#define PARAMETER(name, type, minimum, maximum, default_text, meaning)                             \
    [PARAMETER_##name] = offsetof(struct request_params, name),
#include "proto/methods.def"
};

void *request_field(struct request_params *params, enum parameter parameter)
{
    return (char *)params + FIELD_OFFSETS[parameter];
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

bool request_is_name(const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char byte = bytes[i];
        bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
        bool mark = byte == '.' || byte == '_' || byte == '-';
        if (!letter && !is_digit(byte) && !(mark && i > 0))
            return false;
    }
    return length > 0;
}

bool request_is_decimal(const char *bytes, size_t length, uint64_t most)
{
    size_t start = length > 0 && bytes[0] == '-' ? 1 : 0;
    if (length == start || length - start > most)
        return false;
    for (size_t i = start; i < length; i++)
        if (!is_digit(bytes[i]))
            return false;
    return true;
}

static inline void skip_blanks(struct cursor *cursor)
{
    while (cursor->at < cursor->end && json_text_is_blank(*cursor->at))
        cursor->at++;
}

static inline bool read_byte(struct cursor *cursor, char byte)
{
    if (cursor->at == cursor->end || *cursor->at != byte)
        return false;
    cursor->at++;
    return true;
}

/* The first byte from `at` on that is a quote, a backslash, a control character or above 127. Eight
 * at a time: in `stops` the lowest top bit that is set belongs to the first such byte (those above
 * it may be carried over from it, so only the first counts). */
static inline const char *after_plain_text(const char *at, const char *end)
{
    const uint64_t each = UINT64_C(0x0101010101010101);
    while (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && end - at >= 8) {
        uint64_t bytes;
        memcpy(&bytes, at, sizeof(bytes));
        uint64_t quotes = bytes ^ (each * '"');
        uint64_t backslashes = bytes ^ (each * '\\');
        uint64_t stops = ((quotes - each) & ~quotes) | ((backslashes - each) & ~backslashes) |
                         (bytes - each * 0x20) | bytes;
        stops &= each * 0x80;
        if (stops != 0)
            return at + __builtin_ctzll(stops) / 8;
        at += sizeof(bytes);
    }
    while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20 &&
           (unsigned char)*at < 0x80)
        at++;
    return at;
}

/* A string of ASCII without escapes. */
static inline bool read_string(struct cursor *cursor, struct request_text *text)
{
    if (!read_byte(cursor, '"'))
        return false;
    const char *at = after_plain_text(cursor->at, cursor->end);
    text->bytes = cursor->at;
    text->length = (size_t)(at - cursor->at);
    cursor->at = at;
    return read_byte(cursor, '"');
}

/* Digits without a needless zero, below 10^19. What must not follow a number is seen by the caller,
 * who wants a comma or bracket next. */
static inline bool read_digits(struct cursor *cursor, uint64_t *value)
{
    enum {
        MOST_DIGITS = 19
    };
    const char *start = cursor->at;
    const char *at = start;
    uint64_t sum = 0;
    while (at < cursor->end && is_digit(*at) && at - start < MOST_DIGITS)
        sum = sum * 10 + (uint64_t)(*at++ - '0');
    if (at == start || (*start == '0' && at - start > 1))
        return false;
    cursor->at = at;
    *value = sum;
    return true;
}

/* A plain integer within +-(2^53 - 1), no -0. */
static bool read_safe_integer(struct cursor *cursor, int64_t *value)
{
    uint64_t magnitude;
    bool negative = read_byte(cursor, '-');
    if (!read_digits(cursor, &magnitude) || magnitude > PROTO_MAX_SAFE_INTEGER ||
        (negative && magnitude == 0))
        return false;
    *value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return true;
}

bool request_is_safe_integer(const char *bytes, size_t length, int64_t *value)
{
    struct cursor cursor = {.at = bytes, .end = bytes + length};
    return read_safe_integer(&cursor, value) && cursor.at == cursor.end;
}

static bool read_word(struct cursor *cursor, const char *word, size_t length)
{
    if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, word, length) != 0)
        return false;
    cursor->at += length;
    return true;
}

static bool read_boolean(struct cursor *cursor, bool *value)
{
    *value = read_word(cursor, "true", 4);
    return *value || read_word(cursor, "false", 5);
}

static bool read_seed(struct cursor *cursor, struct request_seed *seed, uint64_t most_digits)
{
    seed->given = true;
    seed->is_string = cursor->at < cursor->end && *cursor->at == '"';
    if (seed->is_string)
        return read_string(cursor, &seed->decimal) &&
               request_is_decimal(seed->decimal.bytes, seed->decimal.length, most_digits);
    int64_t unused;
    seed->decimal.bytes = cursor->at;
    if (!read_safe_integer(cursor, &unused))
        return false;
    seed->decimal.length = (size_t)(cursor->at - seed->decimal.bytes);
    return true;
}

/* The value of a parameter, right by its line in the table. */
static bool read_value(struct cursor *cursor, enum parameter parameter)
{
    const struct parameter_info *info = parameter_info(parameter);
    void *field = request_field(&cursor->request->params, parameter);
    switch (info->type) {
    case PARAMETER_TYPE_INTEGER: {
        uint64_t *value = field;
        return read_digits(cursor, value) && *value >= info->minimum && *value <= info->maximum;
    }
    case PARAMETER_TYPE_BOOLEAN:
        return read_boolean(cursor, field);
    case PARAMETER_TYPE_TEXT:
    case PARAMETER_TYPE_NAME: {
        struct request_text *text = field;
        return read_string(cursor, text) && text->length >= info->minimum &&
               text->length <= info->maximum &&
               (info->type == PARAMETER_TYPE_TEXT || request_is_name(text->bytes, text->length));
    }
    case PARAMETER_TYPE_SEED:
        return read_seed(cursor, field, info->maximum);
    case PARAMETER_TYPE_PROBABILITY: /* reading fractions exactly is not for here */
        break;
    }
    return false;
}

/* A key and its colon, and the blanks around them. */
static inline bool read_key(struct cursor *cursor, struct request_text *key)
{
    skip_blanks(cursor);
    if (!read_string(cursor, key))
        return false;
    skip_blanks(cursor);
    if (!read_byte(cursor, ':'))
        return false;
    skip_blanks(cursor);
    return true;
}

/* After a member: whether another follows (*more), or the object has ended. */
static inline bool read_separator(struct cursor *cursor, bool *more)
{
    skip_blanks(cursor);
    *more = read_byte(cursor, ',');
    return *more || read_byte(cursor, '}');
}

static bool read_params(struct cursor *cursor)
{
    bool more;
    if (!read_byte(cursor, '{'))
        return false;
    skip_blanks(cursor);
    if (read_byte(cursor, '}'))
        return true;
    do {
        struct request_text key;
        if (!read_key(cursor, &key))
            return false;
        enum parameter parameter = parameter_from_name(key.bytes, key.length);
        if (parameter == PARAMETERS || request_has(cursor->request, parameter) ||
            !read_value(cursor, parameter) || !read_separator(cursor, &more))
            return false;
        cursor->request->given |= UINT64_C(1) << parameter;
    } while (more);
    return true;
}

static bool read_id(struct cursor *cursor, struct request_id *id)
{
    if (cursor->at < cursor->end && *cursor->at == '"') {
        struct request_text text;
        if (!read_string(cursor, &text) || text.length > PROTO_MAX_ID_BYTES)
            return false;
        id->kind = REQUEST_ID_STRING;
        id->length = text.length;
        memcpy(id->string, text.bytes, text.length);
        return true;
    }
    id->kind = REQUEST_ID_INTEGER;
    return read_safe_integer(cursor, &id->integer);
}

static bool read_method(struct cursor *cursor)
{
    struct request_text name;
    if (!read_string(cursor, &name))
        return false;
    cursor->request->method = method_from_name(name.bytes, name.length);
    return cursor->request->method != METHODS;
}

static bool is(const struct request_text *text, const char *name, size_t length)
{
    return text->length == length && memcmp(text->bytes, name, length) == 0;
}

/* One member of the request; *seen has a bit for each that has come. */
static bool read_member(struct cursor *cursor, unsigned *seen)
{
    enum {
        JSONRPC = 1,
        ID = 2,
        METHOD = 4,
        PARAMS = 8
    };
    struct request_text key;
    struct request_text version;
    unsigned member;
    bool fine;
    if (!read_key(cursor, &key))
        return false;
    if (is(&key, "id", 2)) {
        member = ID;
        fine = read_id(cursor, &cursor->request->id);
    } else if (is(&key, "method", 6)) {
        member = METHOD;
        fine = read_method(cursor);
    } else if (is(&key, "params", 6)) {
        member = PARAMS;
        fine = read_params(cursor);
    } else if (is(&key, "jsonrpc", 7)) {
        member = JSONRPC;
        fine = read_string(cursor, &version) && is(&version, "2.0", 3);
    } else {
        return false;
    }
    fine = fine && (*seen & member) == 0;
    *seen |= member;
    return fine;
}

bool request_short(const char *line, size_t length, struct request *request)
{
    struct cursor cursor = {.at = line, .end = line + length, .request = request};
    unsigned seen = 0;
    bool more;
    request->id.kind = REQUEST_ID_NONE;
    request->method = METHODS;
    request->given = 0;
    skip_blanks(&cursor);
    if (!read_byte(&cursor, '{'))
        return false;
    do {
        if (!read_member(&cursor, &seen) || !read_separator(&cursor, &more))
            return false;
    } while (more);
    skip_blanks(&cursor);
    if (cursor.at != cursor.end || request->method == METHODS)
        return false;
    const struct method_info *method = method_info(request->method);
    request->notification = request->id.kind == REQUEST_ID_NONE;
    return (request->given & ~method->takes) == 0 && (method->required & ~request->given) == 0;
}
