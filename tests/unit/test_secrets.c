/* Handle secrets: handed out once each, and an honest answer when there is no randomness. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/secrets.h"
#include "lib/worsegpu.h"

/* A source that counts up, and fails when told to. */
struct counting {
    uint8_t next;
    unsigned draws;
    bool broken;
};

static int counting_draw(void *context, void *bytes, size_t count)
{
    struct counting *counting = context;
    uint8_t *target = bytes;
    if (counting->broken)
        return WORSEGPU_NO_ENTROPY;
    counting->draws++;
    for (size_t i = 0; i < count; i++)
        target[i] = counting->next++;
    return WORSEGPU_OK;
}

static void test_the_system_source_fills_every_byte(void **state)
{
    (void)state;
    uint8_t seen[SECRETS_PAGE_BYTES] = {0};
    for (int round = 0; round < 64; round++) {
        uint8_t bytes[SECRETS_PAGE_BYTES] = {0};
        assert_int_equal(entropy_system()->draw(NULL, bytes, sizeof(bytes)), WORSEGPU_OK);
        for (size_t i = 0; i < sizeof(bytes); i++)
            seen[i] |= bytes[i];
    }
    for (size_t i = 0; i < sizeof(seen); i++)
        assert_int_not_equal(seen[i], 0);
}

static void test_secrets_differ(void **state)
{
    (void)state;
    enum {
        COUNT = 1000
    };
    static uint8_t all[COUNT][SECRET_BYTES];
    struct secrets secrets;
    secrets_init(&secrets, entropy_system());
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(secrets_prepare(&secrets), WORSEGPU_OK);
        secrets_take(&secrets, all[i]);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(all[i], all[j], SECRET_BYTES);
    }
}

static void test_a_page_serves_many_secrets(void **state)
{
    (void)state;
    struct counting counting = {0};
    struct entropy entropy = {counting_draw, &counting};
    struct secrets secrets;
    uint8_t secret[SECRET_BYTES];
    secrets_init(&secrets, &entropy);
    assert_int_equal(counting.draws, 0);
    for (int i = 0; i < SECRETS_PAGE_BYTES / SECRET_BYTES; i++) {
        assert_int_equal(secrets_prepare(&secrets), WORSEGPU_OK);
        secrets_take(&secrets, secret);
        assert_int_equal(counting.draws, 1);
    }
    assert_int_equal(secrets_prepare(&secrets), WORSEGPU_OK);
    assert_int_equal(counting.draws, 2);
}

static void test_a_secret_handed_out_is_wiped(void **state)
{
    (void)state;
    struct secrets secrets;
    uint8_t secret[SECRET_BYTES];
    const uint8_t nothing[SECRET_BYTES] = {0};
    secrets_init(&secrets, entropy_system());
    assert_int_equal(secrets_prepare(&secrets), WORSEGPU_OK);
    secrets_take(&secrets, secret);
    assert_memory_not_equal(secret, nothing, SECRET_BYTES);
    assert_memory_equal(secrets.page + secrets.left, nothing, SECRET_BYTES);
}

static void test_without_entropy_there_is_no_secret_until_it_returns(void **state)
{
    (void)state;
    struct counting counting = {.broken = true};
    struct entropy entropy = {counting_draw, &counting};
    struct secrets secrets;
    secrets_init(&secrets, &entropy);
    assert_int_equal(secrets_prepare(&secrets), WORSEGPU_NO_ENTROPY);
    assert_int_equal(secrets_prepare(&secrets), WORSEGPU_NO_ENTROPY);
    counting.broken = false;
    assert_int_equal(secrets_prepare(&secrets), WORSEGPU_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_system_source_fills_every_byte),
        cmocka_unit_test(test_secrets_differ),
        cmocka_unit_test(test_a_page_serves_many_secrets),
        cmocka_unit_test(test_a_secret_handed_out_is_wiped),
        cmocka_unit_test(test_without_entropy_there_is_no_secret_until_it_returns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
