/* alloc: asks for memory, many pieces at a time, and keeps it detached or, with --hold, for as long
 * as the program runs. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "base/bytes_text.h"
#include "client/cli/handle_operand.h"
#include "client/cli/report.h"
#include "client/cli/result.h"
#include "client/cli/signals.h"
#include "client/cli/size_operand.h"
#include "console/table.h"
#include "proto/json_writer.h"

#define MAX_COUNT UINT64_C(1000000)
#define MAX_ALIGNMENT (UINT64_C(1) << 32)

enum {
    IN_FLIGHT = 256 /* requests sent ahead of their answers */
};

struct alloc {
    struct cli *cli;
    worsegpu_client *client;
    uint64_t count;  /* how often each size */
    uint64_t total;  /* allocations in all */
    uint64_t queued; /* asked for so far */
    uint64_t given;  /* received so far, refusals apart */
    struct table table;
    struct json_writer params;
    int status; /* exit status: of the first refusal */
    struct worsegpu_client_error first_error;
};

/* Everything about the command line is checked before anything is asked for. */
static int check(struct alloc *alloc)
{
    struct cli *cli = alloc->cli;
    const struct arguments *arguments = &cli->arguments;
    alloc->count = arguments_have(arguments, OPTION_count) ? arguments->values.count : 1;
    if (alloc->count < 1 || alloc->count > MAX_COUNT)
        return report_usage(cli, "--count is 1 to 1000000", NULL);
    for (size_t i = 0; i < arguments->operand_count; i++) {
        uint64_t bytes;
        int status = size_operand(cli, arguments->operands[i], &bytes);
        if (status != CLI_FINE)
            return status;
    }
    int status = CLI_FINE;
    if (!stream_option_is_fine(cli, &status))
        return status;
    uint64_t alignment =
        arguments_have(arguments, OPTION_alignment) ? arguments->values.alignment : 0;
    if ((alignment & (alignment - 1)) != 0 || alignment > MAX_ALIGNMENT)
        return report_usage(cli, "--alignment is a power of two, at most 4294967296", NULL);
    if (__builtin_mul_overflow(alloc->count, (uint64_t)arguments->operand_count, &alloc->total))
        return report_usage(cli, "those are too many allocations", NULL);
    if (arguments->values.tag && alloc->total > 1)
        return report_usage(cli, "--tag names one allocation: give one SIZE and no --count", NULL);
    return CLI_FINE;
}

static int queue_next(struct alloc *alloc, struct worsegpu_client_error *error)
{
    const struct arguments *arguments = &alloc->cli->arguments;
    struct json_writer *params = &alloc->params;
    uint64_t bytes = 0;
    bytes_from_text(arguments->operands[alloc->queued / alloc->count], &bytes);
    json_writer_cut(params, 0);
    json_writer_begin_object(params);
    json_writer_member_u64(params, "requested_bytes", bytes);
    if (arguments->values.tag)
        json_writer_member_text(params, "tag", arguments->values.tag);
    if (arguments_have(arguments, OPTION_stream))
        json_writer_member_u64(params, "stream", arguments->values.stream);
    if (arguments_have(arguments, OPTION_alignment))
        json_writer_member_u64(params, "alignment", arguments->values.alignment);
    if (arguments->values.upper)
        json_writer_member_bool(params, "upper", true);
    if (!arguments->values.hold)
        json_writer_member_bool(params, "detached", true);
    if (arguments->values.allocator)
        json_writer_member_text(params, "allocator", arguments->values.allocator);
    json_writer_end_object(params);
    if (params->failure != JSON_WRITER_FINE || json_writer_reserve(params, 1) < 0) {
        memset(error, 0, sizeof(*error));
        error->status = WORSEGPU_CLIENT_NO_MEMORY;
        snprintf(error->kind, sizeof(error->kind), "no_memory");
        snprintf(error->message, sizeof(error->message), "there is not enough memory");
        return error->status;
    }
    params->data[params->length] = '\0';
    int status = worsegpu_client_queue(alloc->client, "allocate", params->data, error);
    if (status == WORSEGPU_CLIENT_OK)
        alloc->queued++;
    return status;
}

static void add_row(struct table *table, const struct worsegpu_client_allocation *allocation)
{
    bool on_gpu = allocation->device == WORSEGPU_CLIENT_GPU;
    table_number(table, allocation->allocation_id);
    table_text(table, on_gpu ? "gpu" : "cpu");
    table_size(table, allocation->requested_bytes);
    table_size(table, allocation->reserved_bytes);
    if (on_gpu)
        table_signed(table, allocation->block_index);
    else
        table_text(table, allocation->reason);
    table_text(table, allocation->handle);
}

static int show_answer(struct alloc *alloc, struct worsegpu_client_error *error)
{
    struct cli *cli = alloc->cli;
    struct worsegpu_client_allocation allocation;
    int status = worsegpu_client_read_allocation(alloc->client, &allocation, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    if (cli->output.json) {
        size_t length;
        const char *result = worsegpu_client_result(alloc->client, &length);
        output_bytes(&cli->output, ",", alloc->given > 0 ? 1 : 0);
        output_bytes(&cli->output, result, length);
    } else {
        add_row(&alloc->table, &allocation);
    }
    alloc->given++;
    return WORSEGPU_CLIENT_OK;
}

static void note_error(struct alloc *alloc, const struct worsegpu_client_error *error)
{
    if (alloc->status != CLI_FINE)
        return;
    alloc->status = report_exit(error);
    alloc->first_error = *error;
}

/* Asks for all of them. Refusals are counted, anything worse ends it. */
static void allocate_all(struct alloc *alloc, uint64_t *refused)
{
    struct worsegpu_client_error error;
    int status = WORSEGPU_CLIENT_OK;
    *refused = 0;
    while (status >= 0 && alloc->given + *refused < alloc->total) {
        while (status == WORSEGPU_CLIENT_OK && alloc->queued < alloc->total &&
               worsegpu_client_due(alloc->client) < IN_FLIGHT)
            status = queue_next(alloc, &error);
        if (status == WORSEGPU_CLIENT_OK)
            status = worsegpu_client_receive(alloc->client, &error);
        if (status == WORSEGPU_CLIENT_OK) {
            status = show_answer(alloc, &error);
        } else if (status == WORSEGPU_CLIENT_REFUSED) {
            note_error(alloc, &error);
            (*refused)++;
            status = WORSEGPU_CLIENT_OK;
        }
    }
    if (status < 0)
        note_error(alloc, &error);
}

static void print_end(struct alloc *alloc, uint64_t refused)
{
    struct cli *cli = alloc->cli;
    bool several = alloc->total > 1;
    if (cli->output.json) {
        output_text(&cli->output, "%s", several ? "]" : "");
        if (alloc->status != CLI_FINE) {
            output_text(&cli->output, "%s", several ? "," : "{");
            report_json_member(cli, &alloc->first_error);
        }
        output_text(&cli->output, "%s\n", several || alloc->status != CLI_FINE ? "}" : "");
    } else if (alloc->given > 0 && table_end(&alloc->table) < 0) {
        alloc->status = report_no_memory(cli);
    }
    if (alloc->status != CLI_FINE) {
        char what[96];
        snprintf(what, sizeof(what), "%" PRIu64 " of %" PRIu64 " allocations failed",
                 refused > 0 ? refused : alloc->total - alloc->given, alloc->total);
        report_sentence(cli, several ? what : NULL, &alloc->first_error);
    }
}

/* Waits for SIGINT or SIGTERM, which are blocked, or for the end of the connection. */
static int hold(struct alloc *alloc, int signals)
{
    struct cli *cli = alloc->cli;
    struct worsegpu_client_error error;
    if (!cli->output.json)
        output_advice(&cli->output, "holding until Ctrl-C");
    if (output_flush(&cli->output) != 0)
        return CLI_REFUSED;
    struct pollfd waiting[2] = {
        {.fd = signals, .events = POLLIN},
        {.fd = worsegpu_client_descriptor(alloc->client), .events = POLLIN},
    };
    for (;;) {
        if (poll(waiting, 2, -1) < 0 && errno != EINTR)
            return CLI_REFUSED;
        if (waiting[0].revents != 0)
            return CLI_FINE;
        if (waiting[1].revents != 0 && worsegpu_client_advance(alloc->client, &error) < 0) {
            report_sentence(cli, NULL, &error);
            return report_exit(&error);
        }
    }
}

static int run(struct alloc *alloc)
{
    static const struct table_column COLUMNS[] = {
        {"id", true},       {"device", false}, {"requested", true},
        {"reserved", true}, {"block", true},   {"handle", false},
    };
    struct cli *cli = alloc->cli;
    uint64_t refused;
    table_init(&alloc->table, cli->memory, &cli->output, COLUMNS,
               sizeof(COLUMNS) / sizeof(COLUMNS[0]));
    json_writer_init(&alloc->params, cli->memory, SIZE_MAX / 2);
    if (cli->output.json && alloc->total > 1)
        output_text(&cli->output, "{\"allocations\":[");
    allocate_all(alloc, &refused);
    print_end(alloc, refused);
    json_writer_release(&alloc->params);
    table_release(&alloc->table);
    return alloc->status;
}

int perform_alloc(struct cli *cli)
{
    struct alloc alloc = {.cli = cli};
    int status = check(&alloc);
    if (status != CLI_FINE)
        return status;
    bool holding = cli->arguments.values.hold;
    sigset_t before;
    int signals = holding ? signals_open(&before) : -1;
    if (holding && signals < 0) {
        output_complaint(&cli->output, cli->program, "cannot wait for signals: %s",
                         strerrordesc_np(errno));
        return CLI_REFUSED;
    }
    alloc.client = cli_connect(cli, &status);
    if (alloc.client) {
        status = run(&alloc);
        if (holding && status == CLI_FINE)
            status = hold(&alloc, signals);
        worsegpu_client_disconnect(alloc.client);
    }
    if (holding)
        signals_close(signals, &before);
    return status;
}
