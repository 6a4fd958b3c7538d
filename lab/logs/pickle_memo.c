/* A byte for each entry of a memo; see pickle_memo.h. */
#include "lab/logs/pickle_memo.h"

#include <string.h>

#include "base/memory.h"

enum {
    PAGE = 4096 /* entries that are counted one by one */
};

void pickle_memo_init(struct pickle_memo *memo, const struct keyed_hash *hash,
                      const struct worsegpu_memory *memory)
{
    *memo = (struct pickle_memo){.memory = memory};
    memo->told[PICKLE_MEMO_LIST] = (struct pickle_value){.kind = PICKLE_LIST, .shared = true};
    memo->told[PICKLE_MEMO_OTHER] = (struct pickle_value){.kind = PICKLE_OTHER, .shared = true};
    for (unsigned int code = PICKLE_MEMO_WORDS; code <= UINT8_MAX; code++)
        memo->told[code] = (struct pickle_value){
            .kind = PICKLE_WORD, .payload = code - PICKLE_MEMO_WORDS, .shared = true};
    number_map_init(&memo->kept, hash, memory);
}

void pickle_memo_release(struct pickle_memo *memo)
{
    memory_release_array(memo->memory, memo->codes, memo->capacity, 1);
    memory_release_array(memo->memory, memo->values, memo->values_capacity, sizeof(*memo->values));
    memory_release_array(memo->memory, memo->pages, memo->pages_capacity, sizeof(*memo->pages));
    memory_release_array(memo->memory, memo->steps, memo->steps_capacity, sizeof(*memo->steps));
    number_map_release(&memo->kept);
}

static int reach(struct pickle_memo *memo, uint64_t index)
{
    if (index >= memo->capacity) {
        size_t old = memo->capacity;
        if (memory_grow(memo->memory, &memo->codes, &memo->capacity, (size_t)index + 1, 1) != 0)
            return LOG_NO_MEMORY;
        memset(memo->codes + old, PICKLE_MEMO_NONE, memo->capacity - old);
    }
    if (index >= memo->length)
        memo->length = index + 1;
    return 0;
}

static int keep(struct pickle_memo *memo, uint64_t index, const struct pickle_value *value)
{
    uint32_t at = number_map_find(&memo->kept, index);
    if (at == NUMBER_MAP_NONE) {
        if (memo->values_count >= NUMBER_MAP_NONE || number_map_reserve(&memo->kept) != 0 ||
            memory_grow(memo->memory, &memo->values, &memo->values_capacity, memo->values_count + 1,
                        sizeof(*memo->values)) != 0)
            return LOG_NO_MEMORY;
        at = (uint32_t)memo->values_count++;
        number_map_put(&memo->kept, index, at);
    }
    memo->values[at] = *value;
    memo->codes[index] = PICKLE_MEMO_KEPT;
    return 0;
}

/* The first counted entry after all others: its payload is its rank, plus what the last step says.
 */
static int count(struct pickle_memo *memo, uint64_t index, const struct pickle_value *value)
{
    uint64_t page = index / PAGE;
    uint64_t more = value->payload - memo->counted;
    bool step = memo->steps_count == 0 || memo->steps[memo->steps_count - 1].more != more;
    if (memory_grow(memo->memory, &memo->pages, &memo->pages_capacity, (size_t)page + 1,
                    sizeof(*memo->pages)) != 0 ||
        (step && memory_grow(memo->memory, &memo->steps, &memo->steps_capacity,
                             memo->steps_count + 1, sizeof(*memo->steps)) != 0))
        return LOG_NO_MEMORY;
    if (step)
        memo->steps[memo->steps_count++] =
            (struct pickle_memo_step){.rank = memo->counted, .more = more};
    while (memo->pages_count <= page)
        memo->pages[memo->pages_count++] = memo->counted;
    memo->codes[index] = PICKLE_MEMO_COUNTED;
    memo->counted_type = value->type;
    memo->counted_end = index + 1;
    memo->counted++;
    return 0;
}

int pickle_memo_change(struct pickle_memo *memo, uint64_t index, const struct pickle_value *value)
{
    unsigned int code = pickle_memo_code_of(value);
    if (code != PICKLE_MEMO_NONE) {
        memo->codes[index] = (uint8_t)code;
        return 0;
    }
    if (value->kind == PICKLE_COUNTED && index >= memo->counted_end &&
        memo->codes[index] != PICKLE_MEMO_KEPT &&
        (memo->counted == 0 || value->type == memo->counted_type))
        return count(memo, index, value);
    return keep(memo, index, value);
}

int pickle_memo_put(struct pickle_memo *memo, uint64_t index, const struct pickle_value *value)
{
    if (index < memo->length && memo->codes[index] != PICKLE_MEMO_NONE)
        return 1;
    int status = reach(memo, index);
    if (status == 0)
        status = pickle_memo_change(memo, index, value);
    if (status == 0)
        memo->count++;
    return status;
}

static uint64_t counted_payload(const struct pickle_memo *memo, uint64_t index)
{
    uint64_t rank = memo->pages[index / PAGE];
    for (uint64_t i = index / PAGE * PAGE; i < index; i++)
        rank += memo->codes[i] == PICKLE_MEMO_COUNTED;
    size_t low = 0;
    size_t high = memo->steps_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (memo->steps[middle].rank <= rank)
            low = middle;
        else
            high = middle;
    }
    return rank + memo->steps[low].more;
}

int pickle_memo_get(const struct pickle_memo *memo, uint64_t index, struct pickle_value *value)
{
    unsigned int code = pickle_memo_code(memo, index);
    switch (code) {
    case PICKLE_MEMO_NONE:
        return 1;
    case PICKLE_MEMO_COUNTED:
        *value = (struct pickle_value){.kind = PICKLE_COUNTED,
                                       .type = memo->counted_type,
                                       .payload = counted_payload(memo, index),
                                       .shared = true};
        return 0;
    case PICKLE_MEMO_KEPT:
        *value = memo->values[number_map_find(&memo->kept, index)];
        value->memo = 0;
        value->shared = true;
        return 0;
    default:
        *value = memo->told[code];
        return 0;
    }
}
