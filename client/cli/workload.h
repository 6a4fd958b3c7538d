/* The workload of demo and benchmark (base/demo_steps.h), in a private allocator of whatever daemon
 * answers. */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include "client/cli/cli.h"
#include "client/cli/workload_options.h"

/* Reads the options, and connects to a daemon or starts one. Returns true when the work can begin;
 * else *status is the exit status. The program may be replaced by a daemon that runs it again. */
bool workload_begin(struct cli *cli, enum command command, struct workload_options *options,
                    worsegpu_client **client, int *status);

/* Makes a private allocator. As worsegpu_client_open. */
int workload_open(worsegpu_client *client, const char *name, const char *policy, uint64_t capacity,
                  const char *seed, struct worsegpu_client_error *error);

/* Carries all steps out as fast as it goes and gives the accounts afterwards; waits `delay` seconds
 * after each. Requests are notifications, which are not answered; the accounts at the end tell
 * whether all were carried out. When they were not, the steps are made again in a fresh allocator
 * with answers, and the first refusal is the error. */
int workload_run(worsegpu_client *client, const char *name, const char *policy, uint64_t capacity,
                 const struct workload_options *options, struct worsegpu_client_snapshot *snapshot,
                 struct worsegpu_client_error *error);

/* What happened in one step. */
struct workload_step {
    uint64_t step;
    struct worsegpu_client_allocation allocation;
    struct worsegpu_client_snapshot snapshot; /* after the step's free */
};

/* Carries all steps out one by one and tells each; `told` returns false to end it. The status is
 * that of the first that failed. */
typedef bool (*workload_told)(void *context, const struct workload_step *step);
int workload_walk(worsegpu_client *client, const char *name, const struct workload_options *options,
                  workload_told told, void *context, struct worsegpu_client_error *error);

/* The eleven metrics as a JSON object in one line, keys sorted. */
void workload_print_metrics(struct output *output, const struct worsegpu_client_snapshot *snapshot);

/* Waits so many seconds, through interruptions. */
void workload_sleep(double seconds);

#endif
