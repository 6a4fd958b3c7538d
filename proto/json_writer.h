/* An append-only JSON writer into one growing buffer: exact 64-bit integers, escaped strings,
 * commas by itself. When memory runs out (or max_bytes would be passed) it remembers that, writes
 * nothing more, and the caller cuts it back to a mark. Needs no locale, no cJSON. */
#ifndef JSON_WRITER_H
#define JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/worsegpu_memory.h"

enum json_writer_failure {
    JSON_WRITER_FINE,
    JSON_WRITER_NO_MEMORY,
    JSON_WRITER_TOO_LONG,
    JSON_WRITER_MUTED /* set by the caller: what follows is not wanted; a cut ends it */
};

struct json_writer {
    const struct worsegpu_memory *memory;
    char *data;
    size_t length;
    size_t capacity;
    size_t max_bytes; /* the buffer never gets longer than this */
    bool comma;       /* whether the next value or key wants a comma before it */
    enum json_writer_failure failure;
};

void json_writer_init(struct json_writer *writer, const struct worsegpu_memory *memory,
                      size_t max_bytes);
void json_writer_release(struct json_writer *writer);

/* Makes room for `bytes` more, so that writing that much cannot fail. 0, or -1 with nothing
 * changed. */
int json_writer_reserve(struct json_writer *writer, size_t bytes);

/* Cuts back to `length` bytes, a length that it had between two values, and forgets the failure. */
void json_writer_cut(struct json_writer *writer, size_t length);

void json_writer_begin_object(struct json_writer *writer);
void json_writer_end_object(struct json_writer *writer);
void json_writer_begin_array(struct json_writer *writer);
void json_writer_end_array(struct json_writer *writer);

/* A key; its name must be plain ASCII that needs no escape. Inline, since the length of a literal
 * is known to the compiler. */
void json_writer_key_bytes(struct json_writer *writer, const char *name, size_t length);
static inline void json_writer_key(struct json_writer *writer, const char *name)
{
    json_writer_key_bytes(writer, name, strlen(name));
}

/* A string of valid UTF-8, escaped as it needs; the second takes a NUL-terminated one. */
void json_writer_string(struct json_writer *writer, const char *bytes, size_t length);
static inline void json_writer_text(struct json_writer *writer, const char *text)
{
    json_writer_string(writer, text, strlen(text));
}

void json_writer_u64(struct json_writer *writer, uint64_t value);
void json_writer_i64(struct json_writer *writer, int64_t value);

/* A finite number as the shortest decimal that reads back as the same, always with a point or
 * exponent, whatever the locale. */
void json_writer_double(struct json_writer *writer, double value);

void json_writer_bool(struct json_writer *writer, bool value);
void json_writer_null(struct json_writer *writer);

/* A whole value that is JSON already. */
void json_writer_raw_value(struct json_writer *writer, const char *json, size_t length);

/* Ends a line: writes LF, and the next value is a first one. */
void json_writer_newline(struct json_writer *writer);

/* For templates (json_pieces.h): room for so many bytes, which the caller writes itself, commas
 * too; NULL once something has failed. Then json_writer_wrote says where they end, and whether a
 * comma is due before what follows. */
char *json_writer_room(struct json_writer *writer, size_t bytes);
static inline void json_writer_wrote(struct json_writer *writer, const char *end, bool comma)
{
    writer->length = (size_t)(end - writer->data);
    writer->comma = comma;
}

/* Short for a key and its value. */
static inline void json_writer_member_u64(struct json_writer *writer, const char *name,
                                          uint64_t value)
{
    json_writer_key(writer, name);
    json_writer_u64(writer, value);
}

static inline void json_writer_member_i64(struct json_writer *writer, const char *name,
                                          int64_t value)
{
    json_writer_key(writer, name);
    json_writer_i64(writer, value);
}

static inline void json_writer_member_text(struct json_writer *writer, const char *name,
                                           const char *text)
{
    json_writer_key(writer, name);
    json_writer_text(writer, text);
}

static inline void json_writer_member_string(struct json_writer *writer, const char *name,
                                             const char *bytes, size_t length)
{
    json_writer_key(writer, name);
    json_writer_string(writer, bytes, length);
}

static inline void json_writer_member_bool(struct json_writer *writer, const char *name, bool value)
{
    json_writer_key(writer, name);
    json_writer_bool(writer, value);
}

static inline void json_writer_member_double(struct json_writer *writer, const char *name,
                                             double value)
{
    json_writer_key(writer, name);
    json_writer_double(writer, value);
}

static inline void json_writer_member_null(struct json_writer *writer, const char *name)
{
    json_writer_key(writer, name);
    json_writer_null(writer);
}

#endif
