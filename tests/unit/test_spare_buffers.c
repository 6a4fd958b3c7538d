/* The buffers for answers that nobody uses: which are kept, and that none is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/spare_buffers.h"
#include "tests/support/chaos.h"

static struct spare_buffer made(struct chaos *chaos, size_t capacity)
{
    struct spare_buffer buffer = {memory_allocate_array(&chaos->memory, capacity, 1), capacity};
    assert_non_null(buffer.data);
    return buffer;
}

/* How many buffers of that size are kept of the many that are given, beside none at first. */
static size_t kept_of_size(size_t capacity)
{
    struct chaos chaos;
    struct spare_buffers spares;
    chaos_init(&chaos);
    assert_int_equal(spare_buffers_init(&spares, &chaos.memory), 0);
    struct spare_buffer first = spare_buffers_borrow(&spares);
    for (int i = 0; i < 100; i++)
        spare_buffers_give(&spares, made(&chaos, capacity));
    size_t kept = spares.count;
    assert_int_equal(spares.bytes, kept * capacity);
    assert_int_equal(chaos.live_pieces, kept + 1);
    spare_buffers_release(&spares);
    memory_release_array(&chaos.memory, first.data, first.capacity, 1);
    assert_int_equal(chaos.live_pieces, 0);
    return kept;
}

static void test_one_is_there_from_the_start(void **state)
{
    struct chaos chaos;
    struct spare_buffers spares;
    (void)state;
    chaos_init(&chaos);
    assert_int_equal(spare_buffers_init(&spares, &chaos.memory), 0);
    struct spare_buffer buffer = spare_buffers_borrow(&spares);
    assert_non_null(buffer.data);
    assert_int_equal(buffer.capacity, SPARE_BUFFERS_FIRST_BYTES);
    assert_null(spare_buffers_borrow(&spares).data);
    spare_buffers_give(&spares, buffer);
    spare_buffers_release(&spares);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_without_memory_for_the_first_there_is_none(void **state)
{
    struct chaos chaos;
    struct spare_buffers spares;
    (void)state;
    chaos_init(&chaos);
    chaos_arm(&chaos, 1, false);
    assert_int_equal(spare_buffers_init(&spares, &chaos.memory), -1);
    assert_null(spare_buffers_borrow(&spares).data);
    spare_buffers_release(&spares);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_the_one_given_back_last_is_lent_first(void **state)
{
    struct chaos chaos;
    struct spare_buffers spares;
    (void)state;
    chaos_init(&chaos);
    assert_int_equal(spare_buffers_init(&spares, &chaos.memory), 0);
    struct spare_buffer warm = made(&chaos, 8192);
    spare_buffers_give(&spares, warm);
    spare_buffers_give(&spares, (struct spare_buffer){.data = NULL});
    assert_ptr_equal(spare_buffers_borrow(&spares).data, warm.data);
    spare_buffers_give(&spares, warm);
    spare_buffers_release(&spares);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_so_many_are_kept_and_no_more(void **state)
{
    (void)state;
    assert_int_equal(kept_of_size(8192), SPARE_BUFFERS_MOST);
}

static void test_so_many_bytes_are_kept_in_all(void **state)
{
    (void)state;
    assert_int_equal(kept_of_size(SPARE_BUFFERS_LARGEST_BYTES),
                     SPARE_BUFFERS_MOST_BYTES / SPARE_BUFFERS_LARGEST_BYTES);
}

static void test_a_large_one_is_not_kept(void **state)
{
    (void)state;
    assert_int_equal(kept_of_size(SPARE_BUFFERS_LARGEST_BYTES + 1), 0);
}

static void test_the_largest_survive_a_trimming(void **state)
{
    static const size_t sizes[] = {8192, 65536, 10000, 20000};
    struct chaos chaos;
    struct spare_buffers spares;
    (void)state;
    chaos_init(&chaos);
    assert_int_equal(spare_buffers_init(&spares, &chaos.memory), 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        spare_buffers_give(&spares, made(&chaos, sizes[i]));
    spare_buffers_trim(&spares, 5);
    assert_int_equal(spares.bytes, 8192 + 65536 + 10000 + 20000 + SPARE_BUFFERS_FIRST_BYTES);
    spare_buffers_trim(&spares, 2);
    assert_int_equal(spares.count, 2);
    assert_int_equal(spares.bytes, 65536 + 20000);
    spare_buffers_trim(&spares, 1);
    struct spare_buffer left = spare_buffers_borrow(&spares);
    assert_int_equal(left.capacity, 65536);
    assert_int_equal(spares.bytes, 0);
    assert_int_equal(chaos.live_pieces, 1);
    memory_release_array(&chaos.memory, left.data, left.capacity, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_is_there_from_the_start),
        cmocka_unit_test(test_without_memory_for_the_first_there_is_none),
        cmocka_unit_test(test_the_one_given_back_last_is_lent_first),
        cmocka_unit_test(test_so_many_are_kept_and_no_more),
        cmocka_unit_test(test_so_many_bytes_are_kept_in_all),
        cmocka_unit_test(test_a_large_one_is_not_kept),
        cmocka_unit_test(test_the_largest_survive_a_trimming),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
