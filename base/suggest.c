/* Nearest words; see suggest.h. The distance is the one of Damerau and Levenshtein, in its
 * restricted form: no part of a word is changed twice. */
#include "base/suggest.h"

#include <string.h>

enum {
    LONGEST_WORD = 32 /* longer ones are nobody's option or command */
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t table[3][LONGEST_WORD + 1]; /* the row before the last, the last, this one */
    size_t *before = table[0];
    size_t *last = table[1];
    size_t *row = table[2];
    for (size_t j = 0; j <= b_length; j++) {
        before[j] = 0;
        last[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t changed = last[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = least(changed, least(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[b_length];
}

const char *suggest_nearest(const char *typed, const char *const *words, size_t count)
{
    const char *nearest = NULL;
    size_t best = LONGEST_WORD;
    size_t typed_length = strlen(typed);
    if (typed_length > LONGEST_WORD)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(words[i]);
        if (length > LONGEST_WORD)
            continue;
        size_t steps = distance(typed, typed_length, words[i], length);
        size_t longer = length > typed_length ? length : typed_length;
        if (steps < best && steps <= (longer + 2) / 3) {
            best = steps;
            nearest = words[i];
        }
    }
    return nearest;
}
