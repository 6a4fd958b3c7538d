/* The copies of tags: four sizes of pieces, some of which are kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/tag_pool.h"
#include "tests/support/chaos.h"

static void test_a_piece_given_back_is_taken_again(void **state)
{
    struct chaos chaos;
    struct tag_pool pool;
    (void)state;
    chaos_init(&chaos);
    tag_pool_init(&pool, &chaos.memory);
    char *first = tag_pool_take(&pool, 17);
    assert_non_null(first);
    memset(first, 'x', 17);
    tag_pool_give(&pool, first, 17);
    assert_ptr_equal(tag_pool_take(&pool, 32), first); /* of the same size */
    char *other = tag_pool_take(&pool, 16);            /* of another */
    assert_non_null(other);
    assert_int_equal(chaos.requests, 2);
    tag_pool_give(&pool, first, 32);
    tag_pool_give(&pool, other, 16);
    tag_pool_give(&pool, NULL, 5);
    tag_pool_release(&pool);
    assert_int_equal(chaos.live_bytes, 0);
}

static void test_every_length_has_room(void **state)
{
    struct chaos chaos;
    struct tag_pool pool;
    char *tags[WORSEGPU_MAX_TAG_BYTES];
    (void)state;
    chaos_init(&chaos);
    tag_pool_init(&pool, &chaos.memory);
    for (size_t bytes = 1; bytes <= WORSEGPU_MAX_TAG_BYTES; bytes++) {
        tags[bytes - 1] = tag_pool_take(&pool, bytes);
        memset(tags[bytes - 1], (int)bytes, bytes);
    }
    for (size_t bytes = 1; bytes <= WORSEGPU_MAX_TAG_BYTES; bytes++) {
        for (size_t at = 0; at < bytes; at++)
            assert_int_equal(tags[bytes - 1][at], (char)bytes);
        tag_pool_give(&pool, tags[bytes - 1], bytes);
    }
    tag_pool_release(&pool);
    assert_int_equal(chaos.live_bytes, 0);
}

static void test_no_more_unused_pieces_are_kept_than_are_allowed(void **state)
{
    enum {
        MORE = TAG_POOL_MOST_KEPT + 10
    };
    struct chaos chaos;
    struct tag_pool pool;
    char *tags[MORE];
    (void)state;
    chaos_init(&chaos);
    tag_pool_init(&pool, &chaos.memory);
    for (size_t i = 0; i < MORE; i++)
        tags[i] = tag_pool_take(&pool, 40);
    for (size_t i = 0; i < MORE; i++)
        tag_pool_give(&pool, tags[i], 40);
    assert_int_equal(chaos.live_pieces, TAG_POOL_MOST_KEPT);
    tag_pool_release(&pool);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_without_memory_only_kept_pieces_are_given_out(void **state)
{
    struct chaos chaos;
    struct tag_pool pool;
    (void)state;
    chaos_init(&chaos);
    tag_pool_init(&pool, &chaos.memory);
    tag_pool_give(&pool, tag_pool_take(&pool, 64), 64);
    chaos_arm(&chaos, 1, true);
    char *kept = tag_pool_take(&pool, 64);
    assert_non_null(kept);
    assert_null(tag_pool_take(&pool, 64));
    tag_pool_give(&pool, kept, 64);
    tag_pool_release(&pool);
    assert_int_equal(chaos.live_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_piece_given_back_is_taken_again),
        cmocka_unit_test(test_every_length_has_room),
        cmocka_unit_test(test_no_more_unused_pieces_are_kept_than_are_allowed),
        cmocka_unit_test(test_without_memory_only_kept_pieces_are_given_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
