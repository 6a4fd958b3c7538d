/* Finding values in a valid JSON text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "client/json_span.h"

static struct json_span span_of(const char *text)
{
    return (struct json_span){text, strlen(text)};
}

static void assert_span(struct json_span span, const char *expected)
{
    assert_non_null(span.bytes);
    assert_int_equal(span.length, strlen(expected));
    assert_memory_equal(span.bytes, expected, span.length);
}

static void test_members_are_found_by_their_place(void **state)
{
    (void)state;
    struct json_span text = span_of(" { \"a\" : 1 , \"b\":[1,{\"c\":\"}]\"}],\"c\":null } ");
    assert_span(json_span_child(text, 0), "1");
    assert_span(json_span_child(text, 1), "[1,{\"c\":\"}]\"}]");
    assert_span(json_span_child(text, 2), "null");
    assert_null(json_span_child(text, 3).bytes);
}

static void test_members_are_found_by_their_name(void **state)
{
    (void)state;
    struct json_span text = span_of("{\"ab\":1,\"a\":{\"b\":2},\"b\":\"x,\\\"y\\\\\"}");
    assert_span(json_span_member(text, "a"), "{\"b\":2}");
    assert_span(json_span_member(text, "b"), "\"x,\\\"y\\\\\"");
    assert_null(json_span_member(text, "c").bytes);
}

static void test_items_of_an_array_come_one_after_the_other(void **state)
{
    (void)state;
    static const char *const ITEMS[] = {"1", "\"a:b\"", "[[],[]]", "true"};
    struct json_span text = span_of("[1,\"a:b\", [[],[]] ,true]");
    size_t position = 0;
    for (size_t i = 0; i < 4; i++)
        assert_span(json_span_next(text, &position, NULL), ITEMS[i]);
    assert_null(json_span_next(text, &position, NULL).bytes);
}

static void test_empty_and_plain_values_have_no_children(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {"", " ", "{}", "[ ]", "7", "\"{\\\"a\\\":1}\"", "null"};
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++)
        assert_null(json_span_child(span_of(TEXTS[i]), 0).bytes);
}

/* Whatever is cut off, nothing outside is read (a sanitizer or valgrind sees it) and it comes to an
 * end. */
static void test_a_text_that_is_cut_off_is_not_read_beyond(void **state)
{
    (void)state;
    const char *whole = "{\"a\":[1,{\"b\":\"\\\\\"}],\"c\":{\"d\":\"e\\\"\"}}";
    for (size_t length = 0; length < strlen(whole); length++) {
        char *piece = malloc(length + 1);
        assert_non_null(piece);
        memcpy(piece, whole, length);
        piece[length] = '\0';
        struct json_span text = {piece, length};
        size_t position = 0;
        size_t count = 0;
        while (json_span_next(text, &position, NULL).bytes && count < 100)
            count++;
        assert_true(count < 100);
        free(piece);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_are_found_by_their_place),
        cmocka_unit_test(test_members_are_found_by_their_name),
        cmocka_unit_test(test_items_of_an_array_come_one_after_the_other),
        cmocka_unit_test(test_empty_and_plain_values_have_no_children),
        cmocka_unit_test(test_a_text_that_is_cut_off_is_not_read_beyond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
