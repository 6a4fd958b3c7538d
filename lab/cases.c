/* The public cases of cases.def; see cases.h. */
#include "lab/cases.h"

#include <string.h>

#include "base/suggest.h"
#include "lab/cases/cases_all.h"

static const struct public_case CASES[] = {
#define CASE(name, text, source, link, variants, story, cure)                                      \
    {                                                                                              \
        text, source, link, variants, story, cure, case_##name,                                    \
        {
#define RUN(variant, policy, capacity, refused, peak, retries)                                     \
    {variant, policy, capacity, refused, peak, retries},
#define CASE_END                                                                                   \
    }                                                                                              \
    }                                                                                              \
    ,
#include "lab/cases.def"
};

enum {
    CASES_COUNT = sizeof(CASES) / sizeof(CASES[0])
};

const struct public_case *public_case_at(size_t index)
{
    return index < CASES_COUNT ? &CASES[index] : NULL;
}

const struct public_case *public_case_find(const char *name)
{
    for (size_t i = 0; i < CASES_COUNT; i++)
        if (strcmp(CASES[i].name, name) == 0)
            return &CASES[i];
    return NULL;
}

const char *public_case_nearest(const char *typed)
{
    const char *names[CASES_COUNT];
    for (size_t i = 0; i < CASES_COUNT; i++)
        names[i] = CASES[i].name;
    return suggest_nearest(typed, names, CASES_COUNT);
}

size_t public_case_run_count(const struct public_case *public_case)
{
    size_t count = 0;
    while (count < CASE_MOST_RUNS && public_case->runs[count].policy)
        count++;
    return count;
}

bool public_case_variant(const struct public_case *public_case, const char *name, size_t *variant)
{
    const char *at = public_case->variants;
    *variant = 0;
    if (name[0] == '\0')
        return true;
    for (size_t i = 0; *at != '\0'; i++) {
        size_t length = strcspn(at, " ");
        if (strlen(name) == length && memcmp(at, name, length) == 0) {
            *variant = i;
            return true;
        }
        at += length + (at[length] == ' ');
    }
    return false;
}
