/* Pickles as data: a stack machine over the opcodes of protocols 2 to 5 that describe data.
 *
 * Every other opcode is refused by name, so nothing in a pickle is ever imported, called or built.
 * The machine makes no objects. It knows numbers, and words: strings of a short list that its owner
 * gives. All else that is not a container is "other" and forgotten at once. Dicts and lists begin
 * empty; when they are filled the owner looks at what comes in, and if it keeps something of it,
 * the value on the stack (and in the memo) becomes the owner's own reference. So memory holds the
 * stack, one byte for each entry of the memo, and what the owner keeps.
 *
 * Source of the format: Lib/pickletools.py and Lib/pickle.py of CPython. */
#ifndef LOGS_PICKLE_H
#define LOGS_PICKLE_H

#include "lab/logs/log.h"

enum {
    PICKLE_WORDS = 240,       /* words have the numbers from 1 to this */
    PICKLE_WORD_BYTES = 32,   /* no word is longer */
    PICKLE_TEXT_BYTES = 4096, /* nor any text that is shown to the owner */
    PICKLE_DEPTH = 1000       /* containers inside each other */
};

/* From PICKLE_LIST on: what a container's owner may want to keep. */
enum pickle_kind {
    PICKLE_NONE,
    PICKLE_FALSE,
    PICKLE_TRUE,
    PICKLE_INTEGER,  /* payload */
    PICKLE_NEGATIVE, /* payload: two's complement */
    PICKLE_HUGE,     /* an integer of more than 64 bits */
    PICKLE_NUMBER,   /* payload: the bits of the double */
    PICKLE_WORD,     /* payload: its number */
    PICKLE_TEXT,     /* payload: the owner's */
    PICKLE_PAIR, /* a tuple of two numbers below 2^32, not both 0: payload: first * 2^32 + second */
    PICKLE_OTHER,
    PICKLE_DICT,   /* nothing of it is kept; payload: the place where it begins */
    PICKLE_LIST,   /* nothing of it is kept; payload: how many elements it has */
    PICKLE_KEPT,   /* type and payload: the owner's */
    PICKLE_COUNTED /* the same, of a type of which each new one has a higher payload */
};

struct pickle_value {
    uint64_t payload;
    uint32_t memo; /* 1 + its index in the memo; 0: it is not there */
    uint8_t kind;
    uint8_t type;
    bool shared;    /* it came from the memo */
    uint8_t unused; /* so that all of it is written in two words */
};

/* Who looks. All but `word` return log_status; `place` is for sentences (log_bad, binary). */
struct pickle_owner {
    void *context;
    /* The number of a word; 0: it is none. */
    uint8_t (*word)(const void *context, const unsigned char *bytes, size_t length);
    /* A string that is no word, right after the word `after` on the stack. May make a PICKLE_TEXT
     * of *value, which is PICKLE_OTHER. */
    int (*text)(void *context, uint8_t after, const unsigned char *bytes, size_t length,
                struct pickle_value *value);
    /* `count` pairs, each a key and its value, go into a dict (PICKLE_DICT, PICKLE_KEPT or
     * PICKLE_COUNTED); at least one key is a word. `whole`: they came together, as a pickler writes
     * a dict of up to 1,000 pairs. */
    int (*items)(void *context, struct pickle_value *dict, const struct pickle_value *pairs,
                 size_t count, bool whole, uint64_t place);
    /* Elements go into a list (PICKLE_LIST, PICKLE_KEPT or PICKLE_COUNTED); with PICKLE_LIST at
     * least one is PICKLE_LIST or above. */
    int (*elements)(void *context, struct pickle_value *list, const struct pickle_value *values,
                    size_t count, uint64_t place);
};

struct pickle_result {
    struct pickle_value value;
    unsigned int protocol;
};

/* Whether it begins like a pickle of protocol 2 to 5. */
bool pickle_detect(const unsigned char *head, size_t bytes);

/* Reads the whole source: one pickle and nothing after it. log_status. */
int pickle_read(struct log_source *source, const struct worsegpu_memory *memory,
                const struct pickle_owner *owner, struct pickle_result *result,
                struct log_problem *problem);

#endif
