/* Drawing what `top` shows into a grid; see top_view.h.
 *
 * From above: a title, the accounts, the rates; then the map, the processes, the events; at the
 * bottom the keys. What does not fit is cut off at the right and left out from below. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes_text.h"
#include "base/memory.h"
#include "base/version.h"
#include "client/cli/top_view.h"
#include "proto/limits.h"

enum {
    HEAD_ROWS = 3, /* title, accounts, rates */
    FOOT_ROWS = 1, /* keys */
    MAP_SHARE = 4, /* the map has a quarter of the rest ... */
    MAP_ROWS = 12, /* ... and at most so many rows */
    LEAST_EVENTS = 3,
    WIDE = 110, /* from so many columns on there is room for longer names */
    NAME_COLUMNS = 8,
    WIDE_NAME_COLUMNS = 24,
    PROCESS_COLOURS = TOP_STYLES - TOP_PROCESS
};

/* Where each part has its rows; 0 rows: it is left out. */
struct layout {
    size_t map_rows; /* without the line above it */
    size_t process_rows;
    size_t event_rows;
};

/* ------------------------------------------------------------------------------ the grid */

void top_grid_init(struct top_grid *grid, const struct worsegpu_memory *memory)
{
    *grid = (struct top_grid){.memory = memory};
}

void top_grid_release(struct top_grid *grid)
{
    memory_release_array(grid->memory, grid->cells, grid->capacity, sizeof(*grid->cells));
    top_grid_init(grid, grid->memory);
}

int top_grid_resize(struct top_grid *grid, size_t columns, size_t rows)
{
    columns = columns < TOP_MAX_SIDE ? columns : TOP_MAX_SIDE;
    rows = rows < TOP_MAX_SIDE ? rows : TOP_MAX_SIDE;
    if (columns * rows > 0 && memory_grow(grid->memory, &grid->cells, &grid->capacity,
                                          columns * rows, sizeof(*grid->cells)) != 0)
        return -1;
    grid->columns = columns;
    grid->rows = rows;
    return 0;
}

static void put(struct top_grid *grid, size_t row, size_t column, enum top_style style,
                char character)
{
    if (row >= grid->rows || column >= grid->columns)
        return;
    bool printable = character >= ' ' && character <= '~';
    grid->cells[row * grid->columns + column] =
        (struct top_cell){printable ? character : '?', (uint8_t)style};
}

/* The column behind the text. */
__attribute__((format(printf, 5, 6))) static size_t write_text(struct top_grid *grid, size_t row,
                                                               size_t column, enum top_style style,
                                                               const char *format, ...)
{
    char text[TOP_MAX_SIDE + 1];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    for (const char *at = text; *at; at++)
        put(grid, row, column++, style, *at);
    return column;
}

static void fill(struct top_grid *grid, size_t row, size_t column, size_t end, enum top_style style,
                 char character)
{
    for (; column < end && column < grid->columns; column++)
        put(grid, row, column, style, character);
}

/* ------------------------------------------------------------------------------ the layout */

static size_t least(size_t left, size_t right)
{
    return left < right ? left : right;
}

static size_t map_columns(size_t columns)
{
    return columns > 2 ? columns - 2 : 1;
}

static struct layout lay_out(size_t columns, size_t rows, size_t processes)
{
    struct layout layout = {0};
    if (rows <= HEAD_ROWS + FOOT_ROWS + 1)
        return layout;
    size_t body = rows - HEAD_ROWS - FOOT_ROWS;
    size_t most = PROTO_MAX_PAGE / map_columns(columns);
    layout.map_rows = least(least(body / MAP_SHARE, MAP_ROWS), most);
    if (layout.map_rows == 0)
        layout.map_rows = 1;
    body -= layout.map_rows + 1;
    if (body < 2)
        return layout;
    /* A title, and a line also where there is no process. */
    size_t wanted = processes > 0 ? processes : 1;
    size_t kept = body > LEAST_EVENTS + 3 ? LEAST_EVENTS + 1 : 0;
    layout.process_rows = least(wanted, body - 1 - kept);
    body -= layout.process_rows + 1;
    layout.event_rows = body > 1 ? body - 1 : 0;
    return layout;
}

size_t top_map_cells(size_t columns, size_t rows)
{
    columns = least(columns, TOP_MAX_SIDE);
    size_t map_rows = lay_out(columns, least(rows, TOP_MAX_SIDE), 1).map_rows;
    return least(map_columns(columns) * (map_rows > 0 ? map_rows : 1), PROTO_MAX_PAGE);
}

/* ------------------------------------------------------------------------------ head and foot */

static void draw_head(const struct top_view *view, struct top_grid *grid)
{
    char sizes[5][BYTES_TEXT_SIZE];
    const struct worsegpu_client_snapshot *snapshot = &view->snapshot;
    const uint64_t bytes[] = {snapshot->gpu_used, snapshot->gpu_free, snapshot->gpu_forgotten,
                              snapshot->gpu_capacity, snapshot->cpu_bytes};
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
        bytes_to_text(bytes[i], false, sizes[i]);
    fill(grid, 0, 0, grid->columns, TOP_BAR, ' ');
    write_text(grid, 0, 0, TOP_BAR, "%s (%s) %zu of %zu  top %s, %s%s", view->gpu,
               snapshot->detail.policy, view->gpu_index + 1, view->gpu_count, WORSEGPU_VERSION,
               view->daemon, view->paused ? "  PAUSED" : "");
    write_text(grid, 1, 0, TOP_PLAIN,
               "%s used, %s free, %s forgotten of %s, %.0f%% frag, %" PRIu64 " blocks", sizes[0],
               sizes[1], sizes[2], sizes[3], snapshot->fragmentation * 100.0, snapshot->gpu_blocks);
    size_t end;
    if (view->rates.known)
        end = write_text(grid, 2, 0, TOP_PLAIN,
                         "%.1f allocations, %.1f frees, %.1f full, %.1f requests a second",
                         view->rates.allocations, view->rates.frees, view->rates.full,
                         view->rates.requests);
    else
        end = write_text(grid, 2, 0, TOP_PLAIN,
                         "- allocations, - frees, - full, - requests a second");
    write_text(grid, 2, end, TOP_PLAIN, "; %" PRIu64 " live, %s on the host",
               snapshot->active_allocations, sizes[4]);
}

static const char *sort_name(enum top_sort sort)
{
    static const char *const names[TOP_SORTS] = {
        [TOP_BY_GPU] = "gpu", [TOP_BY_ALLOCATIONS] = "live", [TOP_BY_CLIENT] = "client"};
    return names[sort];
}

static void draw_foot(const struct top_view *view, struct top_grid *grid)
{
    size_t row = grid->rows - 1;
    bool trouble = view->trouble[0] != '\0';
    enum top_style style = trouble ? TOP_BAD : TOP_BAR;
    fill(grid, row, 0, grid->columns, style, ' ');
    if (trouble)
        write_text(grid, row, 0, style, "%s", view->trouble);
    else
        write_text(grid, row, 0, style,
                   "q quit  h help  s sort: %s  p map: %s  g next GPU  space %s",
                   sort_name(view->sort), view->by_process ? "processes" : "blocks",
                   view->paused ? "go on" : "pause");
}

static void draw_help(struct top_grid *grid)
{
    static const char *const lines[] = {
        "s      sort the processes: by GPU bytes, by live allocations, by connection",
        "p      the map shows blocks, or whose they are",
        "g      the next GPU",
        "space  pause, go on",
        "h ?    this help; any key ends it",
        "q      quit",
        "",
        "map:   # used  . free  x forgotten  ~ waiting for streams  blank: not reserved",
        "       by process: the letter of who has most of it; # is none of yours",
        "full:  allocations that found no room on the GPU",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]) && HEAD_ROWS + 1 + i + 1 < grid->rows;
         i++)
        write_text(grid, HEAD_ROWS + 1 + i, 1, TOP_PLAIN, "%s", lines[i]);
}

/* ------------------------------------------------------------------------------ the map */

static char letter_of(size_t rank)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    return rank < sizeof(letters) - 1 ? letters[rank] : '+';
}

static enum top_style colour_of(size_t rank)
{
    return (enum top_style)(TOP_PROCESS + (int)(rank % PROCESS_COLOURS));
}

static const struct top_process *process_of(const struct top_view *view, uint64_t client)
{
    for (size_t i = 0; client > 0 && i < view->process_count; i++) {
        if (view->processes[i].peer.client == client)
            return &view->processes[i];
    }
    return NULL;
}

/* A cell shows what it has most of; it is blank only when nothing of it is reserved. */
static void draw_cell(const struct top_view *view, struct top_grid *grid, size_t row, size_t column,
                      const struct worsegpu_client_cell *cell)
{
    const struct {
        uint64_t bytes;
        char character;
        enum top_style style;
    } kinds[] = {
        {cell->used, '#', TOP_USED},
        {cell->forgotten, 'x', TOP_FORGOTTEN},
        {cell->pending, '~', TOP_PENDING},
        {cell->free, '.', TOP_FREE},
    };
    size_t most = 0;
    for (size_t i = 1; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (kinds[i].bytes > kinds[most].bytes)
            most = i;
    }
    if (kinds[most].bytes == 0)
        return;
    const struct top_process *process = NULL;
    if (view->by_process && most == 0)
        process = process_of(view, cell->client);
    if (process)
        put(grid, row, column, colour_of(process->rank), letter_of(process->rank));
    else
        put(grid, row, column, kinds[most].style, kinds[most].character);
}

/* The row below it. */
static size_t draw_map(const struct top_view *view, struct top_grid *grid, size_t row, size_t rows)
{
    char size[BYTES_TEXT_SIZE];
    bytes_to_text(view->cell_bytes, false, size);
    size_t end = write_text(grid, row, 0, TOP_BOLD, "MAP");
    end = write_text(grid, row, end, TOP_PLAIN, "  %s a cell  ", size);
    end = write_text(grid, row, end, TOP_USED, "%s", view->by_process ? "A-z used" : "# used");
    end = write_text(grid, row, end + 2, TOP_FREE, ". free");
    end = write_text(grid, row, end + 2, TOP_FORGOTTEN, "x forgotten");
    write_text(grid, row, end + 2, TOP_PENDING, "~ pending");
    size_t columns = map_columns(grid->columns);
    size_t places = columns * rows;
    for (size_t place = 0; place < places; place++) {
        size_t at = row + 1 + place / columns;
        if (place % columns == 0 && grid->columns > 2) {
            put(grid, at, 0, TOP_PLAIN, '|');
            put(grid, at, grid->columns - 1, TOP_PLAIN, '|');
        }
        size_t column = place % columns + (grid->columns > 2 ? 1 : 0);
        if (view->cell_count > 0)
            draw_cell(view, grid, at, column, &view->cells[place * view->cell_count / places]);
    }
    return row + 1 + rows;
}

/* ------------------------------------------------------------------------------ lists */

/* How much of the GPU's capacity the process has, in all GPUs together. */
static void draw_bar(const struct top_view *view, struct top_grid *grid, size_t row, size_t column,
                     const struct top_process *process)
{
    if (column + 3 >= grid->columns)
        return;
    size_t room = grid->columns - column - 2;
    uint64_t capacity = view->snapshot.gpu_capacity;
    double share = capacity > 0 ? (double)process->peer.gpu_bytes / (double)capacity : 0.0;
    size_t full = share >= 1.0 ? room : (size_t)(share * (double)room + 0.5);
    if (full == 0 && process->peer.gpu_bytes > 0)
        full = 1;
    put(grid, row, column, TOP_PLAIN, '[');
    fill(grid, row, column + 1, column + 1 + full, colour_of(process->rank), '=');
    put(grid, row, column + 1 + room, TOP_PLAIN, ']');
}

static int name_columns(const struct top_grid *grid)
{
    return grid->columns < WIDE ? NAME_COLUMNS : WIDE_NAME_COLUMNS;
}

static void draw_process(const struct top_view *view, struct top_grid *grid, size_t row,
                         const struct top_process *process)
{
    char gpu[BYTES_TEXT_SIZE];
    char host[BYTES_TEXT_SIZE];
    char requests[32] = "-";
    const struct worsegpu_client_peer *peer = &process->peer;
    bytes_to_text(peer->gpu_bytes, false, gpu);
    bytes_to_text(peer->cpu_bytes, false, host);
    if (view->rates.known)
        snprintf(requests, sizeof(requests), "%.1f", process->requests);
    put(grid, row, 0, colour_of(process->rank), letter_of(process->rank));
    int name = name_columns(grid);
    size_t end = write_text(
        grid, row, 2, TOP_PLAIN,
        "%6" PRIu64 " %7" PRId64 " %5" PRIu64 " %-*.*s %11s %11s %5" PRIu64 " %7s ", peer->client,
        peer->process, peer->user, name, name, peer->name[0] != '\0' ? peer->name : "-", gpu, host,
        peer->allocations, requests);
    draw_bar(view, grid, row, end, process);
}

static size_t draw_processes(const struct top_view *view, struct top_grid *grid, size_t row,
                             size_t rows)
{
    write_text(grid, row++, 0, TOP_BOLD, "  client process  user %-*s %11s %11s %5s %7s",
               name_columns(grid), "name", "gpu", "host", "live", "req/s");
    if (view->process_count == 0)
        write_text(grid, row, 2, TOP_PLAIN, "no process is connected");
    for (size_t i = 0; i < rows && i < view->process_count; i++)
        draw_process(view, grid, row + i, &view->processes[i]);
    return row + rows;
}

static void draw_events(const struct top_view *view, struct top_grid *grid, size_t row, size_t rows)
{
    write_text(grid, row++, 0, TOP_BOLD, "EVENTS");
    if (view->event_count == 0)
        write_text(grid, row, 2, TOP_PLAIN, "none yet");
    size_t shown = least(rows, view->event_count);
    for (size_t i = 0; i < shown; i++)
        write_text(grid, row + i, 2, TOP_PLAIN, "%s", view->events[view->event_count - shown + i]);
}

void top_draw(const struct top_view *view, struct top_grid *grid)
{
    for (size_t row = 0; row < grid->rows; row++)
        fill(grid, row, 0, grid->columns, TOP_PLAIN, ' ');
    if (grid->rows == 0 || grid->columns == 0)
        return;
    draw_head(view, grid);
    struct layout layout = lay_out(grid->columns, grid->rows, view->process_count);
    size_t row = HEAD_ROWS;
    if (view->help) {
        draw_help(grid);
    } else if (layout.map_rows > 0) {
        row = draw_map(view, grid, row, layout.map_rows);
        if (layout.process_rows > 0)
            row = draw_processes(view, grid, row, layout.process_rows);
        if (layout.event_rows > 0)
            draw_events(view, grid, row, layout.event_rows);
    }
    draw_foot(view, grid);
}
