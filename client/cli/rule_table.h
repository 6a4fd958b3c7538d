/* Rules of fault injection as a table. No state. */
#ifndef RULE_TABLE_H
#define RULE_TABLE_H

#include "client/cli/cli.h"
#include "console/table.h"

/* A table for them; table_end and table_release as ever. */
void rule_table_init(struct cli *cli, struct table *table);
void rule_table_add(struct table *table, const struct worsegpu_client_rule *rule);

#endif
