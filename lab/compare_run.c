/* One policy under one recording, looked at after every event; see compare.h.
 *
 * Formulas (the names are those of the tools that use them): peak reserved is the high-water of
 * what is taken from the device; internal fragmentation is sum(block - requested) / sum(block) over
 * live blocks (PyTorch's memory_viz); external is 1 - largest free / free (RMM's arena, BFC). */
#include <string.h>

#include "base/memory.h"
#include "lab/compare.h"
#include "lib/statistics.h"

enum {
    PROGRESS_EVERY = 16384, /* events */
    MOST_BITS = 52,         /* the largest power of two that any device may have */
    LEAST_BITS = 20
};

/* A loss while it is measured. */
struct losing {
    struct compare_loss loss;
    double now;       /* the ratio since the last event */
    double by_events; /* sums of ratio times weight */
    double by_time;
};

/* A replay while it is measured. */
struct measuring {
    struct comparison *comparison;
    struct compare_row *row;
    struct replay *replay;
    uint64_t *on_gpu; /* requested bytes of what is placed, by slot; 0: elsewhere */
    uint64_t requested_bytes;
    struct losing internal;
    struct losing external;
    uint64_t event_weight;
    uint64_t time_weight;
    uint64_t last_time_us;
    uint64_t number; /* of the event */
};

bool compare_reaches_policy(const struct event *event)
{
    switch (event->operation) {
    case LOG_ALLOCATE:
    case LOG_FREE:
    case LOG_RECORD_STREAM:
    case LOG_EVENT_DONE:
    case LOG_EMPTY_CACHE:
        return true;
    default:
        return false;
    }
}

int compare_create(const struct comparison *comparison, struct compare_row *row,
                   uint64_t capacity_bytes, struct replay **replay)
{
    const struct replay_choice choice = {
        .text = row->text, .capacity_bytes = capacity_bytes, .seed = comparison->seed};
    int status = replay_create(&choice, comparison->lab->memory, replay, row->problem);
    if (status == WORSEGPU_NO_MEMORY)
        return LOG_NO_MEMORY;
    return status == WORSEGPU_OK ? 0 : 1;
}

/* ------------------------------------------------------------------------------ losses */

/* What was true since the last event counts for the time until this one. */
static void pass_time(struct measuring *measuring, uint64_t time_us)
{
    uint64_t passed = time_us > measuring->last_time_us ? time_us - measuring->last_time_us : 0;
    if (measuring->number > 0) {
        measuring->time_weight += passed;
        measuring->internal.by_time += measuring->internal.now * (double)passed;
        measuring->external.by_time += measuring->external.now * (double)passed;
    }
    if (passed > 0)
        measuring->last_time_us = time_us;
}

static void lose(struct losing *losing, uint64_t lost, uint64_t of, uint64_t number)
{
    losing->now = of > 0 ? (double)lost / (double)of : 0.0;
    losing->by_events += losing->now;
    if (lost > losing->loss.worst_bytes) {
        losing->loss.worst_bytes = lost;
        losing->loss.worst = losing->now;
        losing->loss.worst_event = number;
    }
}

static void look(struct measuring *measuring)
{
    struct policy *policy = replay_policy(measuring->replay);
    const struct policy_operations *operations = replay_operations(measuring->replay);
    struct compare_row *row = measuring->row;
    struct policy_measures now = {0};
    operations->measure(policy, &now);
    if (now.reserved_bytes > row->peak_reserved)
        row->peak_reserved = now.reserved_bytes;
    uint64_t padding = now.used_bytes > measuring->requested_bytes
                           ? now.used_bytes - measuring->requested_bytes
                           : 0;
    lose(&measuring->internal, padding, now.used_bytes, measuring->number);
    uint64_t largest = now.free_bytes;
    if (operations->largest_free && !now.cannot_fragment)
        largest = operations->largest_free(policy);
    /* Where the range goes on above what was ever used, so may the largest block. */
    uint64_t lost = largest < now.free_bytes ? now.free_bytes - largest : 0;
    lose(&measuring->external, lost, now.free_bytes, measuring->number);
    measuring->event_weight++;
}

static void finish_loss(const struct measuring *measuring, const struct losing *losing,
                        struct compare_loss *loss)
{
    *loss = losing->loss;
    if (measuring->time_weight > 0)
        loss->mean = losing->by_time / (double)measuring->time_weight;
    else if (measuring->event_weight > 0)
        loss->mean = losing->by_events / (double)measuring->event_weight;
}

/* ------------------------------------------------------------------------------ the replay */

static void count_result(struct measuring *measuring, const struct event *event,
                         enum replay_result result)
{
    struct compare_row *row = measuring->row;
    if (event->operation == LOG_ALLOCATE) {
        measuring->on_gpu[event->slot] = result == REPLAY_PLACED ? event->bytes : 0;
        measuring->requested_bytes += measuring->on_gpu[event->slot];
        row->ooms += result == REPLAY_REFUSED;
        row->host += result == REPLAY_HOST;
    } else if (event->operation == LOG_FREE) {
        measuring->requested_bytes -= measuring->on_gpu[event->slot];
        measuring->on_gpu[event->slot] = 0;
    }
}

static int measure_events(struct measuring *measuring, struct events_walk *walk)
{
    struct comparison *comparison = measuring->comparison;
    struct event event;
    int status;
    while ((status = events_walk_next(walk, &event)) == LOG_FINE) {
        enum replay_result result;
        struct policy_placement placement;
        uint64_t scanned;
        pass_time(measuring, event.time_us);
        measuring->number++;
        if (!compare_reaches_policy(&event))
            continue;
        if (replay_event(measuring->replay, &event, &result, &placement, &scanned) != WORSEGPU_OK)
            return LOG_NO_MEMORY;
        measuring->row->searched += scanned;
        measuring->row->operations++;
        count_result(measuring, &event, result);
        look(measuring);
        if (measuring->number % PROGRESS_EVERY == 0)
            lab_show_progress(comparison->lab, comparison->done);
    }
    return status == LOG_STOPPED ? LOG_FINE : status;
}

static int measure_replay(struct measuring *measuring)
{
    struct compare_row *row = measuring->row;
    struct events_walk *walk;
    struct policy_measures last = {0};
    int status = events_walk_begin(measuring->comparison->events, &walk);
    if (status != LOG_FINE)
        return status;
    status = measure_events(measuring, walk);
    events_walk_end(walk);
    replay_operations(measuring->replay)->measure(replay_policy(measuring->replay), &last);
    row->device_calls = last.device_calls;
    row->retries = last.retries;
    row->forgotten_bytes = last.forgotten_bytes;
    row->counts_only = last.cannot_fragment && last.device_calls == 0;
    row->external_known =
        last.cannot_fragment || replay_operations(measuring->replay)->largest_free != NULL;
    finish_loss(measuring, &measuring->internal, &row->internal);
    finish_loss(measuring, &measuring->external, &row->external);
    return status;
}

int compare_find_unlimited(const struct comparison *comparison, struct compare_row *row)
{
    struct replay *replay;
    int status = 1;
    for (unsigned bits = MOST_BITS; status == 1 && bits >= LEAST_BITS; bits--) {
        row->unlimited_bytes = UINT64_C(1) << bits;
        status = compare_create(comparison, row, row->unlimited_bytes, &replay);
    }
    if (status == 0)
        replay_destroy(replay);
    return status;
}

static int measure_possible(struct measuring *measuring)
{
    struct comparison *comparison = measuring->comparison;
    struct compare_row *row = measuring->row;
    size_t slots = comparison->facts->peak_live > 0 ? (size_t)comparison->facts->peak_live : 1;
    measuring->on_gpu =
        memory_allocate_zeroed(comparison->lab->memory, slots, sizeof(*measuring->on_gpu));
    int status = measuring->on_gpu ? measure_replay(measuring) : LOG_NO_MEMORY;
    memory_release_array(comparison->lab->memory, measuring->on_gpu, slots,
                         sizeof(*measuring->on_gpu));
    replay_destroy(measuring->replay);
    if (status == LOG_FINE && comparison->timed)
        status = compare_time(comparison, row);
    if (status == LOG_FINE && !comparison->quick)
        status = compare_search(comparison, row);
    return status;
}

int compare_measure(struct comparison *comparison, struct compare_row *row)
{
    struct measuring measuring = {.comparison = comparison, .row = row};
    row->ns_per_operation = -1;
    int status = compare_find_unlimited(comparison, row);
    if (status != 0)
        return status < 0 ? status : LOG_FINE;
    row->capacity_bytes =
        comparison->capacity_bytes > 0 ? comparison->capacity_bytes : row->unlimited_bytes;
    status = compare_create(comparison, row, row->capacity_bytes, &measuring.replay);
    if (status != 0)
        return status < 0 ? status : LOG_FINE;
    row->possible = true;
    return measure_possible(&measuring);
}
