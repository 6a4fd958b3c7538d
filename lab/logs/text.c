/* Pieces of lines, times, streams, empty requests; see text.h. */
#include "lab/logs/text.h"

#include <stdio.h>
#include <string.h>

#include "lib/secrets.h"

/* ------------------------------------------------------------------------------ pieces */

bool log_piece_is(struct log_piece piece, const char *text)
{
    return piece.length == strlen(text) && memcmp(piece.bytes, text, piece.length) == 0;
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

struct log_piece log_piece_trim(struct log_piece piece)
{
    while (piece.length > 0 && is_blank(piece.bytes[0])) {
        piece.bytes++;
        piece.length--;
    }
    while (piece.length > 0 && is_blank(piece.bytes[piece.length - 1]))
        piece.length--;
    return piece;
}

static size_t split_words(struct log_piece line, struct log_piece *pieces, size_t most)
{
    size_t count = 0;
    for (size_t i = 0; i < line.length;) {
        size_t start = i;
        while (i < line.length && !is_blank(line.bytes[i]))
            i++;
        if (i > start) {
            if (count == most)
                return most + 1;
            pieces[count++] = (struct log_piece){line.bytes + start, i - start};
        }
        i++;
    }
    return count;
}

size_t log_piece_split(struct log_piece line, char separator, struct log_piece *pieces, size_t most)
{
    if (separator == ' ')
        return split_words(line, pieces, most);
    size_t count = 0;
    for (;;) {
        if (count == most)
            return most + 1;
        const char *cut = line.length > 0 ? memchr(line.bytes, separator, line.length) : NULL;
        size_t length = cut ? (size_t)(cut - line.bytes) : line.length;
        pieces[count++] = (struct log_piece){line.bytes, length};
        if (!cut)
            return count;
        line.bytes += length + 1;
        line.length -= length + 1;
    }
}

bool log_piece_u64(struct log_piece piece, uint64_t *value)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < piece.length; i++) {
        if (piece.bytes[i] < '0' || piece.bytes[i] > '9' || __builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(piece.bytes[i] - '0'), &sum))
            return false;
    }
    if (piece.length > 0)
        *value = sum;
    return piece.length > 0;
}

static int hex_digit(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F')
        return byte - 'A' + 10;
    return -1;
}

bool log_piece_hex(struct log_piece piece, uint64_t *value)
{
    if (piece.length > 2 && piece.bytes[0] == '0' &&
        (piece.bytes[1] == 'x' || piece.bytes[1] == 'X')) {
        piece.bytes += 2;
        piece.length -= 2;
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < piece.length; i++) {
        int digit = hex_digit(piece.bytes[i]);
        if (digit < 0 || sum >> 60 != 0)
            return false;
        sum = sum << 4 | (uint64_t)digit;
    }
    if (piece.length > 0)
        *value = sum;
    return piece.length > 0;
}

bool log_piece_pointer(struct log_piece piece, uint64_t *value)
{
    if (!log_piece_is(piece, "(nil)"))
        return log_piece_hex(piece, value);
    *value = 0;
    return true;
}

/* ------------------------------------------------------------------------------ times */

uint64_t log_clock_us(struct log_clock *clock, uint64_t ns)
{
    if (!clock->started) {
        clock->started = true;
        clock->first_ns = ns;
    }
    uint64_t us = ns > clock->first_ns ? (ns - clock->first_ns) / 1000 : 0;
    if (us > clock->latest_us)
        clock->latest_us = us;
    return clock->latest_us;
}

/* ------------------------------------------------------------------------------ streams */

int log_map_init(struct number_map *map, const struct worsegpu_memory *memory,
                 struct log_problem *problem)
{
    struct keyed_hash hash;
    const struct entropy *entropy = entropy_system();
    if (entropy->draw(entropy->context, hash.key, sizeof(hash.key)) != 0) {
        snprintf(problem->text, sizeof(problem->text), "the system has no random bytes to give");
        return LOG_NO_FILE;
    }
    number_map_init(map, &hash, memory);
    return LOG_FINE;
}

int log_streams_init(struct log_streams *streams, const struct worsegpu_memory *memory,
                     struct log_problem *problem)
{
    memset(streams, 0, sizeof(*streams));
    return log_map_init(&streams->map, memory, problem);
}

void log_streams_release(struct log_streams *streams)
{
    number_map_release(&streams->map);
}

int log_streams_number(struct log_streams *streams, uint64_t stream, uint64_t *number)
{
    *number = 0;
    if (stream == 0)
        return LOG_FINE;
    uint32_t known = number_map_find(&streams->map, stream);
    if (known == NUMBER_MAP_NONE) {
        if (number_map_reserve(&streams->map) != 0)
            return LOG_NO_MEMORY;
        known = ++streams->last;
        number_map_put(&streams->map, stream, known);
    }
    *number = known;
    return LOG_FINE;
}

bool log_streams_knows(const struct log_streams *streams, uint64_t stream)
{
    return stream == 0 || number_map_find(&streams->map, stream) != NUMBER_MAP_NONE;
}

/* ------------------------------------------------------------------------------ empty requests */

int log_filter_init(struct log_filter *filter, const struct log_sink *sink,
                    const struct worsegpu_memory *memory, struct log_problem *problem)
{
    memset(filter, 0, sizeof(*filter));
    filter->sink = sink;
    return log_map_init(&filter->empties, memory, problem);
}

void log_filter_release(struct log_filter *filter)
{
    number_map_release(&filter->empties);
}

/* The key tells devices apart too: addresses leave their upper bits free. */
static uint64_t key_of(const struct log_record *record)
{
    return record->key ^ (uint64_t)record->device << 56;
}

int log_filter_record(struct log_filter *filter, const struct log_record *record)
{
    uint64_t key = key_of(record);
    bool empty = record->operation == LOG_ALLOCATE && record->bytes == 0;
    if (record->operation == LOG_REFUSED && record->bytes == 0)
        return LOG_FINE;
    uint32_t empties = NUMBER_MAP_NONE;
    if (filter->empties.count > 0 || empty)
        empties = number_map_find(&filter->empties, key);
    if (empty) {
        if (empties == NUMBER_MAP_NONE && number_map_reserve(&filter->empties) != 0)
            return LOG_NO_MEMORY;
        empties = empties == NUMBER_MAP_NONE ? 0 : empties;
        /* Which of the two a free means no longer matters after so many. */
        if (empties < UINT32_MAX - 4)
            number_map_put(&filter->empties, key, (empties & ~UINT32_C(1)) + 2);
        return LOG_FINE;
    }
    if (empties == NUMBER_MAP_NONE || record->operation > LOG_FREE)
        return filter->sink->record(filter->sink->context, record);
    if (record->operation == LOG_ALLOCATE) {
        number_map_put(&filter->empties, key, empties | 1);
    } else if ((empties & 1) == 0) {
        if (empties == 2)
            number_map_remove(&filter->empties, key);
        else
            number_map_put(&filter->empties, key, empties - 2);
        return LOG_FINE;
    } else {
        number_map_put(&filter->empties, key, empties & ~UINT32_C(1));
    }
    return filter->sink->record(filter->sink->context, record);
}
