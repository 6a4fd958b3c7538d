/* A whole life of a real daemon in which one system call fails, and what is wrong with it then.
 *
 * It starts, serves a client that subscribes and one that asks for more than it reads, has its
 * configuration read again, keeps a metrics file, talks to a service manager, and stops. Wherever
 * in this the fault happens, these must hold:
 *
 * - It starts, or ends with one sentence and a status that is not 0; the next start is unhindered.
 * - It serves afterwards: a new client is answered, `validate` finds all well, nothing is left of
 *   clients that are gone, and memory and descriptors are what they are without a fault.
 * - Who waits for an answer gets it or is disconnected, and after EINTR and EAGAIN always gets it.
 * - What fails for good is not tried again and again without a rest.
 * - It stops when told to, and what it then leaves behind does not hinder the next start. */
#ifndef FAULT_LIFE_H
#define FAULT_LIFE_H

#include "tests/support/call_faults.h"

enum fault_life_kind {
    FAULT_LIFE_ALONE,  /* with a socket of its own */
    FAULT_LIFE_HANDED, /* with one that a service manager hands over */
    FAULT_LIFE_RUN     /* around a command (--run) */
};

enum {
    FAULT_LIFE_COMPLAINT = 1024
};

/* What a life without a fault comes to. */
struct fault_life_normal {
    unsigned descriptors;
    uint64_t memory_bytes;
};

struct fault_life {
    enum fault_life_kind kind;
    struct call_fault fault;
    bool may_abort; /* libuv ends the process on this one: only the next start is judged */

    unsigned seen;   /* uses of the call, afterwards */
    unsigned failed; /* of these, failed on purpose: 0 when the fault was not reached */
    struct fault_life_normal end;
    char complaint[FAULT_LIFE_COMPLAINT]; /* the first thing that was wrong; "" for nothing */
};

/* Lives it. `normal` is NULL for a life whose figures are to be learned. */
void fault_life_live(struct fault_life *life, const struct fault_life_normal *normal);

#endif
