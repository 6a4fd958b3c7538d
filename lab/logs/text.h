/* What the readers of text formats share: pieces of a line, numbers, times, streams, and requests
 * of no bytes. */
#ifndef LOGS_TEXT_H
#define LOGS_TEXT_H

#include "lab/logs/log.h"
#include "lab/number_map.h"

/* Some bytes of a line. */
struct log_piece {
    const char *bytes;
    size_t length;
};

/* A piece for the %.*s of a message, cut to a length that leaves room for the sentence. */
#define LOG_SHOWN(piece) (int)((piece).length < 60 ? (piece).length : 60), (piece).bytes

bool log_piece_is(struct log_piece piece, const char *text);
struct log_piece log_piece_trim(struct log_piece piece);

/* Cuts at each `separator`; at the blanks between words where it is ' '. How many there are;
 * `most` + 1 when there are more. */
size_t log_piece_split(struct log_piece line, char separator, struct log_piece *pieces,
                       size_t most);

/* Digits only, below 2^64; false leaves *value alone, as below. */
bool log_piece_u64(struct log_piece piece, uint64_t *value);
/* Hex digits, with 0x before them or not. */
bool log_piece_hex(struct log_piece piece, uint64_t *value);
/* The same, or "(nil)", as %p writes it. */
bool log_piece_pointer(struct log_piece piece, uint64_t *value);

/* Times in nanoseconds as the records want them: since the first one, never going back (rows of
 * several threads may be out of order by a little). */
struct log_clock {
    bool started;
    uint64_t first_ns;
    uint64_t latest_us;
};
uint64_t log_clock_us(struct log_clock *clock, uint64_t ns);

/* A map from numbers that a log chose, with a secret key. log_status. */
int log_map_init(struct number_map *map, const struct worsegpu_memory *memory,
                 struct log_problem *problem);

/* Numbers for streams, by first use; 0 stays 0. */
struct log_streams {
    struct number_map map;
    uint32_t last;
};
/* log_status. */
int log_streams_init(struct log_streams *streams, const struct worsegpu_memory *memory,
                     struct log_problem *problem);
void log_streams_release(struct log_streams *streams);
int log_streams_number(struct log_streams *streams, uint64_t stream, uint64_t *number);
bool log_streams_knows(const struct log_streams *streams, uint64_t stream);

/* Stands before a sink and leaves out allocations of 0 bytes with their frees: they take nothing,
 * and no policy wants them. One may have the address of another live allocation. */
struct log_filter {
    const struct log_sink *sink;
    struct number_map empties; /* key: twice the live empty ones, and 1 when another is younger */
};
int log_filter_init(struct log_filter *filter, const struct log_sink *sink,
                    const struct worsegpu_memory *memory, struct log_problem *problem);
void log_filter_release(struct log_filter *filter);
int log_filter_record(struct log_filter *filter, const struct log_record *record);

#endif
