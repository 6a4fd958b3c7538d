/* The figure in a snapshot that is more than a counter: fragmentation. */
#ifndef SNAPSHOT_H
#define SNAPSHOT_H

#include <stdint.h>

/* 1 - free / reserved, rounded to 3 places; 0 when nothing is reserved. Both at most 2^53, free at
 * most reserved. The quotient and the difference are rounded to doubles as Python does; then the
 * exact value of that double is rounded, a tie going to the even digit. */
double snapshot_fragmentation(uint64_t free_bytes, uint64_t reserved_bytes);

#endif
