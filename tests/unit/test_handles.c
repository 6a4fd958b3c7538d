/* Handles: only the real one frees, only once, and only where it was given out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/allocator_internal.h"
#include "lib/worsegpu.h"
#include "tests/support/engine.h"

static void assert_unknown(worsegpu_allocator *allocator, const struct worsegpu_handle *handle)
{
    static struct engine_state before;
    static struct engine_state after;
    struct python_random random = allocator->random;
    struct worsegpu_allocation found;
    engine_look(allocator, &before);
    assert_int_equal(worsegpu_find(allocator, handle, &found), WORSEGPU_UNKNOWN_HANDLE);
    assert_int_equal(worsegpu_free(allocator, handle, 1, 2, NULL), WORSEGPU_UNKNOWN_HANDLE);
    assert_int_equal(worsegpu_forget(allocator, handle, 1, 2, NULL), WORSEGPU_UNKNOWN_HANDLE);
    engine_look(allocator, &after);
    engine_assert_same(&before, &after, false);
    assert_memory_equal(&random, &allocator->random, sizeof(random));
}

static worsegpu_allocator *traced(const char *seed)
{
    struct worsegpu_config config = engine_config(seed);
    config.trace_limit = 100;
    return engine_create(&config);
}

static void test_a_forged_handle_is_unknown(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = traced("1");
    struct worsegpu_handle real = engine_allocate(allocator, 100).handle;
    for (size_t bit = 0; bit < 8 * sizeof(real.secret); bit++) {
        struct worsegpu_handle forged = real;
        forged.secret[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_unknown(allocator, &forged);
    }
    assert_int_equal(worsegpu_free(allocator, &real, 0, 0, NULL), WORSEGPU_OK);
    worsegpu_destroy(allocator);
}

static void test_a_handle_used_twice_is_unknown(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = traced("1");
    for (int i = 0; i < 100; i++) {
        struct worsegpu_handle handle = engine_allocate(allocator, 100).handle;
        assert_int_equal(worsegpu_free(allocator, &handle, 0, 0, NULL), WORSEGPU_OK);
        if (i < 20)
            assert_unknown(allocator, &handle);
    }
    worsegpu_destroy(allocator);
}

static void test_a_handle_of_another_allocator_is_unknown(void **state)
{
    (void)state;
    worsegpu_allocator *one = traced("1");
    worsegpu_allocator *other = traced("1");
    struct worsegpu_handle handle = engine_allocate(one, 100).handle;
    struct worsegpu_handle twin = engine_allocate(other, 100).handle;
    assert_int_equal(handle.allocation_id, twin.allocation_id);
    assert_unknown(other, &handle);
    assert_unknown(one, &twin);
    worsegpu_destroy(one);
    worsegpu_destroy(other);
}

static void test_a_secret_with_another_id_is_unknown(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = traced("1");
    struct worsegpu_handle handle = engine_allocate(allocator, 100).handle;
    engine_allocate(allocator, 100);
    const uint64_t ids[] = {0, 2, 3, UINT64_MAX};
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct worsegpu_handle moved = handle;
        moved.allocation_id = ids[i];
        assert_unknown(allocator, &moved);
    }
    worsegpu_destroy(allocator);
}

static void test_find_shows_all_of_a_live_allocation(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = traced("1");
    int owner;
    char tag[] = "weights";
    struct worsegpu_request request = {
        .requested_bytes = 100,
        .stream = 12,
        .stream_given = true,
        .tag = tag,
        .tag_bytes = strlen(tag),
        .owner = &owner,
    };
    struct worsegpu_allocation given;
    struct worsegpu_allocation found;
    assert_int_equal(worsegpu_allocate(allocator, &request, &given), WORSEGPU_OK);
    memset(tag, 'x', strlen(tag)); /* it was copied */
    assert_int_equal(worsegpu_find(allocator, &given.handle, &found), WORSEGPU_OK);
    assert_int_equal(found.handle.allocation_id, 1);
    assert_memory_equal(found.handle.secret, given.handle.secret, sizeof(found.handle.secret));
    assert_int_equal(found.requested_bytes, 100);
    assert_int_equal(found.reserved_bytes, given.reserved_bytes);
    assert_int_equal(found.device, given.device);
    assert_int_equal(found.reason, given.reason);
    assert_int_equal(found.block_index, given.block_index);
    assert_int_equal(found.offset, given.offset);
    assert_int_equal(found.stream, 12);
    assert_true(found.stream_given);
    assert_int_equal(found.tag_bytes, 7);
    assert_memory_equal(found.tag, "weights", 7);
    assert_ptr_equal(found.tag, given.tag);
    assert_ptr_equal(found.owner, &owner);
    worsegpu_destroy(allocator);
}

static void test_a_tag_stays_where_it_is_while_the_table_moves(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = traced("1");
    struct worsegpu_request request = engine_request(1);
    request.tag = "anchor";
    request.tag_bytes = 6;
    struct worsegpu_allocation anchor;
    assert_int_equal(worsegpu_allocate(allocator, &request, &anchor), WORSEGPU_OK);
    for (int i = 0; i < 5000; i++) {
        struct worsegpu_handle handle = engine_allocate(allocator, 1).handle;
        if (i > 100)
            assert_int_equal(worsegpu_free(allocator, &handle, 0, 0, NULL), WORSEGPU_OK);
    }
    assert_memory_equal(anchor.tag, "anchor", 6);
    struct worsegpu_allocation found;
    assert_int_equal(worsegpu_find(allocator, &anchor.handle, &found), WORSEGPU_OK);
    assert_ptr_equal(found.tag, anchor.tag);
    worsegpu_destroy(allocator);
}

static void test_a_release_says_what_became_of_it(void **state)
{
    (void)state;
    int owner;
    worsegpu_allocator *allocator = traced("1");
    allocator->config.gpu_probability = 1;
    allocator->config.forget_probability = 1;
    struct worsegpu_request request = engine_request(10);
    request.owner = &owner;
    struct worsegpu_allocation allocation;
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
    struct worsegpu_release release;
    assert_int_equal(worsegpu_free(allocator, &allocation.handle, 0, 0, &release), WORSEGPU_OK);
    assert_int_equal(release.allocation_id, 1);
    assert_int_equal(release.device, WORSEGPU_GPU);
    assert_false(release.released);
    assert_ptr_equal(release.owner, &owner);
    worsegpu_destroy(allocator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_forged_handle_is_unknown),
        cmocka_unit_test(test_a_handle_used_twice_is_unknown),
        cmocka_unit_test(test_a_handle_of_another_allocator_is_unknown),
        cmocka_unit_test(test_a_secret_with_another_id_is_unknown),
        cmocka_unit_test(test_find_shows_all_of_a_live_allocation),
        cmocka_unit_test(test_a_tag_stays_where_it_is_while_the_table_moves),
        cmocka_unit_test(test_a_release_says_what_became_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
