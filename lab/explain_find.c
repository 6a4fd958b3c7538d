/* The replay to the first refusal, and the one that looks for where it went wrong; see explain.h.
 */
#include <string.h>

#include "base/memory.h"
#include "lab/explain.h"

enum {
    PROGRESS_EVERY = 16384,
    SCAN_BUDGET = 400000000 /* blocks looked at for what a flush would give */
};

/* ------------------------------------------------------------------------------ the refusal */

static void own(struct explain_owner *owners, const struct event *event, uint64_t number,
                enum replay_result result, const struct policy_placement *placement)
{
    struct explain_owner *owner = &owners[event->slot];
    *owner = (struct explain_owner){.live = result == REPLAY_PLACED,
                                    .event = number,
                                    .id = event->id,
                                    .bytes = event->bytes,
                                    .stream = event->stream,
                                    .time_us = event->time_us};
    if (owner->live) {
        owner->offset = placement->offset;
        owner->reserved_bytes = placement->reserved_bytes;
    }
}

static void refuse(struct explain *explain, struct replay *replay, const struct event *event,
                   uint64_t number, uint64_t scanned)
{
    const struct policy_operations *operations = replay_operations(replay);
    explain->refused = true;
    explain->asked = *event;
    explain->number = number;
    explain->scanned = scanned;
    operations->measure(replay_policy(replay), &explain->after);
    explain->takes_segments = explain->after.device_calls > 0;
    explain->untaken_bytes = explain->capacity_bytes > explain->after.reserved_bytes
                                 ? explain->capacity_bytes - explain->after.reserved_bytes
                                 : 0;
}

/* LOG_STOPPED when nothing was refused. */
static int replay_to_refusal(struct explain *explain, struct replay *replay,
                             struct events_walk *walk, struct explain_owner *owners)
{
    struct event event;
    struct policy_placement placement;
    enum replay_result result;
    uint64_t scanned;
    uint64_t number = 0;
    int status;
    while ((status = events_walk_next(walk, &event)) == LOG_FINE) {
        number++;
        replay_operations(replay)->measure(replay_policy(replay), &explain->before);
        if (replay_event(replay, &event, &result, &placement, &scanned) != WORSEGPU_OK)
            return LOG_NO_MEMORY;
        if (result == REPLAY_REFUSED) {
            refuse(explain, replay, &event, number, scanned);
            return LOG_FINE;
        }
        if (event.operation == LOG_ALLOCATE) {
            own(owners, &event, number, result, &placement);
            explain->live_bytes += owners[event.slot].live ? event.bytes : 0;
            explain->live_count += owners[event.slot].live;
        } else if (event.operation == LOG_FREE && owners[event.slot].live) {
            owners[event.slot].live = false;
            explain->live_bytes -= event.bytes;
            explain->live_count--;
        }
        if (number % PROGRESS_EVERY == 0)
            lab_show_progress(explain->lab, -1);
    }
    return status;
}

static void note_free(struct explain *explain, uint64_t id, uint64_t number)
{
    struct explain_window *window = &explain->window;
    for (size_t i = 0; i < window->holder_count; i++) {
        if (window->holders[i].id == id)
            window->holders[i].freed_event = number;
    }
    for (size_t i = 0; i < explain->segment_count; i++) {
        if (explain->segments[i].oldest.event > 0 && explain->segments[i].oldest.id == id)
            explain->segments[i].oldest.freed_event = number;
    }
}

/* When those in the way are freed. */
static int follow_holders(struct explain *explain, struct events_walk *walk)
{
    struct event event;
    uint64_t number = explain->number;
    int status;
    while ((status = events_walk_next(walk, &event)) == LOG_FINE) {
        number++;
        if (event.operation == LOG_FREE)
            note_free(explain, event.id, number);
    }
    return status == LOG_STOPPED ? LOG_FINE : status;
}

static int look_at(struct explain *explain, struct replay *replay, struct events_walk *walk)
{
    size_t slots = (size_t)events_facts(explain->events)->peak_live + 1;
    struct explain_owner *owners =
        memory_allocate_zeroed(explain->lab->memory, slots, sizeof(*owners));
    if (!owners)
        return LOG_NO_MEMORY;
    int status = replay_to_refusal(explain, replay, walk, owners);
    if (status == LOG_FINE && explain_look(explain, replay, owners, slots) != 0)
        status = LOG_NO_MEMORY;
    memory_release_array(explain->lab->memory, owners, slots, sizeof(*owners));
    if (status == LOG_FINE)
        status = follow_holders(explain, walk);
    return status == LOG_STOPPED ? LOG_FINE : status;
}

/* A replay from the beginning on the device that is explained. */
static int begin(const struct explain *explain, struct replay **replay, struct events_walk **walk)
{
    const struct replay_choice choice = {
        .text = explain->policy, .capacity_bytes = explain->capacity_bytes, .seed = explain->seed};
    char problem[REPLAY_PROBLEM_SIZE];
    if (replay_create(&choice, explain->lab->memory, replay, problem) != WORSEGPU_OK)
        return LOG_NO_MEMORY; /* that it can be had was asked before */
    int status = events_walk_begin(explain->events, walk);
    if (status != LOG_FINE)
        replay_destroy(*replay);
    return status;
}

int explain_find(struct explain *explain)
{
    struct replay *replay;
    struct events_walk *walk;
    int status = begin(explain, &replay, &walk);
    if (status != LOG_FINE)
        return status;
    status = look_at(explain, replay, walk);
    events_walk_end(walk);
    replay_destroy(replay);
    return status;
}

bool explain_is_full(const struct explain *explain)
{
    return explain->asked.bytes > explain->capacity_bytes ||
           explain->live_bytes > explain->capacity_bytes - explain->asked.bytes;
}

/* ------------------------------------------------------------------------------ where it went
 * wrong */

/* What a flush would give back: segments in which nothing lives. */
struct flushing {
    uint64_t segment;
    uint64_t bytes;
    bool live;
    bool any;
    uint64_t sum;
    uint64_t looked;
};

static void close_segment(struct flushing *flushing)
{
    if (flushing->any && !flushing->live)
        flushing->sum += flushing->bytes;
    flushing->bytes = 0;
    flushing->live = false;
}

static void see(void *context, const struct policy_block *block)
{
    struct flushing *flushing = context;
    if (!flushing->any || block->segment != flushing->segment)
        close_segment(flushing);
    flushing->any = true;
    flushing->segment = block->segment;
    flushing->bytes += block->bytes;
    flushing->live = flushing->live || block->state != POLICY_BLOCK_FREE;
    flushing->looked++;
}

/* The largest request, by size, that could be served now: a free piece, or what the device has left
 * with all that a flush would give back. `wanted` saves work: more than that is not told apart. */
static uint64_t servable(const struct explain *explain, struct replay *replay, uint64_t wanted,
                         uint64_t *budget)
{
    const struct policy_operations *operations = replay_operations(replay);
    struct policy_measures now = {0};
    operations->measure(replay_policy(replay), &now);
    uint64_t untaken = explain->capacity_bytes > now.reserved_bytes
                           ? explain->capacity_bytes - now.reserved_bytes
                           : 0;
    uint64_t piece = operations->largest_free ? operations->largest_free(replay_policy(replay)) : 0;
    uint64_t most = piece > untaken ? piece : untaken;
    if (most >= wanted || !explain->takes_segments || untaken + now.free_bytes < wanted ||
        *budget == 0)
        return most;
    struct flushing flushing = {.any = false};
    operations->each_block(replay_policy(replay), see, &flushing);
    close_segment(&flushing);
    *budget -= flushing.looked < *budget ? flushing.looked : *budget;
    return untaken + flushing.sum > most ? untaken + flushing.sum : most;
}

static int watch(struct explain *explain, struct replay *replay, struct events_walk *walk)
{
    struct event event;
    struct policy_placement placement;
    enum replay_result result;
    uint64_t scanned;
    uint64_t budget = SCAN_BUDGET;
    bool could = true;
    int status = LOG_FINE;
    for (uint64_t number = 1; number < explain->number; number++) {
        status = events_walk_next(walk, &event);
        if (status != LOG_FINE)
            break;
        if (!compare_reaches_policy(&event))
            continue;
        if (replay_event(replay, &event, &result, &placement, &scanned) != WORSEGPU_OK)
            return LOG_NO_MEMORY;
        uint64_t most = servable(explain, replay, explain->asked.bytes, &budget);
        bool can = most >= explain->asked.bytes;
        if (could && !can) {
            explain->wrong_event = number;
            explain->wrong = event;
            explain->wrong_largest = most;
        } else if (can) {
            explain->wrong_event = 0;
        }
        could = can;
        if (number % PROGRESS_EVERY == 0)
            lab_show_progress(explain->lab, (double)number / (double)explain->number);
    }
    return status;
}

int explain_find_wrong(struct explain *explain)
{
    struct replay *replay;
    struct events_walk *walk;
    int status = begin(explain, &replay, &walk);
    if (status != LOG_FINE)
        return status;
    status = watch(explain, replay, walk);
    events_walk_end(walk);
    replay_destroy(replay);
    return status;
}
