/* Packed torch events; see torch_events.h.
 *
 * An event is told by what it differs from the one before it in its piece: a byte of action and
 * flags, then numbers in groups of 7 bits, the lowest first. Each piece begins afresh, so that
 * reading can begin there. */
#include "lab/logs/torch_events.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum {
    PIECE = 64,               /* events */
    MOST_IN_MEMORY = 32 << 20 /* bytes */
};

enum {
    HAS_ADDR = 0x10,
    HAS_SIZE = 0x20,
    HAS_TIME = 0x40,
    ACTION_BITS = 0x0f
};

void torch_events_init(struct torch_events *events, const struct worsegpu_memory *memory)
{
    *events = (struct torch_events){0};
    events_pack_init(&events->pack, MOST_IN_MEMORY, memory);
}

void torch_events_release(struct torch_events *events)
{
    memory_release_array(events->pack.memory, events->starts, events->starts_capacity,
                         sizeof(*events->starts));
    events_pack_release(&events->pack);
}

static uint8_t *write_number(uint8_t *at, uint64_t number)
{
    while (number >= 0x80) {
        *at++ = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    *at++ = (uint8_t)number;
    return at;
}

/* The difference with its sign in the lowest bit, so that small ones are short either way. */
static uint8_t *write_difference(uint8_t *at, uint64_t now, uint64_t before)
{
    uint64_t difference = now - before;
    return write_number(at, difference << 1 ^ (0 - (difference >> 63)));
}

static uint64_t read_number(const uint8_t **at)
{
    uint64_t number = 0;
    for (unsigned int shift = 0; shift < 64; shift += 7) {
        uint64_t byte = *(*at)++;
        number |= (byte & 0x7f) << shift;
        if (byte < 0x80)
            break;
    }
    return number;
}

static uint64_t read_difference(const uint8_t **at, uint64_t before)
{
    uint64_t number = read_number(at);
    return before + (number >> 1 ^ (0 - (number & 1)));
}

int torch_events_add(struct torch_events *events, const struct torch_event *event,
                     struct log_problem *problem)
{
    if (events->count % PIECE == 0) {
        size_t piece = (size_t)(events->count / PIECE);
        if (memory_grow(events->pack.memory, &events->starts, &events->starts_capacity, piece + 1,
                        sizeof(*events->starts)) != 0)
            return LOG_NO_MEMORY;
        events->starts[piece] = events->bytes;
        events->last = (struct torch_event){0};
    }
    uint8_t bytes[EVENTS_PACK_LONGEST];
    uint8_t *at = bytes;
    *at++ = (uint8_t)((unsigned int)event->action | (event->has_addr ? HAS_ADDR : 0U) |
                      (event->has_size ? HAS_SIZE : 0U) | (event->has_time ? HAS_TIME : 0U));
    at = write_difference(at, event->addr, events->last.addr);
    at = write_number(at, event->size);
    at = write_difference(at, event->stream, events->last.stream);
    at = write_difference(at, event->time_us, events->last.time_us);
    at = write_difference(at, event->place, events->last.place);
    int status = events_pack_add(&events->pack, bytes, (size_t)(at - bytes), problem);
    if (status != LOG_FINE)
        return status;
    events->bytes += (uint64_t)(at - bytes);
    events->last = *event;
    events->count++;
    return LOG_FINE;
}

int torch_events_finish(struct torch_events *events, struct log_problem *problem)
{
    return events_pack_finish(&events->pack, problem);
}

int torch_cursor_begin(struct torch_cursor *cursor, const struct torch_events *events)
{
    *cursor = (struct torch_cursor){.events = events};
    return events_cursor_begin(&cursor->cursor, &events->pack);
}

void torch_cursor_end(struct torch_cursor *cursor)
{
    events_cursor_end(&cursor->cursor);
}

static void go_to_piece(struct torch_cursor *cursor, uint64_t piece)
{
    const struct events_pack *pack = &cursor->events->pack;
    uint64_t start = cursor->events->starts[piece];
    struct events_cursor *bytes = &cursor->cursor;
    cursor->next = piece * PIECE;
    if (start < pack->held_bytes) {
        bytes->at = pack->held + start;
        bytes->end = pack->held + pack->held_bytes;
        bytes->file_place = 0;
    } else {
        bytes->at = bytes->buffer;
        bytes->end = bytes->buffer;
        bytes->file_place = start - pack->held_bytes;
    }
}

static int read_next(struct torch_cursor *cursor, struct log_problem *problem)
{
    if (events_cursor_fill(&cursor->cursor) != LOG_FINE) {
        snprintf(problem->text, sizeof(problem->text), "the temporary file cannot be read");
        return LOG_NO_FILE;
    }
    if (cursor->next % PIECE == 0)
        cursor->last = (struct torch_event){0};
    struct torch_event *event = &cursor->last;
    const uint8_t **at = &cursor->cursor.at;
    unsigned int flags = *(*at)++;
    event->action = (enum torch_action)(flags & ACTION_BITS);
    event->has_addr = (flags & HAS_ADDR) != 0;
    event->has_size = (flags & HAS_SIZE) != 0;
    event->has_time = (flags & HAS_TIME) != 0;
    event->addr = read_difference(at, event->addr);
    event->size = read_number(at);
    event->stream = read_difference(at, event->stream);
    event->time_us = read_difference(at, event->time_us);
    event->place = read_difference(at, event->place);
    cursor->next++;
    return LOG_FINE;
}

int torch_cursor_read(struct torch_cursor *cursor, uint64_t number, struct torch_event *event,
                      struct log_problem *problem)
{
    if (number < cursor->next || number - cursor->next >= PIECE)
        go_to_piece(cursor, number / PIECE);
    int status = LOG_FINE;
    while (status == LOG_FINE && cursor->next <= number)
        status = read_next(cursor, problem);
    *event = cursor->last;
    return status;
}
