/* Random numbers of the simulation; see draw.h. */
#include "tests/simulation/draw.h"

static uint64_t rotate(uint64_t value, unsigned by)
{
    return value << by | value >> (64 - by);
}

void draw_init(struct draw *draw, uint64_t seed)
{
    for (unsigned index = 0; index < 4; index++) {
        uint64_t value = seed += UINT64_C(0x9e3779b97f4a7c15);
        value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
        draw->state[index] = value ^ (value >> 31);
    }
}

uint64_t draw_next(struct draw *draw)
{
    uint64_t *state = draw->state;
    uint64_t result = rotate(state[1] * 5, 7) * 9;
    uint64_t shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotate(state[3], 45);
    return result;
}

uint64_t draw_below(struct draw *draw, uint64_t count)
{
    return (draw_next(draw) >> 11) % count;
}

uint64_t draw_between(struct draw *draw, uint64_t least, uint64_t most)
{
    return least + draw_below(draw, most - least + 1);
}

bool draw_chance(struct draw *draw, uint64_t percent)
{
    return draw_below(draw, 100) < percent;
}

uint64_t draw_size(struct draw *draw, unsigned bits)
{
    uint64_t width = draw_between(draw, 1, bits);
    return draw_between(draw, UINT64_C(1) << (width - 1), (UINT64_C(1) << width) - 1);
}
