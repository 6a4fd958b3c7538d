/* The host pool's counter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/host_pool.h"

static void test_bytes_and_allocations_are_counted(void **state)
{
    (void)state;
    struct host_pool pool = {0};
    host_pool_add(&pool, 10);
    host_pool_add(&pool, 5);
    host_pool_remove(&pool, 10);
    assert_int_equal(pool.used_bytes, 5);
    assert_int_equal(pool.allocations, 1);
}

static void test_the_peak_stays(void **state)
{
    (void)state;
    struct host_pool pool = {0};
    host_pool_add(&pool, 10);
    host_pool_remove(&pool, 10);
    host_pool_add(&pool, 3);
    assert_int_equal(pool.peak_bytes, 10);
}

static void test_there_is_room_up_to_the_last_byte(void **state)
{
    (void)state;
    struct host_pool pool = {.used_bytes = UINT64_MAX - 7};
    assert_true(host_pool_has_room(&pool, 7));
    assert_false(host_pool_has_room(&pool, 8));
    assert_false(host_pool_has_room(&pool, UINT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_and_allocations_are_counted),
        cmocka_unit_test(test_the_peak_stays),
        cmocka_unit_test(test_there_is_room_up_to_the_last_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
