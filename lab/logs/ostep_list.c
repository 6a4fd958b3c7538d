/* The list of the OSTEP homework simulator (vm-freespace, malloc.py -A): "+10,-0,+20": allocate 10
 * bytes, free what the first allocation gave, allocate 20.
 *
 * Allocations are counted from 0. Blanks and line ends may stand around the items. There is no end
 * mark, so a list that was cut off between two digits looks like a shorter one. */
#include <inttypes.h>

#include "lab/logs/formats.h"
#include "lab/logs/text.h"

enum {
    LONGEST_ITEM = 32
};

static bool is_blank(unsigned char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

static bool is_digit(unsigned char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Only signs, digits, commas and blanks, a sign first, and a digit right after the first sign. */
bool log_ostep_list_detect(const unsigned char *head, size_t bytes)
{
    size_t start = 0;
    while (start < bytes && is_blank(head[start]))
        start++;
    if (bytes - start < 2 || (head[start] != '+' && head[start] != '-') ||
        !is_digit(head[start + 1]))
        return false;
    for (size_t i = start; i < bytes; i++)
        if (!is_blank(head[i]) && !is_digit(head[i]) && head[i] != ',' && head[i] != '+' &&
            head[i] != '-')
            return false;
    return true;
}

struct reading {
    struct log_source *source;
    struct log_problem *problem;
    struct log_filter filter;
    struct number_map live; /* which allocations are live */
    uint64_t allocations;
};

/* Passes blanks; then whether anything is left, and its first byte. */
static int pass_blanks(struct reading *reading, bool *more, unsigned char *byte)
{
    for (;;) {
        const unsigned char *bytes;
        size_t length;
        int status = log_source_peek(reading->source, 1, &bytes, &length, reading->problem);
        *more = length > 0;
        if (status != LOG_FINE || length == 0)
            return status;
        size_t blanks = 0;
        while (blanks < length && is_blank(bytes[blanks]))
            blanks++;
        if (blanks < length)
            *byte = bytes[blanks];
        log_source_skip(reading->source, blanks);
        if (blanks < length)
            return LOG_FINE;
    }
}

static int give(struct reading *reading, bool allocate, uint64_t number, uint64_t place)
{
    struct log_record record = {.operation = allocate ? LOG_ALLOCATE : LOG_FREE,
                                .key = number,
                                .address = LOG_NO_ADDRESS,
                                .place = place};
    if (allocate) {
        record.key = reading->allocations++;
        record.bytes = number;
        if (number_map_reserve(&reading->live) != 0)
            return LOG_NO_MEMORY;
        number_map_put(&reading->live, record.key, 0);
    } else {
        record.stream = LOG_OWN_STREAM;
        if (number >= reading->allocations)
            return log_bad(reading->problem, true, place,
                           "allocation %" PRIu64 " is freed before it is made", number);
        if (number_map_find(&reading->live, number) == NUMBER_MAP_NONE)
            return log_bad(reading->problem, true, place, "allocation %" PRIu64 " is freed twice",
                           number);
        number_map_remove(&reading->live, number);
    }
    return log_filter_record(&reading->filter, &record);
}

/* A sign and its number. */
static int read_item(struct reading *reading)
{
    const unsigned char *bytes;
    size_t length;
    uint64_t place = log_source_place(reading->source) + 1;
    int status = log_source_peek(reading->source, LONGEST_ITEM, &bytes, &length, reading->problem);
    if (status != LOG_FINE)
        return status;
    if (length > LONGEST_ITEM)
        length = LONGEST_ITEM;
    size_t end = 1;
    while (end < length && is_digit(bytes[end]))
        end++;
    struct log_piece digits = {(const char *)bytes + 1, end - 1};
    uint64_t number;
    if ((bytes[0] != '+' && bytes[0] != '-') || !log_piece_u64(digits, &number))
        return log_bad(reading->problem, true, place,
                       "'%.*s' is no item: +BYTES allocates, -NUMBER frees",
                       (int)(end < 20 ? end : 20), (const char *)bytes);
    bool allocate = bytes[0] == '+';
    log_source_skip(reading->source, end);
    return give(reading, allocate, number, place);
}

static int read_items(struct reading *reading)
{
    bool more;
    unsigned char byte;
    int status = pass_blanks(reading, &more, &byte);
    if (status == LOG_FINE && !more)
        return log_bad(reading->problem, true, 1, "the list is empty");
    while (status == LOG_FINE) {
        status = read_item(reading);
        if (status == LOG_FINE)
            status = pass_blanks(reading, &more, &byte);
        if (status != LOG_FINE || !more)
            break;
        uint64_t place = log_source_place(reading->source) + 1;
        if (byte != ',')
            return log_bad(reading->problem, true, place, "a comma is missing between two items");
        log_source_skip(reading->source, 1);
        status = pass_blanks(reading, &more, &byte);
        if (status == LOG_FINE && !more)
            return log_bad(reading->problem, true, place,
                           "the list is cut off: nothing follows the comma");
    }
    return status;
}

int log_ostep_list_read(struct log_source *source, const struct worsegpu_memory *memory,
                        const struct log_sink *sink, struct log_facts *facts,
                        struct log_problem *problem)
{
    struct reading reading = {.source = source, .problem = problem};
    (void)facts;
    int status = log_filter_init(&reading.filter, sink, memory, problem);
    if (status != LOG_FINE)
        return status;
    status = log_map_init(&reading.live, memory, problem);
    if (status == LOG_FINE)
        status = read_items(&reading);
    number_map_release(&reading.live);
    log_filter_release(&reading.filter);
    return status;
}
