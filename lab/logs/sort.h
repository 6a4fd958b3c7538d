/* Puts the records of a log in the order of their times, in memory that does not grow with the log.
 *
 * Items gather in memory up to a bound. What is beyond it goes, sorted, into an unlinked temporary
 * file ($TMPDIR, else /var/tmp), one run after the other, and the runs are merged at the end. */
#ifndef LOGS_SORT_H
#define LOGS_SORT_H

#include "lab/logs/text.h"

enum {
    LOG_SORT_ITEMS = 262144,  /* in memory at once, unless a test wants fewer */
    LOG_SORT_READ_ITEMS = 512 /* of each run while runs are merged */
};

/* As much of a record as the formats without order have. */
struct log_sort_item {
    uint64_t time_ns;
    uint64_t order; /* among those of one time; and then `place` */
    uint64_t place;
    uint64_t key;
    uint64_t address;
    uint64_t bytes;
    uint64_t stream;
    uint32_t device;
    uint32_t operation;
};

/* A sorted piece of the temporary file, while it is read. */
struct log_sort_run {
    uint64_t next; /* item in the file that is read next */
    uint64_t end;
    struct log_sort_item *items;
    size_t at;
    size_t count;
};

struct log_sort {
    const struct worsegpu_memory *memory;
    size_t most_items;
    struct log_sort_item *items;
    size_t count;
    size_t capacity;
    size_t given; /* without runs: items handed out */
    int file;     /* -1: there was no need */
    uint64_t file_items;
    struct log_sort_run *runs; /* after finishing, a heap with the least first */
    size_t run_count;
    size_t run_capacity;
};

void log_sort_init(struct log_sort *sort, size_t most_items, const struct worsegpu_memory *memory);
void log_sort_release(struct log_sort *sort);

/* log_status. */
int log_sort_add(struct log_sort *sort, const struct log_sort_item *item,
                 struct log_problem *problem);
/* Nothing more comes: what follows are calls of log_sort_next. */
int log_sort_finish(struct log_sort *sort, struct log_problem *problem);
/* LOG_FINE with an item, LOG_STOPPED after the last one. */
int log_sort_next(struct log_sort *sort, struct log_sort_item *item, struct log_problem *problem);
/* Finishes, and gives all of them on as records, with times from the first one on. */
int log_sort_give(struct log_sort *sort, struct log_filter *filter, struct log_problem *problem);

#endif
