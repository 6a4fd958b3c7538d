/* What a test and the library that it has loaded into a program (interposer.c) agree upon. */
#ifndef INTERPOSER_H
#define INTERPOSER_H

#include <stdint.h>
#include <sys/syscall.h>

/* Made once, when all libraries are loaded and main is about to begin: a call that no program of
 * ours makes. */
#define INTERPOSER_SIGN SYS_getpgid

/* In the environment: anything, and reading and writing sockets and files goes byte by byte. */
#define INTERPOSER_BYTEWISE "INTERPOSER_BYTEWISE"

/* In the environment: a file that holds a struct interposer_clock, which may change at any time. */
#define INTERPOSER_CLOCK "INTERPOSER_CLOCK"

/* How much later than they really are the clocks say it is. */
struct interposer_clock {
    int64_t wall_seconds;
    int64_t monotonic_seconds;
};

#endif
