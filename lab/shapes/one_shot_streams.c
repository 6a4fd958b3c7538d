/* The shape one_shot_streams: each stream works once and is never heard of again. */
#include "lab/shapes/shapes_all.h"

void shape_one_shot_streams(struct scenario *scenario, const uint64_t *values)
{
    const uint64_t streams = values[0];
    const uint64_t bytes = values[1];
    for (uint64_t stream = 1; stream <= streams && scenario_goes_on(scenario); stream++)
        scenario_free(scenario, scenario_allocate_on(scenario, bytes, stream));
}
