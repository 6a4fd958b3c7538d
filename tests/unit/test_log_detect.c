/* Which format a log is in, told by its content; and the sentences of what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tests/support/log_reading.h"

static void test_each_format_has_a_name_and_a_summary(void **state)
{
    size_t count = 0;
    for (; log_format_at(count); count++) {
        const struct log_format *format = log_format_at(count);
        assert_ptr_equal(log_format_find(format->name), format);
        assert_true(strlen(format->summary) > 10);
    }
    assert_int_equal(count, 10);
    assert_null(log_format_find("pickle"));
    assert_null(log_format_find(""));
    (void)state;
}

static void test_each_content_is_claimed_by_one_format(void **state)
{
    static const struct {
        const char *format;
        const char *content;
    } cases[] = {
        {"kineto", "{\"traceEvents\":[]}"},
        {"kineto", "\n"
                   " {\"schemaVersion\": 1, \"deviceProperties\": [{\"name\": \"a\""},
        {"kineto", "{\"displayTimeUnit\": \"ms\", \"traceEvents\""},
        {"kineto", " [ {\"ph\":\"X\"}]"},
        {"rmm-csv", "Thread,Time,Action,Pointer,Size,Stream\n"},
        {"rmm-csv", "Time,Action,Pointer,Size,Stream\r\n"},
        {"rmm-csv", "Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total "
                    "Memory,Current Allocs,Start,End,Elapsed,Location\n"},
        {"rmm-csv", "12,10:00:00.1,allocate failure,(nil),7,0\n"},
        {"rmm-csv", "10:00:00:1,free,0x1,7,0\n"},
        {"rmm-csv", "\n"
                    "\n"
                    "10:00:00:1,free,0x1,7,0"},
        {"rmm-csv", "Free,0,0x1,0,0,1,1,1,1,1,1,a.cpp:1,b\n"},
        {"umpire", "{\"category\":\"operation\",\"name\":\"allocate\"}"},
        {"umpire", "# Copyright\n"
                   "#\n"
                   "\n"
                   "{ \"kind\":\"replay\", \"uid\":1, \"event\": \"version\" }"},
        {"nsys-csv", "start,address,bytes,memoryOperationType\n"},
        {"nsys-csv", "\"start\",\"globalPid\",\"address\",\"bytes\",\"memoryOperationType\"\r\n"
                     "1,2,3,4,0\r\n"},
        {"csapp-rep", "6\n"
                      "12\n"
                      "a 0 2040\n"},
        {"csapp-rep", "20000\n"
                      "2\n"
                      "6\n"
                      "1\n"
                      "a 0 512\n"},
        {"csapp-rep", "0\n"
                      "0\n"},
        {"csapp-rep", " 6 \r\n"
                      " 12 \r\n"
                      " a 0 5"},
        {"ostep-list", "+10,-0"},
        {"ostep-list", " +10 ,\n"
                       "-0\n"},
        {"glibc-mtrace", "= Start\n"},
        {"glibc-mtrace", "= Start"},
        {"glibc-mtrace", "@ ./a:[0x1] + 0x1 0x2\n"},
        {"golden", "{\"allocator\":\"TLSF\",\"configuration\":{},\"capacity\":4096}\n"},
        {"worsegpu-trace", "{\"events\":[],\"next\":0}"},
        {"worsegpu-trace", "{\"operation\":\"free\",\"allocation_id\":1}\n"},
        {"worsegpu-trace", "{\"sequence\":1,\"operation\":\"free\"}"},
        {"torch-snapshot", "\x80\x04}."},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const unsigned char *head = (const unsigned char *)cases[i].content;
        size_t bytes = strlen(cases[i].content);
        for (size_t j = 0; log_format_at(j); j++) {
            bool own = strcmp(log_format_at(j)->name, cases[i].format) == 0;
            if (log_format_at(j)->detect(head, bytes) != own)
                print_message("%s and %s\n", log_format_at(j)->name, cases[i].content);
            assert_int_equal(log_format_at(j)->detect(head, bytes), own);
        }
        struct log_problem problem;
        assert_string_equal(log_detect(head, bytes, &problem)->name, cases[i].format);
    }
    (void)state;
}

static void test_unknown_content_is_answered_with_what_is_known(void **state)
{
    assert_log_bad(NULL,
                   "hello world\n"
                   "second",
                   "line 1: no known log begins with 'hello world'; known are torch-snapshot, "
                   "kineto, rmm-csv, umpire, nsys-csv, csapp-rep, ostep-list, glibc-mtrace, "
                   "golden, worsegpu-trace (see `worsegpu-lab list formats`)");
    assert_log_bad(NULL, "\001\177abc",
                   "line 1: no known log begins with '\\x01\\x7fabc'; known are torch-snapshot, "
                   "kineto, rmm-csv, umpire, nsys-csv, csapp-rep, ostep-list, glibc-mtrace, "
                   "golden, worsegpu-trace (see `worsegpu-lab list formats`)");
    assert_log_bad(NULL, "a line that is longer than what is shown",
                   "line 1: no known log begins with 'a line that is longer th'; known are "
                   "torch-snapshot, kineto, rmm-csv, umpire, nsys-csv, csapp-rep, ostep-list, "
                   "glibc-mtrace, golden, worsegpu-trace (see `worsegpu-lab list formats`)");
    assert_log_bad(NULL, "6\n",
                   "line 1: no known log begins with '6'; known are torch-snapshot, kineto, "
                   "rmm-csv, umpire, nsys-csv, csapp-rep, ostep-list, glibc-mtrace, golden, "
                   "worsegpu-trace (see `worsegpu-lab list formats`)");
    assert_log_bad(NULL, "+ 0x10 0x20\n",
                   "line 1: no known log begins with '+ 0x10 0x20'; known are torch-snapshot, "
                   "kineto, rmm-csv, umpire, nsys-csv, csapp-rep, ostep-list, glibc-mtrace, "
                   "golden, worsegpu-trace (see `worsegpu-lab list formats`)");
    assert_log_bad(NULL, "[[-1, 1, 37888, 7]]",
                   "line 1: this is no log that can be read: a memory timeline of the PyTorch "
                   "profiler has no addresses: take its trace instead");
    assert_log_bad(NULL, "{\"Total\": {}}",
                   "line 1: this is no log that can be read: a dump of VMA is a picture of one "
                   "moment, no log");
    assert_log_bad(
        NULL, "{\"method\":\"allocate\"}",
        "line 1: this is no log that can be read: these are requests for `worsegpu-cli run`");
    assert_log_bad(NULL, "SQLite format 3",
                   "line 1: this is no log that can be read: an SQLite database: print its table "
                   "CUDA_GPU_MEMORY_USAGE_EVENTS with `sqlite3 -csv -header`");
    assert_log_bad(NULL, "", "line 1: the log is empty");
    (void)state;
}

static void test_gzip_is_seen_through(void **state)
{
    /* gzip of "+7,-0\n" */
    static const unsigned char packed[] = {0x1f, 0x8b, 0x08, 0,    0,    0,    0,    0,    0,
                                           0x03, 0xd3, 0x36, 0xd7, 0xd1, 0x35, 0xe0, 0x02, 0x00,
                                           0x18, 0x2a, 0x4a, 0x2a, 0x06, 0x00, 0x00, 0x00};
    struct log_reading reading = {0};
    log_reading_bytes(&reading, NULL, packed, sizeof(packed), memory_system());
    assert_int_equal(reading.status, LOG_FINE);
    assert_string_equal(reading.facts.format, "ostep-list");
    assert_int_equal(reading.records, 2);
    log_reading_release(&reading);
    (void)state;
}

static void test_foreign_bytes_in_a_sentence_are_harmless(void **state)
{
    struct log_problem problem;
    assert_int_equal(log_bad(&problem, true, 7, "a\033[2Jb '%.*s'", 3, "\xff\n!"), LOG_BAD);
    assert_string_equal(problem.text, "byte 7: a\\x1b[2Jb '\\xff\\x0a!'");
    (void)state;
}

static void test_a_sentence_that_is_too_long_is_cut(void **state)
{
    struct log_problem problem;
    char text[1000];
    memset(text, 1, sizeof(text));
    log_bad(&problem, false, UINT64_MAX, "%.*s", (int)sizeof(text), text);
    assert_true(strlen(problem.text) < LOG_PROBLEM_SIZE);
    assert_string_equal(problem.text + strlen(problem.text) - 7, "\\x01...");
    (void)state;
}

static void test_the_head_is_no_longer_than_what_was_promised(void **state)
{
    /* The list becomes something else behind the head: it is detected, and then refused. */
    char *text = malloc(LOG_HEAD_BYTES + 10);
    assert_non_null(text);
    for (size_t i = 0; i < LOG_HEAD_BYTES / 4; i++)
        memcpy(text + 4 * i, "+10,", 4);
    memcpy(text + LOG_HEAD_BYTES, "@\n", 3);
    assert_log_bad(NULL, text, "byte 65537: '@' is no item: +BYTES allocates, -NUMBER frees");
    free(text);
    (void)state;
}

static void test_shared_samples_are_told_apart(void **state)
{
    static const char *const known[][2] = {
        {"rmm/SYNTHETIC_v0.14.csv", "rmm-csv"},
        {"umpire/output.replay", "umpire"},
        {"umpire/tut_replay_log.json", "umpire"},
        {"malloclab/random-bal.rep", "csapp-rep"},
        {"mtrace/mtrace_sample.txt", "glibc-mtrace"},
        {"torch/course-small.pickle", "torch-snapshot"},
        {"torch/legacy-oom.pickle", "torch-snapshot"},
        {"../golden-allocators/bfc/a-random-growth.ndjson", "golden"},
        {"README.md", NULL},
        {"workloads/course-small.ndjson", NULL},
        {"workloads/course-small.expected.json", NULL},
        {"vma/GpuMemDumpVis_Sample.json", NULL},
        {"vma/VmaDumpVis_Sample_v2.json", NULL}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t length;
        char *bytes = shared_log(known[i][0], &length);
        if (!bytes)
            skip();
        size_t head = length < LOG_HEAD_BYTES ? length : LOG_HEAD_BYTES;
        for (size_t j = 0; log_format_at(j); j++)
            assert_int_equal(log_format_at(j)->detect((unsigned char *)bytes, head),
                             known[i][1] && strcmp(known[i][1], log_format_at(j)->name) == 0);
        free(bytes);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_format_has_a_name_and_a_summary),
        cmocka_unit_test(test_each_content_is_claimed_by_one_format),
        cmocka_unit_test(test_unknown_content_is_answered_with_what_is_known),
        cmocka_unit_test(test_gzip_is_seen_through),
        cmocka_unit_test(test_foreign_bytes_in_a_sentence_are_harmless),
        cmocka_unit_test(test_a_sentence_that_is_too_long_is_cut),
        cmocka_unit_test(test_the_head_is_no_longer_than_what_was_promised),
        cmocka_unit_test(test_shared_samples_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
