/* Lists by size class, against arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "lib/blocks/class_lists.h"

enum {
    BLOCKS = 200
};

/* The class of a block here is its size, from 1 on; those of 5 are in no list. */
static uint32_t class_of(const void *context, const struct block *block)
{
    (void)context;
    return block->bytes == 5 ? CLASS_NONE : (uint32_t)block->bytes;
}

static const char *broken_in(const struct class_lists *lists, const struct blocks *blocks)
{
    struct audit audit = {0};
    class_lists_check(lists, blocks, class_of, NULL, &audit);
    return audit.broken;
}

static void start(struct blocks *blocks, struct class_lists *lists)
{
    blocks_init(blocks, memory_system());
    assert_int_equal(blocks_reserve(blocks, BLOCKS), 0);
    class_lists_init(lists);
}

static uint32_t add(struct blocks *blocks, struct class_lists *lists, uint32_t class)
{
    uint32_t block = blocks_add(blocks, blocks->length * UINT64_C(10000), class, BLOCK_FREE);
    class_lists_push(lists, blocks, class, block);
    return block;
}

static void test_the_head_is_the_block_pushed_last(void **state)
{
    (void)state;
    struct blocks blocks;
    static struct class_lists lists;
    start(&blocks, &lists);
    uint32_t first = add(&blocks, &lists, 9);
    uint32_t second = add(&blocks, &lists, 9);
    uint32_t third = add(&blocks, &lists, 9);
    assert_int_equal(lists.heads[9], third);
    class_lists_remove(&lists, &blocks, second);
    assert_int_equal(lists.heads[9], third);
    class_lists_remove(&lists, &blocks, third);
    assert_int_equal(lists.heads[9], first);
    class_lists_remove(&lists, &blocks, first);
    assert_int_equal(lists.heads[9], BLOCK_NONE);
    assert_int_equal(class_lists_highest(&lists), CLASS_NONE);
    blocks_release(&blocks);
}

static void test_the_ends_of_the_map_are_found(void **state)
{
    (void)state;
    struct blocks blocks;
    static struct class_lists lists;
    start(&blocks, &lists);
    assert_int_equal(class_lists_at_least(&lists, 0), CLASS_NONE);
    static const uint32_t classes[] = {1, 63, 64, 127, 1000, CLASS_LISTS_MAX - 1};
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        uint32_t block = add(&blocks, &lists, classes[i]);
        assert_int_equal(class_lists_at_least(&lists, 0), classes[i]);
        assert_int_equal(class_lists_at_least(&lists, classes[i]), classes[i]);
        assert_int_equal(class_lists_at_least(&lists, classes[i] + 1), CLASS_NONE);
        assert_int_equal(class_lists_highest(&lists), classes[i]);
        assert_null(broken_in(&lists, &blocks));
        class_lists_remove(&lists, &blocks, block);
        blocks_remove(&blocks, block);
        assert_int_equal(class_lists_highest(&lists), CLASS_NONE);
    }
    assert_int_equal(class_lists_at_least(&lists, CLASS_LISTS_MAX), CLASS_NONE);
    assert_int_equal(class_lists_at_least(&lists, UINT32_MAX), CLASS_NONE);
    blocks_release(&blocks);
}

static void test_it_answers_as_plain_counters_do(void **state)
{
    (void)state;
    static uint32_t counts[CLASS_LISTS_MAX];
    static struct class_lists lists;
    struct blocks blocks;
    start(&blocks, &lists);
    uint32_t listed[BLOCKS];
    size_t count = 0;
    uint64_t number = 1;
    for (uint32_t step = 0; step < 20000; step++) {
        number = number * UINT64_C(6364136223846793005) + 1442695040888963407u;
        uint32_t drawn = (uint32_t)(number >> 33);
        bool grow = count == 0 || (count < BLOCKS && (drawn & 1) == step / 1000 % 2);
        if (grow) {
            uint32_t class = 1 + (drawn >> 1) % (CLASS_LISTS_MAX - 1);
            class = class == 5 ? 6 : class;
            listed[count++] = add(&blocks, &lists, class);
            counts[class]++;
        } else {
            size_t place = (drawn >> 1) % count;
            counts[blocks_at(&blocks, listed[place])->bytes]--;
            class_lists_remove(&lists, &blocks, listed[place]);
            blocks_remove(&blocks, listed[place]);
            listed[place] = listed[--count];
        }
        uint32_t wanted = (drawn >> 12) % CLASS_LISTS_MAX;
        uint32_t expected = wanted;
        while (expected < CLASS_LISTS_MAX && counts[expected] == 0)
            expected++;
        assert_int_equal(class_lists_at_least(&lists, wanted),
                         expected < CLASS_LISTS_MAX ? expected : CLASS_NONE);
        if (step % 100 == 0)
            assert_null(broken_in(&lists, &blocks));
    }
    blocks_release(&blocks);
}

static void test_the_audit_finds_what_is_broken(void **state)
{
    (void)state;
    struct blocks blocks;
    static struct class_lists lists;
    start(&blocks, &lists);
    uint32_t first = add(&blocks, &lists, 9);
    uint32_t second = add(&blocks, &lists, 9);
    uint32_t unlisted = blocks_add(&blocks, 1, 5, BLOCK_FREE);
    assert_null(broken_in(&lists, &blocks));

    lists.words[0] = 0;
    assert_string_equal(broken_in(&lists, &blocks), "free_index_class");
    lists.words[0] = 1 << 9;
    lists.groups = 3;
    assert_string_equal(broken_in(&lists, &blocks), "free_index_class");
    lists.groups = 1;
    blocks.items[first].previous = BLOCK_NONE;
    assert_string_equal(broken_in(&lists, &blocks), "free_index_order");
    blocks.items[first].previous = second;
    blocks.items[first].next = second; /* round in a circle */
    assert_string_equal(broken_in(&lists, &blocks), "free_index_order");
    blocks.items[first].next = 1000;
    assert_string_equal(broken_in(&lists, &blocks), "free_index_member");
    blocks.items[first].next = BLOCK_NONE;
    blocks.items[second].next = BLOCK_NONE; /* loses one */
    assert_string_equal(broken_in(&lists, &blocks), "free_index_count");
    blocks.items[second].next = first;
    blocks_set_state(&blocks, first, BLOCK_USED);
    assert_string_equal(broken_in(&lists, &blocks), "free_index_member");
    blocks_set_state(&blocks, first, BLOCK_FREE);
    blocks.items[unlisted].bytes = 6; /* it should be listed now */
    assert_string_equal(broken_in(&lists, &blocks), "free_index_count");
    blocks.items[unlisted].bytes = 5;
    assert_null(broken_in(&lists, &blocks));
    blocks_release(&blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_head_is_the_block_pushed_last),
        cmocka_unit_test(test_the_ends_of_the_map_are_found),
        cmocka_unit_test(test_it_answers_as_plain_counters_do),
        cmocka_unit_test(test_the_audit_finds_what_is_broken),
    };
    return cmocka_run_group_tests_name("class_lists", tests, NULL, NULL);
}
