/* Random use of the engine against a naive model: a plain list of blocks that is really scanned, a
 * plain list of allocations, no index and no counters. Both ways of scanning must agree with it in
 * every decision and every figure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lib/python_random.h"
#include "lib/worsegpu.h"
#include "tests/support/engine.h"

enum {
    STEPS = 1500,
    MAX_EVENTS = 32
};

enum model_state {
    MODEL_FREE,
    MODEL_USED,
    MODEL_FORGOTTEN
};

struct model_block {
    uint64_t size;
    enum model_state state;
};

struct model_allocation {
    struct worsegpu_handle handles[2]; /* of the two allocators under test */
    uint64_t requested;
    int64_t block; /* -1: on the host */
    bool live;
};

struct model {
    struct worsegpu_config config;
    struct python_random random;
    struct model_block blocks[STEPS];
    size_t block_count;
    struct model_allocation allocations[STEPS + 1]; /* by id */
    uint64_t last_id;
    uint64_t scanned;
    uint64_t events;
    uint64_t fallbacks;
    uint64_t failures;
    uint64_t faults;
    uint64_t peak_used;
    uint64_t peak_host;
};

static uint64_t model_sum(const struct model *model, enum model_state state)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < model->block_count; i++)
        sum += model->blocks[i].state == state ? model->blocks[i].size : 0;
    return sum;
}

static uint64_t model_reserved(const struct model *model)
{
    return model_sum(model, MODEL_FREE) + model_sum(model, MODEL_USED) +
           model_sum(model, MODEL_FORGOTTEN);
}

static uint64_t model_host(const struct model *model)
{
    uint64_t sum = 0;
    for (uint64_t id = 1; id <= model->last_id; id++) {
        if (model->allocations[id].live && model->allocations[id].block < 0)
            sum += model->allocations[id].requested;
    }
    return sum;
}

/* The block for a size, found as the reference finds it; -1: the GPU is full. */
static int64_t model_place(struct model *model, uint64_t size)
{
    for (size_t i = 0; i < model->block_count; i++) {
        model->scanned++;
        if (model->blocks[i].state == MODEL_FREE && model->blocks[i].size == size) {
            model->blocks[i].state = MODEL_USED;
            return (int64_t)i;
        }
    }
    if (model_reserved(model) + size > model->config.gpu_capacity)
        return -1;
    model->blocks[model->block_count] = (struct model_block){size, MODEL_USED};
    return (int64_t)model->block_count++;
}

/* What the caller adds to a request. */
enum wish {
    WISH_NOTHING,
    WISH_ADMITTED,     /* an admission that says yes */
    WISH_NOT_ADMITTED, /* one that says no */
    WISH_HOST,         /* force_host */
};

struct model_decision {
    int status;
    enum worsegpu_reason reason;
    int64_t block;
};

static struct model_decision model_decide(struct model *model, uint64_t requested)
{
    static const uint64_t buckets[] = {256, 1024, 4096, 16384};
    struct model_decision decision = {WORSEGPU_OK, WORSEGPU_PROBABILITY, -1};
    if (python_random_double(&model->random) < model->config.gpu_probability) {
        uint64_t bucket = buckets[python_random_choice(&model->random, 4)];
        uint64_t size = bucket;
        while (size < requested)
            size += bucket;
        if (python_random_double(&model->random) < 0.12)
            size += size;
        decision.block = model_place(model, size);
        decision.reason = decision.block >= 0 ? WORSEGPU_NO_REASON : WORSEGPU_GPU_OOM;
    }
    if (decision.reason == WORSEGPU_GPU_OOM && !model->config.fallback_on_oom)
        decision.status = WORSEGPU_OUT_OF_MEMORY;
    return decision;
}

/* As model_decide; a decision that is not admitted is undone by going back to a copy. */
static struct model_decision model_allocate(struct model *model, uint64_t requested, enum wish wish)
{
    static struct model before;
    struct model_decision decision = {WORSEGPU_OK, WORSEGPU_GPU_OOM, -1};
    if (wish == WISH_NOT_ADMITTED)
        before = *model;
    if (wish != WISH_HOST)
        decision = model_decide(model, requested);
    if (wish == WISH_NOT_ADMITTED && decision.status == WORSEGPU_OK) {
        *model = before;
        decision.status = WORSEGPU_NOT_ADMITTED;
        return decision;
    }
    model->events++;
    if (decision.status == WORSEGPU_OUT_OF_MEMORY) {
        model->failures++;
        return decision;
    }
    model->fallbacks += decision.reason == WORSEGPU_GPU_OOM;
    model->allocations[++model->last_id] =
        (struct model_allocation){.requested = requested, .block = decision.block, .live = true};
    uint64_t used = model_sum(model, MODEL_USED);
    uint64_t host = model_host(model);
    model->peak_used = used > model->peak_used ? used : model->peak_used;
    model->peak_host = host > model->peak_host ? host : model->peak_host;
    return decision;
}

static bool model_free(struct model *model, uint64_t id, bool forget)
{
    struct model_allocation *allocation = &model->allocations[id];
    allocation->live = false;
    model->events++;
    if (allocation->block < 0)
        return true;
    bool forgotten =
        forget || python_random_double(&model->random) < model->config.forget_probability;
    model->blocks[allocation->block].state = forgotten ? MODEL_FORGOTTEN : MODEL_FREE;
    return !forgotten;
}

/* ------------------------------------------------------------------------------ comparing */

static void compare_snapshot(const struct model *model, worsegpu_allocator *allocator)
{
    struct worsegpu_snapshot now;
    worsegpu_snapshot(allocator, &now);
    uint64_t live = 0;
    uint64_t gpu = 0;
    uint64_t gpu_requested = 0;
    for (uint64_t id = 1; id <= model->last_id; id++) {
        const struct model_allocation *allocation = &model->allocations[id];
        bool on_gpu = allocation->live && allocation->block >= 0;
        live += allocation->live;
        gpu += on_gpu;
        gpu_requested += on_gpu ? allocation->requested : 0;
    }
    uint64_t forgotten_blocks = 0;
    for (size_t i = 0; i < model->block_count; i++)
        forgotten_blocks += model->blocks[i].state == MODEL_FORGOTTEN;
    uint64_t reserved = model_reserved(model);
    uint64_t free_bytes = model_sum(model, MODEL_FREE);
    char printed[16] = "0.000";
    if (reserved > 0)
        snprintf(printed, sizeof(printed), "%.3f", 1.0 - (double)free_bytes / (double)reserved);
    assert_int_equal(now.gpu_capacity, model->config.gpu_capacity);
    assert_int_equal(now.gpu_reserved, reserved);
    uint64_t capacity = model->config.gpu_capacity;
    assert_int_equal(now.gpu_unreserved, capacity > reserved ? capacity - reserved : 0);
    assert_int_equal(now.gpu_used, model_sum(model, MODEL_USED));
    assert_int_equal(now.gpu_free, free_bytes);
    assert_int_equal(now.gpu_forgotten, model_sum(model, MODEL_FORGOTTEN));
    assert_int_equal(now.gpu_blocks, model->block_count);
    assert_int_equal(now.cpu_bytes, model_host(model));
    assert_int_equal(now.active_allocations, live);
    assert_int_equal(now.trace_events, model->events < MAX_EVENTS ? model->events : MAX_EVENTS);
    assert_true(now.fragmentation == strtod(printed, NULL));
    assert_int_equal(now.blocks_scanned, model->scanned);
    assert_int_equal(now.gpu_allocations, gpu);
    assert_int_equal(now.cpu_allocations, live - gpu);
    assert_int_equal(now.gpu_requested, gpu_requested);
    assert_int_equal(now.gpu_forgotten_blocks, forgotten_blocks);
    assert_int_equal(now.peak_gpu_used, model->peak_used);
    assert_int_equal(now.peak_cpu_bytes, model->peak_host);
    assert_int_equal(now.allocate_calls, model->last_id);
    assert_int_equal(now.free_calls, model->last_id - live);
    assert_int_equal(now.oom_fallbacks, model->fallbacks);
    assert_int_equal(now.oom_failures, model->failures);
    assert_int_equal(now.faults, model->faults);
    assert_int_equal(now.last_sequence, model->events);
}

static void compare_list(const struct model *model, worsegpu_allocator *allocator, uint64_t after)
{
    enum {
        PAGE = 16
    };
    struct worsegpu_allocation page[PAGE];
    size_t count;
    bool more;
    worsegpu_list(allocator, after, page, PAGE, &count, &more);
    size_t found = 0;
    uint64_t id = after + 1;
    for (; id <= model->last_id && found < PAGE; id++) {
        if (!model->allocations[id].live)
            continue;
        assert_true(found < count);
        assert_int_equal(page[found].handle.allocation_id, id);
        assert_int_equal(page[found].requested_bytes, model->allocations[id].requested);
        assert_int_equal(page[found].block_index, model->allocations[id].block);
        found++;
    }
    assert_int_equal(found, count);
    while (id <= model->last_id && !model->allocations[id].live)
        id++;
    assert_int_equal(more, id <= model->last_id);
}

static uint64_t offset_of(const struct model *model, int64_t block)
{
    uint64_t offset = 0;
    for (int64_t i = 0; i < block; i++)
        offset += model->blocks[i].size;
    return offset;
}

static void allocate_on_all(struct model *model, worsegpu_allocator *const allocators[2],
                            uint64_t requested, enum wish wish)
{
    struct model_decision decision = model_allocate(model, requested, wish);
    for (size_t i = 0; i < 2; i++) {
        struct worsegpu_request request = engine_request(requested);
        struct worsegpu_allocation got;
        struct engine_admission admission = {.answer = wish == WISH_ADMITTED};
        request.force_host = wish == WISH_HOST;
        request.admit = admission.answer || wish == WISH_NOT_ADMITTED ? engine_admit : NULL;
        request.admit_context = &admission;
        assert_int_equal(worsegpu_allocate(allocators[i], &request, &got), decision.status);
        assert_int_equal(admission.asked,
                         request.admit && decision.status != WORSEGPU_OUT_OF_MEMORY);
        if (decision.status != WORSEGPU_OK)
            continue;
        assert_int_equal(got.handle.allocation_id, model->last_id);
        assert_int_equal(got.reason, decision.reason);
        assert_int_equal(got.block_index, decision.block);
        assert_int_equal(got.device, decision.block >= 0 ? WORSEGPU_GPU : WORSEGPU_CPU);
        assert_int_equal(got.reserved_bytes,
                         decision.block >= 0 ? model->blocks[decision.block].size : requested);
        assert_int_equal(got.offset, offset_of(model, decision.block));
        model->allocations[model->last_id].handles[i] = got.handle;
    }
}

typedef int (*free_call)(worsegpu_allocator *allocator, const struct worsegpu_handle *handle,
                         uint64_t client, uint64_t time_us, struct worsegpu_release *release);

static void free_on_all(struct model *model, worsegpu_allocator *const allocators[2], uint64_t id,
                        bool forget)
{
    const free_call free_it = forget ? worsegpu_forget : worsegpu_free;
    if (!model->allocations[id].live) {
        for (size_t i = 0; i < 2; i++)
            assert_int_equal(free_it(allocators[i], &model->allocations[id].handles[i], 0, 0, NULL),
                             WORSEGPU_UNKNOWN_HANDLE);
        return;
    }
    bool released = model_free(model, id, forget);
    for (size_t i = 0; i < 2; i++) {
        struct worsegpu_release release;
        assert_int_equal(free_it(allocators[i], &model->allocations[id].handles[i], 0, 0, &release),
                         WORSEGPU_OK);
        assert_int_equal(release.released, released);
        assert_int_equal(release.allocation_id, id);
    }
}

/* Few sizes, so that blocks are met again; sometimes any size. */
static uint64_t draw_size(struct python_random *random)
{
    static const uint64_t usual[] = {1, 255, 256, 257, 1000, 4096, 5000, 16384, 65536};
    uint32_t which = python_random_choice(random, 10);
    return which < 9 ? usual[which] : 1 + python_random_choice(random, 300000);
}

/* Up to twice the first capacity, or next to nothing. */
static void resize_all(struct model *model, worsegpu_allocator *const allocators[2],
                       uint64_t first_capacity, struct python_random *choices)
{
    double share = 2 * python_random_double(choices);
    bool tiny = python_random_choice(choices, 4) == 0;
    model->config.gpu_capacity = tiny ? 1 : 1 + (uint64_t)(share * (double)first_capacity);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(worsegpu_resize(allocators[i], model->config.gpu_capacity), WORSEGPU_OK);
}

static void fault_on_all(struct model *model, worsegpu_allocator *const allocators[2])
{
    const struct worsegpu_fault fault = {.action = WORSEGPU_FAULT_DELAY};
    model->events++;
    model->faults++;
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(worsegpu_record_fault(allocators[i], &fault), WORSEGPU_OK);
}

struct character {
    double gpu_probability;
    double forget_probability;
    uint64_t capacity;
    bool fallback;
};

/* One step. With `meddling` there is somebody who forces, forbids, forgets and resizes. */
static void step_on_all(struct model *model, worsegpu_allocator *const allocators[2],
                        const struct character *character, struct python_random *choices,
                        bool growing, bool meddling)
{
    if (meddling && python_random_choice(choices, 40) == 0)
        resize_all(model, allocators, character->capacity, choices);
    if (meddling && python_random_choice(choices, 20) == 0)
        fault_on_all(model, allocators);
    if (growing || model->last_id == 0) {
        uint32_t which = meddling ? python_random_choice(choices, 12) : 0;
        enum wish wish = which <= WISH_HOST ? (enum wish)which : WISH_NOTHING;
        allocate_on_all(model, allocators, draw_size(choices), wish);
        return;
    }
    bool forget = meddling && python_random_choice(choices, 6) == 0;
    free_on_all(model, allocators, 1 + python_random_choice(choices, (uint32_t)model->last_id),
                forget);
}

static void run(const struct character *character, unsigned seed, bool meddling)
{
    char text[12];
    struct python_random choices;
    struct model *model = calloc(1, sizeof(*model));
    assert_non_null(model);
    snprintf(text, sizeof(text), "%u", seed);
    struct worsegpu_config config = engine_config(text);
    config.gpu_probability = character->gpu_probability;
    config.forget_probability = character->forget_probability;
    config.gpu_capacity = character->capacity;
    config.fallback_on_oom = character->fallback;
    config.trace_limit = MAX_EVENTS;
    model->config = config;
    assert_int_equal(python_random_seed(&model->random, text, memory_system()), 0);
    assert_int_equal(python_random_seed(&choices, "77", memory_system()), 0);
    for (unsigned i = 0; i < seed * 100; i++)
        python_random_word(&choices);
    worsegpu_allocator *allocators[2];
    allocators[0] = engine_create(&config);
    config.scan = WORSEGPU_SCAN_WALKED;
    config.single_threaded = true;
    allocators[1] = engine_create(&config);

    for (int step = 0; step < STEPS; step++) {
        bool growing = python_random_choice(&choices, 100) < (step / 300 % 2 ? 40U : 62U);
        step_on_all(model, allocators, character, &choices, growing, meddling);
        if (step % 50 != 0)
            continue;
        for (size_t i = 0; i < 2; i++) {
            compare_snapshot(model, allocators[i]);
            compare_list(model, allocators[i],
                         python_random_choice(&choices, (uint32_t)model->last_id + 2));
            engine_assert_valid(allocators[i]);
        }
    }
    for (size_t i = 0; i < 2; i++) {
        compare_snapshot(model, allocators[i]);
        worsegpu_destroy(allocators[i]);
    }
    free(model);
}

static const struct character characters[] = {
    {0.65, 0.20, UINT64_C(64) << 20, true}, /* the defaults */
    {1.0, 0.0, UINT64_C(1) << 40, true},    /* all on the GPU, nothing lost */
    {1.0, 0.5, 1 << 20, false},             /* strict and soon full */
    {0.9, 1.0, 1 << 22, true},              /* everything is lost */
    {0.5, 0.1, 20000, true},                /* tiny */
    {0.0, 0.2, 1 << 20, false},             /* never the GPU */
};

static void run_all(bool meddling)
{
    for (size_t i = 0; i < sizeof(characters) / sizeof(characters[0]); i++) {
        for (unsigned seed = 0; seed < 8; seed++)
            run(&characters[i], seed, meddling);
    }
}

static void test_random_use_agrees_with_the_naive_model(void **state)
{
    (void)state;
    run_all(false);
}

static void test_random_meddling_agrees_with_the_naive_model(void **state)
{
    (void)state;
    run_all(true);
}

/* No model can keep up with these numbers, but the audit can. */
static void test_a_hundred_thousand_live_stay_valid(void **state)
{
    (void)state;
    enum {
        MANY = 100000
    };
    struct worsegpu_handle *handles = calloc(MANY, sizeof(*handles));
    assert_non_null(handles);
    struct worsegpu_config config = engine_config("8");
    config.gpu_capacity = UINT64_C(1) << 45;
    worsegpu_allocator *allocator = engine_create(&config);
    for (uint64_t i = 0; i < MANY; i++)
        handles[i] = engine_allocate(allocator, 1 + i * 7919 % 1000000).handle;
    engine_assert_valid(allocator);
    for (size_t i = 0; i < MANY; i += 2)
        assert_int_equal(worsegpu_free(allocator, &handles[i], 0, 0, NULL), WORSEGPU_OK);
    engine_assert_valid(allocator);
    for (size_t i = 0; i < MANY; i += 2)
        handles[i] = engine_allocate(allocator, 1 + i % 1000).handle;
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(worsegpu_free(allocator, &handles[i], 0, 0, NULL), WORSEGPU_OK);
    engine_assert_valid(allocator);
    struct worsegpu_snapshot snapshot;
    worsegpu_snapshot(allocator, &snapshot);
    assert_int_equal(snapshot.active_allocations, 0);
    assert_int_equal(snapshot.gpu_used, 0);
    worsegpu_destroy(allocator);
    free(handles);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_use_agrees_with_the_naive_model),
        cmocka_unit_test(test_random_meddling_agrees_with_the_naive_model),
        cmocka_unit_test(test_a_hundred_thousand_live_stay_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
