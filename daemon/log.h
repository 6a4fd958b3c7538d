/* What the daemon says on stderr: one line at start, one at stop, and otherwise only when something
 * is wrong.
 *
 * Lines about clients are rate-limited, and no client can write a control character into them. Time
 * is a parameter: the log reads no clock. Where stderr is the journal's, a line begins with its
 * priority (sd-daemon(3)) instead of our name and the level, which the journal shows by itself. */
#ifndef LOG_H
#define LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_INFO
};

enum {
    LOG_LINES_PER_WINDOW = 10, /* about clients; further ones are counted */
    LOG_WINDOW_MS = 10000,
    LOG_LINE_SIZE = 512
};

struct log {
    FILE *stream;
    enum log_level level; /* the least important that is written */
    bool journal;         /* the journal reads it */
    uint64_t window_start_ms;
    uint64_t lines_in_window;
    uint64_t suppressed;
};

void log_init(struct log *log, FILE *stream, enum log_level level);

/* Whether what is written to a descriptor goes straight to the journal: `journal_stream` is
 * $JOURNAL_STREAM (systemd.exec(5)), NULL for none. */
bool log_is_journal(int descriptor, const char *journal_stream);

/* "error", "warning", "info" for 0, 1, 2; NULL after the last. */
const char *log_level_name(size_t number);
bool log_level_from_name(const char *name, enum log_level *level);

/* A line of the daemon's own. */
__attribute__((format(printf, 3, 4))) void log_write(struct log *log, enum log_level level,
                                                     const char *format, ...);

/* A warning about a client. At most LOG_LINES_PER_WINDOW each LOG_WINDOW_MS; what is left out is
 * counted and told with the first line of the next window. */
__attribute__((format(printf, 3, 4))) void log_client(struct log *log, uint64_t now_ms,
                                                      const char *format, ...);

#endif
