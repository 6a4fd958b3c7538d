/* Tests of daemon/lease_pool.c: leases come and go in chunks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "daemon/lease_pool.h"
#include "tests/support/chaos.h"

enum {
    MANY = 5000
};

static void test_every_lease_is_its_own_and_empty(void **state)
{
    static struct lease *leases[MANY];
    static const struct lease empty;
    struct chaos chaos;
    struct users users;
    struct lease_pool pool;
    (void)state;
    chaos_init(&chaos);
    users_init(&users, &chaos.memory);
    lease_pool_init(&pool, &users, &chaos.memory);
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < MANY; i++) {
            leases[i] = lease_pool_take(&pool);
            assert_non_null(leases[i]);
            assert_memory_equal(leases[i], &empty, sizeof(empty));
            memset(leases[i], 0x5a, sizeof(*leases[i])); /* overlapping ones would not be empty */
        }
        for (size_t i = 0; i < MANY; i++)
            leases[i]->charge.user = NULL;
        for (size_t i = 0; i < MANY; i++)
            lease_pool_give(&pool, leases[(i * 7) % MANY]);
    }
    lease_pool_release(&pool);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_steady_traffic_takes_no_memory(void **state)
{
    struct chaos chaos;
    struct users users;
    struct lease_pool pool;
    (void)state;
    chaos_init(&chaos);
    users_init(&users, &chaos.memory);
    lease_pool_init(&pool, &users, &chaos.memory);
    lease_pool_give(&pool, lease_pool_take(&pool));
    uint64_t requests = chaos.requests;
    for (size_t i = 0; i < 1000; i++)
        lease_pool_give(&pool, lease_pool_take(&pool));
    assert_int_equal(chaos.requests, requests);
    lease_pool_release(&pool);
}

static void test_when_none_is_out_all_but_the_first_chunk_go_back(void **state)
{
    static struct lease *leases[MANY];
    struct chaos chaos;
    struct users users;
    struct lease_pool pool;
    (void)state;
    chaos_init(&chaos);
    users_init(&users, &chaos.memory);
    lease_pool_init(&pool, &users, &chaos.memory);
    lease_pool_give(&pool, lease_pool_take(&pool));
    size_t at_rest = chaos.live_bytes;
    for (size_t i = 0; i < MANY; i++)
        leases[i] = lease_pool_take(&pool);
    assert_true(chaos.live_bytes >= MANY * sizeof(struct lease));
    for (size_t i = 0; i < MANY; i++)
        lease_pool_give(&pool, leases[i]);
    assert_int_equal(chaos.live_bytes, at_rest);
    assert_int_equal(chaos.live_pieces, 1);
    lease_pool_release(&pool);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_without_memory_there_is_no_lease_and_later_there_is(void **state)
{
    struct chaos chaos;
    struct users users;
    struct lease_pool pool;
    (void)state;
    chaos_init(&chaos);
    users_init(&users, &chaos.memory);
    lease_pool_init(&pool, &users, &chaos.memory);
    chaos_arm(&chaos, 1, true);
    assert_null(lease_pool_take(&pool));
    chaos_arm(&chaos, 0, false);
    lease_pool_give(&pool, lease_pool_take(&pool));
    lease_pool_give(&pool, NULL);
    lease_pool_release(&pool);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_a_small_chunk_will_do_where_a_large_one_cannot_be_had(void **state)
{
    static struct lease *leases[MANY];
    struct chaos chaos;
    struct users users;
    struct lease_pool pool;
    size_t taken = 0;
    (void)state;
    chaos_init(&chaos);
    users_init(&users, &chaos.memory);
    lease_pool_init(&pool, &users, &chaos.memory);
    while (taken < 3 * (size_t)LEASE_POOL_FIRST_CHUNK)
        leases[taken++] = lease_pool_take(&pool);
    chaos_arm(&chaos, 1, false); /* the next chunk, of four times the first, cannot be had */
    size_t before = chaos.live_bytes;
    leases[taken] = lease_pool_take(&pool);
    assert_non_null(leases[taken++]);
    assert_true(chaos.failed);
    assert_true(chaos.live_bytes - before <
                (size_t)2 * LEASE_POOL_FIRST_CHUNK * sizeof(struct lease));
    while (taken > 0)
        lease_pool_give(&pool, leases[--taken]);
    lease_pool_release(&pool);
    assert_int_equal(chaos.live_pieces, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_lease_is_its_own_and_empty),
        cmocka_unit_test(test_steady_traffic_takes_no_memory),
        cmocka_unit_test(test_when_none_is_out_all_but_the_first_chunk_go_back),
        cmocka_unit_test(test_without_memory_there_is_no_lease_and_later_there_is),
        cmocka_unit_test(test_a_small_chunk_will_do_where_a_large_one_cannot_be_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
