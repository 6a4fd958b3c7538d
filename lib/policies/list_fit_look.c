/* list_fit: its measures, statistics and blocks, and the audit of all of it; see list_fit.h. */
#include "lib/policies/list_fit.h"

#include "lib/statistics.h"

static const struct list_fit_policy *mine_to_read(const struct policy *policy)
{
    return (const struct list_fit_policy *)policy;
}

void list_fit_measure(const struct policy *policy, struct policy_measures *measures)
{
    const struct list_fit_policy *list_fit = mine_to_read(policy);
    bool free_end = blocks_is(&list_fit->blocks, list_fit->last, BLOCK_FREE);
    blocks_measure_range(&list_fit->blocks, free_end ? list_fit->last : BLOCK_NONE, measures);
}

/* What is in no list is the free end of the range; where freed blocks join it, all of that. */
static void check_unlisted(const struct list_fit_policy *list_fit, struct audit *audit)
{
    const struct blocks *blocks = &list_fit->blocks;
    uint32_t unlisted = list_fit->unlisted;
    bool free_end = blocks_is(blocks, list_fit->last, BLOCK_FREE);
    if (unlisted == BLOCK_NONE) {
        audit_check(audit, INVARIANT_free_index_member,
                    !(list_fit->tail_apart && list_fit->merge && free_end));
        return;
    }
    uint32_t below = blocks_at(blocks, list_fit->last)->below;
    audit_check(audit, INVARIANT_free_index_member,
                list_fit->tail_apart && unlisted == list_fit->last && free_end);
    if (list_fit->merge && below < blocks->length)
        audit_check(audit, INVARIANT_block_layout, !blocks_is(blocks, below, BLOCK_FREE));
}

int list_fit_check(const struct policy *policy, const struct policy_live *live, struct audit *audit)
{
    const struct list_fit_policy *list_fit = mine_to_read(policy);
    const struct blocks *blocks = &list_fit->blocks;
    int status = blocks_check(blocks, list_fit->merge && list_fit_is_tree(list_fit), live, audit);
    if (status != WORSEGPU_OK)
        return status;
    const struct block *lowest = blocks_at(blocks, 0);
    audit_check(audit, INVARIANT_block_layout,
                lowest->state != BLOCK_SPARE && lowest->offset == 0 && lowest->below == BLOCK_NONE);
    if (!audit_check(audit, INVARIANT_block_layout, list_fit->last < blocks->length))
        return WORSEGPU_OK;
    const struct block *last = blocks_at(blocks, list_fit->last);
    audit_check(audit, INVARIANT_block_layout,
                last->above == BLOCK_NONE && last->state != BLOCK_SPARE &&
                    block_end(last) == blocks->bytes[BLOCK_FREE] + blocks->bytes[BLOCK_USED] +
                                           blocks->bytes[BLOCK_FORGOTTEN]);
    audit_check(audit, INVARIANT_gpu_capacity_bound,
                blocks->high_water <= live->largest_capacity_bytes);
    check_unlisted(list_fit, audit);
    if (list_fit_is_tree(list_fit))
        list_fit_tree_check(list_fit, audit);
    else
        list_fit_list_check(list_fit, audit);
    return WORSEGPU_OK;
}

uint64_t list_fit_largest_free(const struct policy *policy)
{
    const struct list_fit_policy *list_fit = mine_to_read(policy);
    return list_fit_is_tree(list_fit) ? list_fit_tree_largest(list_fit)
                                      : list_fit_list_largest(list_fit);
}

static void tell_entry(const struct block *item, const struct statistics_sink *sink)
{
    uint64_t row[] = {item->offset, item->bytes};
    sink->row(sink->context, NULL, row, sizeof(row) / sizeof(row[0]));
}

void list_fit_statistics(const struct policy *policy, const struct statistics_sink *sink)
{
    const struct list_fit_policy *list_fit = mine_to_read(policy);
    const struct blocks *blocks = &list_fit->blocks;
    sink->count(sink->context, "free_entries", list_fit_listed(list_fit));
    if (!sink->lists)
        return;
    sink->list_begin(sink->context, "free_list");
    if (list_fit_is_tree(list_fit)) {
        for (uint32_t block = 0; block != BLOCK_NONE; block = blocks_at(blocks, block)->above) {
            if (blocks_is(blocks, block, BLOCK_FREE) && block != list_fit->unlisted)
                tell_entry(blocks_at(blocks, block), sink);
        }
    } else {
        for (uint32_t block = list_fit->head; block != BLOCK_NONE;
             block = blocks_at(blocks, block)->next)
            tell_entry(blocks_at(blocks, block), sink);
    }
    sink->list_end(sink->context);
}

void list_fit_each_block(const struct policy *policy, policy_see see, void *context)
{
    blocks_each(&mine_to_read(policy)->blocks, NULL, NULL, see, context);
}
