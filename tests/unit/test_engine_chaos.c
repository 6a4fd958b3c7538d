/* The engine with its memory running out at each single point: nothing leaks, nothing changes, and
 * what comes after is decided as by a twin that never failed (so not one random number was lost).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/worsegpu.h"
#include "tests/support/chaos.h"
#include "tests/support/engine.h"

enum {
    STEPS = 150
};

/* Two allocators treated alike: one whose memory fails, one whose memory does not. */
struct pair {
    worsegpu_allocator *fragile;
    worsegpu_allocator *solid;
    struct worsegpu_handle fragile_handles[STEPS];
    struct worsegpu_handle solid_handles[STEPS];
    bool live[STEPS];
};

static struct worsegpu_request request_of_step(size_t step)
{
    static const char tag[] = "some-tag-of-a-client";
    struct worsegpu_request request = engine_request(1 + step * 7919 % 70000);
    if (step % 2 == 0) {
        request.tag = tag;
        request.tag_bytes = 1 + step % (sizeof(tag) - 1);
    }
    request.client = step;
    return request;
}

/* Allocates on the fragile one, once more after a failure. false: no memory again. */
static bool allocate_in_spite(struct pair *pair, size_t step, int *status,
                              struct worsegpu_allocation *allocation)
{
    static struct engine_state before;
    static struct engine_state after;
    struct worsegpu_request request = request_of_step(step);
    for (int attempt = 0; attempt < 2; attempt++) {
        engine_look(pair->fragile, &before);
        *status = worsegpu_allocate(pair->fragile, &request, allocation);
        if (*status != WORSEGPU_NO_MEMORY)
            return true;
        engine_look(pair->fragile, &after);
        engine_assert_same(&before, &after, false);
    }
    return false;
}

static bool allocate_on_both(struct pair *pair, size_t step)
{
    int status;
    struct worsegpu_allocation fragile;
    struct worsegpu_allocation solid;
    if (!allocate_in_spite(pair, step, &status, &fragile))
        return false;
    struct worsegpu_request request = request_of_step(step);
    assert_int_equal(worsegpu_allocate(pair->solid, &request, &solid), status);
    if (status != WORSEGPU_OK)
        return true;
    pair->fragile_handles[step] = fragile.handle;
    pair->solid_handles[step] = solid.handle;
    pair->live[step] = true;
    return true;
}

static void free_on_both(struct pair *pair, size_t step)
{
    if (!pair->live[step])
        return;
    struct worsegpu_release fragile;
    struct worsegpu_release solid;
    assert_int_equal(worsegpu_free(pair->fragile, &pair->fragile_handles[step], step, 0, &fragile),
                     WORSEGPU_OK);
    assert_int_equal(worsegpu_free(pair->solid, &pair->solid_handles[step], step, 0, &solid),
                     WORSEGPU_OK);
    assert_int_equal(fragile.released, solid.released);
    pair->live[step] = false;
}

static bool validate_in_spite(worsegpu_allocator *allocator)
{
    static struct engine_state before;
    static struct engine_state after;
    engine_look(allocator, &before);
    for (int attempt = 0; attempt < 2; attempt++) {
        const char *broken = NULL;
        uint64_t checks = 0;
        int status = worsegpu_validate(allocator, &checks, &broken);
        engine_look(allocator, &after);
        engine_assert_same(&before, &after, false);
        assert_null(broken);
        if (status == WORSEGPU_OK)
            return true;
        assert_int_equal(status, WORSEGPU_NO_MEMORY);
    }
    return false;
}

static bool use_both(struct pair *pair)
{
    static struct engine_state fragile;
    static struct engine_state solid;
    for (size_t step = 0; step < STEPS; step++) {
        if (!allocate_on_both(pair, step))
            return false;
        if (step >= 40 && step % 4 != 0)
            free_on_both(pair, step - 40);
        if (step % 50 == 49 && !validate_in_spite(pair->fragile))
            return false;
    }
    for (size_t step = 0; step < STEPS; step++)
        free_on_both(pair, step);
    engine_look(pair->fragile, &fragile);
    engine_look(pair->solid, &solid);
    engine_assert_same(&fragile, &solid, true);
    assert_int_equal(worsegpu_trace_clear(pair->fragile), worsegpu_trace_clear(pair->solid));
    return true;
}

/* `context` is the configuration. */
static bool use_in_chaos(struct chaos *chaos, void *context)
{
    struct worsegpu_config config = *(const struct worsegpu_config *)context;
    struct pair pair;
    memset(&pair, 0, sizeof(pair));
    pair.solid = engine_create(&config);
    config.memory = &chaos->memory;
    bool through = false;
    int status = worsegpu_create(&config, &pair.fragile);
    if (status == WORSEGPU_NO_MEMORY) {
        assert_null(pair.fragile);
        goto out;
    }
    assert_int_equal(status, WORSEGPU_OK);
    through = use_both(&pair);
    worsegpu_destroy(pair.fragile);
out:
    worsegpu_destroy(pair.solid);
    return through;
}

static void assert_survives(const char *policy, enum worsegpu_scan scan, bool fallback)
{
    struct worsegpu_config config = engine_config("123456789012345678901234567890");
    config.policy = policy;
    config.scan = scan;
    config.fallback_on_oom = fallback;
    config.trace_limit = 100;
    config.gpu_capacity = 1 << 20;
    assert_true(chaos_loop(use_in_chaos, &config) > 50);
}

static void test_worse_survives_each_failure(void **state)
{
    (void)state;
    assert_survives("worse", WORSEGPU_SCAN_ACCOUNTED, true);
}

static void test_worse_without_fallback_survives_each_failure(void **state)
{
    (void)state;
    assert_survives("worse", WORSEGPU_SCAN_ACCOUNTED, false);
}

static void test_worse_walking_survives_each_failure(void **state)
{
    (void)state;
    assert_survives("worse", WORSEGPU_SCAN_WALKED, true);
}

static void test_the_reference_survives_each_failure(void **state)
{
    (void)state;
    assert_survives("reference", WORSEGPU_SCAN_ACCOUNTED, true);
}

/* Freeing, forgetting, resizing, looking, listing and reading take no memory at all. */
static void test_only_allocate_and_validate_take_memory(void **state)
{
    (void)state;
    static struct engine_state seen;
    struct chaos chaos;
    chaos_init(&chaos);
    struct worsegpu_config config = engine_config("4");
    config.memory = &chaos.memory;
    config.trace_limit = 300;
    worsegpu_allocator *allocator = engine_create(&config);
    struct worsegpu_handle handles[200];
    for (size_t i = 0; i < 200; i++)
        handles[i] = engine_allocate(allocator, i + 1).handle;
    chaos_arm(&chaos, 1, true);
    for (size_t i = 0; i < 200; i++) {
        struct worsegpu_allocation found;
        assert_int_equal(worsegpu_find(allocator, &handles[i], &found), WORSEGPU_OK);
        assert_int_equal(i % 5 ? worsegpu_free(allocator, &handles[i], 0, 0, NULL)
                               : worsegpu_forget(allocator, &handles[i], 0, 0, NULL),
                         WORSEGPU_OK);
    }
    const struct worsegpu_fault fault = {.action = WORSEGPU_FAULT_DELAY};
    assert_int_equal(worsegpu_record_fault(allocator, &fault), WORSEGPU_OK);
    assert_int_equal(worsegpu_resize(allocator, 1), WORSEGPU_OK);
    engine_look(allocator, &seen);
    assert_int_equal(worsegpu_trace_clear(allocator), 300);
    assert_int_equal(chaos.requests, 0);
    worsegpu_destroy(allocator);
    assert_int_equal(chaos.live_pieces, 0);
    assert_int_equal(chaos.live_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worse_survives_each_failure),
        cmocka_unit_test(test_worse_without_fallback_survives_each_failure),
        cmocka_unit_test(test_worse_walking_survives_each_failure),
        cmocka_unit_test(test_the_reference_survives_each_failure),
        cmocka_unit_test(test_only_allocate_and_validate_take_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
