/* The file of `run`: lines into requests, as they are or as the events of a trace. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/report.h"
#include "client/cli/run_state.h"

enum {
    ID_ROOM = 64,   /* longest `"id":"line-N",` */
    NOTES_SHOWN = 5 /* of what a trace lacks, one by one; the others are counted */
};

/* ------------------------------------------------------------------------------ requests */

/* Whether the line in run->document is an object without an id. */
static bool wants_id(const struct run *run)
{
    const cJSON *root = run->document.root;
    return cJSON_IsObject(root) && !json_document_member(root, "id");
}

/* Puts the line with its id into run->line. */
static int add_id(struct run *run, const char *line, size_t length,
                  struct worsegpu_client_error *error)
{
    char id[ID_ROOM];
    bool empty = run->document.root->child == NULL;
    size_t brace = (size_t)((const char *)memchr(line, '{', length) - line) + 1;
    int id_length = snprintf(id, sizeof(id), "\"id\":\"line-%" PRIu64 "\"%s", run->line_number,
                             empty ? "" : ",");
    json_writer_cut(&run->line, 0);
    if (json_writer_reserve(&run->line, length + (size_t)id_length) < 0)
        return run_no_memory(error);
    char *out = run->line.data;
    memcpy(out, line, brace);
    memcpy(out + brace, id, (size_t)id_length);
    memcpy(out + brace + (size_t)id_length, line + brace, length - brace);
    run->line.length = length + (size_t)id_length;
    return WORSEGPU_CLIENT_OK;
}

static void complain_too_long(struct run *run)
{
    run_hide_progress(run);
    output_complaint(&run->cli->output, run->cli->program,
                     "line %" PRIu64 " is longer than the %" PRIu64
                     " bytes that the daemon takes, its id and line end included: not sent",
                     run->line_number, run->max_line_bytes);
    run->errors++;
    run->not_sent++;
}

static bool is_empty(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (line[i] != ' ' && line[i] != '\t')
            return false;
    }
    return true;
}

/* Queues a line as it is. */
static int queue_line(struct run *run, const char *line, size_t length,
                      struct worsegpu_client_error *error)
{
    if (length + 1 > run->max_line_bytes) {
        complain_too_long(run);
        return WORSEGPU_CLIENT_OK;
    }
    int status = worsegpu_client_queue_line(run->client, line, length, error);
    if (status == WORSEGPU_CLIENT_OK) {
        if (run->sent == run->answered)
            run->moved_ms = run_now_ms();
        run->sent++;
        replay_note_sent(&run->replay);
    }
    return status;
}

static void note(struct run *run, const char *problem, bool is_error)
{
    run->errors += is_error;
    run->not_sent += is_error;
    run->notes += !is_error;
    if (!is_error && run->notes > NOTES_SHOWN)
        return;
    run_hide_progress(run);
    output_complaint(&run->cli->output, run->cli->program, "line %" PRIu64 ": %s", run->line_number,
                     problem);
}

/* Queues what a line asks for; run->paused when an answer must come before. */
static int queue_request(struct run *run, const char *line, size_t length,
                         struct worsegpu_client_error *error)
{
    if (is_empty(line, length))
        return WORSEGPU_CLIENT_OK;
    char problem[REPLAY_PROBLEM_SIZE];
    enum replay_verdict verdict = REPLAY_PLAIN;
    int status;
    switch (json_document_read(&run->document, line, length)) {
    case STRICT_JSON_NO_MEMORY:
        return run_no_memory(error);
    case STRICT_JSON_REFUSED: /* the daemon says what is wrong with it */
        run->replay.next = (struct replay_sent){.id = 0};
        return queue_line(run, line, length, error);
    case STRICT_JSON_FINE:
    default:
        verdict = replay_judge(&run->replay, &run->document, run->line_number,
                               cli_allocator(run->cli), &run->line, problem);
    }
    switch (verdict) {
    case REPLAY_NO_MEMORY:
        return run_no_memory(error);
    case REPLAY_PLAIN:
        if (!wants_id(run))
            return queue_line(run, line, length, error);
        status = add_id(run, line, length, error);
        return status == WORSEGPU_CLIENT_OK
                   ? queue_line(run, run->line.data, run->line.length, error)
                   : status;
    case REPLAY_SEND:
        return queue_line(run, run->line.data, run->line.length, error);
    case REPLAY_SEND_FIRST:
    case REPLAY_WAIT:
        run->paused = true;
        run->paused_line = line;
        run->paused_length = length;
        return verdict == REPLAY_WAIT ? WORSEGPU_CLIENT_OK
                                      : queue_line(run, run->line.data, run->line.length, error);
    case REPLAY_NOTE:
    case REPLAY_WRONG:
        note(run, problem, verdict == REPLAY_WRONG);
        return WORSEGPU_CLIENT_OK;
    case REPLAY_SKIP:
        break;
    }
    return WORSEGPU_CLIENT_OK;
}

/* The next line of the chunk, or the one that had to wait. */
static enum framing_result next_line(struct run *run, const char **line, size_t *length)
{
    if (run->paused_line) {
        *line = run->paused_line;
        *length = run->paused_length;
        run->paused_line = NULL;
        return FRAMING_LINE;
    }
    enum framing_result result = framing_next(&run->framing, line, length);
    run->line_number += result == FRAMING_LINE || result == FRAMING_TOO_LONG;
    return result;
}

/* Queues the whole lines of the chunk that was read, until one must wait. */
int run_queue_lines(struct run *run, struct worsegpu_client_error *error)
{
    const char *line;
    size_t length;
    run->paused = false;
    while (run->sent - run->answered < MAX_IN_FLIGHT) {
        int status = WORSEGPU_CLIENT_OK;
        enum framing_result result = next_line(run, &line, &length);
        if (result == FRAMING_MORE)
            return framing_keep(&run->framing) < 0 ? run_no_memory(error) : WORSEGPU_CLIENT_OK;
        if (result == FRAMING_NO_MEMORY)
            return run_no_memory(error);
        if (result == FRAMING_TOO_LONG)
            complain_too_long(run);
        else
            status = queue_request(run, line, length, error);
        if (status != WORSEGPU_CLIENT_OK || run->paused)
            return status;
    }
    run->paused = true;
    return WORSEGPU_CLIENT_OK;
}

/* Reads one chunk of the file. */
int run_read_input(struct run *run, struct worsegpu_client_error *error)
{
    ssize_t got = read(run->input, run->chunk, CHUNK_BYTES);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return WORSEGPU_CLIENT_OK;
    if (got < 0) {
        memset(error, 0, sizeof(*error));
        error->status = WORSEGPU_CLIENT_INVALID_ARGUMENT;
        snprintf(error->kind, sizeof(error->kind), "unreadable");
        snprintf(error->message, sizeof(error->message), "cannot read the script: %s",
                 strerrordesc_np(errno));
        return error->status;
    }
    size_t length = (size_t)got;
    char *start = run->chunk;
    if (got > 0) {
        start = trace_lines_cut(&run->lines, run->chunk, &length);
    } else {
        run->input_ended = true;
        if (trace_lines_unfinished(&run->lines))
            note(run, "the trace ends within its events", true);
        const char *rest = trace_lines_rest(&run->lines, &length);
        memcpy(run->chunk, rest, length);
        /* People forget the last line end; for the daemon a line without one is none. */
        if (length > 0 || framing_in_line(&run->framing))
            run->chunk[length++] = '\n';
    }
    if (length == 0)
        return WORSEGPU_CLIENT_OK;
    framing_feed(&run->framing, start, length);
    return run_queue_lines(run, error);
}

/* ------------------------------------------------------------------------------ the end */

/* What came of a trace. */
void run_report_replay(struct run *run)
{
    const struct replay_counts *counts = &run->replay.counts;
    if (counts->events == 0)
        return;
    if (run->cli->output.json) {
        output_text(&run->cli->output,
                    ",\"replayed\":{\"events\":%" PRIu64 ",\"allocations\":%" PRIu64
                    ",\"refused\":%" PRIu64 ",\"given_instead\":%" PRIu64 ",\"frees\":%" PRIu64
                    ",\"others\":%" PRIu64 ",\"unknown\":%" PRIu64 ",\"without\":%" PRIu64
                    ",\"faults\":%" PRIu64 ",\"missed\":%" PRIu64 "}",
                    counts->events, counts->allocations, counts->refused, counts->given_instead,
                    counts->frees, counts->others, counts->unknown, counts->without, counts->faults,
                    counts->missed);
        return;
    }
    output_advice(&run->cli->output,
                  "replayed %" PRIu64 " events: %" PRIu64 " allocations, %" PRIu64
                  " of them refused; %" PRIu64 " frees; %" PRIu64 " others",
                  counts->events, counts->allocations, counts->refused, counts->frees,
                  counts->others);
    if (counts->given_instead > 0)
        output_advice(&run->cli->output, "%" PRIu64 " were given that the trace has as failed",
                      counts->given_instead);
    if (counts->unknown + counts->without + counts->faults > 0)
        output_advice(&run->cli->output,
                      "skipped: %" PRIu64
                      " about allocations that the trace does not have, %" PRIu64
                      " about refused ones, %" PRIu64 " faults",
                      counts->unknown, counts->without, counts->faults);
    if (counts->missed > 0)
        output_advice(&run->cli->output, "%" PRIu64 " events are missing in the trace",
                      counts->missed);
}
