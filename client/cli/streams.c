/* record-stream, event-done, empty-cache and statistics: what the models of caching allocators are
 * told and tell. */
#include <inttypes.h>

#include "base/bytes_text.h"
#include "client/cli/handle_operand.h"
#include "client/cli/report.h"
#include "client/cli/result.h"
#include "console/table.h"
#include "proto/json_document.h"

/* Prints what came of it: the result as it is, or a sentence. */
static int show(struct cli *cli, worsegpu_client *client, bool used, const char *sentence)
{
    if (cli->output.json)
        result_print(cli, client);
    else
        output_text(&cli->output, "%s\n",
                    used ? sentence : "noted, but the policy has no use for it");
    return CLI_FINE;
}

static int record_stream(struct cli *cli, worsegpu_client *client)
{
    const char *typed = cli->arguments.operands[0];
    char found[WORSEGPU_CLIENT_HANDLE_SIZE];
    const char *handle;
    bool used;
    struct worsegpu_client_error error;
    uint64_t stream =
        arguments_have(&cli->arguments, OPTION_stream) ? cli->arguments.values.stream : 0;
    int status = handle_operand(cli, client, typed, found, &handle, &error);
    if (status == WORSEGPU_CLIENT_OK)
        status = worsegpu_client_record_stream(client, cli_allocator(cli), handle, stream, &used,
                                               &error);
    if (status != WORSEGPU_CLIENT_OK)
        return report_error(cli, typed, &error);
    return show(cli, client, used, "recorded: once freed, it waits for that stream");
}

int perform_record_stream(struct cli *cli)
{
    int status;
    if (!stream_option_is_fine(cli, &status))
        return status;
    worsegpu_client *client = cli_connect(cli, &status);
    if (!client)
        return status;
    status = record_stream(cli, client);
    worsegpu_client_disconnect(client);
    return status;
}

int perform_event_done(struct cli *cli)
{
    const struct arguments *arguments = &cli->arguments;
    uint64_t stream = arguments_have(arguments, OPTION_stream) ? arguments->values.stream : 0;
    uint64_t count = 0;
    int status;
    if (!stream_option_is_fine(cli, &status))
        return status;
    if (arguments->operand_count > 0 &&
        (!count_from_text(arguments->operands[0], &count) || count == 0))
        return report_usage(cli, "COUNT is a whole number of events, 1 or more",
                            "try: worsegpu-cli help event-done");
    worsegpu_client *client = cli_connect(cli, &status);
    if (!client)
        return status;
    bool used;
    struct worsegpu_client_error error;
    if (worsegpu_client_event_done(client, cli_allocator(cli), stream, count,
                                   arguments->values.newest, &used, &error) != 0)
        status = report_error(cli, NULL, &error);
    else
        status = show(cli, client, used, "done: the policy will notice");
    worsegpu_client_disconnect(client);
    return status;
}

int perform_empty_cache(struct cli *cli)
{
    int status;
    bool used;
    uint64_t given_back;
    struct worsegpu_client_error error;
    worsegpu_client *client = cli_connect(cli, &status);
    if (!client)
        return status;
    if (worsegpu_client_empty_cache(client, cli_allocator(cli), &given_back, &used, &error) != 0) {
        status = report_error(cli, NULL, &error);
    } else {
        char bytes[BYTES_TEXT_SIZE];
        char sentence[BYTES_TEXT_SIZE + 32];
        bytes_to_text(given_back, false, bytes);
        snprintf(sentence, sizeof(sentence), "%s given back", bytes);
        status = show(cli, client, used, sentence);
    }
    worsegpu_client_disconnect(client);
    return status;
}

/* ------------------------------------------------------------------------------ statistics */

enum {
    LONGEST_FIGURE = 512 /* shown of a figure that is a row of numbers */
};

static void add_figure(struct table *table, const struct json_document *document,
                       const cJSON *figure)
{
    char text[LONGEST_FIGURE] = "";
    size_t used = 0;
    const cJSON *value = cJSON_IsArray(figure) ? figure->child : figure;
    for (; value && used < sizeof(text); value = cJSON_IsArray(figure) ? value->next : NULL) {
        size_t length = 1;
        const char *spelling = "-";
        if (cJSON_IsNumber(value))
            spelling = json_document_spelling(document, value, &length);
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%.*s", used > 0 ? " " : "",
                                 (int)length, spelling);
    }
    table_text(table, figure->string);
    table_text(table, text);
}

static int print_statistics(struct cli *cli, worsegpu_client *client)
{
    static const struct table_column COLUMNS[] = {{"figure", false}, {"value", true}};
    size_t length;
    const char *result = worsegpu_client_result(client, &length);
    struct json_document document;
    struct table table;
    int status = -1;
    json_document_init(&document, cli->memory);
    table_init(&table, cli->memory, &cli->output, COLUMNS, 2);
    if (json_document_read(&document, result, length) == STRICT_JSON_FINE) {
        const cJSON *figures = json_document_member(document.root, "statistics");
        const cJSON *figure;
        output_text(&cli->output, "policy: ");
        output_foreign(&cli->output, json_document_member(document.root, "policy")->valuestring);
        output_text(&cli->output, "%s\n\n", figures->child ? "" : ", which has no figures");
        cJSON_ArrayForEach(figure, figures)
        {
            add_figure(&table, &document, figure);
        }
        status = figures->child ? table_end(&table) : 0;
    }
    table_release(&table);
    json_document_release(&document);
    return status == 0 ? CLI_FINE : report_no_memory(cli);
}

int perform_statistics(struct cli *cli)
{
    int status;
    struct worsegpu_client_error error;
    worsegpu_client *client = cli_connect(cli, &status);
    if (!client)
        return status;
    if (worsegpu_client_statistics(client, cli_allocator(cli), &error) != 0) {
        status = report_error(cli, NULL, &error);
    } else if (cli->output.json) {
        result_print(cli, client);
        status = CLI_FINE;
    } else {
        status = print_statistics(cli, client);
    }
    worsegpu_client_disconnect(client);
    return status;
}
