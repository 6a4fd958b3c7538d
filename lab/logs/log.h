/* Recorded logs: what every reader in this folder makes of its format, and how one is read.
 *
 * A log is read as a stream, front to back, and handed to a sink record by record; memory holds
 * what is alive at the moment, never the file. One file a format; formats.def is the table of them,
 * and detect.c tells them apart by their content. A reader knows nothing of policies.
 *
 * Everything in a log is foreign: a damaged, cut-off, empty or hostile one ends in LOG_BAD with a
 * sentence that says where, and whoever read it so far throws it away. Nothing in a log is ever
 * run. */
#ifndef LOGS_LOG_H
#define LOGS_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/worsegpu_memory.h"
#include "lab/logs/source.h"

enum log_status {
    LOG_NO_MEMORY = -2, /* worsegpu-lab ran out of memory */
    LOG_NO_FILE = -1,   /* reading from the system failed: `problem` says why */
    LOG_FINE = 0,
    LOG_BAD = 1,    /* the log is not what its format says: `problem` says what and where */
    LOG_STOPPED = 2 /* the sink wanted no more */
};

enum log_operation {
    LOG_ALLOCATE,
    LOG_FREE,
    LOG_REFUSED, /* the recorded program was told that there is no memory; `bytes` were asked for */
    LOG_RECORD_STREAM, /* the allocation is used on another stream too */
    LOG_EVENT_DONE, /* events of `stream` complete: the `bytes` oldest (or newest), UINT64_MAX for
                       all */
    LOG_EMPTY_CACHE,
    LOG_SEGMENT_ALLOCATE, /* what the recorded allocator did with the device: results, not input */
    LOG_SEGMENT_FREE,
    LOG_SEGMENT_MAP,
    LOG_SEGMENT_UNMAP,
    LOG_OPERATIONS
};

#define LOG_NO_ADDRESS UINT64_MAX
#define LOG_OWN_STREAM UINT64_MAX /* of a free that names no stream: that of its allocation */

/* One line, row or event. A free means the youngest allocation of its device with its key that is
 * still alive. */
struct log_record {
    enum log_operation operation;
    uint32_t device;
    bool before;  /* of an allocation: it was there before the log begins */
    bool upper;   /* of an allocation: from the upper end of a double stack */
    bool newest;  /* of an event_done: the newest ones instead of the oldest */
    uint64_t key; /* of an allocation, free or record_stream: the address, or the number that the
                     log uses */
    uint64_t address;   /* recorded, or LOG_NO_ADDRESS */
    uint64_t bytes;     /* as the log has it: see log_facts.rounded; 0 in a free */
    uint64_t stream;    /* numbered by first use in the log, but 0 stays 0 */
    uint64_t alignment; /* 0: none was asked for */
    uint64_t time_us;   /* since the first record; 0 in a log without times */
    uint64_t place;     /* line, or byte in a binary file, from 1 */
};

/* What a reader says of the log as a whole, filled in as it comes to know it. */
struct log_facts {
    const char *format;      /* the name in formats.def */
    char version[48];        /* of the format, as far as the log tells: "24.12", "protocol 4"; "" */
    bool rounded;            /* sizes are those of blocks, not as asked for */
    bool times;              /* time_us means something */
    bool may_start_midway;   /* frees of unknown allocations are to be expected */
    uint64_t capacity_bytes; /* of the device, 0: the log does not say */
};

enum {
    LOG_PROBLEM_SIZE = 400
};
struct log_problem {
    char text[LOG_PROBLEM_SIZE]; /* a sentence, with the place in it: "line 7: ..." or "byte 123:
                                    ..." */
};

/* Who gets the records. LOG_FINE to go on; anything else ends the reading with it. */
struct log_sink {
    void *context;
    int (*record)(void *context, const struct log_record *record);
};

/* A format. `detect` is given the first bytes of the content (at most LOG_HEAD_BYTES, fewer if the
 * log is shorter) and says whether it is its own; at most one format says so. `read` reads from the
 * beginning. */
struct log_format {
    const char *name;
    const char *summary;
    bool (*detect)(const unsigned char *head, size_t bytes);
    int (*read)(struct log_source *source, const struct worsegpu_memory *memory,
                const struct log_sink *sink, struct log_facts *facts, struct log_problem *problem);
};

enum {
    LOG_HEAD_BYTES = 65536
};

/* By index, NULL after the last; by name, NULL when there is none. */
const struct log_format *log_format_at(size_t index);
const struct log_format *log_format_find(const char *name);

/* Whose content this is; NULL when it is none's, with `problem` saying what was seen. */
const struct log_format *log_detect(const unsigned char *head, size_t bytes,
                                    struct log_problem *problem);

/* Detects (unless `format` is given) and reads a whole source from its beginning. log_status. */
int log_read(struct log_source *source, const struct log_format *format,
             const struct worsegpu_memory *memory, const struct log_sink *sink,
             struct log_facts *facts, struct log_problem *problem);

/* Writes a sentence with its place: "line N: ...", or "byte N: ..." with `binary`. Foreign bytes in
 * it are made harmless. Returns LOG_BAD. */
__attribute__((format(printf, 4, 5))) int log_bad(struct log_problem *problem, bool binary,
                                                  uint64_t place, const char *format, ...);

#endif
