/* record_stream in the torch policies: a block that other streams use is freed only when events on
 * all of them have completed; see torch_internal.h.
 *
 * Each stream has a queue of events, read from its front: an event that has completed waits behind
 * one that has not. Streams whose front has completed are in a list, so that looking costs nothing
 * when nothing has happened. O(log n) for each event, but for completing the newest ones, which
 * goes through the queue. */
#include "base/memory.h"
#include "lib/policies/torch_internal.h"

static int reserve_use(struct torch *torch)
{
    if (torch->spare_use != BLOCK_NONE)
        return 0;
    if (torch->uses_length >= BLOCK_NONE - 1 ||
        memory_grow(torch->memory, &torch->uses, &torch->uses_capacity, torch->uses_length + 1,
                    sizeof(*torch->uses)) != 0)
        return WORSEGPU_NO_MEMORY;
    return block_nodes_reserve(&torch->use_nodes, torch->uses_capacity);
}

/* Ends a use or an event, and with it perhaps its stream. */
static void end_use(struct torch *torch, uint32_t use)
{
    uint32_t stream = torch->uses[use].stream;
    torch->uses[use].next = torch->spare_use;
    torch->spare_use = use;
    torch_stream_drop(torch, stream);
}

/* ------------------------------------------------------------------------------ uses */

/* The first recorded use of a block by this place of a stream or a later one; BLOCK_NONE. */
static uint32_t find_use(const struct torch *torch, uint32_t block, uint32_t stream)
{
    uint32_t use = block_order_at_least(&torch->recorded, &torch->use_nodes, block, stream);
    return use != BLOCK_NONE && torch->uses[use].block == block ? use : BLOCK_NONE;
}

int torch_events_use(struct torch *torch, uint32_t block, uint64_t number)
{
    struct block *item = blocks_at(&torch->blocks, block);
    if (torch_stream_of(torch, item)->number == number)
        return 0;
    if (reserve_use(torch) != 0 || torch_streams_reserve(torch) != 0)
        return WORSEGPU_NO_MEMORY;
    uint32_t stream = torch_stream_take(torch, number);
    uint32_t known = find_use(torch, block, stream);
    if (known != BLOCK_NONE && torch->uses[known].stream == stream) {
        torch_stream_drop(torch, stream);
        return 0;
    }
    uint32_t use = torch->spare_use;
    if (use == BLOCK_NONE)
        use = (uint32_t)torch->uses_length++;
    else
        torch->spare_use = torch->uses[use].next;
    torch->uses[use] = (struct torch_use){
        .block = block, .stream = stream, .previous = BLOCK_NONE, .next = BLOCK_NONE};
    block_order_insert(&torch->recorded, &torch->use_nodes, use, block, stream, 0);
    item->own++;
    return 0;
}

static void append_event(struct torch *torch, uint32_t event)
{
    struct torch_stream *stream = &torch->streams[torch->uses[event].stream];
    torch->uses[event].previous = stream->last_event;
    if (stream->last_event == BLOCK_NONE)
        stream->first_event = event;
    else
        torch->uses[stream->last_event].next = event;
    stream->last_event = event;
    if (stream->waiting == BLOCK_NONE)
        stream->waiting = event;
    torch->pending_events++;
}

void torch_events_record(struct torch *torch, uint32_t block)
{
    uint32_t use;
    while ((use = find_use(torch, block, 0)) != BLOCK_NONE) {
        block_order_remove(&torch->recorded, &torch->use_nodes, use);
        append_event(torch, use);
    }
}

void torch_events_forget(struct torch *torch, uint32_t block)
{
    uint32_t use;
    while ((use = find_use(torch, block, 0)) != BLOCK_NONE) {
        block_order_remove(&torch->recorded, &torch->use_nodes, use);
        end_use(torch, use);
    }
    blocks_at(&torch->blocks, block)->own = 0;
}

/* ------------------------------------------------------------------------------ completion */

static void complete(struct torch *torch, uint32_t stream, uint32_t event)
{
    struct torch_stream *queue = &torch->streams[stream];
    torch->uses[event].done = 1;
    if (queue->first_event == event && !queue->ready) {
        queue->ready = 1;
        queue->next = torch->ready_stream;
        torch->ready_stream = stream;
    }
}

void torch_events_complete(struct torch *torch, uint64_t number, uint64_t count, bool newest)
{
    uint32_t stream = torch_stream_find(torch, number);
    if (stream == BLOCK_NONE)
        return;
    struct torch_stream *queue = &torch->streams[stream];
    uint32_t event = newest ? queue->last_event : queue->waiting;
    while (event != BLOCK_NONE && count > 0) {
        if (!torch->uses[event].done) {
            complete(torch, stream, event);
            count--;
        }
        event = newest ? torch->uses[event].previous : torch->uses[event].next;
    }
    if (!newest)
        queue->waiting = event;
}

/* Takes the oldest event off its queue. Its block may be free now, its stream may end. */
static void take_event(struct torch *torch, struct torch_stream *queue)
{
    uint32_t event = queue->first_event;
    uint32_t block = torch->uses[event].block;
    uint32_t next = torch->uses[event].next;
    queue->first_event = next;
    if (next == BLOCK_NONE)
        queue->last_event = BLOCK_NONE;
    else
        torch->uses[next].previous = BLOCK_NONE;
    if (queue->waiting == event)
        queue->waiting = next;
    torch->pending_events--;
    end_use(torch, event);
    if (--blocks_at(&torch->blocks, block)->own == 0)
        torch_pool_give(torch, block);
}

/* The next of the streams whose oldest event has completed, taken off their list. */
static struct torch_stream *next_ready(struct torch *torch)
{
    struct torch_stream *queue = &torch->streams[torch->ready_stream];
    torch->ready_stream = queue->next;
    queue->next = BLOCK_NONE;
    queue->ready = 0;
    return queue;
}

void torch_events_look(struct torch *torch)
{
    while (torch->ready_stream != BLOCK_NONE) {
        struct torch_stream *queue = next_ready(torch);
        uint32_t event;
        /* The queue of a stream that has ended is empty. */
        while ((event = queue->first_event) != BLOCK_NONE && torch->uses[event].done)
            take_event(torch, queue);
    }
}

void torch_events_synchronize(struct torch *torch)
{
    while (torch->ready_stream != BLOCK_NONE)
        next_ready(torch);
    uint32_t next = BLOCK_NONE;
    for (uint32_t stream = torch_stream_first(torch);
         stream != BLOCK_NONE && torch->pending_events > 0; stream = next) {
        next = torch_stream_next(torch, stream);
        while (torch->streams[stream].first_event != BLOCK_NONE)
            take_event(torch, &torch->streams[stream]);
    }
}
