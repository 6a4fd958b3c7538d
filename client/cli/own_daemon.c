/* A daemon of our own; see own_daemon.h. */
#include "client/cli/own_daemon.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "client/cli/report.h"

#define DAEMON "worsegpud"

bool own_daemon_is_allowed(const struct cli *cli)
{
    const char *given = getenv("WORSEGPU_SOCKET");
    return !cli->arguments.values.socket && !(given && given[0] != '\0');
}

/* The running program. false when the system does not tell. */
static bool find_self(char path[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
    if (length <= 0 || length >= PATH_MAX)
        return false;
    path[length] = '\0';
    return true;
}

static bool is_program(const char *path)
{
    return access(path, X_OK) == 0;
}

/* Beside the running program, or where an installation puts it. */
static bool find_beside(const char *self, char path[PATH_MAX])
{
    static const char *const PLACES[] = {"/" DAEMON, "/../sbin/" DAEMON, "/../bin/" DAEMON};
    const char *slash = strrchr(self, '/');
    int folder = slash ? (int)(slash - self) : 0;
    for (size_t i = 0; i < sizeof(PLACES) / sizeof(PLACES[0]); i++) {
        int length = snprintf(path, PATH_MAX, "%.*s%s", folder, self, PLACES[i]);
        if (length > 0 && length < PATH_MAX && is_program(path))
            return true;
    }
    return false;
}

static bool find_in_path(char path[PATH_MAX])
{
    const char *folder = getenv("PATH");
    while (folder && folder[0] != '\0') {
        size_t bytes = strcspn(folder, ":");
        int length = snprintf(path, PATH_MAX, "%.*s/" DAEMON, (int)bytes, folder);
        /* An empty folder means the current one: a program is not taken from there. */
        if (bytes > 0 && length > 0 && length < PATH_MAX && is_program(path))
            return true;
        folder += bytes + (folder[bytes] == ':' ? 1 : 0);
    }
    return false;
}

static int not_found(struct cli *cli, const struct worsegpu_client_error *error)
{
    if (cli->output.json) {
        output_text(&cli->output, "{");
        report_json_member(cli, error);
        output_text(&cli->output, "}\n");
    }
    output_complaint(&cli->output, cli->program, "%s, and there is no " DAEMON " to start",
                     error->message);
    output_advice(&cli->output,
                  "install worsegpu as a whole (make install), or put the folder of " DAEMON
                  " into PATH");
    return CLI_NO_DAEMON;
}

int own_daemon_start(struct cli *cli, const struct worsegpu_client_error *error)
{
    char self[PATH_MAX];
    char daemon[PATH_MAX];
    if (!find_self(self) || !(find_beside(self, daemon) || find_in_path(daemon)))
        return not_found(cli, error);
    size_t given = cli->argc > 1 ? (size_t)cli->argc - 1 : 0;
    size_t count = given + 4; /* daemon, --run, self, ..., NULL */
    char run[] = "--run";
    char **command = memory_allocate_array(cli->memory, count, sizeof(*command));
    if (!command)
        return report_no_memory(cli);
    command[0] = daemon;
    command[1] = run;
    command[2] = self;
    for (size_t i = 0; i < given; i++)
        command[3 + i] = cli->argv[1 + i];
    command[count - 1] = NULL;
    output_flush(&cli->output);
    signal(SIGPIPE, SIG_DFL); /* ignored signals stay ignored through exec */
    execv(daemon, command);
    output_complaint(&cli->output, cli->program, "cannot start %s: %s", daemon,
                     strerrordesc_np(errno));
    memory_release_array(cli->memory, command, count, sizeof(*command));
    return CLI_NO_DAEMON;
}
