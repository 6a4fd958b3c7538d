/* A sweep: every log under every setting, on every capacity, with every seed. One such combination
 * is a point, and has a number, from 1, that depends on nothing but the specification. */
#ifndef LAB_SWEEP_H
#define LAB_SWEEP_H

#include "lab/compare.h"
#include "lab/lab.h"
#include "lab/text_list.h"

enum {
    SWEEP_PROBLEM_SIZE = 512,
    SWEEP_ID_SIZE = 17,
    SWEEP_MOST_POINTS = 10000000
};

/* What is to be run. Logs lie in the folder of the specification unless their names say otherwise.
 */
struct sweep_spec {
    struct text_list logs; /* as written: they stand in the results */
    struct text_list paths;
    struct text_list settings;
    struct text_list capacities; /* as written, checked */
    struct text_list seeds;
    uint64_t points;
    char id[SWEEP_ID_SIZE]; /* of all of this and of the content of the logs, hexadecimal */
};

struct sweep_point {
    size_t log;
    size_t setting;
    size_t capacity;
    size_t seed;
};

void sweep_spec_init(struct sweep_spec *spec, const struct worsegpu_memory *memory);
void sweep_spec_release(struct sweep_spec *spec);

/* Reads the operand and the options. LAB_FINE, or the exit status after a complaint. */
int sweep_spec_read(struct lab *lab, struct sweep_spec *spec);

/* `number` is from 1. */
struct sweep_point sweep_point_of(const struct sweep_spec *spec, uint64_t number);

/* How large the device of a capacity is, given what the log's floor is; 0: without limit. `text` is
 * a size, "unlimited", or a number of floors such as "1.25x". false when it is none of them. */
bool sweep_capacity(const char *text, uint64_t floor, uint64_t *bytes);

/* ------------------------------------------------------------------------------ results */

/* One line of JSON for each point that is done. In a file they lie as they were done, until all of
 * its points are there; then in their order. */
struct sweep_line {
    uint64_t point;
    const char *text; /* in its file's content, without its line end */
    size_t length;
    size_t file; /* which file it came from, from 0 */
};

struct sweep_file {
    const char *name;
    char *content;
    size_t bytes;
};

struct sweep_results {
    const struct worsegpu_memory *memory;
    struct sweep_line *lines;
    size_t count;
    size_t capacity;
    struct sweep_file *files;
    size_t file_count;
    size_t file_capacity;
    uint64_t points;
    char id[SWEEP_ID_SIZE]; /* "": no line was read so far */
};

void sweep_results_init(struct sweep_results *results, const struct worsegpu_memory *memory);
void sweep_results_release(struct sweep_results *results);

/* Reads a file of results; `name` must outlive them. A file that is not there has none, if
 * `may_miss`. A last line that was cut off while it was written is passed over; *good is where it
 * begins (or the end), *torn whether there was one. LAB_FINE, or the exit status with a sentence.
 */
int sweep_results_read(struct sweep_results *results, const char *name, bool may_miss,
                       uint64_t *good, bool *torn, char problem[SWEEP_PROBLEM_SIZE]);

/* Sorts by points. LAB_FINE, or LAB_BAD with a sentence where one is there twice. */
int sweep_results_sort(struct sweep_results *results, char problem[SWEEP_PROBLEM_SIZE]);

/* Writes a whole file anew: beside it first, then in its place. With `csv` as comma-separated
 * values. LAB_FINE, or the exit status with a sentence. */
int sweep_results_write(const struct sweep_results *results, const char *name, bool csv,
                        char problem[SWEEP_PROBLEM_SIZE]);

/* The line of one point, with its line end. */
void sweep_line_write(struct json_writer *writer, const struct sweep_spec *spec, uint64_t number,
                      const struct events_facts *facts, const struct compare_row *row);

/* ------------------------------------------------------------------------------ running */

struct sweep_run {
    struct lab *lab;
    const struct sweep_spec *spec;
    const uint64_t *pending; /* numbers of the points that are to be run */
    size_t pending_count;
    size_t jobs;
    FILE *file; /* gets the lines */
};

/* Runs the points. LAB_FINE, or the exit status after a complaint; what was done then is in the
 * file. */
int sweep_run(struct sweep_run *run);

#endif
