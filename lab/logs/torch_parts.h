/* The parts of a torch snapshot, as they fall out of its pickle: the owner of a pickle_read.
 *
 * What a dict is, is told by its keys (torch_words.def), wherever it stands; what it means there is
 * for torch_snapshot.c. Events go to the packed store at once, blocks and segments into arrays, and
 * a list holds only runs of such numbers. Stack frames and all else are never kept. Lives while the
 * snapshot does. */
#ifndef LOGS_TORCH_PARTS_H
#define LOGS_TORCH_PARTS_H

#include "lab/logs/pickle.h"
#include "lab/logs/torch_events.h"

enum torch_field {
#define FIELD(name, text) TORCH_FIELD_##name,
#define VALUE(name, text)
#include "lab/logs/torch_words.def"
#undef FIELD
#undef VALUE
    TORCH_FIELDS
};

/* Words are numbered from 1: the fields first. */
enum torch_word {
    TORCH_WORD_NONE,
#define FIELD(name, text) TORCH_WORD_FIELD_##name,
#define VALUE(name, text) TORCH_WORD_##name,
#include "lab/logs/torch_words.def"
#undef FIELD
#undef VALUE
    TORCH_WORDS
};

/* What a value with PICKLE_KEPT is (PICKLE_COUNTED: an event); the payload is its number. */
enum torch_type {
    TORCH_EVENT,
    TORCH_BLOCK,
    TORCH_SEGMENT,
    TORCH_HISTORY,
    TORCH_LIST,
    TORCH_RECORD, /* top level, settings, divisions; and a dict that is being filled pair by pair */
    TORCH_EMPTY   /* in a list: an empty list */
};

struct torch_record {
    uint64_t have; /* bit f: field f is there */
    uint64_t place;
    struct pickle_value fields[TORCH_FIELDS];
};

struct torch_raw_block {
    uint64_t address; /* UINT64_MAX: not said */
    uint64_t bytes;
    uint64_t requested_bytes; /* UINT64_MAX: not said */
    uint64_t place;
    uint32_t history; /* list; UINT32_MAX: none */
    uint8_t state;    /* word */
};

struct torch_raw_segment {
    uint64_t address;
    uint64_t bytes;
    uint64_t stream;
    uint64_t pool; /* 0: none of its own */
    uint64_t place;
    uint32_t device;
    struct pickle_value blocks;
    bool small;
    bool expandable;
};

struct torch_run {
    uint64_t first;
    uint64_t count;
    uint8_t type;
};

struct torch_list {
    uint64_t count;         /* of elements that are kept */
    uint64_t others;        /* elements that are nothing we know */
    struct torch_run first; /* most lists are one run */
    struct torch_run *more;
    size_t more_capacity;
    size_t runs; /* with the first */
};

struct torch_held {
    struct torch_record *record; /* NULL once it has become something else: */
    struct pickle_value became;
};

enum {
    TORCH_TEXTS = 8
};

struct torch_parts {
    const struct worsegpu_memory *memory;
    struct log_problem *problem;
    uint8_t first_of[PICKLE_WORD_BYTES + 1]; /* the first word of each length, 0: none */
    uint8_t next_of[TORCH_WORDS];            /* the next one of the same length */

    struct torch_events events;
    struct torch_raw_block *blocks;
    size_t blocks_capacity;
    size_t block_count;
    struct torch_raw_segment *segments;
    size_t segments_capacity;
    size_t segment_count;
    uint64_t *histories; /* the real size of each entry */
    size_t histories_capacity;
    size_t history_count;
    struct torch_list *lists;
    size_t lists_capacity;
    size_t list_count;
    struct torch_held *records;
    size_t records_capacity;
    size_t record_count;
    char *texts[TORCH_TEXTS]; /* PICKLE_TEXT_BYTES + 1 each */
    size_t text_count;
    struct torch_record scratch;
};

void torch_parts_init(struct torch_parts *parts, const struct worsegpu_memory *memory,
                      struct log_problem *problem);
void torch_parts_release(struct torch_parts *parts);

struct pickle_owner torch_parts_owner(struct torch_parts *parts);

/* What the value is now: a dict that was filled pair by pair becomes what its keys say. log_status.
 */
int torch_parts_settle(struct torch_parts *parts, struct pickle_value *value);

/* Only of a value with PICKLE_KEPT and TORCH_RECORD. */
const struct torch_record *torch_parts_record(const struct torch_parts *parts,
                                              const struct pickle_value *value);
static inline bool torch_record_has(const struct torch_record *record, enum torch_field field)
{
    return (record->have >> field & 1) != 0;
}

/* Run `index` of a list. */
static inline const struct torch_run *torch_list_run(const struct torch_list *list, size_t index)
{
    return index == 0 ? &list->first : &list->more[index - 1];
}

#endif
