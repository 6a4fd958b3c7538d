/* The writer: what it writes is strict JSON, exact, and never longer than it may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proto/json_document.h"
#include "proto/json_writer.h"
#include "tests/support/chaos.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    ROOMY = 1 << 20
};

static void assert_written(const struct json_writer *writer, const char *expected)
{
    assert_int_equal(writer->failure, JSON_WRITER_FINE);
    assert_int_equal(writer->length, strlen(expected));
    assert_memory_equal(writer->data, expected, writer->length);
}

static void test_commas_come_by_themselves(void **state)
{
    (void)state;
    struct json_writer writer;
    json_writer_init(&writer, memory_system(), ROOMY);
    json_writer_begin_object(&writer);
    json_writer_member_u64(&writer, "a", 1);
    json_writer_key(&writer, "b");
    json_writer_begin_array(&writer);
    json_writer_null(&writer);
    json_writer_bool(&writer, true);
    json_writer_begin_array(&writer);
    json_writer_end_array(&writer);
    json_writer_begin_object(&writer);
    json_writer_end_object(&writer);
    json_writer_raw_value(&writer, "[7]", 3);
    json_writer_end_array(&writer);
    json_writer_member_bool(&writer, "c", false);
    json_writer_member_null(&writer, "d");
    json_writer_member_text(&writer, "e", "");
    json_writer_member_string(&writer, "f", "xyz", 2);
    json_writer_member_i64(&writer, "g", -1);
    json_writer_member_double(&writer, "h", 1);
    json_writer_end_object(&writer);
    json_writer_newline(&writer);
    json_writer_begin_object(&writer);
    json_writer_end_object(&writer);
    json_writer_newline(&writer);
    assert_written(&writer,
                   "{\"a\":1,\"b\":[null,true,[],{},[7]],\"c\":false,\"d\":null,\"e\":\"\","
                   "\"f\":\"xy\",\"g\":-1,\"h\":1.0}\n{}\n");
    json_writer_release(&writer);
}

static void test_integers_are_written_to_the_last_digit(void **state)
{
    (void)state;
    struct json_writer writer;
    json_writer_init(&writer, memory_system(), ROOMY);
    json_writer_begin_array(&writer);
    static const uint64_t sizes[] = {0,         9, 10, 99, 100, 101, 999, 1000, 4506456634316829,
                                     UINT64_MAX};
    static const int64_t numbers[] = {0, -1, -9, -10, -100, 123, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < COUNT(sizes); i++)
        json_writer_u64(&writer, sizes[i]);
    for (size_t i = 0; i < COUNT(numbers); i++)
        json_writer_i64(&writer, numbers[i]);
    json_writer_end_array(&writer);
    assert_written(&writer, "[0,9,10,99,100,101,999,1000,4506456634316829,18446744073709551615,"
                            "0,-1,-9,-10,-100,123,9223372036854775807,-9223372036854775808]");
    json_writer_release(&writer);
}

static void test_strings_are_escaped_where_they_must(void **state)
{
    (void)state;
    struct json_writer writer;
    json_writer_init(&writer, memory_system(), ROOMY);
    json_writer_text(&writer, "a\"b\\c/\b\f\n\r\t\x01\x1f\x7f\xc3\xa9\xe2\x80\xa8\xf0\x9d\x84\x9e");
    assert_written(&writer, "\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\xc3\xa9\xe2\x80\xa8"
                            "\xf0\x9d\x84\x9e\"");
    json_writer_release(&writer);
}

static void test_every_ascii_string_reads_back(void **state)
{
    (void)state;
    char text[128];
    for (size_t i = 0; i < sizeof(text) - 1; i++)
        text[i] = (char)(i + 1);
    text[sizeof(text) - 1] = '\0';
    struct json_writer writer;
    struct json_document document;
    json_writer_init(&writer, memory_system(), ROOMY);
    json_document_init(&document, memory_system());
    json_writer_text(&writer, text);
    assert_int_equal(json_document_read(&document, writer.data, writer.length), STRICT_JSON_FINE);
    assert_string_equal(document.root->valuestring, text);
    json_document_release(&document);
    json_writer_release(&writer);
}

/* Writes one double; NUL-terminated, valid until the next. */
static const char *written(struct json_writer *writer, double value)
{
    json_writer_cut(writer, 0);
    json_writer_double(writer, value);
    json_writer_raw_value(writer, "", 1);
    assert_int_equal(writer->failure, JSON_WRITER_FINE);
    writer->data[writer->length - 2] = '\0'; /* the comma before it */
    return writer->data;
}

static void test_doubles_are_short_and_have_a_point_or_exponent(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0.0, "0.0"},
                 {1.0, "1.0"},
                 {-1.0, "-1.0"},
                 {0.65, "0.65"},
                 {0.1, "0.1"},
                 {0.30000000000000004, "0.30000000000000004"},
                 {1e300, "1e+300"},
                 {1e-7, "1e-07"},
                 {5e-324, "5e-324"},
                 {2.0 / 3, "0.6666666666666666"},
                 {9007199254740993.0, "9007199254740992.0"},
                 {DBL_MAX, "1.7976931348623157e+308"},
                 {DBL_MIN, "2.2250738585072014e-308"}};
    struct json_writer writer;
    json_writer_init(&writer, memory_system(), ROOMY);
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_string_equal(written(&writer, cases[i].value), cases[i].text);
    json_writer_release(&writer);
}

static void test_any_double_reads_back_as_itself(void **state)
{
    (void)state;
    struct json_writer writer;
    struct json_document document;
    json_writer_init(&writer, memory_system(), ROOMY);
    json_document_init(&document, memory_system());
    uint64_t bits = 1;
    for (int i = 0; i < 20000; i++) {
        bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double value;
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value))
            continue;
        const char *text = written(&writer, value);
        assert_true(strtod(text, NULL) == value);
        assert_int_equal(json_document_read(&document, text, strlen(text)), STRICT_JSON_FINE);
        assert_true(strpbrk(text, ".e") != NULL);
    }
    json_document_release(&document);
    json_writer_release(&writer);
}

static void test_a_locale_with_a_decimal_comma_changes_nothing(void **state)
{
    (void)state;
    static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    const char *found = NULL;
    for (size_t i = 0; i < COUNT(commas) && !found; i++)
        found = setlocale(LC_NUMERIC, commas[i]);
    if (!found) {
        print_message("skipped: this machine has no locale with a decimal comma\n");
        skip();
    }
    struct json_writer writer;
    json_writer_init(&writer, memory_system(), ROOMY);
    char text[64];
    strncpy(text, written(&writer, 0.65), sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    json_writer_release(&writer);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(text, "0.65");
}

/* A line that has a bit of everything. */
static void write_line(struct json_writer *writer)
{
    json_writer_begin_object(writer);
    json_writer_member_text(writer, "text", "with \"escapes\"\n");
    json_writer_member_u64(writer, "big", UINT64_MAX);
    json_writer_member_double(writer, "half", 0.5);
    json_writer_key(writer, "list");
    json_writer_begin_array(writer);
    json_writer_bool(writer, true);
    json_writer_null(writer);
    json_writer_end_array(writer);
    json_writer_end_object(writer);
    json_writer_newline(writer);
}

static void test_the_buffer_never_passes_its_limit(void **state)
{
    (void)state;
    struct json_writer whole;
    json_writer_init(&whole, memory_system(), ROOMY);
    write_line(&whole);
    for (size_t most = 0; most <= whole.length; most++) {
        struct chaos chaos;
        chaos_init(&chaos);
        struct json_writer writer;
        json_writer_init(&writer, &chaos.memory, most);
        write_line(&writer);
        assert_true(writer.length <= most);
        assert_true(chaos.live_bytes <= most);
        assert_int_equal(writer.failure,
                         most < whole.length ? JSON_WRITER_TOO_LONG : JSON_WRITER_FINE);
        if (writer.length > 0) /* what is there is the beginning of it */
            assert_memory_equal(writer.data, whole.data, writer.length);
        json_writer_release(&writer);
        assert_int_equal(chaos.live_bytes, 0);
    }
    json_writer_release(&whole);
}

static void test_after_a_failure_nothing_more_is_written(void **state)
{
    (void)state;
    struct json_writer writer;
    json_writer_init(&writer, memory_system(), 10);
    json_writer_begin_array(&writer);
    json_writer_text(&writer, "far too long for it");
    size_t length = writer.length;
    json_writer_u64(&writer, 1);
    assert_int_equal(writer.length, length);
    assert_int_equal(writer.failure, JSON_WRITER_TOO_LONG);
    json_writer_release(&writer);
}

static void test_a_cut_forgets_the_failure_and_what_came_after(void **state)
{
    (void)state;
    struct json_writer writer;
    json_writer_init(&writer, memory_system(), 20);
    json_writer_begin_array(&writer);
    json_writer_u64(&writer, 1);
    size_t mark = writer.length;
    json_writer_text(&writer, "far too long for it all");
    assert_int_equal(writer.failure, JSON_WRITER_TOO_LONG);
    json_writer_cut(&writer, mark);
    json_writer_u64(&writer, 2);
    json_writer_end_array(&writer);
    assert_written(&writer, "[1,2]");
    json_writer_release(&writer);
}

static void test_after_a_cut_commas_are_right(void **state)
{
    (void)state;
    struct json_writer writer;
    json_writer_init(&writer, memory_system(), ROOMY);
    json_writer_u64(&writer, 5);
    json_writer_cut(&writer, 0);
    json_writer_begin_array(&writer);
    size_t first = writer.length;
    json_writer_u64(&writer, 1);
    json_writer_cut(&writer, first);
    json_writer_begin_object(&writer);
    json_writer_key(&writer, "a");
    size_t value = writer.length;
    json_writer_u64(&writer, 2);
    json_writer_cut(&writer, value);
    json_writer_u64(&writer, 3);
    json_writer_end_object(&writer);
    json_writer_end_array(&writer);
    json_writer_newline(&writer);
    size_t line = writer.length;
    json_writer_u64(&writer, 4);
    json_writer_cut(&writer, line);
    json_writer_null(&writer);
    assert_written(&writer, "[{\"a\":3}]\nnull");
    json_writer_release(&writer);
}

static void test_what_was_reserved_cannot_fail(void **state)
{
    (void)state;
    struct chaos chaos;
    chaos_init(&chaos);
    struct json_writer writer;
    json_writer_init(&writer, &chaos.memory, ROOMY);
    assert_int_equal(json_writer_reserve(&writer, 5000), 0);
    chaos_arm(&chaos, 1, true);
    while (writer.length + 100 < 5000)
        write_line(&writer);
    assert_int_equal(writer.failure, JSON_WRITER_FINE);
    assert_int_equal(chaos.requests, 0);
    json_writer_release(&writer);
}

static void test_no_more_than_the_limit_can_be_reserved(void **state)
{
    (void)state;
    struct json_writer writer;
    json_writer_init(&writer, memory_system(), 100);
    assert_int_equal(json_writer_reserve(&writer, 101), -1);
    assert_int_equal(json_writer_reserve(&writer, SIZE_MAX), -1);
    assert_int_equal(writer.failure, JSON_WRITER_FINE);
    assert_int_equal(writer.capacity, 0);
    assert_int_equal(json_writer_reserve(&writer, 100), 0);
    json_writer_release(&writer);
}

static bool write_with_failures(struct chaos *chaos, void *context)
{
    (void)context;
    struct json_writer writer;
    struct json_writer whole;
    bool through = true;
    json_writer_init(&writer, &chaos->memory, ROOMY);
    json_writer_init(&whole, memory_system(), ROOMY);
    for (int line = 0; line < 40; line++) {
        size_t mark = writer.length;
        write_line(&whole);
        write_line(&writer);
        if (writer.failure != JSON_WRITER_FINE) {
            assert_int_equal(writer.failure, JSON_WRITER_NO_MEMORY);
            assert_true(chaos->failed);
            through = false;
            chaos->fail_at = 0; /* cut back, and the line is written again */
            json_writer_cut(&writer, mark);
            write_line(&writer);
        }
        assert_int_equal(writer.length, whole.length);
        assert_memory_equal(writer.data, whole.data, whole.length);
    }
    json_writer_release(&writer);
    json_writer_release(&whole);
    return through;
}

static void test_a_line_without_memory_is_cut_and_written_again(void **state)
{
    (void)state;
    assert_true(chaos_loop(write_with_failures, NULL) >= 6);
}

static bool reserve_with_failures(struct chaos *chaos, void *context)
{
    (void)context;
    struct json_writer writer;
    json_writer_init(&writer, &chaos->memory, ROOMY);
    json_writer_u64(&writer, 1);
    bool through = writer.failure == JSON_WRITER_FINE;
    size_t length = writer.length;
    size_t capacity = writer.capacity;
    if (through && json_writer_reserve(&writer, 1000)) {
        through = false;
        assert_int_equal(writer.length, length);
        assert_int_equal(writer.capacity, capacity);
        assert_int_equal(writer.failure, JSON_WRITER_FINE);
    }
    json_writer_release(&writer);
    return through;
}

static void test_a_failed_reservation_changes_nothing(void **state)
{
    (void)state;
    assert_true(chaos_loop(reserve_with_failures, NULL) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commas_come_by_themselves),
        cmocka_unit_test(test_integers_are_written_to_the_last_digit),
        cmocka_unit_test(test_strings_are_escaped_where_they_must),
        cmocka_unit_test(test_every_ascii_string_reads_back),
        cmocka_unit_test(test_doubles_are_short_and_have_a_point_or_exponent),
        cmocka_unit_test(test_any_double_reads_back_as_itself),
        cmocka_unit_test(test_a_locale_with_a_decimal_comma_changes_nothing),
        cmocka_unit_test(test_the_buffer_never_passes_its_limit),
        cmocka_unit_test(test_after_a_failure_nothing_more_is_written),
        cmocka_unit_test(test_a_cut_forgets_the_failure_and_what_came_after),
        cmocka_unit_test(test_after_a_cut_commas_are_right),
        cmocka_unit_test(test_what_was_reserved_cannot_fail),
        cmocka_unit_test(test_no_more_than_the_limit_can_be_reserved),
        cmocka_unit_test(test_a_line_without_memory_is_cut_and_written_again),
        cmocka_unit_test(test_a_failed_reservation_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
