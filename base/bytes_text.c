/* Byte counts and plain numbers, read and written; see bytes_text.h. Nothing here lives past a
 * call.
 *
 * All is exact: byte counts never pass through a rounded decimal, and no locale has a say. */
#include "base/bytes_text.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    UNIT_BITS = 10,    /* each unit is 2^10 of the one before */
    LARGEST_SHOWN = 3, /* GiB: the reference shows nothing larger */
    FRACTION_DIGITS_MAX =
        40,               /* in bits, the largest unit read; more digits cannot give whole bytes */
    SHOWN_DIGITS_MAX = 12 /* of 2^64 bytes in tenths of GiB */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t count_digits(const char *text)
{
    size_t count = 0;
    while (is_digit(text[count]))
        count++;
    return count;
}

static bool whole_from_digits(const char *digits, size_t count, uint64_t *whole)
{
    uint64_t value = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t digit = (uint64_t)(digits[i] - '0');
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *whole = value;
    return true;
}

bool count_from_text(const char *text, uint64_t *count)
{
    size_t digits = count_digits(text);
    return digits > 0 && text[digits] == '\0' && whole_from_digits(text, digits, count);
}

/* The bits that the unit in `text` stands for; false when it is none. An empty text is bytes. */
static bool unit_from_text(const char *text, unsigned *bits)
{
    static const char letters[] = "kmgt";
    *bits = 0;
    if (text[0] == '\0')
        return true;
    const char *letter = strchr(letters, lower(text[0]));
    if (letter) {
        *bits = UNIT_BITS * (unsigned)(letter - letters + 1);
        text++;
        if (text[0] == '\0')
            return true;
        if (lower(text[0]) == 'i')
            text++;
    }
    return lower(text[0]) == 'b' && text[1] == '\0';
}

/* A decimal fraction (the digits after the point) of 2^bits; false unless it is a whole number. The
 * digits are doubled once for each bit, and what is carried out in front is the next bit of the
 * result. */
static bool scale_fraction(const char *digits, size_t count, unsigned bits, uint64_t *scaled)
{
    char left[FRACTION_DIGITS_MAX];
    *scaled = 0;
    while (count > 0 && digits[count - 1] == '0')
        count--;
    /* A last digit that is not 0 needs one bit for each place. */
    if (count > bits || count > FRACTION_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < count; i++)
        left[i] = (char)(digits[i] - '0');
    for (unsigned bit = 0; bit < bits; bit++) {
        int carry = 0;
        for (size_t i = count; i > 0; i--) {
            int doubled = left[i - 1] * 2 + carry;
            left[i - 1] = (char)(doubled % 10);
            carry = doubled / 10;
        }
        *scaled = *scaled << 1 | (uint64_t)carry;
    }
    for (size_t i = 0; i < count; i++) {
        if (left[i] != 0)
            return false;
    }
    return true;
}

bool bytes_from_text(const char *text, uint64_t *bytes)
{
    size_t whole_digits = count_digits(text);
    const char *rest = text + whole_digits;
    const char *fraction = rest;
    size_t fraction_digits = 0;
    if (whole_digits == 0)
        return false;
    if (rest[0] == '.') {
        fraction = rest + 1;
        fraction_digits = count_digits(fraction);
        if (fraction_digits == 0)
            return false;
        rest = fraction + fraction_digits;
    }
    const char *unit = rest;
    while (unit[0] == ' ' || unit[0] == '\t')
        unit++;
    if (unit != rest && unit[0] == '\0')
        return false;

    unsigned bits;
    uint64_t whole;
    uint64_t part;
    if (!unit_from_text(unit, &bits) || !whole_from_digits(text, whole_digits, &whole) ||
        __builtin_mul_overflow(whole, UINT64_C(1) << bits, &whole) ||
        !scale_fraction(fraction, fraction_digits, bits, &part))
        return false;
    *bytes = whole + part; /* part is below one unit, and whole a multiple of it */
    return true;
}

/* Whether the whole text is a decimal number: a sign, digits with a point anywhere, an exponent. */
static bool is_decimal_number(const char *text)
{
    if (text[0] == '-' || text[0] == '+')
        text++;
    size_t digits = count_digits(text);
    text += digits;
    if (text[0] == '.') {
        size_t after_point = count_digits(text + 1);
        text += 1 + after_point;
        digits += after_point;
    }
    if (digits == 0)
        return false;
    if (lower(text[0]) == 'e') {
        text++;
        if (text[0] == '-' || text[0] == '+')
            text++;
        size_t exponent = count_digits(text);
        if (exponent == 0)
            return false;
        text += exponent;
    }
    return text[0] == '\0';
}

bool number_from_text(const char *text, double *number)
{
    if (!is_decimal_number(text))
        return false;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain)
        return false;
    double value = strtod_l(text, NULL, plain);
    freelocale(plain);
    if (!isfinite(value))
        return false;
    *number = value;
    return true;
}

/* Writes `tenths` with one decimal and thousands commas at `text`; how many bytes. */
static size_t write_tenths(uint64_t tenths, char *text)
{
    char digits[SHOWN_DIGITS_MAX]; /* of the whole part, last one first */
    size_t count = 0;
    size_t length = 0;
    uint64_t whole = tenths / 10;
    do {
        digits[count++] = (char)('0' + whole % 10);
        whole /= 10;
    } while (whole > 0);
    while (count > 0) {
        text[length++] = digits[--count];
        if (count > 0 && count % 3 == 0)
            text[length++] = ',';
    }
    text[length++] = '.';
    text[length++] = (char)('0' + tenths % 10);
    return length;
}

void bytes_to_text(uint64_t bytes, bool negative, char text[BYTES_TEXT_SIZE])
{
    static const char units[][5] = {" B", " KiB", " MiB", " GiB"};
    size_t unit = 0;
    /* The reference counts in doubles: above 2^53 only the 53 leading bits are left, rounded to
     * even. */
    unsigned __int128 exact = (unsigned __int128)(double)bytes;
    while (unit < LARGEST_SHOWN && exact >> (UNIT_BITS * (unit + 1)) > 0)
        unit++;

    unsigned __int128 divisor = (unsigned __int128)1 << (UNIT_BITS * unit);
    uint64_t tenths = (uint64_t)(exact * 10 / divisor);
    unsigned __int128 twice_left = exact * 10 % divisor * 2;
    if (twice_left > divisor || (twice_left == divisor && tenths % 2 == 1))
        tenths++;

    size_t length = 0;
    if (negative)
        text[length++] = '-';
    length += write_tenths(tenths, text + length);
    memcpy(text + length, units[unit], sizeof(units[unit]));
}

void bytes_to_exact_text(uint64_t bytes, char text[BYTES_TEXT_SIZE])
{
    static const char *const NAMES[] = {"", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (unit + 1 < sizeof(NAMES) / sizeof(NAMES[0]) && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, BYTES_TEXT_SIZE, "%" PRIu64 "%s", bytes, NAMES[unit]);
}
