/* The metrics in a file; see metrics_file.h. */
#include "daemon/metrics_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "daemon/metrics.h"

enum {
    FILE_MODE = 0644 /* whatever the umask: the collector is another user */
};

static void on_step_done(uv_fs_t *request);

/* Begins a step; what libuv cannot even begin is a failure of the step. */
static void begin(struct metrics_file *file, enum metrics_file_step step)
{
    uv_loop_t *loop = file->transport->loop;
    uv_fs_t *request = &file->request;
    int status = 0;
    uv_buf_t rest;
    file->step = step;
    switch (step) {
    case METRICS_FILE_RESTS:
        return;
    case METRICS_FILE_OPENS:
        status = uv_fs_open(loop, request, file->beside,
                            O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, FILE_MODE,
                            on_step_done);
        break;
    case METRICS_FILE_SETS_MODE:
        status = uv_fs_fchmod(loop, request, file->descriptor, FILE_MODE, on_step_done);
        break;
    case METRICS_FILE_WRITES:
        rest = uv_buf_init(file->text.bytes + file->written,
                           (unsigned)(file->text.length - file->written));
        status = uv_fs_write(loop, request, file->descriptor, &rest, 1, -1, on_step_done);
        break;
    case METRICS_FILE_CLOSES:
        status = uv_fs_close(loop, request, file->descriptor, on_step_done);
        break;
    case METRICS_FILE_RENAMES:
        status = uv_fs_rename(loop, request, file->beside, file->path, on_step_done);
        break;
    case METRICS_FILE_CLEANS:
        status = uv_fs_unlink(loop, request, file->beside, on_step_done);
        break;
    case METRICS_FILE_REMOVES:
        status = uv_fs_unlink(loop, request, file->path, on_step_done);
        break;
    }
    if (status < 0) {
        request->result = status;
        on_step_done(request);
    }
}

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

/* One writing is over, in whatever way. */
static void end_writing(struct metrics_file *file)
{
    file->step = METRICS_FILE_RESTS;
    metrics_text_release(&file->text);
    tell(file);
    if (!file->stopping)
        rest(file);
    else if (file->there)
        begin(file, METRICS_FILE_REMOVES);
}

static void write_anew(struct metrics_file *file)
{
    const struct server *server = file->transport->server;
    file->problem = 0;
    file->written = 0;
    metrics_text_init(&file->text, server->memory);
    metrics_write(server, transport_now(file->transport), METRICS_PROMETHEUS, &file->text, NULL);
    if (file->text.failed) {
        file->problem = UV_ENOMEM;
        end_writing(file);
    } else {
        begin(file, METRICS_FILE_OPENS);
    }
}

static void on_timer(uv_timer_t *timer)
{
    write_anew(timer->data);
}

/* A step has failed: what was begun is undone. */
static void undo(struct metrics_file *file, int problem)
{
    if (!file->problem)
        file->problem = problem;
    switch (file->step) {
    case METRICS_FILE_SETS_MODE:
    case METRICS_FILE_WRITES:
        begin(file, METRICS_FILE_CLOSES);
        break;
    case METRICS_FILE_CLOSES:
    case METRICS_FILE_RENAMES:
        begin(file, METRICS_FILE_CLEANS);
        break;
    default:
        end_writing(file);
        break;
    }
}

/* Also after what undoes something, which goes on as if it had gone well. */
static void go_on(struct metrics_file *file, ssize_t result)
{
    switch (file->step) {
    case METRICS_FILE_OPENS:
        file->descriptor = (uv_file)result;
        begin(file, METRICS_FILE_SETS_MODE);
        break;
    case METRICS_FILE_SETS_MODE:
        begin(file, METRICS_FILE_WRITES);
        break;
    case METRICS_FILE_WRITES:
        file->written += (size_t)result;
        begin(file, file->written < file->text.length ? METRICS_FILE_WRITES : METRICS_FILE_CLOSES);
        break;
    case METRICS_FILE_CLOSES:
        begin(file, file->problem ? METRICS_FILE_CLEANS : METRICS_FILE_RENAMES);
        break;
    case METRICS_FILE_RENAMES:
        file->there = true;
        end_writing(file);
        break;
    case METRICS_FILE_CLEANS:
        end_writing(file);
        break;
    case METRICS_FILE_REMOVES:
    case METRICS_FILE_RESTS:
        file->step = METRICS_FILE_RESTS;
        break;
    }
}

static void on_step_done(uv_fs_t *request)
{
    struct metrics_file *file = request->data;
    ssize_t result = request->result;
    uv_fs_req_cleanup(request);
    if (file->step == METRICS_FILE_REMOVES && result < 0 && result != UV_ENOENT)
        log_write(file->transport->server->log, LOG_LEVEL_WARNING,
                  "cannot remove the metrics file %.256s: %s", file->path,
                  uv_strerror((int)result));
    bool undoes = file->step == METRICS_FILE_CLEANS || file->step == METRICS_FILE_REMOVES;
    if (result < 0 && !undoes)
        undo(file, (int)result);
    else
        go_on(file, result);
}

int metrics_file_init(struct metrics_file *file, const struct transport *transport)
{
    static const char suffix[] = ".tmp";
    memset(file, 0, sizeof(*file));
    file->transport = transport;
    file->path = transport->server->options->metrics_file;
    file->request.data = file;
    metrics_text_init(&file->text, transport->server->memory);
    uv_timer_init(transport->loop, &file->timer);
    file->timer.data = file;
    if (!*file->path)
        return 0;
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
    if (file->step == METRICS_FILE_RESTS && file->there)
        begin(file, METRICS_FILE_REMOVES);
}

void metrics_file_release(struct metrics_file *file)
{
    if (!file->transport)
        return;
    memory_release_array(file->transport->server->memory, file->beside, file->beside_size, 1);
    file->beside = NULL;
}
