/* Tests of daemon/leases.c: order, tags, coming and going, and what is charged meanwhile. */
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

/* A holding of a connection with all that it needs. */
struct scene {
    struct chaos chaos;
    struct users users;
    struct user *user;
    struct lease_pool pool;
    struct account account;
    struct holding holding;
};

static void begin(struct scene *scene, uint64_t client)
{
    memset(scene, 0, sizeof(*scene));
    chaos_init(&scene->chaos);
    users_init(&scene->users, &scene->chaos.memory);
    lease_pool_init(&scene->pool, &scene->users, &scene->chaos.memory);
    scene->user = users_hold(&scene->users, 1000);
    assert_non_null(scene->user);
    holding_init(&scene->holding, NULL, client, &scene->account);
}

/* Nothing may be held any more. */
static void end(struct scene *scene)
{
    static const struct account nothing;
    assert_true(TAILQ_EMPTY(&scene->holding.leases));
    assert_memory_equal(&scene->holding.held, &nothing, sizeof(nothing));
    assert_memory_equal(&scene->account, &nothing, sizeof(nothing));
    assert_memory_equal(&scene->user->account, &nothing, sizeof(nothing));
    users_drop(&scene->users, scene->user);
    assert_null(users_find(&scene->users, 1000));
    lease_pool_release(&scene->pool);
    assert_int_equal(scene->chaos.live_pieces, 0);
}

static struct lease *enter_one(struct scene *scene, const struct worsegpu_allocation *allocation,
                               bool detached)
{
    struct lease *lease = lease_pool_take(&scene->pool);
    assert_non_null(lease);
    lease_enter(lease, &scene->holding, allocation, scene->user, detached);
    return lease;
}

static struct lease *enter(struct scene *scene, uint64_t id, const char *tag, size_t bytes)
{
    const struct worsegpu_allocation allocation = {
        .handle.allocation_id = id, .tag = tag, .tag_bytes = bytes, .reserved_bytes = 100 * id};
    return enter_one(scene, &allocation, false);
}

static struct lease *enter_on(struct scene *scene, enum worsegpu_device device,
                              uint64_t reserved_bytes, bool detached)
{
    const struct worsegpu_allocation allocation = {.device = device,
                                                   .reserved_bytes = reserved_bytes};
    return enter_one(scene, &allocation, detached);
}

static void assert_account(const struct account *account, uint64_t gpu_bytes, uint64_t cpu_bytes,
                           uint64_t allocations, uint64_t detached)
{
    assert_int_equal(account->gpu_bytes, gpu_bytes);
    assert_int_equal(account->cpu_bytes, cpu_bytes);
    assert_int_equal(account->allocations, allocations);
    assert_int_equal(account->detached, detached);
}

static void leave(struct scene *scene, struct lease *lease)
{
    lease_leave(lease);
    lease_pool_give(&scene->pool, lease);
}

static void test_a_holding_keeps_its_leases_in_the_order_in_which_they_came(void **state)
{
    struct scene scene;
    struct lease *leases[10];
    uint64_t id = 0;
    (void)state;
    begin(&scene, 3);
    for (uint64_t i = 0; i < 10; i++)
        leases[i] = enter(&scene, i + 1, NULL, 0);
    leave(&scene, leases[4]);
    const struct lease *lease;
    TAILQ_FOREACH(lease, &scene.holding.leases, link)
    {
        id += id == 4 ? 2 : 1;
        assert_int_equal(lease->handle.allocation_id, id);
        assert_int_equal(lease->client, 3);
        assert_int_equal(lease->uid, 1000);
        assert_ptr_equal(lease->holding, &scene.holding);
    }
    assert_int_equal(id, 10);
    for (size_t i = 0; i < 10; i++)
        if (i != 4)
            leave(&scene, leases[i]);
    end(&scene);
}

static void test_each_tag_leads_to_its_own_lease(void **state)
{
    struct scene scene;
    struct lease *leases[LEASES];
    char tags[LEASES][8];
    (void)state;
    begin(&scene, 1);
    for (size_t i = 0; i < LEASES; i++) {
        int length = snprintf(tags[i], sizeof(tags[i]), "t%zu", i * 7919 % 1000);
        leases[i] = enter(&scene, i + 1, tags[i], (size_t)length);
    }
    for (size_t i = 0; i < LEASES; i += 2) {
        assert_ptr_equal(holding_find_tag(&scene.holding, tags[i], strlen(tags[i])), leases[i]);
        leave(&scene, leases[i]);
        assert_null(holding_find_tag(&scene.holding, tags[i], strlen(tags[i])));
    }
    for (size_t i = 1; i < LEASES; i += 2) {
        assert_ptr_equal(holding_find_tag(&scene.holding, tags[i], strlen(tags[i])), leases[i]);
        leave(&scene, leases[i]);
    }
    end(&scene);
}

static void test_tags_are_bytes_of_their_length_and_nothing_more(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, 1);
    struct lease *lease = enter(&scene, 1, "abcdef", 3);
    struct lease *other = enter(&scene, 2, "abd", 3);
    assert_ptr_equal(holding_find_tag(&scene.holding, "abc", 3), lease);
    assert_ptr_equal(holding_find_tag(&scene.holding, "abd", 3), other);
    assert_null(holding_find_tag(&scene.holding, "ab", 2));
    assert_null(holding_find_tag(&scene.holding, "abcdef", 6));
    assert_null(holding_find_tag(&scene.holding, "ABC", 3));
    leave(&scene, lease);
    leave(&scene, other);
    end(&scene);
}

static void test_leaving_twice_or_from_nowhere_is_fine(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, 1);
    struct lease *lease = enter(&scene, 1, "t", 1);
    lease_leave(lease);
    assert_null(lease->holding);
    assert_null(lease->tag);
    assert_true(TAILQ_EMPTY(&scene.holding.leases));
    leave(&scene, lease);
    end(&scene);
}

static void test_a_lease_charges_its_connection_its_holding_and_its_user(void **state)
{
    struct scene scene;
    struct lease *leases[4];
    (void)state;
    begin(&scene, 1);
    const struct account *const accounts[] = {&scene.account, &scene.holding.held,
                                              &scene.user->account};
    leases[0] = enter_on(&scene, WORSEGPU_GPU, 8192, false);
    leases[1] = enter_on(&scene, WORSEGPU_CPU, 70, false);
    leases[2] = enter_on(&scene, WORSEGPU_GPU, 4096, true);
    leases[3] = enter_on(&scene, WORSEGPU_CPU, 1, true);
    for (size_t i = 0; i < 3; i++)
        assert_account(accounts[i], 12288, 71, 4, 2);
    leave(&scene, leases[2]);
    for (size_t i = 0; i < 3; i++)
        assert_account(accounts[i], 8192, 71, 3, 1);
    leave(&scene, leases[1]);
    for (size_t i = 0; i < 3; i++)
        assert_account(accounts[i], 8192, 1, 2, 1);
    leave(&scene, leases[0]);
    leave(&scene, leases[3]);
    end(&scene);
}

static void test_an_orphaned_holding_leaves_the_connections_account_and_stays_charged(void **state)
{
    struct scene scene;
    struct holding other;
    (void)state;
    begin(&scene, 1);
    holding_init(&other, NULL, 1, &scene.account);
    struct lease *plain = enter_on(&scene, WORSEGPU_GPU, 4096, false);
    struct lease *detached = enter_on(&scene, WORSEGPU_CPU, 10, true);
    struct lease *elsewhere = lease_pool_take(&scene.pool);
    const struct worsegpu_allocation allocation = {.device = WORSEGPU_GPU, .reserved_bytes = 512};
    lease_enter(elsewhere, &other, &allocation, scene.user, false);
    holding_orphan(&scene.holding);
    assert_account(&scene.account, 512, 0, 1, 0);
    assert_account(&scene.holding.held, 4096, 10, 2, 1);
    assert_account(&scene.user->account, 4608, 10, 3, 1);
    leave(&scene, plain);
    assert_account(&scene.account, 512, 0, 1, 0);
    assert_account(&scene.user->account, 512, 10, 2, 1);
    lease_leave(detached); /* lives on alone */
    assert_account(&scene.user->account, 512, 10, 2, 1);
    leave(&scene, elsewhere);
    assert_account(&scene.user->account, 0, 10, 1, 1);
    leave(&scene, detached);
    end(&scene);
}

static void test_a_lease_keeps_its_user_until_it_is_given_back(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, 1);
    struct lease *lease = enter_on(&scene, WORSEGPU_GPU, 4096, true);
    users_drop(&scene.users, scene.user); /* its connection has ended */
    holding_orphan(&scene.holding);
    lease_leave(lease);
    assert_ptr_equal(users_find(&scene.users, 1000), scene.user);
    lease_pool_give(&scene.pool, lease);
    assert_null(users_find(&scene.users, 1000));
    scene.user = users_hold(&scene.users, 1000);
    end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_holding_keeps_its_leases_in_the_order_in_which_they_came),
        cmocka_unit_test(test_each_tag_leads_to_its_own_lease),
        cmocka_unit_test(test_tags_are_bytes_of_their_length_and_nothing_more),
        cmocka_unit_test(test_leaving_twice_or_from_nowhere_is_fine),
        cmocka_unit_test(test_a_lease_charges_its_connection_its_holding_and_its_user),
        cmocka_unit_test(test_an_orphaned_holding_leaves_the_connections_account_and_stays_charged),
        cmocka_unit_test(test_a_lease_keeps_its_user_until_it_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
