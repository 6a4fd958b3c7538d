/* Packed torch events; see torch_events.h.
 *
 * An event is told by what it differs from the one before it in its piece: a head of 4 bytes with
 * the action, flags, and how many bytes each number has, then the numbers, lowest byte first. So a
 * number is read and written as one word whose upper bytes do not count. Each piece begins afresh,
 * so that reading can begin there. */
#include "lab/logs/torch_events.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "lab/logs/little.h"

enum {
    PIECE = 64,               /* events */
    MOST_IN_MEMORY = 32 << 20 /* bytes */
};

enum {
    ACTION_BITS = 0x0f, /* of the head */
    HAS_ADDR = 0x10,
    HAS_SIZE = 0x20,
    HAS_TIME = 0x40,
    FIRST_LENGTH = 8, /* from this bit on: 4 bits for each number */
    HEAD_BYTES = 4,
    WORD_BYTES = 8 /* taken at once, so there are this many behind the last event too */
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

/* Numbers of one event on their way into bytes, or out of them. */
struct writing {
    uint8_t *at;
    uint32_t head;
    unsigned int length_at; /* bit of the head */
};

struct reading {
    const uint8_t *at;
    uint32_t lengths; /* of the numbers still to come, the next one lowest */
};

static inline void write_number(struct writing *writing, uint64_t number)
{
    unsigned int bits = number == 0 ? 0 : 64 - (unsigned int)__builtin_clzll(number);
    unsigned int bytes = (bits + 7) / 8;
    little_put8(writing->at, number);
    writing->at += bytes;
    writing->head |= bytes << writing->length_at;
    writing->length_at += 4;
}

/* The difference with its sign in the lowest bit, so that small ones are short either way. */
static inline void write_difference(struct writing *writing, uint64_t now, uint64_t before)
{
    uint64_t difference = now - before;
    write_number(writing, difference << 1 ^ (0 - (difference >> 63)));
}

static inline uint64_t read_number(struct reading *reading)
{
    static const uint64_t masks[16] = {0,
                                       0xff,
                                       0xffff,
                                       0xffffff,
                                       UINT32_MAX,
                                       UINT64_MAX >> 24,
                                       UINT64_MAX >> 16,
                                       UINT64_MAX >> 8,
                                       UINT64_MAX};
    unsigned int bytes = reading->lengths & 0xf;
    uint64_t number = little_8(reading->at) & masks[bytes];
    reading->at += bytes;
    reading->lengths >>= 4;
    return number;
}

static inline uint64_t read_difference(struct reading *reading, uint64_t before)
{
    uint64_t number = read_number(reading);
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
    uint8_t *bytes;
    int status = events_pack_room(&events->pack, &bytes, problem);
    if (status != LOG_FINE)
        return status;
    struct writing writing = {.at = bytes + HEAD_BYTES, .length_at = FIRST_LENGTH};
    write_difference(&writing, event->addr, events->last.addr);
    write_number(&writing, event->size);
    write_difference(&writing, event->stream, events->last.stream);
    write_difference(&writing, event->time_us, events->last.time_us);
    write_difference(&writing, event->place, events->last.place);
    little_put4(bytes, writing.head | (uint32_t)event->action | (event->has_addr ? HAS_ADDR : 0U) |
                           (event->has_size ? HAS_SIZE : 0U) | (event->has_time ? HAS_TIME : 0U));
    size_t length = (size_t)(writing.at - bytes);
    events_pack_took(&events->pack, length);
    events->bytes += length;
    events->last = *event;
    events->count++;
    return LOG_FINE;
}

int torch_events_finish(struct torch_events *events, struct log_problem *problem)
{
    static const uint8_t behind[WORD_BYTES] = {0};
    int status = events_pack_add(&events->pack, behind, sizeof(behind), problem);
    return status == LOG_FINE ? events_pack_finish(&events->pack, problem) : status;
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
    uint32_t head = little_4(cursor->cursor.at);
    struct reading reading = {.at = cursor->cursor.at + HEAD_BYTES,
                              .lengths = head >> FIRST_LENGTH};
    event->action = (enum torch_action)(head & ACTION_BITS);
    event->has_addr = (head & HAS_ADDR) != 0;
    event->has_size = (head & HAS_SIZE) != 0;
    event->has_time = (head & HAS_TIME) != 0;
    event->addr = read_difference(&reading, event->addr);
    event->size = read_number(&reading);
    event->stream = read_difference(&reading, event->stream);
    event->time_us = read_difference(&reading, event->time_us);
    event->place = read_difference(&reading, event->place);
    cursor->cursor.at = reading.at;
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
