/* The public cases of cases.def: what there is, and what is claimed of each. */
#ifndef LAB_CASES_H
#define LAB_CASES_H

#include "lab/scenario.h"

enum {
    CASE_MOST_RUNS = 4
};

/* One replay of a case, and what comes of it. */
struct case_run {
    const char *variant;
    const char *policy; /* with its knobs; NULL: no more runs */
    uint64_t capacity_bytes;
    uint64_t refused; /* number of the first allocation that is refused; 0: none is */
    uint64_t peak_reserved_bytes;
    uint64_t retries;
};

struct public_case {
    const char *name;
    const char *source;
    const char *link;
    const char *variants; /* words; "" where there is only one way to tell it */
    const char *story;    /* lines */
    const char *cure;
    /* `variant` counts from 0. */
    void (*tell)(struct scenario *scenario, size_t variant);
    struct case_run runs[CASE_MOST_RUNS];
};

/* By index, NULL after the last; by name, NULL when there is none. */
const struct public_case *public_case_at(size_t index);
const struct public_case *public_case_find(const char *name);
/* The name that was probably meant, or NULL. */
const char *public_case_nearest(const char *typed);

size_t public_case_run_count(const struct public_case *public_case);

/* The variant of this name, "" for the usual one. false when there is none of that name. */
bool public_case_variant(const struct public_case *public_case, const char *name, size_t *variant);

#endif
