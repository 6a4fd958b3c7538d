/* Packing events; see events_code.h.
 *
 * Two bytes of flags say which fields follow. Numbers are written seven bits a byte, the lowest
 * first; differences that may be negative have their sign in the lowest bit. */
#include "lab/events_code.h"

enum first_flags {
    OPERATION_MASK = 0x0f,
    HAS_BEFORE = 0x10,
    HAS_UPPER = 0x20,
    HAS_ADDRESS = 0x40,
    HAS_DEVICE = 0x80 /* it is another one than before */
};
enum second_flags {
    NEXT_PLACE = 0x01, /* one further than before */
    SAME_TIME = 0x02,
    NO_STREAM = 0x04,
    HAS_ALIGNMENT = 0x08,
    NEWEST_ID = 0x10,
    HAS_NEWEST = 0x20
};

_Static_assert((int)LOG_OPERATIONS <= (int)OPERATION_MASK, "an operation fits its bits");

static uint8_t *put(uint8_t *to, uint64_t number)
{
    while (number >= 0x80) {
        *to++ = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    *to++ = (uint8_t)number;
    return to;
}

static inline const uint8_t *get(const uint8_t *from, uint64_t *number)
{
    uint64_t value = *from & 0x7fu;
    for (unsigned shift = 7; *from & 0x80; shift += 7)
        value |= (uint64_t)(*++from & 0x7fu) << shift;
    *number = value;
    return from + 1;
}

/* Modulo 2^64, so that any number can follow any other. */
static uint8_t *put_change(uint8_t *to, uint64_t now, uint64_t before)
{
    uint64_t up = now - before;
    return put(to, (up << 1) ^ (0 - (up >> 63)));
}

static inline const uint8_t *get_change(const uint8_t *from, uint64_t *now)
{
    uint64_t change;
    from = get(from, &change);
    *now += (change >> 1) ^ (0 - (change & 1));
    return from;
}

static bool names_allocation(enum log_operation operation)
{
    return operation == LOG_ALLOCATE || operation == LOG_FREE || operation == LOG_RECORD_STREAM;
}

size_t events_code_write(struct events_code *code, const struct event *event, uint32_t device,
                         uint8_t bytes[EVENTS_CODE_LONGEST])
{
    bool named = names_allocation(event->operation);
    code->allocations += event->operation == LOG_ALLOCATE;
    unsigned first = (unsigned)event->operation | (event->before ? HAS_BEFORE : 0u) |
                     (event->upper ? HAS_UPPER : 0u) |
                     (event->address != LOG_NO_ADDRESS ? HAS_ADDRESS : 0u) |
                     (device != code->device ? HAS_DEVICE : 0u);
    unsigned second =
        (event->place == code->place + 1 ? NEXT_PLACE : 0u) |
        (event->time_us == code->time_us ? SAME_TIME : 0u) | (event->stream == 0 ? NO_STREAM : 0u) |
        (event->alignment != 0 ? HAS_ALIGNMENT : 0u) | (event->newest ? HAS_NEWEST : 0u) |
        (named && event->id == code->allocations ? NEWEST_ID : 0u);
    uint8_t *to = bytes;
    *to++ = (uint8_t)first;
    *to++ = (uint8_t)second;
    if (first & HAS_DEVICE)
        to = put(to, device);
    if (named)
        to = put(to, event->slot);
    if (named && !(second & NEWEST_ID))
        to = put(to, code->allocations - event->id);
    to = put(to, event->bytes);
    if (second & HAS_ALIGNMENT)
        to = put(to, event->alignment);
    if (!(second & NO_STREAM))
        to = put(to, event->stream);
    if (first & HAS_ADDRESS)
        to = put_change(to, event->address, code->address);
    if (!(second & SAME_TIME))
        to = put_change(to, event->time_us, code->time_us);
    if (!(second & NEXT_PLACE))
        to = put_change(to, event->place, code->place);
    if (first & HAS_ADDRESS)
        code->address = event->address;
    code->time_us = event->time_us;
    code->place = event->place;
    code->device = device;
    return (size_t)(to - bytes);
}

const uint8_t *events_code_read(struct events_code *code, const uint8_t *bytes, struct event *event)
{
    unsigned first = bytes[0];
    unsigned second = bytes[1];
    const uint8_t *from = bytes + 2;
    uint64_t number;
    *event = (struct event){.operation = (enum log_operation)(first & OPERATION_MASK),
                            .before = (first & HAS_BEFORE) != 0,
                            .upper = (first & HAS_UPPER) != 0,
                            .newest = (second & HAS_NEWEST) != 0,
                            .address = LOG_NO_ADDRESS};
    code->allocations += event->operation == LOG_ALLOCATE;
    if (first & HAS_DEVICE) {
        from = get(from, &number);
        code->device = (uint32_t)number;
    }
    if (names_allocation(event->operation)) {
        from = get(from, &number);
        event->slot = (uint32_t)number;
        event->id = code->allocations;
        if (!(second & NEWEST_ID)) {
            from = get(from, &number);
            event->id -= number;
        }
    }
    from = get(from, &event->bytes);
    if (second & HAS_ALIGNMENT)
        from = get(from, &event->alignment);
    if (!(second & NO_STREAM))
        from = get(from, &event->stream);
    if (first & HAS_ADDRESS) {
        from = get_change(from, &code->address);
        event->address = code->address;
    }
    if (!(second & SAME_TIME))
        from = get_change(from, &code->time_us);
    event->time_us = code->time_us;
    if (second & NEXT_PLACE)
        code->place++;
    else
        from = get_change(from, &code->place);
    event->place = code->place;
    return from;
}
