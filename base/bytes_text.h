/* Byte counts and other plain numbers as people write them: "4096", "2MiB", "1.5GiB", "32.0 MiB".
 */
#ifndef BYTES_TEXT_H
#define BYTES_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BYTES_TEXT_SIZE = 40 /* room for any byte count as bytes_to_text writes it, NUL included */
};

/* Reads a byte count: digits, perhaps a fraction, perhaps a unit (B, K, KB, KiB, M, ..., T, TB,
 * TiB; any case; always powers of 1024; blanks allowed before the unit). The result must be a whole
 * number of bytes below 2^64. false when `text` is anything else: then *bytes is left alone, as in
 * the others. */
bool bytes_from_text(const char *text, uint64_t *bytes);

/* Reads a plain decimal integer, digits only (zeros in front are fine), below 2^64. */
bool count_from_text(const char *text, uint64_t *count);

/* Reads a decimal number ("0.65", "1e-3", "-2.", "+.5") whatever the locale, rounded to the nearest
 * double; no infinities, NaN, hex, blanks, and nothing too large for a double. */
bool number_from_text(const char *text, double *number);

/* Writes a byte count as the reference shows it: divided by 1024 while the magnitude is 1024 or
 * more, units B, KiB, MiB, GiB (no more), one decimal, thousands commas: "1,023.9 MiB", "-6.2 MiB".
 * The one-decimal rounding is of the exact binary value, a true tie going to even
 * (golden/format-bytes.json). The magnitude is `bytes`; `negative` puts a minus sign before it. */
void bytes_to_text(uint64_t bytes, bool negative, char text[BYTES_TEXT_SIZE]);

/* Writes a byte count so that bytes_from_text reads it back exactly: with the largest unit up to
 * TiB of which it is a whole number: "2MiB", "1000", "0". */
void bytes_to_exact_text(uint64_t bytes, char text[BYTES_TEXT_SIZE]);

#endif
