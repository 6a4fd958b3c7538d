/* What makes up most of a pickle, read in one tight loop; see pickle_machine.h. */
#include "lab/logs/pickle_machine.h"

/* Whether it says again what was said before: by which number, and where the next opcode is. */
static inline bool recalls(const unsigned char *at, uint64_t *index, const unsigned char **next)
{
    bool longer = at[0] == PICKLE_OPCODE_LONG_BINGET;
    *index = longer ? little_4(at + 1) : at[1];
    *next = at + (longer ? 5 : 2);
    return longer || at[0] == PICKLE_OPCODE_BINGET;
}

/* Fills a list with what was said before and nobody keeps, as stack frames are: from behind the
 * MARK to behind the APPENDS. NULL, and nothing has changed, where it is no such list. */
static inline const unsigned char *fill_list(const struct pickle *pickle, const unsigned char *at,
                                             struct pickle_value *list)
{
    const struct pickle_memo *memo = &pickle->memo;
    const unsigned char *next;
    uint64_t index;
    uint64_t count = 0;
    while (pickle->bytes.end - at >= PICKLE_LOOK_BYTES && recalls(at, &index, &next) &&
           pickle_memo_code(memo, index) >= PICKLE_MEMO_OTHER) {
        at = next;
        count++;
    }
    if (count == 0 || at == pickle->bytes.end || at[0] != PICKLE_OPCODE_APPENDS)
        return NULL;
    list->payload = count;
    if (list->memo != 0)
        memo->codes[list->memo - 1] = (uint8_t)pickle_memo_code_of(list);
    return at + 1;
}

/* The value under the top, unless it lies outside of the innermost mark. */
static inline struct pickle_value *below(const struct pickle *pickle, struct pickle_value *top)
{
    return top > pickle->stack + pickle->floor ? top - 1 : NULL;
}

static inline const unsigned char *mark(struct pickle *pickle, const unsigned char *at,
                                        struct pickle_value *top)
{
    struct pickle_value *list = below(pickle, top);
    const unsigned char *next = NULL;
    if (list && list->kind == PICKLE_LIST && list->payload == 0 && !list->shared)
        next = fill_list(pickle, at, list);
    if (next || pickle->mark_count == PICKLE_DEPTH)
        return next;
    pickle_mark(pickle, (size_t)(top - pickle->stack));
    return at;
}

static inline bool recall(const struct pickle_memo *memo, uint64_t index,
                          struct pickle_value *value)
{
    unsigned int code = pickle_memo_code(memo, index);
    *value = memo->told[code];
    return code >= PICKLE_MEMO_LIST;
}

static inline bool memoize(struct pickle *pickle, struct pickle_value *top)
{
    struct pickle_value *value = below(pickle, top);
    if (!value || value->memo != 0 || value->shared || !pickle_memo_append(&pickle->memo, value))
        return false;
    value->memo = (uint32_t)pickle->memo.length;
    return true;
}

/* A string that is a word, or that nobody asks for. */
static inline const unsigned char *text(const struct pickle *pickle, const unsigned char *at,
                                        size_t length, struct pickle_value *value)
{
    const struct pickle_owner *owner = pickle->owner;
    const struct pickle_value *key = below(pickle, value);
    if ((size_t)(pickle->bytes.end - at) < length)
        return NULL;
    uint8_t word = 0;
    if (length <= PICKLE_WORD_BYTES)
        word = owner->word(owner->context, at, length);
    if (word == 0 && key && key->kind == PICKLE_WORD)
        return NULL;
    pickle_set(value, word != 0 ? PICKLE_WORD : PICKLE_OTHER, word);
    return at + length;
}

/* Two's complement of 1 to 8 bytes. */
static inline int64_t long_number(const unsigned char *bytes, unsigned int count)
{
    unsigned int spare = 64 - 8 * count;
    return (int64_t)(little_8(bytes) << spare) >> spare;
}

static inline void set_signed(struct pickle_value *value, int64_t number)
{
    pickle_set(value, number < 0 ? PICKLE_NEGATIVE : PICKLE_INTEGER, (uint64_t)number);
}

/* One opcode: where the next one is, or NULL when this one is left. A value that it makes goes to
 * the top of the stack. */
static inline const unsigned char *step(struct pickle *pickle, const unsigned char *at,
                                        struct pickle_value **top)
{
    struct pickle_value *value = *top;
    const unsigned char *next = NULL;
    switch (at[0]) {
    case PICKLE_OPCODE_BINGET:
        next = recall(&pickle->memo, at[1], value) ? at + 2 : NULL;
        break;
    case PICKLE_OPCODE_LONG_BINGET:
        next = recall(&pickle->memo, little_4(at + 1), value) ? at + 5 : NULL;
        break;
    case PICKLE_OPCODE_MEMOIZE:
        return memoize(pickle, value) ? at + 1 : NULL;
    case PICKLE_OPCODE_MARK:
        return mark(pickle, at + 1, value);
    case PICKLE_OPCODE_EMPTY_DICT:
        pickle_set(value, PICKLE_DICT,
                   pickle->bytes.piece_place + (uint64_t)(at - pickle->bytes.piece));
        next = at + 1;
        break;
    case PICKLE_OPCODE_EMPTY_LIST:
        pickle_set(value, PICKLE_LIST, 0);
        next = at + 1;
        break;
    case PICKLE_OPCODE_BININT:
        set_signed(value, (int32_t)little_4(at + 1));
        next = at + 5;
        break;
    case PICKLE_OPCODE_BININT1:
        pickle_set(value, PICKLE_INTEGER, at[1]);
        next = at + 2;
        break;
    case PICKLE_OPCODE_BININT2:
        pickle_set(value, PICKLE_INTEGER, pickle_number(at + 1, 2));
        next = at + 3;
        break;
    case PICKLE_OPCODE_LONG1:
        if (at[1] == 0 || at[1] > 8)
            return NULL;
        set_signed(value, long_number(at + 2, at[1]));
        next = at + 2 + at[1];
        break;
    case PICKLE_OPCODE_SHORT_BINUNICODE:
        next = text(pickle, at + 2, at[1], value);
        break;
    default:
        return NULL;
    }
    *top += next != NULL;
    return next;
}

void pickle_quick(struct pickle *pickle)
{
    if (!pickle->stack)
        return; /* there is nothing yet, not even a place for it */
    const unsigned char *at = pickle->bytes.at;
    const unsigned char *end = pickle->bytes.end;
    const unsigned char *next = at;
    struct pickle_value *top = pickle->stack + pickle->depth;
    const struct pickle_value *full = pickle->stack + pickle->capacity;
    while (next && end - at >= PICKLE_LOOK_BYTES && top < full) {
        next = step(pickle, at, &top);
        at = next ? next : at;
    }
    pickle->bytes.at = at;
    pickle->depth = (size_t)(top - pickle->stack);
}
