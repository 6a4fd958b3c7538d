/* The workload of the reference's demo and benchmark, step by step: in step i from 1 a request of
 * (7919 * i mod 2 MiB) + 4096 bytes; then, when more than three are live and i is a multiple of
 * three, the oldest is freed. Nothing is freed at the end. (golden/demo.json) */
#ifndef DEMO_STEPS_H
#define DEMO_STEPS_H

#include <stdint.h>

/* Bytes asked for in a step. */
static inline uint64_t demo_steps_bytes(uint64_t step)
{
    return step * 7919 % (UINT64_C(2) * 1024 * 1024) + 4096;
}

/* The number of the allocation that a step frees, 0 for none; `freed` is how many were freed
 * before. */
static inline uint64_t demo_steps_frees(uint64_t step, uint64_t freed)
{
    uint64_t live = step - freed;
    return live > 3 && step % 3 == 0 ? freed + 1 : 0;
}

#endif
