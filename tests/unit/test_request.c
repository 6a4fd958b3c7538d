/* What a line is, and what is said of it when it is no request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/chaos.h"
#include "tests/unit/request_checks.h"

static void test_a_plain_request_is_read(void **state)
{
    (void)state;
    struct decoded decoded;
    accepted(&decoded, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"allocate\",\"params\":"
                       "{\"requested_bytes\":4096,\"tag\":\"t\",\"detached\":true}}");
    assert_id(&decoded, "1");
    assert_false(decoded.request.notification);
    assert_int_equal(decoded.request.method, METHOD_allocate);
    assert_int_equal(decoded.request.given, UINT64_C(1) << PARAMETER_requested_bytes |
                                                UINT64_C(1) << PARAMETER_tag |
                                                UINT64_C(1) << PARAMETER_detached);
    assert_true(request_has(&decoded.request, PARAMETER_tag));
    assert_false(request_has(&decoded.request, PARAMETER_stream));
    assert_int_equal(decoded.request.params.requested_bytes, 4096);
    assert_int_equal(decoded.request.params.tag.length, 1);
    assert_int_equal(decoded.request.params.tag.bytes[0], 't');
    assert_true(decoded.request.params.detached);
    done(&decoded);
}

static void test_escapes_blanks_and_order_do_not_matter(void **state)
{
    (void)state;
    struct decoded decoded;
    accepted(&decoded,
             " {\t\"p\\u0061rams\" : { \"t\\u0061g\" : \"\\u00e9\\n\" , "
             "\"requested_bytes\":1} , \"method\" : \"alloc\\u0061te\" ,\r\"id\" : \"\\u0041\" } ");
    assert_id(&decoded, "\"A\"");
    assert_int_equal(decoded.request.method, METHOD_allocate);
    assert_int_equal(decoded.request.params.tag.length, 3);
    assert_memory_equal(decoded.request.params.tag.bytes, "\xc3\xa9\n", 3);
    done(&decoded);
}

static void test_lines_of_blanks_are_empty(void **state)
{
    (void)state;
    static const char *const lines[] = {"", " ", "\t", " \t \t"};
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct decoded decoded;
        decode(&decoded, lines[i]);
        assert_int_equal(decoded.result, REQUEST_EMPTY);
        done(&decoded);
    }
}

static void test_what_is_not_strict_json_is_a_parse_error(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "x",
        "{",
        "\r",
        "{\"id\":1,\"method\":\"snapshot\"}}",
        "{\"id\":01,\"method\":\"snapshot\"}",
        "{\"id\":1,\"id\":1,\"method\":\"snapshot\"}",
        "{\"id\":1,\"method\":\"snapshot\",}",
        "{\"id\":1,\"method\":\"snapshot\",\"me\\u0074hod\":\"info\"}",
        "{\"method\":\"snapshot\",\"x\":\"\xff\"}"};
    for (size_t i = 0; i < COUNT(lines); i++)
        refused(lines[i], ERROR_PARSE_ERROR, "null", NULL, NULL);
}

static void test_what_is_no_object_is_an_invalid_request(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "[]",   "1",     "-1.5e3", "null",
        "true", "false", "\"x\"",  "[{\"id\":1,\"method\":\"snapshot\"}]"};
    for (size_t i = 0; i < COUNT(lines); i++)
        refused(lines[i], ERROR_INVALID_REQUEST, "null", NULL, NULL);
}

static void test_an_id_is_echoed_by_value(void **state)
{
    (void)state;
    static const char *const plain[] = {"0",
                                        "1",
                                        "-1",
                                        "-42",
                                        "9007199254740991",
                                        "-9007199254740991",
                                        "\"\"",
                                        "\"1\"",
                                        "\"a b\"",
                                        "\"\\\"\\\\\\b\\f\\n\\r\\t\"",
                                        "\"\xc3\xa9\"",
                                        "\"\\u0001\"",
                                        SIXTY_FOUR};
    for (size_t i = 0; i < COUNT(plain); i++) {
        char line[256];
        struct decoded decoded;
        snprintf(line, sizeof(line), "{\"id\":%s,\"method\":\"snapshot\"}", plain[i]);
        accepted(&decoded, line);
        assert_id(&decoded, plain[i]);
        done(&decoded);
        snprintf(line, sizeof(line), "{\"id\":%s,\"method\":\"nonsense\"}", plain[i]);
        refused(line, ERROR_METHOD_NOT_FOUND, plain[i], "method", "nonsense");
    }
}

static void test_a_string_id_is_measured_after_unescaping(void **state)
{
    (void)state;
    char line[1024];
    struct decoded decoded;
    int used = snprintf(line, sizeof(line), "{\"method\":\"snapshot\",\"id\":\"");
    for (int i = 0; i < 32; i++)
        used += snprintf(line + used, sizeof(line) - (size_t)used, "\\u00e9");
    snprintf(line + used, sizeof(line) - (size_t)used, "\"}");
    accepted(&decoded, line);
    assert_int_equal(decoded.request.id.length, 64);
    done(&decoded);
}

static void test_a_bad_id_is_an_invalid_request_without_one(void **state)
{
    (void)state;
    static const char *const ids[] = {
        "null",
        "1.5",
        "-0.5",
        "1.0",
        "1e3",
        "-0",
        "9007199254740992",
        "-9007199254740992",
        "1000000000000000000000000000000",
        "true",
        "false",
        "{}",
        "[]",
        "[1]",
        "{\"a\":1}",
        "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"",
        "\"\xc3\xa9xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\""};
    for (size_t i = 0; i < COUNT(ids); i++) {
        char line[256];
        snprintf(line, sizeof(line), "{\"id\":%s,\"method\":\"snapshot\"}", ids[i]);
        refused(line, ERROR_INVALID_REQUEST, "null", NULL, NULL);
        snprintf(line, sizeof(line), "{\"id\":%s}", ids[i]);
        refused(line, ERROR_INVALID_REQUEST, "null", NULL, NULL);
    }
}

static void test_what_is_no_request_is_answered_under_its_id(void **state)
{
    (void)state;
    static const char *const rests[] = {"",
                                        ",\"method\":1",
                                        ",\"method\":null",
                                        ",\"method\":[\"snapshot\"]",
                                        ",\"params\":{}",
                                        ",\"method\":\"snapshot\",\"extra\":1",
                                        ",\"method\":\"snapshot\",\"Params\":{}",
                                        ",\"method\":\"snapshot\",\"\":{}",
                                        ",\"method\":\"snapshot\",\"jsonrpc\":2.0",
                                        ",\"method\":\"snapshot\",\"jsonrpc\":\"1.0\"",
                                        ",\"method\":\"snapshot\",\"jsonrpc\":null",
                                        ",\"method\":\"snapshot\",\"jsonrpc\":\"\""};
    for (size_t i = 0; i < COUNT(rests); i++) {
        char line[256];
        snprintf(line, sizeof(line), "{\"id\":\"me\"%s}", rests[i]);
        refused(line, ERROR_INVALID_REQUEST, "\"me\"", NULL, NULL);
    }
}

static void test_a_line_without_id_and_method_is_answered_with_null(void **state)
{
    (void)state;
    refused("{}", ERROR_INVALID_REQUEST, "null", NULL, NULL);
    refused("{\"method\":1}", ERROR_INVALID_REQUEST, "null", NULL, NULL);
    refused("{\"x\":1}", ERROR_INVALID_REQUEST, "null", NULL, NULL);
}

static void test_a_method_without_id_is_a_notification_whatever_is_wrong(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "{\"method\":\"nonsense\"}",
        "{\"method\":\"allocate\"}",
        "{\"method\":\"\",\"extra\":1}",
        "{\"method\":\"snapshot\",\"jsonrpc\":1}",
        "{\"method\":\"snapshot\",\"params\":[]}",
        "{\"method\":\"allocate\",\"params\":{\"requested_bytes\":0}}",
        "{\"method\":\"snapshot\",\"extra\":1}"};
    static const char *const right[] = {
        "{\"method\":\"snapshot\"}", "{\"method\":\"snapsh\\u006ft\"}",
        "{\"method\":\"allocate\",\"params\":{\"requested_bytes\":1}}"};
    struct decoded decoded;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        decode(&decoded, wrong[i]);
        assert_int_equal(decoded.result, REQUEST_REFUSED);
        assert_true(decoded.request.notification);
        done(&decoded);
    }
    for (size_t i = 0; i < COUNT(right); i++) {
        accepted(&decoded, right[i]);
        assert_true(decoded.request.notification);
        done(&decoded);
    }
}

static void test_an_unknown_method_is_named(void **state)
{
    (void)state;
    refused("{\"id\":1,\"method\":\"nonsense\"}", ERROR_METHOD_NOT_FOUND, "1", "method",
            "nonsense");
    refused("{\"id\":1,\"method\":\"\"}", ERROR_METHOD_NOT_FOUND, "1", "method", "");
    refused("{\"id\":1,\"method\":\"Snapshot\"}", ERROR_METHOD_NOT_FOUND, "1", "method",
            "Snapshot");
    refused("{\"id\":1,\"method\":\"\\u00e9\\n\",\"params\":[]}", ERROR_METHOD_NOT_FOUND, "1",
            "method", "\xc3\xa9\n");
}

/* An unknown method of `before` and 300 euro signs is echoed as `before` and `whole` of these. */
static void long_name(const char *before, int whole)
{
    char line[2048];
    char data[512];
    int used = snprintf(line, sizeof(line), "{\"id\":1,\"method\":\"%s", before);
    for (int i = 0; i < 300; i++)
        used += snprintf(line + used, sizeof(line) - (size_t)used, "\xe2\x82\xac");
    snprintf(line + used, sizeof(line) - (size_t)used, "\"}");
    used = snprintf(data, sizeof(data), "%s", before);
    for (int i = 0; i < whole; i++)
        used += snprintf(data + used, sizeof(data) - (size_t)used, "\xe2\x82\xac");
    refused(line, ERROR_METHOD_NOT_FOUND, "1", "method", data);
}

static void test_a_long_name_is_cut_between_characters(void **state)
{
    (void)state;
    long_name("x", 85); /* exactly PROTO_MAX_ECHO_BYTES */
    long_name("xy", 84);
    long_name("", 85);
}

static void test_a_message_says_what_would_be_right(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *message;
    } cases[] = {{"{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":4096.0}}",
                  "requested_bytes must be an integer from 1 to 9007199254740991, not 4096.0"},
                 {"{\"id\":1,\"method\":\"allocate\"}", "allocate needs requested_bytes"},
                 {"{\"id\":1,\"method\":\"free\",\"params\":{\"Tag\":1}}",
                  "free takes no parameter \"Tag\"; it takes handle, tag, stream, allocator"},
                 {"{\"id\":1,\"method\":\"info\",\"params\":{\"x\\n\":1}}",
                  "info takes no parameters, so not \"x\\u000a\""},
                 {"{\"id\":1,\"method\":\"snapshot\",\"params\":[]}",
                  "params must be an object, not an array"},
                 {"[]", "a request must be an object, not an array (there are no batches)"},
                 {"{\"id\":1,\"method\":\"snapshot\"",
                  "not strict JSON: a comma or } is missing at byte 27"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct decoded decoded;
        decode(&decoded, cases[i].line);
        assert_int_equal(decoded.result, REQUEST_REFUSED);
        assert_string_equal(decoded.problem.message, cases[i].message);
        done(&decoded);
    }
}

static void test_a_decoder_is_used_again_after_any_line(void **state)
{
    (void)state;
    static const char *const lines[] = {"{\"id\":\"\\u0041\",\"method\":\"snapshot\"}", "{", "[]",
                                        " ", "{\"id\":1,\"method\":\"nonsense\"}"};
    struct request_decoder decoder;
    struct request request;
    struct request_problem problem;
    request_decoder_init(&decoder, memory_system());
    for (int i = 0; i < 50; i++) {
        const char *line = lines[i % (int)COUNT(lines)];
        enum request_result result =
            request_decode(&decoder, line, strlen(line), &request, &problem);
        assert_int_equal(result == REQUEST_FINE, i % (int)COUNT(lines) == 0);
        assert_int_equal(request.id.kind, i % 5 == 0   ? REQUEST_ID_STRING
                                          : i % 5 == 4 ? REQUEST_ID_INTEGER
                                                       : REQUEST_ID_NONE);
    }
    request_decoder_release(&decoder);
}

static void test_a_short_line_takes_no_memory(void **state)
{
    (void)state;
    static const char line[] =
        "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":1}}";
    struct chaos chaos;
    struct request_decoder decoder;
    struct request request;
    struct request_problem problem;
    chaos_init(&chaos);
    chaos_hook_cjson(&chaos);
    chaos_arm(&chaos, 1, true);
    request_decoder_init(&decoder, &chaos.memory);
    assert_int_equal(request_decode(&decoder, line, sizeof(line) - 1, &request, &problem),
                     REQUEST_FINE);
    assert_int_equal(chaos.requests, 0);
    request_decoder_release(&decoder);
    chaos_hook_cjson(NULL);
}

struct chaotic_line {
    const char *line;
    enum request_result result;
    const char *id; /* as JSON */
    bool notification;
};

static bool decode_with_failures(struct chaos *chaos, void *context)
{
    const struct chaotic_line *expected = context;
    struct decoded decoded;
    chaos_hook_cjson(chaos);
    request_decoder_init(&decoded.decoder, &chaos->memory);
    bool through = true;
    for (int round = 0; round < 3; round++) {
        decoded.result = request_decode(&decoded.decoder, expected->line, strlen(expected->line),
                                        &decoded.request, &decoded.problem);
        if (decoded.result == REQUEST_NO_MEMORY) {
            assert_true(chaos->failed);
            through = false;
            chaos->fail_at = 0;
        } else {
            assert_int_equal(decoded.result, expected->result);
        }
        /* The workspace of the strict check is there after the first round: then the id is always
         * found. */
        if (decoded.result != REQUEST_NO_MEMORY || round > 0) {
            assert_id(&decoded, expected->id);
            assert_int_equal(decoded.request.notification, expected->notification);
        }
    }
    request_decoder_release(&decoded.decoder);
    chaos_hook_cjson(NULL);
    return through;
}

static void test_without_memory_nothing_is_lost_and_the_id_is_found(void **state)
{
    (void)state;
    static const struct chaotic_line lines[] = {
        {"{\"params\":{\"requested_bytes\":1,\"tag\":\"\\u00e9}],\\\"\\\\\"},\"id\":17,\"method\":"
         "\"allocate\"}",
         REQUEST_FINE, "17", false},
        {"{\"x\":[1,[2,{\"id\":3}],\"}\"], \"\\u0069d\" : \"\\u00e9\\n\" ,\"method\":\"allocate\"}",
         REQUEST_REFUSED, "\"\xc3\xa9\\n\"", false},
        {" { \"method\" : \"nonsense\" } ", REQUEST_REFUSED, "null", true},
        {"{\"id\":-0,\"method\":\"snapshot\"}", REQUEST_REFUSED, "null", false},
        {"{\"id\":1.5,\"method\":\"snapshot\"}", REQUEST_REFUSED, "null", false},
        {"{\"id\":\"0123456789012345678901234567890123456789012345678901234567890123x\"}",
         REQUEST_REFUSED, "null", false},
        {"{\"id\":-9007199254740991 }", REQUEST_REFUSED, "-9007199254740991", false},
        {"{\"id\":7,\"method\":\"open\",\"params\":{\"name\":\"a\",\"gpu_probability\":0.5}}",
         REQUEST_FINE, "7", false},
        {"[{\"id\":1}]", REQUEST_REFUSED, "null", false},
        {" 7 ", REQUEST_REFUSED, "null", false},
        {"{ }", REQUEST_REFUSED, "null", false}};
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct chaotic_line line = lines[i];
        assert_true(chaos_loop(decode_with_failures, &line) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plain_request_is_read),
        cmocka_unit_test(test_escapes_blanks_and_order_do_not_matter),
        cmocka_unit_test(test_lines_of_blanks_are_empty),
        cmocka_unit_test(test_what_is_not_strict_json_is_a_parse_error),
        cmocka_unit_test(test_what_is_no_object_is_an_invalid_request),
        cmocka_unit_test(test_an_id_is_echoed_by_value),
        cmocka_unit_test(test_a_string_id_is_measured_after_unescaping),
        cmocka_unit_test(test_a_bad_id_is_an_invalid_request_without_one),
        cmocka_unit_test(test_what_is_no_request_is_answered_under_its_id),
        cmocka_unit_test(test_a_line_without_id_and_method_is_answered_with_null),
        cmocka_unit_test(test_a_method_without_id_is_a_notification_whatever_is_wrong),
        cmocka_unit_test(test_an_unknown_method_is_named),
        cmocka_unit_test(test_a_long_name_is_cut_between_characters),
        cmocka_unit_test(test_a_message_says_what_would_be_right),
        cmocka_unit_test(test_a_decoder_is_used_again_after_any_line),
        cmocka_unit_test(test_a_short_line_takes_no_memory),
        cmocka_unit_test(test_without_memory_nothing_is_lost_and_the_id_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
