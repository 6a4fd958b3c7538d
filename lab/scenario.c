/* A made-up run of a program; see scenario.h. */
#include "lab/scenario.h"

#include "base/memory.h"

enum {
    EVENT_US = 1000
};

int scenario_begin(struct scenario *scenario, const char *seed,
                   const struct worsegpu_memory *memory, const struct log_sink *sink)
{
    *scenario = (struct scenario){.memory = memory, .sink = sink, .process = 1};
    if (python_random_seed(&scenario->random, seed, memory) != 0)
        scenario->status = LOG_NO_MEMORY;
    return scenario->status;
}

static void hand_on(struct scenario *scenario, struct log_record *record)
{
    if (scenario->status != LOG_FINE)
        return;
    record->time_us = scenario->events * EVENT_US;
    record->place = ++scenario->events;
    record->address = LOG_NO_ADDRESS;
    scenario->status = scenario->sink->record(scenario->sink->context, record);
}

uint64_t scenario_allocate_on(struct scenario *scenario, uint64_t bytes, uint64_t stream)
{
    struct log_record record = {.operation = LOG_ALLOCATE,
                                .key = scenario->allocations + 1,
                                .bytes = bytes,
                                .stream = stream};
    hand_on(scenario, &record);
    return scenario->status == LOG_FINE ? ++scenario->allocations : 0;
}

uint64_t scenario_allocate(struct scenario *scenario, uint64_t bytes)
{
    return scenario_allocate_on(scenario, bytes, 0);
}

void scenario_free_on(struct scenario *scenario, uint64_t id, uint64_t stream)
{
    struct log_record record = {.operation = LOG_FREE, .key = id, .stream = stream};
    if (id != 0)
        hand_on(scenario, &record);
}

void scenario_free(struct scenario *scenario, uint64_t id)
{
    scenario_free_on(scenario, id, LOG_OWN_STREAM);
}

void scenario_record_stream(struct scenario *scenario, uint64_t id, uint64_t stream)
{
    struct log_record record = {.operation = LOG_RECORD_STREAM, .key = id, .stream = stream};
    hand_on(scenario, &record);
}

void scenario_event_done(struct scenario *scenario, uint64_t stream, uint64_t count)
{
    struct log_record record = {.operation = LOG_EVENT_DONE, .bytes = count, .stream = stream};
    hand_on(scenario, &record);
}

uint64_t scenario_draw(struct scenario *scenario, uint64_t least, uint64_t most)
{
    uint64_t span = most - least;
    uint64_t mask = UINT64_MAX;
    uint64_t drawn;
    if (span != UINT64_MAX) {
        for (mask = 0; mask < span;)
            mask = mask << 1 | 1;
    }
    /* As many bits as the span has, drawn again while they are beyond it. */
    do {
        drawn = python_random_word(&scenario->random);
        if (mask > UINT32_MAX)
            drawn |= (uint64_t)python_random_word(&scenario->random) << 32;
        drawn &= mask;
    } while (drawn > span);
    return least + drawn;
}

uint64_t *scenario_numbers(struct scenario *scenario, uint64_t count)
{
    uint64_t *numbers = NULL;
    if (count < SIZE_MAX)
        numbers = memory_allocate_zeroed(scenario->memory, (size_t)count + 1, sizeof(*numbers));
    if (!numbers && scenario->status == LOG_FINE)
        scenario->status = LOG_NO_MEMORY;
    return numbers;
}

void scenario_numbers_release(struct scenario *scenario, uint64_t *numbers, uint64_t count)
{
    memory_release_array(scenario->memory, numbers, (size_t)count + 1, sizeof(*numbers));
}
