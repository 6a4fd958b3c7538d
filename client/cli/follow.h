/* trace --follow: events as they happen, until Ctrl-C. */
#ifndef FOLLOW_H
#define FOLLOW_H

#include "client/cli/cli.h"

/* Subscribes and prints until SIGINT or SIGTERM (CLI_FINE) or until the daemon goes away. */
int follow(struct cli *cli);

#endif
