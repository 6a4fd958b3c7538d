/* Our own trace in both forms: expected records, each error, cuts, failing memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tests/support/log_reading.h"

static const char lines[] =
    "{\"operation\":\"allocate\",\"allocation_id\":7,\"requested_bytes\":4096,\"reserved_bytes\":"
    "4096,\"device\":\"gpu\",\"sequence\":3,\"time_us\":100,\"client\":1,\"tag\":\"a\",\"stream\":"
    "5,\"alignment\":256,\"upper\":true}\n"
    "{\"operation\":\"record_stream\",\"allocation_id\":7,\"stream\":6,\"sequence\":4,\"time_us\":"
    "101}\n"
    "{\"operation\":\"free\",\"allocation_id\":7,\"released\":false,\"device\":\"gpu\",\"reason\":"
    "\"forgotten\",\"sequence\":5,\"time_us\":102}\n"
    "{\"operation\":\"event_done\",\"stream\":6,\"count\":2,\"newest\":true,\"sequence\":6,\"time_"
    "us\":103}\n"
    "{\"operation\":\"event_done\",\"stream\":6,\"sequence\":7,\"time_us\":103}\n"
    "{\"operation\":\"empty_cache\",\"sequence\":8,\"time_us\":104}\n"
    "{\"operation\":\"allocate_failed\",\"reason\":\"gpu_oom\",\"requested_bytes\":100000,"
    "\"device\":\"gpu\",\"sequence\":9,\"time_us\":105}\n"
    "{\"operation\":\"fault\",\"action\":\"out_of_memory\",\"rule\":1,\"requested_bytes\":4097,"
    "\"sequence\":10,\"time_us\":106}\n"
    "{\"operation\":\"fault\",\"action\":\"delay\",\"rule\":1,\"sequence\":11,\"time_us\":107}\n"
    "{\"operation\":\"allocate\",\"allocation_id\":8,\"requested_bytes\":1,\"device\":\"cpu\","
    "\"reason\":\"gpu_oom\",\"sequence\":12,\"time_us\":108,\"before\":true,\"address\":16}\n"
    "{\"operation\":\"free\",\"allocation_id\":8,\"released\":true,\"sequence\":13,\"time_us\":109,"
    "\"stream\":5}\n";

static const char document[] =
    "{\"events\":[{\"operation\":\"allocate\",\"allocation_id\":7,\"requested_bytes\":4096,"
    "\"reserved_bytes\":4096,\"device\":\"gpu\",\"sequence\":3,\"time_us\":100,\"client\":1,"
    "\"tag\":\"a\",\"stream\":5,\"alignment\":256,\"upper\":true},{\"operation\":\"record_stream\","
    "\"allocation_id\":7,\"stream\":6,\"sequence\":4,\"time_us\":101},{\"operation\":\"free\","
    "\"allocation_id\":7,\"released\":false,\"device\":\"gpu\",\"reason\":\"forgotten\","
    "\"sequence\":5,\"time_us\":102},{\"operation\":\"event_done\",\"stream\":6,\"count\":2,"
    "\"newest\":true,\"sequence\":6,\"time_us\":103},{\"operation\":\"event_done\",\"stream\":6,"
    "\"sequence\":7,\"time_us\":103},{\"operation\":\"empty_cache\",\"sequence\":8,\"time_us\":104}"
    ",{\"operation\":\"allocate_failed\",\"reason\":\"gpu_oom\",\"requested_bytes\":100000,"
    "\"device\":\"gpu\",\"sequence\":9,\"time_us\":105},{\"operation\":\"fault\",\"action\":\"out_"
    "of_memory\",\"rule\":1,\"requested_bytes\":4097,\"sequence\":10,\"time_us\":106},{"
    "\"operation\":\"fault\",\"action\":\"delay\",\"rule\":1,\"sequence\":11,\"time_us\":107},{"
    "\"operation\":\"allocate\",\"allocation_id\":8,\"requested_bytes\":1,\"device\":\"cpu\","
    "\"reason\":\"gpu_oom\",\"sequence\":12,\"time_us\":108,\"before\":true,\"address\":16},{"
    "\"operation\":\"free\",\"allocation_id\":8,\"released\":true,\"sequence\":13,\"time_us\":109,"
    "\"stream\":5}],\"next\":13,\"more\":false,\"dropped\":2}\n";

static void test_one_event_a_line(void **state)
{
    assert_log_records("worsegpu-trace", lines,
                       "allocate 0x7 4096 bytes stream 1 alignment 256 upper place 1\n"
                       "record_stream 0x7 stream 2 time 1 place 2\n"
                       "free 0x7 own stream time 2 place 3\n"
                       "event_done 2 bytes stream 2 newest time 3 place 4\n"
                       "event_done all stream 2 time 3 place 5\n"
                       "empty_cache time 4 place 6\n"
                       "refused 100000 bytes time 5 place 7\n"
                       "refused 4097 bytes time 6 place 8\n"
                       "allocate 0x8 1 bytes at 0x10 before time 8 place 10\n"
                       "free 0x8 stream 1 time 9 place 11\n");
    (void)state;
}

static void test_one_document_of_all_events(void **state)
{
    assert_log_records("worsegpu-trace", document,
                       "allocate 0x7 4096 bytes stream 1 alignment 256 upper place 12\n"
                       "record_stream 0x7 stream 2 time 1 place 203\n"
                       "free 0x7 own stream time 2 place 289\n"
                       "event_done 2 bytes stream 2 newest time 3 place 408\n"
                       "event_done all stream 2 time 3 place 497\n"
                       "empty_cache time 4 place 562\n"
                       "refused 100000 bytes time 5 place 617\n"
                       "refused 4097 bytes time 6 place 735\n"
                       "allocate 0x8 1 bytes at 0x10 before time 8 place 918\n"
                       "free 0x8 stream 1 time 9 place 1070\n");
    (void)state;
}

static void test_a_trace_without_times_or_events(void **state)
{
    assert_log_records("worsegpu-trace",
                       "{\"events\":[],\"next\":0,\"more\":false,\"dropped\":0}\n", "");
    (void)state;
}

static void test_each_error_has_its_place(void **state)
{
    assert_log_bad("worsegpu-trace",
                   "{\"operation\":\"empty_cache\"}\n"
                   "{\"operation\":\"alloc\"}\n",
                   "line 2: 'alloc' is no operation of a trace");
    assert_log_bad("worsegpu-trace",
                   "{\"operation\":\"empty_cache\"}\n"
                   "{\"op\":\"alloc\"}\n",
                   "line 2: \"operation\" is missing, a text");
    assert_log_bad("worsegpu-trace",
                   "{\"operation\":\"empty_cache\"}\n"
                   "{\"operation\":\"allocate\",\"requested_bytes\":1}\n",
                   "line 2: \"allocation_id\" is missing, a whole number from 0 to 2^64 - 1");
    assert_log_bad("worsegpu-trace",
                   "{\"operation\":\"empty_cache\"}\n"
                   "{\"operation\":\"allocate\",\"allocation_id\":1,\"requested_bytes\":1e3}\n",
                   "line 2: \"requested_bytes\" is no whole number from 0 to 2^64 - 1");
    assert_log_bad("worsegpu-trace",
                   "{\"operation\":\"empty_cache\"}\n"
                   "{\"operation\":\"free\"}\n",
                   "line 2: \"allocation_id\" is missing, a whole number from 0 to 2^64 - 1");
    assert_log_bad("worsegpu-trace",
                   "{\"operation\":\"empty_cache\"}\n"
                   "{\"operation\":\"fault\"}\n",
                   "line 2: \"action\" is missing, a text");
    assert_log_bad(
        "worsegpu-trace",
        "{\"operation\":\"empty_cache\"}\n"
        "{\"operation\":\"free\",\"allocation_id\":1,\"time_us\":18446744073709551615}\n",
        "line 2: \"time_us\" is too large");
    assert_log_bad("worsegpu-trace",
                   "{\"operation\":\"empty_cache\"}\n"
                   "{\"operation\":\"free\",\"allocation_id\":1,\"stream\":\"a\"}\n",
                   "line 2: \"stream\" is no whole number from 0 to 2^64 - 1");
    assert_log_bad(
        "worsegpu-trace",
        "{\"operation\":\"empty_cache\"}\n"
        "{\"operation\":\"fr",
        "line 2: the JSON is damaged or cut off: the text ends within a string (byte 17)");
    assert_log_bad("worsegpu-trace", "{\"events\":[{\"operation\":\"fr\"}]}",
                   "byte 12: 'fr' is no operation of a trace");
    assert_log_bad("worsegpu-trace", "{\"events\":[],\"error\":{\"kind\":\"io\"}}",
                   "byte 22: the trace was broken off by an error, which stands here");
    assert_log_bad("worsegpu-trace", "{\"events\":[],\"events\":[]}",
                   "byte 23: \"events\" is there twice");
    assert_log_bad("worsegpu-trace", "{\"events\":[]}x",
                   "byte 14: this is no JSON: the end should stand here");
    assert_log_bad("worsegpu-trace", "{\"events\":[]", "byte 13: the JSON is cut off here");
    assert_log_bad("worsegpu-trace", "", "line 1: the log is empty");
    (void)state;
}

static void test_a_trace_that_has_dropped_events_starts_midway(void **state)
{
    struct log_reading reading;
    log_reading_text(&reading, NULL, document);
    assert_true(reading.facts.may_start_midway);
    assert_true(reading.facts.times);
    log_reading_release(&reading);
    log_reading_text(&reading, NULL, "{\"operation\":\"empty_cache\",\"sequence\":1}\n");
    assert_false(reading.facts.may_start_midway);
    assert_false(reading.facts.times);
    log_reading_release(&reading);
    (void)state;
}

static void test_a_log_cut_off_anywhere_is_refused_or_shorter(void **state)
{
    assert_log_survives_cuts("worsegpu-trace", lines, strlen(lines), false);
    (void)state;
}

static void test_reading_survives_failing_memory(void **state)
{
    assert_log_survives_chaos("worsegpu-trace", lines);
    (void)state;
}

static void test_the_document_survives_cuts(void **state)
{
    assert_log_survives_cuts("worsegpu-trace", document, strlen(document), false);
    assert_log_survives_chaos("worsegpu-trace", document);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_event_a_line),
        cmocka_unit_test(test_one_document_of_all_events),
        cmocka_unit_test(test_a_trace_without_times_or_events),
        cmocka_unit_test(test_each_error_has_its_place),
        cmocka_unit_test(test_a_trace_that_has_dropped_events_starts_midway),
        cmocka_unit_test(test_a_log_cut_off_anywhere_is_refused_or_shorter),
        cmocka_unit_test(test_reading_survives_failing_memory),
        cmocka_unit_test(test_the_document_survives_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
