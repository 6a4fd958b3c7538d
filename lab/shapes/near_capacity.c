/* The shape near_capacity: small work that leaves one block behind, then nearly everything. */
#include "lab/shapes/shapes_all.h"

void shape_near_capacity(struct scenario *scenario, const uint64_t *values)
{
    const uint64_t capacity_bytes = values[0];
    const uint64_t percent = values[1];
    const uint64_t blocks = values[2];
    const uint64_t block_bytes = capacity_bytes / 2 / blocks > 0 ? capacity_bytes / 2 / blocks : 1;
    uint64_t *small = scenario_numbers(scenario, blocks);
    for (uint64_t i = 0; i < blocks && scenario_goes_on(scenario); i++)
        small[i] = scenario_allocate(scenario, block_bytes);
    /* Whichever stays. */
    uint64_t left = scenario_draw(scenario, 0, blocks - 1);
    for (uint64_t i = 0; i < blocks && scenario_goes_on(scenario); i++)
        if (i != left)
            scenario_free(scenario, small[i]);
    scenario_allocate(scenario,
                      capacity_bytes / 100 * percent + capacity_bytes % 100 * percent / 100);
    scenario_numbers_release(scenario, small, blocks);
}
