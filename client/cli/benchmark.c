/* benchmark: the same workload in a worse and in an honest allocator, and the difference, printed
 * byte for byte as the reference prints it. */
#include <inttypes.h>

#include "base/bytes_text.h"
#include "base/demo_steps.h"
#include "client/cli/report.h"
#include "client/cli/workload.h"

/* A number that may be negative and whose magnitude may have 64 bits. */
struct difference {
    bool negative;
    uint64_t magnitude;
};

struct comparison {
    const struct workload_options *options;
    struct worsegpu_client_snapshot worse;
    struct worsegpu_client_snapshot reference;
};

static struct difference subtract(uint64_t a, uint64_t b)
{
    return a < b ? (struct difference){true, b - a} : (struct difference){false, a - b};
}

/* Cannot overflow: no more than 2^53 bytes on the GPU, and 100,000 steps of about 2 MiB on the
 * host. */
static uint64_t total_resident(const struct worsegpu_client_snapshot *snapshot)
{
    return snapshot->gpu_reserved + snapshot->cpu_bytes;
}

static uint64_t requested_bytes(const struct workload_options *options)
{
    uint64_t sum = 0;
    for (uint64_t step = 1; step <= options->steps; step++)
        sum += demo_steps_bytes(step);
    return sum;
}

/* ------------------------------------------------------------------------------ JSON */

static void print_difference(struct output *output, const char *name, struct difference difference,
                             const char *after)
{
    output_text(output, "\"%s\": %s%" PRIu64 "%s", name, difference.negative ? "-" : "",
                difference.magnitude, after);
}

static void print_json(struct output *output, const struct comparison *comparison)
{
    const struct workload_options *options = comparison->options;
    const struct worsegpu_client_snapshot *worse = &comparison->worse;
    const struct worsegpu_client_snapshot *reference = &comparison->reference;
    output_text(output, "{\"config\": {\"capacity\": %" PRIu64 ", \"seed\": ", options->capacity);
    output_text(output, "%s, \"steps\": %" PRIu64 "}, \"difference\": {", options->seed,
                options->steps);
    print_difference(output, "cpu_bytes", subtract(worse->cpu_bytes, reference->cpu_bytes), ", ");
    /* The reference never has any, so that the difference is the other's. */
    output_text(output, "\"fragmentation\": %s, ", worse->fragmentation_text);
    print_difference(output, "gpu_reserved_bytes",
                     subtract(worse->gpu_reserved, reference->gpu_reserved), ", ");
    print_difference(output, "total_resident_bytes",
                     subtract(total_resident(worse), total_resident(reference)), "}, ");
    output_text(output, "\"reference\": ");
    workload_print_metrics(output, reference);
    output_text(output, ", \"workload\": {\"requested_bytes\": %" PRIu64 "}, \"worse\": ",
                requested_bytes(options));
    workload_print_metrics(output, worse);
    output_text(output, "}\n");
}

/* ------------------------------------------------------------------------------ table */

static void print_row(struct output *output, const char *name, uint64_t worse, uint64_t reference)
{
    char texts[3][BYTES_TEXT_SIZE];
    struct difference difference = subtract(worse, reference);
    bytes_to_text(worse, false, texts[0]);
    bytes_to_text(reference, false, texts[1]);
    bytes_to_text(difference.magnitude, difference.negative, texts[2]);
    output_text(output, " %-20s  %13s  %13s  %13s\n", name, texts[0], texts[1], texts[2]);
}

static void print_table(struct output *output, const struct comparison *comparison)
{
    const struct worsegpu_client_snapshot *worse = &comparison->worse;
    const struct worsegpu_client_snapshot *reference = &comparison->reference;
    output_text(output,
                "A Worse GPU Memory Allocator: benchmark\nWorkload: %" PRIu64 " steps, seed ",
                comparison->options->steps);
    output_text(output, "%s\n\n", comparison->options->seed);
    output_text(output, " metric                 worse          reference       difference\n"
                        " --------------------  -------------  -------------  -------------\n");
    print_row(output, "GPU reserved", worse->gpu_reserved, reference->gpu_reserved);
    print_row(output, "CPU fallback", worse->cpu_bytes, reference->cpu_bytes);
    print_row(output, "Total resident", total_resident(worse), total_resident(reference));
    /* One column narrower than the others, as the reference has it. */
    char texts[3][32];
    double difference = worse->fragmentation - reference->fragmentation;
    snprintf(texts[0], sizeof(texts[0]), "%.1f%%", worse->fragmentation * 100.0);
    snprintf(texts[1], sizeof(texts[1]), "%.1f%%", reference->fragmentation * 100.0);
    snprintf(texts[2], sizeof(texts[2]), "%.1f%%", difference * 100.0);
    output_text(output, " %-20s  %12s  %12s  %12s\n", "Fragmentation", texts[0], texts[1],
                texts[2]);
}

static int compare(worsegpu_client *client, struct comparison *comparison,
                   struct worsegpu_client_error *error)
{
    struct workload_options options = *comparison->options;
    options.delay = 0;
    int status =
        workload_run(client, "w", "worse", options.capacity, &options, &comparison->worse, error);
    if (status == WORSEGPU_CLIENT_OK)
        status = workload_run(client, "r", "reference", options.capacity, &options,
                              &comparison->reference, error);
    return status;
}

int perform_benchmark(struct cli *cli)
{
    int status;
    worsegpu_client *client;
    struct workload_options options = {0};
    struct worsegpu_client_error error;
    struct comparison comparison = {.options = &options};
    if (!workload_begin(cli, COMMAND_benchmark, &options, &client, &status))
        return status;
    status = compare(client, &comparison, &error);
    worsegpu_client_disconnect(client);
    if (status != WORSEGPU_CLIENT_OK)
        return report_error(cli, NULL, &error);
    if (cli->output.json)
        print_json(&cli->output, &comparison);
    else
        print_table(&cli->output, &comparison);
    return CLI_FINE;
}
