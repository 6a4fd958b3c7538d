/* The files that `replay` writes, and the runs that fill them. For replay_command.c alone. */
#ifndef LAB_REPLAY_FILES_H
#define LAB_REPLAY_FILES_H

#include "lab/outputs/page.h"

enum replay_kind {
    REPLAY_CSV,
    REPLAY_NDJSON,
    REPLAY_CHROME,
    REPLAY_SNAPSHOT,
    REPLAY_HTML,
    REPLAY_KINDS
};

/* What the command line asks for, and what came of it. */
struct replay_run {
    struct lab *lab;
    const char *names[REPLAY_KINDS]; /* of the files; "-": standard output; NULL: not wanted */
    struct output_about about;
    struct timeline timeline;
    struct timeline_sum sum;
    uint64_t unlimited_bytes; /* the largest device that the policy can have */
    bool chosen; /* the capacity, since addresses without limit would be too large to write down */
    bool quick;  /* the page without what takes many runs */
};

/* Writes all that is wanted; `sum` is of an earlier run. The exit status. */
int replay_write_files(struct replay_run *run);

/* What the page shows beside the run: the table of policies (compare's document), and the first
 * out of memory as a story (a JSON string; null without one, or with `quick`). log_status; a
 * failure of memory may also stay in the writer. */
int replay_write_table(const struct replay_run *run, struct json_writer *writer);
int replay_write_story(const struct replay_run *run, struct json_writer *writer);

#endif
