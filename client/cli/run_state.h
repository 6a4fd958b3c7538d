/* One run of a script: what the files of `run` share. Lives for the command. */
#ifndef RUN_STATE_H
#define RUN_STATE_H

#include "client/cli/cli.h"
#include "client/cli/replay.h"
#include "client/cli/trace_lines.h"
#include "proto/framing.h"
#include "proto/json_document.h"
#include "proto/json_writer.h"

enum {
    CHUNK_BYTES = 64 * 1024,
    MAX_IN_FLIGHT = REPLAY_MOST_SENT, /* requests sent ahead of their answers */
};

struct run {
    struct cli *cli;
    worsegpu_client *client;
    int input;
    char *chunk; /* TRACE_LINES_ROOM before it are ours too */
    struct trace_lines lines;
    struct framing framing;
    struct replay replay;
    const char *paused_line; /* the line to go on with; NULL: the next one */
    size_t paused_length;
    bool paused; /* lines of the chunk wait for answers */
    uint64_t notes;
    struct json_document document;
    struct json_writer line; /* a request with its id */
    uint64_t max_line_bytes; /* what the daemon takes, LF included */
    uint64_t line_number;
    uint64_t sent;
    uint64_t answered;
    uint64_t errors;   /* answers that were errors, and lines that were not sent */
    uint64_t not_sent; /* too long */
    bool printed;      /* something was */
    bool input_ended;
    bool finished; /* the daemon knows that no more comes */
    bool show_progress;
    bool progress_shown;
    uint64_t started_ms;
    uint64_t progress_ms; /* when it was shown last */
    uint64_t moved_ms;    /* when an answer came last, or was first waited for */
};

uint64_t run_now_ms(void);

/* Takes the progress line away, before anything else is written to the terminal. */
void run_hide_progress(struct run *run);

/* Fills in the error; returns its status. */
int run_no_memory(struct worsegpu_client_error *error);

/* run_lines.c: reads a chunk of the file and queues the requests in it; goes on with the chunk once
 * answers have come, when run->paused. A client's status. */
int run_read_input(struct run *run, struct worsegpu_client_error *error);
int run_queue_lines(struct run *run, struct worsegpu_client_error *error);

/* run_lines.c: what came of the events of a trace, if there were any. */
void run_report_replay(struct run *run);

#endif
