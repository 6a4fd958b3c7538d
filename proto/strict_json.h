/* Is this line RFC 8259, and nothing more? Runs before cJSON, which is lenient.
 *
 * Refused: leading zeros, trailing commas or garbage, NaN, raw control characters, invalid UTF-8, a
 * byte order mark, lone surrogates, \u0000 in a string, a key twice in one object (after
 * unescaping), more than PROTO_MAX_JSON_DEPTH levels. One pass; duplicate keys are found by
 * sorting, so that no choice of keys is dear. On the way it notes where each number stands, since
 * cJSON forgets how a number was written. */
#ifndef STRICT_JSON_H
#define STRICT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/worsegpu_memory.h"

struct strict_json_span {
    uint32_t start; /* byte offset in the line */
    uint32_t length;
};

struct strict_json_key {
    struct strict_json_span text; /* between the quotes */
    bool escaped;                 /* has a backslash */
};

/* A workspace, made once and used for every line. */
struct strict_json {
    const struct worsegpu_memory *memory;
    struct strict_json_span *numbers; /* every number of the line in document order */
    size_t number_count;
    size_t number_capacity;
    struct strict_json_key *keys; /* of the objects now open */
    size_t key_count;
    size_t key_capacity;
    const char *why; /* after a refusal: what is wrong, a static text */
    size_t where;    /* and at which byte */
};

enum strict_json_result {
    STRICT_JSON_NO_MEMORY = -1,
    STRICT_JSON_FINE = 0,
    STRICT_JSON_REFUSED = 1
};

void strict_json_init(struct strict_json *json, const struct worsegpu_memory *memory);
void strict_json_release(struct strict_json *json);

/* Judges one text of at most 2^31 bytes; it needs no NUL. */
enum strict_json_result strict_json_check(struct strict_json *json, const char *text,
                                          size_t length);

/* Whether a number is written as a plain integer: -?(0|[1-9][0-9]*). */
bool strict_json_is_integer(const char *number, size_t length);

#endif
