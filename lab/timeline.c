/* A recording under one policy, event by event; see timeline.h. */
#include "lab/timeline.h"

#include <string.h>

#include "base/memory.h"
#include "lab/compare.h"

enum {
    PROGRESS_EVERY = 16384,
    CLASS_BITS = 3
};

struct running {
    const struct timeline *timeline;
    const struct timeline_sink *sinks;
    size_t sink_count;
    struct timeline_sum *sum;
    struct replay *replay;
    struct timeline_live *live;
    size_t slots;
    struct timeline_move *moves; /* during the event under way */
    size_t moves_capacity;
    size_t move_count;
    bool moves_lost; /* there was no memory for one */
    uint64_t number;
    uint64_t first_us;
    uint64_t time_us;
    uint64_t live_bytes;
    uint64_t forgotten_bytes;
};

size_t timeline_size_class(uint64_t bytes)
{
    if (bytes < 1u << CLASS_BITS)
        return (size_t)bytes;
    unsigned int top = 63u - (unsigned int)__builtin_clzll(bytes);
    return ((size_t)(top - CLASS_BITS + 1) << CLASS_BITS) +
           (size_t)(bytes >> (top - CLASS_BITS) & ((1u << CLASS_BITS) - 1));
}

uint64_t timeline_size_least(size_t size_class)
{
    size_t power = size_class >> CLASS_BITS;
    uint64_t part = size_class & ((1u << CLASS_BITS) - 1);
    return power == 0 ? part : (part | 1u << CLASS_BITS) << (power - 1);
}

/* ------------------------------------------------------------------------------ the device */

static void on_move(void *context, enum device_event event, uint64_t offset, uint64_t bytes)
{
    struct running *running = context;
    if (memory_grow(running->timeline->lab->memory, &running->moves, &running->moves_capacity,
                    running->move_count + 1, sizeof(*running->moves)) != 0) {
        running->moves_lost = true; /* the device cannot be told: said after the event */
        return;
    }
    running->moves[running->move_count++] =
        (struct timeline_move){.event = event, .offset = offset, .bytes = bytes};
}

/* ------------------------------------------------------------------------------ one event */

static void see_allocation(struct running *running, struct timeline_row *row,
                           const struct policy_placement *placement)
{
    struct timeline_sum *sum = running->sum;
    struct timeline_live *live = &running->live[row->slot];
    row->on_gpu = row->result == REPLAY_PLACED;
    *live = (struct timeline_live){.on_gpu = row->on_gpu,
                                   .number = row->number,
                                   .id = row->id,
                                   .bytes = row->bytes,
                                   .stream = row->stream,
                                   .time_us = row->time_us};
    sum->allocations++;
    sum->host += row->result == REPLAY_HOST;
    if (row->result == REPLAY_REFUSED && sum->ooms++ == 0) {
        sum->first_oom = row->number;
        sum->first_oom_bytes = row->bytes;
    }
    if (!row->on_gpu)
        return;
    live->offset = row->offset = placement->offset;
    live->block_bytes = row->block_bytes = placement->reserved_bytes;
    running->live_bytes += row->bytes;
    sum->live_at_end++;
    sum->sizes[timeline_size_class(row->block_bytes)]++;
    if (row->offset + row->block_bytes > sum->end)
        sum->end = row->offset + row->block_bytes;
}

static void see_free(struct running *running, struct timeline_row *row)
{
    struct timeline_live *live = &running->live[row->slot];
    running->sum->frees++;
    row->on_gpu = live->on_gpu;
    row->offset = live->offset;
    row->block_bytes = live->block_bytes;
    row->allocated_at = live->number;
    if (row->stream == LOG_OWN_STREAM)
        row->stream = live->stream;
    if (!live->on_gpu)
        return;
    live->on_gpu = false;
    running->live_bytes -= live->bytes;
    running->sum->live_at_end--;
}

static void look(struct running *running, struct timeline_row *row)
{
    struct policy *policy = replay_policy(running->replay);
    const struct policy_operations *operations = replay_operations(running->replay);
    struct timeline_sum *sum = running->sum;
    operations->measure(policy, &row->memory);
    row->largest_known = operations->largest_free && !row->memory.cannot_fragment;
    if (row->largest_known)
        row->largest_free = operations->largest_free(policy);
    row->lost = row->operation == LOG_FREE && row->on_gpu &&
                row->memory.forgotten_bytes > running->forgotten_bytes;
    running->forgotten_bytes = row->memory.forgotten_bytes;
    row->live_bytes = running->live_bytes;
    row->ooms = sum->ooms;
    row->host = sum->host;
    if (row->live_bytes > sum->peak_live) {
        sum->peak_live = row->live_bytes;
        sum->peak_live_event = row->number;
    }
    if (row->memory.reserved_bytes > sum->peak_reserved) {
        sum->peak_reserved = row->memory.reserved_bytes;
        sum->peak_reserved_event = row->number;
    }
    sum->last = row->memory;
}

static int tell(struct running *running, struct timeline_row *row)
{
    int status = LOG_FINE;
    row->moves = running->moves;
    row->move_count = running->move_count;
    row->replay = running->replay;
    running->sum->rows++;
    for (size_t i = 0; i < row->move_count; i++) {
        const struct timeline_move *move = &row->moves[i];
        bool memory = move->event != DEVICE_RESERVE && move->event != DEVICE_UNRESERVE;
        running->sum->moves += memory;
        if (memory && move->offset + move->bytes > running->sum->end)
            running->sum->end = move->offset + move->bytes;
    }
    for (size_t i = 0; status == LOG_FINE && i < running->sink_count; i++)
        status = running->sinks[i].row(running->sinks[i].context, row);
    return status;
}

static int carry_out(struct running *running, const struct event *event)
{
    struct policy_placement placement;
    uint64_t scanned;
    struct timeline_row row = {.number = running->number,
                               .time_us = running->time_us,
                               .operation = event->operation,
                               .slot = event->slot,
                               .id = event->id,
                               .bytes = event->bytes,
                               .stream = event->stream};
    running->move_count = 0;
    if (replay_event(running->replay, event, &row.result, &placement, &scanned) != WORSEGPU_OK ||
        running->moves_lost)
        return LOG_NO_MEMORY;
    if (event->operation == LOG_ALLOCATE)
        see_allocation(running, &row, &placement);
    else if (event->operation == LOG_FREE)
        see_free(running, &row);
    look(running, &row);
    return tell(running, &row);
}

/* ------------------------------------------------------------------------------ the run */

/* Logs of several threads may go back in time a little: here it stands still then. */
static void pass_time(struct running *running, uint64_t time_us)
{
    if (running->number == 1)
        running->first_us = time_us;
    if (time_us > running->first_us && time_us - running->first_us > running->time_us)
        running->time_us = time_us - running->first_us;
    running->sum->span_us = running->time_us;
}

static int run(struct running *running, struct events_walk *walk)
{
    struct lab *lab = running->timeline->lab;
    uint64_t all = events_facts(running->timeline->events)->events;
    struct event event;
    int status;
    while ((status = events_walk_next(walk, &event)) == LOG_FINE) {
        running->number++;
        pass_time(running, event.time_us);
        if (!compare_reaches_policy(&event))
            continue;
        status = carry_out(running, &event);
        if (status != LOG_FINE)
            return status;
        if (running->number % PROGRESS_EVERY == 0)
            lab_show_progress(lab, (double)running->number / (double)all);
    }
    return status == LOG_STOPPED ? LOG_FINE : status;
}

static int finish(struct running *running)
{
    const struct timeline_end end = {.sum = running->sum,
                                     .replay = running->replay,
                                     .live = running->live,
                                     .slots = running->slots};
    int status = LOG_FINE;
    for (size_t i = 0; status == LOG_FINE && i < running->sink_count; i++) {
        if (running->sinks[i].end)
            status = running->sinks[i].end(running->sinks[i].context, &end);
    }
    return status;
}

static int run_policy(struct running *running)
{
    const struct timeline *timeline = running->timeline;
    const struct device_watch watch = {.context = running, .tell = on_move};
    const struct replay_choice choice = {.text = timeline->policy,
                                         .capacity_bytes = timeline->capacity_bytes,
                                         .seed = timeline->seed,
                                         .watch = &watch};
    char problem[REPLAY_PROBLEM_SIZE];
    struct events_walk *walk;
    if (replay_create(&choice, timeline->lab->memory, &running->replay, problem) != WORSEGPU_OK)
        return LOG_NO_MEMORY;
    int status = events_walk_begin(timeline->events, &walk);
    if (status == LOG_FINE) {
        status = run(running, walk);
        events_walk_end(walk);
    }
    if (status == LOG_FINE)
        status = finish(running);
    /* The policy may give memory back to its device now: nobody looks any more. */
    replay_destroy(running->replay);
    return status;
}

int timeline_run(const struct timeline *timeline, const struct timeline_sink *sinks, size_t count,
                 struct timeline_sum *sum)
{
    const struct worsegpu_memory *memory = timeline->lab->memory;
    struct running running = {
        .timeline = timeline, .sinks = sinks, .sink_count = count, .sum = sum};
    memset(sum, 0, sizeof(*sum));
    running.slots = (size_t)events_facts(timeline->events)->peak_live + 1;
    running.live = memory_allocate_zeroed(memory, running.slots, sizeof(*running.live));
    int status = running.live ? run_policy(&running) : LOG_NO_MEMORY;
    memory_release_array(memory, running.moves, running.moves_capacity, sizeof(*running.moves));
    memory_release_array(memory, running.live, running.slots, sizeof(*running.live));
    return status;
}
