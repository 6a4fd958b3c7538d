/* The table of methods and parameters as C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "proto/methods.h"

static void test_every_method_is_found_by_its_name(void **state)
{
    (void)state;
    for (unsigned i = 0; i < METHODS; i++) {
        const char *name = method_info((enum method)i)->name;
        assert_int_equal(method_from_name(name, strlen(name)), i);
    }
}

static void test_every_parameter_is_found_by_its_name(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PARAMETERS; i++) {
        const char *name = parameter_info((enum parameter)i)->name;
        assert_int_equal(parameter_from_name(name, strlen(name)), i);
    }
}

static void test_the_methods_are_those_of_the_contract(void **state)
{
    (void)state;
    static const char *const contract[] = {
        "info",          "metrics", "hello",       "open",        "close",     "allocate",
        "record_stream", "free",    "event_done",  "empty_cache", "snapshot",  "statistics",
        "map",           "trace",   "trace_clear", "validate",    "list",      "resize",
        "clients",       "inject",  "rules",       "rules_clear", "subscribe", "unsubscribe"};
    assert_int_equal(sizeof(contract) / sizeof(contract[0]), METHODS);
    for (unsigned i = 0; i < METHODS; i++)
        assert_string_equal(method_info((enum method)i)->name, contract[i]);
}

static void test_a_name_cut_short_or_drawn_out_is_unknown(void **state)
{
    (void)state;
    char name[64];
    for (unsigned i = 0; i < METHODS; i++) {
        size_t length = strlen(method_info((enum method)i)->name);
        memcpy(name, method_info((enum method)i)->name, length);
        name[length] = 'x';
        assert_int_equal(method_from_name(name, length - 1), METHODS);
        assert_int_equal(method_from_name(name, length + 1), METHODS);
    }
    for (unsigned i = 0; i < PARAMETERS; i++) {
        size_t length = strlen(parameter_info((enum parameter)i)->name);
        memcpy(name, parameter_info((enum parameter)i)->name, length);
        name[length] = 'x';
        assert_int_equal(parameter_from_name(name, length - 1), PARAMETERS);
        assert_int_equal(parameter_from_name(name, length + 1), PARAMETERS);
    }
}

static void test_a_name_of_a_wrapping_length_is_unknown(void **state)
{
    (void)state;
    char name[512] = "info";
    assert_int_equal(method_from_name(name, 0), METHODS);
    assert_int_equal(method_from_name(name, 256 + 4), METHODS);
    memcpy(name, "tag", 4);
    assert_int_equal(parameter_from_name(name, 0), PARAMETERS);
    assert_int_equal(parameter_from_name(name, 256 + 3), PARAMETERS);
}

static void test_names_are_case_sensitive(void **state)
{
    (void)state;
    assert_int_equal(method_from_name("Info", 4), METHODS);
    assert_int_equal(method_from_name("infO", 4), METHODS);
    assert_int_equal(parameter_from_name("Tag", 3), PARAMETERS);
    assert_int_equal(parameter_from_name("taG", 3), PARAMETERS);
}

static void test_the_shown_parameters_are_those_that_are_taken(void **state)
{
    (void)state;
    for (unsigned i = 0; i < METHODS; i++) {
        uint64_t shown = 0;
        size_t count = 0;
        enum parameter parameter;
        while ((parameter = method_parameter((enum method)i, count)) != PARAMETERS) {
            assert_int_equal(shown >> parameter & 1, 0);
            shown |= UINT64_C(1) << parameter;
            count++;
        }
        assert_int_equal(shown, method_info((enum method)i)->takes);
        assert_int_equal(method_parameter((enum method)i, count + 1), PARAMETERS);
    }
}

static void test_what_is_required_is_taken(void **state)
{
    (void)state;
    for (unsigned i = 0; i < METHODS; i++)
        assert_int_equal(
            method_info((enum method)i)->required & ~method_info((enum method)i)->takes, 0);
    assert_int_equal(method_info(METHOD_allocate)->required, UINT32_C(1)
                                                                 << PARAMETER_requested_bytes);
    assert_int_equal(method_info(METHOD_open)->required, UINT64_C(1) << PARAMETER_name);
    assert_int_equal(method_info(METHOD_free)->required, 0);
    assert_int_equal(method_info(METHOD_info)->takes, 0);
}

static void test_every_row_has_its_texts(void **state)
{
    (void)state;
    for (unsigned i = 0; i < METHODS; i++) {
        assert_true(strlen(method_info((enum method)i)->summary) > 0);
        assert_true(strlen(method_info((enum method)i)->result) > 0);
    }
    for (unsigned i = 0; i < PARAMETERS; i++) {
        const struct parameter_info *info = parameter_info((enum parameter)i);
        assert_true(strlen(info->meaning) > 0);
        assert_non_null(info->default_text);
        assert_true(info->minimum <= info->maximum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_method_is_found_by_its_name),
        cmocka_unit_test(test_every_parameter_is_found_by_its_name),
        cmocka_unit_test(test_the_methods_are_those_of_the_contract),
        cmocka_unit_test(test_a_name_cut_short_or_drawn_out_is_unknown),
        cmocka_unit_test(test_a_name_of_a_wrapping_length_is_unknown),
        cmocka_unit_test(test_names_are_case_sensitive),
        cmocka_unit_test(test_the_shown_parameters_are_those_that_are_taken),
        cmocka_unit_test(test_what_is_required_is_taken),
        cmocka_unit_test(test_every_row_has_its_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
