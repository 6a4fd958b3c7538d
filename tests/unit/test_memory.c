/* Tests of base/memory.c and base/memory_system.c: sizes, growing, and what happens when there is
 * no memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/memory.h"
#include "tests/support/chaos.h"

static void test_an_array_takes_and_gives_back_its_exact_size(void **state)
{
    struct chaos chaos;
    (void)state;
    chaos_init(&chaos);
    uint32_t *array = memory_allocate_array(&chaos.memory, 7, sizeof(*array));
    assert_non_null(array);
    assert_int_equal(chaos.live_bytes, 7 * sizeof(*array));
    array = memory_resize_array(&chaos.memory, array, 7, 9, sizeof(*array));
    assert_non_null(array);
    assert_int_equal(chaos.live_bytes, 9 * sizeof(*array));
    memory_release_array(&chaos.memory, array, 9, sizeof(*array));
    assert_int_equal(chaos.live_bytes, 0);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_a_zeroed_array_is_zero(void **state)
{
    static const unsigned char zeroes[64];
    struct chaos chaos; /* fills what it gives with other bytes */
    (void)state;
    chaos_init(&chaos);
    unsigned char *array = memory_allocate_zeroed(&chaos.memory, 16, 4);
    assert_non_null(array);
    assert_memory_equal(array, zeroes, sizeof(zeroes));
    memory_release_array(&chaos.memory, array, 16, 4);
}

static void test_a_size_that_overflows_or_is_zero_is_never_asked_for(void **state)
{
    struct chaos chaos;
    (void)state;
    chaos_init(&chaos);
    assert_null(memory_allocate_array(&chaos.memory, SIZE_MAX, 2));
    assert_null(memory_allocate_array(&chaos.memory, SIZE_MAX / 8 + 1, 8));
    assert_null(memory_allocate_zeroed(&chaos.memory, SIZE_MAX / 2, 3));
    assert_null(memory_allocate_array(&chaos.memory, 0, 8));
    assert_null(memory_allocate_zeroed(&chaos.memory, 8, 0));
    assert_int_equal(chaos.requests, 0);
}

static void test_releasing_nothing_is_fine(void **state)
{
    struct chaos chaos;
    (void)state;
    chaos_init(&chaos);
    memory_release_array(&chaos.memory, NULL, 0, 8);
    memory_release_array(&chaos.memory, NULL, 5, 8);
    assert_int_equal(chaos.live_bytes, 0);
}

static void test_a_resize_that_fails_leaves_the_old_array(void **state)
{
    struct chaos chaos;
    (void)state;
    chaos_init(&chaos);
    char *array = memory_allocate_array(&chaos.memory, 4, 1);
    assert_non_null(array);
    memcpy(array, "abcd", 4);
    chaos_arm(&chaos, 1, false);
    assert_null(memory_resize_array(&chaos.memory, array, 4, 1000, 1));
    assert_null(memory_resize_array(&chaos.memory, array, 4, SIZE_MAX, 2));
    assert_memory_equal(array, "abcd", 4);
    assert_int_equal(chaos.live_bytes, 4);
    memory_release_array(&chaos.memory, array, 4, 1);
}

static void test_growing_keeps_the_items_and_doubles(void **state)
{
    struct chaos chaos;
    size_t *items = NULL;
    size_t capacity = 0;
    (void)state;
    chaos_init(&chaos);
    for (size_t i = 0; i < 10000; i++) {
        assert_int_equal(memory_grow(&chaos.memory, &items, &capacity, i + 1, sizeof(*items)), 0);
        assert_in_range(capacity, i + 1, 2 * i + 16);
        items[i] = i;
    }
    for (size_t i = 0; i < 10000; i++)
        assert_int_equal(items[i], i);
    assert_in_range(chaos.requests, 1, 14); /* doubling: as many as 10000 has bits */
    assert_int_equal(chaos.live_bytes, capacity * sizeof(*items));
    memory_release_array(&chaos.memory, items, capacity, sizeof(*items));
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_growing_to_what_is_there_asks_for_nothing(void **state)
{
    struct chaos chaos;
    char *items = NULL;
    size_t capacity = 0;
    (void)state;
    chaos_init(&chaos);
    assert_int_equal(memory_grow(&chaos.memory, &items, &capacity, 0, 1), 0);
    assert_null(items);
    assert_int_equal(memory_grow(&chaos.memory, &items, &capacity, 5, 1), 0);
    uint64_t requests = chaos.requests;
    assert_int_equal(memory_grow(&chaos.memory, &items, &capacity, capacity, 1), 0);
    assert_int_equal(chaos.requests, requests);
    memory_release_array(&chaos.memory, items, capacity, 1);
}

static void test_growing_beyond_all_sizes_is_refused(void **state)
{
    struct chaos chaos;
    char *items = NULL;
    size_t capacity = 0;
    (void)state;
    chaos_init(&chaos);
    assert_int_equal(memory_grow(&chaos.memory, &items, &capacity, SIZE_MAX, 1), -1);
    assert_int_equal(memory_grow(&chaos.memory, &items, &capacity, SIZE_MAX / 4, 8), -1);
    assert_null(items);
    assert_int_equal(capacity, 0);
    assert_int_equal(chaos.requests, 0);
}

/* Every way to take memory, one after the other; on failure what was there must still be there. */
static bool take_memory_every_way(struct chaos *chaos, void *context)
{
    bool through = false;
    uint16_t *items = NULL;
    size_t capacity = 0;
    char *zeroed = NULL;
    char *array = NULL;
    size_t array_size = 3;
    (void)context;
    for (uint16_t i = 0; i < 100; i++) {
        uint16_t *items_before = items;
        size_t capacity_before = capacity;
        if (memory_grow(&chaos->memory, &items, &capacity, i + 1u, sizeof(*items)) < 0) {
            assert_ptr_equal(items, items_before);
            assert_int_equal(capacity, capacity_before);
            for (uint16_t k = 0; k < i; k++)
                assert_int_equal(items[k], k);
            goto out;
        }
        items[i] = i;
    }
    zeroed = memory_allocate_zeroed(&chaos->memory, 10, 10);
    if (!zeroed)
        goto out;
    array = memory_allocate_array(&chaos->memory, array_size, 1);
    if (!array)
        goto out;
    memcpy(array, "abc", 3);
    char *resized = memory_resize_array(&chaos->memory, array, array_size, 300, 1);
    if (resized) {
        array = resized;
        array_size = 300;
        through = true;
    }
    assert_memory_equal(array, "abc", 3);
out:
    memory_release_array(&chaos->memory, array, array_size, 1);
    memory_release_array(&chaos->memory, zeroed, 10, 10);
    memory_release_array(&chaos->memory, items, capacity, sizeof(*items));
    return through;
}

static void test_every_way_to_take_memory_survives_each_failure(void **state)
{
    (void)state;
    assert_in_range(chaos_loop(take_memory_every_way, NULL), 6, 1000);
}

static void test_the_system_source_allocates_resizes_and_frees(void **state)
{
    const struct worsegpu_memory *memory = memory_system();
    (void)state;
    char *array = memory_allocate_zeroed(memory, 100, 1);
    assert_non_null(array);
    array[99] = 'x';
    char *resized = memory_resize_array(memory, array, 100, 100000, 1);
    assert_non_null(resized);
    assert_int_equal(resized[99], 'x');
    assert_int_equal(resized[0], 0);
    memory_release_array(memory, resized, 100000, 1);
}

/* Sizes on both sides of the one from which pieces are mappings, in an order that grows and shrinks
 * over it. */
static void test_the_system_source_keeps_what_is_in_a_piece_of_any_size(void **state)
{
    static const size_t sizes[] = {100,       3 << 20, (4 << 20) + 1, 1 << 20, 9 << 20, 9437185,
                                   (2 << 20), 64,      (2 << 20) - 1, 5 << 20, 4096};
    const struct worsegpu_memory *memory = memory_system();
    unsigned char *piece = NULL;
    size_t bytes = 0;
    (void)state;
    for (size_t step = 0; step < sizeof(sizes) / sizeof(sizes[0]); step++) {
        size_t kept = bytes < sizes[step] ? bytes : sizes[step];
        piece = memory->resize(memory->context, piece, bytes, sizes[step]);
        assert_non_null(piece);
        for (size_t i = 0; i < kept; i += 61)
            assert_int_equal(piece[i], (unsigned char)(i * 7));
        bytes = sizes[step];
        for (size_t i = 0; i < bytes; i++)
            piece[i] = (unsigned char)(i * 7);
    }
    assert_null(memory->resize(memory->context, piece, bytes, 0));
}

static void test_the_system_source_refuses_what_cannot_be(void **state)
{
    const struct worsegpu_memory *memory = memory_system();
    char *piece = memory->resize(memory->context, NULL, 0, 8 << 20);
    (void)state;
    assert_non_null(piece);
    piece[0] = 'a';
    piece[(8 << 20) - 1] = 'z';
    assert_null(memory->resize(memory->context, NULL, 0, SIZE_MAX));
    assert_null(memory->resize(memory->context, piece, 8 << 20, SIZE_MAX));
    assert_null(memory->resize(memory->context, piece, 8 << 20, (size_t)PTRDIFF_MAX + 1));
    assert_int_equal(piece[0], 'a');
    assert_int_equal(piece[(8 << 20) - 1], 'z');
    memory->resize(memory->context, piece, 8 << 20, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_array_takes_and_gives_back_its_exact_size),
        cmocka_unit_test(test_a_zeroed_array_is_zero),
        cmocka_unit_test(test_a_size_that_overflows_or_is_zero_is_never_asked_for),
        cmocka_unit_test(test_releasing_nothing_is_fine),
        cmocka_unit_test(test_a_resize_that_fails_leaves_the_old_array),
        cmocka_unit_test(test_growing_keeps_the_items_and_doubles),
        cmocka_unit_test(test_growing_to_what_is_there_asks_for_nothing),
        cmocka_unit_test(test_growing_beyond_all_sizes_is_refused),
        cmocka_unit_test(test_every_way_to_take_memory_survives_each_failure),
        cmocka_unit_test(test_the_system_source_allocates_resizes_and_frees),
        cmocka_unit_test(test_the_system_source_keeps_what_is_in_a_piece_of_any_size),
        cmocka_unit_test(test_the_system_source_refuses_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
