/* The audit of the worse policy: its accounts, its layout, its index and the live allocations, each
 * recomputed from the blocks. Trusts no link and no count: broken ones must end in a name, not in a
 * crash. Its scratch memory lives as long as one audit. */
#include "lib/policies/worse.h"

#include "base/memory.h"

static enum worse_state state_of(const struct worse_policy *worse, size_t block)
{
    return (enum worse_state)(worse->states[block] >> WORSE_STATE_SHIFT);
}

static uint64_t size_of(const struct worse_policy *worse, size_t block)
{
    return worse->states[block] & WORSE_SIZE_BITS;
}

/* What the blocks say. */
struct sums {
    uint64_t bytes[WORSE_FORGOTTEN + 1];
    uint64_t blocks[WORSE_FORGOTTEN + 1];
};

static void check_blocks(const struct worse_policy *worse, struct audit *audit, struct sums *sums)
{
    uint64_t end = 0;
    for (size_t i = 0; i < worse->blocks; i++) {
        enum worse_state state = state_of(worse, i);
        if (!audit_check(audit, INVARIANT_block_state,
                         state <= WORSE_FORGOTTEN && size_of(worse, i) > 0))
            return;
        audit_check(audit, INVARIANT_block_layout, worse->offsets[i] == end);
        end = worse->offsets[i] + size_of(worse, i);
        sums->bytes[state] += size_of(worse, i);
        sums->blocks[state]++;
    }
}

static void check_sums(const struct worse_policy *worse, const struct policy_live *live,
                       struct audit *audit, const struct sums *sums)
{
    uint64_t reserved =
        sums->bytes[WORSE_FREE] + sums->bytes[WORSE_USED] + sums->bytes[WORSE_FORGOTTEN];
    audit_check(audit, INVARIANT_gpu_reserved_sum, worse->reserved_bytes == reserved);
    audit_check(audit, INVARIANT_gpu_used_sum, worse->used_bytes == sums->bytes[WORSE_USED]);
    audit_check(audit, INVARIANT_gpu_free_sum, worse->free_bytes == sums->bytes[WORSE_FREE]);
    audit_check(audit, INVARIANT_gpu_forgotten_sum,
                worse->forgotten_bytes == sums->bytes[WORSE_FORGOTTEN]);
    audit_check(audit, INVARIANT_gpu_forgotten_count,
                worse->forgotten_blocks == sums->blocks[WORSE_FORGOTTEN]);
    audit_check(audit, INVARIANT_gpu_capacity_bound,
                worse->reserved_bytes <= live->largest_capacity_bytes);
}

/* Goes through one class without recursion: `waiting` holds blocks whose own blocks below are still
 * to be seen. `seen` keeps a broken link from leading round in a circle. */
static void check_class(const struct worse_policy *worse, const struct free_class *free_class,
                        struct audit *audit, bool *seen, uint32_t *waiting)
{
    size_t count = 0;
    size_t members = 0;
    uint32_t above = 0; /* the lowest index that may stand here */
    uint32_t block = free_class->top;
    for (;;) {
        while (block != FREE_INDEX_NONE) {
            if (!audit_check(audit, INVARIANT_free_index_member,
                             block < worse->blocks && !seen[block] &&
                                 worse->states[block] == free_class->size_bytes))
                return;
            audit_check(audit, INVARIANT_free_index_order, block >= above);
            seen[block] = true;
            waiting[count++] = block;
            members++;
            block = worse->links[block].sibling;
        }
        if (count == 0)
            break;
        above = waiting[--count];
        block = worse->links[above].child;
    }
    audit_check(audit, INVARIANT_free_index_count, members == free_class->blocks);
}

static void check_index(const struct worse_policy *worse, struct audit *audit, bool *seen,
                        uint32_t *waiting)
{
    size_t classes = 0;
    for (size_t i = 0; i < worse->index.table_size; i++) {
        const struct free_class *free_class = &worse->index.table[i];
        if (free_class->size_bytes == 0)
            continue;
        classes++;
        audit_check(audit, INVARIANT_free_index_class,
                    free_index_class(&worse->index, free_class->size_bytes) == free_class);
        check_class(worse, free_class, audit, seen, waiting);
    }
    audit_check(audit, INVARIANT_free_index_class, classes == worse->index.classes);
    for (size_t i = 0; i < worse->blocks; i++)
        audit_check(audit, INVARIANT_free_index_count,
                    seen[i] == (state_of(worse, i) == WORSE_FREE));
}

struct placements {
    const struct worse_policy *worse;
    struct audit *audit;
    bool *seen;
    uint64_t count;
};

static void check_placement(void *context, const struct policy_placement *placement)
{
    struct placements *placements = context;
    const struct worse_policy *worse = placements->worse;
    size_t block = (size_t)placement->cookie;
    placements->count++;
    if (!audit_check(placements->audit, INVARIANT_gpu_placement,
                     block < worse->blocks && !placements->seen[block]))
        return;
    placements->seen[block] = true;
    audit_check(placements->audit, INVARIANT_gpu_placement,
                state_of(worse, block) == WORSE_USED &&
                    size_of(worse, block) == placement->reserved_bytes &&
                    worse->offsets[block] == placement->offset &&
                    (uint64_t)placement->block_index == block);
}

int worse_check(const struct policy *policy, const struct policy_live *live, struct audit *audit)
{
    const struct worse_policy *worse = (const struct worse_policy *)policy;
    int status = WORSEGPU_NO_MEMORY;
    size_t scratch = worse->blocks + 1; /* never nothing */
    uint32_t *waiting = NULL;
    bool *seen = memory_allocate_zeroed(worse->memory, scratch, sizeof(*seen));
    if (!seen)
        goto out;
    waiting = memory_allocate_array(worse->memory, scratch, sizeof(*waiting));
    if (!waiting)
        goto release_seen;

    struct sums sums = {{0}, {0}};
    check_blocks(worse, audit, &sums);
    check_sums(worse, live, audit, &sums);
    if (worse->config->scan == WORSEGPU_SCAN_ACCOUNTED)
        check_index(worse, audit, seen, waiting);
    for (size_t i = 0; i < worse->blocks; i++)
        seen[i] = false;
    struct placements placements = {worse, audit, seen, 0};
    live->each(live, check_placement, &placements);
    audit_check(audit, INVARIANT_gpu_placement, placements.count == sums.blocks[WORSE_USED]);
    status = WORSEGPU_OK;

    memory_release_array(worse->memory, waiting, scratch, sizeof(*waiting));
release_seen:
    memory_release_array(worse->memory, seen, scratch, sizeof(*seen));
out:
    return status;
}
