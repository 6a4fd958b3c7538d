/* What each case of cases.def does, and the units that they count in; see cases.h. */
#ifndef CASES_ALL_H
#define CASES_ALL_H

#include "lab/scenario.h"

#define MIB (UINT64_C(1024) * 1024)
#define GIB (UINT64_C(1024) * 1024 * 1024)

#define CASE(name, text, source, link, variants, story, cure)                                      \
    void case_##name(struct scenario *scenario, size_t variant);
#include "lab/cases.def"

#endif
