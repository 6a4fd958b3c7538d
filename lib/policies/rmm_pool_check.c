/* The audit of the RMM pool: its lists, and that nothing in them was left unmerged. */
#include "lib/policies/rmm_pool.h"

#include "lib/worsegpu.h"

struct expected {
    const struct rmm_pool *pool;
    const struct rmm_list *list;
};

static bool expect_block(const void *context, uint32_t block, const struct block_node *node)
{
    const struct expected *expected = context;
    const struct rmm_pool *pool = expected->pool;
    if (block >= pool->blocks.length || !rmm_is_in(pool, expected->list, block))
        return false;
    const struct block *at = blocks_at(&pool->blocks, block);
    return node->major == at->bytes && node->minor == at->offset && node->weight == at->bytes;
}

/* Each list holds blocks of its own; together, and by their sums, that is all of them. */
static void check_lists(const struct rmm_pool *pool, struct audit *audit)
{
    uint64_t blocks = 0;
    uint64_t bytes = 0;
    for (uint32_t list = 0; list < pool->streams.length; list++) {
        const struct rmm_list *at = &pool->streams.lists[list];
        struct expected expected = {pool, at};
        uint64_t count = block_order_count(&at->order, &pool->nodes);
        block_order_check(&at->order, &pool->nodes, count, expect_block, &expected, audit);
        blocks += count;
        bytes += at->bytes;
    }
    audit_check(audit, INVARIANT_free_index_count, blocks == pool->blocks.count[BLOCK_FREE]);
    audit_check(audit, INVARIANT_free_index_count, bytes == pool->blocks.bytes[BLOCK_FREE]);
}

/* No free block has a neighbour in its own list. */
static void check_merged(const struct rmm_pool *pool, struct audit *audit)
{
    for (uint32_t block = 0; block < pool->blocks.length; block++) {
        const struct block *at = blocks_at(&pool->blocks, block);
        if (at->state != BLOCK_FREE)
            continue;
        if (!audit_check(audit, INVARIANT_free_index_member, at->group < pool->streams.length))
            return;
        const struct rmm_list *list = &pool->streams.lists[at->group];
        audit_check(audit, INVARIANT_block_layout, !rmm_is_in(pool, list, at->above));
    }
}

int rmm_pool_check(const struct policy *policy, const struct policy_live *live, struct audit *audit)
{
    const struct rmm_pool *pool = (const struct rmm_pool *)policy;
    int status = blocks_check(&pool->blocks, false, live, audit);
    if (status != WORSEGPU_OK || audit->broken)
        return status; /* what follows trusts the links */
    const uint64_t *bytes = pool->blocks.bytes;
    audit_check(audit, INVARIANT_gpu_reserved_sum,
                pool->pool_bytes == bytes[BLOCK_FREE] + bytes[BLOCK_USED] + bytes[BLOCK_FORGOTTEN]);
    audit_check(audit, INVARIANT_gpu_reserved_sum, pool->pool_bytes == pool->device.taken_bytes);
    device_check(&pool->device, audit);
    rmm_streams_check(&pool->streams, &pool->nodes, audit);
    if (audit->broken)
        return WORSEGPU_OK;
    check_merged(pool, audit);
    if (!audit->broken)
        check_lists(pool, audit);
    return WORSEGPU_OK;
}
