/* Tests of base/bytes_text.c. The golden file is read a line at a time: one object stands on each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes_text.h"

enum {
    GOLDEN_LINE_SIZE = 256,
    GOLDEN_CASES = 500 /* the file has more; fewer would mean that it was not read */
};

static void assert_bytes(const char *text, uint64_t expected)
{
    uint64_t bytes = ~expected;
    if (!bytes_from_text(text, &bytes))
        fail_msg("\"%s\" was refused", text);
    if (bytes != expected)
        fail_msg("\"%s\" gave %" PRIu64 ", not %" PRIu64, text, bytes, expected);
}

static void assert_no_bytes(const char *text)
{
    uint64_t bytes = 12345;
    if (bytes_from_text(text, &bytes))
        fail_msg("\"%s\" gave %" PRIu64, text, bytes);
    assert_int_equal(bytes, 12345);
}

/* To the last bit, and to the sign of zero. */
static void assert_number(const char *text, double expected)
{
    double number = -12345.0;
    if (!number_from_text(text, &number))
        fail_msg("\"%s\" was refused", text);
    assert_memory_equal(&number, &expected, sizeof(number));
}

static void assert_no_number(const char *text)
{
    double number = 12345.0;
    const double untouched = number;
    if (number_from_text(text, &number))
        fail_msg("\"%s\" gave %g", text, number);
    assert_memory_equal(&number, &untouched, sizeof(number));
}

static void assert_shown(uint64_t bytes, bool negative, const char *expected)
{
    char text[BYTES_TEXT_SIZE];
    bytes_to_text(bytes, negative, text);
    assert_string_equal(text, expected);
}

static void test_a_byte_count_without_unit_is_in_bytes(void **state)
{
    (void)state;
    assert_bytes("0", 0);
    assert_bytes("4096", 4096);
    assert_bytes("007", 7);
    assert_bytes("18446744073709551615", UINT64_MAX);
}

static void test_each_unit_is_a_power_of_1024_in_every_spelling(void **state)
{
    static const char *const spellings[][8] = {
        {"3B", "3b", "3 B", "3\tb", "3.0B", "03B", "3.00 b", "3"},
        {"3K", "3k", "3KB", "3kb", "3KiB", "3KIB", "3 kib", "3.0 Kb"},
        {"3M", "3m", "3MB", "3mB", "3MiB", "3mib", "3  MiB", "3.0M"},
        {"3G", "3g", "3GB", "3Gb", "3GiB", "3gIb", "3\tGiB", "3.0g"},
        {"3T", "3t", "3TB", "3tb", "3TiB", "3TIB", "3 \tT", "3.000T"},
    };
    (void)state;
    uint64_t unit = 1;
    for (size_t row = 0; row < sizeof(spellings) / sizeof(spellings[0]); row++) {
        for (size_t i = 0; i < sizeof(spellings[row]) / sizeof(spellings[row][0]); i++)
            assert_bytes(spellings[row][i], 3 * unit);
        unit *= 1024;
    }
}

static void test_a_fraction_of_a_unit_is_read_exactly(void **state)
{
    (void)state;
    assert_bytes("1.5GiB", UINT64_C(1610612736));
    assert_bytes("0.25K", 256);
    assert_bytes("0.0009765625K", 1);
    assert_bytes("0.0000000000009094947017729282379150390625T", 1);
    /* Twice 2^53 and one: a double could not hold it. */
    assert_bytes("16384.0000000000009094947017729282379150390625T", (UINT64_C(1) << 54) + 1);
    assert_bytes("16777215.9999999999990905052982270717620849609375T", UINT64_MAX);
    assert_bytes("1.50000000000000000000000000000000000000000000000000000000000000000K", 1536);
}

static void test_a_fraction_that_is_no_whole_number_of_bytes_is_refused(void **state)
{
    (void)state;
    assert_no_bytes("1.5");
    assert_no_bytes("0.1KiB");
    assert_no_bytes("0.00048828125K"); /* half a byte */
    assert_no_bytes("1.3333333333333333333333333333333333333333333333333333333333333333T");
    assert_no_bytes("0.0000000000000000000000000000000000000000000000000000000000000001T");
}

static void test_a_byte_count_of_2_to_the_64_or_more_is_refused(void **state)
{
    (void)state;
    assert_no_bytes("18446744073709551616");
    assert_no_bytes("99999999999999999999999999999999");
    assert_no_bytes("16777216T");
    assert_no_bytes("18014398509481984K");
    assert_bytes("18014398509481983K", UINT64_C(18446744073709550592));
}

static void test_a_text_that_is_no_byte_count_is_refused(void **state)
{
    static const char *const texts[] = {
        "",     " ",   "B",   "MiB",   ".5M",      "1.M",        "1.",    "-1",     "+1",
        " 1",   "1 ",  "1M ", "1 M B", "1Ki",      "1iB",        "1Bi",   "1BB",    "1KK",
        "1PiB", "1E",  "1e3", "0x10",  "1_000",    "1,000",      "1,5M",  "1.5.5M", "1MiBs",
        "1M1",  "nan", "inf", "1\nM",  "\xd9\xa1", "1\xc2\xa0M", "1.-5M", "1. 5M",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_no_bytes(texts[i]);
}

static void test_a_count_is_digits_only_and_below_2_to_the_64(void **state)
{
    static const char *const refused[] = {"",
                                          "-1",
                                          "+1",
                                          " 1",
                                          "1 ",
                                          "1.0",
                                          "1e3",
                                          "0x1",
                                          "1K",
                                          "a",
                                          "1_0",
                                          "18446744073709551616",
                                          "28446744073709551615",
                                          "184467440737095516150"};
    uint64_t count = 1;
    (void)state;
    assert_true(count_from_text("0", &count));
    assert_int_equal(count, 0);
    assert_true(count_from_text("00018446744073709551615", &count));
    assert_int_equal(count, UINT64_MAX);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (count_from_text(refused[i], &count))
            fail_msg("\"%s\" was taken", refused[i]);
        assert_int_equal(count, UINT64_MAX);
    }
}

static void test_a_decimal_number_is_read_to_the_last_bit(void **state)
{
    (void)state;
    assert_number("0.65", 0.65);
    assert_number("1e-3", 1e-3);
    assert_number("1E+2", 100.0);
    assert_number("1", 1.0);
    assert_number("-2.5", -2.5);
    assert_number("+2.5", 2.5);
    assert_number(".5", 0.5);
    assert_number("5.", 5.0);
    assert_number("-0", -0.0);
    assert_number("0.1000000000000000055511151231257827021181583404541015625", 0.1);
    assert_number("1.7976931348623157e308", 1.7976931348623157e308);
    assert_number("5e-324", 5e-324);
    assert_number("1e-400", 0.0);
}

static void test_a_text_that_is_no_finite_decimal_number_is_refused(void **state)
{
    static const char *const texts[] = {
        "",    ".",     "-",     "+",        "e3",  "1e",    "1e+",  "1e400", "-1e400",
        "nan", "inf",   "-inf",  "infinity", "NaN", "0x1p3", "0x10", " 1",    "1 ",
        "1,5", "1.5.5", "1e2e3", "1e2.5",    "--1", "+-1",   "1_0",  "1f",    "0.5%"};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_no_number(texts[i]);
}

/* Makes a locale with a decimal comma in a folder of its own and switches to it. false where the
 * system cannot make one. */
static bool enter_comma_locale(void)
{
    static const char make_it[] =
        "printf 'LC_NUMERIC\\ndecimal_point \",\"\\nthousands_sep \".\"\\ngrouping 3;3\\nEND "
        "LC_NUMERIC\\n' >\"$LOCPATH/source\"; "
        "localedef -c -i \"$LOCPATH/source\" \"$LOCPATH/comma\" >\"$LOCPATH/said\" 2>&1";
    char folder[] = "/tmp/worsegpu-locale-XXXXXX";
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("LOCPATH", folder, 1), 0);
    /* localedef warns about what is left out, and then does not end with 0. */
    int made = system(make_it); /* NOLINT(cert-env33-c): a fixed command */
    bool entered = made != -1 && setlocale(LC_ALL, "comma") != NULL;
    int removed = system("rm -rf \"$LOCPATH\""); /* NOLINT(cert-env33-c): a fixed command */
    assert_int_equal(unsetenv("LOCPATH"), 0);
    assert_int_equal(removed, 0);
    return entered;
}

static void test_a_locale_with_a_decimal_comma_changes_nothing(void **state)
{
    (void)state;
    if (!enter_comma_locale())
        skip();
    char by_locale[8];
    snprintf(by_locale, sizeof(by_locale), "%.1f", 1.5);
    double number = 0;
    bool point_taken = number_from_text("0.5", &number);
    bool comma_taken = number_from_text("0,5", &number);
    uint64_t bytes = 0;
    bool bytes_taken = bytes_from_text("1.5K", &bytes);
    char shown[BYTES_TEXT_SIZE];
    bytes_to_text(1047552, false, shown);
    setlocale(LC_ALL, "C");
    assert_string_equal(by_locale, "1,5");
    assert_true(point_taken);
    assert_true(number * 2 == 1);
    assert_false(comma_taken);
    assert_true(bytes_taken);
    assert_int_equal(bytes, 1536);
    assert_string_equal(shown, "1,023.0 KiB");
}

static void test_byte_counts_are_shown_as_the_reference_shows_them(void **state)
{
    (void)state;
    const char *folder = getenv("WORSEGPU_GOLDEN");
    char path[4096];
    int length =
        snprintf(path, sizeof(path), "%s/format-bytes.json", folder ? folder : "tests/golden");
    assert_true(length > 0 && (size_t)length < sizeof(path));
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("cannot read %s", path);
    char line[GOLDEN_LINE_SIZE];
    int cases = 0;
    while (fgets(line, sizeof(line), file)) {
        static const char before_bytes[] = "{\"bytes\":";
        static const char before_text[] = ",\"text\":\"";
        if (strncmp(line, before_bytes, strlen(before_bytes)) != 0)
            continue;
        const char *number = line + strlen(before_bytes);
        bool negative = number[0] == '-';
        char *end;
        uint64_t bytes = strtoull(number + (negative ? 1 : 0), &end, 10);
        assert_int_equal(strncmp(end, before_text, strlen(before_text)), 0);
        char *expected = end + strlen(before_text);
        char *quote = strchr(expected, '"');
        assert_non_null(quote);
        *quote = '\0';
        assert_shown(bytes, negative, expected);
        cases++;
    }
    fclose(file);
    assert_in_range(cases, GOLDEN_CASES, 1000000);
}

static void test_the_largest_byte_count_has_room(void **state)
{
    (void)state;
    assert_shown(UINT64_MAX, true, "-17,179,869,184.0 GiB");
}

static void test_a_tie_in_the_last_decimal_goes_to_even(void **state)
{
    (void)state;
    assert_shown(1024 + 256, false, "1.2 KiB"); /* 1.25 */
    assert_shown(1024 + 768, false, "1.8 KiB"); /* 1.75 */
    assert_shown(1024 + 257, false, "1.3 KiB");
}

static void test_an_exact_text_is_read_back_as_the_same_count(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } counts[] = {{0, "0"},
                  {1000, "1000"},
                  {1023, "1023"},
                  {1024, "1KiB"},
                  {1025, "1025"},
                  {2097152, "2MiB"},
                  {11725176832, "11182MiB"},
                  {UINT64_C(1) << 40, "1TiB"},
                  {UINT64_C(1) << 52, "4096TiB"},
                  {UINT64_MAX, "18446744073709551615"}};
    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        char text[BYTES_TEXT_SIZE];
        uint64_t bytes = 7;
        bytes_to_exact_text(counts[i].bytes, text);
        assert_string_equal(text, counts[i].text);
        assert_true(bytes_from_text(text, &bytes));
        assert_int_equal(bytes, counts[i].bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_exact_text_is_read_back_as_the_same_count),
        cmocka_unit_test(test_a_byte_count_without_unit_is_in_bytes),
        cmocka_unit_test(test_each_unit_is_a_power_of_1024_in_every_spelling),
        cmocka_unit_test(test_a_fraction_of_a_unit_is_read_exactly),
        cmocka_unit_test(test_a_fraction_that_is_no_whole_number_of_bytes_is_refused),
        cmocka_unit_test(test_a_byte_count_of_2_to_the_64_or_more_is_refused),
        cmocka_unit_test(test_a_text_that_is_no_byte_count_is_refused),
        cmocka_unit_test(test_a_count_is_digits_only_and_below_2_to_the_64),
        cmocka_unit_test(test_a_decimal_number_is_read_to_the_last_bit),
        cmocka_unit_test(test_a_text_that_is_no_finite_decimal_number_is_refused),
        cmocka_unit_test(test_a_locale_with_a_decimal_comma_changes_nothing),
        cmocka_unit_test(test_byte_counts_are_shown_as_the_reference_shows_them),
        cmocka_unit_test(test_the_largest_byte_count_has_room),
        cmocka_unit_test(test_a_tie_in_the_last_decimal_goes_to_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
