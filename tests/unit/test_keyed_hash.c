/* The keyed hash: spread, and different for every key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/keyed_hash.h"

static void test_numbers_in_a_row_spread_over_a_table(void **state)
{
    (void)state;
    enum {
        PLACES = 1024
    };
    const struct keyed_hash hash = {{UINT64_C(0x243f6a8885a308d3), UINT64_C(0x13198a2e03707344)}};
    unsigned hits[PLACES] = {0};
    for (uint64_t value = 0; value < PLACES; value++)
        hits[keyed_hash(&hash, value * 4096) % PLACES]++;
    for (size_t i = 0; i < PLACES; i++)
        assert_true(hits[i] < 16);
}

static void test_another_key_gives_other_places(void **state)
{
    (void)state;
    const struct keyed_hash one = {{1, 2}};
    const struct keyed_hash other = {{UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xbf58476d1ce4e5b9)}};
    unsigned same = 0;
    for (uint64_t value = 1; value <= 1000; value++)
        same += keyed_hash(&one, value) % 1024 == keyed_hash(&other, value) % 1024;
    assert_true(same < 50);
}

static void test_a_key_of_zeroes_still_hashes(void **state)
{
    (void)state;
    const struct keyed_hash zero = {{0, 0}};
    assert_true(keyed_hash(&zero, 1) != keyed_hash(&zero, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_in_a_row_spread_over_a_table),
        cmocka_unit_test(test_another_key_gives_other_places),
        cmocka_unit_test(test_a_key_of_zeroes_still_hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
