/* The system's randomness, always the same: in place of the C library's in a fuzz target, so that
 * an input does the same whenever it runs. Include once in a program. */
#ifndef FIXED_ENTROPY_H
#define FIXED_ENTROPY_H

#include <stdint.h>
#include <sys/random.h>

static uint64_t fixed_entropy_state;

/* At the start of each input. */
static inline void fixed_entropy_restart(void)
{
    fixed_entropy_state = 1;
}

/* Each byte is another one than the one before it: handles differ. */
__attribute__((visibility("default"))) ssize_t getrandom(void *bytes, size_t count, unsigned flags)
{
    uint8_t *target = bytes;
    (void)flags;
    for (size_t i = 0; i < count; i++) {
        fixed_entropy_state = fixed_entropy_state * UINT64_C(6364136223846793005) + 1;
        target[i] = (uint8_t)(fixed_entropy_state >> 56);
    }
    return (ssize_t)count;
}

#endif
