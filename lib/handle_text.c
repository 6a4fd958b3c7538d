/* Handles as text: "ID-" and 32 lowercase hex digits. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lib/secrets.h"
#include "lib/worsegpu.h"

/* The two digits of each byte. */
#define PAIRS_OF(high)                                                                             \
    high "0" high "1" high "2" high "3" high "4" high "5" high "6" high "7" high "8" high "9" high \
         "a" high "b" high "c" high "d" high "e" high "f"
static const char PAIRS[] = PAIRS_OF("0") PAIRS_OF("1") PAIRS_OF("2") PAIRS_OF("3") PAIRS_OF("4")
    PAIRS_OF("5") PAIRS_OF("6") PAIRS_OF("7") PAIRS_OF("8") PAIRS_OF("9") PAIRS_OF("a")
        PAIRS_OF("b") PAIRS_OF("c") PAIRS_OF("d") PAIRS_OF("e") PAIRS_OF("f");

size_t worsegpu_handle_to_text(const struct worsegpu_handle *handle,
                               char text[WORSEGPU_HANDLE_TEXT_SIZE])
{
    char reversed[20];
    size_t length = 0;
    uint64_t id = handle->allocation_id;
    do {
        reversed[length++] = (char)('0' + id % 10);
        id /= 10;
    } while (id > 0);
    char *at = text;
    while (length > 0)
        *at++ = reversed[--length];
    *at++ = '-';
    for (size_t i = 0; i < SECRET_BYTES; i++, at += 2)
        memcpy(at, PAIRS + (size_t)handle->secret[i] * 2, 2);
    *at = '\0';
    return (size_t)(at - text);
}

enum {
    DIGIT = 16 /* marks what is a digit */
};

/* The value of each lowercase hex digit, marked as one; 0 for all other bytes. */
static const uint8_t DIGITS[256] = {
    ['0'] = DIGIT,      ['1'] = DIGIT + 1,  ['2'] = DIGIT + 2,  ['3'] = DIGIT + 3,
    ['4'] = DIGIT + 4,  ['5'] = DIGIT + 5,  ['6'] = DIGIT + 6,  ['7'] = DIGIT + 7,
    ['8'] = DIGIT + 8,  ['9'] = DIGIT + 9,  ['a'] = DIGIT + 10, ['b'] = DIGIT + 11,
    ['c'] = DIGIT + 12, ['d'] = DIGIT + 13, ['e'] = DIGIT + 14, ['f'] = DIGIT + 15};

bool worsegpu_handle_from_text(const char *text, size_t length, struct worsegpu_handle *handle)
{
    struct worsegpu_handle found = {0};
    size_t at = 0;
    while (at < length && text[at] >= '0' && text[at] <= '9') {
        uint64_t digit = (uint64_t)(text[at] - '0');
        if (__builtin_mul_overflow(found.allocation_id, 10, &found.allocation_id) ||
            __builtin_add_overflow(found.allocation_id, digit, &found.allocation_id))
            return false;
        at++;
    }
    bool leading_zero = at > 1 && text[0] == '0';
    size_t rest = 1 + 2 * (size_t)SECRET_BYTES;
    if (at == 0 || leading_zero || length - at != rest || text[at] != '-')
        return false;
    const unsigned char *digits = (const unsigned char *)text + at + 1;
    unsigned all_are_digits = DIGIT;
    for (size_t i = 0; i < SECRET_BYTES; i++, digits += 2) {
        unsigned high = DIGITS[digits[0]];
        unsigned low = DIGITS[digits[1]];
        all_are_digits &= high & low;
        found.secret[i] = (uint8_t)(high << 4 | (low & 15));
    }
    if (!all_are_digits)
        return false;
    *handle = found;
    return true;
}
