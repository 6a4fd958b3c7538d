/* Making, ending and measuring blocks; see blocks.h, where the short functions are. The audit is in
 * blocks_check.c. */
#include "lib/blocks/blocks.h"

#include "base/memory.h"
#include "lib/blocks/blocks_sort.h"

void blocks_init(struct blocks *blocks, const struct worsegpu_memory *memory)
{
    *blocks = (struct blocks){.memory = memory, .first_spare = BLOCK_NONE};
}

void blocks_release(struct blocks *blocks)
{
    memory_release_array(blocks->memory, blocks->items, blocks->capacity, sizeof(*blocks->items));
    blocks_init(blocks, blocks->memory);
}

int blocks_grow(struct blocks *blocks, size_t more)
{
    /* Numbers end below BLOCK_NONE. */
    size_t taken = blocks->length - blocks->spares;
    if (more > BLOCK_NONE - taken)
        return WORSEGPU_NO_MEMORY;
    if (memory_grow(blocks->memory, &blocks->items, &blocks->capacity, taken + more,
                    sizeof(*blocks->items)) != 0)
        return WORSEGPU_NO_MEMORY;
    return 0;
}

uint32_t blocks_add(struct blocks *blocks, uint64_t offset, uint64_t bytes, enum block_state state)
{
    uint32_t block = blocks_take_number(blocks);
    blocks->items[block] = (struct block){
        .offset = offset,
        .bytes = bytes,
        .below = BLOCK_NONE,
        .above = BLOCK_NONE,
        .list = BLOCK_NONE,
        .previous = BLOCK_NONE,
        .next = BLOCK_NONE,
        .state = (uint8_t)state,
    };
    blocks->bytes[state] += bytes;
    blocks->count[state]++;
    if (state == BLOCK_USED && offset + bytes > blocks->high_water)
        blocks->high_water = offset + bytes;
    return block;
}

void blocks_remove(struct blocks *blocks, uint32_t block)
{
    const struct block *item = blocks_at(blocks, block);
    blocks->bytes[item->state] -= item->bytes;
    blocks->count[item->state]--;
    blocks_give_number(blocks, block);
}

/* ------------------------------------------------------------------------------ measures */

/* What both kinds of measures have in common. */
static void measure(const struct blocks *blocks, uint64_t reserved_bytes,
                    struct policy_measures *measures)
{
    uint64_t used_bytes = blocks->bytes[BLOCK_USED];
    uint64_t forgotten_bytes = blocks->bytes[BLOCK_FORGOTTEN];
    *measures = (struct policy_measures){
        .reserved_bytes = reserved_bytes,
        .used_bytes = used_bytes,
        .free_bytes = reserved_bytes - used_bytes - forgotten_bytes,
        .forgotten_bytes = forgotten_bytes,
        .pending_bytes = blocks->bytes[BLOCK_PENDING],
        .blocks = blocks->count[BLOCK_FREE] + blocks->count[BLOCK_USED] +
                  blocks->count[BLOCK_PENDING] + blocks->count[BLOCK_FORGOTTEN],
        .forgotten_blocks = blocks->count[BLOCK_FORGOTTEN],
    };
}

void blocks_measure_range(const struct blocks *blocks, uint32_t tail,
                          struct policy_measures *measures)
{
    measure(blocks, blocks->high_water, measures);
    measures->segments = 1;
    if (tail != BLOCK_NONE && blocks_at(blocks, tail)->offset >= blocks->high_water)
        measures->blocks--;
}

void blocks_measure_segments(const struct blocks *blocks, struct policy_measures *measures)
{
    measure(blocks,
            blocks->bytes[BLOCK_FREE] + blocks->bytes[BLOCK_USED] + blocks->bytes[BLOCK_PENDING] +
                blocks->bytes[BLOCK_FORGOTTEN],
            measures);
}

/* ------------------------------------------------------------------------------ looking */

static void tell(const struct block *item, uint64_t segment,
                 uint64_t (*stream_of)(const void *context, const struct block *block),
                 const void *stream_context, policy_see see, void *context)
{
    static const enum policy_block_state states[BLOCK_STATES] = {
        [BLOCK_FREE] = POLICY_BLOCK_FREE,
        [BLOCK_USED] = POLICY_BLOCK_USED,
        [BLOCK_PENDING] = POLICY_BLOCK_PENDING,
        [BLOCK_FORGOTTEN] = POLICY_BLOCK_FORGOTTEN,
    };
    if (item->state == BLOCK_SPARE || item->state == BLOCK_UNMAPPED)
        return;
    struct policy_block seen = {
        .offset = item->offset,
        .bytes = item->bytes,
        .stream = stream_of ? stream_of(stream_context, item) : 0,
        .segment = segment,
        .state = states[item->state],
    };
    see(context, &seen);
}

void blocks_each(const struct blocks *blocks,
                 uint64_t (*stream_of)(const void *context, const struct block *block),
                 const void *stream_context, policy_see see, void *context)
{
    size_t places = blocks->length + 1; /* never nothing */
    struct block_place *sorted =
        memory_allocate_array(blocks->memory, places, sizeof(struct block_place));
    if (sorted) {
        size_t count = blocks_sort(blocks, sorted);
        uint64_t segment = 0;
        for (size_t i = 0; i < count; i++) {
            const struct block *item = blocks_at(blocks, sorted[i].block);
            if (item->below == BLOCK_NONE)
                segment = item->offset;
            tell(item, segment, stream_of, stream_context, see, context);
        }
        memory_release_array(blocks->memory, sorted, places, sizeof(*sorted));
        return;
    }
    for (size_t i = 0; i < blocks->length; i++) {
        const struct block *lowest = &blocks->items[i];
        if (lowest->state == BLOCK_SPARE || lowest->below != BLOCK_NONE)
            continue;
        tell(lowest, lowest->offset, stream_of, stream_context, see, context);
        for (uint32_t above = lowest->above; above != BLOCK_NONE;
             above = blocks_at(blocks, above)->above)
            tell(blocks_at(blocks, above), lowest->offset, stream_of, stream_context, see, context);
    }
}
