/* Handles as text: one form only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/worsegpu.h"

#define HEX "00112233445566778899aabbccddeeff"

static bool reads(const char *text, struct worsegpu_handle *handle)
{
    return worsegpu_handle_from_text(text, strlen(text), handle);
}

static void test_a_handle_reads_back_as_it_was_written(void **state)
{
    (void)state;
    const uint64_t ids[] = {0, 1, 9, 10, 4294967296, UINT64_MAX};
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct worsegpu_handle handle = {.allocation_id = ids[i]};
        for (size_t j = 0; j < sizeof(handle.secret); j++)
            handle.secret[j] = (uint8_t)(0xf0 + j * 7);
        char text[WORSEGPU_HANDLE_TEXT_SIZE];
        size_t length = worsegpu_handle_to_text(&handle, text);
        assert_int_equal(length, strlen(text));
        struct worsegpu_handle again;
        assert_true(reads(text, &again));
        assert_int_equal(again.allocation_id, ids[i]);
        assert_memory_equal(again.secret, handle.secret, sizeof(handle.secret));
    }
}

static void test_the_form_is_exact(void **state)
{
    (void)state;
    struct worsegpu_handle handle;
    char text[WORSEGPU_HANDLE_TEXT_SIZE];
    assert_true(reads("17-" HEX, &handle));
    worsegpu_handle_to_text(&handle, text);
    assert_string_equal(text, "17-" HEX);
    assert_true(reads("18446744073709551615-" HEX, &handle));
    worsegpu_handle_to_text(&handle, text);
    assert_int_equal(strlen(text), WORSEGPU_HANDLE_TEXT_SIZE - 1);
}

static void test_any_other_form_is_no_handle(void **state)
{
    (void)state;
    const char *const wrong[] = {
        "",
        "-",
        "1",
        "1-",
        "-" HEX,
        "1" HEX,
        " 1-" HEX,
        "+1-" HEX,
        "-1-" HEX,
        "01-" HEX,
        "00-" HEX,
        "1-" HEX "0",
        "1-" HEX " ",
        "1-0112233445566778899aabbccddeeff",
        "1-00112233445566778899AABBCCDDEEFF",
        "1-00112233445566778899aabbccddeefg",
        "1-:0112233445566778899aabbccddeeff",
        "1-/0112233445566778899aabbccddeeff",
        "1-`0112233445566778899aabbccddeeff",
        "1_" HEX,
        "1--" HEX,
        "0x1-" HEX,
        "1.0-" HEX,
        "18446744073709551616-" HEX,
        "99999999999999999999999-" HEX,
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct worsegpu_handle handle;
        memset(&handle, 0x5a, sizeof(handle));
        struct worsegpu_handle before = handle;
        assert_false(reads(wrong[i], &handle));
        assert_memory_equal(&handle, &before, sizeof(handle));
    }
}

static void test_no_part_of_a_handle_is_one(void **state)
{
    (void)state;
    const char *text = "123-" HEX;
    size_t length = strlen(text);
    struct worsegpu_handle handle;
    for (size_t part = 0; part < length; part++)
        assert_false(worsegpu_handle_from_text(text, part, &handle));
    assert_true(worsegpu_handle_from_text(text, length, &handle));
}

static void test_a_nul_inside_is_no_handle(void **state)
{
    (void)state;
    char text[] = "1-" HEX;
    text[10] = '\0';
    struct worsegpu_handle handle;
    assert_false(worsegpu_handle_from_text(text, sizeof(text) - 1, &handle));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_handle_reads_back_as_it_was_written),
        cmocka_unit_test(test_the_form_is_exact),
        cmocka_unit_test(test_any_other_form_is_no_handle),
        cmocka_unit_test(test_no_part_of_a_handle_is_one),
        cmocka_unit_test(test_a_nul_inside_is_no_handle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
