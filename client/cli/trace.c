/* trace: the retained events, page by page, as one table or one JSON document; or forgetting them.
 */
#include <inttypes.h>

#include "client/cli/follow.h"
#include "client/cli/pages.h"
#include "client/cli/report.h"
#include "client/cli/result.h"
#include "client/cli/trace_table.h"

static int fetch(struct cli *cli, worsegpu_client *client, struct pages *pages, uint64_t wanted,
                 struct table *table, struct worsegpu_client_error *error)
{
    struct worsegpu_client_trace page = {0};
    int status =
        worsegpu_client_trace(client, cli_allocator(cli), pages->after, wanted, &page, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    for (size_t i = 0; table && i < page.count; i++)
        trace_table_add(table, &page.events[i]);
    pages->tells_dropped = true;
    pages->dropped += page.dropped;
    pages_got(pages, page.count, page.next, page.more);
    return WORSEGPU_CLIENT_OK;
}

static int show(struct cli *cli, worsegpu_client *client, struct pages pages)
{
    struct table table;
    trace_table_init(cli, &table);
    int status = pages_print(cli, client, &pages, "events", fetch, &table);
    if (status == CLI_FINE && pages.dropped > 0 && !cli->output.json)
        output_text(&cli->output, "%" PRIu64 " events are no longer retained\n", pages.dropped);
    table_release(&table);
    return status;
}

static int clear(struct cli *cli, worsegpu_client *client)
{
    uint64_t cleared;
    struct worsegpu_client_error error;
    if (worsegpu_client_trace_clear(client, cli_allocator(cli), &cleared, &error) != 0)
        return report_error(cli, NULL, &error);
    if (cli->output.json)
        result_print(cli, client);
    else
        output_text(&cli->output, "%" PRIu64 " events forgotten\n", cleared);
    return CLI_FINE;
}

int perform_trace(struct cli *cli)
{
    const struct arguments *arguments = &cli->arguments;
    bool clearing = arguments->values.clear;
    if (clearing &&
        (arguments_have(arguments, OPTION_after) || arguments_have(arguments, OPTION_limit)))
        return report_usage(cli,
                            "--clear forgets all events: it goes with neither --after nor --limit",
                            "try: worsegpu-cli help trace");
    if (arguments->values.follow && (clearing || arguments_have(arguments, OPTION_limit)))
        return report_usage(
            cli, "--follow shows events until Ctrl-C: it goes with neither --clear nor --limit",
            "try: worsegpu-cli help trace");
    if (arguments->values.follow)
        return follow(cli);
    struct pages pages;
    int status = pages_start(cli, &pages);
    if (status != CLI_FINE)
        return status;
    worsegpu_client *client = cli_connect(cli, &status);
    if (!client)
        return status;
    status = clearing ? clear(cli, client) : show(cli, client, pages);
    worsegpu_client_disconnect(client);
    return status;
}
