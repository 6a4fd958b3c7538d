/* A torch snapshot through the policy "torch": the recorded run once more, everything compared.
 *
 * Input are the requests: how many bytes on which stream, which frees are completed, and from the
 * device the addresses of segments and whether it was full (torch_device.c). All else the model has
 * to find by itself: the address of each allocation, whether it needs a segment and how large, and
 * which segments go back when the device is full or the cache is emptied. The record does not tell
 * these two apart; it is the first where the model has no cached block for the allocation that
 * follows, and else the second.
 *
 * Method: section F of reference/gpu-allocators.md. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "lab/mismatch.h"
#include "lab/torch_check.h"
#include "lib/secrets.h"
#include "lib/worsegpu.h"

enum {
    PLACE_SIZE = 200,
    SENTENCE_SIZE = 400
};

/* More than any device has, and so much that addresses beside it do not overflow. */
#define CAPACITY (UINT64_C(1) << 52)

/* ------------------------------------------------------------------------------ mismatches */

static const char *name_of(enum torch_action action)
{
    static const char *const names[TORCH_ACTIONS] = {
        [TORCH_ALLOC] = "alloc",
        [TORCH_FREE_REQUESTED] = "free_requested",
        [TORCH_FREE_COMPLETED] = "free_completed",
        [TORCH_SEGMENT_ALLOC] = "segment_alloc",
        [TORCH_SEGMENT_FREE] = "segment_free",
        [TORCH_SEGMENT_MAP] = "segment_map",
        [TORCH_SEGMENT_UNMAP] = "segment_unmap",
        [TORCH_OOM] = "oom",
        [TORCH_OTHER_ACTION] = "another one",
    };
    return names[action];
}

void torch_mismatch(struct torch_check *check, const char *format, ...)
{
    if (check->result->mismatches > 0) { /* only the first one is told */
        check->result->mismatches++;
        return;
    }
    const struct torch_event *event = &check->event;
    char place[PLACE_SIZE];
    char sentence[SENTENCE_SIZE];
    snprintf(place, sizeof(place),
             "device %" PRIu32 ", event %" PRIu64 " (byte %" PRIu64 ", %s of %" PRIu64
             " bytes, stream %" PRIu64 ")",
             check->device, check->number, event->place, name_of(event->action), event->size,
             event->stream);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    mismatch_note(check->result, check->policy, place, "%s", sentence);
}

/* ------------------------------------------------------------------------------ allocations */

int torch_check_place(struct torch_check *check, uint64_t address,
                      const struct policy_placement *placement)
{
    bool fresh = check->spares == 0;
    if (number_map_reserve(&check->live) != 0 || check->placed_length >= NUMBER_MAP_NONE ||
        (fresh && (memory_grow(check->memory, &check->placed, &check->placed_capacity,
                               check->placed_length + 1, sizeof(*check->placed)) != 0 ||
                   memory_grow(check->memory, &check->spare, &check->spare_capacity,
                               check->placed_length + 1, sizeof(*check->spare)) != 0)))
        return LOG_NO_MEMORY;
    uint32_t at = fresh ? (uint32_t)check->placed_length++ : check->spare[--check->spares];
    check->placed[at] = *placement;
    number_map_put(&check->live, address, at);
    return LOG_FINE;
}

bool torch_check_take(struct torch_check *check, uint64_t address,
                      struct policy_placement *placement)
{
    uint32_t at = number_map_find(&check->live, address);
    if (at == NUMBER_MAP_NONE)
        return false;
    number_map_remove(&check->live, address);
    *placement = check->placed[at];
    check->spare[check->spares++] = at;
    return true;
}

static void release(struct torch_check *check, const struct policy_placement *placement)
{
    struct policy_free how = {.stream = check->event.stream};
    check->operations->release(check->policy, placement, &how);
}

/* Asked when the model has found a block: not if it came from the cache although the record gives
 * memory back first. */
static bool admit(void *context, enum worsegpu_device device, uint64_t bytes)
{
    const struct torch_check *check = context;
    (void)device;
    (void)bytes;
    return check->asked > 0 || !torch_device_returns(check);
}

/* POLICY_PLACED or POLICY_FULL, or negative. */
static int place(struct torch_check *check, struct policy_outcome *outcome)
{
    struct policy_request request = {.requested_bytes = check->event.size,
                                     .stream = check->event.stream,
                                     .admit = admit,
                                     .admit_context = check};
    if (check->event.size == 0 || check->event.size > WORSEGPU_MAX_BYTES)
        return POLICY_FULL;
    if (torch_device_reserve(check) != LOG_FINE)
        return WORSEGPU_NO_MEMORY;
    check->asked = 0;
    check->progress = false;
    int verdict = check->operations->place(check->policy, &request, outcome);
    if (verdict != POLICY_NOT_ADMITTED)
        return verdict;
    check->operations->empty_cache(check->policy);
    request.admit = NULL;
    return check->operations->place(check->policy, &request, outcome);
}

static int see_alloc(struct torch_check *check)
{
    struct policy_outcome outcome = {.blocks_scanned = 0};
    struct policy_placement older;
    if (torch_check_take(check, check->event.addr, &older)) {
        torch_mismatch(check, "what is there already is allocated again");
        release(check, &older);
    }
    int verdict = place(check, &outcome);
    if (verdict < 0)
        return LOG_NO_MEMORY;
    bool equal = verdict == POLICY_PLACED && outcome.placement.offset == check->event.addr;
    torch_count(check, "addresses", equal);
    if (verdict != POLICY_PLACED)
        torch_mismatch(check, "expected %" PRIu64 ", got a refusal", check->event.addr);
    else if (!equal)
        torch_mismatch(check, "expected %" PRIu64 ", got %" PRIu64, check->event.addr,
                       outcome.placement.offset);
    torch_device_settle(check);
    return verdict == POLICY_PLACED
               ? torch_check_place(check, check->event.addr, &outcome.placement)
               : LOG_FINE;
}

static int see_refusal(struct torch_check *check)
{
    struct policy_outcome outcome = {.blocks_scanned = 0};
    int verdict = place(check, &outcome);
    if (verdict < 0)
        return LOG_NO_MEMORY;
    torch_count(check, "refusals", verdict == POLICY_FULL);
    if (verdict == POLICY_PLACED) {
        torch_mismatch(check, "expected a refusal, got %" PRIu64, outcome.placement.offset);
        release(check, &outcome.placement);
    }
    torch_device_settle(check);
    return LOG_FINE;
}

/* What the record did with the device without an allocation: it emptied its cache. */
static void flush(struct torch_check *check)
{
    if (torch_device_returns(check))
        check->operations->empty_cache(check->policy);
    torch_device_settle(check);
}

static int see_free(struct torch_check *check)
{
    struct policy_placement placement;
    flush(check);
    if (torch_check_take(check, check->event.addr, &placement))
        release(check, &placement);
    else if (check->result->mismatches == 0)
        torch_mismatch(check, "nothing is there that could be freed");
    return LOG_FINE;
}

static int see_event(struct torch_check *check)
{
    if (check->event.action == check->start.freed)
        return see_free(check);
    switch (check->event.action) {
    case TORCH_ALLOC:
        return see_alloc(check);
    case TORCH_OOM:
        return see_refusal(check);
    case TORCH_SEGMENT_ALLOC:
    case TORCH_SEGMENT_FREE:
    case TORCH_SEGMENT_MAP:
    case TORCH_SEGMENT_UNMAP:
        return torch_device_expect(check);
    default:
        return LOG_FINE;
    }
}

/* ------------------------------------------------------------------------------ a device */

static int walk_through(struct torch_check *check)
{
    struct torch_walk walk;
    if (torch_walk_begin(check->snapshot, check->device, &walk) != 0)
        return LOG_NO_MEMORY;
    int status = LOG_FINE;
    while (status == LOG_FINE) {
        status = torch_walk_next(&walk, &check->event, check->problem);
        if (status == LOG_FINE) {
            check->number++;
            status = see_event(check);
        }
    }
    torch_walk_end(&walk);
    if (status != LOG_STOPPED)
        return status;
    flush(check);
    return LOG_FINE;
}

static int make_model(struct torch_check *check)
{
    char problem[REPLAY_PROBLEM_SIZE];
    bool expandable = check->start.count[TORCH_SEGMENT_MAP] > 0;
    torch_model_write(check->snapshot, expandable, check->result->model);
    struct replay_choice choice = {
        .text = check->result->model, .capacity_bytes = CAPACITY, .source = &check->source};
    int status = replay_create(&choice, check->memory, &check->replay, problem);
    if (status == WORSEGPU_NO_MEMORY)
        return LOG_NO_MEMORY;
    if (status != 0)
        return log_bad(check->problem, true, 1,
                       "the recorded settings are no settings of torch: %s", problem);
    check->policy = replay_policy(check->replay);
    check->operations = replay_operations(check->replay);
    return LOG_FINE;
}

static int verify_device(struct torch_check *check)
{
    torch_device_begin(check);
    number_map_init(&check->live, &check->hash, check->memory);
    int status = make_model(check);
    if (status == LOG_FINE)
        status = torch_rebuild(check);
    if (status == LOG_FINE)
        status = walk_through(check);
    replay_destroy(check->replay);
    torch_device_end(check);
    number_map_release(&check->live);
    memory_release_array(check->memory, check->placed, check->placed_capacity,
                         sizeof(*check->placed));
    memory_release_array(check->memory, check->spare, check->spare_capacity, sizeof(*check->spare));
    return status;
}

/* ------------------------------------------------------------------------------ a snapshot */

/* A picture without a trace: nothing to replay, but its blocks must cover its segments. */
static void verify_picture(const struct torch_snapshot *snapshot, struct verify_result *result)
{
    size_t count;
    const struct torch_segment *segments = torch_snapshot_segments(snapshot, &count);
    struct verify_count *pictured = verify_count(result, "pictured segments");
    for (size_t i = 0; i < count; i++) {
        pictured->all++;
        pictured->equal += segments[i].covered;
        if (!segments[i].covered && result->mismatches++ == 0)
            snprintf(result->mismatch, sizeof(result->mismatch),
                     "byte %" PRIu64 ": the blocks of the segment at %" PRIu64 " do not cover it",
                     segments[i].place, segments[i].address);
    }
}

static bool has_something(const struct torch_start *start)
{
    return (start->count[TORCH_ALLOC] | start->count[TORCH_OOM] |
            start->count[TORCH_SEGMENT_ALLOC] | start->count[TORCH_SEGMENT_FREE] |
            start->count[TORCH_SEGMENT_MAP] | start->count[TORCH_SEGMENT_UNMAP]) != 0;
}

static int verify_snapshot(const struct torch_snapshot *snapshot,
                           const struct worsegpu_memory *memory, struct verify_result *result,
                           struct log_problem *problem)
{
    struct keyed_hash hash;
    const struct entropy *entropy = entropy_system();
    if (entropy->draw(entropy->context, hash.key, sizeof(hash.key)) != 0)
        hash = (struct keyed_hash){{0, 0}}; /* slower tables at worst */
    bool replayed = false;
    int status = LOG_FINE;
    for (uint32_t i = 0; status == LOG_FINE && i < torch_snapshot_devices(snapshot); i++) {
        struct torch_check check = {.memory = memory,
                                    .snapshot = snapshot,
                                    .device = i,
                                    .result = result,
                                    .problem = problem,
                                    .hash = hash};
        status = torch_start_find(snapshot, i, memory, &check.start, problem);
        if (status != LOG_FINE)
            break;
        if (has_something(&check.start)) {
            replayed = true;
            verify_count(result, "addresses");
            verify_count(result, "segments");
            status = verify_device(&check);
        }
        torch_start_release(&check.start);
    }
    if (status == LOG_FINE && !replayed)
        verify_picture(snapshot, result);
    return status;
}

int verify_torch(struct log_source *source, const struct worsegpu_memory *memory,
                 struct verify_result *result, struct log_problem *problem)
{
    memset(result, 0, sizeof(*result));
    snprintf(result->model, sizeof(result->model), "torch");
    struct torch_snapshot *snapshot;
    int status = torch_snapshot_load(source, memory, &snapshot, problem);
    if (status != LOG_FINE)
        return status;
    status = verify_snapshot(snapshot, memory, result, problem);
    torch_snapshot_release(snapshot);
    return status;
}
