/* Traces of glibc's mtrace: expected records, each error, cuts, failing memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tests/support/log_reading.h"

static const char trace[] = "= Start\n"
                            "@ ./mt:[0x11a0] + 0x5640 0x64\n"
                            "@ ./my - prog:(main+0x1e)[0x11ae] + 0x5690 0x800\n"
                            "@ ./mt:[0x11c3] < 0x5640\n"
                            "@ ./mt:[0x11c3] > 0x56d0 0x12c\n"
                            "+ 0x5800 0\n"
                            "- 0x5800\n"
                            "@ ./mt:[0x1] + (nil) 0x10\n"
                            "@ ./mt:[0x1] ! 0x56d0 0x99\n"
                            "@ ./my - prog:[0x1] - 0x5690\n"
                            "= End\n";

static void test_each_kind_of_line(void **state)
{
    assert_log_records("glibc-mtrace", trace,
                       "allocate 0x5640 100 bytes at 0x5640 place 2\n"
                       "allocate 0x5690 2048 bytes at 0x5690 place 3\n"
                       "free 0x5640 own stream place 4\n"
                       "allocate 0x56d0 300 bytes at 0x56d0 place 5\n"
                       "refused 16 bytes place 8\n"
                       "refused 153 bytes place 9\n"
                       "free 0x5690 own stream place 10\n");
    (void)state;
}

static void test_a_program_may_start_and_end_tracing_again(void **state)
{
    assert_log_records("glibc-mtrace",
                       "= Start\n"
                       "= End\n"
                       "= Start\n"
                       "- 0x10\n",
                       "free 0x10 own stream place 4\n");
    (void)state;
}

static void test_each_error_has_its_line(void **state)
{
    assert_log_bad("glibc-mtrace",
                   "= Start\n"
                   "@ a + 0x10\n",
                   "line 2: '@ a + 0x10' is no line of mtrace");
    assert_log_bad("glibc-mtrace",
                   "= Start\n"
                   "@ a * 0x10 0x20\n",
                   "line 2: '@ a * 0x10 0x20' is no line of mtrace");
    assert_log_bad("glibc-mtrace",
                   "= Start\n"
                   "@ a + 0x10 0xzz\n",
                   "line 2: '@ a + 0x10 0xzz' is no line of mtrace");
    assert_log_bad("glibc-mtrace",
                   "= Start\n"
                   "hello\n",
                   "line 2: 'hello' is no line of mtrace");
    assert_log_bad("glibc-mtrace",
                   "= Start\n"
                   "= Start\n",
                   "line 2: a second '= Start' without an '= End' before it");
    assert_log_bad("glibc-mtrace",
                   "= Start\n"
                   "= End\n"
                   "- 0x10\n",
                   "line 3: a line after '= End'");
    assert_log_bad("glibc-mtrace",
                   "= Start\n"
                   "> 0x10 0x20\n",
                   "line 2: a '>' without a '<' before it");
    assert_log_bad("glibc-mtrace",
                   "= Start\n"
                   "< 0x10\n"
                   "+ 0x10 0x20\n",
                   "line 3: after a '<', a '>' must follow");
    assert_log_bad("glibc-mtrace",
                   "= Start\n"
                   "< 0x10\n"
                   "- 0x10\n",
                   "line 3: after a '<', a '>' must follow");
    assert_log_bad("glibc-mtrace",
                   "= Start\n"
                   "< 0x10\n"
                   "= End\n",
                   "line 3: after a '<', a '>' must follow");
    assert_log_bad("glibc-mtrace",
                   "= Start\n"
                   "< 0x10\n",
                   "line 2: the log is cut off: a '<' has no '>'");
    assert_log_bad("glibc-mtrace",
                   "= Start\n"
                   "+ 0x10 0x20",
                   "line 2: the log is cut off: its last line has no end");
    assert_log_bad("glibc-mtrace",
                   "= Start\n"
                   "- 0x10",
                   "line 2: the log is cut off: its last line has no end");
    assert_log_bad("glibc-mtrace", "", "line 1: the log is empty");
    (void)state;
}

static void test_a_log_cut_off_anywhere_is_refused_or_shorter(void **state)
{
    assert_log_survives_cuts("glibc-mtrace", trace, strlen(trace), false);
    (void)state;
}

static void test_reading_survives_failing_memory(void **state)
{
    assert_log_survives_chaos("glibc-mtrace", trace);
    (void)state;
}

static void test_shared_samples_are_read(void **state)
{
    static const struct {
        const char *name;
        uint64_t records;
    } cases[] = {{"mtrace/mtrace_sample.txt", 7}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t length;
        char *bytes = shared_log(cases[i].name, &length);
        if (!bytes)
            skip();
        struct log_reading reading = {0};
        log_reading_bytes(&reading, NULL, bytes, length, memory_system());
        assert_int_equal(reading.status, LOG_FINE);
        assert_string_equal(reading.facts.format, "glibc-mtrace");
        assert_int_equal(reading.records, cases[i].records);
        log_reading_release(&reading);
        if (length < 1000)
            assert_log_survives_cuts("glibc-mtrace", bytes, length, false);
        free(bytes);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kind_of_line),
        cmocka_unit_test(test_a_program_may_start_and_end_tracing_again),
        cmocka_unit_test(test_each_error_has_its_line),
        cmocka_unit_test(test_a_log_cut_off_anywhere_is_refused_or_shorter),
        cmocka_unit_test(test_reading_survives_failing_memory),
        cmocka_unit_test(test_shared_samples_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
