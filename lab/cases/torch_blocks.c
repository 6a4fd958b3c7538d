/* Cases of PyTorch's caching allocator whose matter is how blocks are cut and kept. */
#include "lab/cases/cases_all.h"

enum {
    MOST_PIECES = 12
};

void case_split_large_block(struct scenario *scenario, size_t variant)
{
    const uint64_t large_bytes = 11878 * MIB; /* 11.6 GiB */
    (void)variant;
    scenario_free(scenario, scenario_allocate(scenario, large_bytes));
    for (unsigned i = 0; i < 60; i++)
        scenario_allocate(scenario, scenario_draw(scenario, 1, 100) * MIB);
    scenario_allocate(scenario, large_bytes);
}

void case_free_in_pieces(struct scenario *scenario, size_t variant)
{
    uint64_t rest[MOST_PIECES];
    (void)variant;
    /* A segment, cut into a pin and a rest. */
    for (unsigned i = 0; i < MOST_PIECES; i++) {
        scenario_free(scenario, scenario_allocate(scenario, 832 * MIB));
        scenario_allocate(scenario, 40 * MIB);
        rest[i] = scenario_allocate(scenario, 792 * MIB);
    }
    for (unsigned i = 0; i < MOST_PIECES; i++)
        scenario_free(scenario, rest[i]);
    scenario_allocate(scenario, 1536 * MIB);
}

static void batch_with_result(struct scenario *scenario, uint64_t bytes)
{
    scenario_free(scenario, scenario_allocate(scenario, bytes));
    scenario_allocate(scenario, 30 * MIB);
}

void case_batch_order(struct scenario *scenario, size_t variant)
{
    const bool large_first = variant == 1;
    batch_with_result(scenario, large_first ? 600 * MIB : 400 * MIB);
    batch_with_result(scenario, large_first ? 400 * MIB : 600 * MIB);
}

void case_pinned_power_of_two(struct scenario *scenario, size_t variant)
{
    (void)variant;
    scenario_allocate(scenario, 4 * GIB + 1);
}

void case_expandable_cure(struct scenario *scenario, size_t variant)
{
    static const uint64_t batches_mib[] = {600, 820, 1050};
    uint64_t live[4];
    (void)variant;
    for (unsigned i = 0; i < 27; i++)
        scenario_allocate(scenario, 256 * MIB);
    for (size_t i = 0; i < sizeof(batches_mib) / sizeof(batches_mib[0]); i++) {
        for (unsigned k = 0; k < 4; k++)
            live[k] = scenario_allocate(scenario, batches_mib[i] * MIB);
        for (unsigned k = 0; k < 4; k++)
            scenario_free(scenario, live[k]);
    }
}
