/* What `replay` writes: one file each, all fed by the same run (lab/timeline.h).
 *
 * Each kind has a sink of a timeline. A write that fails is remembered in its output_file and stops
 * nothing; who opened the file looks at the end. */
#ifndef LAB_OUTPUTS_H
#define LAB_OUTPUTS_H

#include "lab/outputs/ranges.h"
#include "lab/timeline.h"

struct output_file {
    FILE *to;
    int failure;   /* errno of the first write that failed; 0: none */
    bool standard; /* it is standard output, which is not ours to close */
};

/* Opens a file by its name; "-" is `standard`. false: errno says why. */
bool output_file_open(struct output_file *file, const char *name, FILE *standard);
/* Hands everything over; `failure` says whether that went well. */
void output_file_close(struct output_file *file);

void output_file_bytes(struct output_file *file, const void *bytes, size_t length);
__attribute__((format(printf, 2, 3))) void output_file_text(struct output_file *file,
                                                            const char *format, ...);
/* Writes what a writer holds, and empties it. log_status: LOG_NO_MEMORY where the writer had none.
 */
int output_file_json(struct output_file *file, struct json_writer *writer);

/* How an operation, and what the policy did with its device, are called in all outputs. */
const char *output_operation(const struct timeline_row *row);
const char *output_move(enum device_event event); /* NULL: addresses alone, which is left out */

/* What is the same for all of them. */
struct output_about {
    struct lab *lab;
    const char *name; /* of the log, as the user wrote it */
    const char *policy;
    const struct events_facts *facts;
    uint64_t capacity_bytes; /* 0: without limit */
};

/* A row for each event, as comma-separated values. */
struct csv_output {
    struct output_file file;
    const struct output_about *about;
};
int csv_output_begin(struct csv_output *output);
struct timeline_sink csv_output_sink(struct csv_output *output);

/* The same as one JSON object a line. */
struct ndjson_output {
    struct output_file file;
    const struct output_about *about;
    struct json_writer writer;
};
int ndjson_output_begin(struct ndjson_output *output);
void ndjson_output_release(struct ndjson_output *output);
struct timeline_sink ndjson_output_sink(struct ndjson_output *output);

/* Chrome's trace event format, which Perfetto and chrome://tracing open: counters, an asynchronous
 * slice for each allocation, an instant for each refusal and each step of the device. */
struct chrome_output {
    struct output_file file;
    const struct output_about *about;
    bool any; /* event: the next one wants a comma before it */
    uint64_t last_ts;
};
int chrome_output_begin(struct chrome_output *output);
struct timeline_sink chrome_output_sink(struct chrome_output *output);

enum {
    SNAPSHOT_MOST_WORDS = 64
};

/* A snapshot as torch.cuda.memory._dump_snapshot pickles it: segments, blocks, a trace. */
struct snapshot_output {
    struct output_file file;
    const struct output_about *about;
    const struct timeline_sum *sum; /* of an earlier run of the same */
    struct ranges segments;         /* taken from the device */
    struct ranges pending;          /* freed, but not yet to be used again; the tag is its stream */
    uint64_t batch;                 /* events in the piece of the list under way */
    uint64_t pending_bytes;
    uint64_t time_us;
    bool mapped;                             /* segments grow page by page */
    bool joins;                              /* pieces of the device that touch are one */
    unsigned char memo[SNAPSHOT_MOST_WORDS]; /* number of each word in the memo, from 1; 0: none */
    unsigned char memo_count;
};
int snapshot_output_begin(struct snapshot_output *output);
void snapshot_output_release(struct snapshot_output *output);
struct timeline_sink snapshot_output_sink(struct snapshot_output *output);

#endif
