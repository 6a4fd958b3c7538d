/* info: who the daemon is, which allocators it has, and its limits. */
#include <inttypes.h>
#include <string.h>

#include "client/cli/report.h"
#include "client/cli/result.h"
#include "console/table.h"
#include "proto/json_document.h"

enum {
    LONGEST_VALUE = 128 /* shown of a value; a seed may have thousands of digits */
};

/* Any plain value as text: numbers as they are written. */
static void add_value(struct table *table, const struct json_document *document, const cJSON *item)
{
    char text[LONGEST_VALUE];
    size_t length = 0;
    if (cJSON_IsString(item)) {
        snprintf(text, sizeof(text), "%s", item->valuestring);
    } else if (cJSON_IsNumber(item)) {
        const char *spelling = json_document_spelling(document, item, &length);
        snprintf(text, sizeof(text), "%.*s", (int)length, spelling);
    } else {
        snprintf(text, sizeof(text), "%s",
                 cJSON_IsTrue(item)    ? "yes"
                 : cJSON_IsFalse(item) ? "no"
                                       : "-");
    }
    table_text(table, text);
}

static void add_size_value(struct table *table, const struct json_document *document,
                           const cJSON *item)
{
    uint64_t bytes;
    if (json_document_u64(document, item, &bytes))
        table_size(table, bytes);
    else
        add_value(table, document, item);
}

static int print_allocators(struct cli *cli, const struct json_document *document)
{
    static const struct table_column COLUMNS[] = {
        {"allocator", false}, {"policy", false}, {"shared", false},   {"capacity", true},
        {"gpu", true},        {"forget", true},  {"fallback", false}, {"trace limit", true},
        {"seed", false},      {"knobs", false},
    };
    struct table table;
    table_init(&table, cli->memory, &cli->output, COLUMNS, sizeof(COLUMNS) / sizeof(COLUMNS[0]));
    const cJSON *allocator;
    cJSON_ArrayForEach(allocator, json_document_member(document->root, "allocators"))
    {
        add_value(&table, document, json_document_member(allocator, "name"));
        add_value(&table, document, json_document_member(allocator, "policy"));
        add_value(&table, document, json_document_member(allocator, "shared"));
        add_size_value(&table, document, json_document_member(allocator, "gpu_capacity"));
        add_value(&table, document, json_document_member(allocator, "gpu_probability"));
        add_value(&table, document, json_document_member(allocator, "forget_probability"));
        add_value(&table, document, json_document_member(allocator, "fallback_on_oom"));
        add_value(&table, document, json_document_member(allocator, "trace_limit"));
        add_value(&table, document, json_document_member(allocator, "seed"));
        add_value(&table, document, json_document_member(allocator, "knobs"));
    }
    int status = table_end(&table);
    table_release(&table);
    return status;
}

static int print_limits(struct cli *cli, const struct json_document *document)
{
    static const struct table_column COLUMNS[] = {{"limit", false}, {"value", true}};
    struct table table;
    table_init(&table, cli->memory, &cli->output, COLUMNS, 2);
    const cJSON *limit;
    cJSON_ArrayForEach(limit, json_document_member(document->root, "limits"))
    {
        table_text(&table, limit->string);
        add_value(&table, document, limit);
    }
    int status = table_end(&table);
    table_release(&table);
    return status;
}

static void print_policies(struct cli *cli, const struct json_document *document)
{
    const char *separator = "policies: ";
    const cJSON *policy;
    cJSON_ArrayForEach(policy, json_document_member(document->root, "policies"))
    {
        output_text(&cli->output, "%s", separator);
        if (cJSON_IsString(policy))
            output_foreign(&cli->output, policy->valuestring);
        separator = ", ";
    }
    output_text(&cli->output, "\n\n");
}

static int print_info(struct cli *cli, const worsegpu_client *client,
                      const struct worsegpu_client_info *info)
{
    size_t length;
    const char *result = worsegpu_client_result(client, &length);
    struct json_document document;
    json_document_init(&document, cli->memory);
    int status = -1;
    if (json_document_read(&document, result, length) == STRICT_JSON_FINE) {
        output_foreign(&cli->output, info->server);
        output_text(&cli->output, " ");
        output_foreign(&cli->output, info->version);
        output_text(&cli->output,
                    ", protocol %" PRIu64 ", process %" PRIu64 ", up for %" PRIu64 " seconds\n",
                    info->protocol, info->pid, info->uptime_seconds);
        print_policies(cli, &document);
        status = print_allocators(cli, &document);
        output_text(&cli->output, "\n");
        if (status == 0)
            status = print_limits(cli, &document);
    }
    json_document_release(&document);
    return status == 0 ? CLI_FINE : report_no_memory(cli);
}

int perform_info(struct cli *cli)
{
    int status;
    struct worsegpu_client_error error;
    struct worsegpu_client_info info;
    worsegpu_client *client = cli_connect(cli, &status);
    if (!client)
        return status;
    if (worsegpu_client_info(client, &info, &error) != WORSEGPU_CLIENT_OK) {
        status = report_error(cli, NULL, &error);
    } else if (cli->output.json) {
        result_print(cli, client);
        status = CLI_FINE;
    } else {
        status = print_info(cli, client, &info);
    }
    worsegpu_client_disconnect(client);
    return status;
}
