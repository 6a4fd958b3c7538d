/* Fragmentation: the value and its text, by the reference's rounding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "lib/python_random.h"
#include "lib/snapshot.h"
#include "lib/worsegpu.h"

static void test_nothing_reserved_is_0(void **state)
{
    (void)state;
    assert_true(snapshot_fragmentation(0, 0) == 0.0);
}

static void test_nothing_free_is_1(void **state)
{
    (void)state;
    assert_true(snapshot_fragmentation(0, 256) == 1.0);
    assert_true(snapshot_fragmentation(0, WORSEGPU_MAX_BYTES) == 1.0);
}

static void test_all_free_is_0(void **state)
{
    (void)state;
    assert_true(snapshot_fragmentation(256, 256) == 0.0);
    assert_true(snapshot_fragmentation(WORSEGPU_MAX_BYTES, WORSEGPU_MAX_BYTES) == 0.0);
}

/* 1 - 15/16 = 0.0625 and 1 - 13/16 = 0.1875 are exact: the digit before the 5 decides. */
static void test_a_tie_goes_to_the_even_digit(void **state)
{
    (void)state;
    assert_true(snapshot_fragmentation(15, 16) == 0.062);
    assert_true(snapshot_fragmentation(13, 16) == 0.188);
}

/* The same as printing three places of the exact value and reading that back. */
static void test_random_shares_round_as_printing_does(void **state)
{
    (void)state;
    struct python_random random;
    assert_int_equal(python_random_seed(&random, "11", memory_system()), 0);
    for (int i = 0; i < 200000; i++) {
        unsigned bits = 1 + python_random_choice(&random, 32);
        uint64_t reserved = 1 + (uint64_t)python_random_bits(&random, bits) * 65536;
        double share = python_random_double(&random);
        uint64_t free_bytes = (uint64_t)(share * (double)reserved);
        char printed[16];
        snprintf(printed, sizeof(printed), "%.3f", 1.0 - (double)free_bytes / (double)reserved);
        assert_true(snapshot_fragmentation(free_bytes, reserved) == strtod(printed, NULL));
    }
}

static void assert_text(double fragmentation, const char *expected)
{
    char text[8];
    worsegpu_fragmentation_to_text(fragmentation, text);
    assert_string_equal(text, expected);
}

static void test_the_text_is_the_shortest_with_a_point(void **state)
{
    (void)state;
    assert_text(0.0, "0.0");
    assert_text(1.0, "1.0");
    assert_text(0.5, "0.5");
    assert_text(0.49, "0.49");
    assert_text(0.062, "0.062");
    assert_text(0.001, "0.001");
    assert_text(0.1, "0.1");
    assert_text(0.999, "0.999");
}

static void test_every_text_reads_back(void **state)
{
    (void)state;
    for (int thousandths = 0; thousandths <= 1000; thousandths++) {
        char text[8];
        double value = thousandths / 1000.0;
        worsegpu_fragmentation_to_text(value, text);
        assert_true(strtod(text, NULL) == value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_reserved_is_0),
        cmocka_unit_test(test_nothing_free_is_1),
        cmocka_unit_test(test_all_free_is_0),
        cmocka_unit_test(test_a_tie_goes_to_the_even_digit),
        cmocka_unit_test(test_random_shares_round_as_printing_does),
        cmocka_unit_test(test_the_text_is_the_shortest_with_a_point),
        cmocka_unit_test(test_every_text_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
