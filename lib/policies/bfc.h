/* The policy "bfc": the best-fit-with-coalescing allocator of TensorFlow and XLA. */
#ifndef BFC_H
#define BFC_H

#include "lib/blocks/device.h"
#include "lib/policy.h"

enum {
    BFC_UNIT_BYTES = 256, /* sizes of chunks are multiples of it */
    BFC_BINS = 21         /* bin b: from 256 * 2^b bytes on, up to the next; the last has no end */
};

/* Chunks of one range of sizes. */
struct bfc_bin {
    struct block_order free; /* by size, then offset */
    uint64_t free_bytes;
    uint64_t used_chunks; /* forgotten ones too: the modelled allocator was never told */
    uint64_t used_bytes;
};

struct bfc_counters {
    uint64_t allocations; /* that were given, in all */
    uint64_t peak_in_use_bytes;
    uint64_t largest_allocation_bytes;
    uint64_t peak_pool_bytes;
    uint64_t collections; /* of regions without a used chunk */
};

/* Open to the tests that break it. */
struct bfc {
    struct policy policy; /* first */
    const struct worsegpu_memory *memory;
    struct device device;
    struct blocks chunks; /* `segment`: the number of its region */
    struct block_nodes chunk_nodes;
    struct bfc_bin bins[BFC_BINS];
    uint32_t bins_with_free; /* bit b: bin b has a free chunk */
    struct blocks regions;   /* `own`: the number of its last chunk */
    struct block_nodes region_nodes;
    struct block_order regions_by_offset; /* weight: bytes of a region without a used chunk, else
                                             0; kept only where garbage is collected */
    uint64_t empty_bytes;                 /* the sum of these weights */
    uint64_t limit_bytes;
    uint64_t pool_bytes;  /* taken from the device, now */
    uint64_t step_bytes;  /* what growth asks for next */
    uint64_t split_bytes; /* a chunk with so much more than asked for is split */
    bool collects;
    bool coalesces;
    struct bfc_counters counters;
};

extern const struct policy_operations policy_bfc;

/* ---- Between the files of this policy. */

static inline uint64_t bfc_rounded_up(uint64_t bytes)
{
    return (bytes + BFC_UNIT_BYTES - 1) / BFC_UNIT_BYTES * BFC_UNIT_BYTES;
}

uint32_t bfc_bin_of(uint64_t bytes);
void bfc_bin_insert(struct bfc *bfc, uint32_t chunk);
/* To be done while the chunk still has its size and its neighbours. */
void bfc_bin_remove(struct bfc *bfc, uint32_t chunk);

/* Takes a region from the device. Its bytes, at *offset; 0: growth fails, but a step that was
 * doubled for it stays so. */
uint64_t bfc_take_region(struct bfc *bfc, uint64_t bytes, uint64_t *offset);
/* The region that ends at this offset, which one that begins there joins; or BLOCK_NONE. */
uint32_t bfc_region_below(const struct bfc *bfc, uint64_t offset);
/* Adds a region by itself, or to a region that grows upward (whose last chunk, if free, merges with
 * the new one). Its free chunk, in no bin yet. Neither counts the bytes as the pool's. */
uint32_t bfc_add_region(struct bfc *bfc, uint64_t offset, uint64_t bytes);
uint32_t bfc_extend_region(struct bfc *bfc, uint32_t region, uint64_t bytes);
/* Gives all regions without a used chunk back, if that could help. */
bool bfc_collect(struct bfc *bfc, uint64_t bytes);

int bfc_check(const struct policy *policy, const struct policy_live *live, struct audit *audit);

#endif
