/* The results of a sweep as comma-separated values. */
#ifndef LAB_SWEEP_COLUMNS_H
#define LAB_SWEEP_COLUMNS_H

#include <stdio.h>

#include "proto/json_document.h"

/* The names of the columns: 0, 1, ...; NULL after the last. */
const char *sweep_column(size_t index);

void sweep_csv_head(FILE *file);
/* One line of results. */
void sweep_csv_row(FILE *file, const struct json_document *document);

#endif
