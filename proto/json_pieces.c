/* Numbers as pieces of a JSON text; see json_pieces.h. */
#include "proto/json_pieces.h"

/* How many digits a number has: from its highest bit (log10 2 is about 1233 / 4096), which may be
 * one too few. */
static unsigned count_digits(uint64_t value)
{
    static const uint64_t POWERS[] = {0,
                                      10,
                                      100,
                                      1000,
                                      10000,
                                      100000,
                                      1000000,
                                      10000000,
                                      100000000,
                                      1000000000,
                                      10000000000,
                                      100000000000,
                                      1000000000000,
                                      10000000000000,
                                      100000000000000,
                                      1000000000000000,
                                      10000000000000000,
                                      100000000000000000,
                                      1000000000000000000,
                                      UINT64_C(10000000000000000000)};
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
    unsigned fewest = bits * 1233 >> 12;
    return fewest + (value >= POWERS[fewest]);
}

char *json_piece_u64(char *out, uint64_t value)
{
    static const char PAIRS[] = "0001020304050607080910111213141516171819"
                                "2021222324252627282930313233343536373839"
                                "4041424344454647484950515253545556575859"
                                "6061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    if (value < 10) {
        *out = (char)('0' + value);
        return out + 1;
    }
    char *end = out + count_digits(value);
    char *at = end;
    while (value >= 100) {
        at -= 2;
        memcpy(at, PAIRS + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10)
        memcpy(out, PAIRS + value * 2, 2);
    else
        *out = (char)('0' + value);
    return end;
}
