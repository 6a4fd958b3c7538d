/* demo: a small workload, step by step, printed byte for byte as the reference prints it. */
#include <inttypes.h>

#include "base/bytes_text.h"
#include "base/demo_steps.h"
#include "client/cli/report.h"
#include "client/cli/workload.h"

#define CAPACITY (UINT64_C(32) * 1024 * 1024)
#define ALLOCATOR "d"

struct demo {
    struct cli *cli;
    const struct workload_options *options;
    struct worsegpu_client_snapshot last;
};

static void print_head(struct output *output)
{
    output_text(output, "A Worse GPU Memory Allocator\n"
                        "It allocates memory on the GPU (sometimes).\n\n"
                        " step  request       device  reserved     gpu free     fragmentation\n"
                        "-----  ------------  ------  -----------  -----------  -------------\n");
}

static bool print_row(void *context, const struct workload_step *step)
{
    struct demo *demo = context;
    struct output *output = &demo->cli->output;
    char requested[BYTES_TEXT_SIZE];
    char reserved[BYTES_TEXT_SIZE];
    char gpu_free[BYTES_TEXT_SIZE];
    char percent[32];
    bytes_to_text(demo_steps_bytes(step->step), false, requested);
    bytes_to_text(step->allocation.reserved_bytes, false, reserved);
    bytes_to_text(step->snapshot.gpu_free, false, gpu_free);
    snprintf(percent, sizeof(percent), "%.1f%%", step->snapshot.fragmentation * 100.0);
    output_text(output, "%5" PRIu64 "  %12s  %6s  %11s  %11s  %13s\n", step->step, requested,
                step->allocation.device == WORSEGPU_CLIENT_GPU ? "gpu" : "cpu", reserved, gpu_free,
                percent);
    demo->last = step->snapshot;
    if (demo->options->delay > 0) {
        output_flush(output);
        workload_sleep(demo->options->delay);
    }
    return output->failure == 0;
}

static void print_size(struct output *output, const char *name, uint64_t bytes)
{
    char text[BYTES_TEXT_SIZE];
    bytes_to_text(bytes, false, text);
    output_text(output, "  %18s: %s\n", name, text);
}

static void print_count(struct output *output, const char *name, uint64_t count)
{
    output_text(output, "  %18s: %" PRIu64 "\n", name, count);
}

static void print_final(struct output *output, const struct worsegpu_client_snapshot *snapshot)
{
    output_text(output, "\nFinal state:\n");
    print_count(output, "gpu_capacity", snapshot->gpu_capacity);
    print_size(output, "gpu_reserved", snapshot->gpu_reserved);
    print_size(output, "gpu_unreserved", snapshot->gpu_unreserved);
    print_size(output, "gpu_used", snapshot->gpu_used);
    print_size(output, "gpu_free", snapshot->gpu_free);
    print_size(output, "gpu_forgotten", snapshot->gpu_forgotten);
    print_count(output, "gpu_blocks", snapshot->gpu_blocks);
    print_size(output, "cpu_bytes", snapshot->cpu_bytes);
    print_count(output, "active_allocations", snapshot->active_allocations);
    print_count(output, "trace_events", snapshot->trace_events);
    output_text(output, "  %18s: %s\n", "fragmentation", snapshot->fragmentation_text);
}

static int show_rows(struct demo *demo, worsegpu_client *client,
                     struct worsegpu_client_error *error)
{
    struct output *output = &demo->cli->output;
    int status = workload_open(client, ALLOCATOR, "worse", CAPACITY, demo->options->seed, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    print_head(output);
    status = workload_walk(client, ALLOCATOR, demo->options, print_row, demo, error);
    if (status == WORSEGPU_CLIENT_OK)
        print_final(output, &demo->last);
    return status;
}

int perform_demo(struct cli *cli)
{
    int status;
    worsegpu_client *client;
    struct workload_options options = {0};
    struct worsegpu_client_error error;
    struct demo demo = {.cli = cli, .options = &options};
    if (!workload_begin(cli, COMMAND_demo, &options, &client, &status))
        return status;
    if (cli->output.json)
        status = workload_run(client, ALLOCATOR, "worse", CAPACITY, &options, &demo.last, &error);
    else
        status = show_rows(&demo, client, &error);
    worsegpu_client_disconnect(client);
    if (status != WORSEGPU_CLIENT_OK)
        return report_error(cli, NULL, &error);
    if (cli->output.json) {
        workload_print_metrics(&cli->output, &demo.last);
        output_text(&cli->output, "\n");
    }
    return CLI_FINE;
}
