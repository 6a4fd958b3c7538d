/* Tests of client/cli/top_draw.c: whole screens, without a terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/version.h"
#include "client/cli/top_view.h"
#include "tests/support/chaos.h"

enum {
    CELLS = 400,
    MOST_PROCESSES = 100
};

struct scene {
    struct worsegpu_client_cell cells[CELLS];
    struct top_process processes[MOST_PROCESSES];
    struct top_view view;
    struct top_grid grid;
    char row[TOP_MAX_SIDE + 1];
};

/* Half a GPU is used by two, the rest is free, forgotten, waiting and not reserved. */
static void begin(struct scene *scene)
{
    memset(scene, 0, sizeof(*scene));
    for (size_t i = 0; i < CELLS; i++) {
        struct worsegpu_client_cell *cell = &scene->cells[i];
        if (i < 100)
            *cell = (struct worsegpu_client_cell){.used = 60, .free = 40, .client = 3};
        else if (i < 200)
            *cell = (struct worsegpu_client_cell){.used = 100, .client = 5};
        else if (i < 220)
            *cell = (struct worsegpu_client_cell){.used = 10, .free = 90, .client = 5};
        else if (i < 240)
            *cell = (struct worsegpu_client_cell){.forgotten = 100};
        else if (i < 260)
            *cell = (struct worsegpu_client_cell){.pending = 1};
        else if (i < 280)
            *cell = (struct worsegpu_client_cell){.used = 100};
    }
    struct top_view *view = &scene->view;
    scene->processes[0] = (struct top_process){
        .peer = {.client = 5,
                 .process = 4242,
                 .user = 1000,
                 .name = "trainer",
                 .gpu_bytes = 32u << 20,
                 .cpu_bytes = 5000,
                 .allocations = 7},
        .rank = 1,
        .requests = 12.25,
    };
    scene->processes[1] = (struct top_process){
        .peer = {.client = 3, .process = 99, .gpu_bytes = 1, .allocations = 1}};
    view->processes = scene->processes;
    view->process_count = 2;
    view->cells = scene->cells;
    view->cell_count = CELLS;
    view->cell_bytes = 100;
    snprintf(view->daemon, sizeof(view->daemon), "worsegpud 1.2.3, process 1");
    snprintf(view->gpu, sizeof(view->gpu), "gpu0");
    view->gpu_count = 2;
    view->snapshot.gpu_capacity = 64u << 20;
    view->snapshot.gpu_used = 32u << 20;
    view->snapshot.gpu_free = 2048;
    view->snapshot.gpu_forgotten = 1024;
    view->snapshot.gpu_blocks = 12;
    view->snapshot.cpu_bytes = 5000;
    view->snapshot.active_allocations = 8;
    view->snapshot.fragmentation = 0.25;
    snprintf(view->snapshot.detail.policy, sizeof(view->snapshot.detail.policy), "worse");
    view->rates = (struct top_rates){true, 10.0, 2.5, 0.0, 12.25};
    for (size_t i = 0; i < 20; i++)
        snprintf(view->events[view->event_count++], TOP_EVENT_SIZE, "%zu allocate", i + 1);
    top_grid_init(&scene->grid, memory_system());
}

static void draw(struct scene *scene, size_t columns, size_t rows)
{
    assert_int_equal(top_grid_resize(&scene->grid, columns, rows), 0);
    memset(scene->grid.cells, 0, columns * rows * sizeof(*scene->grid.cells));
    top_draw(&scene->view, &scene->grid);
    for (size_t i = 0; i < columns * rows; i++)
        assert_in_range(scene->grid.cells[i].character, ' ', '~');
}

static void end(struct scene *scene)
{
    top_grid_release(&scene->grid);
}

/* A row without the blanks at its end. */
static const char *row_of(struct scene *scene, size_t row)
{
    size_t length = scene->grid.columns;
    for (size_t i = 0; i < length; i++)
        scene->row[i] = scene->grid.cells[row * length + i].character;
    while (length > 0 && scene->row[length - 1] == ' ')
        length--;
    scene->row[length] = '\0';
    return scene->row;
}

static void assert_screen(struct scene *scene, const char *const *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_string_equal(row_of(scene, i), rows[i]);
}

static enum top_style style_at(const struct scene *scene, size_t row, size_t column)
{
    return (enum top_style)scene->grid.cells[row * scene->grid.columns + column].style;
}

#define TITLE "gpu0 (worse) 1 of 2  top " WORSEGPU_VERSION ", worsegpud 1.2.3, process 1"
#define ACCOUNTS "32.0 MiB used, 2.0 KiB free, 1.0 KiB forgotten of 64.0 MiB, 25% frag, 12 blocks"
#define RATES                                                                                      \
    "10.0 allocations, 2.5 frees, 0.0 full, 12.2 requests a second; 8 live, 4.9 KiB on the host"

static void test_a_screen_of_80_by_24(void **state)
{
    static const char *const rows[] = {
        /* NOLINTNEXTLINE(bugprone-suspicious-missing-comma): one row in two pieces */
        TITLE,
        "32.0 MiB used, 2.0 KiB free, 1.0 KiB forgotten of 64.0 MiB, 25% frag, 12 blocks",
        "10.0 allocations, 2.5 frees, 0.0 full, 12.2 requests a second; 8 live, 4.9 KiB o",
        "MAP  100.0 B a cell  # used  . free  x forgotten  ~ pending",
        "|##############################################################################|",
        "|##############################################################################|",
        "|#######################################....................xxxxxxxxxxxxxxxxxxx|",
        "|~~~~~~~~~~~~~~~~~~~~###################                                       |",
        "|                                                                              |",
        "  client process  user name             gpu        host  live   req/s",
        "B      5    4242  1000 trainer     32.0 MiB     4.9 KiB     7    12.2 [====    ]",
        "A      3      99     0 -              1.0 B       0.0 B     1     0.0 [=       ]",
        "EVENTS",
        "  11 allocate",
        "  12 allocate",
        "  13 allocate",
        "  14 allocate",
        "  15 allocate",
        "  16 allocate",
        "  17 allocate",
        "  18 allocate",
        "  19 allocate",
        "  20 allocate",
        "q quit  h help  s sort: gpu  p map: blocks  g next GPU  space pause",
    };
    struct scene scene;
    (void)state;
    begin(&scene);
    draw(&scene, 80, 24);
    assert_screen(&scene, rows, 24);
    end(&scene);
}

static void test_a_screen_of_200_by_50(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene);
    draw(&scene, 200, 50);
    assert_int_equal(top_map_cells(200, 50), 990);
    assert_string_equal(row_of(&scene, 1), ACCOUNTS);
    assert_string_equal(row_of(&scene, 2), RATES);
    /* 400 cells in 5 rows of 198. */
    for (size_t i = 0; i < 5; i++) {
        const char *row = row_of(&scene, 4 + i);
        assert_int_equal(strlen(row), 200);
        assert_int_equal(row[0], '|');
        assert_int_equal(row[199], '|');
    }
    assert_int_equal(strspn(row_of(&scene, 5) + 1, "#"), 198);
    assert_string_equal(row_of(&scene, 9),
                        "  client process  user name                             gpu        host  "
                        "live   req/s");
    const char *bar = strchr(row_of(&scene, 10), '[');
    assert_non_null(bar);
    assert_int_equal(strspn(bar + 1, "="), (strlen(bar) - 2) / 2);
    assert_string_equal(row_of(&scene, 12), "EVENTS");
    assert_string_equal(row_of(&scene, 13), "  1 allocate");
    assert_string_equal(row_of(&scene, 32), "  20 allocate");
    assert_string_equal(row_of(&scene, 33), "");
    end(&scene);
}

static void test_no_size_is_too_small_or_too_large(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 3, 5, 7, 8, 20, 33, 80, 300, TOP_MAX_SIDE, 5000};
    struct scene scene;
    (void)state;
    begin(&scene);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            for (int kind = 0; kind < 4; kind++) {
                scene.view.help = kind == 1;
                scene.view.process_count = kind == 2 ? 0 : 2;
                scene.view.cell_count = kind == 2 ? 0 : CELLS;
                scene.view.event_count = kind == 3 ? TOP_EVENTS : 0;
                assert_int_equal(top_grid_resize(&scene.grid, sizes[i], sizes[k]), 0);
                top_draw(&scene.view, &scene.grid);
                assert_in_range(top_map_cells(sizes[i], sizes[k]), 1, 1000);
            }
        }
    }
    end(&scene);
}

static void test_a_screen_of_20_by_5_has_the_head_and_the_keys(void **state)
{
    static const char *const rows[] = {
        "gpu0 (worse) 1 of 2",  "32.0 MiB used, 2.0 K", "10.0 allocations, 2.", "",
        "q quit  h help  s so",
    };
    struct scene scene;
    (void)state;
    begin(&scene);
    draw(&scene, 20, 5);
    assert_screen(&scene, rows, 5);
    end(&scene);
}

static void test_the_map_by_process_has_letters_and_colours(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene);
    scene.view.by_process = true;
    draw(&scene, 80, 24);
    /* 400 cells are spread over 5 rows of 78. */
    assert_int_equal(strspn(row_of(&scene, 4) + 1, "A"), 78);
    assert_int_equal(strspn(row_of(&scene, 6) + 1, "B"), 39);
    assert_int_equal(style_at(&scene, 4, 1), TOP_PROCESS);
    assert_int_equal(style_at(&scene, 6, 1), TOP_PROCESS + 1);
    /* Used, and not to be seen by whom. */
    assert_int_equal(strspn(row_of(&scene, 7) + 21, "#"), 19);
    end(&scene);
}

static void test_each_kind_has_its_own_style(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene);
    draw(&scene, 80, 24);
    assert_int_equal(style_at(&scene, 0, 79), TOP_BAR);
    assert_int_equal(style_at(&scene, 4, 1), TOP_USED);
    assert_int_equal(style_at(&scene, 6, 50), TOP_FREE);
    assert_int_equal(style_at(&scene, 6, 70), TOP_FORGOTTEN);
    assert_int_equal(style_at(&scene, 7, 10), TOP_PENDING);
    assert_int_equal(style_at(&scene, 8, 40), TOP_PLAIN);
    end(&scene);
}

static void test_trouble_stands_where_the_keys_were(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene);
    snprintf(scene.view.trouble, sizeof(scene.view.trouble), "trying again: it is gone");
    draw(&scene, 80, 24);
    assert_string_equal(row_of(&scene, 23), "trying again: it is gone");
    assert_int_equal(style_at(&scene, 23, 0), TOP_BAD);
    end(&scene);
}

static void test_a_pause_and_the_order_are_shown(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene);
    scene.view.paused = true;
    scene.view.sort = TOP_BY_CLIENT;
    draw(&scene, 100, 24);
    assert_non_null(strstr(row_of(&scene, 0), "PAUSED"));
    assert_string_equal(row_of(&scene, 23),
                        "q quit  h help  s sort: client  p map: blocks  g next GPU  space go on");
    end(&scene);
}

static void test_foreign_texts_cannot_move_the_cursor(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene);
    scene.view.event_count = 1;
    snprintf(scene.view.events[0], TOP_EVENT_SIZE, "1 \x1b[2J\xc3\xa4\n");
    draw(&scene, 80, 24);
    assert_string_equal(row_of(&scene, 13), "  1 ?[2J???");
    end(&scene);
}

static void test_many_processes_leave_room_for_events(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene);
    for (size_t i = 0; i < MOST_PROCESSES; i++)
        scene.processes[i] = (struct top_process){.peer = {.client = i + 1}, .rank = i};
    scene.view.process_count = MOST_PROCESSES;
    draw(&scene, 80, 24);
    assert_string_equal(row_of(&scene, 19), "EVENTS");
    assert_string_equal(row_of(&scene, 22), "  20 allocate");
    draw(&scene, 80, 100);
    assert_int_equal(scene.grid.cells[(size_t)(17 + 51) * 80].character, 'z');
    assert_int_equal(scene.grid.cells[(size_t)(17 + 52) * 80].character, '+');
    end(&scene);
}

static void test_a_grid_without_memory_stays_as_it_was(void **state)
{
    struct chaos chaos;
    struct top_grid grid;
    (void)state;
    chaos_init(&chaos);
    top_grid_init(&grid, &chaos.memory);
    assert_int_equal(top_grid_resize(&grid, 10, 10), 0);
    chaos_arm(&chaos, 1, true);
    assert_int_equal(top_grid_resize(&grid, 100, 100), -1);
    assert_int_equal(grid.columns, 10);
    assert_int_equal(grid.rows, 10);
    top_grid_release(&grid);
    assert_int_equal(chaos.live_pieces, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_screen_of_80_by_24),
        cmocka_unit_test(test_a_screen_of_200_by_50),
        cmocka_unit_test(test_no_size_is_too_small_or_too_large),
        cmocka_unit_test(test_a_screen_of_20_by_5_has_the_head_and_the_keys),
        cmocka_unit_test(test_the_map_by_process_has_letters_and_colours),
        cmocka_unit_test(test_each_kind_has_its_own_style),
        cmocka_unit_test(test_trouble_stands_where_the_keys_were),
        cmocka_unit_test(test_a_pause_and_the_order_are_shown),
        cmocka_unit_test(test_foreign_texts_cannot_move_the_cursor),
        cmocka_unit_test(test_many_processes_leave_room_for_events),
        cmocka_unit_test(test_a_grid_without_memory_stays_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
