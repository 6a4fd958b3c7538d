/* Which settings are tried: policies, each with every combination of varied knobs. For fit and
 * sweep. */
#ifndef LAB_FIT_SETTINGS_H
#define LAB_FIT_SETTINGS_H

#include "lab/text_list.h"

enum {
    FIT_SETTINGS_MOST = 100000,
    FIT_SETTINGS_PROBLEM_SIZE = 400
};

/* Adds a policy with its knobs as --policy takes it; "all" is the usual line-up. 0, or -1 without
 * memory. */
int fit_settings_add(struct text_list *settings, const char *policy);

/* Takes a "KEY=VALUE,VALUE,...": each setting whose policy has the knob is replaced by one for each
 * value. Where no policy has such a knob, KEY is meant as a name in the alloc_conf of those that
 * have one. A value "default" leaves the knob out. Values that hold commas themselves are separated
 * by semicolons. 0; -1 without memory; 1 with a sentence. */
int fit_settings_vary(struct text_list *settings, const char *vary,
                      char problem[FIT_SETTINGS_PROBLEM_SIZE]);

#endif
