/* Tests of lib/map.c: the fake GPU's range in cells, with each policy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/support/chaos.h"
#include "tests/support/engine.h"

static struct worsegpu_config config_of(const char *policy, uint64_t capacity)
{
    struct worsegpu_config config = engine_config("7");
    config.policy = policy;
    config.gpu_capacity = capacity;
    config.fallback_on_oom = true;
    return config;
}

/* Four blocks of 1000 bytes, the second one freed, the third forgotten. */
static worsegpu_allocator *four_blocks(int *owner)
{
    struct worsegpu_config config = config_of("list_fit", 10000);
    worsegpu_allocator *allocator = engine_create(&config);
    struct worsegpu_allocation made[4];
    for (size_t i = 0; i < 4; i++) {
        struct worsegpu_request request = engine_request(1000);
        request.owner = owner;
        assert_int_equal(worsegpu_allocate(allocator, &request, &made[i]), WORSEGPU_OK);
        assert_int_equal(made[i].offset, i * 1000);
        assert_int_equal(made[i].reserved_bytes, 1000);
    }
    assert_int_equal(worsegpu_free(allocator, &made[1].handle, 0, 0, NULL), WORSEGPU_OK);
    assert_int_equal(worsegpu_forget(allocator, &made[2].handle, 0, 0, NULL), WORSEGPU_OK);
    return allocator;
}

static void test_each_cell_has_what_lies_in_it(void **state)
{
    int owner;
    struct worsegpu_cell cells[10];
    struct worsegpu_map map;
    (void)state;
    worsegpu_allocator *allocator = four_blocks(&owner);
    assert_int_equal(worsegpu_map(allocator, 0, 0, cells, 10, &map), WORSEGPU_OK);
    assert_int_equal(map.from, 0);
    assert_int_equal(map.bytes, 10000);
    assert_int_equal(map.cell_bytes, 1000);
    assert_int_equal(map.cells, 10);
    assert_int_equal(cells[0].used_bytes, 1000);
    assert_int_equal(cells[0].allocation_id, 1);
    assert_int_equal(cells[0].allocation_bytes, 1000);
    assert_ptr_equal(cells[0].owner, &owner);
    assert_int_equal(cells[1].free_bytes, 1000);
    assert_int_equal(cells[1].used_bytes, 0);
    assert_int_equal(cells[1].allocation_id, 0);
    assert_null(cells[1].owner);
    assert_int_equal(cells[2].forgotten_bytes, 1000);
    assert_int_equal(cells[3].used_bytes, 1000);
    assert_int_equal(cells[3].allocation_id, 4);
    assert_int_equal(cells[9].used_bytes, 0);
    worsegpu_destroy(allocator);
}

static void test_a_block_is_cut_at_the_edges_of_cells(void **state)
{
    int owner;
    struct worsegpu_cell cells[3];
    struct worsegpu_map map;
    (void)state;
    worsegpu_allocator *allocator = four_blocks(&owner);
    /* 500 to 3100 in cells of 867, 867 and 866. */
    assert_int_equal(worsegpu_map(allocator, 500, 2600, cells, 3, &map), WORSEGPU_OK);
    assert_int_equal(map.cell_bytes, 867);
    assert_int_equal(map.cells, 3);
    assert_int_equal(cells[0].used_bytes, 500);
    assert_int_equal(cells[0].free_bytes, 367);
    assert_int_equal(cells[0].allocation_id, 1);
    assert_int_equal(cells[1].free_bytes, 633);
    assert_int_equal(cells[1].forgotten_bytes, 234);
    assert_int_equal(cells[2].forgotten_bytes, 766);
    assert_int_equal(cells[2].used_bytes, 100);
    assert_int_equal(cells[2].allocation_id, 4);
    assert_int_equal(cells[2].allocation_bytes, 100);
    worsegpu_destroy(allocator);
}

static void test_who_has_most_of_a_cell_has_it_and_the_first_of_equals(void **state)
{
    struct worsegpu_config config = config_of("list_fit", 10000);
    struct worsegpu_cell cells[5];
    struct worsegpu_map map;
    (void)state;
    worsegpu_allocator *allocator = engine_create(&config);
    const uint64_t sizes[] = {500, 1500, 1000, 1000, 1999, 1};
    for (size_t i = 0; i < 6; i++)
        engine_allocate(allocator, sizes[i]);
    assert_int_equal(worsegpu_map(allocator, 0, 0, cells, 5, &map), WORSEGPU_OK);
    assert_int_equal(cells[0].allocation_id, 2);
    assert_int_equal(cells[1].allocation_id, 3);
    assert_int_equal(cells[2].allocation_id, 5);
    assert_int_equal(cells[2].used_bytes, 2000);
    assert_int_equal(cells[2].free_bytes, 0);
    assert_int_equal(cells[3].allocation_id, 0);
    worsegpu_destroy(allocator);
}

static void test_a_range_that_does_not_go_into_so_many_cells_has_fewer(void **state)
{
    int owner;
    struct worsegpu_cell cells[8];
    struct worsegpu_map map;
    (void)state;
    worsegpu_allocator *allocator = four_blocks(&owner);
    assert_int_equal(worsegpu_map(allocator, 0, 5, cells, 8, &map), WORSEGPU_OK);
    assert_int_equal(map.cell_bytes, 1);
    assert_int_equal(map.cells, 5);
    assert_int_equal(worsegpu_map(allocator, 0, 9, cells, 8, &map), WORSEGPU_OK);
    assert_int_equal(map.cell_bytes, 2);
    assert_int_equal(map.cells, 5);
    assert_int_equal(cells[4].used_bytes, 1);
    worsegpu_destroy(allocator);
}

static void test_a_map_from_beyond_the_end_is_empty(void **state)
{
    int owner;
    struct worsegpu_cell cells[4];
    struct worsegpu_map map;
    (void)state;
    worsegpu_allocator *allocator = four_blocks(&owner);
    assert_int_equal(worsegpu_map(allocator, 10000, 0, cells, 4, &map), WORSEGPU_OK);
    assert_int_equal(map.bytes, 0);
    assert_int_equal(map.cells, 0);
    assert_int_equal(worsegpu_map(allocator, 9000, 5000, cells, 4, &map), WORSEGPU_OK);
    assert_int_equal(map.bytes, 5000);
    assert_int_equal(map.cells, 4);
    assert_int_equal(cells[0].used_bytes + cells[0].free_bytes, 0);
    worsegpu_destroy(allocator);
}

static void test_what_a_resize_leaves_above_the_capacity_is_shown(void **state)
{
    int owner;
    struct worsegpu_cell cells[4];
    struct worsegpu_map map;
    (void)state;
    worsegpu_allocator *allocator = four_blocks(&owner);
    assert_int_equal(worsegpu_resize(allocator, 100), WORSEGPU_OK);
    assert_int_equal(worsegpu_map(allocator, 0, 0, cells, 4, &map), WORSEGPU_OK);
    assert_true(map.bytes >= 4000);
    assert_true(cells[3].used_bytes > 0 || cells[1].forgotten_bytes > 0);
    worsegpu_destroy(allocator);
}

static void test_wrong_counts_and_ranges_are_refused(void **state)
{
    static struct worsegpu_cell cells[WORSEGPU_MAX_CELLS];
    int owner;
    struct worsegpu_map map;
    (void)state;
    worsegpu_allocator *allocator = four_blocks(&owner);
    assert_int_equal(worsegpu_map(allocator, 0, 0, cells, 0, &map), WORSEGPU_INVALID_ARGUMENT);
    assert_int_equal(worsegpu_map(allocator, 0, 0, cells, WORSEGPU_MAX_CELLS + 1, &map),
                     WORSEGPU_INVALID_ARGUMENT);
    assert_int_equal(worsegpu_map(allocator, UINT64_MAX, 1, cells, 1, &map),
                     WORSEGPU_INVALID_ARGUMENT);
    assert_int_equal(worsegpu_map(allocator, 0, UINT64_MAX, cells, WORSEGPU_MAX_CELLS, &map),
                     WORSEGPU_OK);
    worsegpu_destroy(allocator);
}

/* ------------------------------------------------------------------------------ every policy */

enum {
    MOST_LIVE = 64
};

/* Allocations and frees of all sizes, some forgotten. */
static void use(worsegpu_allocator *allocator, size_t steps)
{
    struct worsegpu_handle handles[MOST_LIVE];
    size_t live = 0;
    uint64_t number = 99;
    for (size_t step = 0; step < steps; step++) {
        number = number * 6364136223846793005u + 1442695040888963407u;
        struct worsegpu_request request = engine_request(1 + (number >> 33) % 300000);
        struct worsegpu_allocation allocation;
        if (live < MOST_LIVE && number >> 62 != 0 &&
            worsegpu_allocate(allocator, &request, &allocation) == WORSEGPU_OK) {
            handles[live++] = allocation.handle;
        } else if (live > 0) {
            size_t place = (size_t)(number >> 20) % live;
            assert_int_equal(number >> 60 == 0
                                 ? worsegpu_forget(allocator, &handles[place], 0, 0, NULL)
                                 : worsegpu_free(allocator, &handles[place], 0, 0, NULL),
                             WORSEGPU_OK);
            handles[place] = handles[--live];
        }
    }
}

/* The sums over a map are those of the snapshot, whatever its cells are. */
static void assert_sums(worsegpu_allocator *allocator, size_t count)
{
    static struct worsegpu_cell cells[WORSEGPU_MAX_CELLS];
    struct worsegpu_map map;
    struct worsegpu_snapshot snapshot;
    struct worsegpu_cell sum = {0};
    worsegpu_snapshot(allocator, &snapshot);
    assert_int_equal(worsegpu_map(allocator, 0, 0, cells, count, &map), WORSEGPU_OK);
    assert_true(map.cells <= count);
    for (size_t i = 0; i < map.cells; i++) {
        const struct worsegpu_cell *cell = &cells[i];
        assert_true(cell->used_bytes + cell->free_bytes + cell->forgotten_bytes +
                        cell->pending_bytes <=
                    map.cell_bytes);
        assert_true(cell->used_bytes > 0 || cell->allocation_bytes < 64);
        assert_int_equal(cell->allocation_id > 0, cell->allocation_bytes > 0);
        sum.used_bytes += cell->used_bytes;
        sum.free_bytes += cell->free_bytes;
        sum.forgotten_bytes += cell->forgotten_bytes;
        sum.pending_bytes += cell->pending_bytes;
    }
    assert_int_equal(sum.used_bytes, snapshot.gpu_used);
    assert_int_equal(sum.forgotten_bytes, snapshot.gpu_forgotten);
    assert_int_equal(sum.pending_bytes, snapshot.gpu_pending);
    assert_int_equal(sum.free_bytes + sum.pending_bytes, snapshot.gpu_free);
}

static void test_with_every_policy_the_cells_add_up_to_the_snapshot(void **state)
{
    const char *policy;
    (void)state;
    for (size_t i = 0; (policy = worsegpu_policy_name(i)) != NULL; i++) {
        struct worsegpu_config config = config_of(policy, 8u << 20);
        worsegpu_allocator *allocator = engine_create(&config);
        for (size_t round = 0; round < 5; round++) {
            use(allocator, 100);
            assert_sums(allocator, 1);
            assert_sums(allocator, 77);
            assert_sums(allocator, WORSEGPU_MAX_CELLS);
        }
        worsegpu_destroy(allocator);
    }
}

static void test_a_map_is_the_same_when_memory_runs_out_and_changes_nothing(void **state)
{
    static struct engine_state before;
    static struct engine_state after;
    static struct worsegpu_cell cells[2][100];
    const char *policy;
    (void)state;
    for (size_t i = 0; (policy = worsegpu_policy_name(i)) != NULL; i++) {
        struct chaos chaos;
        struct worsegpu_map map[2];
        chaos_init(&chaos);
        struct worsegpu_config config = config_of(policy, 8u << 20);
        config.memory = &chaos.memory;
        worsegpu_allocator *allocator = engine_create(&config);
        use(allocator, 200);
        engine_look(allocator, &before);
        memset(cells, 0, sizeof(cells));
        for (size_t turn = 0; turn < 2; turn++) {
            assert_int_equal(worsegpu_map(allocator, 0, 0, cells[turn], 100, &map[turn]),
                             WORSEGPU_OK);
            chaos_arm(&chaos, 1, true);
        }
        assert_int_equal(map[0].cells, map[1].cells);
        assert_memory_equal(cells[0], cells[1], sizeof(cells[0]));
        chaos_arm(&chaos, 0, false);
        engine_look(allocator, &after);
        engine_assert_same(&before, &after, false);
        worsegpu_destroy(allocator);
        assert_int_equal(chaos.live_pieces, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_cell_has_what_lies_in_it),
        cmocka_unit_test(test_a_block_is_cut_at_the_edges_of_cells),
        cmocka_unit_test(test_who_has_most_of_a_cell_has_it_and_the_first_of_equals),
        cmocka_unit_test(test_a_range_that_does_not_go_into_so_many_cells_has_fewer),
        cmocka_unit_test(test_a_map_from_beyond_the_end_is_empty),
        cmocka_unit_test(test_what_a_resize_leaves_above_the_capacity_is_shown),
        cmocka_unit_test(test_wrong_counts_and_ranges_are_refused),
        cmocka_unit_test(test_with_every_policy_the_cells_add_up_to_the_snapshot),
        cmocka_unit_test(test_a_map_is_the_same_when_memory_runs_out_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
