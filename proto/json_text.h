/* Small things about the text of JSON that several modules here need: blanks, UTF-8, escapes. No
 * state. */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The four blanks of RFC 8259, section 2. */
static inline bool json_text_is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* Which bytes may stand in a string as they are. */
enum json_text_plain {
    JSON_TEXT_ASCII_IS_PLAIN,
    JSON_TEXT_UTF8_IS_PLAIN /* all above 127 as well */
};

/* The first byte from `at` on that is a quote, a backslash, a control character or, as said, above
 * 127; `end` when there is none. Eight at a time: in `stops` the lowest top bit that is set belongs
 * to the first such byte (those above it may be carried over from it, so only the first counts). */
static inline const char *json_text_after_plain(const char *at, const char *end,
                                                enum json_text_plain plain)
{
    const uint64_t each = UINT64_C(0x0101010101010101);
    while (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && end - at >= 8) {
        uint64_t bytes;
        memcpy(&bytes, at, sizeof(bytes));
        uint64_t quotes = bytes ^ (each * '"');
        uint64_t backslashes = bytes ^ (each * '\\');
        uint64_t stops = ((quotes - each) & ~quotes) | ((backslashes - each) & ~backslashes) |
                         ((bytes - each * 0x20) & ~bytes);
        if (plain == JSON_TEXT_ASCII_IS_PLAIN)
            stops |= bytes;
        stops &= each * 0x80;
        if (stops != 0)
            return at + __builtin_ctzll(stops) / 8;
        at += sizeof(bytes);
    }
    while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20 &&
           (plain == JSON_TEXT_UTF8_IS_PLAIN || (unsigned char)*at < 0x80))
        at++;
    return at;
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
