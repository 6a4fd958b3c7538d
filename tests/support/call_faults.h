/* System calls of a real program that fail on purpose, at their Nth use.
 *
 * The program is the product as it is: the kernel asks this test what to do with each use of one
 * system call (seccomp's user notification), and is told to carry it out or to fail it. So it does
 * not matter who makes the call: our code, libuv, libsystemd or the C library. The counting starts
 * when the program's main is about to begin: what the loader does is not the program's own.
 *
 * One call at a time; how a use is told apart from others of the same call is by what its first
 * argument is a descriptor of. */
#ifndef CALL_FAULTS_H
#define CALL_FAULTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "tests/support/real_process.h"

/* What the first argument must be for a use to count. */
enum call_object {
    CALL_OF_ANYTHING,
    CALL_OF_SOCKET,
    CALL_OF_FILE,
    CALL_OF_PIPE,
    CALL_OF_EVENT
};

struct call_fault {
    long number; /* SYS_... */
    enum call_object object;
    int error;     /* errno */
    unsigned nth;  /* which use fails, from 1; 0: none */
    bool for_good; /* and all later ones, until it is put right */
};

struct call_faults {
    struct call_fault fault;
    const char *program;
    int listener; /* where the kernel asks */
    int ending;   /* written to when the thread shall end */
    pthread_t thread;
    bool begun;         /* the program's main; the thread's own */
    atomic_bool right;  /* nothing fails any more */
    atomic_uint seen;   /* uses so far */
    atomic_uint failed; /* of these, failed on purpose */
};

/* Whether this kernel, and whoever confines us, allow it. */
bool call_faults_possible(void);

/* Starts a program (its path and arguments, the last one NULL) with a fault. `setup` may be NULL;
 * with `listening` not -1 it gets that descriptor as systemd hands it over. Ended by
 * call_faults_end, after the process. */
struct real_process *call_faults_start(struct call_faults *faults, struct call_fault fault,
                                       struct real_room *room, const struct real_setup *setup,
                                       int listening, const char *const *arguments);

void call_faults_put_right(struct call_faults *faults);
void call_faults_end(struct call_faults *faults);

#endif
