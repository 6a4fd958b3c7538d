/* A column of numbers as differences in few bytes; see columns.h. */
#include "lab/outputs/columns.h"

#include "base/memory.h"

enum {
    MOST_BYTES = 10 /* of one number */
};

void column_release(struct column *column, const struct worsegpu_memory *memory)
{
    memory_release_array(memory, column->bytes, column->capacity, 1);
    *column = (struct column){0};
}

int column_add(struct column *column, const struct worsegpu_memory *memory, uint64_t number)
{
    if (memory_grow(memory, &column->bytes, &column->capacity, column->length + MOST_BYTES, 1) != 0)
        return -1;
    bool down = number < column->last;
    uint64_t left = down ? (column->last - number) * 2 - 1 : (number - column->last) * 2;
    column->last = number;
    while (left > 0x7f) {
        column->bytes[column->length++] = (unsigned char)(left | 0x80);
        left >>= 7;
    }
    column->bytes[column->length++] = (unsigned char)left;
    return 0;
}

void column_write(const struct column *column, struct output_file *file)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    output_file_bytes(file, "\"", 1);
    for (size_t i = 0; i < column->length; i += 3) {
        size_t left = column->length - i;
        uint32_t three = (uint32_t)column->bytes[i] << 16;
        three |= left > 1 ? (uint32_t)column->bytes[i + 1] << 8 : 0;
        three |= left > 2 ? (uint32_t)column->bytes[i + 2] : 0;
        char four[4] = {digits[three >> 18], digits[three >> 12 & 63], '=', '='};
        if (left > 1)
            four[2] = digits[three >> 6 & 63];
        if (left > 2)
            four[3] = digits[three & 63];
        output_file_bytes(file, four, sizeof(four));
    }
    output_file_bytes(file, "\"", 1);
}
