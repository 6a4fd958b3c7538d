/* Whose content is this? Asks every format; see log.h. */
#include <stdio.h>
#include <string.h>

#include "lab/logs/formats.h"
#include "lab/logs/json_scan.h"
#include "lab/logs/log.h"

enum {
    SEEN_BYTES = 24 /* of foreign content that is shown */
};

/* What is no log but is easily taken for one. */
static const char *near_miss(const unsigned char *head, size_t bytes)
{
    if (bytes > 1 && head[0] == '[' && head[1] == '[')
        return "a memory timeline of the PyTorch profiler has no addresses: take its trace instead";
    if (json_scan_has(head, bytes, false, "Total"))
        return "a dump of VMA is a picture of one moment, no log";
    if (json_scan_has(head, bytes, false, "method"))
        return "these are requests for `worsegpu-cli run`";
    if (bytes > 5 && memcmp(head, "SQLite", 6) == 0)
        return "an SQLite database: print its table CUDA_GPU_MEMORY_USAGE_EVENTS with "
               "`sqlite3 -csv -header`";
    return NULL;
}

/* The first line, or as much of it as fits a sentence, and what would have been known. */
static void describe(const unsigned char *head, size_t bytes, struct log_problem *problem)
{
    size_t length = bytes < SEEN_BYTES ? bytes : SEEN_BYTES;
    const unsigned char *end = memchr(head, '\n', length);
    if (end)
        length = (size_t)(end - head);
    if (length > 0 && head[length - 1] == '\r')
        length--;
    char seen[SEEN_BYTES * 4 + 8];
    log_printable(head, length, seen, sizeof(seen));
    const char *miss = near_miss(head, bytes);
    if (miss) {
        log_bad(problem, false, 1, "this is no log that can be read: %s", miss);
        return;
    }
    char known[200] = "";
    size_t used = 0;
    for (size_t i = 0; log_format_at(i) && used < sizeof(known); i++) {
        int more = snprintf(known + used, sizeof(known) - used, "%s%s", i > 0 ? ", " : "",
                            log_format_at(i)->name);
        used += more > 0 ? (size_t)more : 0;
    }
    log_bad(problem, false, 1,
            "no known log begins with '%s'; known are %s (see `worsegpu-lab list formats`)", seen,
            known);
}

const struct log_format *log_detect(const unsigned char *head, size_t bytes,
                                    struct log_problem *problem)
{
    if (bytes == 0) {
        log_bad(problem, false, 1, "the log is empty");
        return NULL;
    }
    for (size_t i = 0; log_format_at(i); i++)
        if (log_format_at(i)->detect(head, bytes))
            return log_format_at(i);
    describe(head, bytes, problem);
    return NULL;
}
