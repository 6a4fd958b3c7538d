/* The workload; see workload.h. */
#include "client/cli/workload.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/demo_steps.h"
#include "client/cli/own_daemon.h"
#include "client/cli/report.h"

enum {
    BATCH_BYTES = 256 * 1024, /* requests sent together */
    STEPS_AHEAD = 64,         /* steps sent ahead of their answers, when each is looked at */
    LINE_ROOM = 160           /* longest request made here */
};

void workload_sleep(double seconds)
{
    struct timespec wait = {.tv_sec = (time_t)seconds};
    wait.tv_nsec = (long)((seconds - (double)wait.tv_sec) * 1e9);
    if (seconds <= 0)
        return;
    while (nanosleep(&wait, &wait) < 0 && errno == EINTR)
        continue;
}

bool workload_begin(struct cli *cli, enum command command, struct workload_options *options,
                    worsegpu_client **client, int *status)
{
    char problem[WORKLOAD_PROBLEM_SIZE];
    char program[64];
    const char *name = command_info(command)->name;
    bool alone = strcmp(cli->program, "worsegpu-cli") != 0;
    snprintf(program, sizeof(program), "%s%s%s", cli->program, alone ? "" : " ", alone ? "" : name);
    switch (workload_options_read(options, command, cli->arguments.own_count, cli->arguments.own,
                                  cli->memory, problem)) {
    case WORKLOAD_OPTIONS_NO_MEMORY:
        *status = report_no_memory(cli);
        return false;
    case WORKLOAD_OPTIONS_HELP:
        workload_print_help(&cli->output, program, command);
        *status = CLI_FINE;
        return false;
    case WORKLOAD_OPTIONS_REFUSED:
        workload_print_usage(cli->output.errors, program, command);
        output_complaint(&cli->output, program, "error: %s", problem);
        *status = CLI_USAGE;
        return false;
    case WORKLOAD_OPTIONS_FINE:
    default:
        break;
    }
    cli->output.json = cli->output.json || options->json;
    struct worsegpu_client_error error;
    int outcome = cli_try_connect(cli, client, &error);
    if (outcome == WORSEGPU_CLIENT_OK)
        return true;
    if (outcome == WORSEGPU_CLIENT_NO_DAEMON && own_daemon_is_allowed(cli))
        *status = own_daemon_start(cli, &error);
    else
        *status = report_error(cli, NULL, &error);
    return false;
}

int workload_open(worsegpu_client *client, const char *name, const char *policy, uint64_t capacity,
                  const char *seed, struct worsegpu_client_error *error)
{
    const struct worsegpu_client_config wanted = {
        .policy = policy,
        .seed = seed,
        .gpu_capacity_given = true,
        .gpu_capacity = capacity,
        .gpu_probability_given = true,
        .gpu_probability = 0.65,
        .forget_probability_given = true,
        .forget_probability = 0.2,
        .fallback_on_oom_given = true,
        .fallback_on_oom = true,
        .trace_limit_given = true,
        .trace_limit = 0,
    };
    return worsegpu_client_open(client, name, &wanted, NULL, error);
}

/* ------------------------------------------------------------------------------ without answers */

static char *put_text(char *out, const char *text)
{
    size_t length = strlen(text);
    memcpy(out, text, length);
    return out + length;
}

static char *put_number(char *out, uint64_t number)
{
    char digits[20];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (count > 0)
        *out++ = digits[--count];
    return out;
}

/* How many are freed in so many steps. */
static uint64_t count_freed(uint64_t steps)
{
    uint64_t freed = 0;
    for (uint64_t step = 1; step <= steps; step++)
        freed = demo_steps_frees(step, freed) > 0 ? freed + 1 : freed;
    return freed;
}

/* One step as notifications. Names here are short and plain: they need no escape. Only what will be
 * freed needs a tag: the first `tagged` allocations. */
static int queue_step(worsegpu_client *client, const char *name, uint64_t step, uint64_t tagged,
                      uint64_t *freed, struct worsegpu_client_error *error)
{
    char line[LINE_ROOM];
    char *out = put_text(line, "{\"method\":\"allocate\",\"params\":{\"requested_bytes\":");
    out = put_number(out, demo_steps_bytes(step));
    if (step <= tagged) {
        out = put_text(out, ",\"tag\":\"t");
        out = put_number(out, step);
        out = put_text(out, "\"");
    }
    out = put_text(out, ",\"allocator\":\"");
    out = put_text(out, name);
    out = put_text(out, "\"}}");
    int status = worsegpu_client_queue_line(client, line, (size_t)(out - line), error);
    uint64_t oldest = demo_steps_frees(step, *freed);
    if (status != WORSEGPU_CLIENT_OK || oldest == 0)
        return status;
    *freed = oldest;
    out = put_text(line, "{\"method\":\"free\",\"params\":{\"tag\":\"t");
    out = put_number(out, oldest);
    out = put_text(out, "\",\"allocator\":\"");
    out = put_text(out, name);
    out = put_text(out, "\"}}");
    return worsegpu_client_queue_line(client, line, (size_t)(out - line), error);
}

static bool tell_nobody(void *context, const struct workload_step *step)
{
    (void)context;
    (void)step;
    return true;
}

/* Some step was not carried out: finds out which and why. */
static int explain(worsegpu_client *client, const char *name, const char *policy, uint64_t capacity,
                   const struct workload_options *options, struct worsegpu_client_error *error)
{
    int status = worsegpu_client_close(client, name, error);
    if (status == WORSEGPU_CLIENT_OK)
        status = workload_open(client, name, policy, capacity, options->seed, error);
    if (status == WORSEGPU_CLIENT_OK)
        status = workload_walk(client, name, options, tell_nobody, NULL, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    memset(error, 0, sizeof(*error));
    error->status = WORSEGPU_CLIENT_BAD_REPLY;
    snprintf(error->kind, sizeof(error->kind), "bad_reply");
    snprintf(error->message, sizeof(error->message),
             "the daemon left out some requests, and carried all out when asked again: try again");
    return error->status;
}

int workload_run(worsegpu_client *client, const char *name, const char *policy, uint64_t capacity,
                 const struct workload_options *options, struct worsegpu_client_snapshot *snapshot,
                 struct worsegpu_client_error *error)
{
    uint64_t freed = 0;
    uint64_t tagged = count_freed(options->steps);
    int status = workload_open(client, name, policy, capacity, options->seed, error);
    for (uint64_t step = 1; status == WORSEGPU_CLIENT_OK && step <= options->steps; step++) {
        status = queue_step(client, name, step, tagged, &freed, error);
        bool send_now = options->delay > 0 || worsegpu_client_unsent(client) >= BATCH_BYTES;
        if (status == WORSEGPU_CLIENT_OK && send_now)
            status = worsegpu_client_flush(client, error);
        if (status == WORSEGPU_CLIENT_OK)
            workload_sleep(options->delay);
    }
    if (status == WORSEGPU_CLIENT_OK)
        status = worsegpu_client_snapshot(client, name, snapshot, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    if (snapshot->detail.allocate_calls == options->steps && snapshot->detail.free_calls == freed)
        return WORSEGPU_CLIENT_OK;
    return explain(client, name, policy, capacity, options, error);
}

/* ------------------------------------------------------------------------------ with answers */

static int queue_asking(worsegpu_client *client, const char *name, uint64_t step, uint64_t *freed,
                        struct worsegpu_client_error *error)
{
    char params[LINE_ROOM];
    snprintf(params, sizeof(params),
             "{\"requested_bytes\":%" PRIu64 ",\"tag\":\"t%" PRIu64 "\",\"allocator\":\"%s\"}",
             demo_steps_bytes(step), step, name);
    int status = worsegpu_client_queue(client, "allocate", params, error);
    uint64_t oldest = demo_steps_frees(step, *freed);
    if (status == WORSEGPU_CLIENT_OK && oldest > 0) {
        *freed = oldest;
        snprintf(params, sizeof(params), "{\"tag\":\"t%" PRIu64 "\",\"allocator\":\"%s\"}", oldest,
                 name);
        status = worsegpu_client_queue(client, "free", params, error);
    }
    snprintf(params, sizeof(params), "{\"allocator\":\"%s\"}", name);
    if (status == WORSEGPU_CLIENT_OK)
        status = worsegpu_client_queue(client, "snapshot", params, error);
    return status;
}

static int receive_step(worsegpu_client *client, struct workload_step *step, uint64_t *freed,
                        struct worsegpu_client_error *error)
{
    int status = worsegpu_client_receive(client, error);
    if (status == WORSEGPU_CLIENT_OK)
        status = worsegpu_client_read_allocation(client, &step->allocation, error);
    uint64_t oldest = demo_steps_frees(step->step, *freed);
    if (status == WORSEGPU_CLIENT_OK && oldest > 0) {
        *freed = oldest;
        status = worsegpu_client_receive(client, error);
    }
    if (status == WORSEGPU_CLIENT_OK)
        status = worsegpu_client_receive(client, error);
    if (status == WORSEGPU_CLIENT_OK)
        status = worsegpu_client_read_snapshot(client, &step->snapshot, error);
    return status;
}

int workload_walk(worsegpu_client *client, const char *name, const struct workload_options *options,
                  workload_told told, void *context, struct worsegpu_client_error *error)
{
    uint64_t ahead = options->delay > 0 ? 1 : STEPS_AHEAD;
    uint64_t queued = 0;
    uint64_t queued_freed = 0;
    uint64_t received_freed = 0;
    int status = WORSEGPU_CLIENT_OK;
    for (uint64_t step = 1; status == WORSEGPU_CLIENT_OK && step <= options->steps; step++) {
        struct workload_step happened = {.step = step};
        while (status == WORSEGPU_CLIENT_OK && queued < options->steps && queued < step - 1 + ahead)
            status = queue_asking(client, name, ++queued, &queued_freed, error);
        if (status == WORSEGPU_CLIENT_OK)
            status = receive_step(client, &happened, &received_freed, error);
        if (status == WORSEGPU_CLIENT_OK && !told(context, &happened))
            break;
    }
    return status;
}

void workload_print_metrics(struct output *output, const struct worsegpu_client_snapshot *snapshot)
{
    output_text(output,
                "{\"active_allocations\": %" PRIu64 ", \"cpu_bytes\": %" PRIu64
                ", \"fragmentation\": %s, \"gpu_blocks\": %" PRIu64 ", \"gpu_capacity\": %" PRIu64
                ", \"gpu_forgotten\": %" PRIu64 ", \"gpu_free\": %" PRIu64
                ", \"gpu_reserved\": %" PRIu64 ", \"gpu_unreserved\": %" PRIu64
                ", \"gpu_used\": %" PRIu64 ", \"trace_events\": %" PRIu64 "}",
                snapshot->active_allocations, snapshot->cpu_bytes, snapshot->fragmentation_text,
                snapshot->gpu_blocks, snapshot->gpu_capacity, snapshot->gpu_forgotten,
                snapshot->gpu_free, snapshot->gpu_reserved, snapshot->gpu_unreserved,
                snapshot->gpu_used, snapshot->trace_events);
}
