/* What `top` shows, and the grid of characters it is drawn into. Drawing is a pure function: the
 * same view and size give the same grid, with no terminal near. */
#ifndef TOP_VIEW_H
#define TOP_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/worsegpu_memory.h"
#include "client/worsegpu_client.h"

enum {
    TOP_EVENTS = 64,      /* the newest ones that are kept */
    TOP_EVENT_SIZE = 160, /* one as text */
    TOP_TEXT_SIZE = 256,
    TOP_MAX_SIDE = 1000 /* columns or rows; what is beyond stays empty */
};

enum top_style {
    TOP_PLAIN,
    TOP_BOLD,
    TOP_BAR, /* the lines at the top and the bottom */
    TOP_BAD,
    TOP_USED,
    TOP_FREE,
    TOP_FORGOTTEN,
    TOP_PENDING,
    TOP_PROCESS, /* this and those after it: one colour each */
    TOP_STYLES = TOP_PROCESS + 6
};

enum top_sort {
    TOP_BY_GPU,
    TOP_BY_ALLOCATIONS,
    TOP_BY_CLIENT,
    TOP_SORTS
};

struct top_process {
    struct worsegpu_client_peer peer;
    size_t rank;     /* by the number of the connection: gives its letter and colour */
    double requests; /* a second */
};

struct top_rates {
    bool known; /* it takes two looks */
    double allocations;
    double frees;
    double full; /* allocations that found the GPU full */
    double requests;
};

struct top_view {
    char daemon[TOP_TEXT_SIZE];  /* who it is */
    char trouble[TOP_TEXT_SIZE]; /* why it cannot be asked; empty: it answers */
    char gpu[WORSEGPU_CLIENT_NAME_SIZE];
    size_t gpu_index;
    size_t gpu_count;
    struct worsegpu_client_snapshot snapshot;
    const struct worsegpu_client_cell *cells;
    size_t cell_count;
    uint64_t cell_bytes;
    const struct top_process *processes; /* sorted as `sort` says */
    size_t process_count;
    struct top_rates rates;
    char events[TOP_EVENTS][TOP_EVENT_SIZE]; /* oldest first */
    size_t event_count;
    enum top_sort sort;
    bool by_process; /* the map shows whose it is */
    bool paused;
    bool help;
};

struct top_cell {
    char character; /* printable ASCII */
    uint8_t style;  /* enum top_style */
};

struct top_grid {
    const struct worsegpu_memory *memory;
    struct top_cell *cells; /* row by row */
    size_t capacity;
    size_t columns;
    size_t rows;
};

void top_grid_init(struct top_grid *grid, const struct worsegpu_memory *memory);
void top_grid_release(struct top_grid *grid);

/* Gives it another size; what is in it is undefined then. 0, or -1 without memory: it stays as it
 * was. */
int top_grid_resize(struct top_grid *grid, size_t columns, size_t rows);

/* How many cells of the map a screen of this size has room for, 1 to 1000. */
size_t top_map_cells(size_t columns, size_t rows);

/* Draws the whole grid. */
void top_draw(const struct top_view *view, struct top_grid *grid);

#endif
