/* Handles as text: "ID-" and 32 lowercase hex digits. */
#include <stddef.h>

#include "lib/secrets.h"
#include "lib/worsegpu.h"

void worsegpu_handle_to_text(const struct worsegpu_handle *handle,
                             char text[WORSEGPU_HANDLE_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
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
    for (size_t i = 0; i < SECRET_BYTES; i++) {
        *at++ = digits[handle->secret[i] >> 4];
        *at++ = digits[handle->secret[i] & 15];
    }
    *at = '\0';
}

/* The value of a lowercase hex digit, or -1. */
static int digit_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return -1;
}

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
    at++;
    for (size_t i = 0; i < SECRET_BYTES; i++) {
        int high = digit_value(text[at++]);
        int low = digit_value(text[at++]);
        if (high < 0 || low < 0)
            return false;
        found.secret[i] = (uint8_t)(high << 4 | low);
    }
    *handle = found;
    return true;
}
