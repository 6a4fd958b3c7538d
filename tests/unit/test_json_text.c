/* Small things about the text of JSON: UTF-8, escapes, client text made fit for messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "proto/json_text.h"

/* The character by its definition: encoded from each code point in turn. */
static size_t encode(unsigned long point, char bytes[4])
{
    if (point < 0x80) {
        bytes[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        bytes[0] = (char)(0xc0 | point >> 6);
        bytes[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        bytes[0] = (char)(0xe0 | point >> 12);
        bytes[1] = (char)(0x80 | (point >> 6 & 0x3f));
        bytes[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    bytes[0] = (char)(0xf0 | point >> 18);
    bytes[1] = (char)(0x80 | (point >> 12 & 0x3f));
    bytes[2] = (char)(0x80 | (point >> 6 & 0x3f));
    bytes[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

static void test_every_character_has_its_length(void **state)
{
    (void)state;
    for (unsigned long point = 0; point < 0x110000; point++) {
        char bytes[4];
        size_t length = encode(point, bytes);
        bool surrogate = point >= 0xd800 && point <= 0xdfff;
        size_t got = json_text_utf8_length(bytes, length);
        if (got != (surrogate ? 0 : length))
            fail_msg("U+%04lX: %zu", point, got);
        if (!surrogate && json_text_utf8_length(bytes, length - 1) != 0)
            fail_msg("U+%04lX cut short", point);
    }
}

static void test_there_are_no_other_characters(void **state)
{
    (void)state;
    unsigned long valid = 0; /* sequences of exactly three and two bytes that are one character */
    for (unsigned long word = 0; word < 0x1000000; word++) {
        const char bytes[3] = {(char)(word >> 16), (char)(word >> 8), (char)word};
        valid += json_text_utf8_length(bytes, 3) == 3;
    }
    assert_int_equal(valid, 0x10000 - 0x800 - 0x800);
    valid = 0;
    for (unsigned long word = 0; word < 0x10000; word++) {
        const char bytes[2] = {(char)(word >> 8), (char)word};
        valid += json_text_utf8_length(bytes, 2) == 2;
    }
    assert_int_equal(valid, 0x800 - 0x80);
}

static void test_a_cut_falls_between_characters(void **state)
{
    (void)state;
    const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9d\x84\x9ez";
    static const size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
    for (size_t most = 0; most < sizeof(expected) / sizeof(expected[0]); most++)
        assert_int_equal(json_text_cut(text, sizeof(text) - 1, most), expected[most]);
}

static void test_escapes_are_undone(void **state)
{
    (void)state;
    const char inside[] = "a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud834\\udd1e\xc3\xa9";
    const char plain[] = "a\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9d\x84\x9e\xc3\xa9";
    char out[64];
    assert_int_equal(json_text_unescape(inside, sizeof(inside) - 1, out, sizeof(out)),
                     sizeof(plain) - 1);
    assert_memory_equal(out, plain, sizeof(plain) - 1);
}

static void test_no_more_is_unescaped_than_there_is_room(void **state)
{
    (void)state;
    char out[3] = {0, 0, '#'};
    assert_int_equal(json_text_unescape("\\u20ac", 6, out, 2), 3);
    assert_memory_equal(out, "\xe2\x82#", 3);
    assert_int_equal(json_text_unescape("", 0, out, 2), 0);
}

static int order(const char *a, const char *b)
{
    int result = json_text_compare_unescaped(a, strlen(a), b, strlen(b));
    return (result > 0) - (result < 0);
}

static void test_strings_are_compared_by_what_they_mean(void **state)
{
    (void)state;
    assert_int_equal(order("abc", "abc"), 0);
    assert_int_equal(order("\\u0061bc", "abc"), 0);
    assert_int_equal(order("\\u00e9", "\xc3\xa9"), 0);
    assert_int_equal(order("\\/", "/"), 0);
    assert_int_equal(order("ab", "abc"), -1);
    assert_int_equal(order("abd", "abc"), 1);
    assert_int_equal(order("\\u0062", "a"), 1);
    assert_int_equal(order("\\n", "a"), -1);
    assert_int_equal(order("", ""), 0);
}

static void assert_printed(const char *text, size_t room, const char *expected)
{
    char out[64];
    memset(out, '#', sizeof(out));
    json_text_printable(text, strlen(text), out, room);
    assert_string_equal(out, expected);
}

static void test_client_text_is_shown_in_printable_ascii(void **state)
{
    (void)state;
    assert_printed("plain text", 64, "plain text");
    assert_printed("", 64, "");
    assert_printed("\xc3\xa9\n\x1b[31m\x7f\xf0\x9f\x98\x80", 64,
                   "\\u00e9\\u000a\\u001b[31m\\u007f\\U0001f600");
}

static void test_client_text_is_cut_where_there_is_no_room(void **state)
{
    (void)state;
    assert_printed("0123456789abcdef", 17, "0123456789abcdef");
    assert_printed("0123456789abcdef", 16, "0123456789ab...");
    assert_printed("0123456789ab\xc3\xa9", 16, "0123456789ab...");
    assert_printed("012345678\xc3\xa9", 16, "012345678\\u00e9");
    assert_printed("0123456789\xc3\xa9", 16, "0123456789...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_character_has_its_length),
        cmocka_unit_test(test_there_are_no_other_characters),
        cmocka_unit_test(test_a_cut_falls_between_characters),
        cmocka_unit_test(test_escapes_are_undone),
        cmocka_unit_test(test_no_more_is_unescaped_than_there_is_room),
        cmocka_unit_test(test_strings_are_compared_by_what_they_mean),
        cmocka_unit_test(test_client_text_is_shown_in_printable_ascii),
        cmocka_unit_test(test_client_text_is_cut_where_there_is_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
