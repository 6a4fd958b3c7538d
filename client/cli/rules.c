/* rules: the rules of fault injection there are, or removing them. */
#include <inttypes.h>
#include <stdio.h>

#include "base/bytes_text.h"
#include "client/cli/pages.h"
#include "client/cli/report.h"
#include "client/cli/result.h"
#include "client/cli/rule_table.h"

static int fetch(struct cli *cli, worsegpu_client *client, struct pages *pages, uint64_t wanted,
                 struct table *table, struct worsegpu_client_error *error)
{
    (void)cli;
    struct worsegpu_client_rules page = {0};
    int status = worsegpu_client_rules(client, pages->after, wanted, &page, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    for (size_t i = 0; table && i < page.count; i++)
        rule_table_add(table, &page.rules[i]);
    pages_got(pages, page.count, page.next, page.more);
    return WORSEGPU_CLIENT_OK;
}

static int show(struct cli *cli, worsegpu_client *client, struct pages pages)
{
    struct table table;
    rule_table_init(cli, &table);
    int status = pages_print(cli, client, &pages, "rules", fetch, &table);
    table_release(&table);
    return status;
}

static int clear(struct cli *cli, worsegpu_client *client, uint64_t rule)
{
    uint64_t cleared;
    struct worsegpu_client_error error;
    if (worsegpu_client_rules_clear(client, rule, &cleared, &error) != WORSEGPU_CLIENT_OK)
        return report_error(cli, NULL, &error);
    if (cli->output.json)
        result_print(cli, client);
    else
        output_text(&cli->output, "%" PRIu64 " rule%s removed\n", cleared, cleared == 1 ? "" : "s");
    return CLI_FINE;
}

int perform_rules(struct cli *cli)
{
    const struct arguments *arguments = &cli->arguments;
    bool clearing = arguments->values.clear;
    uint64_t rule = 0; /* all */
    if (arguments->operand_count > 0 && !clearing)
        return report_usage(cli, "a number goes with --clear: it says which rule to remove",
                            "all rules: worsegpu-cli rules");
    if (arguments->operand_count > 0 &&
        (!count_from_text(arguments->operands[0], &rule) || rule == 0)) {
        char problem[ARGUMENTS_PROBLEM_SIZE];
        snprintf(problem, sizeof(problem), "\"%s\" is no rule's number", arguments->operands[0]);
        return report_usage(cli, problem, "see them: worsegpu-cli rules");
    }
    struct pages pages;
    if (clearing &&
        (arguments_have(arguments, OPTION_after) || arguments_have(arguments, OPTION_limit)))
        return report_usage(cli, "--clear goes with neither --after nor --limit",
                            "try: worsegpu-cli help rules");
    int status = pages_start(cli, &pages);
    if (status != CLI_FINE)
        return status;
    worsegpu_client *client = cli_connect(cli, &status);
    if (!client)
        return status;
    status = clearing ? clear(cli, client, rule) : show(cli, client, pages);
    worsegpu_client_disconnect(client);
    return status;
}
