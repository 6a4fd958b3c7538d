/* A policy under a stream of events; see replay.h. */
#include "lab/replay.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/suggest.h"
#include "lib/invariants.h"
#include "lib/python_random.h"

enum {
    NAME_SIZE = 64,
    MAX_POLICIES = 64
};

/* What became of the allocation in a slot. */
enum slot_state {
    SLOT_EMPTY,
    SLOT_PLACED,
    SLOT_ELSEWHERE /* on the host, or refused: its free is passed over */
};

struct slot {
    struct policy_placement placement;
    enum slot_state state;
};

struct replay {
    const struct worsegpu_memory *memory;
    const struct policy_operations *operations;
    struct policy *policy;
    struct worsegpu_config config;
    struct python_random random;
    char *knobs; /* their text, which the values point into */
    size_t knobs_size;
    struct slot *slots;
    size_t slots_capacity;
};

/* ------------------------------------------------------------------------------ beginning, end */

static void say_unknown_policy(const char *name, char problem[REPLAY_PROBLEM_SIZE])
{
    const char *names[MAX_POLICIES];
    size_t count = 0;
    for (const char *known; count < MAX_POLICIES && (known = worsegpu_policy_name(count)) != NULL;)
        names[count++] = known;
    const char *nearest = suggest_nearest(name, names, count);
    if (nearest)
        snprintf(problem, REPLAY_PROBLEM_SIZE, "there is no policy '%s'; did you mean '%s'?", name,
                 nearest);
    else
        snprintf(problem, REPLAY_PROBLEM_SIZE,
                 "there is no policy '%s'; `worsegpu-lab list policies` shows them all", name);
}

/* The policy named by the first word of `text`; *knobs is what follows it. */
static const struct policy_operations *find_policy(const char *text, const char **knobs,
                                                   char problem[REPLAY_PROBLEM_SIZE])
{
    char name[NAME_SIZE];
    text += strspn(text, " \t");
    size_t length = strcspn(text, " \t");
    *knobs = text + length;
    snprintf(name, sizeof(name), "%.*s", length < INT16_MAX ? (int)length : INT16_MAX, text);
    const struct policy_operations *operations = length < sizeof(name) ? policy_find(name) : NULL;
    if (!operations)
        say_unknown_policy(name, problem);
    return operations;
}

/* As worsegpu_create wants it: -?[0-9]+, at most 4300 digits. */
static bool seed_is_fine(const char *seed)
{
    seed += *seed == '-';
    size_t digits = strspn(seed, "0123456789");
    return digits > 0 && digits <= WORSEGPU_MAX_SEED_DIGITS && seed[digits] == '\0';
}

/* Fills in what the choice says; the text of the knobs becomes the replay's own. */
static int set_up(struct replay *replay, const struct replay_choice *choice, const char *knobs,
                  char problem[REPLAY_PROBLEM_SIZE])
{
    worsegpu_config_default(&replay->config);
    replay->config.policy = replay->operations->name;
    replay->config.gpu_capacity = choice->capacity_bytes;
    replay->config.max_request_bytes = WORSEGPU_MAX_BYTES;
    replay->knobs_size = strlen(knobs) + 1;
    replay->knobs = memory_allocate_array(replay->memory, replay->knobs_size, 1);
    if (!replay->knobs)
        return WORSEGPU_NO_MEMORY;
    memcpy(replay->knobs, knobs, replay->knobs_size);
    struct knob_value values[KNOBS_MAX];
    char knob_problem[KNOBS_PROBLEM_SIZE];
    if (!knobs_read(replay->operations, &replay->config, replay->knobs, values, knob_problem)) {
        snprintf(problem, REPLAY_PROBLEM_SIZE, "%s", knob_problem);
        return WORSEGPU_INVALID_ARGUMENT;
    }
    const char *seed = choice->seed ? choice->seed : "0";
    if (!seed_is_fine(seed)) {
        snprintf(problem, REPLAY_PROBLEM_SIZE,
                 "a seed is a decimal integer of at most 4300 digits, not '%.40s'", seed);
        return WORSEGPU_INVALID_ARGUMENT;
    }
    int status = python_random_seed(&replay->random, seed, replay->memory);
    if (status != WORSEGPU_OK)
        return status;
    struct policy_setup setup = {
        .config = &replay->config,
        .knobs = values,
        .random = &replay->random,
        .hash = {{UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xbf58476d1ce4e5b9)}},
        .memory = replay->memory,
        .source = choice->source,
        .watch = choice->watch,
    };
    return replay->operations->create(&setup, &replay->policy);
}

int replay_create(const struct replay_choice *choice, const struct worsegpu_memory *memory,
                  struct replay **result, char problem[REPLAY_PROBLEM_SIZE])
{
    *result = NULL;
    problem[0] = '\0';
    const char *knobs;
    const struct policy_operations *operations = find_policy(choice->text, &knobs, problem);
    if (!operations)
        return WORSEGPU_INVALID_ARGUMENT;
    struct replay *replay = memory_allocate_zeroed(memory, 1, sizeof(*replay));
    if (!replay)
        return WORSEGPU_NO_MEMORY;
    replay->memory = memory;
    replay->operations = operations;
    int status = set_up(replay, choice, knobs, problem);
    if (status != WORSEGPU_OK) {
        replay_destroy(replay);
        return status;
    }
    *result = replay;
    return WORSEGPU_OK;
}

void replay_destroy(struct replay *replay)
{
    if (!replay)
        return;
    if (replay->policy)
        replay->operations->destroy(replay->policy);
    memory_release_array(replay->memory, replay->slots, replay->slots_capacity,
                         sizeof(*replay->slots));
    memory_release_array(replay->memory, replay->knobs, replay->knobs_size, 1);
    memory_release_array(replay->memory, replay, 1, sizeof(*replay));
}

/* ------------------------------------------------------------------------------ events */

/* Makes the table of slots reach `slot`. */
static int reach_slot(struct replay *replay, uint32_t slot)
{
    size_t before = replay->slots_capacity;
    if (slot < before)
        return WORSEGPU_OK;
    if (memory_grow(replay->memory, &replay->slots, &replay->slots_capacity, (size_t)slot + 1,
                    sizeof(*replay->slots)) != 0)
        return WORSEGPU_NO_MEMORY;
    memset(replay->slots + before, 0, (replay->slots_capacity - before) * sizeof(*replay->slots));
    return WORSEGPU_OK;
}

static int allocate(struct replay *replay, const struct event *event, enum replay_result *result,
                    struct policy_placement *placement, uint64_t *scanned)
{
    if (reach_slot(replay, event->slot) != WORSEGPU_OK)
        return WORSEGPU_NO_MEMORY;
    struct policy_request request = {
        .requested_bytes = event->bytes,
        .stream = event->stream,
        .alignment = event->alignment,
        .upper = event->upper,
    };
    struct policy_outcome outcome = {.blocks_scanned = 0};
    /* No policy is asked for more than the engine's limit: what it rounds up must not overflow. */
    int verdict = event->bytes > WORSEGPU_MAX_BYTES
                      ? POLICY_FULL
                      : replay->operations->place(replay->policy, &request, &outcome);
    if (verdict < 0)
        return verdict;
    *scanned = outcome.blocks_scanned;
    struct slot *slot = &replay->slots[event->slot];
    slot->state = verdict == POLICY_PLACED ? SLOT_PLACED : SLOT_ELSEWHERE;
    *result = verdict == POLICY_HOST ? REPLAY_HOST : REPLAY_REFUSED;
    if (verdict == POLICY_PLACED) {
        slot->placement = outcome.placement;
        *placement = outcome.placement;
        *result = REPLAY_PLACED;
    }
    return WORSEGPU_OK;
}

/* The slot of a free or a record_stream, if the policy has its allocation. */
static struct slot *placed(const struct replay *replay, const struct event *event)
{
    if (event->slot >= replay->slots_capacity || replay->slots[event->slot].state != SLOT_PLACED)
        return NULL;
    return &replay->slots[event->slot];
}

static void release(struct replay *replay, const struct event *event)
{
    struct slot *slot = placed(replay, event);
    if (slot) {
        struct policy_free how = {.stream = event->stream};
        replay->operations->release(replay->policy, &slot->placement, &how);
    }
    if (event->slot < replay->slots_capacity)
        replay->slots[event->slot].state = SLOT_EMPTY;
}

static int record_stream(struct replay *replay, const struct event *event)
{
    struct slot *slot = placed(replay, event);
    if (!slot || !replay->operations->record_stream)
        return WORSEGPU_OK;
    return replay->operations->record_stream(replay->policy, &slot->placement, event->stream);
}

int replay_event(struct replay *replay, const struct event *event, enum replay_result *result,
                 struct policy_placement *placement, uint64_t *scanned)
{
    const struct policy_operations *operations = replay->operations;
    *result = REPLAY_OTHER;
    *scanned = 0;
    switch (event->operation) {
    case LOG_ALLOCATE:
        return allocate(replay, event, result, placement, scanned);
    case LOG_FREE:
        release(replay, event);
        return WORSEGPU_OK;
    case LOG_RECORD_STREAM:
        return record_stream(replay, event);
    case LOG_EVENT_DONE:
        if (operations->event_done)
            operations->event_done(replay->policy, event->stream, event->bytes, event->newest);
        return WORSEGPU_OK;
    case LOG_EMPTY_CACHE:
        if (operations->empty_cache)
            operations->empty_cache(replay->policy);
        return WORSEGPU_OK;
    case LOG_REFUSED:
    case LOG_SEGMENT_ALLOCATE:
    case LOG_SEGMENT_FREE:
    case LOG_SEGMENT_MAP:
    case LOG_SEGMENT_UNMAP:
    case LOG_OPERATIONS:
        return WORSEGPU_OK;
    }
    return WORSEGPU_OK;
}

/* ------------------------------------------------------------------------------ looking at it */

struct policy *replay_policy(struct replay *replay)
{
    return replay->policy;
}

const struct policy_operations *replay_operations(const struct replay *replay)
{
    return replay->operations;
}

static void visit_placed(const struct policy_live *live, policy_visit visit, void *context)
{
    const struct replay *replay = live->context;
    for (size_t i = 0; i < replay->slots_capacity; i++) {
        if (replay->slots[i].state == SLOT_PLACED)
            visit(context, &replay->slots[i].placement);
    }
}

int replay_check(const struct replay *replay, const char **broken)
{
    struct audit audit = {0};
    struct policy_live live = {
        .each = visit_placed,
        .context = replay,
        .largest_capacity_bytes = replay->config.gpu_capacity,
    };
    int status = replay->operations->check(replay->policy, &live, &audit);
    *broken = audit.broken;
    return status;
}
