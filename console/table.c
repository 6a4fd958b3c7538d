/* Tables; see table.h. */
#include "console/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes_text.h"
#include "base/memory.h"

enum {
    LONGEST_CELL = 512 /* bytes, NUL included */
};

/* Characters of UTF-8: bytes that do not continue one. */
static size_t characters(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++)
        count += ((unsigned char)*text & 0xc0u) != 0x80u;
    return count;
}

void table_init(struct table *table, const struct worsegpu_memory *memory, struct output *output,
                const struct table_column *columns, size_t column_count)
{
    *table = (struct table){
        .memory = memory, .output = output, .columns = columns, .column_count = column_count};
    for (size_t i = 0; i < column_count; i++)
        table->widths[i] = characters(columns[i].title);
}

void table_release(struct table *table)
{
    memory_release_array(table->memory, table->cells, table->cells_capacity, 1);
    table->cells = NULL;
    table->cells_capacity = 0;
}

/* Blanks are owed until something follows them: no line ends in blanks. */
static void print_cell(struct table *table, size_t column, const char *text,
                       enum output_style style, size_t *owed)
{
    struct output *output = table->output;
    size_t blanks = table->widths[column] - characters(text);
    bool right = table->columns[column].right;
    *owed += right ? blanks : 0;
    if (*text) {
        output_text(output, "%*s", (int)*owed, "");
        output_styled(output, style, text);
        *owed = 0;
    }
    *owed += right ? 0 : blanks;
    *owed += 2; /* between two columns */
    if (column + 1 == table->column_count) {
        output_bytes(output, "\n", 1);
        *owed = 0;
    }
}

static void print_rows(struct table *table)
{
    size_t owed = 0;
    if (!table->headed) {
        for (size_t i = 0; i < table->column_count; i++)
            print_cell(table, i, table->columns[i].title, OUTPUT_BOLD, &owed);
        table->headed = true;
    }
    const char *cell = table->cells;
    for (size_t row = 0; row < table->row_count; row++) {
        for (size_t i = 0; i < table->column_count; i++) {
            print_cell(table, i, cell + 1, (enum output_style)cell[0], &owed);
            cell += strlen(cell + 1) + 2;
        }
    }
    table->row_count = 0;
    table->cells_length = 0;
}

void table_text(struct table *table, const char *text)
{
    table_styled(table, OUTPUT_PLAIN, text);
}

void table_styled(struct table *table, enum output_style style, const char *text)
{
    char harmless[LONGEST_CELL];
    if (table->failed)
        return;
    output_make_harmless(text, harmless, sizeof(harmless));
    size_t bytes = strlen(harmless) + 1;
    if (memory_grow(table->memory, &table->cells, &table->cells_capacity,
                    table->cells_length + bytes + 1, 1) < 0) {
        table->failed = true;
        return;
    }
    table->cells[table->cells_length++] = (char)style;
    memcpy(table->cells + table->cells_length, harmless, bytes);
    table->cells_length += bytes;
    size_t width = characters(harmless);
    if (width > table->widths[table->column])
        table->widths[table->column] = width;
    if (++table->column < table->column_count)
        return;
    table->column = 0;
    if (++table->row_count == TABLE_ROWS_HELD)
        print_rows(table);
}

void table_number(struct table *table, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, number);
    table_text(table, text);
}

void table_signed(struct table *table, int64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, number);
    table_text(table, text);
}

void table_size(struct table *table, uint64_t bytes)
{
    char text[BYTES_TEXT_SIZE];
    bytes_to_text(bytes, false, text);
    table_text(table, text);
}

int table_end(struct table *table)
{
    print_rows(table);
    return table->failed ? -1 : 0;
}
