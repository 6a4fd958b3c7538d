/* run: sends the requests of a file over one connection and prints each answer. Events of a trace
 * are requests as well: replay.h.
 *
 * Sending, receiving and reading the file go on side by side in one loop, so that neither a daemon
 * that waits for us to read nor a person who types the requests holds anything up. Of the file one
 * chunk is held, and of the requests as many as fit in one chunk; reading pauses where a line needs
 * an answer that has not come yet. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "client/cli/report.h"
#include "client/cli/result.h"
#include "client/cli/run_state.h"

enum {
    PROGRESS_AFTER_MS = 1000, /* no progress line before that */
    PROGRESS_EVERY_MS = 200
};

uint64_t run_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int run_no_memory(struct worsegpu_client_error *error)
{
    memset(error, 0, sizeof(*error));
    error->status = WORSEGPU_CLIENT_NO_MEMORY;
    snprintf(error->kind, sizeof(error->kind), "no_memory");
    snprintf(error->message, sizeof(error->message), "there is not enough memory");
    return error->status;
}

/* ------------------------------------------------------------------------------ progress */

void run_hide_progress(struct run *run)
{
    if (run->progress_shown)
        fputs("\r\033[K", run->cli->output.errors);
    run->progress_shown = false;
}

static void show_progress(struct run *run)
{
    uint64_t now = run_now_ms();
    if (!run->show_progress || now - run->started_ms < PROGRESS_AFTER_MS ||
        now - run->progress_ms < PROGRESS_EVERY_MS)
        return;
    fprintf(run->cli->output.errors, "\r\033[K%" PRIu64 " requests sent, %" PRIu64 " answered",
            run->sent, run->answered);
    fflush(run->cli->output.errors);
    run->progress_shown = true;
    run->progress_ms = now;
}

/* ------------------------------------------------------------------------------ answers */

static int bad_reply(struct worsegpu_client_error *error, const char *what)
{
    memset(error, 0, sizeof(*error));
    error->status = WORSEGPU_CLIENT_BAD_REPLY;
    snprintf(error->kind, sizeof(error->kind), "bad_reply");
    snprintf(error->message, sizeof(error->message),
             "the other side does not speak the contract: %s", what);
    return error->status;
}

/* *is_answer is false for an event of a subscription. */
static int judge_answer(struct run *run, const char *line, size_t length, bool *is_answer,
                        struct worsegpu_client_error *error)
{
    switch (json_document_read(&run->document, line, length)) {
    case STRICT_JSON_NO_MEMORY:
        return run_no_memory(error);
    case STRICT_JSON_REFUSED:
        return bad_reply(error, "a line that is not strict JSON");
    case STRICT_JSON_FINE:
    default:
        break;
    }
    const cJSON *root = run->document.root;
    if (json_document_member(root, "method") && !json_document_member(root, "id")) {
        *is_answer = false;
        return WORSEGPU_CLIENT_OK;
    }
    *is_answer = true;
    bool failed = json_document_member(root, "error") != NULL;
    bool worked = json_document_member(root, "result") != NULL;
    if (failed == worked)
        return bad_reply(error, "an answer with neither a result nor an error, or with both");
    if (run->answered == run->sent)
        return bad_reply(error, "an answer to nothing");
    bool as_recorded = replay_note_answer(&run->replay, root);
    run->errors += failed && !as_recorded;
    return WORSEGPU_CLIENT_OK;
}

static int print_answers(struct run *run, struct worsegpu_client_error *error)
{
    struct output *output = &run->cli->output;
    for (;;) {
        const char *line;
        size_t length;
        bool is_answer = true;
        int status = worsegpu_client_next_line(run->client, &line, &length, error);
        if (status != WORSEGPU_CLIENT_OK || !line)
            return status;
        run_hide_progress(run);
        status = judge_answer(run, line, length, &is_answer, error);
        if (status != WORSEGPU_CLIENT_OK)
            return status;
        if (output->json)
            output_bytes(output, ",\n", run->printed ? 2 : 0);
        output_bytes(output, line, length);
        if (!output->json)
            output_bytes(output, "\n", 1);
        run->printed = true;
        if (!is_answer)
            continue;
        run->answered++;
        run->moved_ms = run_now_ms();
    }
}

/* ------------------------------------------------------------------------------ the loop */

static bool wants_input(const struct run *run)
{
    return !run->input_ended && !run->paused && worsegpu_client_unsent(run->client) < CHUNK_BYTES &&
           run->sent - run->answered < MAX_IN_FLIGHT;
}

static bool waits_for_daemon(const struct run *run)
{
    return run->sent > run->answered || run->finished;
}

static int check_timeout(const struct run *run, struct worsegpu_client_error *error)
{
    const struct arguments *arguments = &run->cli->arguments;
    uint64_t limit = arguments_have(arguments, OPTION_timeout) ? arguments->values.timeout
                                                               : CLI_DEFAULT_TIMEOUT_MS;
    if (limit == 0 || !waits_for_daemon(run) || run_now_ms() - run->moved_ms < limit)
        return WORSEGPU_CLIENT_OK;
    memset(error, 0, sizeof(*error));
    error->status = WORSEGPU_CLIENT_TIMEOUT;
    snprintf(error->kind, sizeof(error->kind), "timeout");
    snprintf(error->message, sizeof(error->message), "no answer within %.6g seconds",
             (double)limit / 1000.0);
    return error->status;
}

/* Waits for the socket or the file. *input_ready says which. */
static int wait_for_any(struct run *run, bool *input_ready, struct worsegpu_client_error *error)
{
    struct pollfd waiting[2] = {
        {.fd = worsegpu_client_descriptor(run->client), .events = POLLIN},
        {.fd = wants_input(run) ? run->input : -1, .events = POLLIN},
    };
    if (worsegpu_client_unsent(run->client) > 0)
        waiting[0].events = POLLIN | POLLOUT;
    int tick = waits_for_daemon(run) || run->show_progress ? PROGRESS_EVERY_MS : -1;
    int count = poll(waiting, 2, tick);
    *input_ready = count > 0 && waiting[1].revents != 0;
    show_progress(run);
    return check_timeout(run, error);
}

/* Once all is read and sent, says so; the daemon then answers the rest and closes. */
static int finish_sending(struct run *run, struct worsegpu_client_error *error)
{
    if (!run->input_ended || run->paused || run->finished ||
        worsegpu_client_unsent(run->client) > 0)
        return WORSEGPU_CLIENT_OK;
    run->finished = true;
    run->moved_ms = run_now_ms();
    return worsegpu_client_finish(run->client, error);
}

static int check_all_answered(const struct run *run, struct worsegpu_client_error *error)
{
    if (run->answered == run->sent && run->input_ended && run->finished)
        return WORSEGPU_CLIENT_OK;
    memset(error, 0, sizeof(*error));
    error->status = WORSEGPU_CLIENT_CLOSED;
    snprintf(error->kind, sizeof(error->kind), "closed");
    snprintf(error->message, sizeof(error->message),
             "the daemon closed the connection: %" PRIu64 " of %" PRIu64
             " requests were not answered%s",
             run->sent - run->answered, run->sent,
             run->input_ended ? "" : ", and the script was not read to its end");
    return error->status;
}

static int exchange(struct run *run, struct worsegpu_client_error *error)
{
    bool input_ready = true;
    int status = WORSEGPU_CLIENT_OK;
    while (status == WORSEGPU_CLIENT_OK && !worsegpu_client_has_ended(run->client)) {
        if (input_ready && wants_input(run))
            status = run_read_input(run, error);
        if (status == WORSEGPU_CLIENT_OK)
            status = worsegpu_client_advance(run->client, error);
        if (status == WORSEGPU_CLIENT_CLOSED)
            status = WORSEGPU_CLIENT_OK; /* the loop ends by itself */
        if (status == WORSEGPU_CLIENT_OK)
            status = print_answers(run, error);
        if (status == WORSEGPU_CLIENT_OK && run->paused)
            status = run_queue_lines(run, error);
        if (status == WORSEGPU_CLIENT_OK)
            status = finish_sending(run, error);
        if (status != WORSEGPU_CLIENT_OK || worsegpu_client_has_ended(run->client))
            break;
        if (output_flush(&run->cli->output) != 0)
            return WORSEGPU_CLIENT_OK; /* nobody reads the answers: the caller notices */
        status = wait_for_any(run, &input_ready, error);
    }
    return status == WORSEGPU_CLIENT_OK ? check_all_answered(run, error) : status;
}

/* ------------------------------------------------------------------------------ around it */

static int open_input(struct cli *cli, int *input)
{
    const char *path = cli->arguments.operands[0];
    if (strcmp(path, "-") == 0) {
        *input = STDIN_FILENO;
        return CLI_FINE;
    }
    *input = open(path, O_RDONLY | O_CLOEXEC);
    if (*input >= 0)
        return CLI_FINE;
    char problem[ARGUMENTS_PROBLEM_SIZE];
    snprintf(problem, sizeof(problem), "cannot open %s: %s", path, strerrordesc_np(errno));
    return report_usage(cli, problem, "run takes a file of requests, one JSON object a line, or -");
}

static int start(struct run *run, struct worsegpu_client_error *error)
{
    const struct worsegpu_memory *memory = run->cli->memory;
    struct worsegpu_client_info info;
    json_document_init(&run->document, memory);
    json_writer_init(&run->line, memory, SIZE_MAX / 2);
    framing_init(&run->framing, memory, CHUNK_BYTES);
    trace_lines_init(&run->lines);
    if (replay_init(&run->replay, memory) != 0)
        return run_no_memory(error);
    char *room = memory_allocate_array(memory, TRACE_LINES_ROOM + CHUNK_BYTES, 1);
    if (!room)
        return run_no_memory(error);
    run->chunk = room + TRACE_LINES_ROOM;
    int status = worsegpu_client_info(run->client, &info, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    run->max_line_bytes = info.max_line_bytes;
    run->framing.max_line_bytes = (size_t)info.max_line_bytes;
    run->started_ms = run->moved_ms = run->progress_ms = run_now_ms();
    run->show_progress = isatty(fileno(run->cli->output.errors)) == 1;
    return WORSEGPU_CLIENT_OK;
}

static void stop(struct run *run)
{
    run_hide_progress(run);
    if (run->chunk)
        memory_release_array(run->cli->memory, run->chunk - TRACE_LINES_ROOM,
                             TRACE_LINES_ROOM + CHUNK_BYTES, 1);
    replay_release(&run->replay);
    framing_release(&run->framing);
    json_writer_release(&run->line);
    json_document_release(&run->document);
}

static int run_all(struct run *run)
{
    struct cli *cli = run->cli;
    struct worsegpu_client_error error;
    int status = start(run, &error);
    output_text(&cli->output, "%s", cli->output.json ? "{\"answers\":[" : "");
    if (status == WORSEGPU_CLIENT_OK)
        status = exchange(run, &error);
    stop(run);
    output_text(&cli->output, "%s", cli->output.json ? "]" : "");
    run_report_replay(run);
    int outcome = run->errors > 0 ? CLI_REFUSED : CLI_FINE;
    if (status != WORSEGPU_CLIENT_OK) {
        if (cli->output.json) {
            output_text(&cli->output, ",");
            report_json_member(cli, &error);
        }
        report_sentence(cli, cli->arguments.operands[0], &error);
        outcome = report_exit(&error);
    } else if (run->errors > 0) {
        output_complaint(&cli->output, cli->program, "%" PRIu64 " of %" PRIu64 " requests failed",
                         run->errors, run->sent + run->not_sent);
    }
    output_text(&cli->output, "%s", cli->output.json ? "}\n" : "");
    return outcome;
}

int perform_run(struct cli *cli)
{
    struct run run = {.cli = cli};
    int status = open_input(cli, &run.input);
    if (status != CLI_FINE)
        return status;
    run.client = cli_connect(cli, &status);
    if (run.client) {
        status = run_all(&run);
        worsegpu_client_disconnect(run.client);
    }
    if (run.input != STDIN_FILENO)
        close(run.input);
    return status;
}
