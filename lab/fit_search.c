/* The smallest device that serves a recording; see fit_search.h.
 *
 * The steps: a run without limit says what the policy takes at most and in which multiples (the
 * step). Devices at multiples of the step are halved down to a boundary, which then is moved to the
 * byte. Devices below the boundary are tried, at even distances; where one serves, the search goes
 * on below it. */
#include "lab/fit_search.h"

#include <string.h>

enum {
    MOST_RUNS = 600,
    PROBES_BELOW = 8,
    PROBES_ABOVE = 80,
    EIGHTHS = 8
};

static const uint64_t LARGEST_STEP = UINT64_C(2) << 20;

/* ------------------------------------------------------------------------------ a run */

static void note(struct replay *replay, const struct event *event, enum replay_result result,
                 struct fit_run *run)
{
    struct policy_measures now = {0};
    if (event->operation != LOG_ALLOCATE)
        return;
    replay_operations(replay)->measure(replay_policy(replay), &now);
    if (now.reserved_bytes > run->peak_reserved)
        run->peak_reserved = now.reserved_bytes;
    run->reserved_bits |= now.reserved_bytes;
    run->host += result == REPLAY_HOST;
}

static int run_events(struct replay *replay, struct events_walk *walk, struct fit_run *run)
{
    struct event event;
    struct policy_placement placement;
    enum replay_result result = REPLAY_OTHER;
    uint64_t scanned;
    uint64_t number = 0;
    int status;
    while ((status = events_walk_next(walk, &event)) == LOG_FINE) {
        number++;
        if (replay_event(replay, &event, &result, &placement, &scanned) != WORSEGPU_OK)
            return LOG_NO_MEMORY;
        if (result == REPLAY_REFUSED) {
            run->refused_event = number;
            return LOG_FINE;
        }
        note(replay, &event, result, run);
    }
    run->served = status == LOG_STOPPED;
    return status == LOG_STOPPED ? LOG_FINE : status;
}

int fit_try(const struct fit_subject *subject, uint64_t capacity_bytes, struct fit_run *run)
{
    const struct replay_choice choice = {
        .text = subject->policy, .capacity_bytes = capacity_bytes, .seed = subject->seed};
    char problem[REPLAY_PROBLEM_SIZE];
    struct replay *replay;
    struct events_walk *walk;
    struct policy_measures last = {0};
    *run = (struct fit_run){.served = false};
    if (subject->tick)
        subject->tick(subject->tick_context);
    int status = replay_create(&choice, subject->memory, &replay, problem);
    if (status != WORSEGPU_OK)
        return status == WORSEGPU_NO_MEMORY ? LOG_NO_MEMORY : LOG_FINE;
    status = events_walk_begin(subject->events, &walk);
    if (status == LOG_FINE) {
        status = run_events(replay, walk, run);
        events_walk_end(walk);
    }
    replay_operations(replay)->measure(replay_policy(replay), &last);
    run->device_calls = last.device_calls;
    run->retries = last.retries;
    run->counts_only = last.cannot_fragment && last.device_calls == 0;
    replay_destroy(replay);
    return status;
}

/* ------------------------------------------------------------------------------ the search */

/* It serves nothing at `low` (or nothing can be served there), and everything at `high`. */
struct searching {
    const struct fit_subject *subject;
    struct fit_answer *answer;
    uint64_t unlimited;
    uint64_t bound; /* no device of so many bytes or less can do */
    uint64_t low;
    uint64_t high;
};

static int try_device(struct searching *searching, uint64_t bytes, struct fit_run *run)
{
    searching->answer->runs++;
    if (bytes > searching->answer->largest_tried)
        searching->answer->largest_tried = bytes;
    return fit_try(searching->subject, bytes, run);
}

/* Tries a device between low and high, which becomes one of them. */
static int narrow(struct searching *searching, uint64_t bytes)
{
    struct fit_run run;
    int status = try_device(searching, bytes, &run);
    if (status != LOG_FINE)
        return status;
    if (run.served) {
        searching->high = bytes;
        searching->answer->at = run;
    } else {
        searching->low = bytes;
    }
    return LOG_FINE;
}

static bool may_run(const struct searching *searching)
{
    return searching->answer->runs < MOST_RUNS;
}

/* Until high is a step above low. */
static int halve(struct searching *searching, uint64_t step)
{
    int status = LOG_FINE;
    while (status == LOG_FINE && may_run(searching) && searching->high - searching->low > step) {
        uint64_t middle = searching->low + (searching->high - searching->low) / 2;
        middle -= middle % step;
        if (middle <= searching->low)
            middle += step;
        if (middle >= searching->high)
            middle = searching->high - step;
        status = narrow(searching, middle);
    }
    return status;
}

/* The boundary at steps, then to the byte: one byte less is tried first, since that mostly settles
 * it. */
static int find_boundary(struct searching *searching)
{
    int status = halve(searching, searching->answer->step);
    if (status == LOG_FINE && searching->high - searching->low > 1 && may_run(searching))
        status = narrow(searching, searching->high - 1);
    return status == LOG_FINE ? halve(searching, 1) : status;
}

/* A device that suffices, at or above what the policy takes without limit: high, or 0. */
static int find_enough(struct searching *searching, uint64_t least)
{
    uint64_t step = searching->answer->step;
    uint64_t bytes = least % step == 0 ? least : least + (step - least % step);
    for (; bytes < searching->unlimited; bytes *= 2) {
        struct fit_run run;
        int status = try_device(searching, bytes, &run);
        if (status != LOG_FINE)
            return status;
        if (run.served) {
            searching->high = bytes;
            searching->answer->at = run;
            return LOG_FINE;
        }
        searching->low = bytes;
    }
    searching->high = searching->unlimited;
    return LOG_FINE;
}

/* Devices at even distances between what cannot do and the answer: 1 where one of them serves,
 * which then is high; low is what failed below it. */
static int look_below(struct searching *searching)
{
    uint64_t step = searching->answer->step;
    uint64_t high = searching->high;
    uint64_t gap = (high - searching->bound) / (PROBES_BELOW + 1);
    struct fit_run run;
    uint64_t failed = searching->bound;
    for (uint64_t i = 1; i <= PROBES_BELOW && may_run(searching); i++) {
        uint64_t bytes = searching->bound + i * gap;
        bytes -= bytes % step;
        if (bytes <= failed || bytes >= searching->low)
            continue;
        int status = try_device(searching, bytes, &run);
        if (status != LOG_FINE)
            return status;
        if (run.served) {
            searching->answer->fails_again = searching->low;
            searching->answer->at = run;
            searching->low = failed;
            searching->high = bytes;
            return 1;
        }
        failed = bytes;
    }
    return 0;
}

/* ------------------------------------------------------------------------------ larger devices */

/* What is tried above the answer, the smallest first. */
static size_t choose_above(const struct searching *searching, uint64_t devices[PROBES_ABOVE])
{
    uint64_t from = searching->high;
    uint64_t room = searching->unlimited - from;
    uint64_t most = from < room ? from : room;
    size_t count = 0;
    uint64_t power = searching->answer->step;
    uint64_t eighth = 1;
    while (count + 2 < PROBES_ABOVE && (power <= most || eighth <= EIGHTHS)) {
        uint64_t part = most / EIGHTHS * eighth;
        if (power <= most && (eighth > EIGHTHS || power <= part)) {
            eighth += power == part;
            devices[count++] = from + power;
            power *= 2;
        } else {
            if (part > 0)
                devices[count++] = from + part;
            eighth++;
        }
    }
    return count;
}

/* Moves `sure` to where success begins for good, as far as was tried: `low` failed, `high` serves.
 */
static int settle(struct searching *searching, uint64_t low, uint64_t high)
{
    struct fit_run run;
    while (high - low > 1 && may_run(searching)) {
        uint64_t middle = low + (high - low) / 2;
        uint64_t even = middle - middle % searching->answer->step;
        middle = even > low ? even : middle;
        int status = try_device(searching, middle, &run);
        if (status != LOG_FINE)
            return status;
        if (run.served)
            high = middle;
        else
            low = middle;
    }
    searching->answer->sure = high;
    return LOG_FINE;
}

static int look_above(struct searching *searching)
{
    uint64_t devices[PROBES_ABOVE];
    size_t count = choose_above(searching, devices);
    struct fit_answer *answer = searching->answer;
    uint64_t failed = answer->fails_again; /* the largest device that did */
    uint64_t serves = 0;                   /* the least one above it that was tried */
    for (size_t i = 0; i < count && may_run(searching); i++) {
        struct fit_run run;
        int status = try_device(searching, devices[i], &run);
        if (status != LOG_FINE)
            return status;
        if (!run.served) {
            if (answer->fails_again == 0 || devices[i] < answer->fails_again)
                answer->fails_again = devices[i];
            if (devices[i] > failed)
                failed = devices[i];
            serves = 0;
        } else if (devices[i] > failed && serves == 0) {
            serves = devices[i];
        }
    }
    if (failed == 0)
        return LOG_FINE;
    return settle(searching, failed, serves > 0 ? serves : searching->unlimited);
}

int fit_search(const struct fit_subject *subject, uint64_t unlimited_bytes, bool above,
               struct fit_answer *answer)
{
    uint64_t floor = events_facts(subject->events)->peak_bytes;
    struct searching searching = {
        .subject = subject, .answer = answer, .unlimited = unlimited_bytes};
    memset(answer, 0, sizeof(*answer));
    answer->step = 1;
    if (floor == 0)
        return LOG_FINE;
    int status = try_device(&searching, unlimited_bytes, &answer->at);
    if (status != LOG_FINE || !answer->at.served)
        return status;
    answer->largest_tried = 0;
    uint64_t bits = answer->at.reserved_bits;
    if (bits > 0)
        answer->step = (bits & -bits) < LARGEST_STEP ? bits & -bits : LARGEST_STEP;
    /* What is on the host needs no device; else the floor is what no policy can do without. */
    searching.bound = answer->at.host > 0 ? 0 : floor - 1;
    searching.low = searching.bound;
    uint64_t least =
        answer->at.peak_reserved > searching.bound ? answer->at.peak_reserved : searching.bound + 1;
    status = find_enough(&searching, least);
    do {
        if (status >= 0)
            status = find_boundary(&searching);
        if (status == LOG_FINE)
            status = look_below(&searching);
    } while (status == 1);
    answer->smallest = searching.high;
    answer->failed = searching.low > searching.bound ? searching.low : 0;
    answer->sure = searching.high;
    return status == LOG_FINE && above ? look_above(&searching) : status;
}
