/* smi: all GPUs and all processes on one screen, once or again and again. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "base/version.h"
#include "client/cli/gpus.h"
#include "client/cli/report.h"
#include "client/cli/signals.h"
#include "client/cli/smi_query.h"
#include "console/table.h"

enum form {
    SCREEN,
    CSV,
    JSON_LIST,
    JSON_WHOLE
};

/* One `smi`. */
struct smi {
    struct cli *cli;
    struct gpus gpus;
    enum form form;
    struct smi_query query;
    bool begun; /* something was printed before */
};

/* ------------------------------------------------------------------------------ the screen */

static int print_gpus(const struct smi *smi)
{
    static const struct table_column COLUMNS[] = {
        {"gpu", false},    {"policy", false},    {"capacity", true}, {"used", true},
        {"free", true},    {"forgotten", true},  {"frag", true},     {"blocks", true},
        {"scanned", true}, {"allocations", true}};
    struct table table;
    table_init(&table, smi->cli->memory, &smi->cli->output, COLUMNS,
               sizeof(COLUMNS) / sizeof(COLUMNS[0]));
    for (size_t i = 0; i < smi->gpus.count; i++) {
        const struct worsegpu_client_snapshot *snapshot = &smi->gpus.items[i].snapshot;
        char percent[32];
        snprintf(percent, sizeof(percent), "%.1f%%", snapshot->fragmentation * 100.0);
        table_text(&table, smi->gpus.items[i].name);
        table_text(&table, snapshot->detail.policy);
        table_size(&table, snapshot->gpu_capacity);
        table_size(&table, snapshot->gpu_used);
        table_size(&table, snapshot->gpu_free);
        table_size(&table, snapshot->gpu_forgotten);
        table_text(&table, percent);
        table_number(&table, snapshot->gpu_blocks);
        table_number(&table, snapshot->detail.blocks_scanned);
        table_number(&table, snapshot->active_allocations);
    }
    int status = table_end(&table);
    table_release(&table);
    return status;
}

static int print_processes(const struct smi *smi)
{
    static const struct table_column COLUMNS[] = {
        {"client", true},   {"process", true},   {"user", true},       {"name", false},
        {"gpu used", true}, {"host used", true}, {"allocations", true}};
    struct table table;
    if (smi->gpus.peer_count == 0) {
        output_text(&smi->cli->output, "no process is connected\n");
        return 0;
    }
    table_init(&table, smi->cli->memory, &smi->cli->output, COLUMNS,
               sizeof(COLUMNS) / sizeof(COLUMNS[0]));
    for (size_t i = 0; i < smi->gpus.peer_count; i++) {
        const struct worsegpu_client_peer *peer = &smi->gpus.peers[i];
        table_number(&table, peer->client);
        table_signed(&table, peer->process);
        table_number(&table, peer->user);
        table_text(&table, peer->name[0] != '\0' ? peer->name : "-");
        table_size(&table, peer->gpu_bytes);
        table_size(&table, peer->cpu_bytes);
        table_number(&table, peer->allocations);
    }
    int status = table_end(&table);
    table_release(&table);
    return status;
}

static int print_screen(const struct smi *smi)
{
    struct output *output = &smi->cli->output;
    if (smi->begun)
        output_text(output, "\n");
    output_text(output, "worsegpu-cli %s, ", WORSEGPU_VERSION);
    output_foreign(output, smi->gpus.info.server);
    output_text(output, " ");
    output_foreign(output, smi->gpus.info.version);
    output_text(output, ", process %" PRIu64 "\n\n", smi->gpus.info.pid);
    int status = print_gpus(smi);
    output_text(output, "\n");
    if (status == 0)
        status = print_processes(smi);
    return status == 0 ? CLI_FINE : report_no_memory(smi->cli);
}

/* ------------------------------------------------------------------------------ once */

static int read_all(struct smi *smi, worsegpu_client *client, struct json_writer *document,
                    struct worsegpu_client_error *error)
{
    int status = gpus_read(&smi->gpus, client, cli_allocator(smi->cli), document, error);
    if (status != WORSEGPU_CLIENT_OK || smi->form == CSV || smi->form == JSON_LIST)
        return status;
    return gpus_read_peers(&smi->gpus, client, document, error);
}

static int print_whole(struct smi *smi, worsegpu_client *client)
{
    struct worsegpu_client_error error;
    struct json_writer document;
    json_writer_init(&document, smi->cli->memory, SIZE_MAX);
    json_writer_begin_object(&document);
    int outcome = read_all(smi, client, &document, &error);
    json_writer_end_object(&document);
    json_writer_newline(&document);
    int status = CLI_FINE;
    if (outcome != WORSEGPU_CLIENT_OK)
        status = report_error(smi->cli, NULL, &error);
    else if (document.failure != JSON_WRITER_FINE)
        status = report_no_memory(smi->cli);
    else
        output_bytes(&smi->cli->output, document.data, document.length);
    json_writer_release(&document);
    return status;
}

static int print_once(struct smi *smi, worsegpu_client *client)
{
    struct worsegpu_client_error error;
    int status = CLI_FINE;
    if (smi->form == JSON_WHOLE)
        return print_whole(smi, client);
    if (read_all(smi, client, NULL, &error) != WORSEGPU_CLIENT_OK)
        return report_error(smi->cli, NULL, &error);
    if (smi->form == CSV && !smi->begun)
        smi_query_print_titles(smi->cli, &smi->query);
    if (smi->form == CSV)
        smi_query_print_csv(smi->cli, &smi->query, &smi->gpus);
    else if (smi->form == JSON_LIST)
        smi_query_print_json(smi->cli, &smi->query, &smi->gpus);
    else
        status = print_screen(smi);
    smi->begun = true;
    return status;
}

/* ------------------------------------------------------------------------------ again and again */

static int loop(struct smi *smi, worsegpu_client *client, int signals)
{
    struct pollfd waiting = {.fd = signals, .events = POLLIN};
    uint64_t wait_ms = smi->cli->arguments.values.loop;
    for (;;) {
        int status = print_once(smi, client);
        if (status != CLI_FINE)
            return status;
        if (output_flush(&smi->cli->output) != 0)
            return CLI_REFUSED; /* nobody reads it: the caller says why */
        if (poll(&waiting, 1, (int)wait_ms) != 0 && waiting.revents != 0)
            return CLI_FINE;
    }
}

static int start_loop(struct smi *smi, worsegpu_client *client)
{
    sigset_t before;
    int signals = signals_open(&before);
    if (signals < 0) {
        output_complaint(&smi->cli->output, smi->cli->program, "cannot wait for signals: %s",
                         strerrordesc_np(errno));
        return CLI_REFUSED;
    }
    int status = loop(smi, client, signals);
    signals_close(signals, &before);
    return status;
}

static int choose_form(struct smi *smi)
{
    struct cli *cli = smi->cli;
    const struct arguments *arguments = &cli->arguments;
    bool query = arguments_have(arguments, OPTION_query);
    const char *format = arguments->values.format;
    if (arguments_have(arguments, OPTION_loop) && arguments->values.loop == 0)
        return report_usage(cli, "--loop is more than 0 seconds", NULL);
    if (arguments_have(arguments, OPTION_format)) {
        if (!query)
            return report_usage(cli, "--format goes with --query", "--json prints all there is");
        if (strcmp(format, "csv") != 0 && strcmp(format, "json") != 0)
            return report_usage(cli, "--format is csv or json", NULL);
    }
    bool json = cli->output.json || (format && strcmp(format, "json") == 0);
    if (query)
        smi->form = json ? JSON_LIST : CSV;
    else
        smi->form = json ? JSON_WHOLE : SCREEN;
    return query ? smi_query_read(cli, arguments->values.query, &smi->query) : CLI_FINE;
}

int perform_smi(struct cli *cli)
{
    struct smi smi = {.cli = cli};
    int status = choose_form(&smi);
    if (status != CLI_FINE)
        return status;
    worsegpu_client *client = cli_connect(cli, &status);
    if (!client)
        return status;
    gpus_init(&smi.gpus, cli->memory);
    if (arguments_have(&cli->arguments, OPTION_loop))
        status = start_loop(&smi, client);
    else
        status = print_once(&smi, client);
    gpus_release(&smi.gpus);
    worsegpu_client_disconnect(client);
    return status;
}
