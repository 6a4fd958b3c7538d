/* How fast the policies are: one call of lib/policy.h each, without façade, trace and handles, and
 * the replay of a recorded log. Prints; decides nothing.
 *
 * The figures beside ours are what the modelled library took for a call with the same kind of
 * sequence, measured once on another machine of this size. How this machine compares shows in the
 * yardstick: malloc and free, and steps through memory in random order. */
#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "lab/events.h"
#include "lab/replay.h"
#include "lib/policy.h"

#define CAPACITY_BYTES (UINT64_C(3) << 30)
#define REPLAY_GOAL 5e6

enum {
    LIVE = 10000,
    OPERATIONS = 1000000, /* half of them frees */
    PAIRS = OPERATIONS / 2,
    ROUNDS = 7,
    LARGEST_SIZE_LOG = 20,
    MALLOC_SHIFT = 6, /* the yardstick's sizes are so much smaller */
    CHASE_PLACES = 1 << 17,
    REPLAY_EVENTS = 3000000
};

static const char torch_log[] = "logs/torch/decomfl.pickle"; /* below $WORSEGPU_SHARED */

struct subject {
    const char *text;        /* policy and knobs */
    double real_nanoseconds; /* of the modelled library; 0: no such figure */
};

static const struct subject subjects[] = {
    {"offset", 34},
    {"vma", 51},
    {"tlsf", 71},
    {"bfc", 128},
    {"bfc allow_growth=true", 0},
    {"rmm_pool initial_pool_size=3GiB", 1222},
    {"rmm_pool", 0},
    {"list_fit fit=first", 0},
    {"list_fit fit=best", 0},
    {"buddy", 0},
    {"driver", 0},
    {"torch", 0},
    {"torch_expandable", 0},
};

/* One pair of calls: what is in this place is freed, and so many bytes are asked for instead. */
struct step {
    uint32_t place;
    uint32_t bytes;
};

struct work {
    uint32_t first[LIVE]; /* sizes */
    struct step steps[PAIRS];
};

static struct work work;

/* The processor's time, so that others who run at the same time matter less. */
static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

_Noreturn static void fail(const char *what, const char *why)
{
    fprintf(stderr, "bench_policies: %s: %s\n", what, why);
    exit(1);
}

static uint64_t next_number(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Every power of two from 1 byte to 1 MiB is as likely. */
static uint32_t next_size(uint64_t *state)
{
    double part = (double)next_number(state) / (double)(UINT64_C(1) << 31);
    return (uint32_t)exp2(part * LARGEST_SIZE_LOG);
}

static void make_work(void)
{
    uint64_t state = 7;
    for (size_t i = 0; i < LIVE; i++)
        work.first[i] = next_size(&state);
    for (size_t i = 0; i < PAIRS; i++) {
        work.steps[i].place = (uint32_t)(next_number(&state) % LIVE);
        work.steps[i].bytes = next_size(&state);
    }
}

/* ------------------------------------------------------------------------------------ yardstick */

static double malloc_nanoseconds(void)
{
    static void *pieces[LIVE];
    double best = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < LIVE; i++)
            pieces[i] = malloc((work.first[i] >> MALLOC_SHIFT) + 1);
        double start = now_seconds();
        for (size_t i = 0; i < PAIRS; i++) {
            void **piece = &pieces[work.steps[i].place];
            free(*piece);
            *piece = malloc((work.steps[i].bytes >> MALLOC_SHIFT) + 1);
        }
        double seconds = now_seconds() - start;
        for (size_t i = 0; i < LIVE; i++)
            free(pieces[i]);
        best = seconds < best ? seconds : best;
    }
    return best / OPERATIONS * 1e9;
}

/* Each place leads to the next one of one great circle through all of them. */
static double chase_nanoseconds(void)
{
    static uint32_t next[CHASE_PLACES];
    uint64_t state = 11;
    for (uint32_t i = 0; i < CHASE_PLACES; i++)
        next[i] = i;
    for (uint32_t i = CHASE_PLACES - 1; i > 0; i--) {
        uint32_t other = (uint32_t)(next_number(&state) % i);
        uint32_t kept = next[i];
        next[i] = next[other];
        next[other] = kept;
    }
    double best = INFINITY;
    uint32_t at = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_seconds();
        for (size_t i = 0; i < OPERATIONS; i++)
            at = next[at];
        double seconds = now_seconds() - start;
        best = seconds < best ? seconds : best;
    }
    volatile uint32_t kept = at; /* so that the walk is not left out */
    (void)kept;
    return best / OPERATIONS * 1e9;
}

/* -------------------------------------------------------------------------------- policy calls */

struct player {
    struct policy *policy;
    const struct policy_operations *operations;
    struct policy_placement placements[LIVE];
    bool held[LIVE];
    uint64_t refused;
};

static struct player player;

static void ask(struct player *of, uint32_t place, uint32_t bytes)
{
    struct policy_request request = {.requested_bytes = bytes};
    struct policy_outcome outcome;
    int verdict = of->operations->place(of->policy, &request, &outcome);
    if (verdict < 0)
        fail(of->operations->name, "no memory");
    of->held[place] = verdict == POLICY_PLACED;
    of->refused += verdict != POLICY_PLACED;
    of->placements[place] = outcome.placement;
}

static void give(struct player *of, uint32_t place)
{
    struct policy_free how = {0};
    if (of->held[place])
        of->operations->release(of->policy, &of->placements[place], &how);
}

/* Seconds for all steps. */
static double play(const struct subject *subject)
{
    struct replay_choice choice = {.text = subject->text, .capacity_bytes = CAPACITY_BYTES};
    struct replay *replay;
    char problem[REPLAY_PROBLEM_SIZE] = "no memory";
    if (replay_create(&choice, memory_system(), &replay, problem) != 0)
        fail(subject->text, problem);
    player.policy = replay_policy(replay);
    player.operations = replay_operations(replay);
    player.refused = 0;
    for (uint32_t i = 0; i < LIVE; i++)
        ask(&player, i, work.first[i]);
    double start = now_seconds();
    for (size_t i = 0; i < PAIRS; i++) {
        give(&player, work.steps[i].place);
        ask(&player, work.steps[i].place, work.steps[i].bytes);
    }
    double seconds = now_seconds() - start;
    replay_destroy(replay);
    return seconds;
}

static bool is_there(const struct subject *subject)
{
    char name[64];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(subject->text, " "), subject->text);
    return policy_find(name) != NULL;
}

static void print_calls(const struct subject *subject, double seconds, uint64_t refused)
{
    double nanoseconds = seconds / OPERATIONS * 1e9;
    printf("  %-32s %5.0f ns", subject->text, nanoseconds);
    if (subject->real_nanoseconds > 0)
        printf(", %.2f times the real one's %.0f ns", nanoseconds / subject->real_nanoseconds,
               subject->real_nanoseconds);
    if (refused > 0)
        printf(" (%" PRIu64 " refused)", refused);
    printf("\n");
}

/* Each round goes through all policies, so that a bad moment of the machine hits one round of each
 * and not all rounds of one. */
static void compare_calls(void)
{
    enum {
        SUBJECTS = sizeof(subjects) / sizeof(subjects[0])
    };
    double best[SUBJECTS] = {0};
    uint64_t refused[SUBJECTS] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < SUBJECTS; i++) {
            if (!is_there(&subjects[i]))
                continue;
            double seconds = play(&subjects[i]);
            if (round == 0 || seconds < best[i])
                best[i] = seconds;
            refused[i] = player.refused;
        }
    }
    printf("a policy call, 1,000,000 random ones with 10,000 live, sizes to 1 MiB:\n");
    for (size_t i = 0; i < SUBJECTS; i++) {
        if (is_there(&subjects[i]))
            print_calls(&subjects[i], best[i], refused[i]);
    }
}

/* -------------------------------------------------------------------------------------- replay */

/* The events of a log, and frees of what is left at its end, so that it can be played again. */
struct script {
    struct event *events;
    size_t count;
    size_t capacity;
};

static void add_event(struct script *script, const struct event *event)
{
    if (script->count == script->capacity) {
        script->capacity = script->capacity > 0 ? 2 * script->capacity : 1024;
        script->events = realloc(script->events, script->capacity * sizeof(*event));
        if (!script->events)
            fail("the log", "no memory");
    }
    script->events[script->count++] = *event;
}

static void add_last_frees(struct script *script)
{
    size_t count = script->count;
    bool *live = calloc(count + 1, sizeof(*live)); /* slots are below the number of events */
    if (!live)
        fail("the log", "no memory");
    for (size_t i = 0; i < count; i++)
        live[script->events[i].slot] = script->events[i].operation == LOG_ALLOCATE;
    for (uint32_t slot = 0; slot < count; slot++) {
        struct event event = {.operation = LOG_FREE, .slot = slot};
        if (live[slot])
            add_event(script, &event);
    }
    free(live);
}

/* The recorded log, if it is there. */
static bool load_log(struct script *script)
{
    const char *shared = getenv("WORSEGPU_SHARED");
    char name[4096];
    snprintf(name, sizeof(name), "%s/%s", shared ? shared : "../shared", torch_log);
    const struct log_format *format = log_format_find("torch-snapshot");
    struct log_source *source;
    struct log_problem problem = {"no such format"};
    if (!format || log_source_open(name, memory_system(), &source, &problem) != LOG_FINE)
        return false;
    struct events *events;
    struct events_walk *walk;
    if (events_read(source, format, UINT32_MAX, memory_system(), NULL, NULL, &events, &problem) !=
            LOG_FINE ||
        events_walk_begin(events, &walk) != LOG_FINE)
        fail(name, problem.text);
    struct event event;
    int status;
    while ((status = events_walk_next(walk, &event)) == LOG_FINE) {
        if (event.operation == LOG_ALLOCATE || event.operation == LOG_FREE)
            add_event(script, &event);
    }
    if (status != LOG_STOPPED)
        fail(name, "cannot be read again");
    events_walk_end(walk);
    events_release(events);
    log_source_close(source);
    return true;
}

/* Like a training step: activations of a few sizes go up and down, with small ones for good between
 * them. */
static void make_log(struct script *script)
{
    enum {
        TURNS = 10,
        LAYERS = 200
    };
    uint32_t kept = LAYERS;
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        for (uint32_t layer = 0; layer < LAYERS; layer++) {
            struct event event = {
                .operation = LOG_ALLOCATE,
                .slot = layer,
                .bytes = UINT64_C(4096) << layer % 13,
            };
            add_event(script, &event);
            event.slot = kept;
            event.bytes = 1000;
            if (layer % 10 == 0) {
                add_event(script, &event);
                kept++;
            }
        }
        for (uint32_t layer = LAYERS; layer-- > 0;) {
            struct event event = {.operation = LOG_FREE, .slot = layer};
            add_event(script, &event);
        }
    }
}

static double replay_seconds(struct replay *replay, const struct script *script, size_t times)
{
    double start = now_seconds();
    for (size_t time = 0; time < times; time++) {
        for (size_t i = 0; i < script->count; i++) {
            enum replay_result result;
            struct policy_placement placement;
            uint64_t scanned;
            if (replay_event(replay, &script->events[i], &result, &placement, &scanned) != 0)
                fail("the replay", "no memory");
        }
    }
    return now_seconds() - start;
}

static void replay_log(const char *policy)
{
    struct script script = {0};
    if (!policy_find(policy))
        return;
    bool recorded = load_log(&script);
    if (!recorded)
        make_log(&script);
    add_last_frees(&script);
    if (script.count == 0)
        fail(torch_log, "is empty");
    struct replay_choice choice = {.text = policy, .capacity_bytes = UINT64_C(80) << 30};
    struct replay *replay;
    char problem[REPLAY_PROBLEM_SIZE] = "no memory";
    if (replay_create(&choice, memory_system(), &replay, problem) != 0)
        fail(policy, problem);
    size_t times = REPLAY_EVENTS / script.count + 1;
    double best = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        double seconds = replay_seconds(replay, &script, times);
        best = seconds < best ? seconds : best;
    }
    double rate = (double)(times * script.count) / best;
    printf("%s replays %s (%zu events), looped: %.1f million events a second, %.2f times the goal "
           "of 5\n",
           policy, recorded ? "decomfl" : "a made-up log, as the recorded one is not there,",
           script.count, rate / 1e6, rate / REPLAY_GOAL);
    replay_destroy(replay);
    free(script.events);
}

int main(void)
{
    /* The process keeps the memory it once had, so that only the first round meets new pages. */
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
    mallopt(M_TOP_PAD, 1 << 20);
    make_work();
    printf("yardstick of this machine: malloc and free of the same sequence with sizes to 16 KiB "
           "%.0f ns a call; a random step in 512 KiB %.1f ns\n",
           malloc_nanoseconds(), chase_nanoseconds());
    compare_calls();
    replay_log("torch");
    replay_log("torch_expandable");
    return 0;
}
