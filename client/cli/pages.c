/* Pages; see pages.h. */
#include "client/cli/pages.h"

#include "client/cli/report.h"
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

uint64_t pages_next(const struct pages *pages)
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

int pages_end(struct cli *cli, struct table *table, int outcome,
              const struct worsegpu_client_error *error)
{
    int status = CLI_FINE;
    if (!cli->output.json && table_end(table) < 0)
        status = report_no_memory(cli);
    if (outcome == WORSEGPU_CLIENT_OK)
        return status;
    if (cli->output.json) {
        output_text(&cli->output, ",");
        report_json_member(cli, error);
        output_text(&cli->output, "}\n");
    }
    report_sentence(cli, NULL, error);
    return report_exit(error);
}
