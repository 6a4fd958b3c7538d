/* Knobs: what can be set on a policy. Each policy has one table of them; their text is read here.
 *
 * As text, everywhere (the wire, the daemon's options, configuration files, the lab): NAME=VALUE
 * words separated by blanks, such as "memory_fraction=0.9 alloc_conf=max_split_size_mb:64". A knob
 * that is left out has its default; none may be named twice. */
#ifndef KNOBS_H
#define KNOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct policy_operations;
struct worsegpu_config;

enum {
    KNOBS_PROBLEM_SIZE = 320, /* room for a sentence about a knob that is wrong */
    KNOBS_MAX = 12            /* no policy has more */
};

enum knob_type {
    KNOB_BYTES,  /* 4096, 2MiB, 1.5GiB: minimum to maximum bytes */
    KNOB_COUNT,  /* a plain number, minimum to maximum */
    KNOB_NUMBER, /* a decimal number, from 0 to 1 */
    KNOB_YESNO,  /* true or false */
    KNOB_CHOICE, /* one of the words in `choices` */
    KNOB_TEXT    /* any text without blanks, of at most `maximum` bytes; may be empty */
};

struct policy_knob {
    const char *name;
    enum knob_type type;
    const char *default_text; /* "none": not set, which can be written too */
    uint64_t minimum;
    uint64_t maximum;
    const char *choices; /* words separated by blanks, of a KNOB_CHOICE; else NULL */
    const char *meaning; /* one line, without a full stop */
};

struct knob_value {
    bool none;        /* not set: only where default_text is "none" */
    uint64_t count;   /* of BYTES and COUNT; the index of the word of a CHOICE; 0 or 1 of a YESNO */
    double number;    /* of a NUMBER */
    const char *text; /* of a TEXT: not NUL-terminated, part of the text that was read */
    size_t text_bytes; /* of a TEXT */
};

/* Reads `text` (NULL is the empty text) into one value for each knob of the policy, and asks the
 * policy whether they fit each other and the configuration (whose `knobs` is not looked at). false:
 * `problem` has a sentence that names the knob and says what it must be. */
bool knobs_read(const struct policy_operations *operations, const struct worsegpu_config *config,
                const char *text, struct knob_value values[KNOBS_MAX],
                char problem[KNOBS_PROBLEM_SIZE]);

#endif
