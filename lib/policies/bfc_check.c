/* The audit of the BFC policy: bins, regions and counters, each recomputed from the chunks. */
#include "lib/policies/bfc.h"

#include "lib/worsegpu.h"

/* What the chunks say of one bin. */
struct bin_sums {
    uint64_t free_chunks;
    uint64_t free_bytes;
    uint64_t used_chunks;
    uint64_t used_bytes;
};

struct expected {
    const struct bfc *bfc;
    uint32_t bin;
};

static bool expect_chunk(const void *context, uint32_t chunk, const struct block_node *node)
{
    const struct expected *expected = context;
    const struct blocks *chunks = &expected->bfc->chunks;
    if (chunk >= chunks->length || !blocks_is(chunks, chunk, BLOCK_FREE))
        return false;
    const struct block *at = blocks_at(chunks, chunk);
    return bfc_bin_of(at->bytes) == expected->bin && node->major == at->bytes &&
           node->minor == at->offset && node->weight == 0;
}

static void check_bins(const struct bfc *bfc, struct audit *audit)
{
    struct bin_sums sums[BFC_BINS] = {{0}};
    for (uint32_t chunk = 0; chunk < bfc->chunks.length; chunk++) {
        const struct block *at = blocks_at(&bfc->chunks, chunk);
        if (at->state == BLOCK_SPARE)
            continue;
        audit_check(audit, INVARIANT_block_layout,
                    at->bytes % BFC_UNIT_BYTES == 0 && at->state != BLOCK_PENDING &&
                        at->state != BLOCK_UNMAPPED);
        struct bin_sums *sum = &sums[bfc_bin_of(at->bytes)];
        if (at->state == BLOCK_FREE) {
            sum->free_chunks++;
            sum->free_bytes += at->bytes;
        } else {
            sum->used_chunks++;
            sum->used_bytes += at->bytes;
        }
    }
    for (uint32_t number = 0; number < BFC_BINS; number++) {
        const struct bfc_bin *bin = &bfc->bins[number];
        struct expected expected = {bfc, number};
        block_order_check(&bin->free, &bfc->chunk_nodes, sums[number].free_chunks, expect_chunk,
                          &expected, audit);
        audit_check(audit, INVARIANT_free_index_class,
                    (bfc->bins_with_free >> number & 1) == (sums[number].free_chunks > 0));
        audit_check(audit, INVARIANT_gpu_free_sum, bin->free_bytes == sums[number].free_bytes);
        audit_check(audit, INVARIANT_gpu_used_sum,
                    bin->used_chunks == sums[number].used_chunks &&
                        bin->used_bytes == sums[number].used_bytes);
    }
}

/* The bytes of a region that has no used chunk, else 0. */
static uint64_t empty_bytes(const struct bfc *bfc, const struct block *region)
{
    const struct block *last = blocks_at(&bfc->chunks, (uint32_t)region->own);
    return bfc->collects && last->state == BLOCK_FREE && block_is_whole(last) ? last->bytes : 0;
}

static bool expect_region(const void *context, uint32_t region, const struct block_node *node)
{
    const struct expected *expected = context;
    const struct bfc *bfc = expected->bfc;
    if (region >= bfc->regions.length || !blocks_is(&bfc->regions, region, BLOCK_USED))
        return false;
    const struct block *at = blocks_at(&bfc->regions, region);
    return node->major == at->offset && node->minor == region &&
           node->weight == empty_bytes(bfc, at);
}

/* Each chunk names its region, whose last chunk ends where it ends. False when something is wrong:
 * a region may then name a chunk that there is not. */
static bool check_last_chunks(const struct bfc *bfc, struct audit *audit)
{
    uint64_t lasts = 0;
    for (uint32_t chunk = 0; chunk < bfc->chunks.length; chunk++) {
        const struct block *at = blocks_at(&bfc->chunks, chunk);
        if (at->state == BLOCK_SPARE)
            continue;
        if (!audit_check(audit, INVARIANT_block_layout,
                         at->segment < bfc->regions.length &&
                             blocks_is(&bfc->regions, at->segment, BLOCK_USED)))
            return false;
        const struct block *region = blocks_at(&bfc->regions, at->segment);
        audit_check(audit, INVARIANT_block_layout,
                    at->below != BLOCK_NONE || at->offset == region->offset);
        if (at->above != BLOCK_NONE)
            continue;
        lasts++;
        audit_check(audit, INVARIANT_block_layout,
                    region->own == chunk && block_end(at) == block_end(region));
    }
    audit_check(audit, INVARIANT_block_layout, lasts == bfc->regions.count[BLOCK_USED]);
    return !audit->broken;
}

static void check_regions(const struct bfc *bfc, struct audit *audit)
{
    struct expected expected = {bfc, 0};
    block_order_check(&bfc->regions_by_offset, &bfc->region_nodes, bfc->regions.count[BLOCK_USED],
                      expect_region, &expected, audit);
    uint64_t bytes = 0;
    uint64_t empty = 0;
    for (uint32_t region = 0; region < bfc->regions.length; region++) {
        const struct block *at = blocks_at(&bfc->regions, region);
        if (at->state != BLOCK_USED)
            continue;
        bytes += at->bytes;
        empty += empty_bytes(bfc, at);
    }
    audit_check(audit, INVARIANT_gpu_reserved_sum, bfc->pool_bytes == bytes);
    audit_check(audit, INVARIANT_gpu_reserved_sum, bfc->pool_bytes <= bfc->limit_bytes);
    audit_check(audit, INVARIANT_gpu_reserved_sum, bfc->pool_bytes == bfc->device.taken_bytes);
    audit_check(audit, INVARIANT_gpu_free_sum, bfc->empty_bytes == empty);
}

int bfc_check(const struct policy *policy, const struct policy_live *live, struct audit *audit)
{
    const struct bfc *bfc = (const struct bfc *)policy;
    int status = blocks_check(&bfc->chunks, true, live, audit);
    if (status != WORSEGPU_OK || audit->broken)
        return status; /* what follows trusts the links */
    if (check_last_chunks(bfc, audit))
        check_regions(bfc, audit);
    device_check(&bfc->device, audit);
    check_bins(bfc, audit);
    return WORSEGPU_OK;
}
