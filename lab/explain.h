/* explain: the first out of memory of a recording, as a story. What is gathered here is told by
 * explain_text.c and explain_json.c. */
#ifndef LAB_EXPLAIN_H
#define LAB_EXPLAIN_H

#include "lab/compare.h"
#include "lab/fit_search.h"
#include "lab/lab.h"

enum {
    EXPLAIN_MAP_CELLS = 64,
    EXPLAIN_HOLDERS = 5,
    EXPLAIN_SEGMENTS = 3,
    EXPLAIN_LARGEST = 5,
    EXPLAIN_TRIES = 64
};

/* A live allocation, by its slot. */
struct explain_owner {
    bool live;
    uint64_t event; /* that allocated it, number from 1 */
    uint64_t id;
    uint64_t bytes; /* as asked for */
    uint64_t offset;
    uint64_t reserved_bytes;
    uint64_t stream;
    uint64_t time_us;
    uint64_t freed_event; /* of a holder: 0: it never is */
};

/* A place of the policy's memory at the moment of the refusal. */
struct explain_block {
    uint64_t offset;
    uint64_t bytes;
    uint64_t stream;
    uint64_t segment;
    enum policy_block_state state;
    const struct explain_owner *owner; /* of a used one, where it is known */
};

/* Free memory that cannot go back to the device, since something else in its segment lives. */
struct explain_segment {
    uint64_t offset;
    uint64_t bytes;
    uint64_t free_bytes;
    uint64_t live_blocks;
    struct explain_owner oldest; /* of the live ones; its event is 0 where that is not known */
};

/* The place with the least in the way: neighbours that together are large enough. */
struct explain_window {
    bool found;
    uint64_t offset;
    uint64_t bytes;
    uint64_t live_bytes;
    size_t live_blocks;
    struct explain_owner holders[EXPLAIN_HOLDERS]; /* the largest ones */
    size_t holder_count;
};

struct explain_try {
    const char *policy;
    bool possible;
    bool counts; /* it only counts bytes, or used the host: no real rival */
    struct fit_run run;
};

/* What is explained, and what was found out. */
struct explain {
    struct lab *lab;
    const struct events *events;
    const char *policy;
    const char *seed;
    uint64_t capacity_bytes;
    uint64_t unlimited_bytes;

    bool refused;        /* else nothing from here on to `fit` counts */
    struct event asked;  /* the allocation that was refused */
    uint64_t number;     /* of its event */
    uint64_t live_bytes; /* as asked for, on the GPU */
    uint64_t live_count;
    struct policy_measures before; /* the request */
    struct policy_measures after;
    uint64_t scanned;
    bool largest_known;
    uint64_t free_pieces;
    uint64_t free_bytes;
    uint64_t largest[EXPLAIN_LARGEST]; /* pieces, the largest first */
    uint64_t largest_count;
    uint64_t untaken_bytes; /* of the device */
    bool takes_segments;    /* it takes pieces from the device and can give them back */
    char map[EXPLAIN_MAP_CELLS + 1];
    uint64_t cell_bytes;
    struct explain_window window;
    struct explain_segment segments[EXPLAIN_SEGMENTS]; /* with most free memory */
    size_t segment_count;
    uint64_t held_segments;
    uint64_t held_bytes;

    uint64_t wrong_event; /* the last one after which the request could no longer be served; 0: it
                             always could, by size */
    struct event wrong;
    uint64_t wrong_largest; /* what could be had after it */

    struct fit_run all;    /* where nothing is refused */
    struct fit_answer fit; /* of this policy */
    struct explain_try tries[EXPLAIN_TRIES];
    size_t try_count;
};

/* Finds out everything, with runs of its own. What stands before `refused` is given. log_status. */
int explain_find_out(struct explain *explain);

/* Replays to the first refusal and looks at it. log_status. */
int explain_find(struct explain *explain);

/* What the blocks of the policy say, in the order of offsets; `owners` are the live ones among
 * `count` slots. Fills in the pieces, the map, the window and the segments. 0, or -1 without
 * memory. */
int explain_look(struct explain *explain, struct replay *replay, const struct explain_owner *owners,
                 size_t count);

/* Replays again, to where the request could be served for the last time. log_status. */
int explain_find_wrong(struct explain *explain);

/* Whether live allocations alone leave no room for the request. */
bool explain_is_full(const struct explain *explain);

int explain_print_text(const struct explain *explain);
int explain_print_json(const struct explain *explain);

/* explain --oom: a sentence instead of a log. */
int explain_sentence(struct lab *lab, const char *text);

#endif
