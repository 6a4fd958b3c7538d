/* The options of demo and benchmark, read by the rules of Python's argparse, because people bring
 * their command lines along: prefixes, --option=value, words that look like negative numbers, an
 * ambiguous prefix reported before anything else, unknown words after everything else. */
#ifndef WORKLOAD_OPTIONS_H
#define WORKLOAD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/worsegpu_memory.h"
#include "client/cli/commands.h"
#include "client/cli/python_numbers.h"
#include "console/output.h"

enum {
    WORKLOAD_MAX_STEPS = 100000,
    WORKLOAD_MAX_DELAY = 60, /* seconds */
    WORKLOAD_PROBLEM_SIZE = 768
};

struct workload_options {
    uint64_t steps;
    char seed[PYTHON_INTEGER_SIZE]; /* as Python prints it */
    double delay;                   /* seconds after each step of the demo */
    uint64_t capacity;              /* bytes of the benchmark's GPUs */
    bool json;
};

enum workload_options_result {
    WORKLOAD_OPTIONS_NO_MEMORY = -1,
    WORKLOAD_OPTIONS_FINE = 0,
    WORKLOAD_OPTIONS_REFUSED = 1, /* `problem` says why */
    WORKLOAD_OPTIONS_HELP = 2     /* help was asked for, and nothing before it was wrong */
};

/* `command` is COMMAND_demo or COMMAND_benchmark; `words` are the `count` that follow its name. */
enum workload_options_result workload_options_read(struct workload_options *options,
                                                   enum command command, int count,
                                                   char *const *words,
                                                   const struct worsegpu_memory *memory,
                                                   char problem[WORKLOAD_PROBLEM_SIZE]);

/* The options for papers and completion: index 0, 1, ...; name NULL after the last. */
struct workload_option {
    const char *name;        /* with its dashes */
    const char *placeholder; /* NULL: takes no value */
    const char *meaning;
};
struct workload_option workload_option(enum command command, size_t index);

/* The usage line, with a line end. */
void workload_print_usage(FILE *stream, const char *program, enum command command);

void workload_print_help(struct output *output, const char *program, enum command command);

#endif
