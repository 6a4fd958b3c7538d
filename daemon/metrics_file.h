/* The metrics in a file, for the textfile collector of Prometheus' node exporter.
 *
 * It is written beside its place and then renamed over it, so that a reader finds a whole one or
 * none. Each writing has a thread of its own: the loop waits for no disk. It is no thread of
 * libuv's pool, since libuv ends the process when it cannot start one; here that is one more thing
 * that can go wrong. What goes wrong is logged once until something else happens, and tried again
 * the next time. Lives as long as the daemon, whose memory holds the text meanwhile. */
#ifndef METRICS_FILE_H
#define METRICS_FILE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "daemon/metrics_text.h"
#include "daemon/transport.h"

struct metrics_file {
    const struct transport *transport;
    const char *path; /* the option's; "" for no file: then nothing ever happens */
    char *beside;     /* where it is written, of beside_size bytes */
    size_t beside_size;
    uv_timer_t timer;
    uv_async_t written; /* the thread has done its work */
    pthread_t thread;
    bool writing; /* there is a thread, which alone may use text and problem */
    struct metrics_text text;
    int problem;   /* of the last writing: a libuv error, 0 for none */
    int told;      /* the last problem that was logged, 0 when all is well */
    bool there;    /* it has been put in its place */
    bool stopping; /* it is to be removed */
};

/* Prepares it; 0 or a libuv error. */
int metrics_file_init(struct metrics_file *file, const struct transport *transport);

/* Writes it now, and from then on in every interval of the options. */
void metrics_file_start(struct metrics_file *file);

/* The options have changed: the next interval starts now. */
void metrics_file_options_changed(struct metrics_file *file);

/* Removes the file; the loop ends once that is done. */
void metrics_file_stop(struct metrics_file *file);

/* Gives its memory back, once the loop has ended. */
void metrics_file_release(struct metrics_file *file);

#endif
