/* Tests of daemon/leases.c: order, tags, and coming and going. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "daemon/lease_pool.h"
#include "daemon/leases.h"
#include "tests/support/chaos.h"

enum {
    LEASES = 200
};

static struct lease *enter(struct holding *holding, struct lease_pool *pool, uint64_t id,
                           const char *tag, size_t bytes)
{
    struct lease *lease = lease_pool_take(pool);
    assert_non_null(lease);
    struct worsegpu_allocation allocation = {
        .handle.allocation_id = id, .tag = tag, .tag_bytes = bytes};
    lease_enter(lease, holding, &allocation, 1000, false);
    return lease;
}

static void leave(struct lease_pool *pool, struct lease *lease)
{
    lease_leave(lease);
    lease_pool_give(pool, lease);
}

static void test_a_holding_keeps_its_leases_in_the_order_in_which_they_came(void **state)
{
    struct chaos chaos;
    struct lease_pool pool;
    struct holding holding;
    struct lease *leases[10];
    uint64_t id = 0;
    (void)state;
    chaos_init(&chaos);
    lease_pool_init(&pool, &chaos.memory);
    holding_init(&holding, NULL, 3);
    for (uint64_t i = 0; i < 10; i++)
        leases[i] = enter(&holding, &pool, i + 1, NULL, 0);
    leave(&pool, leases[4]);
    const struct lease *lease;
    TAILQ_FOREACH(lease, &holding.leases, link)
    {
        id += id == 4 ? 2 : 1;
        assert_int_equal(lease->handle.allocation_id, id);
        assert_int_equal(lease->client, 3);
        assert_int_equal(lease->uid, 1000);
        assert_ptr_equal(lease->holding, &holding);
    }
    assert_int_equal(id, 10);
    for (size_t i = 0; i < 10; i++)
        if (i != 4)
            leave(&pool, leases[i]);
    assert_true(TAILQ_EMPTY(&holding.leases));
    lease_pool_release(&pool);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_each_tag_leads_to_its_own_lease(void **state)
{
    struct chaos chaos;
    struct lease_pool pool;
    struct holding holding;
    struct lease *leases[LEASES];
    char tags[LEASES][8];
    (void)state;
    chaos_init(&chaos);
    lease_pool_init(&pool, &chaos.memory);
    holding_init(&holding, NULL, 1);
    for (size_t i = 0; i < LEASES; i++) {
        int length = snprintf(tags[i], sizeof(tags[i]), "t%zu", i * 7919 % 1000);
        leases[i] = enter(&holding, &pool, i + 1, tags[i], (size_t)length);
    }
    for (size_t i = 0; i < LEASES; i += 2) {
        assert_ptr_equal(holding_find_tag(&holding, tags[i], strlen(tags[i])), leases[i]);
        leave(&pool, leases[i]);
        assert_null(holding_find_tag(&holding, tags[i], strlen(tags[i])));
    }
    for (size_t i = 1; i < LEASES; i += 2) {
        assert_ptr_equal(holding_find_tag(&holding, tags[i], strlen(tags[i])), leases[i]);
        leave(&pool, leases[i]);
    }
    lease_pool_release(&pool);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_tags_are_bytes_of_their_length_and_nothing_more(void **state)
{
    struct chaos chaos;
    struct lease_pool pool;
    struct holding holding;
    (void)state;
    chaos_init(&chaos);
    lease_pool_init(&pool, &chaos.memory);
    holding_init(&holding, NULL, 1);
    struct lease *lease = enter(&holding, &pool, 1, "abcdef", 3);
    struct lease *other = enter(&holding, &pool, 2, "abd", 3);
    assert_ptr_equal(holding_find_tag(&holding, "abc", 3), lease);
    assert_ptr_equal(holding_find_tag(&holding, "abd", 3), other);
    assert_null(holding_find_tag(&holding, "ab", 2));
    assert_null(holding_find_tag(&holding, "abcdef", 6));
    assert_null(holding_find_tag(&holding, "ABC", 3));
    leave(&pool, lease);
    leave(&pool, other);
    lease_pool_release(&pool);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_leaving_twice_or_from_nowhere_is_fine(void **state)
{
    struct chaos chaos;
    struct lease_pool pool;
    struct holding holding;
    (void)state;
    chaos_init(&chaos);
    lease_pool_init(&pool, &chaos.memory);
    holding_init(&holding, NULL, 1);
    struct lease *lease = enter(&holding, &pool, 1, "t", 1);
    lease_leave(lease);
    assert_null(lease->holding);
    assert_null(lease->tag);
    assert_true(TAILQ_EMPTY(&holding.leases));
    leave(&pool, lease);
    lease_pool_release(&pool);
    assert_int_equal(chaos.live_pieces, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_holding_keeps_its_leases_in_the_order_in_which_they_came),
        cmocka_unit_test(test_each_tag_leads_to_its_own_lease),
        cmocka_unit_test(test_tags_are_bytes_of_their_length_and_nothing_more),
        cmocka_unit_test(test_leaving_twice_or_from_nowhere_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
