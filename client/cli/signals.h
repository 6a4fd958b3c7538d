/* Waiting for Ctrl-C beside other things: SIGINT and SIGTERM as a descriptor. The state is the
 * process's own signal mask; open and close belong together. */
#ifndef SIGNALS_H
#define SIGNALS_H

#include <signal.h>

/* A descriptor that reads SIGINT and SIGTERM, which no longer end the program. -1 with errno. */
int signals_open(sigset_t *before);

/* Takes the signals that came, so that they do not strike when they are no longer blocked. */
void signals_close(int signals, const sigset_t *before);

#endif
