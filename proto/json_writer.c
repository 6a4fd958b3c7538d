/* An append-only JSON writer; see json_writer.h. The buffer lives as long as the writer and only
 * grows. */
#include "proto/json_writer.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proto/json_pieces.h"
#include "proto/json_text.h"

enum {
    FIRST_CAPACITY = 256,
    LONGEST_DOUBLE = 40 /* 17 digits, signs, point, exponent, and a locale's point */
};

void json_writer_init(struct json_writer *writer, const struct worsegpu_memory *memory,
                      size_t max_bytes)
{
    *writer = (struct json_writer){.memory = memory, .max_bytes = max_bytes};
}

void json_writer_release(struct json_writer *writer)
{
    memory_release_array(writer->memory, writer->data, writer->capacity, 1);
    json_writer_init(writer, writer->memory, writer->max_bytes);
}

static enum json_writer_failure grow(struct json_writer *writer, size_t bytes)
{
    if (bytes > writer->max_bytes - writer->length)
        return JSON_WRITER_TOO_LONG;
    size_t needed = writer->length + bytes;
    size_t target = writer->capacity ? writer->capacity : FIRST_CAPACITY;
    while (target < needed && target <= writer->max_bytes / 2)
        target *= 2;
    if (target < needed || target > writer->max_bytes)
        target = writer->max_bytes;
    char *grown = memory_resize_array(writer->memory, writer->data, writer->capacity, target, 1);
    if (!grown)
        return JSON_WRITER_NO_MEMORY;
    writer->data = grown;
    writer->capacity = target;
    return JSON_WRITER_FINE;
}

int json_writer_reserve(struct json_writer *writer, size_t bytes)
{
    if (bytes <= writer->capacity - writer->length)
        return 0;
    return grow(writer, bytes) == JSON_WRITER_FINE ? 0 : -1;
}

void json_writer_cut(struct json_writer *writer, size_t length)
{
    assert(length <= writer->length);
    writer->length = length;
    writer->failure = JSON_WRITER_FINE;
    writer->comma = length > 0 && !memchr("\n{[:,", writer->data[length - 1], 5);
}

/* Where the next bytes go, with room for so many; NULL once something has failed. The caller moves
 * `length` on. */
static inline char *room_for(struct json_writer *writer, size_t bytes)
{
    if (__builtin_expect(writer->failure != JSON_WRITER_FINE, 0))
        return NULL;
    if (__builtin_expect(bytes > writer->capacity - writer->length, 0)) {
        writer->failure = grow(writer, bytes);
        if (writer->failure != JSON_WRITER_FINE)
            return NULL;
    }
    return writer->data + writer->length;
}

/* The same for a whole value, key or opening bracket, before which a comma may be due. */
static inline char *room_for_next(struct json_writer *writer, size_t bytes)
{
    char *out = room_for(writer, bytes + writer->comma);
    if (out && writer->comma) {
        *out++ = ',';
        writer->length++;
    }
    return out;
}

static inline void write_value(struct json_writer *writer, const char *bytes, size_t length)
{
    char *out = room_for_next(writer, length);
    if (!out)
        return;
    memcpy(out, bytes, length);
    writer->length += length;
    writer->comma = true;
}

static inline void write_open(struct json_writer *writer, char bracket)
{
    write_value(writer, &bracket, 1);
    writer->comma = false;
}

static inline void write_close(struct json_writer *writer, char bracket)
{
    writer->comma = false;
    write_value(writer, &bracket, 1);
}

void json_writer_begin_object(struct json_writer *writer)
{
    write_open(writer, '{');
}

void json_writer_end_object(struct json_writer *writer)
{
    write_close(writer, '}');
}

void json_writer_begin_array(struct json_writer *writer)
{
    write_open(writer, '[');
}

void json_writer_end_array(struct json_writer *writer)
{
    write_close(writer, ']');
}

void json_writer_key_bytes(struct json_writer *writer, const char *name, size_t length)
{
    char *out = room_for_next(writer, length + 3);
    if (!out)
        return;
    *out++ = '"';
    memcpy(out, name, length);
    out += length;
    *out++ = '"';
    *out++ = ':';
    writer->length = (size_t)(out - writer->data);
    writer->comma = false;
}

char *json_writer_room(struct json_writer *writer, size_t bytes)
{
    return room_for(writer, bytes);
}

static bool needs_escape(unsigned char byte)
{
    return byte < 0x20 || byte == '"' || byte == '\\';
}

/* Appends bytes that are neither a value nor a key of their own. */
static bool append(struct json_writer *writer, const char *bytes, size_t length)
{
    char *out = room_for(writer, length);
    if (!out)
        return false;
    if (length > 0)
        memcpy(out, bytes, length);
    writer->length += length;
    return true;
}

static bool append_escape(struct json_writer *writer, unsigned char byte)
{
    static const char PLAIN[] = "\"\\\b\f\n\r\t";
    static const char SHORT[] = "\"\\bfnrt";
    static const char HEX[] = "0123456789abcdef";
    const char *plain = memchr(PLAIN, byte, sizeof(PLAIN) - 1);
    if (plain) {
        const char escape[2] = {'\\', SHORT[plain - PLAIN]};
        return append(writer, escape, sizeof(escape));
    }
    const char escape[6] = {'\\', 'u', '0', '0', HEX[byte >> 4], HEX[byte & 15]};
    return append(writer, escape, sizeof(escape));
}

/* A string in which something is to be escaped. */
static void write_escaped(struct json_writer *writer, const char *bytes, size_t length)
{
    char *out = room_for_next(writer, 1);
    if (!out)
        return;
    *out = '"';
    writer->length++;
    for (size_t at = 0; at < length;) {
        size_t run = at;
        while (run < length && !needs_escape((unsigned char)bytes[run]))
            run++;
        if (!append(writer, bytes + at, run - at))
            return;
        if (run < length && !append_escape(writer, (unsigned char)bytes[run++]))
            return;
        at = run;
    }
    if (append(writer, "\"", 1))
        writer->comma = true;
}

void json_writer_string(struct json_writer *writer, const char *bytes, size_t length)
{
    const char *end = bytes + length;
    if (json_text_after_plain(bytes, end, JSON_TEXT_UTF8_IS_PLAIN) != end) {
        write_escaped(writer, bytes, length);
        return;
    }
    char *out = room_for_next(writer, length + 2);
    if (!out)
        return;
    *out++ = '"';
    if (length > 0)
        memcpy(out, bytes, length);
    out[length] = '"';
    writer->length += length + 2;
    writer->comma = true;
}

/* Whether any integer fits where the next value goes, so that it can be printed there at once. */
static inline bool integer_fits(const struct json_writer *writer)
{
    return writer->failure == JSON_WRITER_FINE &&
           writer->capacity - writer->length > JSON_PIECES_LONGEST_INTEGER;
}

void json_writer_u64(struct json_writer *writer, uint64_t value)
{
    char *out = integer_fits(writer) ? room_for_next(writer, JSON_PIECES_LONGEST_INTEGER) : NULL;
    if (out) {
        json_writer_wrote(writer, json_piece_u64(out, value), true);
        return;
    }
    char digits[JSON_PIECES_LONGEST_INTEGER];
    const char *end = json_piece_u64(digits, value);
    write_value(writer, digits, (size_t)(end - digits));
}

void json_writer_i64(struct json_writer *writer, int64_t value)
{
    char *out = integer_fits(writer) ? room_for_next(writer, JSON_PIECES_LONGEST_INTEGER) : NULL;
    if (out) {
        json_writer_wrote(writer, json_piece_i64(out, value), true);
        return;
    }
    char digits[JSON_PIECES_LONGEST_INTEGER];
    const char *end = json_piece_i64(digits, value);
    write_value(writer, digits, (size_t)(end - digits));
}

void json_writer_double(struct json_writer *writer, double value)
{
    char text[LONGEST_DOUBLE];
    char plain[LONGEST_DOUBLE + 2];
    size_t length = 0;
    bool whole = true;
    assert(isfinite(value));
    /* Fifteen digits are never one too many for a normal number; for a subnormal one they may be.
     */
    for (int digits = fabs(value) < 2.2250738585072014e-308 ? 1 : 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    /* Whatever is neither digit, sign nor exponent is the locale's point, perhaps several bytes of
     * it. */
    for (const char *from = text; *from; from++) {
        if (strchr("0123456789+-e", *from)) {
            whole = whole && *from != 'e';
            plain[length++] = *from;
        } else if (whole) {
            whole = false;
            plain[length++] = '.';
        }
    }
    if (whole) {
        plain[length++] = '.';
        plain[length++] = '0';
    }
    write_value(writer, plain, length);
}

void json_writer_bool(struct json_writer *writer, bool value)
{
    if (value)
        write_value(writer, "true", 4);
    else
        write_value(writer, "false", 5);
}

void json_writer_null(struct json_writer *writer)
{
    write_value(writer, "null", 4);
}

void json_writer_raw_value(struct json_writer *writer, const char *json, size_t length)
{
    write_value(writer, json, length);
}

void json_writer_newline(struct json_writer *writer)
{
    writer->comma = false;
    write_open(writer, '\n');
}
