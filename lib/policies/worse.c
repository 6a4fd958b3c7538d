/* The worse policy; see worse.h. */
#include "lib/policies/worse.h"

#include "base/memory.h"

#define DOUBLING_PROBABILITY 0.12

enum {
    BUCKETS = 4
};

static const uint64_t buckets[BUCKETS] = {256, 1024, 4096, 16384};

static struct worse_policy *mine(struct policy *policy)
{
    return (struct worse_policy *)policy;
}

static uint64_t state_word(uint64_t size_bytes, enum worse_state state)
{
    return size_bytes | (uint64_t)state << WORSE_STATE_SHIFT;
}

static int worse_create(const struct policy_setup *setup, struct policy **policy)
{
    struct worse_policy *worse = memory_allocate_zeroed(setup->memory, 1, sizeof(*worse));
    if (!worse)
        return WORSEGPU_NO_MEMORY;
    worse->policy.operations = &policy_worse;
    worse->self = worse;
    worse->memory = setup->memory;
    worse->config = setup->config;
    worse->random = setup->random;
    free_index_init(&worse->index, &setup->hash, setup->memory);
    *policy = &worse->policy;
    return WORSEGPU_OK;
}

static void worse_destroy(struct policy *policy)
{
    struct worse_policy *worse = mine(policy);
    const struct worsegpu_memory *memory = worse->memory;
    memory_release_array(memory, worse->states, worse->states_capacity, sizeof(*worse->states));
    memory_release_array(memory, worse->offsets, worse->offsets_capacity, sizeof(*worse->offsets));
    memory_release_array(memory, worse->links, worse->links_capacity, sizeof(*worse->links));
    free_index_release(&worse->index);
    memory_release_array(memory, worse, 1, sizeof(*worse));
}

static bool walks(const struct worse_policy *worse)
{
    return worse->config->scan == WORSEGPU_SCAN_WALKED;
}

/* Makes sure of room for one more block, and one more size of blocks. */
static int reserve_block(struct worse_policy *worse)
{
    size_t needed = worse->blocks + 1;
    if (needed >= FREE_INDEX_NONE)
        return WORSEGPU_NO_MEMORY;
    if (memory_grow(worse->memory, &worse->states, &worse->states_capacity, needed,
                    sizeof(*worse->states)) != 0 ||
        memory_grow(worse->memory, &worse->offsets, &worse->offsets_capacity, needed,
                    sizeof(*worse->offsets)) != 0)
        return WORSEGPU_NO_MEMORY;
    if (walks(worse))
        return WORSEGPU_OK;
    if (memory_grow(worse->memory, &worse->links, &worse->links_capacity, needed,
                    sizeof(*worse->links)) != 0)
        return WORSEGPU_NO_MEMORY;
    return free_index_reserve(&worse->index);
}

/* The size that a request gets: two or more draws. */
static uint64_t draw_size(struct worse_policy *worse, uint64_t requested_bytes)
{
    uint64_t bucket = buckets[python_random_choice(worse->random, BUCKETS)];
    uint64_t size = (requested_bytes + bucket - 1) / bucket * bucket;
    if (python_random_double(worse->random) < DOUBLING_PROBABILITY)
        size *= 2;
    return size;
}

/* The reference's scan as it is: every block from the first on, until one fits. */
static size_t walk(const struct worse_policy *worse, uint64_t size_bytes)
{
    uint64_t wanted = state_word(size_bytes, WORSE_FREE);
    size_t at = 0;
    while (at < worse->blocks && worse->states[at] != wanted)
        at++;
    return at;
}

/* The first free block of this size; worse->blocks when there is none. `place` is the size's class,
 * or NULL where the list is walked. */
static size_t find_free_block(const struct worse_policy *worse, const struct free_class *place,
                              uint64_t size_bytes)
{
    if (!place)
        return walk(worse, size_bytes);
    if (place->size_bytes == 0 || place->top == FREE_INDEX_NONE)
        return worse->blocks;
    return place->top;
}

/* Whether a new block fits; what is reserved may be above the capacity after a resize. */
static bool fits(const struct worse_policy *worse, uint64_t size_bytes)
{
    uint64_t capacity = worse->config->gpu_capacity;
    return worse->reserved_bytes <= capacity && size_bytes <= capacity - worse->reserved_bytes;
}

/* A free block of this size is one no more. The largest size is looked for anew only when somebody
 * asks. */
static void note_taken(struct worse_policy *worse, uint64_t size_bytes)
{
    worse->free_bytes -= size_bytes;
    worse->largest_is_stale |= size_bytes == worse->largest_free_bytes;
}

static void note_freed(struct worse_policy *worse, uint64_t size_bytes)
{
    worse->free_bytes += size_bytes;
    if (size_bytes > worse->largest_free_bytes)
        worse->largest_free_bytes = size_bytes;
}

/* Takes the block that find_free_block found out of the free ones. */
static void take_free_block(struct worse_policy *worse, struct free_class *place,
                            uint64_t size_bytes)
{
    if (place)
        free_class_take(place, worse->links);
    note_taken(worse, size_bytes);
}

static void append_block(struct worse_policy *worse, struct free_class *place, uint64_t size_bytes)
{
    worse->offsets[worse->blocks] = worse->reserved_bytes;
    worse->blocks++;
    worse->reserved_bytes += size_bytes;
    if (place)
        free_index_make_class(&worse->index, place, size_bytes);
}

static int worse_place(struct policy *policy, const struct policy_request *request,
                       struct policy_outcome *outcome)
{
    struct worse_policy *worse = mine(policy);
    outcome->blocks_scanned = 0;
    int status = reserve_block(worse);
    if (status != WORSEGPU_OK)
        return status;

    if (!(python_random_double(worse->random) < worse->config->gpu_probability))
        return POLICY_HOST;
    uint64_t size = draw_size(worse, request->requested_bytes);
    struct free_class *place = walks(worse) ? NULL : free_index_class(&worse->index, size);
    size_t block = find_free_block(worse, place, size);
    bool found = block < worse->blocks;
    outcome->blocks_scanned = found ? block + 1 : block;
    if (!found && !fits(worse, size))
        return POLICY_FULL;
    if (!policy_admits(request, size))
        return POLICY_NOT_ADMITTED;
    if (found)
        take_free_block(worse, place, size);
    else
        append_block(worse, place, size);
    worse->states[block] = state_word(size, WORSE_USED);
    worse->used_bytes += size;
    outcome->placement = (struct policy_placement){
        .reserved_bytes = size,
        .offset = worse->offsets[block],
        .block_index = (int64_t)block,
        .cookie = block,
    };
    return POLICY_PLACED;
}

static bool worse_release(struct policy *policy, const struct policy_placement *placement,
                          const struct policy_free *how)
{
    struct worse_policy *worse = mine(policy);
    uint64_t size = placement->reserved_bytes;
    size_t block = (size_t)placement->cookie;
    worse->used_bytes -= size;
    if (how->forget || python_random_double(worse->random) < worse->config->forget_probability) {
        worse->states[block] = state_word(size, WORSE_FORGOTTEN);
        worse->forgotten_bytes += size;
        worse->forgotten_blocks++;
        return false;
    }
    worse->states[block] = state_word(size, WORSE_FREE);
    note_freed(worse, size);
    if (!walks(worse))
        free_class_put(free_index_class(&worse->index, size), worse->links, (uint32_t)block);
    return true;
}

static void worse_measure(const struct policy *policy, struct policy_measures *measures)
{
    const struct worse_policy *worse = (const struct worse_policy *)policy;
    *measures = (struct policy_measures){
        .reserved_bytes = worse->reserved_bytes,
        .used_bytes = worse->used_bytes,
        .free_bytes = worse->free_bytes,
        .forgotten_bytes = worse->forgotten_bytes,
        .blocks = worse->blocks,
        .forgotten_blocks = worse->forgotten_blocks,
    };
}

/* The greatest size of a class with a free block in it, or where there are no classes, of a free
 * block. */
static uint64_t look_for_largest(const struct worse_policy *worse)
{
    uint64_t largest = 0;
    if (walks(worse)) {
        for (size_t i = 0; i < worse->blocks; i++) {
            bool free = worse->states[i] >> WORSE_STATE_SHIFT == WORSE_FREE;
            if (free && worse->states[i] > largest)
                largest = worse->states[i];
        }
        return largest;
    }
    for (size_t i = 0; i < worse->index.table_size; i++) {
        const struct free_class *place = &worse->index.table[i];
        if (place->size_bytes > largest && place->top != FREE_INDEX_NONE)
            largest = place->size_bytes;
    }
    return largest;
}

/* O(1), unless a block of the largest size was taken since it was asked last: then O(sizes). An
 * order of the sizes would cost every place and release more than that. */
static uint64_t worse_largest_free(const struct policy *policy)
{
    struct worse_policy *worse = ((const struct worse_policy *)policy)->self;
    if (worse->largest_is_stale) {
        worse->largest_free_bytes = look_for_largest(worse);
        worse->largest_is_stale = false;
    }
    return worse->largest_free_bytes;
}

static void worse_each_block(const struct policy *policy, policy_see see, void *context)
{
    static const enum policy_block_state states[] = {
        [WORSE_FREE] = POLICY_BLOCK_FREE,
        [WORSE_USED] = POLICY_BLOCK_USED,
        [WORSE_FORGOTTEN] = POLICY_BLOCK_FORGOTTEN,
    };
    const struct worse_policy *worse = (const struct worse_policy *)policy;
    for (size_t i = 0; i < worse->blocks; i++) {
        const struct policy_block block = {
            .offset = worse->offsets[i],
            .bytes = worse->states[i] & WORSE_SIZE_BITS,
            .state = states[worse->states[i] >> WORSE_STATE_SHIFT],
        };
        see(context, &block);
    }
}

const struct policy_operations policy_worse = {
    .name = "worse",
    .summary = "Random buckets, exact first fit, no split, no merge, and a free that may forget.",
    .create = worse_create,
    .destroy = worse_destroy,
    .place = worse_place,
    .release = worse_release,
    .measure = worse_measure,
    .check = worse_check,
    .largest_free = worse_largest_free,
    .each_block = worse_each_block,
};
