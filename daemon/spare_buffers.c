/* Buffers for answers; see spare_buffers.h. */
#include "daemon/spare_buffers.h"

#include <string.h>

int spare_buffers_init(struct spare_buffers *spares, const struct worsegpu_memory *memory)
{
    memset(spares, 0, sizeof(*spares));
    spares->memory = memory;
    char *data = memory_allocate_array(memory, SPARE_BUFFERS_FIRST_BYTES, 1);
    if (!data)
        return -1;
    spare_buffers_give(spares, (struct spare_buffer){data, SPARE_BUFFERS_FIRST_BYTES});
    return 0;
}

void spare_buffers_release(struct spare_buffers *spares)
{
    while (spares->count > 0) {
        struct spare_buffer buffer = spare_buffers_borrow(spares);
        memory_release_array(spares->memory, buffer.data, buffer.capacity, 1);
    }
}

struct spare_buffer spare_buffers_borrow(struct spare_buffers *spares)
{
    if (spares->count == 0)
        return (struct spare_buffer){.data = NULL};
    struct spare_buffer buffer = spares->items[--spares->count];
    spares->bytes -= buffer.capacity;
    return buffer;
}

void spare_buffers_give(struct spare_buffers *spares, struct spare_buffer buffer)
{
    if (!buffer.data)
        return;
    if (spares->count == SPARE_BUFFERS_MOST || buffer.capacity > SPARE_BUFFERS_LARGEST_BYTES ||
        buffer.capacity > SPARE_BUFFERS_MOST_BYTES - spares->bytes) {
        memory_release_array(spares->memory, buffer.data, buffer.capacity, 1);
        return;
    }
    spares->items[spares->count++] = buffer;
    spares->bytes += buffer.capacity;
}

static size_t smallest(const struct spare_buffers *spares)
{
    size_t found = 0;
    for (size_t index = 1; index < spares->count; index++) {
        if (spares->items[index].capacity < spares->items[found].capacity)
            found = index;
    }
    return found;
}

void spare_buffers_trim(struct spare_buffers *spares, size_t most)
{
    while (spares->count > most) {
        size_t index = smallest(spares);
        struct spare_buffer last = spare_buffers_borrow(spares);
        struct spare_buffer buffer = last;
        if (index < spares->count) {
            buffer = spares->items[index];
            spares->items[index] = last;
            spares->bytes += last.capacity - buffer.capacity;
        }
        memory_release_array(spares->memory, buffer.data, buffer.capacity, 1);
    }
}
