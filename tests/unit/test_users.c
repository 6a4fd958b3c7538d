/* Tests of daemon/users.c: users come and go with what holds them, and every charge comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/users.h"
#include "tests/support/chaos.h"

enum {
    MANY = 500,
    STEPS = 20000
};

static const struct account nothing;

static void assert_account(const struct account *account, uint64_t gpu_bytes, uint64_t cpu_bytes,
                           uint64_t allocations, uint64_t detached)
{
    assert_int_equal(account->gpu_bytes, gpu_bytes);
    assert_int_equal(account->cpu_bytes, cpu_bytes);
    assert_int_equal(account->allocations, allocations);
    assert_int_equal(account->detached, detached);
}

static void test_a_user_is_there_as_long_as_somebody_holds_it(void **state)
{
    struct chaos chaos;
    struct users users;
    (void)state;
    chaos_init(&chaos);
    users_init(&users, &chaos.memory);
    assert_null(users_find(&users, 7));
    struct user *user = users_hold(&users, 7);
    assert_non_null(user);
    assert_int_equal(user->uid, 7);
    assert_ptr_equal(users_hold(&users, 7), user);
    assert_ptr_equal(users_find(&users, 7), user);
    users_drop(&users, user);
    assert_ptr_equal(users_find(&users, 7), user);
    users_drop(&users, user);
    assert_null(users_find(&users, 7));
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_each_number_is_a_user_of_its_own(void **state)
{
    struct chaos chaos;
    struct users users;
    struct user *held[MANY];
    (void)state;
    chaos_init(&chaos);
    users_init(&users, &chaos.memory);
    for (uid_t i = 0; i < MANY; i++)
        held[i] = users_hold(&users, i * 8589934); /* up to the largest numbers there are */
    for (uid_t i = 0; i < MANY; i++) {
        assert_ptr_equal(users_find(&users, i * 8589934), held[i]);
        assert_int_equal(held[i]->uid, i * 8589934);
        assert_null(users_find(&users, i * 8589934 + 1));
    }
    for (size_t i = 0; i < MANY; i++)
        users_drop(&users, held[(i * 7) % MANY]);
    assert_true(RB_EMPTY(&users.tree));
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_without_memory_there_is_no_new_user_but_those_there_are(void **state)
{
    struct chaos chaos;
    struct users users;
    (void)state;
    chaos_init(&chaos);
    users_init(&users, &chaos.memory);
    struct user *user = users_hold(&users, 7);
    chaos_arm(&chaos, 1, true);
    assert_null(users_hold(&users, 8));
    assert_null(users_find(&users, 8));
    assert_ptr_equal(users_hold(&users, 7), user);
    chaos_arm(&chaos, 0, false);
    users_drop(&users, user);
    users_drop(&users, user);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_accounts_add_and_subtract_each_of_their_parts(void **state)
{
    struct account account = {.gpu_bytes = 1, .cpu_bytes = 2, .allocations = 3, .detached = 4};
    const struct account part = {
        .gpu_bytes = 10, .cpu_bytes = 200, .allocations = 3000, .detached = 40000};
    (void)state;
    account_add(&account, &part);
    assert_account(&account, 11, 202, 3003, 40004);
    account_subtract(&account, &part);
    assert_account(&account, 1, 2, 3, 4);
}

static void test_a_charge_holds_its_user_until_the_refund(void **state)
{
    struct chaos chaos;
    struct users users;
    struct charge charges[2];
    (void)state;
    chaos_init(&chaos);
    users_init(&users, &chaos.memory);
    struct user *user = users_hold(&users, 7);
    charge_make(&charges[0], user, 4096, true, true);
    charge_make(&charges[1], user, 99, false, false);
    users_drop(&users, user);
    assert_ptr_equal(users_find(&users, 7), user);
    assert_account(&user->account, 4096, 99, 2, 1);
    charge_refund(&charges[0], &users);
    assert_account(&user->account, 0, 99, 1, 0);
    assert_null(charges[0].user);
    charge_refund(&charges[1], &users);
    assert_null(users_find(&users, 7));
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_a_refund_of_nothing_or_a_second_one_changes_nothing(void **state)
{
    struct chaos chaos;
    struct users users;
    struct charge charge = {.user = NULL};
    (void)state;
    chaos_init(&chaos);
    users_init(&users, &chaos.memory);
    struct user *user = users_hold(&users, 7);
    charge_refund(&charge, &users);
    charge_make(&charge, user, 4096, true, false);
    charge_refund(&charge, &users);
    charge_refund(&charge, &users);
    assert_memory_equal(&user->account, &nothing, sizeof(nothing));
    users_drop(&users, user);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_any_order_of_charges_and_refunds_ends_at_zero(void **state)
{
    static struct charge charges[MANY];
    struct chaos chaos;
    struct users users;
    uint64_t random = 1;
    (void)state;
    chaos_init(&chaos);
    users_init(&users, &chaos.memory);
    for (size_t i = 0; i < MANY; i++)
        charges[i].user = NULL;
    for (size_t step = 0; step < STEPS; step++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        struct charge *charge = &charges[(random >> 33) % MANY];
        if (charge->user) {
            charge_refund(charge, &users);
            continue;
        }
        struct user *user = users_hold(&users, (uid_t)(random >> 40) % 5);
        charge_make(charge, user, random >> 44, random >> 60 & 1, random >> 61 & 1);
        users_drop(&users, user);
    }
    for (uid_t uid = 0; uid < 5; uid++) {
        struct account sum = {0};
        const struct user *user = users_find(&users, uid);
        assert_non_null(user);
        for (size_t i = 0; i < MANY; i++) {
            if (charges[i].user != user)
                continue;
            struct account part = charge_part(&charges[i]);
            account_add(&sum, &part);
        }
        assert_memory_equal(&user->account, &sum, sizeof(sum));
        assert_int_equal(user->references, sum.allocations);
    }
    for (size_t i = 0; i < MANY; i++)
        charge_refund(&charges[i], &users);
    assert_true(RB_EMPTY(&users.tree));
    assert_int_equal(chaos.live_pieces, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_user_is_there_as_long_as_somebody_holds_it),
        cmocka_unit_test(test_each_number_is_a_user_of_its_own),
        cmocka_unit_test(test_without_memory_there_is_no_new_user_but_those_there_are),
        cmocka_unit_test(test_accounts_add_and_subtract_each_of_their_parts),
        cmocka_unit_test(test_a_charge_holds_its_user_until_the_refund),
        cmocka_unit_test(test_a_refund_of_nothing_or_a_second_one_changes_nothing),
        cmocka_unit_test(test_any_order_of_charges_and_refunds_ends_at_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
