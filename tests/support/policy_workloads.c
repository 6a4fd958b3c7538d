/* Workloads for one policy alone, and chaos under one of them; see policy_world.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/policy_world.h"

uint64_t policy_world_below(struct policy_world *world, uint64_t bound)
{
    /* xorshift64, after G. Marsaglia, "Xorshift RNGs", 2003. */
    world->number ^= world->number << 13;
    world->number ^= world->number >> 7;
    world->number ^= world->number << 17;
    return world->number % bound;
}

static uint64_t log_uniform(struct policy_world *world, uint64_t most)
{
    uint64_t bits = 1;
    while (bits < 63 && UINT64_C(1) << bits <= most)
        bits++;
    uint64_t power = UINT64_C(1) << policy_world_below(world, bits);
    uint64_t size = power + policy_world_below(world, power);
    return size > most ? most : size;
}

static uint64_t at_least_one(uint64_t bytes)
{
    return bytes > 0 ? bytes : 1;
}

static int allocate(struct policy_world *world, uint64_t bytes, uint64_t streams)
{
    struct policy_request request = {
        .requested_bytes = bytes,
        .stream = policy_world_below(world, streams),
    };
    return policy_world_ask(world, &request, policy_world_below(world, 16) != 0);
}

static void free_one(struct policy_world *world, size_t place, uint64_t streams,
                     uint64_t forget_one_in)
{
    uint64_t stream = policy_world_below(world, 4) == 0 ? policy_world_below(world, streams)
                                                        : world->live[place].stream;
    bool forget = forget_one_in > 0 && policy_world_below(world, forget_one_in) == 0;
    policy_world_free_on(world, place, stream, forget);
}

static void free_random(struct policy_world *world, uint64_t streams, uint64_t forget_one_in)
{
    if (world->live_count > 0)
        free_one(world, (size_t)policy_world_below(world, world->live_count), streams,
                 forget_one_in);
}

static uint64_t size_for(struct policy_world *world, enum world_shape shape)
{
    uint64_t capacity = world->largest_capacity_bytes;
    switch (shape) {
    case WORLD_UNIFORM_SMALL:
        return 1 + policy_world_below(world, 4096);
    case WORLD_SAW_TOOTH:
        return log_uniform(world, at_least_one(capacity / 40));
    case WORLD_NEAR_FULL:
        return log_uniform(world, at_least_one(capacity / 16));
    default:
        return log_uniform(world, at_least_one(capacity / 4));
    }
}

void policy_world_run(struct policy_world *world, enum world_shape shape, uint64_t seed,
                      size_t steps, uint64_t streams, uint64_t forget_one_in)
{
    world->number = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    bool down = false; /* of the saw-tooth, and of the one near full after a refusal */
    for (size_t step = 0; step < steps; step++) {
        uint64_t chance = policy_world_below(world, 100);
        if (shape == WORLD_SAW_TOOTH) {
            if (step % 40 == 0)
                down = !down;
            /* One in eight stays, as a pin between those of the next turn. */
            if (down && world->live_count > 0 && chance < 88)
                free_one(world, world->live_count - 1, streams, forget_one_in);
            else if (!down)
                allocate(world, size_for(world, shape), streams);
        } else if (shape == WORLD_NEAR_FULL) {
            if (!down)
                down = allocate(world, size_for(world, shape), streams) == POLICY_FULL;
            else
                free_random(world, streams, forget_one_in);
            if (down && chance < 25)
                down = false;
        } else if (chance < 55) {
            allocate(world, size_for(world, shape), streams);
        } else {
            free_random(world, streams, forget_one_in);
        }
    }
}

void policy_world_run_all(const char *name, const char *knobs, uint64_t capacity_bytes,
                          const struct policy_rules *rules)
{
    for (unsigned shape = 0; shape < WORLD_SHAPES; shape++) {
        for (uint64_t seed = 0; seed < 6; seed++) {
            struct policy_world world;
            policy_world_open(&world, name, knobs, capacity_bytes, rules);
            policy_world_run(&world, (enum world_shape)shape, seed, 400, seed % 2 == 0 ? 1 : 3,
                             seed < 4 ? 0 : 12);
            while (world.live_count > 0)
                policy_world_free(&world, world.live_count - 1);
            assert_true(world.placed > 0);
            policy_world_close(&world);
        }
    }
}

/* ------------------------------------------------------------------------------ chaos */

enum {
    CHAOS_STEPS = 120
};

/* A request that may meet the failure: then nothing has changed, and asked again it is answered. */
static void allocate_in_chaos(struct policy_world *world, uint64_t bytes, uint64_t stream)
{
    struct policy_request request = {.requested_bytes = bytes, .stream = stream};
    char *before = policy_world_picture(world);
    struct python_random drawn = world->random;
    if (policy_world_ask(world, &request, true) == WORSEGPU_NO_MEMORY) {
        char *after = policy_world_picture(world);
        assert_string_equal(before, after);
        assert_memory_equal(&drawn, &world->random, sizeof(drawn));
        free(after);
        chaos_arm(&world->chaos, 0, false);
        assert_true(policy_world_ask(world, &request, true) != WORSEGPU_NO_MEMORY);
    }
    free(before);
}

/* One run with the k-th request failing. Whether any did. */
static bool run_in_chaos(const char *name, const char *knobs, uint64_t capacity_bytes,
                         const struct policy_rules *rules, uint64_t fail_at, bool for_good,
                         char **picture)
{
    struct policy_world world;
    *picture = NULL;
    if (policy_world_try_open(&world, name, knobs, capacity_bytes, rules, fail_at, for_good) !=
        WORSEGPU_OK) {
        policy_world_close(&world);
        return true;
    }
    bool failed = world.chaos.failed;
    world.number = 1;
    for (int step = 0; step < CHAOS_STEPS; step++) {
        if (policy_world_below(&world, 100) < 75)
            allocate_in_chaos(&world, log_uniform(&world, at_least_one(capacity_bytes / 30)),
                              policy_world_below(&world, 3));
        else
            free_random(&world, 1, 10);
        failed = failed || world.chaos.failed;
    }
    failed = failed || world.chaos.fail_at != fail_at;
    *picture = policy_world_picture(&world);
    policy_world_close(&world);
    return failed;
}

void policy_world_chaos(const char *name, const char *knobs, uint64_t capacity_bytes,
                        const struct policy_rules *rules)
{
    char *undisturbed;
    assert_false(run_in_chaos(name, knobs, capacity_bytes, rules, 0, false, &undisturbed));
    for (int for_good = 0; for_good < 2; for_good++) {
        bool failed = true;
        for (uint64_t fail_at = 1; failed; fail_at++) {
            char *picture;
            failed =
                run_in_chaos(name, knobs, capacity_bytes, rules, fail_at, for_good != 0, &picture);
            if (picture)
                assert_string_equal(picture, undisturbed);
            free(picture);
        }
    }
    free(undisturbed);
}
