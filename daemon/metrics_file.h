/* The metrics in a file, for the textfile collector of Prometheus' node exporter.
 *
 * It is written beside its place and then renamed over it, so that a reader finds a whole one or
 * none. All of that happens in libuv's threads, one step after the other: the loop waits for no
 * disk. What goes wrong is logged once until something else happens, and tried again the next time.
 * Lives as long as the daemon, whose memory holds the text meanwhile. */
#ifndef METRICS_FILE_H
#define METRICS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "daemon/metrics_text.h"
#include "daemon/transport.h"

enum metrics_file_step {
    METRICS_FILE_RESTS, /* until the timer comes */
    METRICS_FILE_OPENS,
    METRICS_FILE_SETS_MODE,
    METRICS_FILE_WRITES,
    METRICS_FILE_CLOSES,
    METRICS_FILE_RENAMES,
    METRICS_FILE_CLEANS, /* after a failure: what was begun goes */
    METRICS_FILE_REMOVES /* at the end */
};

struct metrics_file {
    const struct transport *transport;
    const char *path; /* the option's; "" for no file: then nothing ever happens */
    char *beside;     /* where it is written, of beside_size bytes */
    size_t beside_size;
    uv_timer_t timer;
    uv_fs_t request;
    enum metrics_file_step step;
    struct metrics_text text;
    size_t written; /* of the text */
    uv_file descriptor;
    int problem;   /* of this writing: a libuv error, 0 for none */
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
