/* Pages; see pages.h. */
#include "client/cli/pages.h"

#include <inttypes.h>

#include "client/cli/report.h"
#include "client/cli/result.h"
#include "proto/limits.h"

int pages_start(struct cli *cli, struct pages *pages)
{
    const struct arguments *arguments = &cli->arguments;
    if (arguments_have(arguments, OPTION_limit) && arguments->values.limit == 0)
        return report_usage(cli, "--limit is 1 or more", "left out, there is no limit");
    *pages = (struct pages){
        .after = arguments_have(arguments, OPTION_after) ? arguments->values.after : 0,
        .left = arguments_have(arguments, OPTION_limit) ? arguments->values.limit : UINT64_MAX,
        .more = true,
    };
    return CLI_FINE;
}

/* How many to ask for in the next page; 0 when it is over. */
static uint64_t next_page(const struct pages *pages)
{
    if (!pages->more)
        return 0;
    return pages->left < PROTO_MAX_PAGE ? pages->left : PROTO_MAX_PAGE;
}

void pages_got(struct pages *pages, size_t count, uint64_t next, bool more)
{
    pages->after = next;
    pages->more = more;
    pages->left = count < pages->left ? pages->left - count : 0;
}

static void begin_document(struct cli *cli, const char *member)
{
    if (cli->output.json)
        output_text(&cli->output, "{\"%s\":[", member);
}

static void end_document(struct cli *cli, const struct pages *pages)
{
    if (!cli->output.json)
        return;
    output_text(&cli->output, "],\"next\":%" PRIu64 ",\"more\":%s", pages->after,
                pages->more ? "true" : "false");
    if (pages->tells_dropped)
        output_text(&cli->output, ",\"dropped\":%" PRIu64, pages->dropped);
    output_text(&cli->output, "}\n");
}

/* Ends the document with what went wrong, and says it. The exit status. */
static int break_off(struct cli *cli, const struct worsegpu_client_error *error)
{
    if (cli->output.json) {
        output_text(&cli->output, "],");
        report_json_member(cli, error);
        output_text(&cli->output, "}\n");
    }
    report_sentence(cli, NULL, error);
    return report_exit(error);
}

int pages_print(struct cli *cli, worsegpu_client *client, struct pages *pages, const char *member,
                pages_fetch fetch, struct table *table)
{
    struct worsegpu_client_error error;
    bool json = cli->output.json;
    bool first = true;
    int outcome = WORSEGPU_CLIENT_OK;
    begin_document(cli, member);
    for (uint64_t wanted; outcome == WORSEGPU_CLIENT_OK && (wanted = next_page(pages)) > 0;) {
        outcome = fetch(cli, client, pages, wanted, json ? NULL : table, &error);
        if (json && outcome == WORSEGPU_CLIENT_OK)
            result_print_items(cli, client, member, &first);
    }
    int status = CLI_FINE;
    if (!json && table_end(table) < 0)
        status = report_no_memory(cli);
    if (outcome != WORSEGPU_CLIENT_OK)
        return break_off(cli, &error);
    end_document(cli, pages);
    return status;
}
