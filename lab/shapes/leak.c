/* The shape leak: a steady loop whose memory grows because a free is forgotten now and then. */
#include "lab/shapes/shapes_all.h"

void shape_leak(struct scenario *scenario, const uint64_t *values)
{
    const uint64_t steps = values[0];
    const uint64_t blocks = values[1];
    const uint64_t largest_bytes = values[2];
    const uint64_t every = values[3];
    uint64_t *live = scenario_numbers(scenario, blocks);
    for (uint64_t step = 1; step <= steps && scenario_goes_on(scenario); step++) {
        for (uint64_t i = 0; i < blocks && scenario_goes_on(scenario); i++)
            live[i] = scenario_allocate(scenario, scenario_draw(scenario, 1, largest_bytes));
        uint64_t forgotten =
            step % every == 0 ? scenario_draw(scenario, 0, blocks - 1) : UINT64_MAX;
        for (uint64_t i = 0; i < blocks && scenario_goes_on(scenario); i++)
            if (i != forgotten)
                scenario_free(scenario, live[i]);
    }
    scenario_numbers_release(scenario, live, blocks);
}
