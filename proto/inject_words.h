/* The words that people write for a rule of fault injection, such as
 *
 *     oom --nth 10 --times 1 --min-size 1MiB
 *
 * and what they mean as the parameters of an `inject` request. The one place that knows them: the
 * CLI's command and the daemon's --inject both come here. Knows the form of each word and the range
 * of each value; what goes together is for the daemon, which judges every inject alike. No state.
 */
#ifndef INJECT_WORDS_H
#define INJECT_WORDS_H

#include <stddef.h>

#include "proto/json_writer.h"

enum inject_words_result {
    INJECT_WORDS_NO_MEMORY = -1, /* of the writer: it is cut back to where it was */
    INJECT_WORDS_FINE = 0,
    INJECT_WORDS_WRONG = 1 /* `message` names the word, in one line; the writer is cut back */
};

enum {
    INJECT_WORDS_MESSAGE_SIZE = 256
};

/* Writes the parameters as one JSON object, e.g. {"action":"out_of_memory","nth":10,"times":1}. The
 * first word is the action, by its short or its full name; then come options, as `--nth 10` or
 * `--nth=10`, in any order, each at most once. Words are valid UTF-8 or refused. */
enum inject_words_result inject_words_write(size_t count, char *const *words,
                                            struct json_writer *out,
                                            char message[INJECT_WORDS_MESSAGE_SIZE]);

/* The same for one text, cut into words at blanks; what stands between two ' or two " belongs
 * together. */
enum inject_words_result inject_words_write_text(const char *text, struct json_writer *out,
                                                 char message[INJECT_WORDS_MESSAGE_SIZE]);

/* The actions, for help and completion: index 0, 1, ...; NULL after the last. */
struct inject_action {
    const char *word;   /* "oom" */
    const char *action; /* "out_of_memory", which may be written as well */
    const char *meaning;
};
const struct inject_action *inject_words_action(size_t index);

/* The options likewise. */
struct inject_option {
    const char *word;        /* "--min-size" */
    const char *placeholder; /* "SIZE" */
    const char *meaning;
};
const struct inject_option *inject_words_option(size_t index);

#endif
