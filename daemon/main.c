/* worsegpud: serves a fake GPU that misbehaves on purpose.
 *
 * A guided tour. main.c sets up what lives as long as the daemon and takes it down again. A client
 * comes in through listener.c; transport.c knows its stream, connection.c what it may do and how
 * much, dispatch.c and the handlers what each request means. The engine (lib/) decides where memory
 * goes; the wire (proto/) knows how messages look. Nothing below transport.c knows a descriptor or
 * a clock. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <uv.h>

#include "base/bytes_text.h"
#include "base/memory.h"
#include "base/version.h"
#include "daemon/descriptors.h"
#include "daemon/listener.h"
#include "daemon/memory_budget.h"
#include "daemon/metrics_file.h"
#include "daemon/options.h"
#include "daemon/reload.h"
#include "daemon/runner.h"
#include "daemon/server.h"
#include "daemon/service.h"
#include "daemon/socket_file.h"
#include "daemon/transport.h"

enum {
    EXIT_FINE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2
};

enum {
    SIGNALS = 3,
    DESCRIPTION_SIZE = 256, /* room for one GPU in the line at the start ... */
    SHARED_SIZE = 352,      /* ... for all of them ... */
    MORE_SIZE = 32          /* ... and for how many do not fit */
};

static const int signal_numbers[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};

struct program {
    uv_loop_t loop;
    struct options options;
    struct log log;
    struct memory_budget budget;
    struct server server;
    struct transport transport;
    struct socket_file socket;
    struct listener listener;
    struct runner runner;
    struct service service;
    struct metrics_file metrics_file;
    uv_signal_t signals[SIGNALS];
    int argc; /* the command line, for when the configuration is read again */
    char **argv;
    uv_timer_t stop_deadline;
    bool stopping;
};

static void on_stopped(void *context)
{
    struct program *program = context;
    service_close(&program->service);
    metrics_file_stop(&program->metrics_file);
    uv_close((uv_handle_t *)&program->stop_deadline, NULL);
    for (size_t index = 0; index < SIGNALS; index++)
        uv_close((uv_handle_t *)&program->signals[index], NULL);
    transport_close(&program->transport);
}

static void on_stop_deadline(uv_timer_t *timer)
{
    struct program *program = timer->data;
    log_write(&program->log, LOG_LEVEL_WARNING,
              "some clients did not take their last answers in time");
    transport_abort(&program->transport);
}

/* Nobody is let in any more, what was read is answered and flushed for a while, the socket goes. */
static void stop(struct program *program)
{
    if (program->stopping)
        return;
    program->stopping = true;
    service_stopping(&program->service);
    listener_stop(&program->listener);
    socket_file_remove(&program->socket);
    uv_timer_start(&program->stop_deadline, on_stop_deadline,
                   program->options.max_stop_seconds * 1000, 0);
    transport_stop(&program->transport, on_stopped, program);
}

static void options_changed(struct program *program)
{
    transport_options_changed(&program->transport);
    metrics_file_options_changed(&program->metrics_file);
}

static void read_again(struct program *program)
{
    service_reloading(&program->service);
    if (reload(&program->server, &program->options, program->argc, program->argv))
        options_changed(program);
    service_reloaded(&program->service);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct program *program = handle->data;
    if (number == SIGHUP) {
        if (!program->stopping)
            read_again(program);
        return;
    }
    if (program->runner.running)
        runner_signal(&program->runner, number); /* it ends, and so do we */
    else
        stop(program);
}

static void on_command_ended(void *context)
{
    stop(context);
}

static void set_up_loop(struct program *program)
{
    uv_timer_init(&program->loop, &program->stop_deadline);
    program->stop_deadline.data = program;
    for (size_t index = 0; index < SIGNALS; index++) {
        uv_signal_init(&program->loop, &program->signals[index]);
        program->signals[index].data = program;
        uv_signal_start(&program->signals[index], on_signal, signal_numbers[index]);
    }
}

/* Holds our signals back (SIG_BLOCK), or lets them come (SIG_UNBLOCK). */
static void hold_signals(int how)
{
    sigset_t signals;
    sigemptyset(&signals);
    for (size_t index = 0; index < SIGNALS; index++)
        sigaddset(&signals, signal_numbers[index]);
    sigprocmask(how, &signals, NULL);
}

/* Each shared allocator in a few words; those that do not fit are counted. */
static void describe_shared(const struct server *server, char *text, size_t size)
{
    size_t length = 0;
    size_t left_out = 0;
    const struct hosted *hosted;
    TAILQ_FOREACH(hosted, &server->shared, link)
    {
        const struct worsegpu_config *config = worsegpu_configuration(hosted->engine);
        char capacity[BYTES_TEXT_SIZE];
        char one[DESCRIPTION_SIZE];
        bytes_to_text(config->gpu_capacity, false, capacity);
        int needed = snprintf(one, sizeof(one), "%s%s (%s, %s, seed %.40s)", length ? ", " : "",
                              hosted->name, config->policy, capacity, config->seed);
        if (left_out || needed < 0 || length + (size_t)needed + MORE_SIZE > size) {
            left_out++;
            continue;
        }
        memcpy(text + length, one, (size_t)needed + 1);
        length += (size_t)needed;
    }
    if (left_out)
        snprintf(text + length, size - length, " and %zu more", left_out);
}

static void log_start(struct program *program)
{
    char shared[SHARED_SIZE];
    describe_shared(&program->server, shared, sizeof(shared));
    log_write(&program->log, LOG_LEVEL_INFO, "%s serves %s on %s", WORSEGPU_VERSION, shared,
              program->socket.path);
    if (program->server.max_connections < program->options.max_connections)
        log_write(&program->log, LOG_LEVEL_WARNING,
                  "room for %" PRIu64 " connections instead of %" PRIu64
                  ": raise the limit of open files (ulimit -n)",
                  program->server.max_connections, program->options.max_connections);
}

/* The socket's path: given, private for --run, or the default. 0, or 1 with `message`. */
static int find_path(struct program *program, char path[SOCKET_WISH_SIZE],
                     char message[SOCKET_MESSAGE_SIZE])
{
    if (*program->options.socket) {
        snprintf(path, SOCKET_WISH_SIZE, "%s", program->options.socket);
        return 0;
    }
    if (program->options.run)
        return runner_prepare(&program->runner, path, message);
    return socket_file_default(path, message);
}

/* The socket to serve on: one that a service manager handed over, or one of our own. 0, or 1 with
 * `message`. */
static int open_socket(struct program *program, char message[SOCKET_MESSAGE_SIZE])
{
    char path[SOCKET_WISH_SIZE];
    switch (service_take_socket(&program->socket, program->options.socket, message)) {
    case SERVICE_SOCKET_TAKEN:
        return 0;
    case SERVICE_SOCKET_WRONG:
        return 1;
    case SERVICE_SOCKET_NONE:
        break;
    }
    if (find_path(program, path, message) != 0)
        return 1;
    return socket_file_open(&program->socket, path, message);
}

/* Serves until it is told to stop. The exit status. */
static int serve(struct program *program)
{
    char message[SOCKET_MESSAGE_SIZE];
    hold_signals(SIG_BLOCK); /* else one that comes before its handler would leave files behind */
    if (open_socket(program, message) != 0) {
        log_write(&program->log, LOG_LEVEL_ERROR, "%s", message);
        runner_clean(&program->runner);
        return EXIT_FAILED;
    }
    int status = transport_init(&program->transport, &program->loop, &program->server);
    set_up_loop(program);
    service_init(&program->service, &program->loop, &program->server);
    int file_status = metrics_file_init(&program->metrics_file, &program->transport);
    if (status == 0)
        status = file_status;
    hold_signals(SIG_UNBLOCK);
    if (status == 0)
        status = listener_start(&program->listener, &program->loop, program->socket.descriptor,
                                &program->transport);
    int exit_status = EXIT_FINE;
    if (status != 0) {
        log_write(&program->log, LOG_LEVEL_ERROR, "cannot serve: %s", uv_strerror(status));
        exit_status = EXIT_FAILED;
        stop(program);
    } else {
        log_start(program);
        service_ready(&program->service);
        metrics_file_start(&program->metrics_file);
        if (program->options.run &&
            runner_start(&program->runner, &program->loop, program->options.run,
                         program->socket.path, on_command_ended, program, message) != 0) {
            log_write(&program->log, LOG_LEVEL_ERROR, "%s", message);
            stop(program);
        }
    }
    uv_run(&program->loop, UV_RUN_DEFAULT);
    metrics_file_release(&program->metrics_file);
    if (program->options.run && exit_status == EXIT_FINE)
        exit_status = program->runner.status;
    log_write(&program->log, LOG_LEVEL_INFO, "stopped");
    runner_clean(&program->runner);
    return exit_status;
}

/* For how long requests take. */
static uint64_t clock_ns(void *context)
{
    (void)context;
    return uv_hrtime();
}

/* From the options to the end. The exit status. */
static int run(struct program *program)
{
    char message[SOCKET_MESSAGE_SIZE];
    log_init(&program->log, stderr, options_log_level(&program->options));
    program->log.journal = log_is_journal(STDERR_FILENO, getenv("JOURNAL_STREAM"));
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that must not grow is a failed write, not the end */
    int loop_status = uv_translate_sys_error(descriptors_probe());
    if (loop_status == 0)
        loop_status = uv_loop_init(&program->loop);
    if (loop_status != 0) {
        log_write(&program->log, LOG_LEVEL_ERROR, "cannot make an event loop: %s",
                  uv_strerror(loop_status));
        return EXIT_FAILED;
    }
    memory_budget_init(&program->budget, memory_system(), program->options.max_memory_bytes);
    program->transport.loop = &program->loop;
    int status =
        server_init(&program->server, &program->options, &program->budget.memory, &program->log,
                    transport_now(&program->transport), message, sizeof(message));
    int exit_status;
    if (status != WORSEGPU_OK) {
        log_write(&program->log, LOG_LEVEL_ERROR, "%s", message);
        exit_status = status == WORSEGPU_INVALID_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
    } else {
        program->server.budget = &program->budget;
        program->server.counts.now_ns = clock_ns;
        program->server.pid = getpid();
        program->server.uid = geteuid();
        program->server.max_connections = descriptors_reserve(program->options.max_connections);
        exit_status = serve(program);
        server_release(&program->server);
    }
    uv_loop_close(&program->loop);
    return exit_status;
}

int main(int argc, char **argv)
{
    static struct program program;
    char message[OPTIONS_MESSAGE_SIZE];
    program.argc = argc;
    program.argv = argv;
    switch (options_read(&program.options, memory_system(), argc, argv, message)) {
    case OPTIONS_NO_MEMORY:
        fputs("worsegpud: out of memory\n", stderr);
        return EXIT_FAILED;
    case OPTIONS_WRONG:
        fprintf(stderr, "worsegpud: %s\n", message);
        return EXIT_USAGE;
    case OPTIONS_FINE:
        break;
    }
    int exit_status = EXIT_FINE;
    if (program.options.help)
        options_help(stdout);
    else if (program.options.version)
        printf("worsegpud %s\n", WORSEGPU_VERSION);
    else
        exit_status = run(&program);
    options_release(&program.options);
    return fflush(stdout) == 0 ? exit_status : EXIT_FAILED;
}
