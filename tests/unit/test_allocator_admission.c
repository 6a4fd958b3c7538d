/* Who may say no, and who may force the host: an allocation that is refused leaves no trace, not
 * even in the random stream, and one that is forced onto the host draws nothing. Each is shown
 * beside a twin that never saw it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/allocator_internal.h"
#include "lib/worsegpu.h"
#include "tests/support/chaos.h"
#include "tests/support/engine.h"

enum {
    STEPS = 240,
    HELD = 30
};

/* A small GPU, so that all happens: new blocks, old ones used again, the host by choice and by
 * need. */
static struct worsegpu_config crowded(const char *policy, enum worsegpu_scan scan)
{
    struct worsegpu_config config = engine_config("31");
    config.policy = policy;
    config.scan = scan;
    config.gpu_capacity = UINT64_C(300) << 10;
    config.forget_probability = 0.05;
    config.trace_limit = ENGINE_SEEN;
    return config;
}

static uint64_t size_of_step(uint64_t step)
{
    return 1 + step * 7919 % 20000;
}

/* Where an allocation went. */
enum place {
    PLACE_NEW_BLOCK,
    PLACE_OLD_BLOCK,
    PLACE_HOST_BY_CHOICE,
    PLACE_HOST_BY_NEED,
    PLACES
};

static enum place place_of(const struct worsegpu_allocation *allocation, uint64_t blocks_before)
{
    if (allocation->device == WORSEGPU_CPU)
        return allocation->reason == WORSEGPU_GPU_OOM ? PLACE_HOST_BY_NEED : PLACE_HOST_BY_CHOICE;
    return (uint64_t)allocation->block_index < blocks_before ? PLACE_OLD_BLOCK : PLACE_NEW_BLOCK;
}

static void assert_same_stream(const worsegpu_allocator *one, const worsegpu_allocator *other)
{
    assert_memory_equal(&one->random, &other->random, sizeof(one->random));
}

static void assert_twins(worsegpu_allocator *one, worsegpu_allocator *other)
{
    static struct engine_state left;
    static struct engine_state right;
    engine_look(one, &left);
    engine_look(other, &right);
    engine_assert_same(&left, &right, true);
    assert_same_stream(one, other);
}

/* Asks in vain, and looks whether that left anything. What would have been taken is in the
 * admission. */
static void refuse(worsegpu_allocator *allocator, uint64_t requested_bytes,
                   struct engine_admission *admission)
{
    static struct engine_state before;
    static struct engine_state after;
    struct python_random random = allocator->random;
    struct worsegpu_allocation allocation;
    *admission = (struct engine_admission){.answer = false};
    engine_look(allocator, &before);
    assert_int_equal(engine_ask(allocator, requested_bytes, admission, &allocation),
                     WORSEGPU_NOT_ADMITTED);
    assert_int_equal(admission->asked, 1);
    engine_look(allocator, &after);
    engine_assert_same(&before, &after, false);
    assert_memory_equal(&random, &allocator->random, sizeof(random));
    engine_assert_valid(allocator);
}

/* Every request is refused twice before it is made. Counts where they went. */
static void refuse_beside_a_twin(const struct worsegpu_config *config, unsigned seen[PLACES])
{
    struct worsegpu_handle refused_handles[STEPS];
    struct worsegpu_handle twin_handles[STEPS];
    worsegpu_allocator *refused = engine_create(config);
    worsegpu_allocator *twin = engine_create(config);
    for (size_t step = 0; step < STEPS; step++) {
        struct engine_admission admission;
        struct worsegpu_snapshot before;
        worsegpu_snapshot(refused, &before);
        refuse(refused, size_of_step(step * 3 + 1), &admission);
        refuse(refused, size_of_step(step), &admission);
        struct worsegpu_allocation one = engine_allocate(refused, size_of_step(step));
        assert_int_equal(admission.device, one.device);
        assert_int_equal(admission.reserved_bytes, one.reserved_bytes);
        seen[place_of(&one, before.gpu_blocks)]++;
        refused_handles[step] = one.handle;
        twin_handles[step] = engine_allocate(twin, size_of_step(step)).handle;
        if (step < HELD)
            continue;
        const struct worsegpu_handle *oldest = &refused_handles[step - HELD];
        assert_int_equal(worsegpu_free(refused, oldest, 0, 0, NULL), WORSEGPU_OK);
        oldest = &twin_handles[step - HELD];
        assert_int_equal(worsegpu_free(twin, oldest, 0, 0, NULL), WORSEGPU_OK);
        assert_same_stream(refused, twin);
    }
    assert_twins(refused, twin);
    worsegpu_destroy(refused);
    worsegpu_destroy(twin);
}

static void test_a_refused_admission_changes_nothing(void **state)
{
    (void)state;
    const enum worsegpu_scan scans[] = {WORSEGPU_SCAN_ACCOUNTED, WORSEGPU_SCAN_WALKED};
    for (size_t i = 0; i < 2; i++) {
        struct worsegpu_config config = crowded("worse", scans[i]);
        unsigned seen[PLACES] = {0};
        refuse_beside_a_twin(&config, seen);
        for (size_t place = 0; place < PLACES; place++)
            assert_true(seen[place] >= 5);
    }
}

static void test_a_refused_admission_changes_nothing_in_the_reference(void **state)
{
    (void)state;
    struct worsegpu_config config = crowded("reference", WORSEGPU_SCAN_ACCOUNTED);
    unsigned seen[PLACES] = {0};
    refuse_beside_a_twin(&config, seen);
    assert_true(seen[PLACE_NEW_BLOCK] + seen[PLACE_OLD_BLOCK] >= 5);
    assert_true(seen[PLACE_HOST_BY_NEED] >= 5);
    assert_int_equal(seen[PLACE_HOST_BY_CHOICE], 0);
}

static void test_admission_is_asked_once_for_what_is_then_taken(void **state)
{
    (void)state;
    struct worsegpu_config config = crowded("worse", WORSEGPU_SCAN_ACCOUNTED);
    worsegpu_allocator *asked = engine_create(&config);
    worsegpu_allocator *twin = engine_create(&config);
    for (uint64_t step = 0; step < STEPS; step++) {
        struct engine_admission admission = {.answer = true};
        struct worsegpu_allocation allocation;
        assert_int_equal(engine_ask(asked, size_of_step(step), &admission, &allocation),
                         WORSEGPU_OK);
        assert_int_equal(admission.asked, 1);
        assert_int_equal(admission.device, allocation.device);
        assert_int_equal(admission.reserved_bytes, allocation.reserved_bytes);
        engine_allocate(twin, size_of_step(step));
    }
    assert_twins(asked, twin);
    worsegpu_destroy(asked);
    worsegpu_destroy(twin);
}

static void test_an_out_of_memory_is_not_asked_about_and_spends_its_draws(void **state)
{
    (void)state;
    struct worsegpu_config config = crowded("worse", WORSEGPU_SCAN_ACCOUNTED);
    config.gpu_capacity = 1;
    config.gpu_probability = 1;
    config.fallback_on_oom = false;
    worsegpu_allocator *asked = engine_create(&config);
    worsegpu_allocator *twin = engine_create(&config);
    struct engine_admission admission = {.answer = false};
    struct worsegpu_request request = engine_request(100);
    struct worsegpu_allocation allocation;
    assert_int_equal(engine_ask(asked, 100, &admission, &allocation), WORSEGPU_OUT_OF_MEMORY);
    assert_int_equal(admission.asked, 0);
    assert_int_equal(worsegpu_allocate(twin, &request, &allocation), WORSEGPU_OUT_OF_MEMORY);
    assert_twins(asked, twin);
    worsegpu_destroy(asked);
    worsegpu_destroy(twin);
}

static void test_a_request_out_of_range_is_not_asked_about(void **state)
{
    (void)state;
    struct worsegpu_config config = engine_config("1");
    config.max_live_allocations = 1;
    worsegpu_allocator *allocator = engine_create(&config);
    struct engine_admission admission = {.answer = true};
    struct worsegpu_allocation allocation;
    assert_int_equal(engine_ask(allocator, 0, &admission, &allocation), WORSEGPU_INVALID_ARGUMENT);
    engine_allocate(allocator, 1);
    assert_int_equal(engine_ask(allocator, 1, &admission, &allocation), WORSEGPU_LIMIT_EXCEEDED);
    assert_int_equal(admission.asked, 0);
    worsegpu_destroy(allocator);
}

/* Counted by force: as if so many bytes were live on the host, which no list can hold here. */
static worsegpu_allocator *nearly_full_host(double gpu_probability)
{
    struct worsegpu_config config = engine_config("1");
    config.gpu_probability = gpu_probability;
    worsegpu_allocator *allocator = engine_create(&config);
    allocator->host.used_bytes = UINT64_MAX - 1000;
    allocator->host.peak_bytes = UINT64_MAX - 1000;
    return allocator;
}

static void test_a_full_host_is_not_asked_about(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = nearly_full_host(0);
    struct python_random random = allocator->random;
    struct engine_admission admission = {.answer = true};
    struct worsegpu_allocation allocation;
    assert_int_equal(engine_ask(allocator, 1001, &admission, &allocation), WORSEGPU_LIMIT_EXCEEDED);
    assert_int_equal(admission.asked, 0);
    assert_memory_equal(&random, &allocator->random, sizeof(random));
    assert_int_equal(engine_ask(allocator, 1000, &admission, &allocation), WORSEGPU_OK);
    assert_int_equal(admission.asked, 1);
    assert_int_equal(admission.device, WORSEGPU_CPU);
    worsegpu_destroy(allocator);
}

static void test_the_gpu_is_asked_about_beside_a_full_host(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = nearly_full_host(1);
    struct python_random random = allocator->random;
    struct engine_admission admission = {.answer = false};
    struct worsegpu_allocation allocation;
    assert_int_equal(engine_ask(allocator, 5000, &admission, &allocation), WORSEGPU_NOT_ADMITTED);
    assert_int_equal(admission.device, WORSEGPU_GPU);
    assert_memory_equal(&random, &allocator->random, sizeof(random));
    uint64_t reserved = admission.reserved_bytes;
    admission.answer = true;
    assert_int_equal(engine_ask(allocator, 5000, &admission, &allocation), WORSEGPU_OK);
    assert_int_equal(allocation.reserved_bytes, reserved);
    worsegpu_destroy(allocator);
}

/* Whoever charges on a yes would charge for nothing otherwise. */
static bool charge_in_chaos(struct chaos *chaos, void *context)
{
    struct worsegpu_config config = *(const struct worsegpu_config *)context;
    worsegpu_allocator *allocator;
    config.memory = &chaos->memory;
    if (worsegpu_create(&config, &allocator) != WORSEGPU_OK)
        return false;
    struct engine_admission admission = {.answer = true};
    struct worsegpu_request request = engine_request(1);
    request.tag = "charged";
    request.tag_bytes = 7;
    request.admit = engine_admit;
    request.admit_context = &admission;
    uint64_t given = 0;
    int status = WORSEGPU_OK;
    for (; given < 100 && status == WORSEGPU_OK; given += status == WORSEGPU_OK) {
        struct worsegpu_allocation allocation;
        request.requested_bytes = 1 + given * 977;
        status = worsegpu_allocate(allocator, &request, &allocation);
    }
    assert_int_equal(admission.asked, given);
    worsegpu_destroy(allocator);
    return status == WORSEGPU_OK;
}

static void test_after_a_yes_no_memory_can_be_missing(void **state)
{
    (void)state;
    struct worsegpu_config config = engine_config("6");
    config.gpu_probability = 1;
    assert_true(chaos_loop(charge_in_chaos, &config) > 100);
}

/* ------------------------------------------------------------------------------ force_host */

static struct worsegpu_allocation force_host(worsegpu_allocator *allocator,
                                             uint64_t requested_bytes)
{
    struct worsegpu_request request = engine_request(requested_bytes);
    struct worsegpu_allocation allocation;
    request.force_host = true;
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
    assert_int_equal(allocation.device, WORSEGPU_CPU);
    assert_int_equal(allocation.reason, WORSEGPU_GPU_OOM);
    assert_int_equal(allocation.reserved_bytes, requested_bytes);
    assert_int_equal(allocation.block_index, -1);
    return allocation;
}

static void test_forcing_the_host_disturbs_no_later_decision(void **state)
{
    (void)state;
    struct worsegpu_config config = crowded("worse", WORSEGPU_SCAN_ACCOUNTED);
    worsegpu_allocator *forced = engine_create(&config);
    worsegpu_allocator *twin = engine_create(&config);
    for (uint64_t step = 0; step < STEPS; step++) {
        force_host(forced, size_of_step(step + 7));
        struct worsegpu_allocation one = engine_allocate(forced, size_of_step(step));
        struct worsegpu_allocation other = engine_allocate(twin, size_of_step(step));
        assert_int_equal(one.device, other.device);
        assert_int_equal(one.reserved_bytes, other.reserved_bytes);
        assert_int_equal(one.block_index, other.block_index);
        assert_same_stream(forced, twin);
    }
    struct worsegpu_snapshot with;
    struct worsegpu_snapshot without;
    worsegpu_snapshot(forced, &with);
    worsegpu_snapshot(twin, &without);
    assert_int_equal(with.blocks_scanned, without.blocks_scanned);
    assert_int_equal(with.oom_fallbacks, without.oom_fallbacks + STEPS);
    engine_assert_valid(forced);
    worsegpu_destroy(forced);
    worsegpu_destroy(twin);
}

static void test_the_host_can_be_forced_without_fallback(void **state)
{
    (void)state;
    const char *const policies[] = {"worse", "reference"};
    for (size_t i = 0; i < 2; i++) {
        struct worsegpu_config config = crowded(policies[i], WORSEGPU_SCAN_ACCOUNTED);
        config.fallback_on_oom = false;
        worsegpu_allocator *allocator = engine_create(&config);
        struct worsegpu_allocation allocation = force_host(allocator, 1000);
        struct worsegpu_release release;
        assert_int_equal(worsegpu_free(allocator, &allocation.handle, 0, 0, &release), WORSEGPU_OK);
        assert_true(release.released);
        engine_assert_valid(allocator);
        worsegpu_destroy(allocator);
    }
}

static void test_a_forced_host_is_still_asked_about(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = nearly_full_host(1);
    struct python_random random = allocator->random;
    struct engine_admission admission = {.answer = false};
    struct worsegpu_request request = engine_request(1000);
    struct worsegpu_allocation allocation;
    request.force_host = true;
    request.admit = engine_admit;
    request.admit_context = &admission;
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_NOT_ADMITTED);
    assert_int_equal(admission.asked, 1);
    assert_int_equal(admission.device, WORSEGPU_CPU);
    assert_int_equal(admission.reserved_bytes, 1000);
    request.requested_bytes = 1001;
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_LIMIT_EXCEEDED);
    assert_int_equal(admission.asked, 1);
    assert_memory_equal(&random, &allocator->random, sizeof(random));
    worsegpu_destroy(allocator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_refused_admission_changes_nothing),
        cmocka_unit_test(test_a_refused_admission_changes_nothing_in_the_reference),
        cmocka_unit_test(test_admission_is_asked_once_for_what_is_then_taken),
        cmocka_unit_test(test_an_out_of_memory_is_not_asked_about_and_spends_its_draws),
        cmocka_unit_test(test_a_request_out_of_range_is_not_asked_about),
        cmocka_unit_test(test_a_full_host_is_not_asked_about),
        cmocka_unit_test(test_the_gpu_is_asked_about_beside_a_full_host),
        cmocka_unit_test(test_after_a_yes_no_memory_can_be_missing),
        cmocka_unit_test(test_forcing_the_host_disturbs_no_later_decision),
        cmocka_unit_test(test_the_host_can_be_forced_without_fallback),
        cmocka_unit_test(test_a_forced_host_is_still_asked_about),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
