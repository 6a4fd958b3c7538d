/* The shape race: two processes build up what they need, and both want the last of the memory. */
#include "lab/shapes/shapes_all.h"

enum {
    PROCESSES = 2
};

/* The stories of both are the same whoever is listened to, so that two files made with the same
 * seed are two sides of one race. */
static uint64_t ask(struct scenario *scenario, uint64_t process, uint64_t only, uint64_t bytes)
{
    if (only != 0 && only != process)
        return 0;
    scenario->process = process;
    return scenario_allocate(scenario, bytes);
}

static void give_back(struct scenario *scenario, uint64_t process, uint64_t id)
{
    scenario->process = process;
    scenario_free(scenario, id);
}

void shape_race(struct scenario *scenario, const uint64_t *values)
{
    const uint64_t capacity_bytes = values[0];
    const uint64_t blocks = values[1];
    const uint64_t only = values[2];
    const uint64_t share_bytes = capacity_bytes / 5 / blocks;
    uint64_t *live = scenario_numbers(scenario, PROCESSES * blocks);
    uint64_t left[PROCESSES] = {blocks, blocks};
    while (left[0] + left[1] > 0 && scenario_goes_on(scenario)) {
        uint64_t who = left[0] == 0 ? 1 : left[1] == 0 ? 0 : scenario_draw(scenario, 0, 1);
        uint64_t bytes = scenario_draw(scenario, share_bytes / 2 + 1, share_bytes + 1);
        left[who]--;
        live[who * blocks + left[who]] = ask(scenario, who + 1, only, bytes);
    }
    /* Each wants what is left of the device for both, and keeps it; then all is given back. */
    uint64_t first = scenario_draw(scenario, 0, 1);
    uint64_t last[PROCESSES];
    for (uint64_t i = 0; i < PROCESSES; i++)
        last[i] = ask(scenario, (first + i) % PROCESSES + 1, only, capacity_bytes / 2);
    for (uint64_t i = 0; i < PROCESSES * blocks && scenario_goes_on(scenario); i++)
        give_back(scenario, i / blocks + 1, live[i]);
    for (uint64_t i = 0; i < PROCESSES; i++)
        give_back(scenario, (first + i) % PROCESSES + 1, last[i]);
    scenario_numbers_release(scenario, live, PROCESSES * blocks);
}
