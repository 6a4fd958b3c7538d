/* Torch's sentence about an out of memory, taken apart and judged. Knows no log, no policy, and
 * prints nothing. */
#ifndef LAB_OOM_SENTENCE_H
#define LAB_OOM_SENTENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/worsegpu_memory.h"

enum oom_figure {
    OOM_asked,
    OOM_total,
    OOM_free,
    OOM_allocated,
    OOM_reserved, /* in all: allocated and not */
    OOM_unallocated,
    OOM_private_pools,
    OOM_allowed,
    OOM_this_process, /* with what torch has */
    OOM_outside,      /* of this process, beside torch's allocator */
    OOM_FIGURES
};

enum {
    OOM_MOST_BYTES = 65536, /* longer texts are cut: the sentence stands early */
    OOM_PROCESSES = 32
};

/* A size as it was printed: two decimals of a unit, so not exact. */
struct oom_size {
    bool known;
    double bytes;
};

struct oom_process {
    uint64_t pid;
    struct oom_size size;
};

enum oom_kind {
    OOM_KIND_CACHING, /* a caching allocator, with figures */
    OOM_KIND_MPS,
    OOM_KIND_ASYNC,  /* cudaMallocAsync */
    OOM_KIND_ABSURD, /* more than an exabyte */
    OOM_KIND_SILENT  /* without figures: the driver's own error */
};

struct oom_sentence {
    enum oom_kind kind;
    struct oom_size figures[OOM_FIGURES];
    struct oom_process processes[OOM_PROCESSES]; /* other ones */
    size_t process_count;
    bool device_known;
    uint64_t device;
    bool hip;
    const char *variable; /* the environment variable that such a torch reads */
};

/* 0; 1 where the text is no such sentence; -1 without memory. */
int oom_sentence_read(const char *text, size_t length, const struct worsegpu_memory *memory,
                      struct oom_sentence *sentence);

/* The examples of the table: index 0, 1, ...; NULL after the last. */
const char *oom_sentence_example(size_t index, const char **since);

/* ------------------------------------------------------------------------------ judging it */

enum oom_cause {
    OOM_CAUSE_TOO_LARGE,     /* more than the device, or the limit, has at all */
    OOM_CAUSE_LIMIT,         /* this process' own limit */
    OOM_CAUSE_FRAGMENTATION, /* enough is reserved and unused, in pieces */
    OOM_CAUSE_PRIVATE_POOLS, /* what graphs keep for themselves */
    OOM_CAUSE_OTHERS,        /* other processes have what is missing */
    OOM_CAUSE_OUTSIDE,       /* this process has it, but not through torch */
    OOM_CAUSE_FULL,          /* live tensors take the room */
    OOM_CAUSE_ROOM,          /* the device says that there is room */
    OOM_CAUSE_ABSURD,
    OOM_CAUSE_UNKNOWN /* the sentence says too little */
};

struct oom_verdict {
    enum oom_cause cause; /* the likeliest */
    bool also_fragmented; /* pieces would do a quarter of it or more */
    bool spilled;         /* more is allocated than the device has: part of it is in host memory */
    struct oom_size others; /* of other processes: as told, else what is left of the device */
    bool others_told;
};

void oom_sentence_judge(const struct oom_sentence *sentence, struct oom_verdict *verdict);

#endif
