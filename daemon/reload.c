/* Reading the configuration again; see reload.h. */
#include "daemon/reload.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/descriptors.h"
#include "daemon/options_table.h"

enum {
    VALUE_SIZE = 64,
    CHANGES_SIZE = 320 /* so that a line of the log holds them */
};

/* What has changed, as one text; what does not fit is counted. */
struct changes {
    char text[CHANGES_SIZE];
    size_t length;
    size_t left_out;
};

__attribute__((format(printf, 2, 3))) static void add_change(struct changes *changes,
                                                             const char *format, ...)
{
    char text[CHANGES_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    const char *before = changes->length ? ", " : "";
    size_t needed = strlen(before) + (size_t)length;
    if (length < 0 || changes->left_out || changes->length + needed >= sizeof(changes->text)) {
        changes->left_out++;
        return;
    }
    snprintf(changes->text + changes->length, sizeof(changes->text) - changes->length, "%s%s",
             before, text);
    changes->length += needed;
}

/* A value for the log. */
static void show(size_t index, const void *place, char text[VALUE_SIZE])
{
    option_show(index, place, text, VALUE_SIZE);
    if (!*text)
        snprintf(text, VALUE_SIZE, "none given");
}

/* Takes the new value of one option if it is another one, and can change. `gpu` is the name of the
 * GPU whose option it is, NULL for the daemon's. */
static void take(struct log *log, size_t index, const char *gpu, void *old, void *new,
                 struct changes *changes)
{
    const struct option_info *info = options_info(index);
    char value[VALUE_SIZE];
    if (option_same(index, old, new))
        return;
    if (info->reloads) {
        option_swap(index, old, new);
        show(index, old, value);
        add_change(changes, "%s%s%s is now %s", info->flag, gpu ? " of " : "", gpu ? gpu : "",
                   value);
        return;
    }
    show(index, old, value);
    log_write(log, LOG_LEVEL_WARNING,
              "%s%s%s cannot change while the daemon runs: it stays as it was (%s)", info->flag,
              gpu ? " of " : "", gpu ? gpu : "", value);
}

static void take_daemon(struct log *log, struct options *options, struct options *fresh,
                        struct changes *changes)
{
    for (size_t index = 0; index < OPTIONS; index++)
        if (!options_info(index)->of_gpu)
            take(log, index, NULL, option_place(options, NULL, index),
                 option_place(fresh, NULL, index), changes);
    options->log_level_given = fresh->log_level_given;
}

/* One shared allocator follows its options; its capacity may have been changed by a `resize`. */
static void take_gpu(struct log *log, struct hosted *hosted, struct gpu_options *gpu,
                     struct gpu_options *fresh, struct changes *changes)
{
    gpu->gpu_capacity = worsegpu_configuration(hosted->engine)->gpu_capacity;
    for (size_t index = 0; index < OPTIONS; index++)
        if (options_info(index)->of_gpu)
            take(log, index, gpu->name, option_place(NULL, gpu, index),
                 option_place(NULL, fresh, index), changes);
    if (worsegpu_resize(hosted->engine, gpu->gpu_capacity) != WORSEGPU_OK)
        log_write(log, LOG_LEVEL_ERROR, "%s has no capacity of %" PRIu64 " bytes", gpu->name,
                  gpu->gpu_capacity);
    hosted->host_capacity = gpu->host_capacity;
}

/* Names the GPUs that came, went or moved: all stay as they are. */
static void compare_gpus(struct log *log, const struct options *options,
                         const struct options *fresh)
{
    const struct gpu_options *before = NULL;
    bool moved = false;
    for (size_t index = 0; index < fresh->gpu_count; index++) {
        const struct gpu_options *gpu = options_find_gpu(options, fresh->gpus[index].name);
        if (!gpu) {
            log_write(log, LOG_LEVEL_WARNING,
                      "GPU %s cannot be added while the daemon runs: it is left out",
                      fresh->gpus[index].name);
            continue;
        }
        moved = moved || (before && gpu < before);
        before = gpu;
    }
    for (size_t index = 0; index < options->gpu_count; index++)
        if (!options_find_gpu(fresh, options->gpus[index].name))
            log_write(log, LOG_LEVEL_WARNING,
                      "GPU %s cannot be removed while the daemon runs: it stays as it was",
                      options->gpus[index].name);
    if (moved)
        log_write(log, LOG_LEVEL_WARNING,
                  "the order of the GPUs cannot change while the daemon runs: %s stays the first",
                  options->gpus[0].name);
}

static void take_gpus(struct server *server, struct options *options, struct options *fresh,
                      struct changes *changes)
{
    struct hosted *hosted;
    compare_gpus(server->log, options, fresh);
    for (size_t index = 0; index < options->gpu_count; index++) {
        struct gpu_options *gpu = &options->gpus[index];
        struct gpu_options *wanted = options_find_gpu(fresh, gpu->name);
        hosted = hosted_find(&server->shared, gpu->name, strlen(gpu->name));
        if (wanted && hosted)
            take_gpu(server->log, hosted, gpu, wanted, changes);
    }
}

/* Those parts of the daemon that do not look at the options themselves. */
static void follow(struct server *server, const struct options *options)
{
    server_follow_options(server);
    server->log->level = options_log_level(options);
    server->max_connections = descriptors_reserve(options->max_connections);
    if (server->max_connections < options->max_connections)
        log_write(server->log, LOG_LEVEL_WARNING,
                  "room for %" PRIu64 " connections instead of %" PRIu64
                  ": raise the limit of open files (ulimit -n)",
                  server->max_connections, options->max_connections);
}

bool reload(struct server *server, struct options *options, int argc, char **argv)
{
    struct log *log = server->log;
    if (!options->config) {
        log_write(log, LOG_LEVEL_WARNING,
                  "SIGHUP: there is nothing to read again, since no --config was given");
        return false;
    }
    struct options fresh;
    char message[OPTIONS_MESSAGE_SIZE] = "out of memory";
    if (options_read_again(&fresh, options, argc, argv, message) != OPTIONS_FINE) {
        log_write(log, LOG_LEVEL_ERROR, "SIGHUP: nothing has changed: %s", message);
        return false;
    }
    struct changes changes = {.length = 0};
    take_daemon(log, options, &fresh, &changes);
    take_gpus(server, options, &fresh, &changes);
    options_release(&fresh);
    follow(server, options);
    if (changes.left_out)
        log_write(log, LOG_LEVEL_INFO, "%.100s is read again: %s and %zu more", options->config,
                  changes.text, changes.left_out);
    else
        log_write(log, LOG_LEVEL_INFO, "%.100s is read again: %s", options->config,
                  changes.length ? changes.text : "nothing has changed");
    return true;
}
