/* The configuration's defaults and ranges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "lib/worsegpu.h"

static struct worsegpu_config defaults(void)
{
    struct worsegpu_config config;
    worsegpu_config_default(&config);
    return config;
}

static void assert_good(const struct worsegpu_config *config)
{
    assert_int_equal(worsegpu_config_check(config, NULL, NULL), WORSEGPU_OK);
}

static void assert_bad(const struct worsegpu_config *config, const char *expected_field)
{
    const char *field = NULL;
    const char *expected = NULL;
    assert_int_equal(worsegpu_config_check(config, &field, &expected), WORSEGPU_INVALID_ARGUMENT);
    assert_string_equal(field, expected_field);
    assert_true(strlen(expected) > 0);
    assert_int_equal(worsegpu_config_check(config, NULL, NULL), WORSEGPU_INVALID_ARGUMENT);
    worsegpu_allocator *allocator = (worsegpu_allocator *)&field;
    assert_int_equal(worsegpu_create(config, &allocator), WORSEGPU_INVALID_ARGUMENT);
    assert_null(allocator);
}

static void test_the_defaults_are_those_of_the_header(void **state)
{
    (void)state;
    struct worsegpu_config config = defaults();
    assert_string_equal(config.policy, "worse");
    assert_int_equal(config.gpu_capacity, 67108864);
    assert_true(config.gpu_probability == 0.65);
    assert_true(config.forget_probability == 0.20);
    assert_true(config.fallback_on_oom);
    assert_int_equal(config.max_request_bytes, UINT64_C(1099511627776));
    assert_int_equal(config.trace_limit, 0);
    assert_null(config.seed);
    assert_int_equal(config.scan, WORSEGPU_SCAN_ACCOUNTED);
    assert_int_equal(config.max_live_allocations, 1000000);
    assert_false(config.single_threaded);
    assert_null(config.memory);
    assert_good(&config);
}

#define TEST_COUNT(member, lowest, highest)                                                        \
    static void test_##member##_has_its_range(void **state)                                        \
    {                                                                                              \
        (void)state;                                                                               \
        struct worsegpu_config config = defaults();                                                \
        config.member = (lowest);                                                                  \
        assert_good(&config);                                                                      \
        config.member = (highest);                                                                 \
        assert_good(&config);                                                                      \
        config.member = (highest) + 1;                                                             \
        assert_bad(&config, #member);                                                              \
        config.member = UINT64_MAX;                                                                \
        assert_bad(&config, #member);                                                              \
        if ((lowest) > 0) {                                                                        \
            config.member = 0;                                                                     \
            assert_bad(&config, #member);                                                          \
        }                                                                                          \
    }
TEST_COUNT(gpu_capacity, 1, WORSEGPU_MAX_BYTES)
TEST_COUNT(max_request_bytes, 1, WORSEGPU_MAX_BYTES)
TEST_COUNT(trace_limit, 0, WORSEGPU_MAX_TRACE_LIMIT)
TEST_COUNT(max_live_allocations, 1, WORSEGPU_MAX_LIVE_LIMIT)

#define TEST_PROBABILITY(member)                                                                   \
    static void test_##member##_is_from_0_to_1(void **state)                                       \
    {                                                                                              \
        (void)state;                                                                               \
        const double good[] = {0.0, -0.0, 0.5, 1.0, 1e-300};                                       \
        const double bad[] = {-1e-300,          1.0000001,        2, -1, (double)NAN,              \
                              (double)INFINITY, -(double)INFINITY};                                \
        struct worsegpu_config config = defaults();                                                \
        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {                              \
            config.member = good[i];                                                               \
            assert_good(&config);                                                                  \
        }                                                                                          \
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {                                \
            config.member = bad[i];                                                                \
            assert_bad(&config, #member);                                                          \
        }                                                                                          \
    }
TEST_PROBABILITY(gpu_probability)
TEST_PROBABILITY(forget_probability)

static void test_a_policy_must_exist(void **state)
{
    (void)state;
    struct worsegpu_config config = defaults();
    const char *const wrong[] = {NULL, "", "Worse", "worse ", "best"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        config.policy = wrong[i];
        assert_bad(&config, "policy");
    }
    const char *name;
    for (size_t i = 0; (name = worsegpu_policy_name(i)) != NULL; i++) {
        config.policy = name;
        assert_good(&config);
    }
}

static void test_a_seed_is_a_decimal_integer(void **state)
{
    (void)state;
    struct worsegpu_config config = defaults();
    const char *const good[] = {"0", "-0", "7", "-7", "007", "-18446744073833008405"};
    const char *const wrong[] = {"",    "-",   "+7", " 7",    "7 ", "7.0",
                                 "0x7", "--7", "7-", "1_000", "1e3"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        config.seed = good[i];
        assert_good(&config);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        config.seed = wrong[i];
        assert_bad(&config, "seed");
    }
}

static void test_a_seed_has_at_most_4300_digits(void **state)
{
    (void)state;
    char text[WORSEGPU_MAX_SEED_DIGITS + 3];
    struct worsegpu_config config = defaults();
    memset(text, '1', sizeof(text));
    text[0] = '-';
    text[WORSEGPU_MAX_SEED_DIGITS + 1] = '\0';
    config.seed = text;
    assert_good(&config);
    config.seed = text + 1;
    assert_good(&config);
    text[WORSEGPU_MAX_SEED_DIGITS + 1] = '1';
    text[WORSEGPU_MAX_SEED_DIGITS + 2] = '\0';
    assert_bad(&config, "seed");
}

static void test_a_scan_must_exist(void **state)
{
    (void)state;
    struct worsegpu_config config = defaults();
    config.scan = WORSEGPU_SCAN_WALKED;
    assert_good(&config);
    config.scan = (enum worsegpu_scan)2;
    assert_bad(&config, "scan");
}

static void test_memory_must_have_a_function(void **state)
{
    (void)state;
    struct worsegpu_config config = defaults();
    struct worsegpu_memory empty = {0};
    config.memory = memory_system();
    assert_good(&config);
    config.memory = &empty;
    assert_bad(&config, "memory");
}

static void test_the_first_bad_member_is_named(void **state)
{
    (void)state;
    struct worsegpu_config config = defaults();
    config.scan = (enum worsegpu_scan)9;
    config.seed = "x";
    config.trace_limit = UINT64_MAX;
    config.gpu_capacity = 0;
    assert_bad(&config, "gpu_capacity");
    config.gpu_capacity = 1;
    assert_bad(&config, "trace_limit");
    config.trace_limit = 1;
    assert_bad(&config, "seed");
    config.seed = NULL;
    assert_bad(&config, "scan");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_defaults_are_those_of_the_header),
        cmocka_unit_test(test_gpu_capacity_has_its_range),
        cmocka_unit_test(test_max_request_bytes_has_its_range),
        cmocka_unit_test(test_trace_limit_has_its_range),
        cmocka_unit_test(test_max_live_allocations_has_its_range),
        cmocka_unit_test(test_gpu_probability_is_from_0_to_1),
        cmocka_unit_test(test_forget_probability_is_from_0_to_1),
        cmocka_unit_test(test_a_policy_must_exist),
        cmocka_unit_test(test_a_seed_is_a_decimal_integer),
        cmocka_unit_test(test_a_seed_has_at_most_4300_digits),
        cmocka_unit_test(test_a_scan_must_exist),
        cmocka_unit_test(test_memory_must_have_a_function),
        cmocka_unit_test(test_the_first_bad_member_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
