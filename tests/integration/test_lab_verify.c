/* worsegpu-lab verify: records that are right, one wrong line of each kind, and all shared records.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/real_process.h"

/* First fit in 100 bytes: 10 at 0, 20 at 10, the first freed, 15 behind both (the hole of 10 and
 * the rest are looked at), 80 nowhere. Free are 0 to 10 and 45 to 100. */
#define OSTEP_HEADER                                                                               \
    "{\"allocator\":\"OSTEP malloc.py\",\"source\":\"a test\",\"commit\":\"0\",\"configuration\":" \
    "{\"policy\":\"FIRST\",\"list_order\":\"ADDRSORT\",\"coalesce\":true,\"header_size\":0,"       \
    "\"alignment\":-1,\"base_address\":1000},\"capacity\":100,\"sequence\":\"by hand\"}\n"
#define OSTEP_START                                                                                \
    "{\"op\":\"allocate\",\"id\":0,\"size\":10,\"offset\":0,\"searched\":1}\n"                     \
    "{\"op\":\"allocate\",\"id\":1,\"size\":20,\"offset\":10,\"searched\":1}\n"                    \
    "{\"op\":\"free\",\"id\":0}\n"
#define OSTEP_RIGHT "{\"op\":\"allocate\",\"id\":2,\"size\":15,\"offset\":30,\"searched\":2}\n"
#define OSTEP_REFUSED "{\"op\":\"allocate\",\"id\":3,\"size\":80,\"offset\":null,\"searched\":2}\n"
#define OSTEP_STATS "{\"op\":\"stats\",\"after\":5,\"free_list\":[[0,10],[45,55]]}\n"

/* BFC takes a region of 2 MiB for a first request of 1000 bytes. */
#define BFC_HEADER                                                                                 \
    "{\"allocator\":\"BFC\",\"source\":\"a test\",\"commit\":\"0\",\"configuration\":"             \
    "{\"allow_growth\":true,\"garbage_collection\":false,\"fragmentation_fraction\":0,"            \
    "\"allow_retry_on_failure\":false,\"device_bytes\":268435456,\"device_granularity\":256,"      \
    "\"device_coalesces\":true},\"capacity\":268435456,\"sequence\":\"by hand\"}\n"
#define BFC_REGION "{\"op\":\"region\",\"offset\":0,\"size\":2097152}\n"
#define BFC_ALLOCATE "{\"op\":\"allocate\",\"id\":1,\"size\":1000,\"offset\":0}\n"

static struct real_process *verify(struct real_room *room, const char *content, bool json)
{
    const char *path = real_room_path(room, "record.ndjson");
    real_room_write(room, path, content);
    return real_process_run(room, NULL, real_program(room, "worsegpu-lab"), "verify", path,
                            json ? "--json" : NULL, NULL);
}

static void ends(struct real_room *room, struct real_process *process, int status, const char *part)
{
    const char *output = real_process_output(room, process);
    if (real_process_wait(process) != status || !strstr(output, part))
        fail_msg("status %d, not %d, or not printed: %s\n%s%s", real_process_wait(process), status,
                 part, output, real_process_errors(room, process));
}

static void test_a_right_record_is_equal_line_by_line(void **state)
{
    struct real_room *room = *state;
    struct real_process *process =
        verify(room, OSTEP_HEADER OSTEP_START OSTEP_RIGHT OSTEP_REFUSED OSTEP_STATS, false);
    ends(room, process, 0, "record.ndjson: list_fit ");
    ends(room, process, 0, ": 4 of 4 allocations");
    ends(room, process, 0, "4 of 4 searches");
    ends(room, process, 0, "1 of 1 statistics");
    ends(room, process, 0, "total: 1 file: ");
    ends(room, process, 0, "; all equal\n");
}

static void test_a_right_record_with_a_region_is_equal(void **state)
{
    struct real_room *room = *state;
    ends(room, verify(room, BFC_HEADER BFC_REGION BFC_ALLOCATE, false), 0, "1 of 1 device calls");
}

static void test_the_same_as_json(void **state)
{
    struct real_room *room = *state;
    struct real_process *process =
        verify(room, OSTEP_HEADER OSTEP_START OSTEP_RIGHT OSTEP_REFUSED OSTEP_STATS, true);
    ends(room, process, 0, "\"allocations\":{\"equal\":4,\"all\":4}");
    ends(room, process, 0, "\"mismatches\":0}");
    ends(room, process, 0, "\"total\":{\"files\":1,\"equal\":1,\"not_compared\":0,\"counts\":{");
}

/* A wrong line is found, named with its line, what it says and what the model says. */
static void test_a_wrong_offset_is_found_and_explained(void **state)
{
    struct real_room *room = *state;
    struct real_process *process = verify(
        room,
        OSTEP_HEADER OSTEP_START
        "{\"op\":\"allocate\",\"id\":2,\"size\":15,\"offset\":31,\"searched\":2}\n" OSTEP_REFUSED,
        false);
    ends(room, process, 1, "4 of 4 searches");
    ends(room, process, 1, "3 of 4 allocations");
    ends(room, process, 1, "line 5");
    ends(room, process, 1, "31");
    ends(room, process, 1, "30");
    ends(room, process, 1, "free: 10 bytes at 0");
    ends(room, process, 1, "1 file differs");
}

static void test_a_wrong_refusal_is_found(void **state)
{
    struct real_room *room = *state;
    struct real_process *process = verify(
        room,
        OSTEP_HEADER OSTEP_START
        "{\"op\":\"allocate\",\"id\":2,\"size\":15,\"offset\":null,\"searched\":2}\n" OSTEP_REFUSED,
        false);
    ends(room, process, 1, "line 5");
    ends(room, process, 1, "3 of 4 allocations");
}

static void test_a_wrong_count_of_searched_blocks_is_found(void **state)
{
    struct real_room *room = *state;
    struct real_process *process = verify(
        room,
        OSTEP_HEADER OSTEP_START
        "{\"op\":\"allocate\",\"id\":2,\"size\":15,\"offset\":30,\"searched\":3}\n" OSTEP_REFUSED,
        false);
    ends(room, process, 1, "3 of 4 searches");
    ends(room, process, 1, "line 5");
    ends(room, process, 1, "4 of 4 allocations");
}

static void test_a_wrong_statistic_is_found(void **state)
{
    struct real_room *room = *state;
    struct real_process *process =
        verify(room,
               OSTEP_HEADER OSTEP_START OSTEP_RIGHT OSTEP_REFUSED
               "{\"op\":\"stats\",\"after\":5,\"free_list\":[[0,10],[45,54]]}\n",
               false);
    ends(room, process, 1, "0 of 1 statistics");
    ends(room, process, 1, "line 7");
}

static void test_a_wrong_region_is_found(void **state)
{
    struct real_room *room = *state;
    struct real_process *process = verify(
        room, BFC_HEADER "{\"op\":\"region\",\"offset\":0,\"size\":4194304}\n" BFC_ALLOCATE, false);
    ends(room, process, 1, "0 of 1 device calls");
    ends(room, process, 1, "4194304");
    ends(room, process, 1, "2097152");
}

static void test_a_region_that_never_came_is_found(void **state)
{
    struct real_room *room = *state;
    ends(room, verify(room, BFC_HEADER BFC_ALLOCATE, false), 1, "device calls");
}

static void test_a_mismatch_is_in_the_document_too(void **state)
{
    struct real_room *room = *state;
    struct real_process *process = verify(
        room,
        OSTEP_HEADER "{\"op\":\"allocate\",\"id\":0,\"size\":10,\"offset\":1,\"searched\":1}\n",
        true);
    ends(room, process, 1, "\"mismatches\":1,\"mismatch\":\"");
    ends(room, process, 1, "\"total\":{\"files\":1,\"equal\":0,");
}

static void test_other_files_are_still_verified_after_one_that_cannot_be_read(void **state)
{
    struct real_room *room = *state;
    const char *right = real_room_path(room, "right.ndjson");
    const char *broken = real_room_path(room, "broken.ndjson");
    real_room_write(room, right, OSTEP_HEADER OSTEP_START);
    real_room_write(room, broken, OSTEP_HEADER "{\"op\":\"allocate\",\"id\":0,\n");
    struct real_process *process =
        real_process_run(room, NULL, real_program(room, "worsegpu-lab"), "verify", broken,
                         real_room_path(room, "missing"), right, NULL);
    ends(room, process, 3, "right.ndjson: list_fit ");
    ends(room, process, 3, "2 not compared");
    assert_non_null(strstr(real_process_errors(room, process), "line 2"));
    assert_non_null(strstr(real_process_errors(room, process), "No such file"));
}

static void test_a_log_without_answers_is_refused(void **state)
{
    struct real_room *room = *state;
    struct real_process *process = verify(room, "+10,-0\n", false);
    assert_int_equal(real_process_wait(process), 1);
    assert_non_null(strstr(real_process_errors(room, process), "holds no answers"));
}

/* ------------------------------------------------------------------------------ the shared records
 */

static struct real_process *verify_all(struct real_room *room, const char *pattern)
{
    const char *shared = getenv("WORSEGPU_SHARED");
    const char *arguments[256] = {real_program(room, "worsegpu-lab"), "verify"};
    size_t count = 2;
    glob_t found;
    const char *path = real_room_text(room, "%s/%s", shared ? shared : "../shared", pattern);
    if (glob(path, GLOB_BRACE, NULL, &found) != 0) {
        print_message("%s is not there ($WORSEGPU_SHARED)\n", path);
        skip();
    }
    assert_true(found.gl_pathc < 250);
    for (size_t i = 0; i < found.gl_pathc; i++)
        arguments[count++] = real_room_text(room, "%s", found.gl_pathv[i]);
    globfree(&found);
    struct real_process *process = real_process_start_list(room, NULL, arguments);
    real_process_wait(process);
    return process;
}

/* As many as the files have lines that allocate. */
static void test_every_shared_golden_record_is_equal(void **state)
{
    struct real_room *room = *state;
    struct real_process *process = verify_all(room, "golden-allocators/*/*.ndjson");
    ends(room, process, 0, "total: 168 files: ");
    ends(room, process, 0, "92,213 of 92,213 allocations");
    ends(room, process, 0, "; all equal\n");
}

/* The traces have 71 events segment_alloc: 9 in course-small, 61 in decomfl, and one in the middle
 * of medium-512-training, whose start is rebuilt. */
static void test_every_shared_torch_trace_is_equal(void **state)
{
    struct real_room *room = *state;
    struct real_process *process =
        verify_all(room, "logs/torch/{course-*,decomfl,medium-*}.pickle");
    ends(room, process, 0, "decomfl.pickle: torch: 7,946 of 7,946 addresses, 61 of 61 segments");
    ends(room, process, 0, "total: 6 files: 19,255 of 19,255 addresses, 71 of 71 segments");
    ends(room, process, 0, "; all equal\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_a_right_record_is_equal_line_by_line),
        IN_ROOM(test_a_right_record_with_a_region_is_equal),
        IN_ROOM(test_the_same_as_json),
        IN_ROOM(test_a_wrong_offset_is_found_and_explained),
        IN_ROOM(test_a_wrong_refusal_is_found),
        IN_ROOM(test_a_wrong_count_of_searched_blocks_is_found),
        IN_ROOM(test_a_wrong_statistic_is_found),
        IN_ROOM(test_a_wrong_region_is_found),
        IN_ROOM(test_a_region_that_never_came_is_found),
        IN_ROOM(test_a_mismatch_is_in_the_document_too),
        IN_ROOM(test_other_files_are_still_verified_after_one_that_cannot_be_read),
        IN_ROOM(test_a_log_without_answers_is_refused),
        IN_ROOM(test_every_shared_golden_record_is_equal),
        IN_ROOM(test_every_shared_torch_trace_is_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
