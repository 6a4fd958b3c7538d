/* The stack machine that reads pickles; see pickle.h. */
#include "lab/logs/pickle.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "lab/logs/pickle_machine.h"
#include "lib/secrets.h"

enum {
    LOWEST_PROTOCOL = 2,
    HIGHEST_PROTOCOL = 5,
    STACK_MOST = 1 << 27 /* values at once */
};

#define BAD(pickle, ...) log_bad((pickle)->bytes.problem, true, (pickle)->place, __VA_ARGS__)

/* ------------------------------------------------------------------------------ the stack */

static int grow(struct pickle *pickle)
{
    if (pickle->depth >= STACK_MOST)
        return BAD(pickle, "too many things are waiting to be put somewhere");
    return memory_grow(pickle->memory, &pickle->stack, &pickle->capacity, pickle->depth + 1,
                       sizeof(*pickle->stack)) == 0
               ? LOG_FINE
               : LOG_NO_MEMORY;
}

/* The machine has seen to it that there is room for one. */
static inline int push(struct pickle *pickle, const struct pickle_value *value)
{
    pickle->stack[pickle->depth++] = *value;
    return LOG_FINE;
}

static int push_plain(struct pickle *pickle, enum pickle_kind kind, uint64_t payload)
{
    pickle_set(&pickle->stack[pickle->depth++], kind, payload);
    return LOG_FINE;
}

static int push_signed(struct pickle *pickle, int64_t number)
{
    return push_plain(pickle, number < 0 ? PICKLE_NEGATIVE : PICKLE_INTEGER, (uint64_t)number);
}

static int mark(struct pickle *pickle)
{
    if (pickle->mark_count == PICKLE_DEPTH)
        return BAD(pickle, "more than %d containers lie inside each other", PICKLE_DEPTH);
    pickle_mark(pickle, pickle->depth);
    return LOG_FINE;
}

/* Takes the innermost mark away: what is above it begins at *from. */
static int unmark(struct pickle *pickle, size_t *from)
{
    if (pickle->mark_count == 0)
        return BAD(pickle, "the pickle is damaged: there is no MARK before this");
    *from = pickle->floor;
    pickle->floor = pickle->marks[--pickle->mark_count];
    return LOG_FINE;
}

static int want_values(struct pickle *pickle, size_t count)
{
    return pickle->depth - pickle->floor >= count
               ? LOG_FINE
               : BAD(pickle, "the pickle is damaged: too little is on the stack");
}

/* ------------------------------------------------------------------------------ the memo */

static int memo_put(struct pickle *pickle, uint64_t index)
{
    if (want_values(pickle, 1) != LOG_FINE)
        return LOG_BAD;
    /* Picklers count from 0 or 1, and each entry takes at least a byte of the file. */
    if (index > pickle->place)
        return BAD(pickle, "the memo has no room for the number %" PRIu64, index);
    struct pickle_value *top = &pickle->stack[pickle->depth - 1];
    bool open = top->kind == PICKLE_DICT || top->kind == PICKLE_LIST;
    if (open && (top->memo != 0 || top->shared))
        return BAD(pickle, "the same thing is put into the memo twice");
    int status = pickle_memo_put(&pickle->memo, index, top);
    if (status == 1)
        return BAD(pickle, "the number %" PRIu64 " of the memo is given twice", index);
    if (status == LOG_FINE)
        top->memo = (uint32_t)index + 1;
    return status;
}

static int memo_get(struct pickle *pickle, uint64_t index)
{
    struct pickle_value value;
    if (pickle_memo_get(&pickle->memo, index, &value) != 0)
        return BAD(pickle, "number %" PRIu64 " of the memo was never put there", index);
    return push(pickle, &value);
}

/* After its owner has seen it. */
static int memo_follow(struct pickle *pickle, const struct pickle_value *value)
{
    return value->memo == 0 ? LOG_FINE : pickle_memo_change(&pickle->memo, value->memo - 1, value);
}

/* ------------------------------------------------------------------------------ containers */

/* Puts what lies above `from` into the dict. */
static int items(struct pickle *pickle, struct pickle_value *dict, size_t from, bool whole)
{
    size_t count = pickle->depth - from;
    if (count % 2 != 0)
        return BAD(pickle, "the pickle is damaged: a key has no value");
    if (dict->shared || (dict->kind != PICKLE_DICT && dict->kind < PICKLE_KEPT))
        return BAD(pickle, "the pickle is damaged: what is filled here is no new dict");
    bool word = false;
    for (size_t i = from; i < pickle->depth && !word; i += 2)
        word = pickle->stack[i].kind == PICKLE_WORD;
    uint8_t kind = dict->kind;
    uint64_t payload = dict->payload;
    if (word) {
        int status = pickle->owner->items(pickle->owner->context, dict, pickle->stack + from,
                                          count / 2, whole, pickle->place);
        if (status != LOG_FINE)
            return status;
    }
    pickle->depth = from;
    return dict->kind == kind && dict->payload == payload ? LOG_FINE : memo_follow(pickle, dict);
}

static int elements(struct pickle *pickle, struct pickle_value *list, size_t from)
{
    size_t count = pickle->depth - from;
    pickle->depth = from;
    if (list->shared || list->kind < PICKLE_LIST)
        return BAD(pickle, "the pickle is damaged: what is filled here is no new list");
    if (count == 0)
        return LOG_FINE;
    bool kept = list->kind != PICKLE_LIST;
    for (size_t i = 0; i < count && !kept; i++)
        kept = pickle->stack[from + i].kind >= PICKLE_LIST;
    uint8_t kind = list->kind;
    uint64_t payload = list->payload;
    if (kept) {
        int status = pickle->owner->elements(pickle->owner->context, list, pickle->stack + from,
                                             count, pickle->place);
        if (status != LOG_FINE)
            return status;
    } else {
        list->payload += count;
        if (payload > 0)
            return LOG_FINE; /* the memo knows already that it is not empty */
    }
    return list->kind == kind && list->payload == payload ? LOG_FINE : memo_follow(pickle, list);
}

/* One key and value, or one element, for the container just below them. */
static int one(struct pickle *pickle, bool pair)
{
    size_t count = pair ? 2 : 1;
    if (want_values(pickle, count + 1) != LOG_FINE)
        return LOG_BAD;
    size_t from = pickle->depth - count;
    struct pickle_value *container = &pickle->stack[from - 1];
    return pair ? items(pickle, container, from, false) : elements(pickle, container, from);
}

/* All that lies above the mark, for the container just below it. */
static int many(struct pickle *pickle, bool pairs)
{
    size_t from = 0;
    if (unmark(pickle, &from) != LOG_FINE)
        return LOG_BAD;
    if (from <= pickle->floor)
        return BAD(pickle, "the pickle is damaged: nothing is there to be filled");
    struct pickle_value *container = &pickle->stack[from - 1];
    return pairs ? items(pickle, container, from, true) : elements(pickle, container, from);
}

/* A whole container of what lies above the mark, as old protocols have it. */
static int make(struct pickle *pickle, enum pickle_kind kind)
{
    size_t from = 0;
    if (unmark(pickle, &from) != LOG_FINE)
        return LOG_BAD;
    struct pickle_value value = {.kind = (uint8_t)kind,
                                 .payload = kind == PICKLE_DICT ? pickle->place : 0};
    int status =
        kind == PICKLE_DICT ? items(pickle, &value, from, true) : elements(pickle, &value, from);
    return status == LOG_FINE ? push(pickle, &value) : status;
}

static int tuple(struct pickle *pickle, size_t count)
{
    if (want_values(pickle, count) != LOG_FINE)
        return LOG_BAD;
    const struct pickle_value *values = pickle->stack + (pickle->depth - count);
    bool pair = count == 2 && values[0].kind == PICKLE_INTEGER &&
                values[1].kind == PICKLE_INTEGER && values[0].payload <= UINT32_MAX &&
                values[1].payload <= UINT32_MAX && (values[0].payload | values[1].payload) != 0;
    uint64_t payload = pair ? values[0].payload << 32 | values[1].payload : 0;
    pickle->depth -= count;
    return push_plain(pickle, pair ? PICKLE_PAIR : PICKLE_OTHER, payload);
}

static int marked_tuple(struct pickle *pickle)
{
    size_t from = 0;
    if (unmark(pickle, &from) != LOG_FINE)
        return LOG_BAD;
    return tuple(pickle, pickle->depth - from);
}

/* ------------------------------------------------------------------------------ values */

static int text(struct pickle *pickle, uint64_t length)
{
    struct pickle_value value = {.kind = PICKLE_OTHER};
    uint8_t after = 0;
    if (pickle->depth > pickle->floor && pickle->stack[pickle->depth - 1].kind == PICKLE_WORD)
        after = (uint8_t)pickle->stack[pickle->depth - 1].payload;
    int status = LOG_FINE;
    if (length > PICKLE_TEXT_BYTES) {
        status = pickle_bytes_pass(&pickle->bytes, length);
    } else {
        status = pickle_bytes_want(&pickle->bytes, (size_t)length);
        if (status == LOG_FINE) {
            const struct pickle_owner *owner = pickle->owner;
            uint8_t word = 0;
            if (length <= PICKLE_WORD_BYTES)
                word = owner->word(owner->context, pickle->bytes.at, (size_t)length);
            if (word != 0) {
                value.kind = PICKLE_WORD;
                value.payload = word;
            } else if (after != 0) {
                status =
                    owner->text(owner->context, after, pickle->bytes.at, (size_t)length, &value);
            }
            pickle->bytes.at += length;
        }
    }
    return status == LOG_FINE ? push(pickle, &value) : status;
}

static int passed(struct pickle *pickle, uint64_t length)
{
    int status = pickle_bytes_pass(&pickle->bytes, length);
    return status == LOG_FINE ? push_plain(pickle, PICKLE_OTHER, 0) : status;
}

/* Two's complement of any length. */
static int long_number(struct pickle *pickle, uint64_t length)
{
    if (length > PICKLE_TEXT_BYTES) {
        int status = pickle_bytes_pass(&pickle->bytes, length);
        return status == LOG_FINE ? push_plain(pickle, PICKLE_HUGE, 0) : status;
    }
    int status = pickle_bytes_want(&pickle->bytes, (size_t)length);
    if (status != LOG_FINE)
        return status;
    const unsigned char *bytes = pickle->bytes.at;
    size_t count = (size_t)length;
    pickle->bytes.at += count;
    bool negative = count > 0 && bytes[count - 1] >= 0x80;
    unsigned char filler = negative ? 0xff : 0;
    while (count > 8 && bytes[count - 1] == filler)
        count--;
    uint64_t number = pickle_number(bytes, count > 8 ? 8 : count);
    if (count > 8 || (negative && count == 8 && bytes[7] < 0x80))
        return push_plain(pickle, PICKLE_HUGE, 0);
    if (!negative)
        return push_plain(pickle, PICKLE_INTEGER, number);
    if (count < 8)
        number |= UINT64_MAX << (8 * count);
    return push_plain(pickle, PICKLE_NEGATIVE, number);
}

static int long4(struct pickle *pickle, uint64_t length)
{
    if (length > INT32_MAX)
        return BAD(pickle, "the pickle is damaged: a number of negative length");
    return long_number(pickle, length);
}

static uint64_t double_bits(const unsigned char *bytes)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < 8; i++)
        bits = bits << 8 | bytes[i];
    return bits;
}

/* ------------------------------------------------------------------------------ the machine */

struct opcode_facts {
    const char *name; /* NULL: there is none */
    uint8_t bytes;    /* of its argument */
    bool refused;
};

static const struct opcode_facts facts_of[256] = {
#define DATA(byte, name, bytes) [byte] = {#name, bytes, false},
#define REFUSED(byte, name) [byte] = {#name, 0, true},
#include "lab/logs/pickle_opcodes.def"
#undef DATA
#undef REFUSED
};

static int refuse(struct pickle *pickle, unsigned int opcode)
{
    if (!facts_of[opcode].name)
        return BAD(pickle, "0x%02x is no opcode of a pickle", opcode);
    return BAD(pickle, "the opcode %s is refused: it is not one of those that only hold data",
               facts_of[opcode].name);
}

/* One opcode; `at` is behind its argument. */
static inline int step(struct pickle *pickle, unsigned int opcode, const unsigned char *argument)
{
    switch (opcode) {
    case PICKLE_OPCODE_BINGET:
        return memo_get(pickle, argument[0]);
    case PICKLE_OPCODE_LONG_BINGET:
        return memo_get(pickle, little_4(argument));
    case PICKLE_OPCODE_MEMOIZE:
        return memo_put(pickle, pickle->memo.count);
    case PICKLE_OPCODE_BINPUT:
        return memo_put(pickle, argument[0]);
    case PICKLE_OPCODE_LONG_BINPUT:
        return memo_put(pickle, little_4(argument));
    case PICKLE_OPCODE_MARK:
        return mark(pickle);
    case PICKLE_OPCODE_EMPTY_DICT:
        return push_plain(pickle, PICKLE_DICT, pickle->place);
    case PICKLE_OPCODE_SETITEMS:
        return many(pickle, true);
    case PICKLE_OPCODE_SETITEM:
        return one(pickle, true);
    case PICKLE_OPCODE_DICT:
        return make(pickle, PICKLE_DICT);
    case PICKLE_OPCODE_EMPTY_LIST:
        return push_plain(pickle, PICKLE_LIST, 0);
    case PICKLE_OPCODE_APPENDS:
        return many(pickle, false);
    case PICKLE_OPCODE_APPEND:
        return one(pickle, false);
    case PICKLE_OPCODE_LIST:
        return make(pickle, PICKLE_LIST);
    case PICKLE_OPCODE_EMPTY_TUPLE:
        return tuple(pickle, 0);
    case PICKLE_OPCODE_TUPLE1:
        return tuple(pickle, 1);
    case PICKLE_OPCODE_TUPLE2:
        return tuple(pickle, 2);
    case PICKLE_OPCODE_TUPLE3:
        return tuple(pickle, 3);
    case PICKLE_OPCODE_TUPLE:
        return marked_tuple(pickle);
    case PICKLE_OPCODE_NONE:
        return push_plain(pickle, PICKLE_NONE, 0);
    case PICKLE_OPCODE_NEWTRUE:
        return push_plain(pickle, PICKLE_TRUE, 1);
    case PICKLE_OPCODE_NEWFALSE:
        return push_plain(pickle, PICKLE_FALSE, 0);
    case PICKLE_OPCODE_BININT:
        return push_signed(pickle, (int32_t)little_4(argument));
    case PICKLE_OPCODE_BININT1:
        return push_plain(pickle, PICKLE_INTEGER, argument[0]);
    case PICKLE_OPCODE_BININT2:
        return push_plain(pickle, PICKLE_INTEGER, pickle_number(argument, 2));
    case PICKLE_OPCODE_LONG1:
        return long_number(pickle, argument[0]);
    case PICKLE_OPCODE_LONG4:
        return long4(pickle, little_4(argument));
    case PICKLE_OPCODE_BINFLOAT:
        return push_plain(pickle, PICKLE_NUMBER, double_bits(argument));
    case PICKLE_OPCODE_SHORT_BINUNICODE:
        return text(pickle, argument[0]);
    case PICKLE_OPCODE_BINUNICODE:
        return text(pickle, little_4(argument));
    case PICKLE_OPCODE_BINUNICODE8:
        return text(pickle, pickle_number(argument, 8));
    case PICKLE_OPCODE_SHORT_BINBYTES:
        return passed(pickle, argument[0]);
    case PICKLE_OPCODE_BINBYTES:
        return passed(pickle, little_4(argument));
    case PICKLE_OPCODE_BINBYTES8:
    case PICKLE_OPCODE_BYTEARRAY8:
        return passed(pickle, pickle_number(argument, 8));
    case PICKLE_OPCODE_FRAME:
        return LOG_FINE; /* only a hint how much to read at once */
    default:
        return refuse(pickle, opcode);
    }
}

static int run(struct pickle *pickle)
{
    for (;;) {
        pickle_quick(pickle);
        if (pickle->depth == pickle->capacity) {
            int status = grow(pickle);
            if (status != LOG_FINE)
                return status;
        }
        if (pickle->bytes.end - pickle->bytes.at < PICKLE_LOOK_BYTES) {
            int status = pickle_bytes_look(&pickle->bytes, PICKLE_LOOK_BYTES);
            if (status != LOG_FINE)
                return status;
            if (pickle->bytes.at == pickle->bytes.end)
                return pickle_bytes_cut_off(&pickle->bytes);
        }
        unsigned int opcode = pickle->bytes.at[0];
        const unsigned char *argument = pickle->bytes.at + 1;
        pickle->place = pickle_bytes_place(&pickle->bytes);
        if (opcode == PICKLE_OPCODE_STOP) {
            pickle->bytes.at++;
            return LOG_FINE;
        }
        if (pickle->bytes.end - argument < facts_of[opcode].bytes)
            return pickle_bytes_cut_off(&pickle->bytes);
        pickle->bytes.at = argument + facts_of[opcode].bytes;
        int status = step(pickle, opcode, argument);
        if (status != LOG_FINE)
            return status;
    }
}

bool pickle_detect(const unsigned char *head, size_t bytes)
{
    return bytes >= 2 && head[0] == PICKLE_OPCODE_PROTO && head[1] >= LOWEST_PROTOCOL &&
           head[1] <= HIGHEST_PROTOCOL;
}

static int begin(struct pickle *pickle, struct pickle_result *result)
{
    int status = pickle_bytes_look(&pickle->bytes, 2);
    if (status != LOG_FINE)
        return status;
    if (pickle->bytes.at == pickle->bytes.end)
        return log_bad(pickle->bytes.problem, true, 1, "there is nothing in it");
    size_t length = (size_t)(pickle->bytes.end - pickle->bytes.at);
    if (pickle->bytes.at[0] == PICKLE_OPCODE_PROTO && length >= 2 &&
        !pickle_detect(pickle->bytes.at, length))
        return log_bad(pickle->bytes.problem, true, 2,
                       "pickle protocol %d is not known; %d to %d are", pickle->bytes.at[1],
                       LOWEST_PROTOCOL, HIGHEST_PROTOCOL);
    if (!pickle_detect(pickle->bytes.at, length))
        return log_bad(pickle->bytes.problem, true, 1,
                       "it does not begin as a pickle of protocol %d to %d does", LOWEST_PROTOCOL,
                       HIGHEST_PROTOCOL);
    result->protocol = pickle->bytes.at[1];
    pickle->bytes.at += 2;
    return LOG_FINE;
}

static int finish(struct pickle *pickle, struct pickle_result *result)
{
    if (pickle->mark_count > 0 || pickle->depth != 1)
        return BAD(pickle, "the pickle is damaged: it ends with %zu things that belong nowhere",
                   pickle->depth > 0 ? pickle->depth - 1 : 0);
    result->value = pickle->stack[0];
    int status = pickle_bytes_look(&pickle->bytes, 1);
    if (status != LOG_FINE)
        return status;
    if (pickle->bytes.at < pickle->bytes.end)
        return log_bad(pickle->bytes.problem, true, pickle_bytes_place(&pickle->bytes),
                       "something follows the end of the pickle");
    return LOG_FINE;
}

int pickle_read(struct log_source *source, const struct worsegpu_memory *memory,
                const struct pickle_owner *owner, struct pickle_result *result,
                struct log_problem *problem)
{
    struct keyed_hash hash;
    const struct entropy *entropy = entropy_system();
    if (entropy->draw(entropy->context, &hash, sizeof(hash)) != 0)
        hash = (struct keyed_hash){{0, 0}}; /* slower tables at worst */
    struct pickle *pickle = memory_allocate_zeroed(memory, 1, sizeof(*pickle));
    int status = LOG_NO_MEMORY;
    if (pickle) {
        *pickle = (struct pickle){
            .memory = memory, .owner = owner, .bytes = {.source = source, .problem = problem}};
        pickle_memo_init(&pickle->memo, &hash, memory);
        *result = (struct pickle_result){0};
        status = begin(pickle, result);
        if (status == LOG_FINE)
            status = run(pickle);
        if (status == LOG_FINE)
            status = finish(pickle, result);
        memory_release_array(memory, pickle->stack, pickle->capacity, sizeof(*pickle->stack));
        pickle_memo_release(&pickle->memo);
    }
    memory_release_array(memory, pickle, 1, sizeof(*pickle));
    return status;
}
