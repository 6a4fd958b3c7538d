/* Records put in the order of their times, in memory and in runs on the disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "lab/logs/sort.h"
#include "tests/support/chaos.h"

enum {
    ITEMS = 5000
};

/* Numbers that go up and down; many times are the same. */
static struct log_sort_item item_of(uint64_t i)
{
    uint64_t mixed = i * UINT64_C(0x9e3779b97f4a7c15);
    return (struct log_sort_item){
        .time_ns = mixed >> 56, .order = mixed >> 40 & 7, .place = i + 1, .key = ~i};
}

static bool not_after(const struct log_sort_item *a, const struct log_sort_item *b)
{
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns;
    return a->order != b->order ? a->order < b->order : a->place < b->place;
}

/* Sorts so many items with so many in memory at once. A status; each item must come once. */
static int sort_so_many(uint64_t items, size_t most, const struct worsegpu_memory *memory)
{
    struct log_sort sort;
    struct log_problem problem;
    struct log_sort_item last = {0};
    int status = LOG_FINE;
    bool *seen = calloc(items + 1, sizeof(*seen));
    assert_non_null(seen);
    log_sort_init(&sort, most, memory);
    for (uint64_t i = 0; i < items && status == LOG_FINE; i++) {
        struct log_sort_item item = item_of(i);
        status = log_sort_add(&sort, &item, &problem);
    }
    if (status == LOG_FINE)
        status = log_sort_finish(&sort, &problem);
    for (uint64_t i = 0; status == LOG_FINE; i++) {
        struct log_sort_item item;
        status = log_sort_next(&sort, &item, &problem);
        if (status != LOG_FINE) {
            assert_true(status != LOG_STOPPED || i == items);
            break;
        }
        assert_true(item.place >= 1 && item.place <= items);
        assert_false(seen[item.place]);
        assert_int_equal(item.key, ~(item.place - 1));
        assert_true(i == 0 || not_after(&last, &item));
        seen[item.place] = true;
        last = item;
    }
    log_sort_release(&sort);
    free(seen);
    return status;
}

static void test_few_items_are_sorted_in_memory(void **state)
{
    for (uint64_t items = 0; items < 40; items++)
        assert_int_equal(sort_so_many(items, LOG_SORT_ITEMS, memory_system()), LOG_STOPPED);
    assert_int_equal(sort_so_many(ITEMS, LOG_SORT_ITEMS, memory_system()), LOG_STOPPED);
    (void)state;
}

static void test_runs_are_merged(void **state)
{
    static const size_t mosts[] = {1, 2, 7, 999, ITEMS - 1, ITEMS, ITEMS + 1};
    for (size_t i = 0; i < sizeof(mosts) / sizeof(mosts[0]); i++)
        assert_int_equal(sort_so_many(i == 0 ? 300 : ITEMS, mosts[i], memory_system()),
                         LOG_STOPPED);
    (void)state;
}

static void test_what_is_sorted_already_stays(void **state)
{
    struct log_sort sort;
    struct log_problem problem;
    log_sort_init(&sort, 10, memory_system());
    for (uint64_t i = 0; i < 95; i++) {
        struct log_sort_item item = {.time_ns = i / 3, .place = i};
        assert_int_equal(log_sort_add(&sort, &item, &problem), LOG_FINE);
    }
    assert_int_equal(log_sort_finish(&sort, &problem), LOG_FINE);
    for (uint64_t i = 0; i < 95; i++) {
        struct log_sort_item item;
        assert_int_equal(log_sort_next(&sort, &item, &problem), LOG_FINE);
        assert_int_equal(item.place, i);
    }
    log_sort_release(&sort);
    (void)state;
}

static bool sort_in_chaos(struct chaos *chaos, void *context)
{
    const size_t *most = context;
    int status = sort_so_many(200, *most, &chaos->memory);
    assert_true(status == LOG_STOPPED || status == LOG_NO_MEMORY);
    return status == LOG_STOPPED;
}

static void test_sorting_survives_failing_memory(void **state)
{
    size_t runs = 30;
    size_t memory = 1000;
    assert_true(chaos_loop(sort_in_chaos, &runs) > 5);
    assert_true(chaos_loop(sort_in_chaos, &memory) > 2);
    (void)state;
}

static void test_a_folder_that_cannot_be_written_to_says_why(void **state)
{
    const char *before = getenv("TMPDIR");
    char *kept = before ? strdup(before) : NULL;
    struct log_sort sort;
    struct log_problem problem;
    struct log_sort_item item = {.place = 1};
    assert_int_equal(setenv("TMPDIR", "/nonexistent", 1), 0);
    log_sort_init(&sort, 1, memory_system());
    assert_int_equal(log_sort_add(&sort, &item, &problem), LOG_FINE);
    assert_int_equal(log_sort_add(&sort, &item, &problem), LOG_NO_FILE);
    assert_string_equal(problem.text, "cannot make a temporary file ($TMPDIR, else /var/tmp): No "
                                      "such file or directory");
    log_sort_release(&sort);
    assert_int_equal(kept ? setenv("TMPDIR", kept, 1) : unsetenv("TMPDIR"), 0);
    free(kept);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_items_are_sorted_in_memory),
        cmocka_unit_test(test_runs_are_merged),
        cmocka_unit_test(test_what_is_sorted_already_stays),
        cmocka_unit_test(test_sorting_survives_failing_memory),
        cmocka_unit_test(test_a_folder_that_cannot_be_written_to_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
