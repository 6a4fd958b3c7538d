/* Where the values of an object or an array stand in a JSON text that is known to be valid.
 *
 * cJSON forgets that, and to print a part of an answer exactly as it came its bytes are needed. */
#ifndef JSON_SPAN_H
#define JSON_SPAN_H

#include <stddef.h>

struct json_span {
    const char *bytes;
    size_t length;
};

/* The value of the index-th member of an object or item of an array, from 0; `bytes` NULL when
 * there are fewer. `text` is exactly one value, blanks around it allowed. */
struct json_span json_span_child(struct json_span text, size_t index);

/* The value of a member whose name needs no escape and is written without one. */
struct json_span json_span_member(struct json_span text, const char *name);

/* To walk an object or an array in one pass: *position starts at 0; `bytes` is NULL after the last.
 */
struct json_span json_span_next(struct json_span text, size_t *position, struct json_span *name);

#endif
