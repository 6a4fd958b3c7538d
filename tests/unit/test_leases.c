/* Tests of daemon/leases.c: order, tags, and coming and going. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "daemon/leases.h"
#include "tests/support/chaos.h"

enum {
    LEASES = 200
};

static struct lease *enter(struct holding *holding, struct chaos *chaos, uint64_t id,
                           const char *tag, size_t bytes)
{
    struct lease *lease = lease_create(&chaos->memory);
    assert_non_null(lease);
    struct worsegpu_allocation allocation = {
        .handle.allocation_id = id, .tag = tag, .tag_bytes = bytes};
    lease_enter(lease, holding, &allocation, 1000, false);
    return lease;
}

static void leave(struct chaos *chaos, struct lease *lease)
{
    lease_leave(lease);
    lease_destroy(&chaos->memory, lease);
}

static void test_a_holding_keeps_its_leases_in_the_order_in_which_they_came(void **state)
{
    struct chaos chaos;
    struct holding holding;
    struct lease *leases[10];
    uint64_t id = 0;
    (void)state;
    chaos_init(&chaos);
    holding_init(&holding, NULL, 3);
    for (uint64_t i = 0; i < 10; i++)
        leases[i] = enter(&holding, &chaos, i + 1, NULL, 0);
    leave(&chaos, leases[4]);
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
            leave(&chaos, leases[i]);
    assert_true(TAILQ_EMPTY(&holding.leases));
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_each_tag_leads_to_its_own_lease(void **state)
{
    struct chaos chaos;
    struct holding holding;
    struct lease *leases[LEASES];
    char tags[LEASES][8];
    (void)state;
    chaos_init(&chaos);
    holding_init(&holding, NULL, 1);
    for (size_t i = 0; i < LEASES; i++) {
        int length = snprintf(tags[i], sizeof(tags[i]), "t%zu", i * 7919 % 1000);
        leases[i] = enter(&holding, &chaos, i + 1, tags[i], (size_t)length);
    }
    for (size_t i = 0; i < LEASES; i += 2) {
        assert_ptr_equal(holding_find_tag(&holding, tags[i], strlen(tags[i])), leases[i]);
        leave(&chaos, leases[i]);
        assert_null(holding_find_tag(&holding, tags[i], strlen(tags[i])));
    }
    for (size_t i = 1; i < LEASES; i += 2) {
        assert_ptr_equal(holding_find_tag(&holding, tags[i], strlen(tags[i])), leases[i]);
        leave(&chaos, leases[i]);
    }
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_tags_are_bytes_of_their_length_and_nothing_more(void **state)
{
    struct chaos chaos;
    struct holding holding;
    (void)state;
    chaos_init(&chaos);
    holding_init(&holding, NULL, 1);
    struct lease *lease = enter(&holding, &chaos, 1, "abcdef", 3);
    struct lease *other = enter(&holding, &chaos, 2, "abd", 3);
    assert_ptr_equal(holding_find_tag(&holding, "abc", 3), lease);
    assert_ptr_equal(holding_find_tag(&holding, "abd", 3), other);
    assert_null(holding_find_tag(&holding, "ab", 2));
    assert_null(holding_find_tag(&holding, "abcdef", 6));
    assert_null(holding_find_tag(&holding, "ABC", 3));
    leave(&chaos, lease);
    leave(&chaos, other);
}

static void test_leaving_twice_or_from_nowhere_is_fine(void **state)
{
    struct chaos chaos;
    struct holding holding;
    (void)state;
    chaos_init(&chaos);
    holding_init(&holding, NULL, 1);
    struct lease *lease = enter(&holding, &chaos, 1, "t", 1);
    lease_leave(lease);
    assert_null(lease->holding);
    assert_null(lease->tag);
    assert_true(TAILQ_EMPTY(&holding.leases));
    leave(&chaos, lease);
    lease_destroy(&chaos.memory, lease_create(&chaos.memory));
    lease_destroy(&chaos.memory, NULL);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_without_memory_there_is_no_lease(void **state)
{
    struct chaos chaos;
    (void)state;
    chaos_init(&chaos);
    chaos_arm(&chaos, 1, false);
    assert_null(lease_create(&chaos.memory));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_holding_keeps_its_leases_in_the_order_in_which_they_came),
        cmocka_unit_test(test_each_tag_leads_to_its_own_lease),
        cmocka_unit_test(test_tags_are_bytes_of_their_length_and_nothing_more),
        cmocka_unit_test(test_leaving_twice_or_from_nowhere_is_fine),
        cmocka_unit_test(test_without_memory_there_is_no_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
