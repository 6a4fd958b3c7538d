/* fit: the smallest device for each setting, and which setting needs least. */
#ifndef LAB_FIT_H
#define LAB_FIT_H

#include "lab/compare.h"
#include "lab/fit_search.h"
#include "lab/fit_settings.h"
#include "lab/lab.h"

struct fit_row {
    const char *policy;
    bool possible; /* false: `problem` says why not */
    struct fit_answer answer;
    size_t rank; /* from 1; 0: it takes no part, see fit_is_rival */
    char problem[REPLAY_PROBLEM_SIZE];
};

struct fit {
    struct lab *lab;
    const struct events *events;
    struct fit_row *rows; /* in their order by rank when all is done */
    size_t row_count;
};

/* Whether a row can be ranked: it found a device, without the host's help, and has blocks to place.
 */
bool fit_is_rival(const struct fit_row *row);

/* The settings that --policy and --vary name; without a --policy the usual line-up. LAB_FINE, or
 * the exit status after a complaint. */
int lab_settings(struct lab *lab, struct text_list *settings);
/* Whether every one of them can be had at all; as lab_settings. */
int lab_check_settings(struct lab *lab, const struct text_list *settings, const char *seed);

/* The table, or the document. The exit status. */
int fit_print_text(const struct fit *fit);
int fit_print_json(const struct fit *fit);

#endif
