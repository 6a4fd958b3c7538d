/* Numbers as Python spells them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "client/cli/python_numbers.h"
#include "tests/support/chaos.h"

static void assert_integer(const char *text, const char *expected)
{
    char canonical[PYTHON_INTEGER_SIZE];
    if (!expected) {
        assert_false(python_integer(text, canonical));
        return;
    }
    assert_true(python_integer(text, canonical));
    assert_string_equal(canonical, expected);
}

static void test_integers_are_read_as_python_reads_them(void **state)
{
    (void)state;
    assert_integer("7", "7");
    assert_integer(" \t\n7\v\f\r", "7");
    assert_integer("\x1c"
                   "7\x1f",
                   "7");
    assert_integer("+7", "7");
    assert_integer("-7", "-7");
    assert_integer("007", "7");
    assert_integer("-007", "-7");
    assert_integer("1_000", "1000");
    assert_integer("0_0", "0");
    assert_integer("-0", "0");
    assert_integer("0", "0");
    assert_integer("99999999999999999999999999", "99999999999999999999999999");
}

static void test_what_python_refuses_as_an_integer_is_refused(void **state)
{
    (void)state;
    static const char *const BAD[] = {"",   " ",    "+",   "-",   "1.5", "1e2", "0x10", "_1",
                                      "1_", "1__0", "+ 1", "--1", "1 2", "abc", "-_1",  "\xd9\xa3"};
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
        assert_integer(BAD[i], NULL);
}

static void test_an_integer_has_at_most_4300_digits(void **state)
{
    (void)state;
    static char text[PYTHON_MAX_DIGITS + 3];
    memset(text, '1', PYTHON_MAX_DIGITS);
    assert_integer(text, text);
    memset(text, '0', PYTHON_MAX_DIGITS);
    assert_integer(text, "0");
    text[PYTHON_MAX_DIGITS] = '0';
    assert_integer(text, NULL);
}

static void test_the_range_of_an_integer_is_judged_exactly(void **state)
{
    (void)state;
    uint64_t value = 0;
    assert_int_equal(python_integer_in_range("-5", 10, &value), -1);
    assert_int_equal(python_integer_in_range("0", 10, &value), -1);
    assert_int_equal(python_integer_in_range("1", 10, &value), 0);
    assert_int_equal(value, 1);
    assert_int_equal(python_integer_in_range("10", 10, &value), 0);
    assert_int_equal(python_integer_in_range("11", 10, &value), 1);
    assert_int_equal(python_integer_in_range("18446744073709551617", 10, &value), 1);
}

static void assert_float(const char *text, double expected)
{
    double number = -99;
    assert_int_equal(python_float(text, memory_system(), &number), PYTHON_FLOAT_FINE);
    assert_true(isnan(expected) ? isnan(number) : number == expected);
}

static void test_floats_are_read_as_python_reads_them(void **state)
{
    (void)state;
    assert_float("0.04", 0.04);
    assert_float(".5", 0.5);
    assert_float("0.", 0.0);
    assert_float(" 1 ", 1.0);
    assert_float("1e-9", 1e-9);
    assert_float("1E+2", 100.0);
    assert_float("0_0", 0.0);
    assert_float("1_0.2_5e0_1", 102.5);
    assert_float("-.5", -0.5);
    assert_float("+2", 2.0);
    assert_float("1e400", INFINITY);
    assert_float("-1e400", -INFINITY);
    assert_float("inf", INFINITY);
    assert_float("-Infinity", -INFINITY);
    assert_float("NaN", NAN);
}

static void test_what_python_refuses_as_a_float_is_refused(void **state)
{
    (void)state;
    static const char *const BAD[] = {"",     ".",     "-",    "e5",    "1e",   "1e+",  "0x1",
                                      "1__0", "_1",    "1_",   "1_.0",  "1._0", "1e_1", "1 2",
                                      "abc",  "infin", "nan1", "1.2.3", "1f"};
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        double number;
        assert_int_equal(python_float(BAD[i], memory_system(), &number), PYTHON_FLOAT_REFUSED);
    }
}

static bool float_under_chaos(struct chaos *chaos, void *context)
{
    (void)context;
    double number;
    enum python_float_result result = python_float("1.5", &chaos->memory, &number);
    assert_true(result == PYTHON_FLOAT_FINE || result == PYTHON_FLOAT_NO_MEMORY);
    return result == PYTHON_FLOAT_FINE;
}

static void test_a_float_survives_each_failing_allocation(void **state)
{
    (void)state;
    assert_true(chaos_loop(float_under_chaos, NULL) > 0);
}

static void assert_shown(const char *text, const char *expected)
{
    char shown[PYTHON_SHOWN_SIZE];
    python_show(text, shown);
    assert_string_equal(shown, expected);
}

static void test_texts_are_shown_as_python_shows_them(void **state)
{
    (void)state;
    assert_shown("abc", "'abc'");
    assert_shown("it's", "\"it's\"");
    assert_shown("a\"b'c", "'a\"b\\'c'");
    assert_shown("a\\b", "'a\\\\b'");
    assert_shown("a\n\t\r\033", "'a\\n\\t\\r\\x1b'");
}

static void test_a_long_text_is_shown_in_part(void **state)
{
    (void)state;
    char text[2 * PYTHON_SHOWN_SIZE];
    char shown[PYTHON_SHOWN_SIZE];
    memset(text, '\033', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    python_show(text, shown);
    assert_non_null(strstr(shown, "...'"));
    assert_true(strlen(shown) < PYTHON_SHOWN_SIZE);
}

static void test_words_that_look_like_negative_numbers(void **state)
{
    (void)state;
    static const char *const YES[] = {"-1", "-0", "-.5", "-1.5", "-12\n"};
    static const char *const NO[] = {"-",    "1",    "-1.",  "-.",  "-1e5",
                                     "-1_0", "-inf", "-0x7", "--1", "-1.5x"};
    for (size_t i = 0; i < sizeof(YES) / sizeof(YES[0]); i++)
        assert_true(python_looks_negative(YES[i]));
    for (size_t i = 0; i < sizeof(NO) / sizeof(NO[0]); i++)
        assert_false(python_looks_negative(NO[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers_are_read_as_python_reads_them),
        cmocka_unit_test(test_what_python_refuses_as_an_integer_is_refused),
        cmocka_unit_test(test_an_integer_has_at_most_4300_digits),
        cmocka_unit_test(test_the_range_of_an_integer_is_judged_exactly),
        cmocka_unit_test(test_floats_are_read_as_python_reads_them),
        cmocka_unit_test(test_what_python_refuses_as_a_float_is_refused),
        cmocka_unit_test(test_a_float_survives_each_failing_allocation),
        cmocka_unit_test(test_texts_are_shown_as_python_shows_them),
        cmocka_unit_test(test_a_long_text_is_shown_in_part),
        cmocka_unit_test(test_words_that_look_like_negative_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
