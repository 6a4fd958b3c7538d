/* What a SIGHUP does: reads the configuration again, whole or not at all, and changes what can
 * change while the daemon runs.
 *
 * options.def says for each option whether it can. What cannot is named in the log and stays, as do
 * the GPUs themselves and their order. A lowered limit takes nothing away from anybody: it only
 * refuses what is new. Reads a file and asks for a group, so the loop stands still that long. */
#ifndef RELOAD_H
#define RELOAD_H

#include <stdbool.h>

#include "daemon/server.h"

/* Reads the file that `options` (the server's) name, and the command line over it. One line in the
 * log says what has changed, or what was wrong: then nothing has. After it the configuration is in
 * force again, also where a `resize` had changed a capacity. false when nothing was read; else
 * those who keep something of an option (transport.h) must be told. */
bool reload(struct server *server, struct options *options, int argc, char **argv);

#endif
