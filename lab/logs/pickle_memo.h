/* The memo of a pickle: what was said before and is named again by its number.
 *
 * One byte for each entry. It tells most of them whole: "other", a word, a list without anything
 * kept. Values of a kind whose payloads only rise (the events of a trace, in their thousands of
 * thousands) are found by counting such bytes, and the few others that someone keeps lie in a hash
 * table. Lives inside one reading. */
#ifndef LOGS_PICKLE_MEMO_H
#define LOGS_PICKLE_MEMO_H

#include "lab/logs/pickle.h"
#include "lab/number_map.h"

enum pickle_memo_code {
    PICKLE_MEMO_NONE, /* never put */
    PICKLE_MEMO_KEPT,
    PICKLE_MEMO_COUNTED,
    PICKLE_MEMO_LIST,  /* from here on, the code tells it whole */
    PICKLE_MEMO_OTHER, /* from here on, it is no container of which anything is kept */
    PICKLE_MEMO_WORDS  /* and above: a word */
};

/* From this one on, payloads are their rank among the counted ones plus `more`. */
struct pickle_memo_step {
    uint64_t rank;
    uint64_t more;
};

struct pickle_memo {
    const struct worsegpu_memory *memory;
    struct pickle_value told[UINT8_MAX + 1]; /* what comes from the memo, by the codes that tell it
                                                whole */
    uint8_t *codes;
    size_t capacity;
    uint64_t length; /* 1 + the highest index put */
    uint64_t count;  /* entries put */

    struct number_map kept; /* index -> place in `values` */
    struct pickle_value *values;
    size_t values_capacity;
    size_t values_count;

    uint8_t counted_type;
    uint64_t counted;     /* entries with PICKLE_MEMO_COUNTED */
    uint64_t counted_end; /* 1 + the index of the last one */
    uint64_t *pages;      /* how many of them are before each page of entries */
    size_t pages_capacity;
    size_t pages_count;
    struct pickle_memo_step *steps;
    size_t steps_capacity;
    size_t steps_count;
};

/* Takes no memory yet. */
void pickle_memo_init(struct pickle_memo *memo, const struct keyed_hash *hash,
                      const struct worsegpu_memory *memory);
void pickle_memo_release(struct pickle_memo *memo);

/* A new entry. 0, LOG_NO_MEMORY, or 1 when there is one with this index already. */
int pickle_memo_put(struct pickle_memo *memo, uint64_t index, const struct pickle_value *value);

/* The container at this index, put there while it was empty, has become `value`. 0 or
 * LOG_NO_MEMORY. */
int pickle_memo_change(struct pickle_memo *memo, uint64_t index, const struct pickle_value *value);

static inline unsigned int pickle_memo_code(const struct pickle_memo *memo, uint64_t index)
{
    return index < memo->length ? memo->codes[index] : (unsigned int)PICKLE_MEMO_NONE;
}

/* The code of a value as it stands; PICKLE_MEMO_NONE when a code is not enough. */
static inline unsigned int pickle_memo_code_of(const struct pickle_value *value)
{
    switch (value->kind) {
    case PICKLE_LIST:
        return value->payload == 0 ? PICKLE_MEMO_LIST : PICKLE_MEMO_OTHER;
    case PICKLE_DICT:
    case PICKLE_OTHER:
        return PICKLE_MEMO_OTHER;
    case PICKLE_WORD:
        return PICKLE_MEMO_WORDS + (unsigned int)value->payload;
    default:
        return PICKLE_MEMO_NONE;
    }
}

/* Puts the value behind all others, with the next number. False, and nothing has changed, where
 * that is not so, or where it takes more than a code or memory. */
static inline bool pickle_memo_append(struct pickle_memo *memo, const struct pickle_value *value)
{
    unsigned int code = pickle_memo_code_of(value);
    if (code == PICKLE_MEMO_NONE || memo->count != memo->length || memo->length == memo->capacity)
        return false;
    memo->codes[memo->length++] = (uint8_t)code;
    memo->count++;
    return true;
}

/* 0, or 1 when there is none. */
int pickle_memo_get(const struct pickle_memo *memo, uint64_t index, struct pickle_value *value);

#endif
