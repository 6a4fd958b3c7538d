/* The shape random: RMM's random_allocations benchmark (rapidsai/rmm,
 * benchmarks/random_allocations): 73 of 100 events allocate an evenly drawn size while the cap
 * allows it, the others free a drawn block. At the end all are freed. */
#include "lab/shapes/shapes_all.h"

struct live {
    uint64_t *ids;
    uint64_t *bytes;
    uint64_t count;
    uint64_t total_bytes;
};

static void free_one(struct scenario *scenario, struct live *live, uint64_t at)
{
    scenario_free(scenario, live->ids[at]);
    live->total_bytes -= live->bytes[at];
    live->count--;
    live->ids[at] = live->ids[live->count];
    live->bytes[at] = live->bytes[live->count];
}

void shape_random(struct scenario *scenario, const uint64_t *values)
{
    const uint64_t events = values[0];
    const uint64_t cap_bytes = values[2];
    const uint64_t largest_bytes = values[1] < cap_bytes ? values[1] : cap_bytes;
    const uint64_t percent = values[3];
    struct live live = {.ids = scenario_numbers(scenario, events),
                        .bytes = scenario_numbers(scenario, events)};
    for (uint64_t event = 0; event < events && scenario_goes_on(scenario); event++) {
        uint64_t bytes = scenario_draw(scenario, 1, largest_bytes);
        bool allocate = scenario_draw(scenario, 1, 100) <= percent;
        bool fits = live.total_bytes <= cap_bytes - bytes;
        if (live.count == 0 || (allocate && fits)) {
            live.ids[live.count] = scenario_allocate(scenario, bytes);
            live.bytes[live.count] = bytes;
            live.total_bytes += bytes;
            live.count++;
        } else {
            free_one(scenario, &live, scenario_draw(scenario, 0, live.count - 1));
        }
    }
    while (live.count > 0 && scenario_goes_on(scenario))
        free_one(scenario, &live, live.count - 1);
    scenario_numbers_release(scenario, live.ids, events);
    scenario_numbers_release(scenario, live.bytes, events);
}
