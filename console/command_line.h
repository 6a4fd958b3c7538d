/* A command line of the form PROGRAM COMMAND [OPTION...] [OPERAND...], read by a table, and its
 * help written from the same table. */
#ifndef COMMAND_LINE_H
#define COMMAND_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "console/output.h"

enum command_option_type {
    COMMAND_OPTION_FLAG,
    COMMAND_OPTION_TEXT,
    COMMAND_OPTION_TEXTS, /* may be given several times */
    COMMAND_OPTION_COUNT, /* a whole number */
    COMMAND_OPTION_BYTES  /* 4096, 2MiB, 1.5GiB */
};

struct command_option {
    const char *name; /* without the dashes */
    enum command_option_type type;
    const char *placeholder;
    const char *meaning;
};

struct command_entry {
    const char *name;
    const char *operands;
    size_t least; /* operands */
    size_t most;
    const char *summary;
    const char *details; /* lines, without the last line end; may be empty */
    const char *example; /* lines as well */
};

/* Which command takes which option. */
struct command_takes {
    size_t command;
    size_t option;
};

struct command_table {
    const char *program;
    const char *about; /* one sentence */
    const char *exits; /* what the exit status says, lines */
    const struct command_option *options;
    size_t option_count; /* at most COMMAND_LINE_OPTIONS */
    uint64_t globals;    /* bit 1 << option: every command takes it, before or after its name */
    size_t help;         /* the option --help, for which -h is short */
    const struct command_entry *commands;
    size_t command_count; /* at most COMMAND_LINE_COMMANDS */
    const struct command_takes *takes;
    size_t takes_count;
};

enum {
    COMMAND_LINE_OPTIONS = 64,
    COMMAND_LINE_COMMANDS = 32,
    COMMAND_LINE_PROBLEM_SIZE = 512
};

struct command_line {
    size_t command; /* command_count of the table: none was given */
    uint64_t given; /* bit 1 << option */
    union {
        bool flag;
        const char *text;
        uint64_t number;
    } values[COMMAND_LINE_OPTIONS]; /* only those that are given count */
    const char **operands;
    size_t operand_count;
    const char **texts;   /* of the options that may be repeated, in order */
    size_t *text_options; /* which option each is of */
    size_t text_count;
    char problem[COMMAND_LINE_PROBLEM_SIZE];
    char advice[COMMAND_LINE_PROBLEM_SIZE];
};

/* Reads argv[1] and on. `operands`, `texts` and `text_options` have room for argc items each. 0, or
 * 1 with `problem` and `advice`; the options before the mistake are read then. */
int command_line_read(struct command_line *line, const struct command_table *table, int argc,
                      char **argv, const char **operands, const char **texts, size_t *text_options);

/* The text with number `index`, from 0, of an option that may be repeated; NULL after the last. */
const char *command_line_text(const struct command_line *line, size_t option, size_t index);

static inline bool command_line_has(const struct command_line *line, size_t option)
{
    return (line->given >> option & 1u) != 0;
}

/* The command of this name; command_count when there is none, with the nearest one in *nearest
 * (NULL: none is near). */
size_t command_line_find(const struct command_table *table, const char *name, const char **nearest);

/* All commands and global options; one command in full. */
void command_line_overview(const struct command_table *table, struct output *output);
void command_line_help(const struct command_table *table, struct output *output, size_t command);

#endif
