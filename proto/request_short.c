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
    while (cursor->at < cursor->end && *cursor->at <= ' ' && json_text_is_blank(*cursor->at))
        cursor->at++;
}

/* A text that the compiler knows: compared in a few large steps. */
#define READ_LITERAL(cursor, literal) read_word(cursor, literal, sizeof(literal) - 1)

static inline bool read_word(struct cursor *cursor, const char *word, size_t length)
{
    if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, word, length) != 0)
        return false;
    cursor->at += length;
    return true;
}

static inline bool read_byte(struct cursor *cursor, char byte)
{
    if (cursor->at == cursor->end || *cursor->at != byte)
        return false;
    cursor->at++;
    return true;
}

/* A string of ASCII without escapes. */
static inline bool read_string(struct cursor *cursor, struct request_text *text)
{
    if (!read_byte(cursor, '"'))
        return false;
    const char *at = json_text_after_plain(cursor->at, cursor->end, JSON_TEXT_ASCII_IS_PLAIN);
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
static inline bool read_safe_integer(struct cursor *cursor, int64_t *value)
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

static bool read_boolean(struct cursor *cursor, bool *value)
{
    *value = READ_LITERAL(cursor, "true");
    return *value || READ_LITERAL(cursor, "false");
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

/* After a member: whether another follows (*more), or the object has ended. Blanks are only looked
 * for where neither is there. */
static inline bool read_separator(struct cursor *cursor, bool *more)
{
    *more = read_byte(cursor, ',');
    if (*more || read_byte(cursor, '}'))
        return true;
    skip_blanks(cursor);
    *more = read_byte(cursor, ',');
    return *more || read_byte(cursor, '}');
}

/* Those names that nearly all requests have, with their colon; PARAMETERS when it is none of them.
 */
static inline enum parameter read_usual_parameter(struct cursor *cursor)
{
    if (READ_LITERAL(cursor, "\"requested_bytes\":"))
        return PARAMETER_requested_bytes;
    if (READ_LITERAL(cursor, "\"handle\":"))
        return PARAMETER_handle;
    return READ_LITERAL(cursor, "\"tag\":") ? PARAMETER_tag : PARAMETERS;
}

/* A parameter's name, its colon, and the blanks around them; PARAMETERS when it is none. */
static inline enum parameter read_parameter(struct cursor *cursor)
{
    struct request_text key;
    enum parameter parameter = read_usual_parameter(cursor);
    if (parameter == PARAMETERS)
        return read_key(cursor, &key) ? parameter_from_name(key.bytes, key.length) : PARAMETERS;
    skip_blanks(cursor);
    return parameter;
}

static bool read_params(struct cursor *cursor)
{
    bool more;
    if (!read_byte(cursor, '{'))
        return false;
    if (cursor->at < cursor->end && *cursor->at != '"') {
        skip_blanks(cursor);
        if (read_byte(cursor, '}'))
            return true;
    }
    do {
        enum parameter parameter = read_parameter(cursor);
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
    if (READ_LITERAL(cursor, "\"allocate\"")) {
        cursor->request->method = METHOD_allocate;
        return true;
    }
    if (READ_LITERAL(cursor, "\"free\"")) {
        cursor->request->method = METHOD_free;
        return true;
    }
    if (!read_string(cursor, &name))
        return false;
    cursor->request->method = method_from_name(name.bytes, name.length);
    return cursor->request->method != METHODS;
}

static bool is(const struct request_text *text, const char *name, size_t length)
{
    return text->length == length && memcmp(text->bytes, name, length) == 0;
}

/* The members of a request; each is a bit in the set of those that have come. */
enum member {
    MEMBER_NONE = 0,
    MEMBER_JSONRPC = 1,
    MEMBER_ID = 2,
    MEMBER_METHOD = 4,
    MEMBER_PARAMS = 8
};

/* A member's name with its colon, as everybody writes it; MEMBER_NONE when it is none. */
static inline enum member read_usual_name(struct cursor *cursor)
{
    if (READ_LITERAL(cursor, "\"method\":"))
        return MEMBER_METHOD;
    if (READ_LITERAL(cursor, "\"params\":"))
        return MEMBER_PARAMS;
    if (READ_LITERAL(cursor, "\"id\":"))
        return MEMBER_ID;
    return READ_LITERAL(cursor, "\"jsonrpc\":") ? MEMBER_JSONRPC : MEMBER_NONE;
}

/* A member's name, its colon, and the blanks around them. */
static inline enum member read_member_name(struct cursor *cursor)
{
    struct request_text key;
    enum member member = read_usual_name(cursor);
    if (member == MEMBER_NONE) {
        skip_blanks(cursor);
        member = read_usual_name(cursor);
    }
    if (member != MEMBER_NONE) {
        skip_blanks(cursor);
        return member;
    }
    if (!read_key(cursor, &key))
        return MEMBER_NONE;
    if (is(&key, "id", 2))
        return MEMBER_ID;
    if (is(&key, "method", 6))
        return MEMBER_METHOD;
    if (is(&key, "params", 6))
        return MEMBER_PARAMS;
    return is(&key, "jsonrpc", 7) ? MEMBER_JSONRPC : MEMBER_NONE;
}

/* One member of the request. */
static inline bool read_member(struct cursor *cursor, unsigned *seen)
{
    enum member member = read_member_name(cursor);
    if (member == MEMBER_NONE || (*seen & member) != 0)
        return false;
    *seen |= member;
    switch (member) {
    case MEMBER_ID:
        return read_id(cursor, &cursor->request->id);
    case MEMBER_METHOD:
        return read_method(cursor);
    case MEMBER_PARAMS:
        return read_params(cursor);
    default:
        return READ_LITERAL(cursor, "\"2.0\"");
    }
}

bool request_short(const char *line, size_t length, struct request *request)
{
    struct cursor cursor = {.at = line, .end = line + length, .request = request};
    unsigned seen = 0;
    bool more;
    request->id.kind = REQUEST_ID_NONE;
    request->method = METHODS;
    request->given = 0;
    if (READ_LITERAL(&cursor, "{\"jsonrpc\":\"2.0\",\"id\":")) {
        /* So nearly all of them begin; what comes next is read as any other. */
        seen = MEMBER_JSONRPC | MEMBER_ID;
        if (!read_id(&cursor, &request->id) || !read_byte(&cursor, ','))
            return false;
    } else {
        skip_blanks(&cursor);
        if (!read_byte(&cursor, '{'))
            return false;
    }
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
