/* Errors as people and programs see them: a sentence and what to do next on stderr, and with --json
 * the error as JSON on stdout. */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>

#include "client/cli/cli.h"

/* The exit status for an error. */
int report_exit(const struct worsegpu_client_error *error);

/* The sentences on stderr alone. `what` says what it is about ("alloc 4096"), NULL for nothing. */
void report_sentence(struct cli *cli, const char *what, const struct worsegpu_client_error *error);

/* The member "error":{...} on stdout, for a JSON document that is already open. */
void report_json_member(struct cli *cli, const struct worsegpu_client_error *error);

/* Both, with a JSON document of its own; returns the exit status. */
int report_error(struct cli *cli, const char *what, const struct worsegpu_client_error *error);

/* A mistake on the command line: the sentence, the advice (may be NULL), exit status 2. */
int report_usage(struct cli *cli, const char *problem, const char *advice);

/* There is no memory. */
int report_no_memory(struct cli *cli);

#endif
