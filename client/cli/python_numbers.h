/* Numbers as Python's int() and float() read them, since the demo and the benchmark promise to take
 * what the reference takes: outer blanks, a leading +, leading zeros, single underscores between
 * digits. Digits outside ASCII are not read. No state. */
#ifndef PYTHON_NUMBERS_H
#define PYTHON_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/worsegpu_memory.h"

enum {
    PYTHON_MAX_DIGITS = 4300, /* CPython's limit for int(), leading zeros counted */
    PYTHON_INTEGER_SIZE = PYTHON_MAX_DIGITS + 2 /* with a sign and a NUL */
};

/* Writes the integer as Python would print it: "-7", "0" (never "-0"). false when int() refuses it.
 */
bool python_integer(const char *text, char canonical[PYTHON_INTEGER_SIZE]);

/* How such an integer compares with 1 and with `maximum`: -1 when below 1, 1 when above `maximum`,
 * else 0 with *value. */
int python_integer_in_range(const char *canonical, uint64_t maximum, uint64_t *value);

enum python_float_result {
    PYTHON_FLOAT_NO_MEMORY = -1,
    PYTHON_FLOAT_FINE = 0,
    PYTHON_FLOAT_REFUSED = 1
};

/* As float(): infinities and NaN are fine, what is too large is an infinity. */
enum python_float_result python_float(const char *text, const struct worsegpu_memory *memory,
                                      double *number);

enum {
    PYTHON_SHOWN_SIZE = 256 /* room for a value shown in a message */
};

/* A text as Python's repr shows it, cut with "..." when long. */
void python_show(const char *text, char shown[PYTHON_SHOWN_SIZE]);

/* Whether a word looks like a negative number to argparse: -N, -.N or -N.N. */
bool python_looks_negative(const char *text);

#endif
