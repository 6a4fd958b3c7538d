/* The regions of the BFC policy: growth step by step, joining, giving back. The rules are told in
 * bfc.c. */
#include "lib/policies/bfc.h"

/* Past any limit, so that doubling once more changes nothing. */
#define GREATEST_STEP_BYTES (UINT64_C(1) << 62)

/* What growth asks for after the device has said no: nine tenths, in single precision and rounded
 * up as in the original; where that is no less, one unit less. */
static uint64_t less_than(uint64_t bytes)
{
    float shrunk = (float)bytes * 0.9F;
    uint64_t less = bfc_rounded_up((uint64_t)shrunk);
    return less < bytes ? less : bytes - BFC_UNIT_BYTES;
}

static void double_step(struct bfc *bfc)
{
    if (bfc->step_bytes < GREATEST_STEP_BYTES)
        bfc->step_bytes *= 2;
}

/* Takes a region from the device. Its bytes, at *offset; 0: growth fails, but a step that was
 * doubled for it stays so. */
uint64_t bfc_take_region(struct bfc *bfc, uint64_t bytes, uint64_t *offset)
{
    uint64_t room = (bfc->limit_bytes - bfc->pool_bytes) / BFC_UNIT_BYTES * BFC_UNIT_BYTES;
    if (bytes > room)
        return 0;
    bool doubled = bfc->step_bytes < bytes;
    while (bfc->step_bytes < bytes)
        double_step(bfc);
    uint64_t wish = bfc->step_bytes < room ? bfc->step_bytes : room;
    while (device_take(&bfc->device, DEVICE_REGION, wish, offset) != 0) {
        wish = less_than(wish);
        if (wish < bytes)
            return 0;
    }
    if (!doubled)
        double_step(bfc);
    return wish;
}

/* The region that ends at this offset, which one that begins there joins; or BLOCK_NONE. */
uint32_t bfc_region_below(const struct bfc *bfc, uint64_t offset)
{
    if (!bfc->coalesces)
        return BLOCK_NONE;
    uint32_t region =
        block_order_below(&bfc->regions_by_offset, &bfc->region_nodes, offset, UINT64_MAX);
    if (region == BLOCK_NONE || block_end(blocks_at(&bfc->regions, region)) != offset)
        return BLOCK_NONE;
    return region;
}

/* Makes two blocks neighbours that were ends of different segments. */
static void attach(struct blocks *blocks, uint32_t below, uint32_t above)
{
    blocks_at(blocks, below)->above = above;
    blocks_at(blocks, above)->below = below;
}

/* A region by itself. Its only chunk, free and in no bin yet. */
uint32_t bfc_add_region(struct bfc *bfc, uint64_t offset, uint64_t bytes)
{
    uint32_t region = blocks_add(&bfc->regions, offset, bytes, BLOCK_USED);
    uint32_t chunk = blocks_add(&bfc->chunks, offset, bytes, BLOCK_FREE);
    blocks_at(&bfc->regions, region)->own = chunk;
    blocks_at(&bfc->chunks, chunk)->segment = region;
    block_order_insert(&bfc->regions_by_offset, &bfc->region_nodes, region, offset, region, 0);
    return chunk;
}

/* A region grows upward. The new chunk, merged with the last one if that was free, in no bin. */
uint32_t bfc_extend_region(struct bfc *bfc, uint32_t region, uint64_t bytes)
{
    struct block *grown = blocks_at(&bfc->regions, region);
    uint64_t offset = block_end(grown);
    uint32_t last = (uint32_t)grown->own;
    bool merges = blocks_is(&bfc->chunks, last, BLOCK_FREE);
    if (merges)
        bfc_bin_remove(bfc, last);
    attach(&bfc->regions, region, blocks_add(&bfc->regions, offset, bytes, BLOCK_USED));
    blocks_join_above(&bfc->regions, region);
    uint32_t chunk = blocks_add(&bfc->chunks, offset, bytes, BLOCK_FREE);
    blocks_at(&bfc->chunks, chunk)->segment = region;
    attach(&bfc->chunks, last, chunk);
    if (merges) {
        blocks_join_above(&bfc->chunks, last);
        chunk = last;
    }
    blocks_at(&bfc->regions, region)->own = chunk;
    return chunk;
}

static void give_region_back(struct bfc *bfc, uint32_t region)
{
    const struct block *at = blocks_at(&bfc->regions, region);
    uint32_t chunk = (uint32_t)at->own;
    bfc_bin_remove(bfc, chunk);
    blocks_remove(&bfc->chunks, chunk);
    block_order_remove(&bfc->regions_by_offset, &bfc->region_nodes, region);
    bfc->pool_bytes -= at->bytes;
    device_give_back(&bfc->device, DEVICE_REGION_FREE, at->offset, at->bytes);
    blocks_remove(&bfc->regions, region);
}

/* Gives all regions without a used chunk back, if that could help. */
bool bfc_collect(struct bfc *bfc, uint64_t bytes)
{
    if (bfc->empty_bytes == 0 || bytes > bfc->limit_bytes - bfc->pool_bytes + bfc->empty_bytes)
        return false;
    while (bfc->empty_bytes > 0)
        give_region_back(bfc,
                         block_order_heavy(&bfc->regions_by_offset, &bfc->region_nodes, 0, 0, 1));
    bfc->counters.collections++;
    return true;
}
