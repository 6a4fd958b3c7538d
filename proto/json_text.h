/* Small things about the text of JSON that several modules here need: blanks, UTF-8, escapes. No
 * state. */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The four blanks of RFC 8259, section 2. */
static inline bool json_text_is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* The value of four hex digits; -1 when one of them is none. */
long json_text_hex4(const char *digits);

/* How many bytes the UTF-8 character at `bytes` has, of `length` that are there (RFC 3629, section
 * 4); 0 when it is cut short, overlong, a surrogate, or none at all. */
size_t json_text_utf8_length(const char *bytes, size_t length);

/* How many of the first `most` bytes of valid UTF-8 make whole characters. */
size_t json_text_cut(const char *bytes, size_t length, size_t most);

/* Compares the insides of two valid JSON strings by their bytes after unescaping. Below, at or
 * above 0. */
int json_text_compare_unescaped(const char *a, size_t a_length, const char *b, size_t b_length);

/* Writes the inside of a valid JSON string unescaped, at most `room` bytes of it. Returns how many
 * bytes it has, which is above `room` when not all were written. */
size_t json_text_unescape(const char *bytes, size_t length, char *out, size_t room);

/* Client text made fit for a message: at most `length` bytes of valid UTF-8 in, printable ASCII out
 * (the rest as \u00e9 or \U0001f600), cut with "..." when `room` (NUL included, at least 16) does
 * not hold it. */
void json_text_printable(const char *bytes, size_t length, char *out, size_t room);

#endif
