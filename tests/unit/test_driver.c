/* driver: worked examples, the witness and chaos. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/policies/driver.h"
#include "tests/support/policy_world.h"

#define MIB (UINT64_C(1) << 20)

static const struct policy_rules rules = {.alignment = 256, .beyond_capacity = true};

static void open_world(struct policy_world *world, const char *knobs, uint64_t capacity)
{
    policy_world_open(world, "driver", knobs, capacity, &rules);
}

static struct policy_measures measured(const struct policy_world *world)
{
    struct policy_measures measures;
    policy_driver.measure(world->policy, &measures);
    return measures;
}

static void test_a_large_request_takes_whole_granules(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 100 * MIB);
    assert_int_equal(policy_world_offset(&world, MIB + 1), 0);
    assert_int_equal(world.live[0].placement.reserved_bytes, 2 * MIB);
    assert_int_equal(policy_world_offset(&world, 4 * MIB + 1), 2 * MIB);
    assert_int_equal(world.live[1].placement.reserved_bytes, 6 * MIB);
    assert_int_equal(measured(&world).segments, 2);
    assert_int_equal(measured(&world).device_calls, 2);
    assert_int_equal(measured(&world).free_bytes, 0);
    policy_world_close(&world);
}

static void test_each_free_gives_granules_back_at_once(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 100 * MIB);
    policy_world_offset(&world, 3 * MIB);
    policy_world_free(&world, 0);
    assert_int_equal(measured(&world).reserved_bytes, 0);
    assert_int_equal(measured(&world).device_calls, 2);
    assert_int_equal(world.told[DEVICE_REGION_FREE], 1);
    policy_world_close(&world);
}

static void test_small_requests_share_a_granule(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 100 * MIB);
    assert_int_equal(policy_world_offset(&world, 1), 0);
    assert_int_equal(world.live[0].placement.reserved_bytes, 256);
    assert_int_equal(policy_world_offset(&world, 257), 256);
    assert_int_equal(policy_world_offset(&world, MIB), 768);
    /* 1,048,576 - 768 are left of the 2 MiB: too little for another MiB, which opens a granule. */
    assert_int_equal(policy_world_offset(&world, MIB), 2 * MIB);
    assert_int_equal(measured(&world).segments, 2);
    assert_int_equal(policy_world_offset(&world, 100), 768 + MIB);
    policy_world_close(&world);
}

static void test_a_shared_granule_goes_back_with_its_last_request(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 100 * MIB);
    policy_world_offset(&world, 1000);
    policy_world_offset(&world, 1000);
    policy_world_free(&world, 0);
    assert_int_equal(measured(&world).reserved_bytes, 2 * MIB);
    assert_int_equal(policy_driver.largest_free(world.policy), 2 * MIB - 2048);
    policy_world_free(&world, 0);
    assert_int_equal(measured(&world).reserved_bytes, 0);
    assert_int_equal(policy_driver.largest_free(world.policy), 0);
    policy_world_close(&world);
}

static void test_free_parts_of_two_granules_never_merge(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "granularity=1KiB small_limit=1KiB", 10240);
    assert_int_equal(policy_world_offset(&world, 512), 0);
    assert_int_equal(policy_world_offset(&world, 512), 512);
    assert_int_equal(policy_world_offset(&world, 512), 1024);
    assert_int_equal(policy_world_offset(&world, 512), 1536);
    policy_world_free_offset(&world, 512);
    policy_world_free_offset(&world, 1024);
    assert_int_equal(policy_driver.largest_free(world.policy), 512);
    assert_int_equal(policy_world_offset(&world, 1024), 2048);
    policy_world_close(&world);
}

static void test_without_sharing_each_small_request_has_a_granule(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "share_small=false", 100 * MIB);
    assert_int_equal(policy_world_offset(&world, 1), 0);
    assert_int_equal(policy_world_offset(&world, 1), 2 * MIB);
    assert_int_equal(world.live[0].placement.reserved_bytes, 2 * MIB);
    assert_true(measured(&world).cannot_fragment);
    policy_world_close(&world);
}

static void test_bytes_run_out_and_addresses_do_not(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 10 * MIB);
    policy_world_offset(&world, 4 * MIB);
    policy_world_offset(&world, 4 * MIB);
    assert_int_equal(policy_world_allocate(&world, 3 * MIB), POLICY_FULL);
    policy_world_free_offset(&world, 0);
    /* 6 MiB of memory are there, but no 6 MiB of addresses below 8 MiB. */
    assert_int_equal(policy_world_offset(&world, 6 * MIB), 8 * MIB);
    assert_int_equal(policy_world_allocate(&world, 1), POLICY_FULL);
    policy_world_resize(&world, 12 * MIB);
    assert_int_equal(policy_world_offset(&world, 1), 0);
    policy_world_close(&world);
}

static void test_a_granule_goes_back_when_the_caller_is_not_admitted(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 10 * MIB);
    struct policy_request small = {.requested_bytes = 1};
    struct policy_request large = {.requested_bytes = 5 * MIB};
    assert_int_equal(policy_world_ask(&world, &small, false), POLICY_NOT_ADMITTED);
    assert_int_equal(policy_world_ask(&world, &large, false), POLICY_NOT_ADMITTED);
    assert_int_equal(measured(&world).reserved_bytes, 0);
    assert_int_equal(measured(&world).blocks, 0);
    policy_world_close(&world);
}

static void test_a_forgotten_request_keeps_its_granule(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 10 * MIB);
    policy_world_offset(&world, 100);
    policy_world_offset(&world, 100);
    policy_world_offset(&world, 2 * MIB);
    policy_world_forget(&world, 0);
    policy_world_free(&world, 1);
    policy_world_forget(&world, 0);
    assert_int_equal(measured(&world).reserved_bytes, 4 * MIB);
    assert_int_equal(measured(&world).forgotten_bytes, 2 * MIB + 256);
    policy_world_close(&world);
}

static void test_a_wide_alignment_is_not_shared(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 10 * MIB);
    policy_world_offset(&world, 1);
    struct policy_request request = {.requested_bytes = 1, .alignment = 4096};
    assert_int_equal(policy_world_ask(&world, &request, true), POLICY_PLACED);
    assert_int_equal(world.live[1].placement.offset, 2 * MIB);
    policy_world_close(&world);
}

static void test_a_search_counts_the_parts_it_passes(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "granularity=1KiB", 10240);
    for (int i = 0; i < 8; i++)
        policy_world_offset(&world, 256);
    policy_world_free_offset(&world, 256);
    policy_world_free_offset(&world, 768);
    policy_world_free_offset(&world, 1024);
    policy_world_free_offset(&world, 1280);
    /* Free: 256 at 256, 256 at 768, 512 at 1,024. */
    struct policy_request request = {.requested_bytes = 512};
    struct policy_outcome outcome;
    assert_int_equal(policy_driver.place(world.policy, &request, &outcome), POLICY_PLACED);
    assert_int_equal(outcome.placement.offset, 1024);
    assert_int_equal(outcome.blocks_scanned, 3);
    policy_world_keep(&world, &outcome.placement, &request);
    policy_world_check(&world);
    policy_world_close(&world);
}

static void test_a_granularity_that_does_not_suit_is_refused(void **state)
{
    (void)state;
    struct worsegpu_config config;
    struct knob_value values[KNOBS_MAX];
    char problem[KNOBS_PROBLEM_SIZE];
    worsegpu_config_default(&config);
    assert_false(knobs_read(&policy_driver, &config, "granularity=1000", values, problem));
    assert_non_null(strstr(problem, "granularity"));
}

static void test_the_witness_sees_nothing_wrong(void **state)
{
    (void)state;
    policy_world_run_all("driver", "", 50 * MIB, &rules);
    policy_world_run_all("driver", "share_small=false", 50 * MIB, &rules);
    policy_world_run_all("driver", "granularity=4KiB small_limit=2KiB", MIB, &rules);
}

static void test_running_out_of_memory_changes_nothing(void **state)
{
    (void)state;
    policy_world_chaos("driver", "granularity=4KiB", 10 * MIB, &rules);
}

static void test_the_audit_finds_a_wrong_count(void **state)
{
    (void)state;
    struct policy_world world;
    open_world(&world, "", 10 * MIB);
    policy_world_offset(&world, 1);
    struct driver_policy *driver = (struct driver_policy *)world.policy;
    struct policy_live live = policy_world_live(&world);
    struct audit audit = {0};
    driver->shared_granules++;
    assert_int_equal(policy_driver.check(world.policy, &live, &audit), WORSEGPU_OK);
    assert_string_equal(audit.broken, "gpu_reserved_sum");
    driver->shared_granules--;
    policy_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_large_request_takes_whole_granules),
        cmocka_unit_test(test_each_free_gives_granules_back_at_once),
        cmocka_unit_test(test_small_requests_share_a_granule),
        cmocka_unit_test(test_a_shared_granule_goes_back_with_its_last_request),
        cmocka_unit_test(test_free_parts_of_two_granules_never_merge),
        cmocka_unit_test(test_without_sharing_each_small_request_has_a_granule),
        cmocka_unit_test(test_bytes_run_out_and_addresses_do_not),
        cmocka_unit_test(test_a_granule_goes_back_when_the_caller_is_not_admitted),
        cmocka_unit_test(test_a_forgotten_request_keeps_its_granule),
        cmocka_unit_test(test_a_wide_alignment_is_not_shared),
        cmocka_unit_test(test_a_search_counts_the_parts_it_passes),
        cmocka_unit_test(test_a_granularity_that_does_not_suit_is_refused),
        cmocka_unit_test(test_the_witness_sees_nothing_wrong),
        cmocka_unit_test(test_running_out_of_memory_changes_nothing),
        cmocka_unit_test(test_the_audit_finds_a_wrong_count),
    };
    return cmocka_run_group_tests_name("driver", tests, NULL, NULL);
}
