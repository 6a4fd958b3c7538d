/* Records in the golden form: expected records, each error, cuts, failing memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tests/support/log_reading.h"

static const char golden[] =
    "{\"allocator\":\"TLSF\",\"source\":\"x\",\"commit\":\"y\",\"configuration\":{},\"capacity\":"
    "4096,\"sequence\":\"z\"}\n"
    "{\"op\":\"region\",\"offset\":0,\"size\":2048}\n"
    "{\"op\":\"allocate\",\"id\":1,\"size\":13,\"alignment\":16,\"stream\":9,\"offset\":8}\n"
    "{\"op\":\"allocate\",\"id\":2,\"size\":5000,\"upper\":true,\"offset\":null}\n"
    "{\"op\":\"record_stream\",\"id\":1,\"stream\":7}\n"
    "{\"op\":\"free\",\"id\":1}\n"
    "{\"op\":\"event_done\",\"stream\":7,\"oldest\":3}\n"
    "{\"op\":\"event_done\",\"stream\":9}\n"
    "{\"op\":\"event_done\",\"stream\":9,\"newest\":1}\n"
    "{\"op\":\"empty_cache\"}\n"
    "{\"op\":\"allocate\",\"id\":3,\"size\":0,\"offset\":8}\n"
    "{\"op\":\"free\",\"id\":3,\"stream\":9}\n"
    "{\"op\":\"reserve\",\"offset\":0,\"size\":4096}\n"
    "{\"op\":\"map\",\"offset\":0,\"size\":2048}\n"
    "{\"op\":\"unmap\",\"offset\":0,\"size\":2048}\n"
    "{\"op\":\"unreserve\",\"offset\":0,\"size\":4096}\n"
    "{\"op\":\"region_free\",\"offset\":0,\"size\":2048}\n"
    "{\"op\":\"allocate\",\"id\":4,\"size\":1,\"offset\":0}\n"
    "{\"op\":\"free\",\"id\":4,\"stream\":9}\n"
    "{\"op\":\"stats\",\"after\":4,\"x\":[1]}\n"
    "{\"op\":\"free_list\",\"after\":4,\"small\":[]}\n";

static void test_each_kind_of_line(void **state)
{
    assert_log_records("golden", golden,
                       "segment_allocate 2048 bytes at 0x0 place 2\n"
                       "allocate 0x1 13 bytes at 0x8 stream 1 alignment 16 place 3\n"
                       "refused 5000 bytes upper place 4\n"
                       "record_stream 0x1 stream 2 place 5\n"
                       "free 0x1 own stream place 6\n"
                       "event_done 3 bytes stream 2 place 7\n"
                       "event_done all stream 1 place 8\n"
                       "event_done 1 bytes stream 1 newest place 9\n"
                       "empty_cache place 10\n"
                       "segment_map 2048 bytes at 0x0 place 14\n"
                       "segment_unmap 2048 bytes at 0x0 place 15\n"
                       "segment_free 2048 bytes at 0x0 place 17\n"
                       "allocate 0x4 1 bytes at 0x0 place 18\n"
                       "free 0x4 stream 1 place 19\n");
    (void)state;
}

static void test_each_error_has_its_line(void **state)
{
    assert_log_bad("golden",
                   "{\"allocator\":\"TLSF\",\"source\":\"x\",\"commit\":\"y\",\"configuration\":{},"
                   "\"capacity\":4096,\"sequence\":\"z\"}\n"
                   "{\"op\":\"alloc\",\"id\":1}\n",
                   "line 2: 'alloc' is no op");
    assert_log_bad("golden",
                   "{\"allocator\":\"TLSF\",\"source\":\"x\",\"commit\":\"y\",\"configuration\":{},"
                   "\"capacity\":4096,\"sequence\":\"z\"}\n"
                   "{\"id\":1}\n",
                   "line 2: \"op\" is missing, a text");
    assert_log_bad("golden",
                   "{\"allocator\":\"TLSF\",\"source\":\"x\",\"commit\":\"y\",\"configuration\":{},"
                   "\"capacity\":4096,\"sequence\":\"z\"}\n"
                   "{\"op\":\"allocate\",\"id\":1,\"size\":3}\n",
                   "line 2: \"offset\" is missing, a whole number from 0 to 2^64 - 1");
    assert_log_bad("golden",
                   "{\"allocator\":\"TLSF\",\"source\":\"x\",\"commit\":\"y\",\"configuration\":{},"
                   "\"capacity\":4096,\"sequence\":\"z\"}\n"
                   "{\"op\":\"allocate\",\"id\":1.0,\"size\":3,\"offset\":1}\n",
                   "line 2: \"id\" is no whole number from 0 to 2^64 - 1");
    assert_log_bad("golden",
                   "{\"allocator\":\"TLSF\",\"source\":\"x\",\"commit\":\"y\",\"configuration\":{},"
                   "\"capacity\":4096,\"sequence\":\"z\"}\n"
                   "{\"op\":\"allocate\",\"id\":1,\"size\":3,\"upper\":1,\"offset\":1}\n",
                   "line 2: \"upper\" is no true or false");
    assert_log_bad("golden",
                   "{\"allocator\":\"TLSF\",\"source\":\"x\",\"commit\":\"y\",\"configuration\":{},"
                   "\"capacity\":4096,\"sequence\":\"z\"}\n"
                   "{\"op\":\"region\",\"offset\":0}\n",
                   "line 2: \"size\" is missing, a whole number from 0 to 2^64 - 1");
    assert_log_bad(
        "golden",
        "{\"allocator\":\"TLSF\",\"source\":\"x\",\"commit\":\"y\",\"configuration\":{},"
        "\"capacity\":4096,\"sequence\":\"z\"}\n"
        "{\"op\":\"free\",\"id\":1,\"id\":2}\n",
        "line 2: the JSON is damaged or cut off: a key stands twice in one object (byte 21)");
    assert_log_bad("golden", "{\"allocator\":\"TLSF\"}\n",
                   "line 1: \"capacity\" is missing, a whole number from 0 to 2^64 - 1");
    assert_log_bad("golden", "", "line 1: the log is empty");
    (void)state;
}

static void test_the_header_tells_allocator_and_capacity(void **state)
{
    struct log_reading reading;
    log_reading_text(&reading, NULL, golden);
    assert_string_equal(reading.facts.version, "TLSF");
    assert_int_equal(reading.facts.capacity_bytes, 4096);
    log_reading_release(&reading);
    (void)state;
}

static void test_a_log_cut_off_anywhere_is_refused_or_shorter(void **state)
{
    assert_log_survives_cuts("golden", golden, strlen(golden), false);
    (void)state;
}

static void test_reading_survives_failing_memory(void **state)
{
    assert_log_survives_chaos("golden", golden);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kind_of_line),
        cmocka_unit_test(test_each_error_has_its_line),
        cmocka_unit_test(test_the_header_tells_allocator_and_capacity),
        cmocka_unit_test(test_a_log_cut_off_anywhere_is_refused_or_shorter),
        cmocka_unit_test(test_reading_survives_failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
