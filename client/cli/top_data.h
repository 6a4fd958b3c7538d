/* What `top` knows: it asks the daemon through public methods and makes a view of the answers.
 * Lives for one command, over all connections it has in that time. */
#ifndef TOP_DATA_H
#define TOP_DATA_H

#include "client/cli/gpus.h"
#include "client/cli/top_view.h"

/* Counters at the last look, for rates. */
struct top_counters {
    bool known;
    uint64_t time_ms;
    uint64_t allocations;
    uint64_t frees;
    uint64_t full;
};

struct top_data {
    struct cli *cli;
    worsegpu_client *client;                    /* NULL: there is no connection just now */
    char wanted[WORSEGPU_CLIENT_NAME_SIZE];     /* the GPU to show; empty: the first one */
    char subscribed[WORSEGPU_CLIENT_NAME_SIZE]; /* whose events come; empty: none's */
    struct gpus gpus;
    struct worsegpu_client_cell *cells;
    size_t cell_capacity;
    struct top_process *processes;
    size_t process_capacity;
    struct top_process *before; /* as they were at the last look, by connection */
    size_t before_count;
    size_t before_capacity;
    struct top_counters counters;
    struct top_view view;
};

void top_data_init(struct top_data *data, struct cli *cli);
void top_data_release(struct top_data *data);

/* Looks at the daemon, connecting first where there is no connection; the map gets so many cells.
 * `time_ms` is monotonic. What the client library answered; the connection is given up where it is
 * of no more use, and the view says what is the matter. */
int top_data_look(struct top_data *data, size_t map_cells, uint64_t time_ms,
                  struct worsegpu_client_error *error);

/* The next GPU, the next order of the processes. */
void top_data_next_gpu(struct top_data *data);
void top_data_next_sort(struct top_data *data);

#endif
