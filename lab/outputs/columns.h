/* A column of numbers for the page: differences from one number to the next as variable-length
 * bytes, written as base64. Read back by lab/page/source/columns.js.
 *
 * Zigzag (0, -1, 1, -2, ...), then seven bits a byte, the lowest first; a set high bit says that
 * more follow. Numbers are below 2^53, as a page needs them. Lives inside its owner. */
#ifndef LAB_OUTPUTS_COLUMNS_H
#define LAB_OUTPUTS_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

#include "lab/outputs/outputs.h"

struct column {
    unsigned char *bytes;
    size_t length;
    size_t capacity;
    uint64_t last;
};

void column_release(struct column *column, const struct worsegpu_memory *memory);
/* 0, or -1 without memory. */
int column_add(struct column *column, const struct worsegpu_memory *memory, uint64_t number);
/* The column as a JSON string. */
void column_write(const struct column *column, struct output_file *file);

#endif
