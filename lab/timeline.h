/* A recording under one policy, told event by event: what happened, where, and how much memory
 * there was then. For everything that `replay` writes; nothing here reads files or prints.
 *
 * What the policy took from its device and gave back stands in the row of the event during which it
 * did so. */
#ifndef LAB_TIMELINE_H
#define LAB_TIMELINE_H

#include "lab/lab.h"
#include "lab/replay.h"

enum {
    TIMELINE_SIZE_CLASSES = 512 /* of sizes: eight for each power of two */
};

/* An allocation, by its slot. */
struct timeline_live {
    bool on_gpu;
    uint64_t number; /* of the event that allocated it, from 1; 0: nothing was ever in this slot */
    uint64_t id;
    uint64_t bytes; /* as asked for */
    uint64_t offset;
    uint64_t block_bytes;
    uint64_t stream;
    uint64_t time_us;
};

struct timeline_move {
    enum device_event event;
    uint64_t offset;
    uint64_t bytes;
};

struct timeline_row {
    uint64_t number;  /* of the event in the recording, from 1 */
    uint64_t time_us; /* since the first event; never less than in the row before */
    enum log_operation operation;
    enum replay_result result; /* of an allocation */
    uint32_t slot;             /* of an allocation, free or record_stream */
    uint64_t id;
    uint64_t bytes;  /* as asked for; of an event_done, how many */
    uint64_t stream; /* of a free: of its allocation, unless the free names another */
    bool on_gpu;     /* offset and block_bytes count: what was placed, or is freed there */
    bool lost;       /* a free that the policy forgot at once */
    uint64_t offset;
    uint64_t block_bytes;
    uint64_t allocated_at; /* of a free: number of the event that allocated it */

    /* After the event. */
    uint64_t live_bytes; /* as asked for, on the GPU */
    struct policy_measures memory;
    bool largest_known;
    uint64_t largest_free;
    uint64_t ooms; /* so far */
    uint64_t host; /* allocations on the host, so far */

    const struct timeline_move *moves;
    size_t move_count;
    const struct replay *replay;
};

/* What the whole run came to. */
struct timeline_sum {
    uint64_t rows;
    uint64_t allocations;
    uint64_t frees;
    uint64_t ooms;
    uint64_t host;
    uint64_t first_oom; /* number of the event; 0: none */
    uint64_t first_oom_bytes;
    uint64_t peak_live;
    uint64_t peak_live_event;
    uint64_t peak_reserved;
    uint64_t peak_reserved_event;
    uint64_t end;   /* the highest address that was ever used */
    uint64_t moves; /* what was taken from the device and given back */
    uint64_t span_us;
    uint64_t live_at_end; /* allocations on the GPU */
    struct policy_measures last;
    uint64_t sizes[TIMELINE_SIZE_CLASSES]; /* how many blocks were placed, by their size */
};

/* The class of a size; a larger size has no lesser class. */
size_t timeline_size_class(uint64_t bytes);
/* The least size of a class. */
uint64_t timeline_size_least(size_t size_class);

/* How it stands at the end. */
struct timeline_end {
    const struct timeline_sum *sum;
    struct replay *replay;
    const struct timeline_live *live; /* by slot; those with on_gpu are */
    size_t slots;
};

/* Who is told. Both return log_status. `end` may be NULL. */
struct timeline_sink {
    void *context;
    int (*row)(void *context, const struct timeline_row *row);
    int (*end)(void *context, const struct timeline_end *end);
};

struct timeline {
    struct lab *lab; /* memory, and the progress line */
    const struct events *events;
    const char *policy;
    const char *seed;
    uint64_t capacity_bytes;
};

/* Runs it and tells `count` sinks. log_status. That the policy can be had was asked before. */
int timeline_run(const struct timeline *timeline, const struct timeline_sink *sinks, size_t count,
                 struct timeline_sum *sum);

#endif
