/* The command line of worsegpu-cli, read by the table of commands.def. Nothing here prints. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/cli/commands.h"

#define OPTION_C_FLAG bool
#define OPTION_C_TEXT const char *
#define OPTION_C_COUNT uint64_t
#define OPTION_C_SECONDS uint64_t /* in milliseconds */

/* A field for each option; only those with their bit in `given` count. */
struct option_values {
#define OPTION(name, text, type, placeholder, meaning) OPTION_C_##type name;
#include "client/cli/commands.def"
};

enum {
    ARGUMENTS_PROBLEM_SIZE = 512 /* room for a sentence about a wrong command line */
};

struct arguments {
    enum command command; /* COMMANDS: none was given */
    uint32_t given;       /* bit 1 << OPTION_x */
    struct option_values values;
    const char **operands; /* the caller's array, room for argc */
    size_t operand_count;
    char **own; /* of a command that reads by its own rules: what follows its name */
    int own_count;
    char problem[ARGUMENTS_PROBLEM_SIZE]; /* why it was refused */
    char advice[ARGUMENTS_PROBLEM_SIZE];  /* what to do next */
};

/* Reads argv[1] and on. `operands` has room for argc texts. 0, or 1 with `problem` and `advice`;
 * the options before the mistake are read then, so that --json counts for the error as well. */
int arguments_read(struct arguments *arguments, int argc, char **argv, const char **operands);

static inline bool arguments_have(const struct arguments *arguments, enum option option)
{
    return (arguments->given >> option & 1u) != 0;
}

#endif
