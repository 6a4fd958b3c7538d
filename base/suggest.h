/* The word that someone probably meant. No state. */
#ifndef SUGGEST_H
#define SUGGEST_H

#include <stddef.h>

/* The word among `words` that is nearest to `typed`, counting letters added, left out, changed, or
 * swapped with their neighbour; NULL when none is near enough to be meant (about a third of its
 * letters). The first one wins a tie. */
const char *suggest_nearest(const char *typed, const char *const *words, size_t count);

#endif
