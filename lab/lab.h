/* What every command of worsegpu-lab works with, and the exit codes. Lives as long as the program.
 */
#ifndef LAB_H
#define LAB_H

#include <stdio.h>

#include "base/worsegpu_memory.h"
#include "console/output.h"
#include "lab/commands.h"
#include "lab/events.h"
#include "proto/json_writer.h"

enum lab_exit {
    LAB_FINE = 0,
    LAB_BAD = 1, /* a mismatch, a log that is not what it says, or output that cannot be written */
    LAB_USAGE = 2, /* the command line is wrong */
    LAB_FILE = 3,  /* a file cannot be read or written */
    LAB_MEMORY = 4 /* out of memory */
};

enum {
    LAB_NUMBER_SIZE = 28 /* of a number with its commas */
};

/* A line on the terminal that says how far long work is: after a second, then five times a second,
 * and never where standard error is no terminal. */
struct lab_progress {
    bool wanted;
    bool shown;
    uint64_t started_ms;
    uint64_t shown_ms;
};

struct lab {
    const struct worsegpu_memory *memory;
    struct output output;
    struct command_line line;
    struct lab_progress progress;
    const char *doing; /* what the progress line says */
};

/* The program. `memory` must outlive the call. It returns the exit status. */
int lab_main(int argc, char **argv, const struct worsegpu_memory *memory, FILE *out, FILE *errors);

/* One for each line of commands.def: does its work and returns the exit status. */
#define COMMAND(name, operands, least, most, summary, details, example)                            \
    int perform_##name(struct lab *lab);
#include "lab/commands.def"

static inline bool lab_has(const struct lab *lab, enum lab_option option)
{
    return command_line_has(&lab->line, (size_t)option);
}

/* An error: a complaint, with --json also {"error":{...}}. They return the exit status; `advice`
 * may be NULL. */
int lab_usage(struct lab *lab, const char *problem, const char *advice);
int lab_error(struct lab *lab, enum lab_exit exit, const char *kind, const char *problem);
int lab_no_memory(struct lab *lab);
/* A file that could not be opened for writing, or written; `failure` is an errno. `name` NULL is
 * standard output, where a reader that went away is told nothing more. */
int lab_not_written(struct lab *lab, const char *name, int failure);
/* Of reading a log: status is a log_status that is not LOG_FINE. */
int lab_log_error(struct lab *lab, const char *name, int status, const struct log_problem *problem);
/* The same as a sentence, without printing; the exit status. */
enum lab_exit lab_log_exit(int status);

/* Reads the log that the operand and the options name. LAB_FINE, or the exit status after a
 * complaint. */
int lab_read_log(struct lab *lab, struct events **events);
/* The format of --format: LAB_FINE with *format (NULL: by content), or after a complaint. */
int lab_format(struct lab *lab, const struct log_format **format);

/* How far it is: `done` of 0 to 1, negative where that is not known. */
void lab_show_progress(struct lab *lab, double done);
void lab_hide_progress(struct lab *lab);

/* Prints what was written and a line end, and gives the writer back. The exit status. */
int lab_print_json(struct lab *lab, struct json_writer *writer);
void lab_begin_json(struct lab *lab, struct json_writer *writer);

/* A member with a text that may be any bytes (names of files): what is no UTF-8 becomes '?'. */
void lab_member_foreign(struct json_writer *writer, const char *name, const char *text);

/* "1,234,567" */
const char *lab_number(uint64_t number, char text[LAB_NUMBER_SIZE]);

#endif
