/* The random stream against what Python draws (mt19937.json), and the edges of seeding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lib/python_random.h"
#include "lib/worsegpu.h"
#include "tests/support/chaos.h"
#include "tests/support/engine.h"

static struct python_random seeded(const char *decimal)
{
    struct python_random random;
    assert_int_equal(python_random_seed(&random, decimal, memory_system()), WORSEGPU_OK);
    return random;
}

static void test_every_golden_number_is_drawn(void **state)
{
    (void)state;
    cJSON *seeds = engine_golden_json("mt19937.json");
    assert_true(cJSON_GetArraySize(seeds) >= 10);
    const cJSON *entry;
    const cJSON *value;
    cJSON_ArrayForEach(entry, seeds)
    {
        const char *text = cJSON_GetObjectItem(entry, "seed_text")->valuestring;
        struct python_random doubles = seeded(text);
        cJSON_ArrayForEach(value, cJSON_GetObjectItem(entry, "random_hex"))
        {
            double expected = strtod(value->valuestring, NULL);
            assert_true(python_random_double(&doubles) == expected);
        }
        struct python_random words = seeded(text);
        cJSON_ArrayForEach(value, cJSON_GetObjectItem(entry, "getrandbits32"))
            assert_int_equal(python_random_bits(&words, 32), (uint32_t)value->valuedouble);
        struct python_random threes = seeded(text);
        cJSON_ArrayForEach(value, cJSON_GetObjectItem(entry, "getrandbits3"))
            assert_int_equal(python_random_bits(&threes, 3), value->valueint);
        struct python_random choices = seeded(text);
        cJSON_ArrayForEach(value, cJSON_GetObjectItem(entry, "choice4"))
            assert_int_equal(python_random_choice(&choices, 4), value->valueint);
    }
    cJSON_Delete(seeds);
}

static void assert_same_stream(const char *left, const char *right)
{
    struct python_random one = seeded(left);
    struct python_random other = seeded(right);
    assert_memory_equal(&one, &other, sizeof(one));
}

static void test_a_sign_makes_no_difference(void **state)
{
    (void)state;
    assert_same_stream("7", "-7");
    assert_same_stream("0", "-0");
    assert_same_stream("18446744073833008405", "-18446744073833008405");
}

static void test_leading_zeros_make_no_difference(void **state)
{
    (void)state;
    assert_same_stream("7", "00000000000000000000000000000000007");
    assert_same_stream("0", "0000");
    assert_same_stream("4294967296", "-0004294967296");
}

static void test_different_seeds_give_different_streams(void **state)
{
    (void)state;
    const char *const texts[] = {"0",          "1",          "9",
                                 "10",         "999999999",  "1000000000",
                                 "4294967295", "4294967296", "18446744073709551616"};
    size_t count = sizeof(texts) / sizeof(texts[0]);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            struct python_random one = seeded(texts[i]);
            struct python_random other = seeded(texts[j]);
            assert_memory_not_equal(&one, &other, sizeof(one));
        }
    }
}

/* Checked against Python: random.seed(int("9" * 4300)); [random.getrandbits(32) for _ in range(4)].
 */
static void test_the_longest_seed_is_used_whole(void **state)
{
    (void)state;
    char text[WORSEGPU_MAX_SEED_DIGITS + 1];
    memset(text, '9', WORSEGPU_MAX_SEED_DIGITS);
    text[WORSEGPU_MAX_SEED_DIGITS] = '\0';
    struct python_random random = seeded(text);
    const uint32_t expected[] = {UINT32_C(1004254403), UINT32_C(1076593324), UINT32_C(360839848),
                                 UINT32_C(4111374233)};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        assert_int_equal(python_random_word(&random), expected[i]);
}

/* Checked against Python: random.seed(42); the 100,000th getrandbits(32). */
static void test_the_stream_goes_on_over_many_refills(void **state)
{
    (void)state;
    struct python_random random = seeded("42");
    for (int i = 1; i < 100000; i++)
        python_random_word(&random);
    assert_int_equal(python_random_word(&random), UINT32_C(124003426));
}

/* Checked against Python: random.seed(5); [random.choice(range(n)) for n in 1, 2, 3, 5, 1000,
 * 2**31]. */
static void test_a_choice_uses_as_many_bits_as_the_count_has(void **state)
{
    (void)state;
    struct python_random random = seeded("5");
    const uint32_t counts[] = {1, 2, 3, 5, 1000, UINT32_C(1) << 31};
    const uint32_t expected[] = {0, 1, 2, 4, 29, 1999834075};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        assert_int_equal(python_random_choice(&random, counts[i]), expected[i]);
}

static void test_a_copy_goes_on_with_the_same_numbers(void **state)
{
    (void)state;
    struct python_random random = seeded("3");
    for (int i = 0; i < 700; i++)
        python_random_word(&random);
    struct python_random copy = random;
    for (int i = 0; i < 700; i++)
        assert_int_equal(python_random_word(&random), python_random_word(&copy));
}

static bool seed_in_chaos(struct chaos *chaos, void *context)
{
    (void)context;
    struct python_random random = seeded("1");
    struct python_random before = random;
    int status = python_random_seed(&random, "123456789012345678901234567890", &chaos->memory);
    if (status == WORSEGPU_OK)
        return true;
    assert_int_equal(status, WORSEGPU_NO_MEMORY);
    assert_memory_equal(&random, &before, sizeof(random));
    return false;
}

static void test_seeding_without_memory_changes_nothing(void **state)
{
    (void)state;
    assert_true(chaos_loop(seed_in_chaos, NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_golden_number_is_drawn),
        cmocka_unit_test(test_a_sign_makes_no_difference),
        cmocka_unit_test(test_leading_zeros_make_no_difference),
        cmocka_unit_test(test_different_seeds_give_different_streams),
        cmocka_unit_test(test_the_longest_seed_is_used_whole),
        cmocka_unit_test(test_the_stream_goes_on_over_many_refills),
        cmocka_unit_test(test_a_choice_uses_as_many_bits_as_the_count_has),
        cmocka_unit_test(test_a_copy_goes_on_with_the_same_numbers),
        cmocka_unit_test(test_seeding_without_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
