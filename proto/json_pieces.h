/* Pieces of a JSON text written at a pointer, for answers that are made from templates: the
 * constant parts are copied whole, the numbers printed in between. Whoever uses these sees to the
 * room and to the commas. Each returns where the next piece goes. */
#ifndef JSON_PIECES_H
#define JSON_PIECES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    JSON_PIECES_LONGEST_INTEGER = 20 /* -9223372036854775808, 18446744073709551615 */
};

/* A text that the compiler knows. */
#define JSON_PIECE(out, literal) json_piece_bytes(out, literal, sizeof(literal) - 1)

static inline char *json_piece_bytes(char *out, const char *bytes, size_t length)
{
    memcpy(out, bytes, length);
    return out + length;
}

static inline char *json_piece_text(char *out, const char *text)
{
    return json_piece_bytes(out, text, strlen(text));
}

/* At most JSON_PIECES_LONGEST_INTEGER bytes. */
char *json_piece_u64(char *out, uint64_t value);

static inline char *json_piece_i64(char *out, int64_t value)
{
    if (value >= 0)
        return json_piece_u64(out, (uint64_t)value);
    *out = '-';
    return json_piece_u64(out + 1, 0 - (uint64_t)value);
}

#endif
