/* The inside of the stack machine that reads pickles: pickle.c knows all opcodes and everything
 * that can be wrong, pickle_quick.c the common case. Lives inside one reading. */
#ifndef LOGS_PICKLE_MACHINE_H
#define LOGS_PICKLE_MACHINE_H

#include "lab/logs/little.h"
#include "lab/logs/pickle_bytes.h"
#include "lab/logs/pickle_memo.h"

enum {
    PICKLE_LOOK_BYTES = 16 /* an opcode with its argument is shorter */
};

enum pickle_opcode {
#define DATA(byte, name, bytes) PICKLE_OPCODE_##name = (byte),
#define REFUSED(byte, name)
#include "lab/logs/pickle_opcodes.def"
#undef DATA
#undef REFUSED
};

struct pickle {
    const struct worsegpu_memory *memory;
    const struct pickle_owner *owner;
    struct pickle_bytes bytes;
    uint64_t place; /* of the opcode under way, from 1 */

    struct pickle_value *stack;
    size_t capacity;
    size_t depth;
    size_t floor; /* values below it belong to what is outside of the innermost mark */
    size_t marks[PICKLE_DEPTH]; /* the floors outside */
    size_t mark_count;

    struct pickle_memo memo;
};

/* Member by member: a value made elsewhere and copied at once would stall the processor. */
static inline void pickle_set(struct pickle_value *value, enum pickle_kind kind, uint64_t payload)
{
    /* The stack has room by then, which the analyzer cannot see. */
    value->payload = payload; /* NOLINT(clang-analyzer-core.NullDereference) */
    value->memo = 0;
    value->kind = (uint8_t)kind;
    value->type = 0;
    value->shared = false;
    value->unused = 0;
}

/* There are fewer marks than PICKLE_DEPTH. */
static inline void pickle_mark(struct pickle *pickle, size_t depth)
{
    pickle->marks[pickle->mark_count++] = pickle->floor;
    pickle->floor = depth;
}

/* Reads on from here as long as every opcode is a common one, with nothing wrong about it, nothing
 * for the owner to keep and no memory to be taken. Anything else it leaves where it is, perhaps at
 * once. */
void pickle_quick(struct pickle *pickle);

#endif
