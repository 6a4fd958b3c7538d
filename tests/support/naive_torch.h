/* PyTorch's caching allocator once more, slow and simple: a witness for the torch policies.
 *
 * Written along golden-allocators/README.md with other structures than the policies': one array of
 * blocks, in which everything is found by looking at all of them. */
#ifndef NAIVE_TORCH_H
#define NAIVE_TORCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    NAIVE_BLOCKS = 400,
    NAIVE_RANGES = 4096, /* ever taken */
    NAIVE_EVENTS = 1024,
    NAIVE_OTHERS = 8 /* streams that one block can be used on besides its own */
};

struct naive_settings {
    uint64_t device_bytes;
    uint64_t max_split; /* UINT64_MAX: not set */
    uint64_t rounding;  /* max_non_split_rounding_mb, in bytes */
    uint64_t division;  /* 0: none */
    double collection;  /* 0: not set */
    double fraction;    /* negative: not set */
    bool expandable;
    bool reuses_addresses;
};

enum naive_state {
    NAIVE_DEAD, /* no block */
    NAIVE_FREE,
    NAIVE_USED,
    NAIVE_WAITING,
    NAIVE_UNMAPPED
};

struct naive_block {
    enum naive_state state;
    bool small;
    size_t segment;
    uint64_t offset;
    uint64_t bytes;
    uint64_t requested;
    uint64_t stream;
    uint64_t noted; /* the pool's counter when it was put there */
    uint64_t others[NAIVE_OTHERS];
    size_t other_count;
    size_t events; /* that it waits for */
};

struct naive_range {
    bool present;
    bool memory;
    uint64_t offset;
    uint64_t bytes;
};

struct naive_event {
    uint64_t stream;
    size_t block;
    bool done;
};

struct naive_torch {
    struct naive_settings settings;
    FILE *told; /* what was done with the device, a line each */
    struct naive_block blocks[NAIVE_BLOCKS];
    struct naive_range ranges[NAIVE_RANGES];
    size_t range_count;
    struct naive_event events[NAIVE_EVENTS]; /* in the order of recording */
    size_t event_count;
    uint64_t end; /* of all ranges ever */
    uint64_t total;
    uint64_t searches[2]; /* large, small */
    uint64_t reserved_peak;
    uint64_t allocated_peak;
    uint64_t active_peak;
    uint64_t retries;
    uint64_t ooms;
    uint64_t syncs;
    uint64_t device_alloc;
    uint64_t device_free;
};

/* The offset, or UINT64_MAX. *block is the name of the block. */
uint64_t naive_place(struct naive_torch *torch, uint64_t bytes, uint64_t stream, size_t *block);
void naive_release(struct naive_torch *torch, size_t block);
void naive_record(struct naive_torch *torch, size_t block, uint64_t stream);
void naive_done(struct naive_torch *torch, uint64_t stream, uint64_t count, bool newest);
void naive_empty(struct naive_torch *torch);

/* The statistics, as policy_world_statistics writes those of the policy. */
void naive_statistics(const struct naive_torch *torch, FILE *out);

/* Shared by its two files. */
bool naive_is_whole(const struct naive_torch *torch, size_t block);
bool naive_is_region(const struct naive_torch *torch, size_t block);
/* The free blocks of a pool in its order. How many. */
size_t naive_pool(const struct naive_torch *torch, bool small, size_t pool[NAIVE_BLOCKS]);
/* The bytes in this state, and how many blocks have them. */
uint64_t naive_sum(const struct naive_torch *torch, enum naive_state state, uint64_t *count);

#endif
