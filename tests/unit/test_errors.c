/* The table of errors: codes and kinds belong to each other and are told apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "proto/errors.h"

static void test_every_kind_is_found_by_its_name(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < ERROR_KINDS; kind++)
        assert_int_equal(error_kind_from_name(error_kind_name((enum error_kind)kind)), kind);
}

static void test_no_two_kinds_share_a_code(void **state)
{
    (void)state;
    for (unsigned a = 0; a < ERROR_KINDS; a++)
        for (unsigned b = 0; b < a; b++)
            assert_int_not_equal(error_code((enum error_kind)a), error_code((enum error_kind)b));
}

static void test_a_name_that_is_none_has_no_kind(void **state)
{
    (void)state;
    assert_int_equal(error_kind_from_name(""), ERROR_KINDS);
    assert_int_equal(error_kind_from_name("parse_erro"), ERROR_KINDS);
    assert_int_equal(error_kind_from_name("Parse_error"), ERROR_KINDS);
    assert_int_equal(error_kind_from_name("parse_error "), ERROR_KINDS);
}

static void test_the_codes_are_those_of_the_contract(void **state)
{
    (void)state;
    static const struct {
        enum error_kind kind;
        int code;
        const char *name;
    } contract[] = {{ERROR_PARSE_ERROR, -32700, "parse_error"},
                    {ERROR_INVALID_REQUEST, -32600, "invalid_request"},
                    {ERROR_METHOD_NOT_FOUND, -32601, "method_not_found"},
                    {ERROR_INVALID_PARAMS, -32602, "invalid_params"},
                    {ERROR_INTERNAL_ERROR, -32603, "internal_error"},
                    {ERROR_OUT_OF_MEMORY, 1, "out_of_memory"},
                    {ERROR_UNKNOWN_HANDLE, 2, "unknown_handle"},
                    {ERROR_FOREIGN_HANDLE, 3, "foreign_handle"},
                    {ERROR_PERMISSION_DENIED, 4, "permission_denied"},
                    {ERROR_QUOTA_EXCEEDED, 5, "quota_exceeded"},
                    {ERROR_LIMIT_EXCEEDED, 6, "limit_exceeded"},
                    {ERROR_UNKNOWN_ALLOCATOR, 7, "unknown_allocator"},
                    {ERROR_INVARIANT_VIOLATION, 8, "invariant_violation"},
                    {ERROR_SHUTTING_DOWN, 9, "shutting_down"},
                    {ERROR_NAME_IN_USE, 10, "name_in_use"}};
    assert_int_equal(sizeof(contract) / sizeof(contract[0]), ERROR_KINDS);
    for (size_t i = 0; i < ERROR_KINDS; i++) {
        assert_int_equal(error_code(contract[i].kind), contract[i].code);
        assert_string_equal(error_kind_name(contract[i].kind), contract[i].name);
    }
}

static void test_every_kind_says_when_it_comes(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < ERROR_KINDS; kind++)
        assert_true(strlen(error_when((enum error_kind)kind)) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_is_found_by_its_name),
        cmocka_unit_test(test_no_two_kinds_share_a_code),
        cmocka_unit_test(test_a_name_that_is_none_has_no_kind),
        cmocka_unit_test(test_the_codes_are_those_of_the_contract),
        cmocka_unit_test(test_every_kind_says_when_it_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
