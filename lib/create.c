/* The beginning and the end of an allocator. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "lib/allocator_internal.h"

enum {
    DRAWN_SEED_SIZE = 17 /* 2^53 - 1 has 16 digits */
};

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
    size_t size = strlen(seed) + 1;
    char *copy = memory_allocate_array(allocator->memory, size, 1);
    if (!copy)
        return WORSEGPU_NO_MEMORY;
    memcpy(copy, seed, size);
    allocator->seed = copy;
    allocator->seed_size = size;
    allocator->config.seed = copy;
    return WORSEGPU_OK;
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
    const struct policy_operations *operations = policy_find(allocator->config.policy);
    allocator->config.policy = operations->name;
    struct policy_setup setup = {
        .config = &allocator->config,
        .random = &allocator->random,
        .hash = keys[1],
        .memory = allocator->memory,
    };
    return operations->create(&setup, &allocator->policy);
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
    pthread_mutex_destroy(&allocator->mutex);
    explicit_bzero(&allocator->secrets, sizeof(allocator->secrets));
    memory_release_array(allocator->memory, allocator, 1, sizeof(*allocator));
}

const struct worsegpu_config *worsegpu_configuration(const worsegpu_allocator *allocator)
{
    return &allocator->config;
}
