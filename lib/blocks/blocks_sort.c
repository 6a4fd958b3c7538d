/* All blocks by address; see blocks_sort.h. A heap sort: no memory, no bad case. */
#include "lib/blocks/blocks_sort.h"

#include <stdbool.h>

static bool before(const struct block_place *left, const struct block_place *right)
{
    if (left->offset != right->offset)
        return left->offset < right->offset;
    return left->block < right->block;
}

/* Lets the place sink until no later one stands above it. */
static void sink(struct block_place *places, size_t count, size_t place)
{
    struct block_place sinking = places[place];
    for (;;) {
        size_t child = 2 * place + 1;
        if (child >= count)
            break;
        if (child + 1 < count && before(&places[child], &places[child + 1]))
            child++;
        if (!before(&sinking, &places[child]))
            break;
        places[place] = places[child];
        place = child;
    }
    places[place] = sinking;
}

size_t blocks_sort(const struct blocks *blocks, struct block_place *places)
{
    size_t count = 0;
    for (size_t i = 0; i < blocks->length; i++) {
        if (blocks->items[i].state != BLOCK_SPARE)
            places[count++] = (struct block_place){blocks->items[i].offset, (uint32_t)i};
    }
    for (size_t i = count / 2; i-- > 0;)
        sink(places, count, i);
    for (size_t left = count; left > 1; left--) {
        struct block_place last = places[left - 1];
        places[left - 1] = places[0];
        places[0] = last;
        sink(places, left - 1, 0);
    }
    return count;
}
