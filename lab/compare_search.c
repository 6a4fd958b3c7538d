/* The smallest device on which a policy serves a whole recording, and how long an operation takes;
 * see compare.h. Both replay without looking. */
#include <time.h>

#include "base/memory.h"
#include "lab/compare.h"

enum {
    MOST_RUNS = 80,
    CHUNK_EVENTS = 4096,      /* decoded before the clock starts */
    ENOUGH_NS = 50 * 1000000, /* of measured time */
    MOST_PASSES = 20
};

/* ------------------------------------------------------------------------------ the smallest
 * device */

/* Replays until the first refusal. 1: all was served (the peak of what was reserved in *peak, if
 * that is wanted); 0: not; negative: log_status. */
static int serves_all(const struct comparison *comparison, struct replay *replay, uint64_t *peak)
{
    struct events_walk *walk;
    struct event event;
    enum replay_result result = REPLAY_OTHER;
    struct policy_placement placement;
    uint64_t scanned;
    int status = events_walk_begin(comparison->events, &walk);
    if (status != LOG_FINE)
        return status;
    while (result != REPLAY_REFUSED && (status = events_walk_next(walk, &event)) == LOG_FINE) {
        if (replay_event(replay, &event, &result, &placement, &scanned) != WORSEGPU_OK) {
            status = LOG_NO_MEMORY;
            break;
        }
        struct policy_measures now = {0};
        if (peak && event.operation == LOG_ALLOCATE) {
            replay_operations(replay)->measure(replay_policy(replay), &now);
            *peak = now.reserved_bytes > *peak ? now.reserved_bytes : *peak;
        }
    }
    events_walk_end(walk);
    if (status < 0)
        return status;
    return result != REPLAY_REFUSED;
}

/* The same on a device of so many bytes; one that the policy cannot have serves nothing. */
static int try_device(struct comparison *comparison, struct compare_row *row, uint64_t bytes,
                      uint64_t *peak)
{
    struct compare_row scratch = *row; /* for its problem */
    struct replay *replay;
    lab_show_progress(comparison->lab, comparison->done);
    row->search_runs++;
    int status = compare_create(comparison, &scratch, bytes, &replay);
    if (status != 0)
        return status < 0 ? status : 0;
    status = serves_all(comparison, replay, peak);
    replay_destroy(replay);
    return status;
}

/* A device that suffices, at or above what the policy takes without a limit. 1 with *enough, 0:
 * none, negative: log_status. */
static int find_enough(struct comparison *comparison, struct compare_row *row, uint64_t floor,
                       uint64_t *enough)
{
    uint64_t peak = row->peak_reserved;
    int status = row->ooms == 0;
    if (row->capacity_bytes != row->unlimited_bytes) {
        peak = 0;
        status = try_device(comparison, row, row->unlimited_bytes, &peak);
    }
    if (status != 1)
        return status;
    for (*enough = peak > floor ? peak : floor; *enough < row->unlimited_bytes; *enough *= 2) {
        status = try_device(comparison, row, *enough, NULL);
        if (status != 0)
            return status;
    }
    *enough = row->unlimited_bytes;
    return 1;
}

int compare_search(struct comparison *comparison, struct compare_row *row)
{
    uint64_t floor = comparison->facts->peak_bytes;
    uint64_t enough;
    if (floor == 0)
        return LOG_FINE;
    int status = find_enough(comparison, row, floor, &enough);
    if (status != 1)
        return status;
    uint64_t too_small = floor - 1;
    while (enough - too_small > 1 && row->search_runs < MOST_RUNS) {
        uint64_t middle = too_small + (enough - too_small) / 2;
        status = try_device(comparison, row, middle, NULL);
        if (status < 0)
            return status;
        if (status == 1)
            enough = middle;
        else
            too_small = middle;
    }
    row->smallest_device = enough;
    return LOG_FINE;
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
