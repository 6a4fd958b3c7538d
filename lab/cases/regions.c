/* Cases of TensorFlow's BFC allocator and its regions, and of a device that two processes share. */
#include "lab/cases/cases_all.h"

void case_growing_regions(struct scenario *scenario, size_t variant)
{
    (void)variant;
    scenario_free(scenario, scenario_allocate(scenario, 300 * MIB));
    scenario_allocate(scenario, 600 * MIB);
}

void case_separate_regions(struct scenario *scenario, size_t variant)
{
    (void)variant;
    /* The first region, full; then the second one. */
    scenario_allocate(scenario, 288 * MIB);
    uint64_t below = scenario_allocate(scenario, 224 * MIB);
    uint64_t above = scenario_allocate(scenario, 288 * MIB);
    scenario_allocate(scenario, 512 * MIB);
    scenario_allocate(scenario, 224 * MIB);
    scenario_free(scenario, below);
    scenario_free(scenario, above);
    scenario_allocate(scenario, 512 * MIB);
}

void case_shared_limit(struct scenario *scenario, size_t variant)
{
    const unsigned uncounted = variant == 0 ? 8 : 0;
    for (unsigned i = 0; i < 12 + uncounted; i++)
        scenario_allocate(scenario, GIB);
    scenario->process = 2;
    for (unsigned i = 0; i < 14; i++)
        scenario_allocate(scenario, GIB);
}
