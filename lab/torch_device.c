/* The device below the model while a torch trace is checked: the record is its memory.
 *
 * Where a segment lies is the driver's choice, so it comes from the record; how large it is, and
 * what is given back, is compared. When the device was full is told by the record as well: it says
 * no as long as the record gives memory back before the segment that it takes. What the model then
 * gives back is its own doing, and must be what the record has, in any order. */
#include <inttypes.h>

#include "base/memory.h"
#include "lab/torch_check.h"

enum {
    SEGMENTS_AT_ONCE = 4 /* that a request can take, in all its attempts */
};

/* Where segments go that the record does not have. */
#define ELSEWHERE (UINT64_C(1) << 60)

static bool returns(const struct torch_call *call)
{
    return call->event.action == TORCH_SEGMENT_FREE || call->event.action == TORCH_SEGMENT_UNMAP;
}

static void pass_done(struct torch_check *check)
{
    while (check->call_next < check->call_count && check->calls[check->call_next].done)
        check->call_next++;
}

bool torch_device_returns(const struct torch_check *check)
{
    return check->call_next < check->call_count && returns(&check->calls[check->call_next]);
}

static const char *name_of(const struct torch_call *call)
{
    switch (call->event.action) {
    case TORCH_SEGMENT_ALLOC:
        return "segments";
    case TORCH_SEGMENT_FREE:
        return "releases";
    case TORCH_SEGMENT_MAP:
        return "mappings";
    default:
        return "unmappings";
    }
}

int torch_device_expect(struct torch_check *check)
{
    size_t at = check->call_count;
    struct torch_call call = {.event = check->event, .number = check->number};
    if (memory_grow(check->memory, &check->calls, &check->calls_capacity, at + 1,
                    sizeof(*check->calls)) != 0 ||
        number_map_reserve(&check->call_returns) != 0 || at >= NUMBER_MAP_NONE)
        return LOG_NO_MEMORY;
    check->calls[at] = call;
    check->call_count++;
    if (returns(&call))
        number_map_put(&check->call_returns, call.event.addr, (uint32_t)at);
    verify_count(check->result, name_of(&call))->all++;
    return LOG_FINE;
}

void torch_device_settle(struct torch_check *check)
{
    for (size_t i = check->call_next; i < check->call_count; i++) {
        const struct torch_call *call = &check->calls[i];
        if (!call->done)
            torch_mismatch(check,
                           "event %" PRIu64 " (%s of %" PRIu64 " bytes at %" PRIu64
                           "): expected, but the model did not do it",
                           call->number, returns(call) ? "a release" : "a segment",
                           call->event.size, call->event.addr);
        if (returns(call))
            number_map_remove(&check->call_returns, call->event.addr);
    }
    for (size_t i = 0; i < check->call_next; i++)
        if (returns(&check->calls[i]))
            number_map_remove(&check->call_returns, check->calls[i].event.addr);
    check->call_count = 0;
    check->call_next = 0;
}

/* ------------------------------------------------------------------------------ what is present */

int torch_device_reserve(struct torch_check *check)
{
    size_t needed = check->present_length + SEGMENTS_AT_ONCE;
    if (memory_grow(check->memory, &check->present, &check->present_capacity, needed,
                    sizeof(*check->present)) != 0 ||
        block_nodes_reserve(&check->present_nodes, check->present_capacity) != 0)
        return LOG_NO_MEMORY;
    return LOG_FINE;
}

bool torch_device_add(struct torch_check *check, uint64_t address, uint64_t bytes)
{
    uint64_t end;
    if (bytes == 0 || __builtin_add_overflow(address, bytes, &end))
        return false;
    struct block_nodes *nodes = &check->present_nodes;
    uint32_t below = block_order_below(&check->present_order, nodes, end, 0);
    if (below != BLOCK_NONE && nodes->items[below].major + check->present[below].bytes > address)
        return false;
    uint32_t at = check->present_spare;
    if (at != BLOCK_NONE)
        check->present_spare = check->present[at].next;
    else
        at = (uint32_t)check->present_length++;
    check->present[at] = (struct torch_present){.bytes = bytes, .next = BLOCK_NONE};
    block_order_insert(&check->present_order, nodes, at, address, 0, 0);
    return true;
}

static void remove_present(struct torch_check *check, uint64_t address)
{
    struct block_nodes *nodes = &check->present_nodes;
    uint32_t at = block_order_at_least(&check->present_order, nodes, address, 0);
    if (at == BLOCK_NONE || nodes->items[at].major != address)
        return;
    block_order_remove(&check->present_order, nodes, at);
    check->present[at].next = check->present_spare;
    check->present_spare = at;
}

static bool add_elsewhere(struct torch_check *check, uint64_t bytes, uint64_t *address)
{
    uint32_t last = block_order_last(&check->present_order, &check->present_nodes);
    *address = ELSEWHERE;
    if (last != BLOCK_NONE) {
        uint64_t end = check->present_nodes.items[last].major + check->present[last].bytes;
        if (end > ELSEWHERE)
            *address = end;
    }
    return torch_device_add(check, *address, bytes);
}

/* ------------------------------------------------------------------------------ the source */

/* The next recorded call if it takes memory, else NULL. With `all`, calls that give memory back and
 * that the model does not make are left behind. */
static struct torch_call *next_taking(struct torch_check *check, bool all)
{
    while (all && torch_device_returns(check)) {
        torch_mismatch(check,
                       "event %" PRIu64 " (a release of %" PRIu64 " bytes at %" PRIu64
                       "): expected, but the model has nothing there to give back",
                       check->calls[check->call_next].number,
                       check->calls[check->call_next].event.size,
                       check->calls[check->call_next].event.addr);
        check->calls[check->call_next].done = true;
        pass_done(check);
    }
    return check->call_next < check->call_count && !torch_device_returns(check)
               ? &check->calls[check->call_next]
               : NULL;
}

/* Whether the device was full when it was asked: the record gives memory back before it takes any.
 * After all of the cache there is nothing more to give; but with a largest size for splitting, a
 * part of it goes first. */
static bool is_full(struct torch_check *check)
{
    bool parts = torch_snapshot_settings(check->snapshot)->has_max_split;
    bool again = check->asked == 0 || (parts && check->asked == 1 && check->progress);
    check->asked++;
    check->progress = false;
    return again && torch_device_returns(check);
}

static int take_recorded(struct torch_check *check, uint64_t bytes, struct torch_call *call,
                         uint64_t *address)
{
    call->done = true;
    pass_done(check);
    bool equal = call->event.action == TORCH_SEGMENT_ALLOC && call->event.size == bytes;
    verify_count(check->result, name_of(call))->equal += equal;
    if (!equal)
        torch_mismatch(check,
                       "event %" PRIu64 ": expected a segment of %" PRIu64
                       " bytes, got one of %" PRIu64,
                       call->number, call->event.size, bytes);
    *address = call->event.addr;
    if (torch_device_add(check, *address, bytes))
        return 0;
    torch_mismatch(check, "event %" PRIu64 ": the segment lies on another one", call->number);
    return add_elsewhere(check, bytes, address) ? 0 : 1;
}

static int take_region(struct torch_check *check, uint64_t bytes, uint64_t *address)
{
    if (is_full(check))
        return 1;
    struct torch_call *call = next_taking(check, true);
    if (call)
        return take_recorded(check, bytes, call, address);
    if (check->event.action == TORCH_OOM)
        return 1;
    torch_mismatch(check, "expected no new segment, got one of %" PRIu64 " bytes", bytes);
    return add_elsewhere(check, bytes, address) ? 0 : 1;
}

/* Of an address range the record tells only what is mapped, from its beginning on. */
static int reserve_range(struct torch_check *check, uint64_t bytes, uint64_t *address)
{
    const struct torch_call *call = next_taking(check, false);
    uint64_t end;
    *address = call ? call->event.addr : ELSEWHERE;
    return __builtin_add_overflow(*address, bytes, &end) ? 1 : 0;
}

static int map_pages(struct torch_check *check, uint64_t bytes, uint64_t address)
{
    if (is_full(check))
        return 1;
    struct torch_call *call = next_taking(check, true);
    if (!call && check->event.action == TORCH_OOM)
        return 1;
    bool equal = call && call->event.action == TORCH_SEGMENT_MAP && call->event.addr == address &&
                 call->event.size == bytes;
    if (call) {
        verify_count(check->result, name_of(call))->equal += equal;
        call->done = true;
        pass_done(check);
    }
    if (!equal)
        torch_mismatch(check,
                       "expected %" PRIu64 " bytes mapped at %" PRIu64 ", got %" PRIu64
                       " bytes at %" PRIu64,
                       call ? call->event.size : 0, call ? call->event.addr : 0, bytes, address);
    return 0;
}

static int take(void *context, enum device_event event, uint64_t bytes, uint64_t *offset)
{
    struct torch_check *check = context;
    if (event == DEVICE_MAP)
        return map_pages(check, bytes, *offset);
    return event == DEVICE_REGION ? take_region(check, bytes, offset)
                                  : reserve_range(check, bytes, offset);
}

static void give_back(void *context, enum device_event event, uint64_t offset, uint64_t bytes)
{
    struct torch_check *check = context;
    if (event == DEVICE_UNRESERVE)
        return;
    check->progress = true;
    if (event == DEVICE_REGION_FREE)
        remove_present(check, offset);
    uint32_t at = number_map_find(&check->call_returns, offset);
    enum torch_action action =
        event == DEVICE_REGION_FREE ? TORCH_SEGMENT_FREE : TORCH_SEGMENT_UNMAP;
    if (at == NUMBER_MAP_NONE || check->calls[at].done || check->calls[at].event.action != action ||
        check->calls[at].event.size != bytes) {
        torch_mismatch(
            check, "the model gave back %" PRIu64 " bytes at %" PRIu64 ", which the record keeps",
            bytes, offset);
        return;
    }
    check->calls[at].done = true;
    verify_count(check->result, name_of(&check->calls[at]))->equal++;
    pass_done(check);
}

void torch_device_begin(struct torch_check *check)
{
    check->source = (struct device_source){check, take, give_back};
    number_map_init(&check->call_returns, &check->hash, check->memory);
    block_nodes_init(&check->present_nodes, check->memory);
    check->present_order = block_order_empty();
    check->present_spare = BLOCK_NONE;
}

void torch_device_end(struct torch_check *check)
{
    number_map_release(&check->call_returns);
    block_nodes_release(&check->present_nodes);
    memory_release_array(check->memory, check->present, check->present_capacity,
                         sizeof(*check->present));
    memory_release_array(check->memory, check->calls, check->calls_capacity, sizeof(*check->calls));
}
