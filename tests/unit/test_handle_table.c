/* The table of live allocations against a plain list of what should be in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "lib/handle_table.h"
#include "lib/python_random.h"
#include "tests/support/chaos.h"

static const struct keyed_hash test_key = {
    {UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)}};

static void append(struct handle_table *table, uint64_t id)
{
    assert_int_equal(handle_table_reserve(table), WORSEGPU_OK);
    struct handle_record record = {.id = id, .requested_bytes = id * 3};
    handle_table_append(table, &record);
}

static void remove_id(struct handle_table *table, uint64_t id)
{
    struct handle_record *record = handle_table_find(table, id);
    assert_non_null(record);
    handle_table_remove(table, record);
}

static void test_an_id_leads_to_its_record(void **state)
{
    (void)state;
    struct handle_table table;
    handle_table_init(&table, &test_key, memory_system());
    assert_null(handle_table_find(&table, 1));
    for (uint64_t id = 1; id <= 1000; id++)
        append(&table, id);
    for (uint64_t id = 1; id <= 1000; id++)
        assert_int_equal(handle_table_find(&table, id)->requested_bytes, id * 3);
    assert_null(handle_table_find(&table, 0));
    assert_null(handle_table_find(&table, 1001));
    assert_null(handle_table_find(&table, UINT64_MAX));
    handle_table_release(&table);
}

static void test_a_removed_id_is_gone(void **state)
{
    (void)state;
    struct handle_table table;
    handle_table_init(&table, &test_key, memory_system());
    append(&table, 1);
    append(&table, 2);
    remove_id(&table, 2);
    assert_null(handle_table_find(&table, 2));
    assert_non_null(handle_table_find(&table, 1));
    append(&table, 3);
    assert_null(handle_table_find(&table, 2));
    assert_int_equal(handle_table_find(&table, 3)->id, 3);
    handle_table_release(&table);
}

/* The ids differ by exactly 2^32, so that their slots look alike. */
static void test_ids_that_share_their_low_half_are_told_apart(void **state)
{
    (void)state;
    struct handle_table table;
    handle_table_init(&table, &test_key, memory_system());
    for (uint64_t id = 1; id <= 100; id++)
        append(&table, id);
    for (uint64_t id = 2; id <= 100; id++)
        remove_id(&table, id);
    assert_true(table.survivors > 0 && table.survivors == table.length);
    uint64_t twin = (UINT64_C(1) << 32) + 1;
    assert_null(handle_table_find(&table, twin));
    assert_int_equal(handle_table_find(&table, 1)->id, 1);
    handle_table_release(&table);
}

static void test_holes_are_squeezed_out(void **state)
{
    (void)state;
    struct handle_table table;
    handle_table_init(&table, &test_key, memory_system());
    for (uint64_t id = 1; id <= 1000; id++)
        append(&table, id);
    for (uint64_t id = 1; id <= 900; id++)
        remove_id(&table, id);
    assert_true(table.length <= 300);
    assert_int_equal(table.live, 100);
    for (uint64_t id = 901; id <= 1000; id++)
        assert_int_equal(handle_table_find(&table, id)->id, id);
    handle_table_release(&table);
}

static void test_many_rounds_do_not_make_it_grow(void **state)
{
    (void)state;
    struct handle_table table;
    handle_table_init(&table, &test_key, memory_system());
    for (uint64_t id = 1; id <= 100000; id++) {
        append(&table, id);
        if (id > 10)
            remove_id(&table, id - 10);
    }
    assert_true(table.capacity <= 128);
    assert_true(table.slot_count <= 64);
    handle_table_release(&table);
}

/* The naive model: a flag for each id. */
enum {
    MODEL_IDS = 4000
};

static void assert_lists_match(struct handle_table *table, const bool *live, uint64_t last)
{
    const struct handle_record *record = handle_table_after(table, 0);
    for (uint64_t id = 1; id <= last; id++) {
        if (!live[id])
            continue;
        assert_non_null(record);
        assert_int_equal(record->id, id);
        record = handle_table_next(table, record);
    }
    assert_null(record);
}

static void assert_after_matches(struct handle_table *table, const bool *live, uint64_t last,
                                 uint64_t after)
{
    uint64_t expected = after + 1;
    while (expected <= last && !live[expected])
        expected++;
    const struct handle_record *record = handle_table_after(table, after);
    if (expected > last)
        assert_null(record);
    else
        assert_int_equal(record->id, expected);
}

static void test_random_use_agrees_with_a_list_of_flags(void **state)
{
    (void)state;
    static bool live[MODEL_IDS + 1];
    for (unsigned seed = 0; seed < 20; seed++) {
        char text[8];
        struct python_random random;
        snprintf(text, sizeof(text), "%u", seed);
        assert_int_equal(python_random_seed(&random, text, memory_system()), 0);
        memset(live, 0, sizeof(live));
        struct handle_table table;
        handle_table_init(&table, &test_key, memory_system());
        uint64_t last = 0;
        for (int step = 0; step < 6000; step++) {
            if (last < MODEL_IDS && python_random_choice(&random, 5) < 2 + seed % 3) {
                append(&table, ++last);
                live[last] = true;
            }
            uint64_t id = last ? 1 + python_random_choice(&random, (uint32_t)last) : 1;
            struct handle_record *record = handle_table_find(&table, id);
            assert_int_equal(record != NULL, live[id]);
            if (record && python_random_choice(&random, 2)) {
                handle_table_remove(&table, record);
                live[id] = false;
            }
            if (step % 16 == 0)
                assert_after_matches(&table, live, last, python_random_choice(&random, MODEL_IDS));
            if (step % 500 == 0)
                assert_lists_match(&table, live, last);
        }
        handle_table_release(&table);
    }
}

static void test_after_the_last_there_is_nothing(void **state)
{
    (void)state;
    struct handle_table table;
    handle_table_init(&table, &test_key, memory_system());
    assert_null(handle_table_after(&table, 0));
    append(&table, 1);
    append(&table, 2);
    assert_null(handle_table_after(&table, 2));
    assert_null(handle_table_after(&table, UINT64_MAX));
    remove_id(&table, 2);
    assert_null(handle_table_after(&table, 1));
    handle_table_release(&table);
}

static bool use_in_chaos(struct chaos *chaos, void *context)
{
    (void)context;
    struct handle_table table;
    handle_table_init(&table, &test_key, &chaos->memory);
    bool through = true;
    for (uint64_t id = 1; id <= 300 && through; id++) {
        size_t length = table.length;
        if (handle_table_reserve(&table) != WORSEGPU_OK) {
            assert_int_equal(table.length, length);
            through = false;
            continue;
        }
        struct handle_record record = {.id = id};
        handle_table_append(&table, &record);
        if (id > 100)
            remove_id(&table, id - 100);
    }
    for (size_t i = 0; i < table.length; i++) {
        if (table.records[i].skip == 0)
            assert_ptr_equal(handle_table_find(&table, table.records[i].id), &table.records[i]);
    }
    handle_table_release(&table);
    return through;
}

static void test_without_memory_nothing_changes(void **state)
{
    (void)state;
    assert_true(chaos_loop(use_in_chaos, NULL) > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_id_leads_to_its_record),
        cmocka_unit_test(test_a_removed_id_is_gone),
        cmocka_unit_test(test_ids_that_share_their_low_half_are_told_apart),
        cmocka_unit_test(test_holes_are_squeezed_out),
        cmocka_unit_test(test_many_rounds_do_not_make_it_grow),
        cmocka_unit_test(test_random_use_agrees_with_a_list_of_flags),
        cmocka_unit_test(test_after_the_last_there_is_nothing),
        cmocka_unit_test(test_without_memory_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
