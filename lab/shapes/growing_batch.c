/* The shape growing_batch: each batch larger than the one before, then from the start again. */
#include "lab/shapes/shapes_all.h"

static void batch(struct scenario *scenario, uint64_t bytes, uint64_t *activations, uint64_t layers)
{
    uint64_t input = scenario_allocate(scenario, bytes);
    for (uint64_t i = 0; i < layers && scenario_goes_on(scenario); i++)
        activations[i] = scenario_allocate(scenario, bytes);
    for (uint64_t i = layers; i-- > 0 && scenario_goes_on(scenario);)
        scenario_free(scenario, activations[i]);
    scenario_free(scenario, input);
}

void shape_growing_batch(struct scenario *scenario, const uint64_t *values)
{
    const uint64_t batches = values[0];
    const uint64_t step_bytes = values[1];
    const uint64_t layers = values[2];
    const uint64_t rounds = values[3];
    uint64_t *activations = scenario_numbers(scenario, layers);
    for (uint64_t round = 0; round < rounds && scenario_goes_on(scenario); round++)
        for (uint64_t size = 1; size <= batches && scenario_goes_on(scenario); size++)
            batch(scenario, size * step_bytes, activations, layers);
    scenario_numbers_release(scenario, activations, layers);
}
