/* list_fit: one range and one list of its free blocks, searched by first, next, best or worst fit.
 *
 * The rules are those of malloc.py, the simulator of the homework to the chapter "Free-Space
 * Management" of R. and A. Arpaci-Dusseau, "Operating Systems: Three Easy Pieces", as
 * golden-allocators/README.md describes it: a size is rounded up to `alignment`, the header is
 * added; the low part is handed out, and what is left keeps its place in the list. A freed block is
 * put in front, at the end, or where the order of the list wants it; with `merge`, entries that
 * follow each other in the list as in memory become one. The placement's offset is behind the
 * header. An alignment that a request asks for is not looked at, as there.
 *
 * Next fit is not in malloc.py. Here its search begins where the last one ended, and goes round
 * once: with order=address at the first free block at or above the end of the last placement; in
 * any other order at what was left of the block that was found last, or, when nothing was left, at
 * the entry that followed it.
 *
 * tail=apart is not in malloc.py either: there the whole range is an entry of the list to begin
 * with, which worst fit cuts again and again. With it the free rest at the end of the range is in
 * no list, and is used only when nothing in the list is large enough: an arena that grows. With
 * `merge`, a block that is freed just below the rest joins it, and so does each free block below
 * that without a gap, wherever it stands in the list, which is neither sorted nor merged then; when
 * the range is used up to its end, a block freed there is the rest again. Without `merge` nothing
 * joins the rest: it only ever shrinks. A placement in the rest leaves next fit's place where it
 * was, but with order=address, where it is the end of that placement as always. When an entry that
 * next fit would begin at joins the rest, it begins at the one that followed.
 *
 * With order=address (where merging finds every free neighbour, and the list is always sorted) each
 * operation is O(log n), through a search tree; `blocks_scanned` is what a walk would have looked
 * at. The other orders are walked as the original walks them, O(n): where an entry stands there
 * depends on all that happened before, and cutting may leave a list out of the order of sizes until
 * the next free.
 *
 * A smaller capacity lets nothing end above it that would end higher up than anything did before; a
 * larger one gives the range nothing. */
#include "lib/policies/list_fit.h"

#include "base/memory.h"

enum {
    KNOB_FIT,
    KNOB_ORDER,
    KNOB_MERGE,
    KNOB_ALIGNMENT,
    KNOB_HEADER,
    KNOB_TAIL,
    KNOBS
};
enum {
    TAIL_LISTED,
    TAIL_APART
};
#define MOST_ROUNDING (UINT64_C(1) << 40) /* of alignment and header, in bytes */

static struct list_fit_policy *mine(struct policy *policy)
{
    return (struct list_fit_policy *)policy;
}

/* ------------------------------------------------------------------------------ life */

static int reserve(struct list_fit_policy *list_fit)
{
    if (blocks_reserve(&list_fit->blocks, 1) != WORSEGPU_OK)
        return WORSEGPU_NO_MEMORY;
    return list_fit_is_tree(list_fit)
               ? block_nodes_reserve(&list_fit->nodes, list_fit->blocks.capacity)
               : WORSEGPU_OK;
}

static void put(struct list_fit_policy *list_fit, uint32_t block)
{
    if (list_fit_is_tree(list_fit))
        list_fit_tree_put(list_fit, block);
    else
        list_fit_list_put(list_fit, block);
}

static void list_fit_destroy(struct policy *policy)
{
    struct list_fit_policy *list_fit = mine(policy);
    block_nodes_release(&list_fit->nodes);
    blocks_release(&list_fit->blocks);
    memory_release_array(list_fit->memory, list_fit, 1, sizeof(*list_fit));
}

static int list_fit_create(const struct policy_setup *setup, struct policy **policy)
{
    struct list_fit_policy *list_fit = memory_allocate_zeroed(setup->memory, 1, sizeof(*list_fit));
    if (!list_fit)
        return WORSEGPU_NO_MEMORY;
    list_fit->policy.operations = &policy_list_fit;
    list_fit->memory = setup->memory;
    list_fit->config = setup->config;
    list_fit->fit = (enum list_fit_choice)setup->knobs[KNOB_FIT].count;
    list_fit->order = (enum list_fit_order)setup->knobs[KNOB_ORDER].count;
    list_fit->merge = setup->knobs[KNOB_MERGE].count != 0;
    list_fit->alignment = setup->knobs[KNOB_ALIGNMENT].count;
    list_fit->header_bytes = setup->knobs[KNOB_HEADER].count;
    list_fit->tail_apart = setup->knobs[KNOB_TAIL].count == TAIL_APART;
    blocks_init(&list_fit->blocks, setup->memory);
    block_nodes_init(&list_fit->nodes, setup->memory);
    list_fit->tree = block_order_empty();
    list_fit->head = BLOCK_NONE;
    list_fit->tail = BLOCK_NONE;
    list_fit->rover = BLOCK_NONE;
    list_fit->unlisted = BLOCK_NONE;
    if (reserve(list_fit) != WORSEGPU_OK) {
        list_fit_destroy(&list_fit->policy);
        return WORSEGPU_NO_MEMORY;
    }
    list_fit->last = blocks_add(&list_fit->blocks, 0, setup->config->gpu_capacity, BLOCK_FREE);
    if (list_fit->tail_apart)
        list_fit->unlisted = list_fit->last;
    else
        put(list_fit, list_fit->last);
    *policy = &list_fit->policy;
    return WORSEGPU_OK;
}

/* ------------------------------------------------------------------------------ both indexes */

void list_fit_join_above(struct list_fit_policy *list_fit, uint32_t block)
{
    if (blocks_at(&list_fit->blocks, block)->above == list_fit->last)
        list_fit->last = block;
    blocks_join_above(&list_fit->blocks, block);
}

uint64_t list_fit_listed(const struct list_fit_policy *list_fit)
{
    return list_fit->blocks.count[BLOCK_FREE] - (list_fit->unlisted != BLOCK_NONE);
}

uint64_t list_fit_known_bytes(const struct list_fit_policy *list_fit, uint32_t block)
{
    const struct block *item = blocks_at(&list_fit->blocks, block);
    uint64_t high = list_fit->blocks.high_water;
    if (block != list_fit->last)
        return item->bytes;
    return high > item->offset ? high - item->offset : 0;
}

/* ------------------------------------------------------------------------------ place, release */

/* What a request takes; UINT64_MAX when that is no number. */
static uint64_t bytes_for(const struct list_fit_policy *list_fit, uint64_t requested_bytes)
{
    uint64_t over = requested_bytes % list_fit->alignment;
    uint64_t bytes;
    if (__builtin_add_overflow(requested_bytes, over ? list_fit->alignment - over : 0, &bytes) ||
        __builtin_add_overflow(bytes, list_fit->header_bytes, &bytes))
        return UINT64_MAX;
    return bytes;
}

/* Whether the capacity of now lets a block end here. */
static bool allowed(const struct list_fit_policy *list_fit, uint64_t end)
{
    return end <= list_fit->config->gpu_capacity || end <= list_fit->blocks.high_water;
}

/* A listed block that is large enough, else the rest at the end, else BLOCK_NONE. */
static uint32_t find(const struct list_fit_policy *list_fit, uint64_t bytes, uint64_t *scanned)
{
    uint32_t block = list_fit_is_tree(list_fit) ? list_fit_tree_find(list_fit, bytes, scanned)
                                                : list_fit_list_find(list_fit, bytes, scanned);
    uint32_t rest = list_fit->unlisted;
    if (block == BLOCK_NONE && rest != BLOCK_NONE &&
        blocks_at(&list_fit->blocks, rest)->bytes >= bytes)
        return rest;
    return block;
}

/* The block is handed out; `rest` is what is left of it. */
static void take(struct list_fit_policy *list_fit, uint32_t block, uint32_t rest)
{
    if (block == list_fit->unlisted)
        list_fit->unlisted = rest;
    else if (list_fit_is_tree(list_fit))
        list_fit_tree_take(list_fit, block, rest);
    else
        list_fit_list_take(list_fit, block, rest);
}

static int list_fit_place(struct policy *policy, const struct policy_request *request,
                          struct policy_outcome *outcome)
{
    struct list_fit_policy *list_fit = mine(policy);
    struct blocks *blocks = &list_fit->blocks;
    uint64_t bytes = bytes_for(list_fit, request->requested_bytes);
    if (reserve(list_fit) != WORSEGPU_OK)
        return WORSEGPU_NO_MEMORY;
    uint32_t block = find(list_fit, bytes, &outcome->blocks_scanned);
    if (block == BLOCK_NONE || !allowed(list_fit, blocks_at(blocks, block)->offset + bytes))
        return POLICY_FULL;
    if (!policy_admits(request, bytes))
        return POLICY_NOT_ADMITTED;

    uint32_t rest = BLOCK_NONE;
    if (blocks_at(blocks, block)->bytes > bytes) {
        rest = blocks_split(blocks, block, bytes);
        if (block == list_fit->last)
            list_fit->last = rest;
    }
    take(list_fit, block, rest);
    blocks_set_state(blocks, block, BLOCK_USED);
    struct block *item = blocks_at(blocks, block);
    list_fit->next_offset = block_end(item);
    outcome->placement = (struct policy_placement){
        .reserved_bytes = bytes,
        .offset = item->offset + list_fit->header_bytes,
        .block_index = block,
        .cookie = block,
    };
    return POLICY_PLACED;
}

/* Whether a block that is freed joins the rest at the end, or becomes it when there is none. */
static bool joins_rest(const struct list_fit_policy *list_fit, uint32_t block)
{
    return list_fit->tail_apart && list_fit->merge &&
           blocks_at(&list_fit->blocks, block)->above == list_fit->unlisted;
}

static void join_rest(struct list_fit_policy *list_fit, uint32_t block)
{
    struct blocks *blocks = &list_fit->blocks;
    if (list_fit->unlisted != BLOCK_NONE)
        list_fit_join_above(list_fit, block);
    for (uint32_t below = blocks_at(blocks, block)->below; blocks_is(blocks, below, BLOCK_FREE);
         below = blocks_at(blocks, block)->below) {
        if (list_fit_is_tree(list_fit))
            list_fit_tree_drop(list_fit, below);
        else
            list_fit_list_drop(list_fit, below);
        list_fit_join_above(list_fit, below);
        block = below;
    }
    list_fit->unlisted = block;
}

static bool list_fit_release(struct policy *policy, const struct policy_placement *placement,
                             const struct policy_free *how)
{
    struct list_fit_policy *list_fit = mine(policy);
    uint32_t block = (uint32_t)placement->cookie;
    blocks_set_state(&list_fit->blocks, block, how->forget ? BLOCK_FORGOTTEN : BLOCK_FREE);
    if (!how->forget && joins_rest(list_fit, block))
        join_rest(list_fit, block);
    else if (!how->forget)
        put(list_fit, block);
    return !how->forget;
}

static const struct policy_knob knobs[KNOBS] = {
    [KNOB_FIT] = {.name = "fit",
                  .type = KNOB_CHOICE,
                  .default_text = "first",
                  .choices = "first next best worst",
                  .meaning = "which free block that is large enough is taken"},
    [KNOB_ORDER] = {.name = "order",
                    .type = KNOB_CHOICE,
                    .default_text = "address",
                    .choices = "address size_up size_down insert_front insert_back",
                    .meaning = "how the list of free blocks is kept"},
    [KNOB_MERGE] = {.name = "merge",
                    .type = KNOB_YESNO,
                    .default_text = "true",
                    .meaning = "whether free blocks that follow each other become one"},
    [KNOB_ALIGNMENT] = {.name = "alignment",
                        .type = KNOB_BYTES,
                        .default_text = "1",
                        .minimum = 1,
                        .maximum = MOST_ROUNDING,
                        .meaning = "sizes are rounded up to a multiple of it"},
    [KNOB_HEADER] = {.name = "header",
                     .type = KNOB_BYTES,
                     .default_text = "0",
                     .minimum = 0,
                     .maximum = MOST_ROUNDING,
                     .meaning = "added to each block, below what is handed out"},
    [KNOB_TAIL] = {.name = "tail",
                   .type = KNOB_CHOICE,
                   .default_text = "listed",
                   .choices = "listed apart",
                   .meaning = "whether the free rest at the end is in the list, or used last"},
};

const struct policy_operations policy_list_fit = {
    .name = "list_fit",
    .summary = "A textbook list of free blocks: first, next, best or worst fit.",
    .create = list_fit_create,
    .destroy = list_fit_destroy,
    .place = list_fit_place,
    .release = list_fit_release,
    .measure = list_fit_measure,
    .check = list_fit_check,
    .knobs = knobs,
    .knob_count = KNOBS,
    .statistics = list_fit_statistics,
    .largest_free = list_fit_largest_free,
    .each_block = list_fit_each_block,
};
