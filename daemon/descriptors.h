/* How many descriptors the daemon may have, kept above the connection limit: so it refuses clients
 * in words instead of running into EMFILE. */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <stdint.h>

enum {
    DESCRIPTORS_RESERVED =
        32, /* for the loop, the socket, the log, and clients that are being refused */
    DESCRIPTORS_OF_LOOP = 8 /* what libuv opens at once, and more */
};

/* Raises RLIMIT_NOFILE as far as needed and allowed. How many connections there is room for: at
 * most `wanted`, at least 1. */
uint64_t descriptors_reserve(uint64_t wanted);

/* Whether an event loop's descriptors can be opened: libuv ends the process when some of them can
 * not. 0, or an errno. */
int descriptors_probe(void);

#endif
