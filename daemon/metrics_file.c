/* The metrics in a file; see metrics_file.h. */
#include "daemon/metrics_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "daemon/metrics.h"

enum {
    FILE_MODE = 0644 /* whatever the umask: the collector is another user */
};

/* ------------------------------------------------------------------------------ in the thread */

/* All of these: 0, or a libuv error. */
static int failure(void)
{
    return uv_translate_sys_error(errno);
}

static int open_beside(const struct metrics_file *file, int *descriptor)
{
    do
        *descriptor =
            open(file->beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    while (*descriptor < 0 && errno == EINTR);
    return *descriptor < 0 ? failure() : 0;
}

static int write_text(const struct metrics_text *text, int descriptor)
{
    if (fchmod(descriptor, FILE_MODE) != 0)
        return failure();
    for (size_t done = 0; done < text->length;) {
        ssize_t count = write(descriptor, text->bytes + done, text->length - done);
        if (count < 0 && errno != EINTR)
            return failure();
        done += count < 0 ? 0 : (size_t)count;
    }
    return 0;
}

static int put_in_place(const struct metrics_file *file)
{
    int descriptor;
    int problem = open_beside(file, &descriptor);
    if (problem)
        return problem;
    problem = write_text(&file->text, descriptor);
    /* Interrupted, it is closed all the same. */
    if (close(descriptor) != 0 && errno != EINTR && !problem)
        problem = failure();
    if (!problem && rename(file->beside, file->path) != 0)
        problem = failure();
    if (problem)
        unlink(file->beside);
    return problem;
}

static void *write_in_thread(void *context)
{
    struct metrics_file *file = context;
    file->problem = put_in_place(file);
    uv_async_send(&file->written);
    return NULL;
}

/* A thread that signals pass by. 0, or a libuv error. */
static int start_thread(struct metrics_file *file)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int problem = pthread_create(&file->thread, NULL, write_in_thread, file);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return uv_translate_sys_error(problem);
}

/* --------------------------------------------------------------------------------- in the loop */

/* Says what went wrong, or that all is well again, unless that is known already. */
static void tell(struct metrics_file *file)
{
    struct log *log = file->transport->server->log;
    if (file->problem == file->told)
        return;
    file->told = file->problem;
    if (file->problem)
        log_write(log, LOG_LEVEL_WARNING, "cannot write the metrics file %.256s: %s", file->path,
                  uv_strerror(file->problem));
    else
        log_write(log, LOG_LEVEL_INFO, "the metrics file %.256s is written again", file->path);
}

static void on_timer(uv_timer_t *timer);

static void rest(struct metrics_file *file)
{
    uint64_t seconds = file->transport->server->options->metrics_interval;
    uv_timer_start(&file->timer, on_timer, seconds * 1000, 0);
}

/* At the end of the daemon nobody is left who could wait for the disk. */
static void finish(struct metrics_file *file)
{
    if (file->there && unlink(file->path) != 0 && errno != ENOENT)
        log_write(file->transport->server->log, LOG_LEVEL_WARNING,
                  "cannot remove the metrics file %.256s: %s", file->path, strerror(errno));
    uv_close((uv_handle_t *)&file->written, NULL);
}

/* One writing is over, in whatever way. */
static void end_writing(struct metrics_file *file)
{
    metrics_text_release(&file->text);
    if (!file->problem)
        file->there = true;
    tell(file);
    if (file->stopping)
        finish(file);
    else
        rest(file);
}

static void on_written(uv_async_t *written)
{
    struct metrics_file *file = written->data;
    if (!file->writing)
        return;
    pthread_join(file->thread, NULL);
    file->writing = false;
    end_writing(file);
}

static void write_anew(struct metrics_file *file)
{
    const struct server *server = file->transport->server;
    metrics_text_init(&file->text, server->memory);
    metrics_write(server, transport_now(file->transport), METRICS_PROMETHEUS, &file->text, NULL);
    int problem = file->text.failed ? UV_ENOMEM : start_thread(file);
    file->writing = !problem;
    if (problem) {
        file->problem = problem; /* the thread's own where there is one */
        end_writing(file);
    }
}

static void on_timer(uv_timer_t *timer)
{
    write_anew(timer->data);
}

int metrics_file_init(struct metrics_file *file, const struct transport *transport)
{
    static const char suffix[] = ".tmp";
    memset(file, 0, sizeof(*file));
    file->transport = transport;
    file->path = transport->server->options->metrics_file;
    metrics_text_init(&file->text, transport->server->memory);
    uv_timer_init(transport->loop, &file->timer);
    file->timer.data = file;
    int status = uv_async_init(transport->loop, &file->written, on_written);
    file->written.data = file;
    if (status != 0 || !*file->path)
        return status;
    file->beside_size = strlen(file->path) + sizeof(suffix);
    file->beside = memory_allocate_array(transport->server->memory, file->beside_size, 1);
    if (!file->beside)
        return UV_ENOMEM;
    snprintf(file->beside, file->beside_size, "%s%s", file->path, suffix);
    return 0;
}

void metrics_file_start(struct metrics_file *file)
{
    if (file->beside)
        write_anew(file);
}

void metrics_file_options_changed(struct metrics_file *file)
{
    if (uv_is_active((uv_handle_t *)&file->timer))
        rest(file);
}

void metrics_file_stop(struct metrics_file *file)
{
    file->stopping = true;
    uv_close((uv_handle_t *)&file->timer, NULL);
    if (!file->writing)
        finish(file);
}

void metrics_file_release(struct metrics_file *file)
{
    if (!file->transport)
        return;
    memory_release_array(file->transport->server->memory, file->beside, file->beside_size, 1);
    file->beside = NULL;
}
