/* clients: who is connected, page by page, as one table or one JSON document. */
#include "client/cli/pages.h"
#include "console/table.h"

static const struct table_column COLUMNS[] = {
    {"client", true},   {"name", false},  {"user", true}, {"process", true},  {"seconds", true},
    {"live", true},     {"gpu", true},    {"host", true}, {"detached", true}, {"private", true},
    {"requests", true}, {"errors", true}, {"in", true},   {"out", true},      {"you", false},
};
enum {
    COLUMN_COUNT = sizeof(COLUMNS) / sizeof(COLUMNS[0])
};

static void add_row(struct table *table, const struct worsegpu_client_peer *peer)
{
    table_number(table, peer->client);
    table_text(table, peer->name[0] != '\0' ? peer->name : "-");
    table_number(table, peer->user);
    table_signed(table, peer->process);
    table_number(table, peer->connected_seconds);
    table_number(table, peer->allocations);
    table_size(table, peer->gpu_bytes);
    table_size(table, peer->cpu_bytes);
    table_number(table, peer->detached);
    table_number(table, peer->private_allocators);
    table_number(table, peer->requests);
    table_number(table, peer->errors);
    table_size(table, peer->bytes_in);
    table_size(table, peer->bytes_out);
    table_text(table, peer->you ? "yes" : "-");
}

static int fetch(struct cli *cli, worsegpu_client *client, struct pages *pages, uint64_t wanted,
                 struct table *table, struct worsegpu_client_error *error)
{
    (void)cli;
    struct worsegpu_client_peers page = {0};
    int status = worsegpu_client_clients(client, pages->after, wanted, &page, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    for (size_t i = 0; table && i < page.count; i++)
        add_row(table, &page.peers[i]);
    pages_got(pages, page.count, page.next, page.more);
    return WORSEGPU_CLIENT_OK;
}

int perform_clients(struct cli *cli)
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
    status = pages_print(cli, client, &pages, "clients", fetch, &table);
    table_release(&table);
    worsegpu_client_disconnect(client);
    return status;
}
