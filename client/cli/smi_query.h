/* `smi --query`: named figures of each GPU, as CSV or JSON. The fields are those of `snapshot` and
 * its detail under their names on the wire, and `name`. No state. */
#ifndef SMI_QUERY_H
#define SMI_QUERY_H

#include "client/cli/gpus.h"

enum {
    SMI_QUERY_MOST = 64 /* fields of one query */
};

struct smi_query {
    size_t fields[SMI_QUERY_MOST];
    size_t count;
};

/* Reads "gpu_used,gpu_free". The exit status: CLI_USAGE after a complaint that names the nearest
 * field and lists all. */
int smi_query_read(struct cli *cli, const char *text, struct smi_query *query);

/* The first line of a CSV; a line for each GPU. */
void smi_query_print_titles(struct cli *cli, const struct smi_query *query);
void smi_query_print_csv(struct cli *cli, const struct smi_query *query, const struct gpus *gpus);

/* One array with an object for each GPU, on one line. */
void smi_query_print_json(struct cli *cli, const struct smi_query *query, const struct gpus *gpus);

#endif
