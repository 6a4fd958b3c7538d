/* What was there when a torch trace began.
 *
 * A trace is a ring buffer: it may have lost its beginning. What is freed in it without having been
 * allocated in it was there before; and so was what the final picture has in use although the trace
 * never allocated it. Likewise for segments. That is section F of reference/gpu-allocators.md (undo
 * the events backwards from the final picture), done in one walk forward whose memory is what is
 * alive. */
#ifndef LOGS_TORCH_START_H
#define LOGS_TORCH_START_H

#include "lab/logs/torch_snapshot.h"

struct torch_before {
    uint64_t address;
    uint64_t requested_bytes;
    uint64_t block_bytes; /* 0: not recorded, since it is freed during the trace */
    uint64_t stream;
    uint64_t place;
    bool over; /* for whoever walks through the trace: it is freed by now */
};

struct torch_before_segment {
    uint64_t address;
    uint64_t bytes;
    uint64_t stream;
    uint64_t pool;
    uint64_t place;
    bool small;
    bool expandable;
};

struct torch_start {
    const struct worsegpu_memory *memory;
    struct torch_before *blocks; /* by address */
    size_t blocks_capacity;
    size_t block_count;
    struct torch_before_segment *segments; /* by address */
    size_t segments_capacity;
    size_t segment_count;

    enum torch_action freed; /* which event of the trace is a free: completed ones, unless there is
                                none of those */
    uint64_t count[TORCH_ACTIONS];
    uint64_t mapped_bytes; /* less what was unmapped, in the trace */
    bool midway;           /* something was there */
    uint64_t first_place;  /* of the first event */
    uint64_t first_time;   /* UINT64_MAX: the trace has no times */
};

/* log_status. */
int torch_start_find(const struct torch_snapshot *snapshot, uint32_t device,
                     const struct worsegpu_memory *memory, struct torch_start *start,
                     struct log_problem *problem);
void torch_start_release(struct torch_start *start);

#endif
