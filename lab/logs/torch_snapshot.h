/* Snapshots of PyTorch's caching allocator, as torch.cuda.memory._dump_snapshot writes them: the
 * final picture (segments and their blocks), a trace for each device, and the settings.
 *
 * Understood: a dict of all that on top, or a bare list of segments; the layout of PyTorch 2.0,
 * whose blocks have no addresses; missing keys. A trace is a ring buffer, so it may begin in the
 * middle of a run: torch_start.h finds out what was there then.
 *
 * Sources of the format: torch/cuda/memory.py, torch/cuda/_memory_viz.py and
 * torch/csrc/cuda/memory_snapshot.cpp of PyTorch 2.0 to 2.9, as reference/gpu-allocators.md,
 * section B2, tells it. */
#ifndef LOGS_TORCH_SNAPSHOT_H
#define LOGS_TORCH_SNAPSHOT_H

#include "lab/logs/log.h"
#include "lab/logs/torch_events.h"

enum {
    TORCH_SNAPSHOT_DIVISIONS = 16
};

struct torch_block {
    uint64_t address;
    uint64_t bytes;
    uint64_t requested_bytes; /* as asked for, of a block in use; where the snapshot does not say:
                                 `bytes` */
    uint64_t place;
    bool in_use; /* handed out, or waiting for events */
};

struct torch_segment {
    uint64_t address;
    uint64_t bytes;
    uint64_t stream;
    uint64_t pool; /* 0: none of its own */
    uint64_t place;
    size_t first_block; /* they follow each other by address */
    size_t block_count;
    uint32_t device;
    bool small;
    bool expandable;
    bool covered; /* its blocks leave no gap */
};

struct torch_snapshot_settings {
    bool known;
    const char *conf; /* the text of PYTORCH_CUDA_ALLOC_CONF; NULL: not said */
    bool has_max_split;
    uint64_t max_split_bytes;
    double collection_threshold; /* 0: not set */
    bool expandable;
    uint64_t divisions[TORCH_SNAPSHOT_DIVISIONS];
};

struct torch_snapshot;

/* Reads it whole. log_status; *snapshot is NULL unless all went well. */
int torch_snapshot_load(struct log_source *source, const struct worsegpu_memory *memory,
                        struct torch_snapshot **snapshot, struct log_problem *problem);
void torch_snapshot_release(struct torch_snapshot *snapshot);

unsigned int torch_snapshot_protocol(const struct torch_snapshot *snapshot);
const struct torch_snapshot_settings *
torch_snapshot_settings(const struct torch_snapshot *snapshot);
/* The picture, of all devices, in the order of the file. */
const struct torch_segment *torch_snapshot_segments(const struct torch_snapshot *snapshot,
                                                    size_t *count);
const struct torch_block *torch_snapshot_blocks(const struct torch_snapshot *snapshot);

/* Devices are numbered from 0; this many have a trace (which may be empty) or a segment. */
uint32_t torch_snapshot_devices(const struct torch_snapshot *snapshot);
/* Events in the trace of a device. */
uint64_t torch_snapshot_events(const struct torch_snapshot *snapshot, uint32_t device);

/* A walk through the trace of one device. Several may be under way. */
struct torch_walk {
    const struct torch_snapshot *snapshot;
    struct torch_cursor cursor;
    size_t list; /* SIZE_MAX: no trace */
    size_t run;
    uint64_t in_run;
};
/* 0, or LOG_NO_MEMORY. */
int torch_walk_begin(const struct torch_snapshot *snapshot, uint32_t device,
                     struct torch_walk *walk);
void torch_walk_end(struct torch_walk *walk);
/* LOG_FINE with *event, LOG_STOPPED after the last, or another log_status. */
int torch_walk_next(struct torch_walk *walk, struct torch_event *event,
                    struct log_problem *problem);

#endif
