/* The shape pins: small blocks that stay keep the large free ones apart. */
#include "lab/shapes/shapes_all.h"

void shape_pins(struct scenario *scenario, const uint64_t *values)
{
    const uint64_t pairs = values[0];
    const uint64_t large_bytes = values[1];
    const uint64_t small_bytes = values[2];
    uint64_t *large = scenario_numbers(scenario, pairs);
    for (uint64_t i = 0; i < pairs && scenario_goes_on(scenario); i++) {
        large[i] = scenario_allocate(scenario, large_bytes);
        scenario_allocate(scenario, small_bytes);
    }
    for (uint64_t i = 0; i < pairs && scenario_goes_on(scenario); i++)
        scenario_free(scenario, large[i]);
    scenario_allocate(scenario, 2 * large_bytes);
    scenario_numbers_release(scenario, large, pairs);
}
