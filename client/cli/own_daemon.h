/* Starting a daemon for this one run, when there is none around. No state. */
#ifndef OWN_DAEMON_H
#define OWN_DAEMON_H

#include "client/cli/cli.h"

/* Whether the user left it to us where the daemon is. */
bool own_daemon_is_allowed(const struct cli *cli);

/* Replaces this program by `worsegpud --run` with this very command line: the daemon serves on a
 * private socket, runs the command again with WORSEGPU_SOCKET set, and ends with its status, so
 * that nothing is left running. Returns only when that fails, with the exit status; `error` says
 * why nobody answered. */
int own_daemon_start(struct cli *cli, const struct worsegpu_client_error *error);

#endif
