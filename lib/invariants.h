/* The names of the invariants, and an audit that finds the first broken one. See invariants.def. */
#ifndef INVARIANTS_H
#define INVARIANTS_H

#include <stdbool.h>
#include <stdint.h>

enum invariant {
#define INVARIANT(name, sentence) INVARIANT_##name,
#include "lib/invariants.def"
#undef INVARIANT
    INVARIANT_COUNT
};

/* Static texts. */
const char *invariant_name(enum invariant invariant);
const char *invariant_sentence(enum invariant invariant);

/* One run of worsegpu_validate. */
struct audit {
    uint64_t checks;    /* comparisons made */
    const char *broken; /* the name of the first invariant that did not hold; NULL: none yet */
};

/* Counts a comparison, and returns `holds`. The first one that does not hold gives the audit its
 * name. */
bool audit_check(struct audit *audit, enum invariant invariant, bool holds);

#endif
