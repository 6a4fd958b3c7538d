/* `worsegpud --run COMMAND`; see runner.h. */
#include "daemon/runner.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

static const char variable[] = "WORSEGPU_SOCKET=";

static const char *private_parent(void)
{
    static const char *const variables[] = {"XDG_RUNTIME_DIR", "TMPDIR"};
    for (size_t index = 0; index < sizeof(variables) / sizeof(variables[0]); index++) {
        const char *folder = getenv(variables[index]);
        if (folder && *folder && access(folder, W_OK | X_OK) == 0)
            return folder;
    }
    return "/tmp";
}

int runner_prepare(struct runner *runner, char path[RUNNER_PATH_SIZE],
                   char message[RUNNER_MESSAGE_SIZE])
{
    memset(runner, 0, sizeof(*runner));
    const char *parent = private_parent();
    int length = snprintf(runner->folder, sizeof(runner->folder), "%s/worsegpu-XXXXXX", parent);
    if (length < 0 || (size_t)length + sizeof("/socket.lock") > sizeof(runner->folder)) {
        snprintf(message, RUNNER_MESSAGE_SIZE,
                 "the path of the temporary folder %.200s is too long for a socket in it; set "
                 "TMPDIR to a shorter one",
                 parent);
        runner->folder[0] = '\0';
        return 1;
    }
    if (!mkdtemp(runner->folder)) {
        snprintf(message, RUNNER_MESSAGE_SIZE, "cannot make a folder in %.200s: %s", parent,
                 strerror(errno));
        runner->folder[0] = '\0';
        return 1;
    }
    memcpy(path, runner->folder, (size_t)length);
    memcpy(path + length, "/socket", sizeof("/socket"));
    return 0;
}

static void on_exit_of_command(uv_process_t *process, int64_t status, int signal)
{
    struct runner *runner = process->data;
    runner->running = false;
    runner->status = signal ? 128 + signal : (int)status;
    uv_close((uv_handle_t *)process, NULL);
    runner->ended(runner->context);
}

/* The environment with WORSEGPU_SOCKET set, an array of `size` texts. NULL without memory; `entry`
 * must outlive it. */
static char **make_environment(char *entry, size_t *size)
{
    size_t count = 0;
    size_t kept = 0;
    while (environ[count])
        count++;
    *size = count + 2;
    char **environment = memory_allocate_zeroed(memory_system(), *size, sizeof(*environment));
    if (!environment)
        return NULL;
    for (size_t index = 0; index < count; index++)
        if (strncmp(environ[index], variable, sizeof(variable) - 1) != 0)
            environment[kept++] = environ[index];
    environment[kept] = entry;
    return environment;
}

int runner_start(struct runner *runner, uv_loop_t *loop, char **command, const char *path,
                 void (*ended)(void *context), void *context, char message[RUNNER_MESSAGE_SIZE])
{
    char entry[sizeof(variable) + RUNNER_PATH_SIZE];
    uv_stdio_container_t streams[3];
    snprintf(entry, sizeof(entry), "%s%s", variable, path);
    for (int number = 0; number < 3; number++)
        streams[number] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = number};
    size_t size;
    char **environment = make_environment(entry, &size);
    int status = UV_ENOMEM;
    runner->ended = ended;
    runner->context = context;
    runner->process.data = runner;
    if (environment) {
        uv_process_options_t options = {.exit_cb = on_exit_of_command,
                                        .file = command[0],
                                        .args = command,
                                        .env = environment,
                                        .stdio_count = 3,
                                        .stdio = streams};
        status = uv_spawn(loop, &runner->process, &options);
        memory_release_array(memory_system(), environment, size, sizeof(*environment));
        if (status != 0)
            uv_close((uv_handle_t *)&runner->process, NULL);
    }
    runner->running = status == 0;
    if (status == 0)
        return 0;
    runner->status = status == UV_ENOENT ? 127 : 126;
    snprintf(message, RUNNER_MESSAGE_SIZE, "cannot run %.200s: %s", command[0],
             uv_strerror(status));
    return 1;
}

void runner_signal(struct runner *runner, int signal)
{
    if (runner->running)
        uv_process_kill(&runner->process, signal);
}

void runner_clean(struct runner *runner)
{
    if (runner->folder[0])
        rmdir(runner->folder);
    runner->folder[0] = '\0';
}
