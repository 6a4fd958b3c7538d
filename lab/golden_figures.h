/* A policy's own figures against those that a line of golden data holds. */
#ifndef LAB_GOLDEN_FIGURES_H
#define LAB_GOLDEN_FIGURES_H

#include <stdbool.h>

#include "lab/verify.h"
#include "lib/policy.h"
#include "proto/json_document.h"

/* Whether every member of the line but the first `skipped` ones ("op", "after") is a figure of the
 * policy, and equal. What differs is noted (mismatch.h) with `place`. */
bool golden_figures_equal(const struct json_document *line, size_t skipped,
                          const struct policy *policy, struct verify_result *result,
                          const char *place);

#endif
