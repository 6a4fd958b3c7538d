/* SIGINT and SIGTERM as a descriptor; see signals.h. */
#include "client/cli/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

int signals_open(sigset_t *before)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (sigprocmask(SIG_BLOCK, &set, before) < 0)
        return -1;
    int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        sigprocmask(SIG_SETMASK, before, NULL);
    return signals;
}

void signals_close(int signals, const sigset_t *before)
{
    struct signalfd_siginfo taken;
    while (read(signals, &taken, sizeof(taken)) > 0)
        continue;
    close(signals);
    sigprocmask(SIG_SETMASK, before, NULL);
}
