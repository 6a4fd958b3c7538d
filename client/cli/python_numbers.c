/* Python's spellings; see python_numbers.h. The rules are those of the Python language reference,
 * sections "Integer literals" and the documentation of float(). */
#include "client/cli/python_numbers.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/bytes_text.h"
#include "base/memory.h"

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* What str.isspace() says of ASCII: also the four separators from 0x1c on. */
static bool is_blank(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r') || (byte >= 0x1c && byte <= 0x1f);
}

/* The text without its outer blanks. */
static const char *strip(const char *text, size_t *length)
{
    while (is_blank(*text))
        text++;
    *length = strlen(text);
    while (*length > 0 && is_blank(text[*length - 1]))
        (*length)--;
    return text;
}

/* Length of digits with single underscores between them, 0 when there are none. */
static size_t digits_length(const char *text, size_t length)
{
    size_t at = 0;
    while (at < length) {
        if (is_digit(text[at]))
            at++;
        else if (text[at] == '_' && at > 0 && at + 1 < length && is_digit(text[at + 1]))
            at += 2;
        else
            break;
    }
    return at;
}

bool python_integer(const char *text, char canonical[PYTHON_INTEGER_SIZE])
{
    size_t length;
    text = strip(text, &length);
    bool negative = length > 0 && text[0] == '-';
    if (length > 0 && (text[0] == '-' || text[0] == '+')) {
        text++;
        length--;
    }
    if (length == 0 || digits_length(text, length) != length)
        return false;
    size_t digits = 0;
    size_t written = 0;
    char *out = canonical;
    if (negative)
        *out++ = '-';
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '_')
            continue;
        if (++digits > PYTHON_MAX_DIGITS)
            return false;
        if (text[i] != '0' || written > 0)
            out[written++] = text[i];
    }
    if (written == 0) { /* zero has no sign */
        canonical[0] = '0';
        canonical[1] = '\0';
    } else {
        out[written] = '\0';
    }
    return true;
}

int python_integer_in_range(const char *canonical, uint64_t maximum, uint64_t *value)
{
    if (canonical[0] == '-' || strcmp(canonical, "0") == 0)
        return -1;
    return count_from_text(canonical, value) && *value <= maximum ? 0 : 1;
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && strncasecmp(text, word, length) == 0;
}

/* [sign] (digits [. [digits]] | . digits) [e [sign] digits], the sign already gone. */
static bool is_decimal(const char *text, size_t length)
{
    size_t at = digits_length(text, length);
    size_t mantissa = at;
    if (at < length && text[at] == '.') {
        size_t fraction = digits_length(text + at + 1, length - at - 1);
        mantissa += fraction;
        at += 1 + fraction;
    }
    if (mantissa == 0)
        return false;
    if (at < length && (text[at] == 'e' || text[at] == 'E')) {
        at++;
        if (at < length && (text[at] == '+' || text[at] == '-'))
            at++;
        size_t exponent = digits_length(text + at, length - at);
        if (exponent == 0)
            return false;
        at += exponent;
    }
    return at == length;
}

static enum python_float_result read_decimal(const char *text, size_t length,
                                             const struct worsegpu_memory *memory, double *number)
{
    char *plain = memory_allocate_array(memory, length + 1, 1);
    if (!plain)
        return PYTHON_FLOAT_NO_MEMORY;
    size_t written = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] != '_')
            plain[written++] = text[i];
    }
    plain[written] = '\0';
    /* The form is right, so that only its size can be what is refused. */
    if (!number_from_text(plain, number))
        *number = INFINITY;
    memory_release_array(memory, plain, length + 1, 1);
    return PYTHON_FLOAT_FINE;
}

enum python_float_result python_float(const char *text, const struct worsegpu_memory *memory,
                                      double *number)
{
    size_t length;
    text = strip(text, &length);
    bool negative = length > 0 && text[0] == '-';
    if (length > 0 && (text[0] == '-' || text[0] == '+')) {
        text++;
        length--;
    }
    enum python_float_result result = PYTHON_FLOAT_FINE;
    if (is_word(text, length, "inf") || is_word(text, length, "infinity"))
        *number = INFINITY;
    else if (is_word(text, length, "nan"))
        *number = NAN;
    else if (is_decimal(text, length))
        result = read_decimal(text, length, memory, number);
    else
        return PYTHON_FLOAT_REFUSED;
    if (negative)
        *number = -*number;
    return result;
}

void python_show(const char *text, char shown[PYTHON_SHOWN_SIZE])
{
    static const char HEX[] = "0123456789abcdef";
    static const char SPECIAL[] = "\n\r\t\\";
    const size_t last = PYTHON_SHOWN_SIZE - 10; /* room for an escape, "...", a quote, the NUL */
    char quote = strchr(text, '\'') && !strchr(text, '"') ? '"' : '\'';
    size_t length = 0;
    shown[length++] = quote;
    for (; *text != '\0' && length < last; text++) {
        unsigned char byte = (unsigned char)*text;
        const char *plain = strchr(SPECIAL, byte);
        if (plain || byte == (unsigned char)quote) {
            shown[length++] = '\\';
            shown[length++] = plain ? "nrt\\"[plain - SPECIAL] : quote;
        } else if (byte < 0x20 || byte == 0x7f) {
            shown[length++] = '\\';
            shown[length++] = 'x';
            shown[length++] = HEX[byte >> 4];
            shown[length++] = HEX[byte & 15];
        } else {
            shown[length++] = *text;
        }
    }
    if (*text != '\0') {
        memcpy(shown + length, "...", 3);
        length += 3;
    }
    shown[length++] = quote;
    shown[length] = '\0';
}

/* The end of a text as Python's regular expressions see it: one line end may stand before it. */
static bool is_end(const char *text)
{
    return text[0] == '\0' || (text[0] == '\n' && text[1] == '\0');
}

bool python_looks_negative(const char *text)
{
    if (*text++ != '-')
        return false;
    size_t whole = strspn(text, "0123456789");
    if (is_end(text + whole))
        return whole > 0;
    if (text[whole] != '.')
        return false;
    text += whole + 1;
    size_t fraction = strspn(text, "0123456789");
    return fraction > 0 && is_end(text + fraction);
}
