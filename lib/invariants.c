/* The names of the invariants; see invariants.h. */
#include "lib/invariants.h"

#include <stddef.h>

struct entry {
    const char *name;
    const char *sentence;
};

static const struct entry entries[INVARIANT_COUNT] = {
#define INVARIANT(name, sentence) [INVARIANT_##name] = {#name, sentence},
#include "lib/invariants.def"
#undef INVARIANT
};

const char *invariant_name(enum invariant invariant)
{
    return entries[invariant].name;
}

const char *invariant_sentence(enum invariant invariant)
{
    return entries[invariant].sentence;
}

bool audit_check(struct audit *audit, enum invariant invariant, bool holds)
{
    audit->checks++;
    if (!holds && !audit->broken)
        audit->broken = invariant_name(invariant);
    return holds;
}
