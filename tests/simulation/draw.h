/* Random numbers of the simulation: one seed, the same numbers on every machine.
 *
 * xoshiro256** by Blackman and Vigna (2018), its state filled by SplitMix64 (Steele, Lea and Flood,
 * 2014), both from their published formulas. Not for secrets. */
#ifndef DRAW_H
#define DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct draw {
    uint64_t state[4];
};

void draw_init(struct draw *draw, uint64_t seed);
uint64_t draw_next(struct draw *draw);

/* 0 to below `count`, which is not 0; its tiny unevenness does not matter here. */
uint64_t draw_below(struct draw *draw, uint64_t count);

/* Both ends included. */
uint64_t draw_between(struct draw *draw, uint64_t least, uint64_t most);

/* True in so many of a hundred cases. */
bool draw_chance(struct draw *draw, uint64_t percent);

/* A size from 1 on: each number of bits up to `bits` is as likely as another. */
uint64_t draw_size(struct draw *draw, unsigned bits);

#endif
