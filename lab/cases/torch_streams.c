/* Cases of PyTorch's caching allocator whose matter is streams and their events. */
#include "lab/cases/cases_all.h"

void case_record_stream_queue(struct scenario *scenario, size_t variant)
{
    const unsigned outstanding = variant == 0 ? 13 : 0; /* events */
    for (unsigned i = 0; i < 22; i++)
        scenario_allocate(scenario, GIB);
    for (unsigned i = 0; i < 40; i++) {
        uint64_t used = scenario_allocate(scenario, GIB);
        scenario_record_stream(scenario, used, 1);
        scenario_free(scenario, used);
        if (i >= outstanding)
            scenario_event_done(scenario, 1, 1);
    }
}

void case_retry_order(struct scenario *scenario, size_t variant)
{
    const bool again = variant == 1;
    const bool waits = variant == 2;
    scenario_free(scenario, scenario_allocate(scenario, 600 * MIB));
    scenario_allocate(scenario, 40 * MIB);
    uint64_t waiting = scenario_allocate(scenario, 560 * MIB);
    scenario_record_stream(scenario, waiting, 1);
    scenario_free(scenario, waiting);
    if (waits)
        scenario_event_done(scenario, 1, UINT64_MAX);
    scenario_allocate(scenario, 500 * MIB);
    if (again)
        scenario_allocate(scenario, 500 * MIB);
}

void case_stream_per_sync(struct scenario *scenario, size_t variant)
{
    const bool new_streams = variant == 0;
    for (uint64_t i = 1; i <= 32; i++)
        scenario_free(scenario, scenario_allocate_on(scenario, 2 * GIB, new_streams ? i : 1));
}

void case_one_shot_stream(struct scenario *scenario, size_t variant)
{
    const uint64_t stream = variant == 0 ? 1 : 0;
    for (unsigned i = 0; i < 40; i++)
        scenario_allocate(scenario, GIB);
    scenario_free(scenario, scenario_allocate_on(scenario, 20 * GIB, stream));
    for (unsigned i = 0; i < 20; i++)
        scenario_allocate(scenario, GIB);
}
