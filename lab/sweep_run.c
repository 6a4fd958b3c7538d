/* The points of a sweep on all cores; see sweep.h.
 *
 * Threads, not processes: the engine has no state but what is handed to it, and recordings can be
 * walked by any number of readers at once, so that each log is in memory once. A thread takes the
 * next point, measures it, and writes its line; nothing else is shared. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "lab/sweep.h"

enum {
    BAR_WIDTH = 24,
    LOOK_EVERY_NS = 200 * 1000000
};

/* What the threads share. */
struct crew {
    struct sweep_run *run;
    struct events **events; /* by log; NULL: no point needs it */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t next; /* in run->pending */
    size_t done;
    size_t working; /* threads that have not ended */
    int status;     /* log_status of the first failure */
    int write_error;
};

/* ------------------------------------------------------------------------------ one point */

static int measure_point(struct crew *crew, struct lab *lab, uint64_t number,
                         struct json_writer *writer)
{
    const struct sweep_spec *spec = crew->run->spec;
    struct sweep_point point = sweep_point_of(spec, number);
    const struct events *events = crew->events[point.log];
    const struct events_facts *facts = events_facts(events);
    struct comparison comparison = {.lab = lab,
                                    .events = events,
                                    .facts = facts,
                                    .seed = spec->seeds.texts[point.seed],
                                    .quick = true};
    struct compare_row row = {.text = spec->settings.texts[point.setting]};
    sweep_capacity(spec->capacities.texts[point.capacity], facts->peak_bytes,
                   &comparison.capacity_bytes);
    int status = compare_measure(&comparison, &row);
    if (status != LOG_FINE)
        return status;
    json_writer_cut(writer, 0);
    sweep_line_write(writer, spec, number, facts, &row);
    return writer->failure == JSON_WRITER_FINE ? LOG_FINE : LOG_NO_MEMORY;
}

/* One write for a line: what was torn off by a crash can only be the last one. */
static void keep_line(struct crew *crew, const struct json_writer *writer)
{
    FILE *file = crew->run->file;
    if (fwrite(writer->data, 1, writer->length, file) != writer->length || fflush(file) != 0)
        crew->write_error = errno;
    else
        crew->done++;
}

static void *work(void *context)
{
    struct crew *crew = context;
    struct lab quiet = *crew->run->lab;
    struct json_writer writer;
    quiet.progress = (struct lab_progress){.started_ms = 1};
    json_writer_init(&writer, quiet.memory, SIZE_MAX / 2);
    pthread_mutex_lock(&crew->mutex);
    while (crew->status == LOG_FINE && crew->write_error == 0 &&
           crew->next < crew->run->pending_count) {
        uint64_t number = crew->run->pending[crew->next++];
        pthread_mutex_unlock(&crew->mutex);
        int status = measure_point(crew, &quiet, number, &writer);
        pthread_mutex_lock(&crew->mutex);
        if (status == LOG_FINE)
            keep_line(crew, &writer);
        else if (crew->status == LOG_FINE)
            crew->status = status;
    }
    crew->working--;
    pthread_cond_signal(&crew->changed);
    pthread_mutex_unlock(&crew->mutex);
    json_writer_release(&writer);
    return NULL;
}

/* ------------------------------------------------------------------------------ the crew */

static void show(struct crew *crew, size_t done)
{
    struct lab *lab = crew->run->lab;
    size_t count = crew->run->pending_count;
    char bar[BAR_WIDTH + 1];
    char doing[120];
    memset(bar, '-', BAR_WIDTH);
    memset(bar, '#', done * BAR_WIDTH / count);
    bar[BAR_WIDTH] = '\0';
    snprintf(doing, sizeof(doing), "[%s] %zu of %zu points", bar, done, count);
    lab->doing = doing;
    lab_show_progress(lab, (double)done / (double)count);
    lab->doing = "";
}

/* Looks on until all threads have ended. */
static void watch(struct crew *crew)
{
    pthread_mutex_lock(&crew->mutex);
    while (crew->working > 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_EVERY_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&crew->changed, &crew->mutex, &until);
        size_t done = crew->done;
        pthread_mutex_unlock(&crew->mutex);
        show(crew, done);
        pthread_mutex_lock(&crew->mutex);
    }
    pthread_mutex_unlock(&crew->mutex);
}

/* With one job nothing is shared, and no thread is needed. */
static int set_to_work(struct crew *crew)
{
    struct sweep_run *run = crew->run;
    const struct worsegpu_memory *memory = run->lab->memory;
    size_t started = 0;
    if (run->jobs == 1) {
        crew->working = 1;
        work(crew);
        return crew->status;
    }
    pthread_t *threads = memory_allocate_array(memory, run->jobs, sizeof(*threads));
    if (!threads)
        return LOG_NO_MEMORY;
    crew->working = run->jobs;
    while (started < run->jobs && pthread_create(&threads[started], NULL, work, crew) == 0)
        started++;
    pthread_mutex_lock(&crew->mutex);
    crew->working -= run->jobs - started; /* those that could not be had do not matter */
    pthread_mutex_unlock(&crew->mutex);
    if (started == 0) {
        crew->working = 1;
        work(crew);
    }
    watch(crew);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    memory_release_array(memory, threads, run->jobs, sizeof(*threads));
    return crew->status;
}

/* ------------------------------------------------------------------------------ the logs */

static void on_progress(void *context, double done)
{
    lab_show_progress(context, done);
}

static int read_log(struct lab *lab, const char *path, struct events **events)
{
    struct log_source *source;
    struct log_problem problem = {""};
    int status = log_source_open(path, lab->memory, &source, &problem);
    if (status != LOG_FINE)
        return lab_log_error(lab, path, status, &problem);
    lab->doing = "reading";
    status = events_read(source, NULL, EVENTS_ANY_DEVICE, lab->memory, on_progress, lab, events,
                         &problem);
    lab->doing = "";
    log_source_close(source);
    return status == LOG_FINE ? LAB_FINE : lab_log_error(lab, path, status, &problem);
}

static int read_logs(struct crew *crew)
{
    const struct sweep_run *run = crew->run;
    int status = LAB_FINE;
    for (size_t i = 0; status == LAB_FINE && i < run->pending_count; i++) {
        size_t log = sweep_point_of(run->spec, run->pending[i]).log;
        if (!crew->events[log])
            status = read_log(run->lab, run->spec->paths.texts[log], &crew->events[log]);
    }
    return status;
}

static int run_points(struct crew *crew)
{
    struct lab *lab = crew->run->lab;
    int status = set_to_work(crew);
    lab_hide_progress(lab);
    if (status == LOG_NO_MEMORY)
        return lab_no_memory(lab);
    if (status != LOG_FINE)
        return lab_error(lab, LAB_FILE, "no_file", "cannot read the temporary file");
    if (crew->write_error != 0) {
        char problem[SWEEP_PROBLEM_SIZE];
        snprintf(problem, sizeof(problem), "cannot write the results: %s",
                 strerrordesc_np(crew->write_error));
        return lab_error(lab, LAB_FILE, "no_file", problem);
    }
    return LAB_FINE;
}

int sweep_run(struct sweep_run *run)
{
    struct lab *lab = run->lab;
    size_t logs = run->spec->logs.count;
    struct crew crew = {.run = run};
    if (run->pending_count == 0)
        return LAB_FINE;
    crew.events = memory_allocate_zeroed(lab->memory, logs, sizeof(struct events *));
    if (!crew.events)
        return lab_no_memory(lab);
    pthread_mutex_init(&crew.mutex, NULL);
    pthread_cond_init(&crew.changed, NULL);
    int status = read_logs(&crew);
    if (status == LAB_FINE)
        status = run_points(&crew);
    pthread_cond_destroy(&crew.changed);
    pthread_mutex_destroy(&crew.mutex);
    for (size_t i = 0; i < logs; i++) {
        if (crew.events[i])
            events_release(crew.events[i]);
    }
    memory_release_array(lab->memory, crew.events, logs, sizeof(struct events *));
    return status;
}
