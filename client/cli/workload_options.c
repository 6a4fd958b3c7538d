/* Options by argparse's rules; see workload_options.h.
 *
 * Two passes, as there: the first says what each word is (an option, the "--", or neither), the
 * second carries the options out from left to right. The rules are those of the Python 3.11
 * documentation of argparse, checked against its behaviour. */
#include "client/cli/workload_options.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/suggest.h"
#include "proto/limits.h"

enum flag {
    FLAG_HELP,
    FLAG_STEPS,
    FLAG_SEED,
    FLAG_DELAY,
    FLAG_CAPACITY,
    FLAG_JSON,
    FLAGS
};

struct flag_info {
    const char *name;        /* with its dashes */
    const char *shown;       /* in messages */
    const char *placeholder; /* NULL: takes no value */
    const char *meaning;
    bool demo;
    bool benchmark;
};

static const struct flag_info TABLE[FLAGS] = {
    [FLAG_HELP] = {"--help", "-h/--help", NULL, "show this and end", true, true},
    [FLAG_STEPS] = {"--steps", "--steps", "STEPS", "allocations, 1 to 100000", true, true},
    [FLAG_SEED] = {"--seed", "--seed", "SEED",
                   "any integer; equal seeds give equal runs (default 7)", true, true},
    [FLAG_DELAY] = {"--delay", "--delay", "DELAY",
                    "seconds to wait after each step, 0 to 60 (default 0.04)", true, false},
    [FLAG_CAPACITY] = {"--capacity", "--capacity", "CAPACITY",
                       "bytes of the fake GPU (default 33554432)", false, true},
    [FLAG_JSON] = {"--json", "--json", NULL, "print one JSON document", true, true},
};

enum word_kind {
    WORD_PLAIN,
    WORD_OPTION,
    WORD_UNKNOWN_OPTION
};

struct word {
    enum word_kind kind;
    enum flag flag;
    const char *value; /* the one it carries itself, NULL for none */
    bool letter;       /* a single-dash option: its value may be more letters */
};

struct reader {
    struct workload_options *options;
    enum command command;
    const struct worsegpu_memory *memory;
    char *problem;
};

static bool has_flag(enum command command, enum flag flag)
{
    return command == COMMAND_demo ? TABLE[flag].demo : TABLE[flag].benchmark;
}

__attribute__((format(printf, 2, 3))) static enum workload_options_result
refuse(const struct reader *reader, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reader->problem, WORKLOAD_PROBLEM_SIZE, format, arguments);
    va_end(arguments);
    return WORKLOAD_OPTIONS_REFUSED;
}

/* ------------------------------------------------------------------------------ what is each word
 */

static enum workload_options_result refuse_ambiguous(const struct reader *reader, const char *typed,
                                                     size_t length)
{
    char names[WORKLOAD_PROBLEM_SIZE] = "";
    size_t used = 0;
    for (size_t i = 0; i < FLAGS; i++) {
        if (has_flag(reader->command, (enum flag)i) && strncmp(TABLE[i].name, typed, length) == 0)
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
                                     used > 0 ? ", " : "", TABLE[i].name);
    }
    return refuse(reader, "ambiguous option: %s could match %s", typed, names);
}

/* A word that begins with two dashes: a whole name, or the beginning of exactly one. */
static enum workload_options_result classify_long(const struct reader *reader, const char *typed,
                                                  struct word *word)
{
    size_t length = strcspn(typed, "=");
    size_t matches = 0;
    for (size_t i = 0; i < FLAGS; i++) {
        if (!has_flag(reader->command, (enum flag)i) || strncmp(TABLE[i].name, typed, length) != 0)
            continue;
        bool whole = TABLE[i].name[length] == '\0';
        matches = whole ? 1 : matches + 1;
        word->flag = (enum flag)i;
        if (whole)
            break;
    }
    if (matches > 1)
        return refuse_ambiguous(reader, typed, length);
    if (matches == 0)
        return WORKLOAD_OPTIONS_FINE;
    word->kind = WORD_OPTION;
    word->value = typed[length] == '=' ? typed + length + 1 : NULL;
    return WORKLOAD_OPTIONS_FINE;
}

static enum workload_options_result classify(const struct reader *reader, const char *typed,
                                             struct word *word)
{
    *word = (struct word){.kind = WORD_PLAIN};
    if (typed[0] != '-' || typed[1] == '\0')
        return WORKLOAD_OPTIONS_FINE;
    if (typed[1] == 'h') { /* -h, -hh, -h1, -h=1 */
        word->kind = WORD_OPTION;
        word->flag = FLAG_HELP;
        word->letter = true;
        word->value = typed[2] == '\0' ? NULL : typed + 2 + (typed[2] == '=' ? 1 : 0);
        return WORKLOAD_OPTIONS_FINE;
    }
    if (typed[1] == '-') {
        enum workload_options_result result = classify_long(reader, typed, word);
        if (result != WORKLOAD_OPTIONS_FINE || word->kind == WORD_OPTION)
            return result;
    }
    if (!python_looks_negative(typed) && !strchr(typed, ' '))
        word->kind = WORD_UNKNOWN_OPTION;
    return WORKLOAD_OPTIONS_FINE;
}

/* The reference's words, and the nearest option after them where there is one. */
static enum workload_options_result refuse_unknown(const struct reader *reader, const char *typed)
{
    const char *words[FLAGS];
    size_t count = 0;
    char name[64];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(typed, "="), typed);
    for (size_t i = 0; i < FLAGS; i++) {
        if (has_flag(reader->command, (enum flag)i))
            words[count++] = TABLE[i].name;
    }
    const char *nearest = strlen(name) > 4 ? suggest_nearest(name, words, count) : NULL;
    return refuse(reader, "unrecognized argument: %.256s%s%s%s", typed,
                  nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : "");
}

/* ------------------------------------------------------------------------------ carrying out */

static enum workload_options_result set_positive(const struct reader *reader, enum flag flag,
                                                 const char *text, uint64_t maximum,
                                                 uint64_t *value)
{
    char canonical[PYTHON_INTEGER_SIZE];
    char shown[PYTHON_SHOWN_SIZE];
    python_show(text, shown);
    if (!python_integer(text, canonical))
        return refuse(reader, "argument %s: invalid integer: %s", TABLE[flag].shown, shown);
    int side = python_integer_in_range(canonical, maximum, value);
    if (side < 0)
        return refuse(reader, "argument %s: must be positive", TABLE[flag].shown);
    if (side > 0)
        return refuse(reader, "argument %s: must be no greater than %llu", TABLE[flag].shown,
                      (unsigned long long)maximum);
    return WORKLOAD_OPTIONS_FINE;
}

static enum workload_options_result set_delay(const struct reader *reader, const char *text)
{
    double delay;
    char shown[PYTHON_SHOWN_SIZE];
    python_show(text, shown);
    switch (python_float(text, reader->memory, &delay)) {
    case PYTHON_FLOAT_NO_MEMORY:
        return WORKLOAD_OPTIONS_NO_MEMORY;
    case PYTHON_FLOAT_REFUSED:
        return refuse(reader, "argument --delay: invalid number: %s", shown);
    case PYTHON_FLOAT_FINE:
    default:
        break;
    }
    if (!isfinite(delay) || delay < 0)
        return refuse(reader, "argument --delay: must be finite and zero or positive");
    if (delay > WORKLOAD_MAX_DELAY)
        return refuse(reader, "argument --delay: must be no greater than %d seconds",
                      WORKLOAD_MAX_DELAY);
    reader->options->delay = delay;
    return WORKLOAD_OPTIONS_FINE;
}

static enum workload_options_result set_seed(const struct reader *reader, const char *text)
{
    char shown[PYTHON_SHOWN_SIZE];
    char canonical[PYTHON_INTEGER_SIZE];
    python_show(text, shown);
    if (!python_integer(text, canonical))
        return refuse(reader, "argument --seed: invalid integer: %s", shown);
    memcpy(reader->options->seed, canonical, strlen(canonical) + 1);
    return WORKLOAD_OPTIONS_FINE;
}

static enum workload_options_result set(const struct reader *reader, enum flag flag,
                                        const char *value)
{
    switch (flag) {
    case FLAG_STEPS:
        return set_positive(reader, flag, value, WORKLOAD_MAX_STEPS, &reader->options->steps);
    case FLAG_CAPACITY:
        return set_positive(reader, flag, value, (uint64_t)PROTO_MAX_SAFE_INTEGER,
                            &reader->options->capacity);
    case FLAG_SEED:
        return set_seed(reader, value);
    case FLAG_DELAY:
        return set_delay(reader, value);
    case FLAG_JSON:
        reader->options->json = true;
        return WORKLOAD_OPTIONS_FINE;
    case FLAG_HELP:
    case FLAGS:
    default:
        return WORKLOAD_OPTIONS_HELP;
    }
}

/* An option that takes no value was given one. Letters may follow a letter: -hh is -h twice. */
static enum workload_options_result check_no_value(const struct reader *reader,
                                                   const struct word *word)
{
    char shown[PYTHON_SHOWN_SIZE];
    const char *value = word->value;
    if (!value)
        return WORKLOAD_OPTIONS_FINE;
    if (word->letter && value[0] != '\0') {
        value += strspn(value, "h");
        if (value[0] == '\0')
            return WORKLOAD_OPTIONS_FINE;
    }
    python_show(value, shown);
    return refuse(reader, "argument %s: ignored explicit argument %s", TABLE[word->flag].shown,
                  shown);
}

static enum workload_options_result carry_out(const struct reader *reader, const struct word *kinds,
                                              char *const *words, int count)
{
    enum workload_options_result result = WORKLOAD_OPTIONS_FINE;
    const char *unknown = NULL;
    for (int i = 0; i < count && result == WORKLOAD_OPTIONS_FINE; i++) {
        const struct word *word = &kinds[i];
        const char *value = word->value;
        if (word->kind != WORD_OPTION) {
            unknown = unknown ? unknown : words[i];
            continue;
        }
        if (!TABLE[word->flag].placeholder) {
            result = check_no_value(reader, word);
        } else if (!value) {
            bool follows =
                i + 1 < count && kinds[i + 1].kind == WORD_PLAIN && strcmp(words[i + 1], "--") != 0;
            if (!follows)
                return refuse(reader, "argument %s: expected one argument",
                              TABLE[word->flag].shown);
            value = words[++i];
        }
        if (result == WORKLOAD_OPTIONS_FINE)
            result = set(reader, word->flag, value);
    }
    if (result == WORKLOAD_OPTIONS_FINE && unknown)
        return refuse_unknown(reader, unknown);
    return result;
}

enum workload_options_result workload_options_read(struct workload_options *options,
                                                   enum command command, int count,
                                                   char *const *words,
                                                   const struct worsegpu_memory *memory,
                                                   char problem[WORKLOAD_PROBLEM_SIZE])
{
    const struct reader reader = {options, command, memory, problem};
    *options = (struct workload_options){
        .steps = command == COMMAND_demo ? 18 : 100,
        .seed = "7",
        .delay = 0.04,
        .capacity = UINT64_C(32) * 1024 * 1024,
    };
    size_t room = count > 0 ? (size_t)count : 1;
    struct word *kinds = memory_allocate_zeroed(memory, room, sizeof(*kinds));
    if (!kinds)
        return WORKLOAD_OPTIONS_NO_MEMORY;
    enum workload_options_result result = WORKLOAD_OPTIONS_FINE;
    for (int i = 0; i < count && result == WORKLOAD_OPTIONS_FINE; i++) {
        if (strcmp(words[i], "--") == 0)
            break; /* this word and all after it are plain */
        result = classify(&reader, words[i], &kinds[i]);
    }
    if (result == WORKLOAD_OPTIONS_FINE)
        result = carry_out(&reader, kinds, words, count);
    memory_release_array(memory, kinds, room, sizeof(*kinds));
    return result;
}

/* ------------------------------------------------------------------------------ help */

void workload_print_usage(FILE *stream, const char *program, enum command command)
{
    fprintf(stream, "usage: %s [-h]", program);
    for (size_t i = FLAG_STEPS; i < FLAGS; i++) {
        if (has_flag(command, (enum flag)i))
            fprintf(stream, " [%s%s%s]", TABLE[i].name, TABLE[i].placeholder ? " " : "",
                    TABLE[i].placeholder ? TABLE[i].placeholder : "");
    }
    fputc('\n', stream);
}

void workload_print_help(struct output *output, const char *program, enum command command)
{
    const struct command_info *info = command_info(command);
    output_text(output, "usage: %s [OPTION...]\n\n%s\n\n", program, info->summary);
    for (size_t i = 0; i < FLAGS; i++) {
        const char *placeholder = TABLE[i].placeholder ? TABLE[i].placeholder : "";
        if (has_flag(command, (enum flag)i))
            output_text(output, "  %s%s%s%*s%s\n", i == FLAG_HELP ? "-h, " : "", TABLE[i].name,
                        placeholder[0] != '\0' ? " " : "",
                        (int)(24 - strlen(TABLE[i].name) - (i == FLAG_HELP ? 4 : 0)), placeholder,
                        TABLE[i].meaning);
    }
    output_text(output, "\nexample:\n  %s %s\n", program,
                command == COMMAND_demo ? "--steps 30 --seed 42" : "--steps 1000 --json");
}

struct workload_option workload_option(enum command command, size_t index)
{
    for (size_t i = 0; i < FLAGS; i++) {
        if (has_flag(command, (enum flag)i) && index-- == 0)
            return (struct workload_option){TABLE[i].name, TABLE[i].placeholder, TABLE[i].meaning};
    }
    return (struct workload_option){0};
}
