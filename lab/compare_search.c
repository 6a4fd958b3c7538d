/* The smallest device on which a policy serves a whole recording, and how long an operation takes;
 * see compare.h. Both replay without looking. The search is fit's. */
#include <time.h>

#include "base/memory.h"
#include "lab/compare.h"
#include "lab/fit_search.h"

enum {
    CHUNK_EVENTS = 4096,      /* decoded before the clock starts */
    ENOUGH_NS = 50 * 1000000, /* of measured time */
    MOST_PASSES = 20
};

/* ------------------------------------------------------------------------------ the smallest
 * device */

static void show(void *context)
{
    const struct comparison *comparison = context;
    lab_show_progress(comparison->lab, comparison->done);
}

int compare_search(struct comparison *comparison, struct compare_row *row)
{
    const struct fit_subject subject = {.memory = comparison->lab->memory,
                                        .events = comparison->events,
                                        .policy = row->text,
                                        .seed = comparison->seed,
                                        .tick = show,
                                        .tick_context = comparison};
    struct fit_answer answer;
    int status = fit_search(&subject, row->unlimited_bytes, false, &answer);
    row->smallest_device = answer.smallest;
    return status;
}

/* ------------------------------------------------------------------------------ time */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* As many events as fit, of those that reach a policy. LOG_STOPPED with fewer at the end. */
static int decode(struct events_walk *walk, struct event *chunk, size_t *count)
{
    int status = LOG_FINE;
    *count = 0;
    while (*count < CHUNK_EVENTS && (status = events_walk_next(walk, &chunk[*count])) == LOG_FINE)
        *count += compare_reaches_policy(&chunk[*count]);
    return status;
}

/* One pass; adds to *took_ns. log_status. */
static int time_pass(const struct comparison *comparison, struct replay *replay,
                     struct event *chunk, uint64_t *took_ns)
{
    struct events_walk *walk;
    enum replay_result result;
    struct policy_placement placement;
    uint64_t scanned;
    size_t count;
    int status = events_walk_begin(comparison->events, &walk);
    if (status != LOG_FINE)
        return status;
    do {
        status = decode(walk, chunk, &count);
        uint64_t begun = now_ns();
        for (size_t i = 0; i < count && status >= 0; i++) {
            if (replay_event(replay, &chunk[i], &result, &placement, &scanned) != WORSEGPU_OK)
                status = LOG_NO_MEMORY;
        }
        *took_ns += now_ns() - begun;
        lab_show_progress(comparison->lab, comparison->done);
    } while (status == LOG_FINE);
    events_walk_end(walk);
    return status == LOG_STOPPED ? LOG_FINE : status;
}

/* The fastest pass counts: the others were disturbed. */
static int time_passes(const struct comparison *comparison, struct compare_row *row,
                       struct event *chunk)
{
    uint64_t total = 0;
    uint64_t fastest = UINT64_MAX;
    for (int pass = 0; pass < MOST_PASSES && total < ENOUGH_NS; pass++) {
        struct replay *replay;
        uint64_t took = 0;
        int status = compare_create(comparison, row, row->capacity_bytes, &replay);
        if (status != 0)
            return LOG_NO_MEMORY;
        status = time_pass(comparison, replay, chunk, &took);
        replay_destroy(replay);
        if (status != LOG_FINE)
            return status;
        total += took;
        fastest = took < fastest ? took : fastest;
    }
    row->ns_per_operation = (double)fastest / (double)row->operations;
    return LOG_FINE;
}

int compare_time(struct comparison *comparison, struct compare_row *row)
{
    const struct worsegpu_memory *memory = comparison->lab->memory;
    if (row->operations == 0)
        return LOG_FINE;
    struct event *chunk = memory_allocate_array(memory, CHUNK_EVENTS, sizeof(*chunk));
    if (!chunk)
        return LOG_NO_MEMORY;
    int status = time_passes(comparison, row, chunk);
    memory_release_array(memory, chunk, CHUNK_EVENTS, sizeof(*chunk));
    return status;
}
