/* snapshot: the accounts of an allocator. */
#include "client/cli/report.h"
#include "client/cli/result.h"
#include "console/table.h"

enum value_kind {
    BYTES,
    COUNT
};

struct line {
    const char *name;
    enum value_kind kind;
    uint64_t value;
};

static void print_line(struct table *table, const struct line *line)
{
    table_text(table, line->name);
    if (line->kind == BYTES)
        table_size(table, line->value);
    else
        table_number(table, line->value);
    table_number(table, line->value);
}

static void print_text_line(struct table *table, const char *name, const char *text)
{
    table_text(table, name);
    table_text(table, text);
    table_text(table, "");
}

static int print_table(struct cli *cli, const struct worsegpu_client_snapshot *snapshot)
{
    static const struct table_column COLUMNS[] = {
        {"metric", false}, {"value", true}, {"exactly", true}};
    const struct line lines[] = {
        {"gpu_capacity", BYTES, snapshot->gpu_capacity},
        {"gpu_reserved", BYTES, snapshot->gpu_reserved},
        {"gpu_unreserved", BYTES, snapshot->gpu_unreserved},
        {"gpu_used", BYTES, snapshot->gpu_used},
        {"gpu_free", BYTES, snapshot->gpu_free},
        {"gpu_forgotten", BYTES, snapshot->gpu_forgotten},
        {"gpu_blocks", COUNT, snapshot->gpu_blocks},
        {"cpu_bytes", BYTES, snapshot->cpu_bytes},
        {"active_allocations", COUNT, snapshot->active_allocations},
        {"trace_events", COUNT, snapshot->trace_events},
        {"blocks_scanned", COUNT, snapshot->detail.blocks_scanned},
        {"gpu_allocations", COUNT, snapshot->detail.gpu_allocations},
        {"cpu_allocations", COUNT, snapshot->detail.cpu_allocations},
        {"gpu_requested", BYTES, snapshot->detail.gpu_requested},
        {"gpu_forgotten_blocks", COUNT, snapshot->detail.gpu_forgotten_blocks},
        {"peak_gpu_used", BYTES, snapshot->detail.peak_gpu_used},
        {"peak_cpu_bytes", BYTES, snapshot->detail.peak_cpu_bytes},
        {"allocate_calls", COUNT, snapshot->detail.allocate_calls},
        {"free_calls", COUNT, snapshot->detail.free_calls},
        {"oom_fallbacks", COUNT, snapshot->detail.oom_fallbacks},
        {"oom_failures", COUNT, snapshot->detail.oom_failures},
        {"faults", COUNT, snapshot->detail.faults},
        {"last_sequence", COUNT, snapshot->detail.last_sequence},
        {"gpu_pending", BYTES, snapshot->detail.gpu_pending},
        {"gpu_segments", COUNT, snapshot->detail.gpu_segments},
        {"device_calls", COUNT, snapshot->detail.device_calls},
        {"device_retries", COUNT, snapshot->detail.device_retries},
    };
    const size_t of_the_reference = 10; /* fragmentation comes after them */
    char percent[32];
    struct table table;
    table_init(&table, cli->memory, &cli->output, COLUMNS, 3);
    for (size_t i = 0; i < of_the_reference; i++)
        print_line(&table, &lines[i]);
    snprintf(percent, sizeof(percent), "%.1f%%", snapshot->fragmentation * 100.0);
    table_text(&table, "fragmentation");
    table_text(&table, percent);
    table_text(&table, snapshot->fragmentation_text);
    print_text_line(&table, "policy", snapshot->detail.policy);
    print_text_line(&table, "scan", snapshot->detail.scan);
    for (size_t i = of_the_reference; i < sizeof(lines) / sizeof(lines[0]); i++)
        print_line(&table, &lines[i]);
    const struct line largest = {"gpu_largest_free", BYTES, snapshot->detail.gpu_largest_free};
    if (snapshot->detail.gpu_largest_free_given)
        print_line(&table, &largest);
    int status = table_end(&table) < 0 ? report_no_memory(cli) : CLI_FINE;
    table_release(&table);
    return status;
}

int perform_snapshot(struct cli *cli)
{
    int status;
    struct worsegpu_client_error error;
    struct worsegpu_client_snapshot snapshot;
    worsegpu_client *client = cli_connect(cli, &status);
    if (!client)
        return status;
    if (worsegpu_client_snapshot(client, cli_allocator(cli), &snapshot, &error) != 0) {
        status = report_error(cli, NULL, &error);
    } else if (cli->output.json) {
        result_print(cli, client);
        status = CLI_FINE;
    } else {
        status = print_table(cli, &snapshot);
    }
    worsegpu_client_disconnect(client);
    return status;
}
