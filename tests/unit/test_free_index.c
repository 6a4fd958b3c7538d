/* The index of free blocks against a plain search for the lowest one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "lib/policies/free_index.h"
#include "lib/python_random.h"
#include "lib/worsegpu.h"
#include "tests/support/chaos.h"

static const struct keyed_hash test_key = {
    {UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)}};

static struct free_class *class_of(struct free_index *index, uint64_t size)
{
    assert_int_equal(free_index_reserve(index), WORSEGPU_OK);
    struct free_class *found = free_index_class(index, size);
    free_index_make_class(index, found, size);
    return found;
}

static void test_an_unknown_size_has_an_empty_place(void **state)
{
    (void)state;
    struct free_index index;
    free_index_init(&index, &test_key, memory_system());
    assert_int_equal(free_index_reserve(&index), WORSEGPU_OK);
    assert_int_equal(free_index_class(&index, 256)->size_bytes, 0);
    assert_int_equal(index.classes, 0);
    free_index_release(&index);
}

static void test_a_class_is_made_once(void **state)
{
    (void)state;
    struct free_index index;
    free_index_init(&index, &test_key, memory_system());
    struct free_class *first = class_of(&index, 256);
    assert_ptr_equal(class_of(&index, 256), first);
    assert_int_equal(index.classes, 1);
    free_index_release(&index);
}

static void test_thousands_of_sizes_keep_their_blocks(void **state)
{
    (void)state;
    enum {
        SIZES = 5000
    };
    static struct free_links links[SIZES];
    struct free_index index;
    free_index_init(&index, &test_key, memory_system());
    for (uint32_t i = 0; i < SIZES; i++)
        free_class_put(class_of(&index, (i + 1) * UINT64_C(256)), links, i);
    assert_int_equal(index.classes, SIZES);
    for (uint32_t i = 0; i < SIZES; i++) {
        struct free_class *found = free_index_class(&index, (i + 1) * UINT64_C(256));
        assert_int_equal(found->blocks, 1);
        assert_int_equal(free_class_take(found, links), i);
        assert_int_equal(found->top, FREE_INDEX_NONE);
    }
    free_index_release(&index);
}

static void test_the_lowest_block_always_comes_first(void **state)
{
    (void)state;
    enum {
        BLOCKS = 300
    };
    static struct free_links links[BLOCKS];
    for (unsigned seed = 0; seed < 50; seed++) {
        char text[8];
        bool is_free[BLOCKS] = {false};
        struct python_random random;
        snprintf(text, sizeof(text), "%u", seed);
        assert_int_equal(python_random_seed(&random, text, memory_system()), 0);
        struct free_class one = {.size_bytes = 256, .top = FREE_INDEX_NONE};
        uint32_t count = 0;
        for (int step = 0; step < 3000; step++) {
            uint32_t block = python_random_choice(&random, BLOCKS);
            bool filling = python_random_choice(&random, 100) < (step / 500 % 2 ? 30U : 70U);
            if (filling && !is_free[block]) {
                free_class_put(&one, links, block);
                is_free[block] = true;
                count++;
            } else if (!filling && count > 0) {
                uint32_t lowest = 0;
                while (!is_free[lowest])
                    lowest++;
                assert_int_equal(free_class_take(&one, links), lowest);
                is_free[lowest] = false;
                count--;
            }
            assert_int_equal(one.blocks, count);
        }
    }
}

static bool use_in_chaos(struct chaos *chaos, void *context)
{
    (void)context;
    struct free_links links[200];
    struct free_index index;
    free_index_init(&index, &test_key, &chaos->memory);
    bool through = true;
    uint32_t made = 0;
    while (made < 200 && through) {
        if (free_index_reserve(&index) != WORSEGPU_OK) {
            through = false;
            continue;
        }
        uint64_t size = (made + 1) * UINT64_C(256);
        struct free_class *found = free_index_class(&index, size);
        free_index_make_class(&index, found, size);
        free_class_put(found, links, made);
        made++;
    }
    assert_int_equal(index.classes, made);
    for (uint32_t i = 0; i < made; i++)
        assert_int_equal(free_class_take(free_index_class(&index, (i + 1) * UINT64_C(256)), links),
                         i);
    free_index_release(&index);
    return through;
}

static void test_without_memory_all_classes_stay(void **state)
{
    (void)state;
    assert_true(chaos_loop(use_in_chaos, NULL) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_unknown_size_has_an_empty_place),
        cmocka_unit_test(test_a_class_is_made_once),
        cmocka_unit_test(test_thousands_of_sizes_keep_their_blocks),
        cmocka_unit_test(test_the_lowest_block_always_comes_first),
        cmocka_unit_test(test_without_memory_all_classes_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
