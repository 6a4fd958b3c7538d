/* The malloc lab traces of CS:APP: expected records, each error, cuts, failing memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tests/support/log_reading.h"

static const char four[] = "20000\n"
                           "2\n"
                           "6\n"
                           "1\n"
                           "a 0 512\n"
                           "r 0 640\n"
                           "a 1 0\n"
                           "f 1\n"
                           "f -1\n"
                           "f 0\n";

static void test_four_numbers_and_reallocations(void **state)
{
    assert_log_records("csapp-rep", four,
                       "allocate 0x0 512 bytes place 5\n"
                       "free 0x0 own stream place 6\n"
                       "allocate 0x0 640 bytes place 6\n"
                       "free 0x0 own stream place 10\n");
    (void)state;
}

static void test_two_numbers(void **state)
{
    assert_log_records("csapp-rep",
                       "2\n"
                       "3\n"
                       "a 0 2040\n"
                       "a 1 7\r\n"
                       "f 0\n"
                       "\n",
                       "allocate 0x0 2040 bytes place 3\n"
                       "allocate 0x1 7 bytes place 4\n"
                       "free 0x0 own stream place 5\n");
    (void)state;
}

static void test_a_trace_of_nothing(void **state)
{
    assert_log_records("csapp-rep",
                       "0\n"
                       "0\n",
                       "");
    (void)state;
}

static void test_each_error_has_its_line(void **state)
{
    assert_log_bad("csapp-rep",
                   "2\n"
                   "3\n"
                   "1\n"
                   "a 0 1\n",
                   "line 4: 3 numbers stand before the first operation instead of 2 or 4");
    assert_log_bad("csapp-rep", "1\n",
                   "line 1: 1 numbers stand before the first operation instead of 2 or 4");
    assert_log_bad("csapp-rep",
                   "1\n"
                   "1\n"
                   "1\n"
                   "1\n"
                   "1\n"
                   "a 0 1\n",
                   "line 5: a fifth number before the first operation");
    assert_log_bad(
        "csapp-rep",
        "1\n"
        "2\n"
        "a 0 5\n",
        "line 3: the log ends after 1 of the 2 operations that its header tells of: it is cut off");
    assert_log_bad("csapp-rep",
                   "1\n"
                   "1\n"
                   "a 0 5\n"
                   "f 0\n",
                   "line 4: more operations than the 1 that the header tells of");
    assert_log_bad("csapp-rep",
                   "1\n"
                   "1\n"
                   "a 1 5\n",
                   "line 3: '1' is none of the 1 ids that the header tells of");
    assert_log_bad("csapp-rep",
                   "1\n"
                   "1\n"
                   "a 0\n",
                   "line 3: 'a 0' is no operation: a ID BYTES, r ID BYTES, f ID");
    assert_log_bad("csapp-rep",
                   "1\n"
                   "1\n"
                   "x 0 1\n",
                   "line 3: 'x 0 1' is no operation: a ID BYTES, r ID BYTES, f ID");
    assert_log_bad("csapp-rep",
                   "1\n"
                   "1\n"
                   "a 0 1 2\n",
                   "line 3: 'a 0 1 2' is no operation: a ID BYTES, r ID BYTES, f ID");
    assert_log_bad("csapp-rep",
                   "1\n"
                   "1\n"
                   "a 0 -1\n",
                   "line 3: '-1' is no size in bytes");
    assert_log_bad("csapp-rep",
                   "1\n"
                   "2\n"
                   "a 0 1\n"
                   "a 0 1\n",
                   "line 4: id 0 is allocated already");
    assert_log_bad("csapp-rep",
                   "1\n"
                   "1\n"
                   "f 0\n",
                   "line 3: id 0 is not allocated at this moment");
    assert_log_bad("csapp-rep",
                   "1\n"
                   "1\n"
                   "r 0 5\n",
                   "line 3: id 0 is not allocated at this moment");
    (void)state;
}

static void test_a_log_cut_off_anywhere_is_refused_or_shorter(void **state)
{
    assert_log_survives_cuts("csapp-rep", four, strlen(four), false);
    (void)state;
}

static void test_reading_survives_failing_memory(void **state)
{
    assert_log_survives_chaos("csapp-rep", four);
    (void)state;
}

static void test_shared_samples_are_read(void **state)
{
    static const struct {
        const char *name;
        uint64_t records;
    } cases[] = {{"malloclab/random-bal.rep", 4800},
                 {"malloclab/short1-bal.rep", 12},
                 {"malloclab/short2-bal.rep", 12}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t length;
        char *bytes = shared_log(cases[i].name, &length);
        if (!bytes)
            skip();
        struct log_reading reading = {0};
        log_reading_bytes(&reading, NULL, bytes, length, memory_system());
        assert_int_equal(reading.status, LOG_FINE);
        assert_string_equal(reading.facts.format, "csapp-rep");
        assert_int_equal(reading.records, cases[i].records);
        log_reading_release(&reading);
        if (length < 1000)
            assert_log_survives_cuts("csapp-rep", bytes, length, false);
        free(bytes);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_numbers_and_reallocations),
        cmocka_unit_test(test_two_numbers),
        cmocka_unit_test(test_a_trace_of_nothing),
        cmocka_unit_test(test_each_error_has_its_line),
        cmocka_unit_test(test_a_log_cut_off_anywhere_is_refused_or_shorter),
        cmocka_unit_test(test_reading_survives_failing_memory),
        cmocka_unit_test(test_shared_samples_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
