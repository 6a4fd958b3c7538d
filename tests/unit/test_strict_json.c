/* What is RFC 8259 and nothing more, rule by rule of the wire contract. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proto/strict_json.h"
#include "tests/support/chaos.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Judges a copy of exactly that length, so that a read beyond it is seen by the sanitizers. */
static enum strict_json_result judge_bytes(const char *bytes, size_t length)
{
    struct strict_json json;
    char *copy = malloc(length ? length : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, length);
    strict_json_init(&json, memory_system());
    enum strict_json_result result = strict_json_check(&json, copy, length);
    assert_int_equal(result == STRICT_JSON_REFUSED, json.why != NULL);
    assert_true(json.where <= length);
    strict_json_release(&json);
    free(copy);
    return result;
}

static void judge_each(const char *const *texts, size_t count, enum strict_json_result expected)
{
    for (size_t i = 0; i < count; i++)
        if (judge_bytes(texts[i], strlen(texts[i])) != expected)
            fail_msg("%s: %s", expected == STRICT_JSON_FINE ? "refused" : "taken", texts[i]);
}

#define ACCEPTED(...)                                                                              \
    judge_each((const char *const[]){__VA_ARGS__}, COUNT(((const char *const[]){__VA_ARGS__})),    \
               STRICT_JSON_FINE)
#define REFUSED(...)                                                                               \
    judge_each((const char *const[]){__VA_ARGS__}, COUNT(((const char *const[]){__VA_ARGS__})),    \
               STRICT_JSON_REFUSED)

/* The same for what stands in a string. */
static void judge_strings(const char *const *insides, size_t count,
                          enum strict_json_result expected)
{
    for (size_t i = 0; i < count; i++) {
        char text[256];
        snprintf(text, sizeof(text), "[\"%s\"]", insides[i]);
        judge_each((const char *const[]){text}, 1, expected);
        snprintf(text, sizeof(text), "{\"%s\":1}", insides[i]);
        judge_each((const char *const[]){text}, 1, expected);
    }
}

#define STRINGS_ACCEPTED(...)                                                                      \
    judge_strings((const char *const[]){__VA_ARGS__}, COUNT(((const char *const[]){__VA_ARGS__})), \
                  STRICT_JSON_FINE)
#define STRINGS_REFUSED(...)                                                                       \
    judge_strings((const char *const[]){__VA_ARGS__}, COUNT(((const char *const[]){__VA_ARGS__})), \
                  STRICT_JSON_REFUSED)

static void test_every_kind_of_value_is_taken(void **state)
{
    (void)state;
    ACCEPTED("null", "true", "false", "0", "\"\"", "[]", "{}", " \t\r\n[ 1 , 2 ] \t\r\n",
             "{ \"a\" : { \"b\" : [ ] } , \"c\" : null }", "[1,\"a\",null,true,false,{},[]]");
}

static void test_a_number_is_written_as_the_rfc_says(void **state)
{
    (void)state;
    ACCEPTED("0", "-0", "-1", "10", "0.5", "-1.25e+10", "1E5", "1e-7", "0e0", "0.0E-0",
             "123456789012345678901234567890", "1e999999");
    REFUSED("01", "-01", "00", "-00", "01.5", "1.", ".5", "-.5", "+1", "1e", "1e+", "1.e5", "-",
            "--1", "0x10", "1_0", "1,0", "1.5.5", "1e5.5", "1a", "0e", "1 000", "-a", "1e-", "NaN",
            "-NaN", "nan", "Infinity", "-Infinity", "inf");
}

static void test_commas_stand_only_between_values(void **state)
{
    (void)state;
    REFUSED("[1,]", "{\"a\":1,}", "[,]", "{,}", "[1,,2]", "[,1]", "{,\"a\":1}", "[1 2]",
            "{\"a\":1 \"b\":2}", "{\"a\":1;\"b\":2}", "[1;2]");
}

static void test_nothing_may_follow_the_value(void **state)
{
    (void)state;
    REFUSED("{}x", "{} {}", "{}}", "[]]", "{},", "{}#", "{}//", "{}\x0b", "{}\x0c", "{}\xc2\xa0",
            "truefalse", "1 2", "\"\"\"\"");
    assert_int_equal(judge_bytes("{}\0", 3), STRICT_JSON_REFUSED);
}

static void test_only_four_blanks_are_blanks(void **state)
{
    (void)state;
    REFUSED("\x0b{}", "\x0c{}", "\xc2\xa0{}", "\xe2\x80\xa8{}", "\xef\xbb\xbf{}");
    assert_int_equal(judge_bytes("\0{}", 3), STRICT_JSON_REFUSED);
}

static void test_a_text_cut_anywhere_is_refused(void **state)
{
    (void)state;
    static const char whole[] =
        "{\"a\\u00e9\\ud834\\udd1e\xe2\x82\xac\":[true,false,null,-1.5e+3,\""
        "\xf0\x9d\x84\x9e\\n\"],\"b\":{}}";
    assert_int_equal(judge_bytes(whole, sizeof(whole) - 1), STRICT_JSON_FINE);
    for (size_t length = 0; length < sizeof(whole) - 1; length++)
        assert_int_equal(judge_bytes(whole, length), STRICT_JSON_REFUSED);
}

static void test_brackets_must_match(void **state)
{
    (void)state;
    REFUSED("", "{", "}", "[", "]", "{]", "[}", "[1}", "{\"a\":1]", "[{]}", "\"", "\"abc");
}

static void test_a_member_is_a_string_a_colon_and_a_value(void **state)
{
    (void)state;
    REFUSED("{\"a\"}", "{\"a\":}", "{\"a\" 1}", "{\"a\"::1}", "{1:1}", "{a:1}", "{null:1}", "{:1}",
            "{\"a\":1,\"b\"}", "{'a':1}", "{[]:1}");
}

static void test_words_are_spelled_out_in_small_letters(void **state)
{
    (void)state;
    REFUSED("tru", "nul", "fals", "True", "TRUE", "None", "undefined", "x", "nulL", "truth",
            "<json/>", "/*c*/{}", "{}/*c*/", "# {}", "'a'", "GET / HTTP/1.1");
}

static void test_raw_control_characters_are_refused(void **state)
{
    (void)state;
    for (int byte = 0; byte < 0x20; byte++) {
        const char text[] = {'"', 'a', (char)byte, 'b', '"'};
        assert_int_equal(judge_bytes(text, sizeof(text)), STRICT_JSON_REFUSED);
    }
    STRINGS_ACCEPTED("\x7f", " ", "\xc2\x80");
}

static void test_only_the_escapes_of_the_rfc_are_taken(void **state)
{
    (void)state;
    STRINGS_ACCEPTED("\\\"\\\\\\/\\b\\f\\n\\r\\t", "\\u0001", "\\u001f", "\\uABCD", "\\uabcd",
                     "\\\\u0000");
    STRINGS_REFUSED("\\x41", "\\u12", "\\u123g", "\\U0041", "\\'", "\\a", "\\0", "\\ ", "\\u",
                    "\\u-123", "\\u 123", "\\");
}

static void test_a_nul_cannot_hide_in_a_string(void **state)
{
    (void)state;
    STRINGS_REFUSED("\\u0000", "a\\u0000b");
}

static void test_surrogates_come_in_pairs(void **state)
{
    (void)state;
    STRINGS_ACCEPTED("\\ud834\\udd1e", "\\uD834\\uDD1E", "\\ud800\\udc00", "\\udbff\\udfff",
                     "\\ud7ff\\ue000");
    STRINGS_REFUSED("\\ud800", "\\udc00", "\\ud800x", "\\ud800\\u0041", "\\udc00\\ud800",
                    "\\ud800\\ud800", "\\udbff", "\\ud83d\\ud83d\\ude00", "\\uD800\\n",
                    "\\ud800\\\"", "\\ud800\\udbff", "\\ud800\\ue000", "\\ud800\\udc0");
}

static void test_utf8_must_be_valid(void **state)
{
    (void)state;
    STRINGS_ACCEPTED("\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                     "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "\xef\xb7\x90");
    STRINGS_REFUSED("\xff", "\xfe", "\x80", "\xbf", "\xc3", "\xc3(", "\xc3\xa9\xa9", "\xe9",
                    "\xe2\x82", "\xe2(\x82", "\xf0\x9f\x92", "\xf0\x9f(\x92");
    STRINGS_REFUSED("\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xf0\x80\x80\x80",
                    "\xf0\x8f\xbf\xbf");
    STRINGS_REFUSED("\xed\xa0\x80", "\xed\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
                    "\xf8\x88\x80\x80\x80");
}

static void test_a_key_twice_in_one_object_is_refused(void **state)
{
    (void)state;
    REFUSED("{\"a\":1,\"a\":1}", "{\"a\":1,\"\\u0061\":2}", "{\"\\u0061\":1,\"a\":2}",
            "[[{\"b\":{\"k\":1,\"k\":2}}]]", "{\"\":1,\"\":2}", "{\"x\":{\"x\":1},\"x\":2}",
            "{\"\\n\":1,\"\\u000a\":2}", "{\"\\u00e9\":1,\"\xc3\xa9\":2}",
            "{\"\\ud834\\udd1e\":1,\"\xf0\x9d\x84\x9e\":2}", "{\"\\/\":1,\"/\":2}",
            "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"a\":9}");
}

static void test_equal_keys_in_different_objects_are_fine(void **state)
{
    (void)state;
    ACCEPTED("{\"a\":{\"a\":{\"a\":1}},\"b\":{\"a\":1}}", "[{\"a\":1},{\"a\":1}]",
             "{\"A\":1,\"a\":2}", "{\"a\":1,\"a \":2,\"\":3}", "{\"\\\\u0061\":1,\"a\":2}",
             "{\"a\":1,\"\\u0062\":2,\"ab\":3,\"\\u0061c\":4}");
}

/* An object of `count` members whose keys are 0, step, 2 * step, ... modulo count; the last key is
 * that of member `twin` instead, unless that is `count`. Escapes stand in some. */
static enum strict_json_result judge_many_keys(size_t count, size_t step, size_t twin)
{
    size_t room = count * 24 + 3;
    char *text = malloc(room);
    assert_non_null(text);
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        size_t member = i == count - 1 && twin != count ? twin : i;
        size_t number = member * step % count;
        length += (size_t)snprintf(text + length, room - length,
                                   i % 3 == 0 ? "%c\"\\u006b%zu\":1" : "%c\"k%zu\":1",
                                   i == 0 ? '{' : ',', number);
    }
    text[length++] = '}';
    enum strict_json_result result = judge_bytes(text, length);
    free(text);
    return result;
}

static void test_a_twin_is_found_among_any_number_of_keys(void **state)
{
    (void)state;
    for (size_t count = 2; count < 70; count++) {
        assert_int_equal(judge_many_keys(count, 1, count), STRICT_JSON_FINE);
        for (size_t twin = 0; twin < count - 1; twin++)
            assert_int_equal(judge_many_keys(count, 1, twin), STRICT_JSON_REFUSED);
    }
    assert_int_equal(judge_many_keys(5003, 1234, 5003), STRICT_JSON_FINE);
    assert_int_equal(judge_many_keys(5003, 1234, 0), STRICT_JSON_REFUSED);
    assert_int_equal(judge_many_keys(5003, 1234, 5001), STRICT_JSON_REFUSED);
}

static void test_sixteen_levels_are_the_deepest(void **state)
{
    (void)state;
    ACCEPTED("[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]", "[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]",
             "[{\"a\":[{\"a\":[{\"a\":[{\"a\":[{\"a\":[{\"a\":[{\"a\":[{}]}]}]}]}]}]}]}]",
             "[[[[[[[[[[[[[[[[],[]]]]]]]]]]]]]]]]");
    REFUSED("[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]", "[[[[[[[[[[[[[[[[[",
            "[{\"a\":[{\"a\":[{\"a\":[{\"a\":[{\"a\":[{\"a\":[{\"a\":[{\"a\":[]}]}]}]}]}]}]}]}]");
}

static void test_the_place_of_a_fault_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t where;
    } faults[] = {{"[1,]", 3},          {"{\"a\":1,\"b\":2,\"a\":3}", 13},
                  {"[01]", 1},          {"\"\\x\"", 1},
                  {"[\"\xff\"]", 2},    {"{}x", 2},
                  {"[\"a\\ud800\"]", 3}};
    struct strict_json json;
    strict_json_init(&json, memory_system());
    for (size_t i = 0; i < COUNT(faults); i++) {
        assert_int_equal(strict_json_check(&json, faults[i].text, strlen(faults[i].text)),
                         STRICT_JSON_REFUSED);
        assert_int_equal(json.where, faults[i].where);
    }
    strict_json_release(&json);
}

static void test_each_number_is_noted_where_it_stands(void **state)
{
    (void)state;
    static const char text[] = "{\"7\":-1.5,\"b\":[10, 1e3],\"c\":{\"d\":0}}";
    static const char *const numbers[] = {"-1.5", "10", "1e3", "0"};
    struct strict_json json;
    strict_json_init(&json, memory_system());
    for (int again = 0; again < 2; again++) {
        assert_int_equal(strict_json_check(&json, text, sizeof(text) - 1), STRICT_JSON_FINE);
        assert_int_equal(json.number_count, COUNT(numbers));
        for (size_t i = 0; i < COUNT(numbers); i++) {
            assert_int_equal(json.numbers[i].length, strlen(numbers[i]));
            assert_memory_equal(text + json.numbers[i].start, numbers[i], strlen(numbers[i]));
        }
    }
    strict_json_release(&json);
}

static void test_an_integer_is_told_by_its_spelling(void **state)
{
    (void)state;
    static const char *const integers[] = {"0", "-0", "7", "-7", "10", "18446744073709551616"};
    static const char *const others[] = {"",    "-",   "01", "-01", "1.0",
                                         "1e3", "1E3", "+1", "a",   "1 "};
    for (size_t i = 0; i < COUNT(integers); i++)
        assert_true(strict_json_is_integer(integers[i], strlen(integers[i])));
    for (size_t i = 0; i < COUNT(others); i++)
        assert_false(strict_json_is_integer(others[i], strlen(others[i])));
}

static bool check_with_failures(struct chaos *chaos, void *context)
{
    static const char text[] = "{\"a\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17],\"b\":1,\"c\":1,"
                               "\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1,\"k\":1,"
                               "\"l\":1,\"m\":1,\"n\":1,\"o\":1,\"p\":1,\"q\":1,\"r\":1}";
    (void)context;
    struct strict_json json;
    strict_json_init(&json, &chaos->memory);
    enum strict_json_result result = strict_json_check(&json, text, sizeof(text) - 1);
    assert_int_equal(result, chaos->failed ? STRICT_JSON_NO_MEMORY : STRICT_JSON_FINE);
    chaos->fail_at = 0; /* and once more in the same workspace */
    assert_int_equal(strict_json_check(&json, text, sizeof(text) - 1), STRICT_JSON_FINE);
    assert_int_equal(json.number_count, 34);
    strict_json_release(&json);
    return result == STRICT_JSON_FINE;
}

static void test_a_failed_check_can_be_made_again(void **state)
{
    (void)state;
    assert_true(chaos_loop(check_with_failures, NULL) >= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_of_value_is_taken),
        cmocka_unit_test(test_a_number_is_written_as_the_rfc_says),
        cmocka_unit_test(test_commas_stand_only_between_values),
        cmocka_unit_test(test_nothing_may_follow_the_value),
        cmocka_unit_test(test_only_four_blanks_are_blanks),
        cmocka_unit_test(test_a_text_cut_anywhere_is_refused),
        cmocka_unit_test(test_brackets_must_match),
        cmocka_unit_test(test_a_member_is_a_string_a_colon_and_a_value),
        cmocka_unit_test(test_words_are_spelled_out_in_small_letters),
        cmocka_unit_test(test_raw_control_characters_are_refused),
        cmocka_unit_test(test_only_the_escapes_of_the_rfc_are_taken),
        cmocka_unit_test(test_a_nul_cannot_hide_in_a_string),
        cmocka_unit_test(test_surrogates_come_in_pairs),
        cmocka_unit_test(test_utf8_must_be_valid),
        cmocka_unit_test(test_a_key_twice_in_one_object_is_refused),
        cmocka_unit_test(test_equal_keys_in_different_objects_are_fine),
        cmocka_unit_test(test_a_twin_is_found_among_any_number_of_keys),
        cmocka_unit_test(test_sixteen_levels_are_the_deepest),
        cmocka_unit_test(test_the_place_of_a_fault_is_told),
        cmocka_unit_test(test_each_number_is_noted_where_it_stands),
        cmocka_unit_test(test_an_integer_is_told_by_its_spelling),
        cmocka_unit_test(test_a_failed_check_can_be_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
