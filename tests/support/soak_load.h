/* One process of the soak test's load: random requests of every method to a running daemon, well
 * and badly behaved, until it is killed.
 *
 * The requests are made from the table of methods, so that a new one is part of the load at once.
 * Everything drawn comes from one seed. */
#ifndef SOAK_LOAD_H
#define SOAK_LOAD_H

#include <stdint.h>

enum {
    SOAK_COMPLAINT_SIZE = 512
};

/* What the processes tell their parent, in memory that they share. */
struct soak_tally {
    uint64_t answers;  /* results and errors */
    uint64_t refusals; /* of these, errors */
    uint64_t connections;
    uint64_t events;  /* that came to subscribers */
    uint64_t private; /* private allocators opened */
    uint32_t complaining;
    char
        complaint[SOAK_COMPLAINT_SIZE]; /* the first thing that must not be; "" while all is well */
};

/* Never returns: ends with 1 when the daemon is gone, or after a complaint. `allocators` are the
 * names of the shared ones. */
_Noreturn void soak_load(const char *socket_path, uint64_t seed, const char *const *allocators,
                         unsigned allocator_count, struct soak_tally *tally);

/* The next number of a small generator (splitmix64), for the parent as well. */
uint64_t soak_draw(uint64_t *state);

#endif
