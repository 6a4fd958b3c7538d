/* Cases of RMM's pool: streams with free lists of their own. */
#include "lab/cases/cases_all.h"

enum {
    PINS = 89
};

void case_third_run_fails(struct scenario *scenario, size_t variant)
{
    const uint64_t second = variant == 0 ? 2 : 1; /* the second stream, or the first one again */
    for (unsigned run = 0; run < 3; run++) {
        uint64_t a = scenario_allocate_on(scenario, 5120 * MIB, 1);
        uint64_t b = scenario_allocate_on(scenario, 3072 * MIB, 1);
        uint64_t c = scenario_allocate_on(scenario, 1024 * MIB, second);
        scenario_free(scenario, a);
        scenario_free(scenario, c);
        scenario_free(scenario, b);
        uint64_t d = scenario_allocate_on(scenario, 1536 * MIB, second);
        uint64_t e = scenario_allocate_on(scenario, 2048 * MIB, 1);
        scenario_free(scenario, d);
        scenario_free(scenario, e);
    }
}

void case_two_streams(struct scenario *scenario, size_t variant)
{
    const uint64_t second = variant == 0 ? 2 : 1;
    scenario_allocate_on(scenario, 1024 * MIB, second);
    scenario_allocate_on(scenario, 3584 * MIB, 1);
    scenario_free(scenario, scenario_allocate_on(scenario, 2560 * MIB, 1));
    scenario_free(scenario, scenario_allocate_on(scenario, 2048 * MIB, 1));
    scenario_allocate_on(scenario, 1024 * MIB, second);
    scenario_allocate_on(scenario, 3584 * MIB, 1);
}

void case_small_request_refused(struct scenario *scenario, size_t variant)
{
    uint64_t between[PINS];
    (void)variant;
    for (unsigned i = 0; i < PINS; i++) {
        between[i] = scenario_allocate(scenario, 328 * MIB);
        scenario_allocate(scenario, 100 * MIB);
    }
    for (unsigned i = 0; i < PINS; i++)
        scenario_free(scenario, between[i]);
    scenario_allocate(scenario, 345571976);
}
