/* A second, independent judge of JSON texts: slow, recursive, and written from RFC 8259, RFC 3629
 * and the contract alone. It shares no code with proto/, so that the two can be held against each
 * other. */
#ifndef NAIVE_JSON_H
#define NAIVE_JSON_H

#include <stdbool.h>
#include <stddef.h>

/* Told of each number of a text, in its order: where it begins, and how long it is. */
typedef void (*naive_json_number)(void *context, size_t start, size_t length);

/* Whether the text is what the contract takes: RFC 8259 in UTF-8 without a byte order mark; no lone
 * surrogate, no \u0000, no key twice in an object, at most 16 levels. `told` may be NULL. Numbers
 * are told as they are met, also of a text that turns out to be wrong. */
bool naive_json_is_strict(const char *text, size_t length, naive_json_number told, void *context);

#endif
