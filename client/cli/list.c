/* list: the live allocations, page by page, as one table or one JSON document. */
#include "client/cli/pages.h"
#include "console/table.h"

static const struct table_column COLUMNS[] = {
    {"id", true},     {"device", false}, {"requested", true}, {"reserved", true}, {"block", true},
    {"offset", true}, {"client", true},  {"stream", true},    {"tag", false},     {"handle", false},
};
enum {
    COLUMN_COUNT = sizeof(COLUMNS) / sizeof(COLUMNS[0])
};

static void add_row(struct table *table, const struct worsegpu_client_allocation *allocation)
{
    bool on_gpu = allocation->device == WORSEGPU_CLIENT_GPU;
    table_number(table, allocation->allocation_id);
    table_text(table, on_gpu ? "gpu" : "cpu");
    table_size(table, allocation->requested_bytes);
    table_size(table, allocation->reserved_bytes);
    if (on_gpu) {
        table_signed(table, allocation->block_index);
        table_number(table, allocation->offset);
    } else {
        table_text(table, "-");
        table_text(table, "-");
    }
    if (allocation->client_given)
        table_number(table, allocation->client);
    else
        table_text(table, "gone");
    if (allocation->stream_given)
        table_number(table, allocation->stream);
    else
        table_text(table, "-");
    table_text(table, allocation->tag[0] != '\0' ? allocation->tag : "-");
    table_text(table, allocation->handle);
}

static int fetch(struct cli *cli, worsegpu_client *client, struct pages *pages, uint64_t wanted,
                 struct table *table, struct worsegpu_client_error *error)
{
    struct worsegpu_client_list page = {0};
    int status =
        (cli->arguments.values.orphans ? worsegpu_client_list_orphans : worsegpu_client_list)(
            client, cli_allocator(cli), pages->after, wanted, &page, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    for (size_t i = 0; table && i < page.count; i++)
        add_row(table, &page.allocations[i]);
    pages_got(pages, page.count, page.next, page.more);
    return WORSEGPU_CLIENT_OK;
}

int perform_list(struct cli *cli)
{
    struct table table;
    struct pages pages;
    int status = pages_start(cli, &pages);
    if (status != CLI_FINE)
        return status;
    worsegpu_client *client = cli_connect(cli, &status);
    if (!client)
        return status;
    table_init(&table, cli->memory, &cli->output, COLUMNS, COLUMN_COUNT);
    status = pages_print(cli, client, &pages, "allocations", fetch, &table);
    table_release(&table);
    worsegpu_client_disconnect(client);
    return status;
}
