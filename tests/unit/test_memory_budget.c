/* Tests of daemon/memory_budget.c: what is counted, and where it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/memory.h"
#include "daemon/memory_budget.h"
#include "tests/support/chaos.h"

static void test_a_budget_gives_up_to_its_limit_and_not_a_byte_more(void **state)
{
    struct chaos chaos;
    struct memory_budget budget;
    (void)state;
    chaos_init(&chaos);
    memory_budget_init(&budget, &chaos.memory, 100);
    char *first = memory_allocate_array(&budget.memory, 60, 1);
    assert_non_null(first);
    assert_null(memory_allocate_array(&budget.memory, 41, 1));
    char *second = memory_allocate_array(&budget.memory, 40, 1);
    assert_non_null(second);
    assert_int_equal(budget.used_bytes, 100);
    assert_null(memory_allocate_array(&budget.memory, 1, 1));
    assert_null(memory_allocate_array(&budget.memory, SIZE_MAX, 1));
    memory_release_array(&budget.memory, first, 60, 1);
    assert_int_equal(budget.used_bytes, 40);
    memory_release_array(&budget.memory, second, 40, 1);
    assert_int_equal(budget.used_bytes, 0);
    assert_int_equal(chaos.live_bytes, 0);
}

static void test_a_resize_is_charged_by_what_it_adds(void **state)
{
    struct chaos chaos;
    struct memory_budget budget;
    (void)state;
    chaos_init(&chaos);
    memory_budget_init(&budget, &chaos.memory, 100);
    char *array = memory_allocate_array(&budget.memory, 60, 1);
    assert_non_null(array);
    memset(array, 'x', 60);
    assert_null(memory_resize_array(&budget.memory, array, 60, 101, 1));
    assert_int_equal(budget.used_bytes, 60);
    array = memory_resize_array(&budget.memory, array, 60, 100, 1);
    assert_non_null(array);
    assert_int_equal(array[59], 'x');
    assert_int_equal(budget.used_bytes, 100);
    array =
        memory_resize_array(&budget.memory, array, 100, 10, 1); /* smaller goes at the limit too */
    assert_non_null(array);
    assert_int_equal(budget.used_bytes, 10);
    memory_release_array(&budget.memory, array, 10, 1);
    assert_int_equal(budget.used_bytes, 0);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_what_the_source_refuses_is_not_charged(void **state)
{
    struct chaos chaos;
    struct memory_budget budget;
    (void)state;
    chaos_init(&chaos);
    memory_budget_init(&budget, &chaos.memory, 1000);
    char *array = memory_allocate_array(&budget.memory, 10, 1);
    assert_non_null(array);
    chaos_arm(&chaos, 1, true);
    assert_null(memory_allocate_array(&budget.memory, 10, 1));
    assert_null(memory_resize_array(&budget.memory, array, 10, 20, 1));
    assert_int_equal(budget.used_bytes, 10);
    memory_release_array(&budget.memory, array, 10, 1);
    assert_int_equal(budget.used_bytes, 0);
}

static void test_a_budget_of_nothing_gives_nothing(void **state)
{
    struct chaos chaos;
    struct memory_budget budget;
    (void)state;
    chaos_init(&chaos);
    memory_budget_init(&budget, &chaos.memory, 0);
    assert_null(memory_allocate_array(&budget.memory, 1, 1));
    assert_int_equal(chaos.requests, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_budget_gives_up_to_its_limit_and_not_a_byte_more),
        cmocka_unit_test(test_a_resize_is_charged_by_what_it_adds),
        cmocka_unit_test(test_what_the_source_refuses_is_not_charged),
        cmocka_unit_test(test_a_budget_of_nothing_gives_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
