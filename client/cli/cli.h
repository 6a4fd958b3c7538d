/* What every command of worsegpu-cli works with, and the exit codes. Lives as long as the program.
 */
#ifndef CLI_H
#define CLI_H

#include <stdio.h>

#include "base/worsegpu_memory.h"
#include "client/cli/arguments.h"
#include "client/worsegpu_client.h"
#include "console/output.h"

enum cli_exit {
    CLI_FINE = 0,
    CLI_REFUSED = 1,      /* the daemon said no, or what was printed could not be written */
    CLI_USAGE = 2,        /* the command line is wrong */
    CLI_NO_DAEMON = 3,    /* cannot connect, no answer in time, connection lost */
    CLI_OUT_OF_MEMORY = 4 /* out of memory, or a quota is used up */
};

enum {
    CLI_DEFAULT_TIMEOUT_MS = 30000 /* longest wait for an answer, unless --timeout says otherwise */
};

struct cli {
    const char *program; /* what complaints begin with */
    const struct worsegpu_memory *memory;
    struct output output;
    struct arguments arguments;
    int argc; /* the whole command line, for a program that starts itself again */
    char **argv;
};

/* The three programs. `memory` must outlive the call. They return the exit status. */
int cli_main(int argc, char **argv, const struct worsegpu_memory *memory, FILE *out, FILE *errors);
int demo_main(int argc, char **argv, const struct worsegpu_memory *memory, FILE *out, FILE *errors);
int benchmark_main(int argc, char **argv, const struct worsegpu_memory *memory, FILE *out,
                   FILE *errors);

/* One for each line of commands.def: does its work and returns the exit status. */
#define COMMAND(name, text, reading, operands, least, most, summary, details, example)             \
    int perform_##name(struct cli *cli);
#include "client/cli/commands.def"

/* Connects as the options say. NULL after a complaint, with *status the exit status. */
worsegpu_client *cli_connect(struct cli *cli, int *status);

/* Connects without complaining: what worsegpu_client_connect returns, or worsegpu_client_hello with
 * --name. */
int cli_try_connect(struct cli *cli, worsegpu_client **client, struct worsegpu_client_error *error);

/* The allocator asked for, NULL for the first shared one. */
const char *cli_allocator(const struct cli *cli);

/* Prints how a command is used, to `out`. */
void cli_print_help(struct cli *cli, enum command command);

#endif
