/* Events of the trace as a table, for `trace` in both its forms. */
#ifndef TRACE_TABLE_H
#define TRACE_TABLE_H

#include "client/cli/cli.h"
#include "console/table.h"

/* A table for them; table_end and table_release as ever. */
void trace_table_init(struct cli *cli, struct table *table);
void trace_table_add(struct table *table, const struct worsegpu_client_event *event);

#endif
