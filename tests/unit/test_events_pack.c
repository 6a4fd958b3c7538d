/* Packed events: what does not fit in memory goes through a file and comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lab/events_pack.h"
#include "tests/support/chaos.h"

enum {
    PIECES = 20000
};

/* A piece of 1 to EVENTS_PACK_LONGEST bytes that tells its number. */
static size_t piece(uint32_t number, uint8_t bytes[EVENTS_PACK_LONGEST])
{
    size_t count = 1 + (number * 7) % EVENTS_PACK_LONGEST;
    memset(bytes, (int)(number % 251), count);
    bytes[0] = (uint8_t)count;
    return count;
}

static int fill(struct events_pack *pack, uint32_t pieces, struct log_problem *problem)
{
    uint8_t bytes[EVENTS_PACK_LONGEST];
    for (uint32_t i = 0; i < pieces; i++) {
        size_t count = piece(i, bytes);
        int status = events_pack_add(pack, bytes, count, problem);
        if (status != LOG_FINE)
            return status;
    }
    return events_pack_finish(pack, problem);
}

static void read_back(const struct events_pack *pack, uint32_t pieces)
{
    struct events_cursor cursor;
    uint8_t bytes[EVENTS_PACK_LONGEST];
    assert_int_equal(events_cursor_begin(&cursor, pack), LOG_FINE);
    for (uint32_t i = 0; i < pieces; i++) {
        size_t count = piece(i, bytes);
        assert_int_equal(events_cursor_fill(&cursor), LOG_FINE);
        assert_true(cursor.end - cursor.at >= (ptrdiff_t)count);
        assert_memory_equal(cursor.at, bytes, count);
        cursor.at += count;
    }
    assert_int_equal(events_cursor_fill(&cursor), LOG_FINE);
    assert_ptr_equal(cursor.at, cursor.end);
    events_cursor_end(&cursor);
}

static void fill_and_read_back(size_t bound, uint32_t pieces, bool file)
{
    struct events_pack pack;
    struct log_problem problem;
    events_pack_init(&pack, bound, memory_system());
    assert_int_equal(fill(&pack, pieces, &problem), LOG_FINE);
    assert_true(pack.held_bytes <= bound);
    assert_int_equal(pack.file >= 0, file);
    read_back(&pack, pieces);
    read_back(&pack, pieces);
    events_pack_release(&pack);
}

static void test_what_fits_stays_in_memory(void **state)
{
    (void)state;
    fill_and_read_back((size_t)1 << 22, PIECES, false);
}

static void test_what_does_not_fit_comes_back_from_a_file(void **state)
{
    (void)state;
    fill_and_read_back(1000, PIECES, true);
    fill_and_read_back(100000, PIECES, true);
}

static void test_all_of_it_may_be_in_the_file(void **state)
{
    (void)state;
    fill_and_read_back(0, PIECES, true);
}

static void test_nothing_is_read_from_an_empty_one(void **state)
{
    (void)state;
    fill_and_read_back(1000, 0, false);
}

static void test_a_folder_that_is_not_there_is_told(void **state)
{
    (void)state;
    struct events_pack pack;
    struct log_problem problem = {""};
    const char *folder = getenv("TMPDIR");
    char kept[4096] = "";
    if (folder)
        strncpy(kept, folder, sizeof(kept) - 1);
    setenv("TMPDIR", "/nowhere/at/all", 1);
    events_pack_init(&pack, 0, memory_system());
    assert_int_equal(fill(&pack, 1, &problem), LOG_NO_FILE);
    assert_non_null(strstr(problem.text, "temporary file"));
    assert_non_null(strstr(problem.text, "No such file"));
    events_pack_release(&pack);
    if (folder)
        setenv("TMPDIR", kept, 1);
    else
        unsetenv("TMPDIR");
}

static bool pack_without_memory(struct chaos *chaos, void *context)
{
    (void)context;
    struct events_pack pack;
    struct log_problem problem;
    events_pack_init(&pack, 2000, &chaos->memory);
    int status = fill(&pack, 200, &problem);
    if (status == LOG_FINE) {
        struct events_cursor cursor;
        status = events_cursor_begin(&cursor, &pack);
        if (status == LOG_FINE)
            events_cursor_end(&cursor);
    }
    events_pack_release(&pack);
    assert_true(status == LOG_FINE || status == LOG_NO_MEMORY);
    return status == LOG_FINE;
}

static void test_packing_without_memory_says_so_and_leaves_nothing(void **state)
{
    (void)state;
    assert_true(chaos_loop(pack_without_memory, NULL) > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_fits_stays_in_memory),
        cmocka_unit_test(test_what_does_not_fit_comes_back_from_a_file),
        cmocka_unit_test(test_all_of_it_may_be_in_the_file),
        cmocka_unit_test(test_nothing_is_read_from_an_empty_one),
        cmocka_unit_test(test_a_folder_that_is_not_there_is_told),
        cmocka_unit_test(test_packing_without_memory_says_so_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
