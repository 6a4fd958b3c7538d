/* The shape demo: what the reference's demo and benchmark ask for. */
#include "base/demo_steps.h"
#include "lab/shapes/shapes_all.h"

void shape_demo(struct scenario *scenario, const uint64_t *values)
{
    const uint64_t steps = values[0];
    uint64_t freed = 0;
    for (uint64_t step = 1; step <= steps && scenario_goes_on(scenario); step++) {
        scenario_allocate(scenario, demo_steps_bytes(step));
        uint64_t oldest = demo_steps_frees(step, freed);
        scenario_free(scenario, oldest);
        freed = oldest != 0 ? oldest : freed;
    }
}
