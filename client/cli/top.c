/* top: a GPU, its processes and its events as they change, on a terminal or line by line. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes_text.h"
#include "client/cli/report.h"
#include "client/cli/signals.h"
#include "client/cli/top_data.h"
#include "client/cli/top_screen.h"

enum {
    DEFAULT_INTERVAL_MS = 1000,
    DEFAULT_PATIENCE_MS = 2000, /* with a daemon that does not answer: keys wait meanwhile */
    PLAIN_CELLS = 1             /* nobody sees a map in a line */
};

/* One `top`. */
struct top {
    struct cli *cli;
    struct top_data data;
    struct top_grid grid;
    uint64_t interval_ms;
    int signals;
};

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A daemon that is gone may come back; everything else ends the command. */
static bool may_pass(int status)
{
    return status == WORSEGPU_CLIENT_OK || status == WORSEGPU_CLIENT_NO_DAEMON ||
           status == WORSEGPU_CLIENT_CLOSED || status == WORSEGPU_CLIENT_TIMEOUT ||
           status == WORSEGPU_CLIENT_REFUSED;
}

/* ------------------------------------------------------------------------------ a terminal */

/* A pass of the loop, the smallest screen included. 0, or -1 without memory. */
static int show(struct top *top)
{
    size_t columns;
    size_t rows;
    top_screen_size(&columns, &rows);
    if (top_grid_resize(&top->grid, columns, rows) != 0)
        return -1;
    top_draw(&top->data.view, &top->grid);
    top_screen_show(&top->grid);
    return 0;
}

/* What a key does. false: quit. *look: whether to ask the daemon at once. */
static bool press(struct top *top, int key, bool *look)
{
    struct top_view *view = &top->data.view;
    if (key == TOP_KEY_RESIZED) {
        *look |= !view->paused;
        return true;
    }
    if (key == 'q' || key == 'Q')
        return false;
    if (view->help) {
        view->help = false;
        return true;
    }
    switch (key) {
    case 's':
        top_data_next_sort(&top->data);
        break;
    case 'p':
        view->by_process = !view->by_process;
        break;
    case 'g':
        top_data_next_gpu(&top->data);
        *look = true;
        break;
    case ' ':
        view->paused = !view->paused;
        *look |= !view->paused;
        break;
    case 'h':
    case '?':
        view->help = true;
        break;
    default:
        break;
    }
    return true;
}

/* Waits for a key, a signal, or the time of the next look. false: quit. */
static bool wait_for_news(struct top *top, uint64_t next_ms, bool *look)
{
    struct pollfd waiting[2] = {
        {.fd = top->signals, .events = POLLIN},
        {.fd = STDIN_FILENO, .events = POLLIN},
    };
    uint64_t now = now_ms();
    int left = next_ms > now ? (int)(next_ms - now) : 0;
    if (poll(waiting, 2, top->data.view.paused ? -1 : left) < 0 && errno != EINTR)
        return false;
    if (waiting[0].revents != 0)
        return false;
    if (waiting[1].revents & (POLLHUP | POLLERR | POLLNVAL))
        return false;
    for (int key; (key = top_screen_key()) != TOP_KEY_NONE;) {
        if (!press(top, key, look))
            return false;
    }
    *look |= !top->data.view.paused && now_ms() >= next_ms;
    return true;
}

static int watch(struct top *top, struct worsegpu_client_error *error)
{
    uint64_t next_ms = now_ms() + top->interval_ms;
    bool look = false;
    for (;;) {
        if (show(top) != 0) {
            error->status = WORSEGPU_CLIENT_NO_MEMORY;
            return WORSEGPU_CLIENT_NO_MEMORY;
        }
        if (!wait_for_news(top, next_ms, &look))
            return WORSEGPU_CLIENT_OK;
        if (!look)
            continue;
        look = false;
        size_t columns;
        size_t rows;
        top_screen_size(&columns, &rows);
        uint64_t now = now_ms();
        int status = top_data_look(&top->data, top_map_cells(columns, rows), now, error);
        if (!may_pass(status))
            return status;
        next_ms = now + top->interval_ms;
    }
}

/* ------------------------------------------------------------------------------ lines */

static void print_rates(struct cli *cli, const struct top_rates *rates)
{
    if (rates->known)
        output_text(&cli->output,
                    ", a second %.1f allocations, %.1f frees, %.1f full, %.1f requests",
                    rates->allocations, rates->frees, rates->full, rates->requests);
}

static void print_line(struct cli *cli, const struct top_view *view)
{
    char sizes[4][BYTES_TEXT_SIZE];
    const struct worsegpu_client_snapshot *snapshot = &view->snapshot;
    if (view->trouble[0] != '\0') {
        output_foreign(&cli->output, view->trouble);
        output_text(&cli->output, "\n");
        return;
    }
    bytes_to_text(snapshot->gpu_used, false, sizes[0]);
    bytes_to_text(snapshot->gpu_free, false, sizes[1]);
    bytes_to_text(snapshot->gpu_forgotten, false, sizes[2]);
    bytes_to_text(snapshot->gpu_capacity, false, sizes[3]);
    output_foreign(&cli->output, view->gpu);
    output_text(&cli->output,
                " used %s, free %s, forgotten %s of %s, %" PRIu64 " live, %zu clients", sizes[0],
                sizes[1], sizes[2], sizes[3], snapshot->active_allocations, view->process_count);
    print_rates(cli, &view->rates);
    output_text(&cli->output, "\n");
}

static void print_json(struct cli *cli, const struct top_view *view)
{
    const struct worsegpu_client_snapshot *snapshot = &view->snapshot;
    const struct top_rates *rates = &view->rates;
    if (view->trouble[0] != '\0') {
        output_text(&cli->output, "{\"connected\":false}\n");
        return;
    }
    output_text(&cli->output,
                "{\"connected\":true,\"gpu\":\"%s\",\"gpu_used\":%" PRIu64 ",\"gpu_free\":%" PRIu64
                ",\"gpu_forgotten\":%" PRIu64 ",\"gpu_capacity\":%" PRIu64
                ",\"active_allocations\":%" PRIu64 ",\"clients\":%zu,\"rates\":",
                view->gpu, snapshot->gpu_used, snapshot->gpu_free, snapshot->gpu_forgotten,
                snapshot->gpu_capacity, snapshot->active_allocations, view->process_count);
    if (rates->known)
        output_text(&cli->output,
                    "{\"allocations\":%.3f,\"frees\":%.3f,\"full\":%.3f,\"requests\":%.3f}}\n",
                    rates->allocations, rates->frees, rates->full, rates->requests);
    else
        output_text(&cli->output, "null}\n");
}

/* The exit status. */
static int print_lines(struct top *top, struct worsegpu_client_error *error)
{
    struct cli *cli = top->cli;
    struct pollfd waiting = {.fd = top->signals, .events = POLLIN};
    for (;;) {
        if (cli->output.json)
            print_json(cli, &top->data.view);
        else
            print_line(cli, &top->data.view);
        if (output_flush(&cli->output) != 0)
            return CLI_REFUSED; /* nobody reads it: the caller says why */
        if (poll(&waiting, 1, (int)top->interval_ms) != 0 && waiting.revents != 0)
            return CLI_FINE;
        int status = top_data_look(&top->data, PLAIN_CELLS, now_ms(), error);
        if (!may_pass(status))
            return report_error(cli, NULL, error);
    }
}

/* ------------------------------------------------------------------------------ the command */

static int run_on_screen(struct top *top, struct worsegpu_client_error *error)
{
    int outcome = watch(top, error);
    top_screen_close();
    if (outcome == WORSEGPU_CLIENT_NO_MEMORY)
        return report_no_memory(top->cli);
    return outcome == WORSEGPU_CLIENT_OK ? CLI_FINE : report_error(top->cli, NULL, error);
}

static int run(struct top *top)
{
    struct worsegpu_client_error error;
    int outcome = top_data_look(&top->data, top_map_cells(80, 24), now_ms(), &error);
    /* Another one may be shown later, when the wanted one is gone; at first it must be there. */
    if (outcome == WORSEGPU_CLIENT_OK && strcmp(top->data.view.gpu, top->data.wanted) != 0 &&
        top->data.wanted[0] != '\0')
        outcome = worsegpu_client_snapshot(top->data.client, top->data.wanted,
                                           &top->data.view.snapshot, &error);
    if (outcome != WORSEGPU_CLIENT_OK)
        return report_error(top->cli, NULL, &error);
    if (!top->cli->output.json && top_screen_open(top->cli->output.out)) {
        size_t columns;
        size_t rows;
        top_screen_size(&columns, &rows);
        /* What goes wrong here, the next look on the screen says. */
        (void)top_data_look(&top->data, top_map_cells(columns, rows), now_ms(), &error);
        return run_on_screen(top, &error);
    }
    return print_lines(top, &error);
}

int perform_top(struct cli *cli)
{
    struct arguments *arguments = &cli->arguments;
    struct top top = {.cli = cli, .interval_ms = DEFAULT_INTERVAL_MS};
    sigset_t before;
    if (arguments_have(arguments, OPTION_interval))
        top.interval_ms = arguments->values.interval;
    if (top.interval_ms == 0)
        return report_usage(cli, "--interval is more than 0 seconds", NULL);
    if (!arguments_have(arguments, OPTION_timeout)) {
        arguments->given |= UINT32_C(1) << OPTION_timeout;
        arguments->values.timeout = DEFAULT_PATIENCE_MS;
    }
    top.signals = signals_open(&before);
    if (top.signals < 0) {
        output_complaint(&cli->output, cli->program, "cannot wait for signals: %s",
                         strerrordesc_np(errno));
        return CLI_REFUSED;
    }
    top_data_init(&top.data, cli);
    top_grid_init(&top.grid, cli->memory);
    int status = run(&top);
    top_grid_release(&top.grid);
    top_data_release(&top.data);
    signals_close(top.signals, &before);
    return status;
}
