/* Fragmentation and its text; see snapshot.h. Whole numbers only, so that no locale can put a comma
 * in. */
#include "lib/snapshot.h"

#include <math.h>
#include <string.h>

#include "lib/worsegpu.h"

enum {
    UNITS = 1000, /* thousandths */
    PLACES = 3
};

double snapshot_fragmentation(uint64_t free_bytes, uint64_t reserved_bytes)
{
    if (reserved_bytes == 0)
        return 0.0;
    double share = 1.0 - (double)free_bytes / (double)reserved_bytes;

    /* 1 - q is a whole multiple of 2^-53, whatever q: so this is exact, and a thousand times it is
     * below 2^63. */
    const unsigned fraction_bits = 53;
    uint64_t scaled = (uint64_t)ldexp(share, (int)fraction_bits) * UNITS;
    uint64_t thousandths = scaled >> fraction_bits;
    uint64_t rest = scaled & ((UINT64_C(1) << fraction_bits) - 1);
    uint64_t half = UINT64_C(1) << (fraction_bits - 1);
    if (rest > half || (rest == half && thousandths % 2 == 1))
        thousandths++;
    return (double)thousandths / UNITS;
}

void worsegpu_fragmentation_to_text(double fragmentation, char text[8])
{
    unsigned thousandths = (unsigned)lround(fragmentation * UNITS);
    size_t length = 0;
    text[length++] = (char)('0' + thousandths / UNITS % 10);
    text[length++] = '.';
    for (unsigned unit = UNITS / 10; unit > 0; unit /= 10)
        text[length++] = (char)('0' + thousandths / unit % 10);
    while (length > PLACES && text[length - 1] == '0')
        length--;
    text[length] = '\0';
}
