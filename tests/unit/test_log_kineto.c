/* Traces of the PyTorch profiler: expected records, each error, cuts, failing memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tests/support/log_reading.h"

static const char trace[] =
    "{\n"
    " \"schemaVersion\": 1,\n"
    " \"deviceProperties\": [{\"id\": 0, \"name\": \"a ] \\\" }\"}],\n"
    " \"traceEvents\": [\n"
    "{\"ph\":\"X\",\"name\":\"kernel\",\"ts\":1,\"args\":{\"x\":nan}},\n"
    "{\"ph\":\"i\",\"name\":\"[memory]\",\"pid\":1,\"ts\":12.5,\"args\":{\"Ev Idx\":9,\"Device "
    "Type\":1,\"Device Id\":0,\"Addr\":4096,\"Bytes\":-512}},\n"
    "{\"ph\":\"i\",\"name\":\"[memory]\",\"pid\":1,\"ts\":10,\"args\":{\"Ev Idx\":1,\"Device "
    "Type\":1,\"Device Id\":0,\"Addr\":4096,\"Bytes\":512}},\n"
    "{\"ph\":\"i\",\"name\":\"[memory]\",\"pid\":1,\"ts\":10.0015,\"args\":{\"Ev Idx\":2,\"Device "
    "Type\":0,\"Device Id\":-1,\"Addr\":77,\"Bytes\":8}},\n"
    "{\"ph\":\"i\",\"name\":\"[memory]\",\"pid\":1,\"ts\":12.5,\"args\":{\"Ev Idx\":3,\"Device "
    "Type\":1,\"Device Id\":1,\"Addr\":8192,\"Bytes\":1024}},\n"
    "{\"ph\":\"i\",\"name\":\"[OutOfMemory]\",\"ts\":1.4e1,\"args\":{\"Device Type\":1,\"Device "
    "Id\":0,\"Bytes\":99}},\n"
    "{\"name\":\"x\",\"args\":{\"said\":\"[memory]\"}}\n"
    "],\n"
    " \"traceName\": \"t\"\n"
    "}\n";

static void test_events_are_put_in_the_order_of_time_and_index(void **state)
{
    assert_log_records("kineto", trace,
                       "allocate 0x1000 512 bytes at 0x1000 place 271\n"
                       "allocate 0x2000 1024 bytes at 0x2000 device 1 time 2 place 513\n"
                       "free 0x1000 own stream time 2 place 148\n"
                       "refused 99 bytes time 4 place 636\n");
    (void)state;
}

static void test_a_bare_array_of_events_is_a_trace_too(void **state)
{
    assert_log_records("kineto",
                       "[{\"ph\":\"i\",\"name\":\"[memory]\",\"pid\":1,\"ts\":10,\"args\":{\"Ev "
                       "Idx\":1,\"Device Type\":1,\"Device Id\":0,\"Addr\":4096,\"Bytes\":512}}]",
                       "allocate 0x1000 512 bytes at 0x1000 place 2\n");
    (void)state;
}

static void test_each_error_has_its_byte(void **state)
{
    assert_log_bad(
        "kineto",
        "{\"traceEvents\":[{\"name\":\"[memory]\",\"ts\":1,\"args\":{\"Device Type\":\"x\"}}]}",
        "byte 17: the \"Device Type\" of this [memory] event is missing or wrong");
    assert_log_bad("kineto",
                   "{\"traceEvents\":[{\"name\":\"[memory]\",\"ts\":\"1\",\"args\":{\"Device "
                   "Type\":1,\"Bytes\":1,\"Addr\":1,\"Device Id\":0}}]}",
                   "byte 17: the \"ts\" of this [memory] event is missing or wrong");
    assert_log_bad("kineto",
                   "{\"traceEvents\":[{\"name\":\"[memory]\",\"ts\":-1,\"args\":{\"Device "
                   "Type\":1,\"Bytes\":1,\"Addr\":1,\"Device Id\":0}}]}",
                   "byte 17: the \"ts\" of this [memory] event is missing or wrong");
    assert_log_bad("kineto",
                   "{\"traceEvents\":[{\"name\":\"[memory]\",\"ts\":1,\"args\":{\"Device "
                   "Type\":1,\"Bytes\":1.5,\"Addr\":1,\"Device Id\":0}}]}",
                   "byte 17: the \"Bytes\" of this [memory] event is missing or wrong");
    assert_log_bad("kineto",
                   "{\"traceEvents\":[{\"name\":\"[memory]\",\"ts\":1,\"args\":{\"Device "
                   "Type\":1,\"Bytes\":1,\"Device Id\":0}}]}",
                   "byte 17: the \"Addr\" of this [memory] event is missing or wrong");
    assert_log_bad("kineto",
                   "{\"traceEvents\":[{\"name\":\"[memory]\",\"ts\":1,\"args\":{\"Device "
                   "Type\":1,\"Bytes\":1,\"Addr\":1,\"Device Id\":-1}}]}",
                   "byte 17: the \"Device Id\" of this [memory] event is missing or wrong");
    assert_log_bad("kineto",
                   "{\"traceEvents\":[{\"name\":\"[memory]\",\"ts\":1,\"args\":{\"Device "
                   "Type\":1,\"Bytes\":1,\"Addr\":1,\"Device Id\":0,\"Ev Idx\":\"7\"}}]}",
                   "byte 17: the \"Ev Idx\" of this [memory] event is missing or wrong");
    assert_log_bad("kineto", "{\"traceEvents\":[{\"name\":\"[memory]\",}]}",
                   "byte 17: the JSON is damaged or cut off: a key is missing (byte 20)");
    assert_log_bad("kineto", "{\"traceEvents\":[{\"name\":\"x\"}]}",
                   "byte 30: up to here, the end, there is no [memory] event of a GPU: the "
                   "profiler writes them with profile_memory=True");
    assert_log_bad("kineto", "{\"traceEvents\":[{\"name\":\"x\"}",
                   "byte 29: the JSON is cut off here");
    assert_log_bad("kineto", "{\"traceEvents\":[{\"name\":\"x\"",
                   "byte 28: the JSON is cut off here");
    assert_log_bad("kineto", "{\"traceEvents\":[{} {}]}",
                   "byte 20: this is no JSON: a comma should stand here");
    assert_log_bad("kineto", "{\"traceEvents\":[{]}",
                   "byte 18: this is no JSON: something else should stand here");
    assert_log_bad("kineto", "{\"traceEvents\":7}",
                   "byte 16: this is no JSON: an array should stand here");
    assert_log_bad("kineto", "{\"schemaVersion\":7}", "byte 19: the trace has no \"traceEvents\"");
    assert_log_bad("kineto", "{\"schemaVersion\" 7}",
                   "byte 18: this is no JSON: a colon should stand here");
    assert_log_bad("kineto", "{schemaVersion:7}",
                   "byte 2: this is no JSON: a name in quotes should stand here");
    assert_log_bad("kineto", "{\"traceEvents\":[],\"traceEvents\":[]}",
                   "byte 33: \"traceEvents\" is there twice");
    assert_log_bad("kineto",
                   "[{\"ph\":\"i\",\"name\":\"[memory]\",\"pid\":1,\"ts\":10,\"args\":{\"Ev "
                   "Idx\":1,\"Device Type\":1,\"Device Id\":0,\"Addr\":4096,\"Bytes\":512}}]x",
                   "byte 121: this is no JSON: the end should stand here");
    assert_log_bad("kineto", "x", "byte 1: this is no JSON: '{' or '[' should stand here");
    assert_log_bad("kineto", "", "byte 1: the JSON is cut off here");
    (void)state;
}

static void test_an_event_longer_than_1_mib_is_refused(void **state)
{
    enum {
        LONG = 1 << 20
    };
    char *text = malloc(LONG + 100);
    assert_non_null(text);
    memcpy(text, "{\"traceEvents\":[\"", 17);
    memset(text + 17, 'x', LONG);
    memcpy(text + 17 + LONG, "\"]}", 4);
    assert_log_bad("kineto", text, "byte 17: the value that begins here is longer than 1 MiB");
    free(text);
    (void)state;
}

static void test_brackets_deeper_than_64_are_refused(void **state)
{
    char text[200] = "{\"traceEvents\":[";
    memset(text + 16, '[', 100);
    assert_log_bad("kineto", text, "byte 81: this is no JSON: something else should stand here");
    (void)state;
}

static void test_a_log_cut_off_anywhere_is_refused_or_shorter(void **state)
{
    assert_log_survives_cuts("kineto", trace, strlen(trace), true);
    (void)state;
}

static void test_reading_survives_failing_memory(void **state)
{
    assert_log_survives_chaos("kineto", trace);
    (void)state;
}

static void test_the_shared_trace_is_read_whole(void **state)
{
    size_t length;
    char *bytes = shared_log("kineto/hta_df_index_resolver_memory_only.json.gz", &length);
    if (!bytes)
        skip();
    struct log_reading reading = {0};
    log_reading_bytes(&reading, NULL, bytes, length, memory_system());
    assert_int_equal(reading.status, LOG_FINE);
    assert_string_equal(reading.facts.format, "kineto");
    assert_true(reading.facts.rounded);
    assert_int_equal(reading.records, 26770);
    log_reading_release(&reading);
    free(bytes);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_are_put_in_the_order_of_time_and_index),
        cmocka_unit_test(test_a_bare_array_of_events_is_a_trace_too),
        cmocka_unit_test(test_each_error_has_its_byte),
        cmocka_unit_test(test_an_event_longer_than_1_mib_is_refused),
        cmocka_unit_test(test_brackets_deeper_than_64_are_refused),
        cmocka_unit_test(test_a_log_cut_off_anywhere_is_refused_or_shorter),
        cmocka_unit_test(test_reading_survives_failing_memory),
        cmocka_unit_test(test_the_shared_trace_is_read_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
