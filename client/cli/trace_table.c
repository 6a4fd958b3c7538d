/* Events as a table; see trace_table.h. */
#include "client/cli/trace_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct table_column COLUMNS[] = {
    {"sequence", true},  {"operation", false}, {"id", true},       {"device", false},
    {"requested", true}, {"reserved", true},   {"outcome", false}, {"client", true},
    {"name", false},     {"stream", true},     {"tag", false},
};

void trace_table_init(struct cli *cli, struct table *table)
{
    enum {
        COLUMN_COUNT = sizeof(COLUMNS) / sizeof(COLUMNS[0])
    };
    /* Rows that come one by one cannot be looked at together: room for usual ones. */
    static const size_t USUAL[COLUMN_COUNT] = {8, 15, 6, 6, 9, 8, 23, 6, 8, 6, 0};
    table_init(table, cli->memory, &cli->output, COLUMNS, COLUMN_COUNT);
    for (size_t i = 0; i < COLUMN_COUNT && cli->arguments.values.follow; i++) {
        if (table->widths[i] < USUAL[i])
            table->widths[i] = USUAL[i];
    }
}

static void add_number(struct table *table, bool given, uint64_t number)
{
    if (given)
        table_number(table, number);
    else
        table_text(table, "-");
}

static void add_size(struct table *table, uint64_t bytes)
{
    if (bytes > 0)
        table_size(table, bytes);
    else
        table_text(table, "-");
}

static void add_outcome(struct table *table, const struct worsegpu_client_event *event)
{
    char text[WORSEGPU_CLIENT_WORD_SIZE + 32];
    if (strcmp(event->operation, "event_done") == 0) {
        if (event->count > 0)
            snprintf(text, sizeof(text), "%" PRIu64 " %s", event->count,
                     event->newest ? "newest" : "oldest");
        table_text(table, event->count > 0 ? text : "all");
    } else if (event->rule > 0) {
        snprintf(text, sizeof(text), "%s by rule %" PRIu64, event->action, event->rule);
        table_text(table, text);
    } else {
        table_text(table, event->reason[0] != '\0' ? event->reason
                          : event->released        ? "released"
                                                   : "-");
    }
}

void trace_table_add(struct table *table, const struct worsegpu_client_event *event)
{
    table_number(table, event->sequence);
    table_text(table, event->operation);
    add_number(table, event->allocation_id != 0, event->allocation_id);
    bool placed = event->rule == 0 && (event->allocation_id > 0 || event->requested_bytes > 0);
    table_text(table, !placed ? "-" : event->device == WORSEGPU_CLIENT_GPU ? "gpu" : "cpu");
    add_size(table, event->requested_bytes);
    add_size(table, event->reserved_bytes);
    add_outcome(table, event);
    add_number(table, event->client_given, event->client);
    table_text(table, event->name[0] != '\0' ? event->name : "-");
    add_number(table, event->stream_given, event->stream);
    table_text(table, event->tag[0] != '\0' ? event->tag : "-");
}
