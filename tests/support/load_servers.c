/* The servers of the benches; see load_servers.h. */
#include "tests/support/load_servers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <uv.h>

#include "tests/support/bench_client.h"

enum {
    MOST_ARGUMENTS = 40,
    ECHO_BUFFER_BYTES = 65536,
    ECHO_BACKLOG = 1024
};

uint64_t load_raise_open_files(uint64_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        bench_fail("getrlimit");
    if (limit.rlim_cur < wanted) {
        struct rlimit higher = {wanted, wanted > limit.rlim_max ? wanted : limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &higher) != 0) {
            higher.rlim_cur = higher.rlim_max = limit.rlim_max;
            setrlimit(RLIMIT_NOFILE, &higher);
        }
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    return limit.rlim_cur;
}

static struct load_server named(const char *name, enum load_kind kind, const char *folder)
{
    struct load_server server = {.name = name, .kind = kind};
    /* Sockets are told apart by a number: a name may have blanks. */
    static unsigned number;
    snprintf(server.path, sizeof(server.path), "%s/%u", folder, number++);
    return server;
}

/* Starts a program; false when there is none of that name. A pipe tells, which starting it closes.
 */
static bool start(struct load_server *server, const char *program, const char *const *arguments)
{
    int failed[2];
    char byte = 0;
    if (pipe2(failed, O_CLOEXEC) != 0)
        bench_fail("pipe2");
    server->pid = fork();
    if (server->pid < 0)
        bench_fail("fork");
    if (server->pid == 0) {
        execvp(program, (char *const *)arguments);
        (void)!write(failed[1], &byte, 1);
        _exit(127);
    }
    close(failed[1]);
    bool started = read(failed[0], &byte, 1) == 0;
    close(failed[0]);
    if (!started)
        waitpid(server->pid, NULL, 0);
    return started;
}

struct load_server load_start_daemon(const char *name, enum load_kind kind, const char *folder,
                                     const char *const *options)
{
    const char *build = getenv("WORSEGPU_BUILD");
    char program[512];
    struct load_server server = named(name, kind, folder);
    snprintf(program, sizeof(program), "%s/worsegpud", build && *build ? build : "build");
    const char *arguments[MOST_ARGUMENTS] = {program,
                                             "--socket",
                                             server.path,
                                             "--seed",
                                             "7",
                                             "--log-level=warning",
                                             "--max-connections=100000",
                                             "--max-connections-per-user=100000",
                                             "--max-memory-bytes=4000000000"};
    size_t count = 9;
    while (options && *options && count + 1 < MOST_ARGUMENTS)
        arguments[count++] = *options++;
    if (!start(&server, program, arguments))
        bench_fail(program);
    return server;
}

bool load_start_redis(const char *folder, struct load_server *server)
{
    *server = named("redis INCR", LOAD_INCR, folder);
    const char *arguments[] = {"redis-server",
                               "--port",
                               "0",
                               "--unixsocket",
                               server->path,
                               "--save",
                               "",
                               "--appendonly",
                               "no",
                               "--maxclients",
                               "100000",
                               "--loglevel",
                               "warning",
                               "--logfile",
                               "/dev/null",
                               "--dir",
                               folder,
                               NULL};
    /* Debian's package redis-tools has the server under another name, without the service that
     * comes with redis-server; which of the two it is, it sees by how it is called. */
    return start(server, "redis-server", arguments) || start(server, "redis-check-rdb", arguments);
}

/* ---------------------------------------------------------------------------------- the echo */

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    static char shared[ECHO_BUFFER_BYTES];
    (void)handle;
    (void)suggested;
    *buffer = uv_buf_init(shared, sizeof(shared));
}

/* The client reads what it asked for before it asks for more: all fits into the socket's buffer. */
static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    if (count == 0)
        return;
    if (count > 0) {
        uv_buf_t back = uv_buf_init(buffer->base, (unsigned)count);
        if (uv_try_write(stream, &back, 1) == count)
            return;
    }
    uv_close((uv_handle_t *)stream, on_closed);
}

static void on_connection(uv_stream_t *listening, int status)
{
    uv_pipe_t *pipe = status == 0 ? malloc(sizeof(*pipe)) : NULL;
    if (!pipe)
        _exit(1);
    uv_pipe_init(listening->loop, pipe, 0);
    if (uv_accept(listening, (uv_stream_t *)pipe) != 0 ||
        uv_read_start((uv_stream_t *)pipe, give_buffer, on_read) != 0)
        uv_close((uv_handle_t *)pipe, on_closed);
}

static void serve_echo(const char *path)
{
    uv_loop_t loop;
    uv_pipe_t listening;
    if (uv_loop_init(&loop) != 0 || uv_pipe_init(&loop, &listening, 0) != 0 ||
        uv_pipe_bind(&listening, path) != 0 ||
        uv_listen((uv_stream_t *)&listening, ECHO_BACKLOG, on_connection) != 0)
        _exit(1);
    uv_run(&loop, UV_RUN_DEFAULT);
    _exit(1);
}

struct load_server load_start_echo(const char *folder)
{
    struct load_server server = named("echo", LOAD_ECHO, folder);
    server.pid = fork();
    if (server.pid < 0)
        bench_fail("fork");
    if (server.pid == 0)
        serve_echo(server.path);
    return server;
}

/* ------------------------------------------------------------------------------ all of them */

void load_wait_for(const struct load_server *server)
{
    close(bench_connect(server->path));
}

void load_server_stop(struct load_server *server)
{
    kill(server->pid, SIGTERM);
    while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    unlink(server->path);
    server->pid = 0;
}

uint64_t load_server_memory(const struct load_server *server)
{
    char path[64];
    char line[256];
    uint64_t bytes = 0;
    snprintf(path, sizeof(path), "/proc/%ld/smaps_rollup", (long)server->pid);
    FILE *file = fopen(path, "r");
    if (!file)
        bench_fail(path);
    while (fgets(line, sizeof(line), file)) {
        if (strncmp(line, "Private_Dirty:", 14) == 0 || strncmp(line, "Private_Clean:", 14) == 0)
            bytes += strtoull(line + 14, NULL, 10) * 1024;
    }
    fclose(file);
    return bytes;
}

pid_t load_start_subscriber(const struct load_server *server)
{
    static const char subscribe[] = "{\"id\":1,\"method\":\"subscribe\"}\n";
    static char buffer[262144];
    int client = bench_connect(server->path);
    bench_send(client, subscribe, sizeof(subscribe) - 1);
    bench_read_answers(client, 1);
    pid_t pid = fork();
    if (pid < 0)
        bench_fail("fork");
    while (pid == 0)
        if (read(client, buffer, sizeof(buffer)) <= 0)
            _exit(0);
    close(client);
    return pid;
}
