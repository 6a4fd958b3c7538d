/* What an allocator is made of. For the files of the
 * façade (allocator.c, tell.c, look.c, create.c, validate.c), and the tests that break it on
 * purpose. */
#ifndef ALLOCATOR_INTERNAL_H
#define ALLOCATOR_INTERNAL_H

#include <pthread.h>

#include "lib/handle_table.h"
#include "lib/host_pool.h"
#include "lib/policy.h"
#include "lib/python_random.h"
#include "lib/secrets.h"
#include "lib/trace.h"
#include "lib/worsegpu.h"

/* The allocator's own counters. */
struct allocator_counters {
    uint64_t last_id; /* 0: none given yet */
    uint64_t blocks_scanned;
    uint64_t gpu_allocations; /* live */
    uint64_t gpu_requested;   /* of the live ones */
    uint64_t gpu_used;        /* their reserved bytes */
    uint64_t peak_gpu_used;
    uint64_t allocate_calls;
    uint64_t free_calls;
    uint64_t oom_fallbacks;
    uint64_t oom_failures;
    uint64_t faults;   /* calls of worsegpu_record_fault */
    uint64_t tellings; /* of worsegpu_record_stream, _event_done and _empty_cache that worked */
};

struct worsegpu_allocator {
    struct worsegpu_config config;
    const struct worsegpu_memory *memory;
    char *seed; /* the text that config.seed points to */
    size_t seed_size;
    char *knobs; /* the text that config.knobs points to, into which the policy may point too */
    size_t knobs_size;
    pthread_mutex_t mutex; /* held during each call, unless single_threaded */
    struct policy *policy;
    struct handle_table live;
    struct host_pool host;
    struct trace trace;
    struct allocator_counters counters;
    uint64_t largest_capacity_bytes; /* the largest that config.gpu_capacity has been */
    struct python_random random;
    struct python_random random_before; /* set while a request may have to be taken back ... */
    bool random_is_kept;                /* ... with its words, or else only its place in them */
    struct secrets secrets;
};

/* worsegpu_create with another source of randomness for keys, secrets and a seed that is left out.
 */
int allocator_create(const struct worsegpu_config *config, const struct entropy *entropy,
                     worsegpu_allocator **allocator);

void allocator_lock(worsegpu_allocator *allocator);
void allocator_unlock(worsegpu_allocator *allocator);

/* The live allocation that a handle is for, or NULL. */
struct handle_record *allocator_find(const worsegpu_allocator *allocator,
                                     const struct worsegpu_handle *handle);

/* Fills in what the caller is told of a live allocation. */
void allocator_describe(const struct handle_record *record, struct worsegpu_allocation *allocation);

/* Where on the GPU a live allocation lies, as the policy gave it. */
struct policy_placement allocator_placement(const struct handle_record *record);

#endif
