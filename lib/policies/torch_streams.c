/* Which streams the torch policies know; see torch_internal.h. Found by number in O(log n), the
 * last one at once. A stream ends with its last use, so that memory is explained by what is there.
 */
#include "base/memory.h"
#include "lib/policies/torch_internal.h"

int torch_streams_reserve(struct torch *torch)
{
    if (torch->spare_stream != BLOCK_NONE)
        return 0;
    /* Twice the number has to fit into a block's group. */
    if (torch->streams_length >= BLOCK_NONE / 2 ||
        memory_grow(torch->memory, &torch->streams, &torch->streams_capacity,
                    torch->streams_length + 1, sizeof(*torch->streams)) != 0)
        return WORSEGPU_NO_MEMORY;
    return block_nodes_reserve(&torch->stream_nodes, torch->streams_capacity);
}

uint32_t torch_stream_find(const struct torch *torch, uint64_t number)
{
    uint32_t stream =
        block_order_at_least(&torch->streams_by_number, &torch->stream_nodes, number, 0);
    return stream != BLOCK_NONE && torch->streams[stream].number == number ? stream : BLOCK_NONE;
}

static uint32_t make(struct torch *torch, uint64_t number)
{
    uint32_t stream = torch->spare_stream;
    if (stream == BLOCK_NONE)
        stream = (uint32_t)torch->streams_length++;
    else
        torch->spare_stream = torch->streams[stream].next;
    torch->streams[stream] = (struct torch_stream){
        .number = number,
        .free = {block_order_empty(), block_order_empty()},
        .unmapped = {block_order_empty(), block_order_empty()},
        .first_event = BLOCK_NONE,
        .last_event = BLOCK_NONE,
        .waiting = BLOCK_NONE,
        .next = BLOCK_NONE,
    };
    block_order_insert(&torch->streams_by_number, &torch->stream_nodes, stream, number, 0, 0);
    return stream;
}

uint32_t torch_stream_take(struct torch *torch, uint64_t number)
{
    uint32_t stream = torch->recent_stream;
    if (stream == BLOCK_NONE || torch->streams[stream].number != number) {
        stream = torch_stream_find(torch, number);
        if (stream == BLOCK_NONE)
            stream = make(torch, number);
        torch->recent_stream = stream;
    }
    torch->streams[stream].uses++;
    return stream;
}

void torch_stream_drop(struct torch *torch, uint32_t stream)
{
    if (--torch->streams[stream].uses > 0)
        return;
    block_order_remove(&torch->streams_by_number, &torch->stream_nodes, stream);
    torch->streams[stream].next = torch->spare_stream;
    torch->spare_stream = stream;
    if (torch->recent_stream == stream)
        torch->recent_stream = BLOCK_NONE;
}

void torch_streams_release(struct torch *torch)
{
    memory_release_array(torch->memory, torch->streams, torch->streams_capacity,
                         sizeof(*torch->streams));
    block_nodes_release(&torch->stream_nodes);
}
