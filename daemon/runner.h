/* `worsegpud --run COMMAND`: a command that lives inside a daemon of its own.
 *
 * The daemon serves on a socket in a private folder, the command finds it in WORSEGPU_SOCKET, and
 * when the command ends the daemon ends with its status. Nothing is left behind. */
#ifndef RUNNER_H
#define RUNNER_H

#include <stdbool.h>

#include <uv.h>

enum {
    RUNNER_PATH_SIZE = 108,
    RUNNER_MESSAGE_SIZE = 512
};

struct runner {
    uv_process_t process;
    bool running;
    int status; /* the command's exit status; 128 + N when signal N ended it */
    void (*ended)(void *context);
    void *context;
    char folder[RUNNER_PATH_SIZE];
};

/* Makes the private folder ($XDG_RUNTIME_DIR, else $TMPDIR, else /tmp) and writes the socket's path
 * in it. 0, or 1 with `message`. */
int runner_prepare(struct runner *runner, char path[RUNNER_PATH_SIZE],
                   char message[RUNNER_MESSAGE_SIZE]);

/* Starts the command with WORSEGPU_SOCKET=path. 0, or 1 with `message`; runner->status is then what
 * a shell would end with: 127 when there is no such command, 126 when it cannot be run. */
int runner_start(struct runner *runner, uv_loop_t *loop, char **command, const char *path,
                 void (*ended)(void *context), void *context, char message[RUNNER_MESSAGE_SIZE]);

/* Passes a signal on to the command. */
void runner_signal(struct runner *runner, int signal);

/* Removes the private folder, which must be empty by then. */
void runner_clean(struct runner *runner);

#endif
