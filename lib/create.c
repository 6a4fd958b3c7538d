/* The beginning and the end of an allocator. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "lib/allocator_internal.h"
#include "lib/knobs.h"

enum {
    DRAWN_SEED_SIZE = 17 /* 2^53 - 1 has 16 digits */
};

/* A copy of a text with its size; NULL without memory. */
static char *copy_text(worsegpu_allocator *allocator, const char *text, size_t *size)
{
    *size = strlen(text) + 1;
    char *copy = memory_allocate_array(allocator->memory, *size, 1);
    if (copy)
        memcpy(copy, text, *size);
    return copy;
}

/* Keeps the seed's text: the one given, or one drawn. */
static int keep_seed(worsegpu_allocator *allocator, const struct entropy *entropy)
{
    const char *seed = allocator->config.seed;
    char drawn[DRAWN_SEED_SIZE];
    if (!seed) {
        uint64_t number;
        int status = entropy->draw(entropy->context, &number, sizeof(number));
        if (status != WORSEGPU_OK)
            return status;
        snprintf(drawn, sizeof(drawn), "%" PRIu64, number & WORSEGPU_MAX_BYTES);
        seed = drawn;
    }
    allocator->seed = copy_text(allocator, seed, &allocator->seed_size);
    allocator->config.seed = allocator->seed;
    return allocator->seed ? WORSEGPU_OK : WORSEGPU_NO_MEMORY;
}

/* Makes the policy, with its knobs read from a copy of their text that lives as long as it does. */
static int make_policy(worsegpu_allocator *allocator, const struct keyed_hash *hash)
{
    struct worsegpu_config *config = &allocator->config;
    struct knob_value values[KNOBS_MAX];
    char problem[KNOBS_PROBLEM_SIZE];
    const struct policy_operations *operations = policy_find(config->policy);
    config->policy = operations->name;
    allocator->knobs =
        copy_text(allocator, config->knobs ? config->knobs : "", &allocator->knobs_size);
    config->knobs = allocator->knobs;
    if (!allocator->knobs)
        return WORSEGPU_NO_MEMORY;
    if (!knobs_read(operations, config, allocator->knobs, values, problem))
        return WORSEGPU_INVALID_ARGUMENT; /* they were checked: not to be reached */
    struct policy_setup setup = {
        .config = config,
        .knobs = values,
        .random = &allocator->random,
        .hash = *hash,
        .memory = allocator->memory,
    };
    return operations->create(&setup, &allocator->policy);
}

/* The parts after the seed; what was set up before a failure is released by worsegpu_destroy. */
static int make_parts(worsegpu_allocator *allocator, const struct entropy *entropy)
{
    struct keyed_hash keys[2];
    int status = entropy->draw(entropy->context, keys, sizeof(keys));
    if (status != WORSEGPU_OK)
        return status;
    handle_table_init(&allocator->live, &keys[0], allocator->memory);
    status = keep_seed(allocator, entropy);
    if (status != WORSEGPU_OK)
        return status;
    status = python_random_seed(&allocator->random, allocator->seed, allocator->memory);
    if (status != WORSEGPU_OK)
        return status;
    status =
        trace_init(&allocator->trace, (size_t)allocator->config.trace_limit, allocator->memory);
    if (status != WORSEGPU_OK)
        return status;
    return make_policy(allocator, &keys[1]);
}

int allocator_create(const struct worsegpu_config *config, const struct entropy *entropy,
                     worsegpu_allocator **result)
{
    *result = NULL;
    int status = worsegpu_config_check(config, NULL, NULL);
    if (status != WORSEGPU_OK)
        return status;
    const struct worsegpu_memory *memory = config->memory ? config->memory : memory_system();
    worsegpu_allocator *allocator = memory_allocate_zeroed(memory, 1, sizeof(*allocator));
    if (!allocator)
        return WORSEGPU_NO_MEMORY;
    allocator->config = *config;
    allocator->config.memory = memory;
    allocator->largest_capacity_bytes = config->gpu_capacity;
    allocator->memory = memory;
    allocator->live.memory = memory;
    allocator->trace.memory = memory;
    secrets_init(&allocator->secrets, entropy);
    if (pthread_mutex_init(&allocator->mutex, NULL) != 0) {
        memory_release_array(memory, allocator, 1, sizeof(*allocator));
        return WORSEGPU_NO_MEMORY;
    }
    status = make_parts(allocator, entropy);
    if (status != WORSEGPU_OK) {
        worsegpu_destroy(allocator);
        return status;
    }
    *result = allocator;
    return WORSEGPU_OK;
}

int worsegpu_create(const struct worsegpu_config *config, worsegpu_allocator **allocator)
{
    return allocator_create(config, entropy_system(), allocator);
}

void worsegpu_destroy(worsegpu_allocator *allocator)
{
    if (!allocator)
        return;
    if (allocator->policy)
        allocator->policy->operations->destroy(allocator->policy);
    trace_release(&allocator->trace);
    handle_table_release(&allocator->live);
    memory_release_array(allocator->memory, allocator->seed, allocator->seed_size, 1);
    memory_release_array(allocator->memory, allocator->knobs, allocator->knobs_size, 1);
    pthread_mutex_destroy(&allocator->mutex);
    explicit_bzero(&allocator->secrets, sizeof(allocator->secrets));
    memory_release_array(allocator->memory, allocator, 1, sizeof(*allocator));
}

const struct worsegpu_config *worsegpu_configuration(const worsegpu_allocator *allocator)
{
    return &allocator->config;
}
