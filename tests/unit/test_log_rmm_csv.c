/* RMM logs of every version: expected records, each error, cuts, failing memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tests/support/log_reading.h"

static const char todays[] = "Thread,Time,Action,Pointer,Size,Stream\n"
                             "139893,10:15:01.000123,allocate,0x7f2d34000000,1048576,0\n"
                             "139893,10:15:01.000140,allocate failure,(nil),25769803776,2\n"
                             "139893,10:15:01.000201,free,0x7f2d34000000,1048576,7f31c0008210\n";

static void test_todays_form_has_streams_in_bare_hex(void **state)
{
    assert_log_records("rmm-csv", todays,
                       "allocate 0x7f2d34000000 1048576 bytes at 0x7f2d34000000 place 2\n"
                       "refused 25769803776 bytes stream 1 time 17 place 3\n"
                       "free 0x7f2d34000000 stream 2 time 78 place 4\n");
    (void)state;
}

static void test_the_form_of_0_14_has_no_thread_and_colons_before_microseconds(void **state)
{
    assert_log_records("rmm-csv",
                       "Time,Action,Pointer,Size,Stream\n"
                       "10:15:01:000123,allocate,0x7f00,1048576,10\n"
                       "10:15:02:000140,allocate,0x8f00,256,0\n"
                       "10:15:03:000201,free,0x7f00,1048576,10\n",
                       "allocate 0x7f00 1048576 bytes at 0x7f00 stream 1 place 2\n"
                       "allocate 0x8f00 256 bytes at 0x8f00 time 1000017 place 3\n"
                       "free 0x7f00 stream 1 time 2000078 place 4\n");
    (void)state;
}

static void test_the_form_of_22_04_tells_failures_with_a_null_pointer(void **state)
{
    assert_log_records("rmm-csv",
                       "Thread,Time,Action,Pointer,Size,Stream\n"
                       "1,10:15:01.000123,allocate,0x7f00,1024,0x2\n"
                       "1,10:15:01.000140,allocate failure,0x0,99,0x0\n"
                       "2,10:15:01.000201,free,0x7f00,1024,0x2\n",
                       "allocate 0x7f00 1024 bytes at 0x7f00 stream 1 place 2\n"
                       "refused 99 bytes time 17 place 3\n"
                       "free 0x7f00 stream 1 time 78 place 4\n");
    (void)state;
}

static void test_the_old_manager_has_devices_and_reallocates(void **state)
{
    assert_log_records("rmm-csv",
                       "Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total "
                       "Memory,Current Allocs,Start,End,Elapsed,Location\n"
                       "Alloc,1,0x7f00,0x5,256,16,32,1,0.000015,0.00002,5e-06,a.cpp:3\n"
                       "Realloc,1,0x7f10,0x5,512,16,32,1,1.5e-01,0.2,0.1,\"a,b.cpp\":3\n"
                       "Free,1,0x7f10,0x5,0,16,32,0,1,2,1,a.cpp:5\n",
                       "allocate 0x7f00 256 bytes at 0x7f00 stream 1 device 1 place 2\n"
                       "allocate 0x7f10 512 bytes at 0x7f10 stream 1 device 1 time 149985 place 3\n"
                       "free 0x7f10 stream 1 device 1 time 999985 place 4\n");
    (void)state;
}

static void test_rows_without_a_header_are_known_by_their_action(void **state)
{
    assert_log_records("rmm-csv",
                       "1,10:15:01.5,allocate,0x10,8,0\r\n"
                       "\r\n"
                       "1,10:15:01.6,deallocate,0x10,8,0\r\n",
                       "allocate 0x10 8 bytes at 0x10 place 1\n"
                       "free 0x10 time 100000 place 3\n");
    (void)state;
}

static void test_times_since_the_epoch_are_understood(void **state)
{
    assert_log_records("rmm-csv",
                       "Thread,Time,Action,Pointer,Size,Stream\n"
                       "1,1600000000.25,allocate,0x10,8,0\n"
                       "1,1600000000.5,free,0x10,8,0\n",
                       "allocate 0x10 8 bytes at 0x10 place 2\n"
                       "free 0x10 time 250000 place 3\n");
    (void)state;
}

static void test_midnight_does_not_turn_time_back(void **state)
{
    assert_log_records("rmm-csv",
                       "Thread,Time,Action,Pointer,Size,Stream\n"
                       "1,23:59:59.900000,allocate,0x10,8,0\n"
                       "2,23:59:59.800000,allocate,0x20,8,0\n"
                       "1,00:00:00.100000,free,0x10,8,0\n",
                       "allocate 0x10 8 bytes at 0x10 place 2\n"
                       "allocate 0x20 8 bytes at 0x20 place 3\n"
                       "free 0x10 time 200000 place 4\n");
    (void)state;
}

static void test_nothing_that_is_freed_or_allocated_is_left_out(void **state)
{
    assert_log_records("rmm-csv",
                       "Thread,Time,Action,Pointer,Size,Stream\n"
                       "1,10:00:00.0,allocate,0x10,8,0\n"
                       "1,10:00:00.0,allocate,0x20,0,0\n"
                       "1,10:00:00.0,free,0x20,0,0\n"
                       "1,10:00:00.0,allocate,0x0,0,0\n"
                       "1,10:00:00.0,free,0x0,0,0\n"
                       "1,10:00:00.0,allocate,0x0,7,0\n",
                       "allocate 0x10 8 bytes at 0x10 place 2\n"
                       "refused 7 bytes place 7\n");
    (void)state;
}

static void test_a_header_alone_is_a_log_of_nothing(void **state)
{
    assert_log_records("rmm-csv", "Thread,Time,Action,Pointer,Size,Stream\n", "");
    (void)state;
}

static void test_each_field_that_is_wrong_is_named(void **state)
{
    assert_log_bad("rmm-csv",
                   "Thread,Time,Action,Pointer,Size,Stream\n"
                   "1,10:00:00.0,allocate,0x10,8\n",
                   "line 2: the row has 5 fields instead of 6");
    assert_log_bad("rmm-csv",
                   "Thread,Time,Action,Pointer,Size,Stream\n"
                   "1,10:00:00.0,allocate,0x10,8",
                   "line 2: the row has 5 fields instead of 6: the log is cut off");
    assert_log_bad("rmm-csv",
                   "Thread,Time,Action,Pointer,Size,Stream\n"
                   "1,10:00:00.0,allocat,0x10,8,0\n",
                   "line 2: 'allocat' is no action of such a log");
    assert_log_bad("rmm-csv",
                   "Thread,Time,Action,Pointer,Size,Stream\n"
                   "1,10:00:00.0,Alloc,0x10,8,0\n",
                   "line 2: 'Alloc' is no action of such a log");
    assert_log_bad("rmm-csv",
                   "Thread,Time,Action,Pointer,Size,Stream\n"
                   "1,25:00:00.0,allocate,0x10,8,0\n",
                   "line 2: '25:00:00.0' is no time");
    assert_log_bad("rmm-csv",
                   "Thread,Time,Action,Pointer,Size,Stream\n"
                   "1,10:00,allocate,0x10,8,0\n",
                   "line 2: '10:00' is no time");
    assert_log_bad("rmm-csv",
                   "Thread,Time,Action,Pointer,Size,Stream\n"
                   "1,10:00:00.0,allocate,0xg,8,0\n",
                   "line 2: '0xg' is no pointer");
    assert_log_bad("rmm-csv",
                   "Thread,Time,Action,Pointer,Size,Stream\n"
                   "1,10:00:00.0,allocate,0x11112222333344445,8,0\n",
                   "line 2: '0x11112222333344445' is no pointer");
    assert_log_bad("rmm-csv",
                   "Thread,Time,Action,Pointer,Size,Stream\n"
                   "1,10:00:00.0,allocate,0x10,-8,0\n",
                   "line 2: '-8' is no size in bytes");
    assert_log_bad("rmm-csv",
                   "Thread,Time,Action,Pointer,Size,Stream\n"
                   "1,10:00:00.0,allocate,0x10,18446744073709551616,0\n",
                   "line 2: '18446744073709551616' is no size in bytes");
    assert_log_bad("rmm-csv",
                   "Thread,Time,Action,Pointer,Size,Stream\n"
                   "1,10:00:00.0,allocate,0x10,8,\n",
                   "line 2: '' is no stream");
    assert_log_bad("rmm-csv",
                   "Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total "
                   "Memory,Current Allocs,Start,End,Elapsed,Location\n"
                   "Free,x,0x10,0,0,1,1,0,1,2,1,a\n",
                   "line 2: 'x' is no device");
    assert_log_bad("rmm-csv",
                   "Thread,Time,Action,Pointer,Size,Stream\n"
                   "Thread,Time,Action,Pointer,Size,Stream\n",
                   "line 2: a second header: are these two logs in one file?");
    assert_log_bad("rmm-csv", "hello\n",
                   "line 1: this is neither the header nor a row of an RMM log");
    assert_log_bad("rmm-csv", "", "line 1: the log is empty");
    (void)state;
}

static void test_a_last_stream_that_was_cut_off_is_noticed(void **state)
{
    assert_log_bad("rmm-csv",
                   "Thread,Time,Action,Pointer,Size,Stream\n"
                   "1,10:00:00.0,allocate,0x10,8,7f31c0008210\n"
                   "1,10:00:00.0,free,0x10,8,7f31c00",
                   "line 3: the log is cut off: the row has no end, and its stream '7f31c00' is in "
                   "no other row");
    (void)state;
}

static void test_a_last_row_without_end_is_fine_where_its_stream_is_known(void **state)
{
    assert_log_records("rmm-csv",
                       "Thread,Time,Action,Pointer,Size,Stream\n"
                       "1,10:00:00.0,allocate,0x10,8,5\n"
                       "1,10:00:00.0,free,0x10,8,5",
                       "allocate 0x10 8 bytes at 0x10 stream 1 place 2\n"
                       "free 0x10 stream 1 place 3\n");
    (void)state;
}

static void test_versions_are_told_by_what_is_in_the_rows(void **state)
{
    static const struct {
        const char *rows;
        const char *version;
    } cases[] = {
        {"Time,Action,Pointer,Size,Stream\n1:1:1:5,free,0x1,8,0\n", "0.14"},
        {"Thread,Time,Action,Pointer,Size,Stream\n1,1:1:1:5,free,0x1,8,0\n", "0.15 or 0.16"},
        {"Thread,Time,Action,Pointer,Size,Stream\n1,1:1:1:5,free,0x1,8,0x0\n", "0.17 to 21.05"},
        {"Thread,Time,Action,Pointer,Size,Stream\n1,1:1:1.5,free,0x1,8,0x0\n", "21.06 to 24.10"},
        {"Thread,Time,Action,Pointer,Size,Stream\n1,1:1:1.5,allocate failure,0x0,8,0x0\n",
         "22.04 to 24.10"},
        {"Thread,Time,Action,Pointer,Size,Stream\n1,1:1:1.5,free,0x1,8,0\n", "24.12 or later"},
        {"Alloc,0,0x1,0,8,1,1,1,1,1,1,a\n", "before 0.14"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct log_reading reading;
        log_reading_text(&reading, NULL, cases[i].rows);
        assert_int_equal(reading.status, LOG_FINE);
        assert_string_equal(reading.facts.version, cases[i].version);
        assert_true(reading.facts.times);
        assert_int_equal(reading.facts.may_start_midway, i == 6);
        log_reading_release(&reading);
    }
    (void)state;
}

static void test_a_log_cut_off_anywhere_is_refused_or_shorter(void **state)
{
    assert_log_survives_cuts("rmm-csv", todays, strlen(todays), false);
    (void)state;
}

static void test_reading_survives_failing_memory(void **state)
{
    assert_log_survives_chaos("rmm-csv", todays);
    (void)state;
}

static void test_a_sink_that_has_enough_ends_the_reading(void **state)
{
    struct log_reading reading = {.stop_after = 2};
    log_reading_bytes(&reading, NULL, todays, strlen(todays), memory_system());
    assert_int_equal(reading.status, LOG_STOPPED);
    assert_int_equal(reading.records, 2);
    log_reading_release(&reading);
    (void)state;
}

static void test_shared_samples_are_read(void **state)
{
    static const char *const names[] = {"rmm/SYNTHETIC_v0.14.csv", "rmm/SYNTHETIC_v0.19.csv",
                                        "rmm/SYNTHETIC_v22.04.csv",
                                        "rmm/SYNTHETIC_v24.12.dev0.csv"};
    for (size_t i = 0; i < 4; i++) {
        size_t length;
        char *bytes = shared_log(names[i], &length);
        if (!bytes)
            skip();
        struct log_reading reading = {0};
        log_reading_bytes(&reading, NULL, bytes, length, memory_system());
        assert_int_equal(reading.status, LOG_FINE);
        assert_string_equal(reading.facts.format, "rmm-csv");
        assert_int_equal(reading.records, 3);
        log_reading_release(&reading);
        assert_log_survives_cuts("rmm-csv", bytes, length, false);
        free(bytes);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_todays_form_has_streams_in_bare_hex),
        cmocka_unit_test(test_the_form_of_0_14_has_no_thread_and_colons_before_microseconds),
        cmocka_unit_test(test_the_form_of_22_04_tells_failures_with_a_null_pointer),
        cmocka_unit_test(test_the_old_manager_has_devices_and_reallocates),
        cmocka_unit_test(test_rows_without_a_header_are_known_by_their_action),
        cmocka_unit_test(test_times_since_the_epoch_are_understood),
        cmocka_unit_test(test_midnight_does_not_turn_time_back),
        cmocka_unit_test(test_nothing_that_is_freed_or_allocated_is_left_out),
        cmocka_unit_test(test_a_header_alone_is_a_log_of_nothing),
        cmocka_unit_test(test_each_field_that_is_wrong_is_named),
        cmocka_unit_test(test_a_last_stream_that_was_cut_off_is_noticed),
        cmocka_unit_test(test_a_last_row_without_end_is_fine_where_its_stream_is_known),
        cmocka_unit_test(test_versions_are_told_by_what_is_in_the_rows),
        cmocka_unit_test(test_a_log_cut_off_anywhere_is_refused_or_shorter),
        cmocka_unit_test(test_reading_survives_failing_memory),
        cmocka_unit_test(test_a_sink_that_has_enough_ends_the_reading),
        cmocka_unit_test(test_shared_samples_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
