/* Reading the text of a policy's knobs; see knobs.h. */
#include "lib/knobs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes_text.h"
#include "lib/policy.h"

enum {
    LONGEST_NUMBER = 64, /* bytes of a value that is a number */
    SHOWN = 60           /* bytes of a foreign word that a sentence repeats */
};

struct word {
    const char *start;
    size_t length;
};

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static bool word_is(struct word word, const char *text)
{
    return strlen(text) == word.length && memcmp(word.start, text, word.length) == 0;
}

static int shown(struct word word)
{
    return (int)(word.length < SHOWN ? word.length : SHOWN);
}

/* The next word of `text` up to a blank, and moves on; length 0 at the end. */
static struct word next_word(const char **text)
{
    while (is_blank(**text))
        (*text)++;
    struct word word = {*text, 0};
    while (**text != '\0' && !is_blank(**text)) {
        (*text)++;
        word.length++;
    }
    return word;
}

/* The place of the word among the choices, or -1. */
static int choice_from(const char *choices, struct word value)
{
    struct word choice;
    for (int i = 0; (choice = next_word(&choices)).length > 0; i++) {
        if (choice.length == value.length && memcmp(choice.start, value.start, value.length) == 0)
            return i;
    }
    return -1;
}

/* Reads a number written in `word`. */
static bool number_from_word(const struct policy_knob *knob, struct word word,
                             struct knob_value *value)
{
    char text[LONGEST_NUMBER];
    if (word.length >= sizeof(text))
        return false;
    memcpy(text, word.start, word.length);
    text[word.length] = '\0';
    if (knob->type == KNOB_NUMBER)
        return number_from_text(text, &value->number) && value->number >= 0 && value->number <= 1;
    bool read = knob->type == KNOB_BYTES ? bytes_from_text(text, &value->count)
                                         : count_from_text(text, &value->count);
    return read && value->count >= knob->minimum && value->count <= knob->maximum;
}

static bool value_from_word(const struct policy_knob *knob, struct word word,
                            struct knob_value *value)
{
    *value = (struct knob_value){0};
    if (word_is(word, "none") && strcmp(knob->default_text, "none") == 0) {
        value->none = true;
        return true;
    }
    switch (knob->type) {
    case KNOB_BYTES:
    case KNOB_COUNT:
    case KNOB_NUMBER:
        return number_from_word(knob, word, value);
    case KNOB_YESNO:
        value->count = word_is(word, "true");
        return value->count == 1 || word_is(word, "false");
    case KNOB_CHOICE: {
        int choice = choice_from(knob->choices, word);
        value->count = (uint64_t)(choice < 0 ? 0 : choice);
        return choice >= 0;
    }
    case KNOB_TEXT:
        value->text = word.start;
        value->text_bytes = word.length;
        return word.length <= knob->maximum;
    }
    return false;
}

/* What the knob must be, for a sentence. */
static void describe(const struct policy_knob *knob, char *text, size_t size)
{
    const char *or_none = strcmp(knob->default_text, "none") == 0 ? ", or none" : "";
    switch (knob->type) {
    case KNOB_BYTES:
        snprintf(text, size, "%" PRIu64 " to %" PRIu64 " bytes, such as 4096 or 2MiB%s",
                 knob->minimum, knob->maximum, or_none);
        return;
    case KNOB_COUNT:
        snprintf(text, size, "a number from %" PRIu64 " to %" PRIu64 "%s", knob->minimum,
                 knob->maximum, or_none);
        return;
    case KNOB_NUMBER:
        snprintf(text, size, "a number from 0 to 1%s", or_none);
        return;
    case KNOB_YESNO:
        snprintf(text, size, "true or false%s", or_none);
        return;
    case KNOB_CHOICE:
        snprintf(text, size, "one of: %s%s", knob->choices, or_none);
        return;
    case KNOB_TEXT:
        snprintf(text, size, "a text of at most %" PRIu64 " bytes without blanks%s", knob->maximum,
                 or_none);
        return;
    }
}

/* The policy's knob of this name; its place, or -1. */
static int find_knob(const struct policy_operations *operations, struct word name)
{
    for (size_t i = 0; i < operations->knob_count; i++) {
        if (word_is(name, operations->knobs[i].name))
            return (int)i;
    }
    return -1;
}

static void say_unknown(const struct policy_operations *operations, struct word name,
                        char problem[KNOBS_PROBLEM_SIZE])
{
    int length = snprintf(problem, KNOBS_PROBLEM_SIZE, "policy %s has no knob '%.*s'",
                          operations->name, shown(name), name.start);
    const char *before = "; it has ";
    for (size_t i = 0; i < operations->knob_count && length < KNOBS_PROBLEM_SIZE; i++) {
        length += snprintf(problem + length, (size_t)(KNOBS_PROBLEM_SIZE - length), "%s%s", before,
                           operations->knobs[i].name);
        before = ", ";
    }
    if (operations->knob_count == 0 && length < KNOBS_PROBLEM_SIZE)
        snprintf(problem + length, (size_t)(KNOBS_PROBLEM_SIZE - length), ": it has none");
}

/* Reads one NAME=VALUE; `given` has a bit for each knob read so far. */
static bool read_setting(const struct policy_operations *operations, struct word word,
                         struct knob_value *values, unsigned *given,
                         char problem[KNOBS_PROBLEM_SIZE])
{
    const char *equals = memchr(word.start, '=', word.length);
    if (!equals) {
        snprintf(problem, KNOBS_PROBLEM_SIZE,
                 "knobs are written NAME=VALUE, with blanks between them; '%.*s' is not",
                 shown(word), word.start);
        return false;
    }
    struct word name = {word.start, (size_t)(equals - word.start)};
    struct word value = {equals + 1, word.length - name.length - 1};
    int index = find_knob(operations, name);
    if (index < 0) {
        say_unknown(operations, name, problem);
        return false;
    }
    const struct policy_knob *knob = &operations->knobs[index];
    if (*given >> index & 1u) {
        snprintf(problem, KNOBS_PROBLEM_SIZE, "knob %s is given twice", knob->name);
        return false;
    }
    *given |= 1u << index;
    if (!value_from_word(knob, value, &values[index])) {
        char expected[KNOBS_PROBLEM_SIZE / 2];
        describe(knob, expected, sizeof(expected));
        snprintf(problem, KNOBS_PROBLEM_SIZE, "knob %s of policy %s must be %s, not '%.*s'",
                 knob->name, operations->name, expected, shown(value), value.start);
        return false;
    }
    return true;
}

bool knobs_read(const struct policy_operations *operations, const struct worsegpu_config *config,
                const char *text, struct knob_value values[KNOBS_MAX],
                char problem[KNOBS_PROBLEM_SIZE])
{
    problem[0] = '\0';
    for (size_t i = 0; i < operations->knob_count; i++) {
        const struct policy_knob *knob = &operations->knobs[i];
        struct word word = {knob->default_text, strlen(knob->default_text)};
        if (!value_from_word(knob, word, &values[i])) {
            snprintf(problem, KNOBS_PROBLEM_SIZE, "the default of knob %s is wrong", knob->name);
            return false;
        }
    }
    unsigned given = 0;
    struct word word;
    while (text && (word = next_word(&text)).length > 0) {
        if (!read_setting(operations, word, values, &given, problem))
            return false;
    }
    return !operations->knobs_fit || operations->knobs_fit(values, config, problem);
}
