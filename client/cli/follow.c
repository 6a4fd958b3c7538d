/* Events as they happen; see follow.h. */
#include "client/cli/follow.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "client/cli/report.h"
#include "client/cli/result.h"
#include "client/cli/signals.h"
#include "client/cli/trace_table.h"

/* One JSON object a line: the event as it came, or how many were missed. */
static int print_json(struct cli *cli, const worsegpu_client *client,
                      const struct worsegpu_client_notice *notice)
{
    if (notice->missed == 0)
        result_print(cli, client);
    else
        output_text(&cli->output, "{\"missed\":%" PRIu64 "}\n", notice->missed);
    return CLI_FINE;
}

static int print_row(struct cli *cli, struct table *table,
                     const struct worsegpu_client_notice *notice)
{
    if (notice->missed == 0) {
        trace_table_add(table, &notice->event);
        return CLI_FINE;
    }
    if (table_end(table) < 0)
        return report_no_memory(cli);
    output_text(&cli->output, "%" PRIu64 " events missed: they came faster than they were read\n",
                notice->missed);
    return CLI_FINE;
}

/* Prints all that is there. The exit status. */
static int print_news(struct cli *cli, worsegpu_client *client, struct table *table)
{
    for (;;) {
        bool taken;
        struct worsegpu_client_notice notice;
        struct worsegpu_client_error error;
        int outcome = worsegpu_client_take_event(client, &notice, &taken, &error);
        bool broken = outcome != WORSEGPU_CLIENT_OK;
        if ((broken || !taken) && !cli->output.json && table_end(table) < 0)
            return report_no_memory(cli);
        if (broken)
            return report_error(cli, NULL, &error);
        if (!taken)
            return CLI_FINE;
        int status =
            cli->output.json ? print_json(cli, client, &notice) : print_row(cli, table, &notice);
        if (status != CLI_FINE)
            return status;
    }
}

/* Prints and waits by turns. */
static int watch(struct cli *cli, worsegpu_client *client, int signals)
{
    struct table table;
    struct pollfd waiting[2] = {
        {.fd = signals, .events = POLLIN},
        {.fd = worsegpu_client_descriptor(client), .events = POLLIN},
    };
    trace_table_init(cli, &table);
    int status = print_news(cli, client, &table);
    while (status == CLI_FINE) {
        if (output_flush(&cli->output) != 0) {
            status = CLI_REFUSED; /* nobody reads it: the caller says why */
            break;
        }
        if (poll(waiting, 2, -1) < 0 && errno != EINTR) {
            status = CLI_REFUSED;
            break;
        }
        if (waiting[0].revents != 0)
            break;
        status = print_news(cli, client, &table);
    }
    table_release(&table);
    return status;
}

int follow(struct cli *cli)
{
    const struct arguments *arguments = &cli->arguments;
    const uint64_t *after =
        arguments_have(arguments, OPTION_after) ? &arguments->values.after : NULL;
    sigset_t before;
    int status;
    struct worsegpu_client_error error;
    int signals = signals_open(&before);
    if (signals < 0) {
        output_complaint(&cli->output, cli->program, "cannot wait for signals: %s",
                         strerrordesc_np(errno));
        return CLI_REFUSED;
    }
    worsegpu_client *client = cli_connect(cli, &status);
    if (client) {
        if (worsegpu_client_subscribe(client, cli_allocator(cli), after, NULL, &error) != 0)
            status = report_error(cli, NULL, &error);
        else
            status = watch(cli, client, signals);
        worsegpu_client_disconnect(client);
    }
    signals_close(signals, &before);
    return status;
}
