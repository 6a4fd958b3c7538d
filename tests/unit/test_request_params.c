/* Which parameters are right, and which one an error names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/request_checks.h"

/* `values`, put into a request for `method` one by one, are wrong for `param`. `before` comes
 * first. */
static void wrong_values(const char *method, const char *before, const char *param,
                         const char *const *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char line[16384];
        snprintf(line, sizeof(line), "{\"id\":1,\"method\":\"%s\",\"params\":{%s\"%s\":%s}}",
                 method, before, param, values[i]);
        refused(line, ERROR_INVALID_PARAMS, "1", "param", param);
    }
}

#define WRONG(method, before, param, ...)                                                          \
    wrong_values(method, before, param, (const char *const[]){__VA_ARGS__},                        \
                 COUNT(((const char *const[]){__VA_ARGS__})))

static void test_params_must_be_an_object(void **state)
{
    (void)state;
    static const char *const params[] = {"[]", "[4096]", "\"x\"", "5", "true", "null"};
    for (size_t i = 0; i < COUNT(params); i++) {
        char line[256];
        snprintf(line, sizeof(line), "{\"id\":1,\"method\":\"allocate\",\"params\":%s}", params[i]);
        refused(line, ERROR_INVALID_PARAMS, "1", "param", "params");
    }
}

static void test_an_unknown_parameter_is_named_for_every_method(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"bogus", "bogus"},
                                           {"", ""},
                                           {"Requested_Bytes", "Requested_Bytes"},
                                           {"al\\u00e9 \\\"\\\\", "al\xc3\xa9 \"\\"}};
    for (unsigned method = 0; method < METHODS; method++)
        for (size_t i = 0; i < COUNT(names); i++) {
            char line[256];
            snprintf(line, sizeof(line), "{\"id\":1,\"method\":\"%s\",\"params\":{\"%s\":1}}",
                     method_info((enum method)method)->name, names[i][0]);
            refused(line, ERROR_INVALID_PARAMS, "1", "param", names[i][1]);
        }
}

static void test_a_parameter_of_another_method_is_unknown(void **state)
{
    (void)state;
    refused("{\"id\":1,\"method\":\"snapshot\",\"params\":{\"tag\":\"x\"}}", ERROR_INVALID_PARAMS,
            "1", "param", "tag");
    refused("{\"id\":1,\"method\":\"info\",\"params\":{\"allocator\":\"x\"}}", ERROR_INVALID_PARAMS,
            "1", "param", "allocator");
}

static void test_names_are_judged_before_values_and_these_before_what_is_missing(void **state)
{
    (void)state;
    refused("{\"id\":1,\"method\":\"allocate\",\"params\":{\"stream\":-1,\"bogus\":1}}",
            ERROR_INVALID_PARAMS, "1", "param", "bogus");
    refused("{\"id\":1,\"method\":\"allocate\",\"params\":{\"stream\":-1}}", ERROR_INVALID_PARAMS,
            "1", "param", "stream");
}

static void test_what_is_missing_is_named(void **state)
{
    (void)state;
    refused("{\"id\":1,\"method\":\"allocate\"}", ERROR_INVALID_PARAMS, "1", "param",
            "requested_bytes");
    refused("{\"id\":1,\"method\":\"allocate\",\"params\":{}}", ERROR_INVALID_PARAMS, "1", "param",
            "requested_bytes");
    refused("{\"id\":1,\"method\":\"open\",\"params\":{\"seed\":1}}", ERROR_INVALID_PARAMS, "1",
            "param", "name");
}

static void test_an_integer_must_be_written_as_one(void **state)
{
    (void)state;
    WRONG("allocate", "", "requested_bytes", "4096.0", "1e3", "1E3", "1e0", "10e-1", "\"4096\"",
          "true", "false", "null", "[]", "[1]", "{}", "\"\"", "0.5");
    WRONG("allocate", "\"requested_bytes\":1,", "stream", "0.0", "\"0\"", "null");
}

static void test_an_integer_must_be_in_its_range(void **state)
{
    (void)state;
    WRONG("allocate", "", "requested_bytes", "0", "-0", "-1", "9007199254740992",
          "9223372036854775808", "18446744073709551616", "18446744073709551617",
          "1000000000000000000000000000000", "-9007199254740991");
    WRONG("open", "\"name\":\"x\",", "trace_limit", "1000001", "-1");
    WRONG("trace", "", "limit", "0", "1001");
    WRONG("trace", "", "after", "-1", "18446744073709551616");
    struct decoded decoded;
    accepted(&decoded, "{\"id\":1,\"method\":\"list\",\"params\":{\"after\":18446744073709551615,"
                       "\"limit\":1000}}");
    assert_int_equal(decoded.request.params.after, UINT64_MAX);
    assert_int_equal(decoded.request.params.limit, 1000);
    done(&decoded);
    accepted(&decoded, "{\"id\":1,\"method\":\"allocate\",\"params\":{\"stream\":-0,"
                       "\"requested_bytes\":9007199254740991}}");
    assert_int_equal(decoded.request.params.requested_bytes, PROTO_MAX_SAFE_INTEGER);
    assert_int_equal(decoded.request.params.stream, 0);
    done(&decoded);
}

static void test_a_probability_is_a_number_from_0_to_1(void **state)
{
    (void)state;
    static const char *const right[] = {"0",   "1",    "0.0",    "1.0", "-0.0",
                                        "0.5", "5e-1", "1E-300", "0.1", "0.30000000000000004"};
    WRONG("open", "\"name\":\"x\",", "gpu_probability", "-0.1", "1.1", "2", "-1", "1.0000001",
          "1e1", "1e400", "\"0.5\"", "true", "false", "null", "[]", "{}");
    for (size_t i = 0; i < COUNT(right); i++) {
        char line[256];
        struct decoded decoded;
        snprintf(
            line, sizeof(line),
            "{\"id\":1,\"method\":\"open\",\"params\":{\"name\":\"x\",\"forget_probability\":%s}}",
            right[i]);
        accepted(&decoded, line);
        assert_true(decoded.request.params.forget_probability == strtod(right[i], NULL));
        done(&decoded);
    }
}

static void test_a_boolean_is_true_or_false(void **state)
{
    (void)state;
    WRONG("open", "\"name\":\"x\",", "fallback_on_oom", "0", "1", "null", "\"true\"", "[]", "1.0");
    struct decoded decoded;
    accepted(&decoded,
             "{\"id\":1,\"method\":\"open\",\"params\":{\"name\":\"x\",\"fallback_on_oom\":"
             "false}}");
    assert_true(request_has(&decoded.request, PARAMETER_fallback_on_oom));
    assert_false(decoded.request.params.fallback_on_oom);
    done(&decoded);
}

static void test_a_text_is_measured_after_unescaping(void **state)
{
    (void)state;
    WRONG("allocate", "\"requested_bytes\":1,", "tag", "\"\"", "1", "null", "true", "[]", "{}",
          "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"",
          "\"\\u00e9xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"");
    struct decoded decoded;
    accepted(&decoded,
             "{\"id\":1,\"method\":\"free\",\"params\":{\"tag\":"
             "\"\\u00e9xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}}");
    assert_int_equal(decoded.request.params.tag.length, 64);
    done(&decoded);
    accepted(&decoded, "{\"id\":1,\"method\":\"free\",\"params\":{\"handle\":\"\"}}");
    assert_int_equal(decoded.request.params.handle.length, 0);
    done(&decoded);
}

static void test_a_name_is_of_few_characters(void **state)
{
    (void)state;
    static const char *const right[] = {"a", "Z", "0", "gpu0", "a.b_c-d", "9--"};
    WRONG("open", "", "name", "\"\"", "\".a\"", "\"-\"", "\"_\"", "\"a b\"", "\"a/b\"",
          "\"\\u00e9\"", "\"a\\n\"", "1", "null", "true", "[]", "{}",
          "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"");
    for (size_t i = 0; i < COUNT(right); i++) {
        char line[256];
        struct decoded decoded;
        snprintf(line, sizeof(line),
                 "{\"id\":1,\"method\":\"close\",\"params\":{\"allocator\":\"%s\"}}", right[i]);
        accepted(&decoded, line);
        assert_int_equal(decoded.request.params.allocator.length, strlen(right[i]));
        done(&decoded);
    }
}

/* Opens with this seed and hands over what was read. */
static void accept_seed(const char *seed, bool given, bool is_string, const char *decimal)
{
    char line[8192];
    struct decoded decoded;
    snprintf(line, sizeof(line),
             "{\"id\":1,\"method\":\"open\",\"params\":{\"name\":\"s\",\"seed\":%s}}", seed);
    accepted(&decoded, line);
    assert_true(request_has(&decoded.request, PARAMETER_seed));
    assert_int_equal(decoded.request.params.seed.given, given);
    if (given) {
        assert_int_equal(decoded.request.params.seed.is_string, is_string);
        assert_int_equal(decoded.request.params.seed.decimal.length, strlen(decimal));
        assert_memory_equal(decoded.request.params.seed.decimal.bytes, decimal, strlen(decimal));
    }
    done(&decoded);
}

static void test_a_seed_is_kept_as_it_was_written(void **state)
{
    (void)state;
    char nines[4304] = "\"-";
    memset(nines + 2, '9', 4300);
    nines[4302] = '"';
    accept_seed("7", true, false, "7");
    accept_seed("-9007199254740991", true, false, "-9007199254740991");
    accept_seed("\"007\"", true, true, "007");
    accept_seed("\"-18446744073709551616\"", true, true, "-18446744073709551616");
    accept_seed("null", false, false, NULL);
    char decimal[4302];
    memcpy(decimal, nines + 1, 4301);
    decimal[4301] = '\0';
    accept_seed(nines, true, true, decimal);
}

static void test_a_seed_is_a_decimal_integer(void **state)
{
    (void)state;
    char long_seed[4304] = "\"";
    memset(long_seed + 1, '1', 4301);
    long_seed[4302] = '"';
    WRONG("open", "\"name\":\"s\",", "seed", "1.5", "1.0", "1e3", "true", "9007199254740992",
          "-9007199254740992", "[]", "{}", "\"\"", "\"abc\"", "\"1.5\"", "\"0x10\"", "\"-\"",
          "\"7a\"", "\"--7\"", "\"+7\"", "\" 7\"", "\"\xd9\xa3\"", long_seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params_must_be_an_object),
        cmocka_unit_test(test_an_unknown_parameter_is_named_for_every_method),
        cmocka_unit_test(test_a_parameter_of_another_method_is_unknown),
        cmocka_unit_test(test_names_are_judged_before_values_and_these_before_what_is_missing),
        cmocka_unit_test(test_what_is_missing_is_named),
        cmocka_unit_test(test_an_integer_must_be_written_as_one),
        cmocka_unit_test(test_an_integer_must_be_in_its_range),
        cmocka_unit_test(test_a_probability_is_a_number_from_0_to_1),
        cmocka_unit_test(test_a_boolean_is_true_or_false),
        cmocka_unit_test(test_a_text_is_measured_after_unescaping),
        cmocka_unit_test(test_a_name_is_of_few_characters),
        cmocka_unit_test(test_a_seed_is_kept_as_it_was_written),
        cmocka_unit_test(test_a_seed_is_a_decimal_integer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
