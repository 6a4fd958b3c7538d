/* An allocation on the command line, and the stream it is about. No state. */
#ifndef HANDLE_OPERAND_H
#define HANDLE_OPERAND_H

#include "client/cli/cli.h"

/* The handle that an operand is, or, of a bare number, that `list` knows for it: then it lies in
 * `found`. A client's status, with the error. */
int handle_operand(struct cli *cli, worsegpu_client *client, const char *typed,
                   char found[WORSEGPU_CLIENT_HANDLE_SIZE], const char **handle,
                   struct worsegpu_client_error *error);

/* Whether --stream, if given, is a stream. false after a complaint, with *status the exit status.
 */
bool stream_option_is_fine(struct cli *cli, int *status);

#endif
