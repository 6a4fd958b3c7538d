/* Help for the tests of lab/logs: a log's records as text, one a line, and the same log cut off at
 * every byte. */
#ifndef LOG_READING_H
#define LOG_READING_H

#include "lab/logs/log.h"

struct log_reading {
    int status;
    struct log_facts facts;
    struct log_problem problem;
    char *text; /* the records; NUL-terminated */
    size_t length, capacity;
    uint64_t records;
    uint64_t stop_after; /* records that the sink takes; 0: all */
};

/* Reads bytes, with a format by its name or (NULL) the one that is detected. A record is its
 * operation and what is not as usual of it: "allocate 0x10 5 bytes at 0x10 stream 1 time 3 place
 * 2". Afterwards: log_reading_release. */
void log_reading_bytes(struct log_reading *reading, const char *format, const void *bytes,
                       size_t length, const struct worsegpu_memory *memory);
void log_reading_text(struct log_reading *reading, const char *format, const char *text);
void log_reading_release(struct log_reading *reading);

/* The text must be read as these records, by this format alone, and detected so. */
void assert_log_records(const char *format, const char *text, const char *records);
/* It must be refused with exactly this sentence; with `format` NULL it is detected first. */
void assert_log_bad(const char *format, const char *text, const char *sentence);
/* Cut off at every byte it must be refused with a place, or give records that the whole one begins
 * with (`sorted`: only not more of them). And with each byte changed it must be read or refused. */
void assert_log_survives_cuts(const char *format, const void *bytes, size_t length, bool sorted);
/* With memory that fails at each request: LOG_NO_MEMORY, nothing left behind. */
void assert_log_survives_chaos(const char *format, const char *text);

/* A file below WORSEGPU_SHARED/logs, which the caller frees; NULL, with a message, where there is
 * none: the test then says skip(). */
char *shared_log(const char *name, size_t *length);

#endif
