/* What to type when no daemon answers. No state. */
#ifndef NO_DAEMON_H
#define NO_DAEMON_H

#include <stdbool.h>

enum {
    NO_DAEMON_ADVICE_SIZE = 512
};

/* One line of advice: the command that starts a daemon, or how to be let in where the socket of the
 * system's daemon is there but not for this user. `given` is the path that was asked for with
 * --socket or WORSEGPU_SOCKET (NULL: none); `by_option` says that it was --socket. `root` is what
 * stands before the system's paths: "" but in tests. */
void no_daemon_advice(const char *given, bool by_option, const char *root,
                      char advice[NO_DAEMON_ADVICE_SIZE]);

#endif
