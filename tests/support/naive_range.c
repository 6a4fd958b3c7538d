/* A range as an array of blocks; see naive_range.h. */
#include "tests/support/naive_range.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

void naive_begin(struct naive_range *range, uint64_t bytes)
{
    range->count = 1;
    range->moment = 0;
    range->blocks[0] = (struct naive_block){.bytes = bytes};
    naive_push(range, 0);
}

static void move(struct naive_range *range, size_t to, size_t from)
{
    memmove(&range->blocks[to], &range->blocks[from],
            (range->count - from) * sizeof(range->blocks[0]));
}

void naive_cut(struct naive_range *range, size_t place, uint64_t bytes)
{
    assert_true(range->count < NAIVE_MAX_BLOCKS);
    move(range, place + 1, place);
    range->count++;
    struct naive_block *lower = &range->blocks[place];
    struct naive_block *upper = &range->blocks[place + 1];
    upper->offset += bytes;
    upper->bytes -= bytes;
    lower->bytes = bytes;
}

void naive_push(struct naive_range *range, size_t place)
{
    range->blocks[place].pushed = ++range->moment;
}

/* The block in this place swallows the one after it. */
static void join(struct naive_range *range, size_t place)
{
    range->blocks[place].bytes += range->blocks[place + 1].bytes;
    move(range, place + 1, place + 2);
    range->count--;
}

size_t naive_free(struct naive_range *range, uint64_t offset)
{
    size_t place = 0;
    while (place < range->count && range->blocks[place].offset != offset)
        place++;
    assert_true(place < range->count && range->blocks[place].used);
    range->blocks[place].used = false;
    if (place + 1 < range->count && !range->blocks[place + 1].used)
        join(range, place);
    if (place > 0 && !range->blocks[place - 1].used)
        join(range, --place);
    return place;
}

int naive_lowest_list(const struct naive_range *range, naive_list_of list_of, unsigned least,
                      size_t but, unsigned *list)
{
    int found = 1;
    for (size_t i = 0; i < range->count; i++) {
        if (range->blocks[i].used || i == but)
            continue;
        unsigned of = list_of(range->blocks[i].bytes);
        if (of < least || (found == 0 && of >= *list))
            continue;
        *list = of;
        found = 0;
    }
    return found;
}

size_t naive_next_in_list(const struct naive_range *range, naive_list_of list_of, unsigned list,
                          size_t but, uint64_t before)
{
    size_t found = NAIVE_NONE;
    for (size_t i = 0; i < range->count; i++) {
        const struct naive_block *block = &range->blocks[i];
        if (block->used || i == but || block->pushed >= before || list_of(block->bytes) != list)
            continue;
        if (found == NAIVE_NONE || block->pushed > range->blocks[found].pushed)
            found = i;
    }
    return found;
}

unsigned naive_log2(uint64_t value)
{
    unsigned log2 = 0;
    while (value >= 2) {
        value /= 2;
        log2++;
    }
    return log2;
}
