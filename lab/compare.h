/* Comparing: one policy under one recording, measured; and how all of them are shown. */
#ifndef LAB_COMPARE_H
#define LAB_COMPARE_H

#include "lab/lab.h"
#include "lab/replay.h"

/* A share that is lost, over the whole replay. */
struct compare_loss {
    double worst;         /* the ratio when most bytes were lost */
    uint64_t worst_bytes; /* how many those were */
    uint64_t worst_event; /* number of the event after which it was so; 0: nothing was ever lost */
    double mean;          /* weighted */
};

/* What one policy comes to. */
struct compare_row {
    const char *text;         /* the policy with its knobs */
    uint64_t unlimited_bytes; /* the largest device that it can have */
    uint64_t capacity_bytes;  /* of the device that it was measured on */
    uint64_t peak_reserved;
    uint64_t smallest_device; /* 0: not searched, or none is large enough */
    uint64_t device_calls;
    uint64_t retries;
    uint64_t ooms;
    uint64_t host; /* allocations that the policy put on the host */
    uint64_t forgotten_bytes;
    uint64_t searched;
    struct compare_loss internal;
    struct compare_loss external;
    bool external_known;
    bool counts_only;        /* it has no blocks: it can be neither good nor bad at placing them */
    uint64_t operations;     /* events that reached the policy */
    double ns_per_operation; /* negative: not measured */
    bool possible;           /* false: `problem` says why not, and nothing else counts */
    char problem[REPLAY_PROBLEM_SIZE];
};

/* What is the same for all rows. */
struct comparison {
    struct lab *lab;
    const struct events *events;
    const struct events_facts *facts;
    const char *seed;
    uint64_t capacity_bytes; /* 0: without limit */
    bool quick;
    bool timed;
    struct compare_row *rows;
    size_t row_count;
    size_t row; /* under work: for the progress line */
    double done;
};

/* What is compared unless --policy says otherwise: the usual line-up by index, NULL after the last.
 */
const char *compare_usual(size_t index);

/* Fills in one row, whose `text` is given. Policies and knobs that are refused make it impossible,
 * which is no failure. log_status. */
int compare_measure(struct comparison *comparison, struct compare_row *row);

/* The policy of a row on a device of so many bytes. 0, 1 when it cannot be (row->problem says why),
 * or LOG_NO_MEMORY. */
int compare_create(const struct comparison *comparison, struct compare_row *row,
                   uint64_t capacity_bytes, struct replay **replay);
/* The largest device that the policy of a row can have into row->unlimited_bytes, a power of two:
 * some know a limit of their own, and a buddy system cuts any other size into powers of two first.
 * As compare_create. */
int compare_find_unlimited(const struct comparison *comparison, struct compare_row *row);
/* The least device without a refusal into row->smallest_device. log_status. */
int compare_search(struct comparison *comparison, struct compare_row *row);
/* ns_per_operation. log_status. */
int compare_time(struct comparison *comparison, struct compare_row *row);
/* Whether the event is one that a policy sees. */
bool compare_reaches_policy(const struct event *event);

/* The table with its notes, or the document. The exit status. */
int compare_print_text(struct comparison *comparison);
int compare_print_json(struct comparison *comparison);
/* The document alone. Failures stay in the writer. */
void compare_write_json(const struct comparison *comparison, struct json_writer *writer);

#endif
