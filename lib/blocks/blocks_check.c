/* The audit of blocks: states, layout, sums, and the live placements on them; see blocks.h. Trusts
 * no link and no count: broken ones must end in a name, not in a crash. */
#include "base/memory.h"
#include "lib/blocks/blocks.h"
#include "lib/blocks/blocks_sort.h"

static bool is_number(const struct blocks *blocks, uint32_t block)
{
    return block < blocks->length && blocks->items[block].state != BLOCK_SPARE;
}

/* A link to a neighbour: that one links back, and touches. */
static void check_neighbours(const struct blocks *blocks, uint32_t block, bool merges,
                             struct audit *audit)
{
    const struct block *item = blocks_at(blocks, block);
    uint64_t end;
    audit_check(audit, INVARIANT_block_layout,
                !__builtin_add_overflow(item->offset, item->bytes, &end));
    if (item->below != BLOCK_NONE)
        audit_check(audit, INVARIANT_block_layout,
                    is_number(blocks, item->below) &&
                        blocks_at(blocks, item->below)->above == block);
    if (item->above == BLOCK_NONE)
        return;
    if (!audit_check(audit, INVARIANT_block_layout, is_number(blocks, item->above)))
        return;
    const struct block *above = blocks_at(blocks, item->above);
    audit_check(audit, INVARIANT_block_layout,
                above->below == block && above->offset == end && above->segment == item->segment);
    if (merges)
        audit_check(audit, INVARIANT_block_layout,
                    item->state != BLOCK_FREE || above->state != BLOCK_FREE);
}

/* The chain of numbers that wait to be used again has each of them, once. */
static void check_spares(const struct blocks *blocks, struct audit *audit, uint64_t spares)
{
    audit_check(audit, INVARIANT_block_state, spares == blocks->spares);
    uint64_t chained = 0;
    uint32_t block = blocks->first_spare;
    while (block != BLOCK_NONE && chained <= spares) {
        if (!audit_check(audit, INVARIANT_block_state,
                         block < blocks->length && blocks->items[block].state == BLOCK_SPARE))
            return;
        chained++;
        block = blocks->items[block].next;
    }
    audit_check(audit, INVARIANT_block_state, chained == spares);
}

/* Sums by state, the layout around each block, the high water. */
static void check_blocks(const struct blocks *blocks, bool merges, struct audit *audit)
{
    uint64_t bytes[BLOCK_STATES] = {0};
    uint64_t count[BLOCK_STATES] = {0};
    for (size_t i = 0; i < blocks->length; i++) {
        const struct block *item = &blocks->items[i];
        if (!audit_check(audit, INVARIANT_block_state, item->state < BLOCK_STATES))
            return;
        count[item->state]++;
        if (item->state == BLOCK_SPARE)
            continue;
        audit_check(audit, INVARIANT_block_state, item->bytes > 0);
        bytes[item->state] += item->bytes;
        check_neighbours(blocks, (uint32_t)i, merges, audit);
        if (item->state == BLOCK_USED)
            audit_check(audit, INVARIANT_gpu_reserved_sum, block_end(item) <= blocks->high_water);
    }
    check_spares(blocks, audit, count[BLOCK_SPARE]);
    audit_check(audit, INVARIANT_gpu_used_sum,
                blocks->bytes[BLOCK_USED] == bytes[BLOCK_USED] &&
                    blocks->count[BLOCK_USED] == count[BLOCK_USED]);
    audit_check(audit, INVARIANT_gpu_free_sum,
                blocks->bytes[BLOCK_FREE] == bytes[BLOCK_FREE] &&
                    blocks->count[BLOCK_FREE] == count[BLOCK_FREE]);
    audit_check(audit, INVARIANT_gpu_forgotten_sum,
                blocks->bytes[BLOCK_FORGOTTEN] == bytes[BLOCK_FORGOTTEN]);
    audit_check(audit, INVARIANT_gpu_forgotten_count,
                blocks->count[BLOCK_FORGOTTEN] == count[BLOCK_FORGOTTEN]);
    audit_check(audit, INVARIANT_gpu_reserved_sum,
                blocks->bytes[BLOCK_PENDING] == bytes[BLOCK_PENDING] &&
                    blocks->count[BLOCK_PENDING] == count[BLOCK_PENDING] &&
                    blocks->bytes[BLOCK_UNMAPPED] == bytes[BLOCK_UNMAPPED] &&
                    blocks->count[BLOCK_UNMAPPED] == count[BLOCK_UNMAPPED]);
}

/* No block, of whatever segment, reaches over the beginning of the next one, and a segment is not
 * left and entered again. */
static void check_apart(const struct blocks *blocks, const struct block_place *sorted, size_t count,
                        struct audit *audit)
{
    for (size_t i = 1; i < count; i++) {
        const struct block *lower = blocks_at(blocks, sorted[i - 1].block);
        const struct block *upper = blocks_at(blocks, sorted[i].block);
        audit_check(audit, INVARIANT_block_layout, block_end(lower) <= upper->offset);
        audit_check(audit, INVARIANT_block_layout,
                    upper->below == BLOCK_NONE ? lower->above == BLOCK_NONE
                                               : upper->below == sorted[i - 1].block);
    }
}

struct placements {
    const struct blocks *blocks;
    struct audit *audit;
    bool *seen;
    uint64_t count;
};

static void check_placement(void *context, const struct policy_placement *placement)
{
    struct placements *placements = context;
    const struct blocks *blocks = placements->blocks;
    size_t block = (size_t)placement->cookie;
    placements->count++;
    if (!audit_check(placements->audit, INVARIANT_gpu_placement,
                     block < blocks->length && !placements->seen[block]))
        return;
    placements->seen[block] = true;
    const struct block *item = &blocks->items[block];
    audit_check(placements->audit, INVARIANT_gpu_placement,
                item->state == BLOCK_USED && item->bytes == placement->reserved_bytes &&
                    placement->offset >= item->offset && placement->offset < block_end(item));
}

int blocks_check(const struct blocks *blocks, bool merges, const struct policy_live *live,
                 struct audit *audit)
{
    int status = WORSEGPU_NO_MEMORY;
    size_t scratch = blocks->length + 1; /* never nothing */
    struct block_place *sorted = NULL;
    bool *seen = memory_allocate_zeroed(blocks->memory, scratch, sizeof(*seen));
    if (!seen)
        goto out;
    sorted = memory_allocate_array(blocks->memory, scratch, sizeof(*sorted));
    if (!sorted)
        goto release_seen;

    check_blocks(blocks, merges, audit);
    check_apart(blocks, sorted, blocks_sort(blocks, sorted), audit);
    struct placements placements = {blocks, audit, seen, 0};
    live->each(live, check_placement, &placements);
    audit_check(audit, INVARIANT_gpu_placement, placements.count == blocks->count[BLOCK_USED]);
    status = WORSEGPU_OK;

    memory_release_array(blocks->memory, sorted, scratch, sizeof(*sorted));
release_seen:
    memory_release_array(blocks->memory, seen, scratch, sizeof(*seen));
out:
    return status;
}
