/* One event as a few bytes: what is small or as before takes little room. No memory, no state but
 * what both sides count along. */
#ifndef LAB_EVENTS_CODE_H
#define LAB_EVENTS_CODE_H

#include "lab/events.h"

enum {
    EVENTS_CODE_LONGEST = 2 + 5 + 5 + 7 * 10 /* two bytes of flags, two short numbers, seven long */
};

/* What the next event is told against: zeroes at first, on both sides. */
struct events_code {
    uint64_t allocations;
    uint64_t address;
    uint64_t time_us;
    uint64_t place;
    uint32_t device;
};

/* How many bytes it took. */
size_t events_code_write(struct events_code *code, const struct event *event, uint32_t device,
                         uint8_t bytes[EVENTS_CODE_LONGEST]);

/* What was written, whole; code->device is its device. Where the next one begins. */
const uint8_t *events_code_read(struct events_code *code, const uint8_t *bytes,
                                struct event *event);

#endif
