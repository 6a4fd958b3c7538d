/* An aligned table that may be longer than memory should hold: rows are kept until there are enough
 * of them to judge the widths, then printed. Lives for one command. */
#ifndef TABLE_H
#define TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/worsegpu_memory.h"
#include "console/output.h"

enum {
    TABLE_MAX_COLUMNS = 16,
    TABLE_ROWS_HELD = 1000 /* rows that are looked at together */
};

struct table_column {
    const char *title;
    bool right; /* numbers to the right, words to the left */
};

struct table {
    const struct worsegpu_memory *memory;
    struct output *output;
    const struct table_column *columns;
    size_t column_count;
    size_t widths[TABLE_MAX_COLUMNS]; /* in characters */
    char *cells;                      /* a byte of style and a text with its NUL each, row by row */
    size_t cells_length;
    size_t cells_capacity;
    size_t row_count; /* whole rows held */
    size_t column;    /* of the next cell */
    bool headed;      /* the titles are printed */
    bool failed;      /* memory ran out */
};

void table_init(struct table *table, const struct worsegpu_memory *memory, struct output *output,
                const struct table_column *columns, size_t column_count);
void table_release(struct table *table);

/* The next cell; a row is full after column_count of them. Foreign text is made harmless. */
void table_text(struct table *table, const char *text);
void table_styled(struct table *table, enum output_style style, const char *text);
void table_number(struct table *table, uint64_t number);
void table_signed(struct table *table, int64_t number);
void table_size(struct table *table, uint64_t bytes); /* "32.0 MiB" */

/* Prints what is held; more rows may follow. 0, or -1 when memory ran out on the way: some rows are
 * missing then. */
int table_end(struct table *table);

#endif
