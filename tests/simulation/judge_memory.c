/* What the answers to allocate and free must be; see judge.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/judge.h"

/* ----------------------------------------------------------------------------------- quotas */

/* One limit that an allocate meets. */
struct fence {
    const char *which;
    uint64_t limit; /* 0: none */
    uint64_t used;
    bool counts; /* allocations, not bytes */
    bool on_gpu; /* only there; else only on the host */
};

enum {
    FENCES = 7
};

static void find_fences(const struct verdict *verdict, struct fence fences[FENCES])
{
    const struct world_limits *limits = &verdict->world->limits;
    const struct model *model = &verdict->world->model;
    struct account client = model_account_of_client(model, verdict->client->number);
    struct account user = model_account_of_user(model, (uint32_t)verdict->client->peer.uid);
    struct account all = model_account_of_allocator(verdict->allocator);
    const struct fence found[FENCES] = {
        {"max_client_allocations", limits->client_allocations, client.allocations, true, false},
        {"max_user_allocations", limits->user_allocations, user.allocations, true, false},
        {"max_client_gpu_bytes", limits->client_gpu_bytes, client.gpu_bytes, false, true},
        {"max_user_gpu_bytes", limits->user_gpu_bytes, user.gpu_bytes, false, true},
        {"host_capacity", verdict->allocator->host_capacity, all.cpu_bytes, false, false},
        {"max_client_cpu_bytes", limits->client_cpu_bytes, client.cpu_bytes, false, false},
        {"max_user_cpu_bytes", limits->user_cpu_bytes, user.cpu_bytes, false, false},
    };
    memcpy(fences, found, sizeof(found));
}

static bool fits(const struct fence *fence, uint64_t more)
{
    return fence->limit == 0 || (fence->used <= fence->limit && more <= fence->limit - fence->used);
}

/* Nothing that was allowed may pass a limit. */
static void judge_admitted(const struct verdict *verdict, bool on_gpu, uint64_t reserved)
{
    struct fence fences[FENCES];
    find_fences(verdict, fences);
    for (size_t index = 0; index < FENCES; index++) {
        const struct fence *fence = &fences[index];
        if (!fence->counts && fence->on_gpu != on_gpu)
            continue;
        if (!fits(fence, fence->counts ? 1 : reserved))
            judge_fail(verdict, "%s is %" PRIu64 ", of which %" PRIu64 " are used", fence->which,
                       fence->limit, fence->used);
    }
}

/* The most that a policy may take for a request, as far as that is known. */
static uint64_t most_reserved(const struct model_allocator *allocator, uint64_t requested)
{
    if (allocator->is_reference)
        return requested;
    return allocator->is_worse ? 2 * (requested + 16384) : UINT64_MAX / 4;
}

/* A refusal names the first limit that does not hold, and its figures. */
static void judge_quota(const struct verdict *verdict)
{
    struct fence fences[FENCES];
    uint64_t requested = verdict->asked->bytes;
    uint64_t used = judge_u64(verdict, verdict->line, "used");
    uint64_t left = judge_u64(verdict, verdict->line, "left");
    find_fences(verdict, fences);
    for (size_t index = 0; index < FENCES; index++) {
        const struct fence *fence = &fences[index];
        char name[64];
        snprintf(name, sizeof(name), "\"%s\"", fence->which);
        uint64_t more = fence->counts ? 1 : requested;
        if (!judge_is(verdict, "which", name)) {
            if (fence->counts && !fits(fence, 1))
                judge_fail(verdict, "%s must be told first", fence->which);
            continue;
        }
        if (fence->on_gpu)
            more = most_reserved(verdict->allocator, requested);
        if (fits(fence, more))
            judge_fail(verdict, "it would have fitted");
        if (judge_u64(verdict, verdict->line, "limit") != fence->limit || used != fence->used ||
            left != (fence->used < fence->limit ? fence->limit - fence->used : 0))
            judge_fail(verdict, "it is %" PRIu64 ", of which %" PRIu64 " are used", fence->limit,
                       fence->used);
        return;
    }
    judge_fail(verdict, "a limit that nobody knows");
}

/* -------------------------------------------------------------------------------------- allocate
 */

bool judge_rule_answered(const struct verdict *verdict)
{
    if (!verdict->kind || !strstr(verdict->line, "\"rule\":"))
        return false;
    uint64_t number = judge_u64(verdict, verdict->line, "rule");
    const struct model_rule *rule = model_find_rule(&verdict->world->model, number);
    bool oom = judge_is_kind(verdict, "out_of_memory");
    if (!rule ||
        rule->action != (oom ? WORSEGPU_FAULT_OUT_OF_MEMORY : WORSEGPU_FAULT_QUOTA_EXCEEDED))
        judge_fail(verdict, "there is no such rule");
    return true;
}

static bool host_is_forced(const struct world *world)
{
    for (size_t index = 0; index < world->model.rule_count; index++)
        if (world->model.rules[index].live &&
            world->model.rules[index].action == WORSEGPU_FAULT_HOST_FALLBACK)
            return true;
    return false;
}

static void enter(struct world *world, struct world_client *client,
                  struct model_allocator *allocator, const struct asked *asked,
                  const struct model_allocation *known)
{
    struct model_allocation *allocation = model_allocate(allocator);
    *allocation = *known;
    allocation->requested = asked->bytes;
    allocation->client = client->number;
    allocation->uid = (uint32_t)client->peer.uid;
    allocation->live = true;
    allocation->held = true;
    allocation->detached = asked->detached;
    snprintf(allocation->tag, sizeof(allocation->tag), "%s", asked->tag);
    model_expect(allocator, WORSEGPU_ALLOCATE, allocator->count, client->number, allocation->uid);
    (void)world;
}

static void judge_allocated(const struct verdict *verdict)
{
    struct model_allocator *allocator = verdict->allocator;
    const struct asked *asked = verdict->asked;
    struct model_allocation known = {.on_gpu = judge_is(verdict, "device", "\"gpu\"")};
    known.reserved = judge_u64(verdict, verdict->line, "reserved_bytes");
    answer_text(verdict->line, "handle", known.handle, sizeof(known.handle));
    if (judge_u64(verdict, verdict->line, "allocation_id") != allocator->count + 1 ||
        strtoull(known.handle, NULL, 10) != allocator->count + 1)
        judge_fail(verdict, "its id must be %zu", allocator->count + 1);
    if (judge_u64(verdict, verdict->line, "requested_bytes") != asked->bytes)
        judge_fail(verdict, "%" PRIu64 " bytes were asked for", asked->bytes);
    if (known.reserved < asked->bytes || (!known.on_gpu && known.reserved != asked->bytes) ||
        (known.on_gpu && known.reserved > most_reserved(allocator, asked->bytes)))
        judge_fail(verdict, "so many bytes must not be reserved");
    if (!known.on_gpu && !allocator->fallback && judge_is(verdict, "reason", "\"gpu_oom\"") &&
        !host_is_forced(verdict->world))
        judge_fail(verdict, "it must not fall back on the host");
    judge_admitted(verdict, known.on_gpu, known.reserved);
    enter(verdict->world, verdict->client, allocator, asked, &known);
}

/* Whether a rule may have had something forgotten, which still takes its room. */
static bool was_forgotten(const struct world *world)
{
    for (size_t index = 0; index < world->model.rule_count; index++)
        if (world->model.rules[index].action == WORSEGPU_FAULT_FORGET)
            return true;
    return false;
}

void judge_allocate(const struct verdict *verdict)
{
    struct model_allocator *allocator = verdict->allocator;
    const struct asked *asked = verdict->asked;
    if (*asked->tag && model_find_tag(allocator, verdict->client->number, asked->tag)) {
        judge_must(verdict, "name_in_use");
        return;
    }
    if (asked->bytes > allocator->max_request) {
        judge_must(verdict, "invalid_params");
        return;
    }
    if (judge_rule_answered(verdict))
        return;
    if (model_live(allocator) >= verdict->world->fixed.live_allocations) {
        judge_must(verdict, "limit_exceeded");
        return;
    }
    if (judge_is_kind(verdict, "quota_exceeded")) {
        judge_quota(verdict);
        return;
    }
    if (judge_is_kind(verdict, "out_of_memory")) {
        struct account account = model_account_of_allocator(allocator);
        if (allocator->fallback)
            judge_fail(verdict, "it must fall back on the host");
        if (allocator->is_reference && !was_forgotten(verdict->world) &&
            account.gpu_bytes <= allocator->capacity &&
            asked->bytes <= allocator->capacity - account.gpu_bytes)
            judge_fail(verdict, "it would have fitted");
        allocator->failures++;
        model_expect(allocator, WORSEGPU_ALLOCATE_FAILED, 0, verdict->client->number,
                     (uint32_t)verdict->client->peer.uid);
        return;
    }
    judge_must(verdict, NULL);
    judge_allocated(verdict);
}

/* ------------------------------------------------------------------------------------------ free
 */

/* Whether a handle is live in another allocator that the client may use. */
static bool lives_elsewhere(const struct verdict *verdict)
{
    for (const struct model_allocator *allocator = verdict->world->model.allocators; allocator;
         allocator = allocator->next)
        if (!allocator->ended &&
            (allocator->owner == 0 || allocator->owner == verdict->client->number) &&
            model_find_handle(allocator, verdict->asked->handle))
            return true;
    return false;
}

/* What a free names: its id, or 0 and the kind of error that it must get. */
static uint64_t find_target(const struct verdict *verdict, const char **wrong)
{
    const struct asked *asked = verdict->asked;
    const struct peer *peer = &verdict->client->peer;
    uint64_t id = *asked->tag
                      ? model_find_tag(verdict->allocator, verdict->client->number, asked->tag)
                      : model_find_handle(verdict->allocator, asked->handle);
    if (id == 0) {
        *wrong = !*asked->tag && lives_elsewhere(verdict) ? "foreign_handle" : "unknown_handle";
        return 0;
    }
    if (peer->uid != 0 && verdict->allocator->allocations[id - 1].uid != peer->uid) {
        *wrong = "permission_denied";
        return 0;
    }
    *wrong = NULL;
    return id;
}

/* Whether a rule may have a block forgotten. */
static bool may_forget(const struct verdict *verdict)
{
    const struct model *model = &verdict->world->model;
    for (size_t index = 0; index < model->rule_count; index++)
        if (model->rules[index].live && model->rules[index].action == WORSEGPU_FAULT_FORGET)
            return true;
    return verdict->allocator->is_worse;
}

void judge_free(const struct verdict *verdict)
{
    struct model_allocator *allocator = verdict->allocator;
    uint64_t client = verdict->client->number;
    const char *wrong;
    uint64_t id = find_target(verdict, &wrong);
    judge_must(verdict, wrong);
    if (id == 0)
        return;
    const struct model_allocation *allocation = &allocator->allocations[id - 1];
    if (judge_u64(verdict, verdict->line, "allocation_id") != id)
        judge_fail(verdict, "it is allocation %" PRIu64, id);
    if (!judge_is(verdict, "device", allocation->on_gpu ? "\"gpu\"" : "\"cpu\""))
        judge_fail(verdict, "it lies elsewhere");
    if (verdict->asked->kind == ASKED_RECORD_STREAM) {
        model_expect(allocator, WORSEGPU_RECORD_STREAM, id, client, allocation->uid);
        return;
    }
    if (!judge_is(verdict, "released", "true") && !(allocation->on_gpu && may_forget(verdict)))
        judge_fail(verdict, "it must be released");
    model_free(allocator, id, client);
}

/* ----------------------------------------------------------------------------- what nobody told */

/* An allocation that may have been made: the list of live ones knows. */
static void find_untold(struct world *world, struct world_client *client,
                        struct model_allocator *allocator, const struct asked *asked)
{
    struct worsegpu_snapshot snapshot;
    struct worsegpu_allocation found;
    size_t count;
    bool more;
    worsegpu_snapshot(allocator->hosted->engine, &snapshot);
    if (snapshot.oom_failures > allocator->failures) {
        allocator->failures++;
        model_expect(allocator, WORSEGPU_ALLOCATE_FAILED, 0, client->number,
                     (uint32_t)client->peer.uid);
    }
    worsegpu_list(allocator->hosted->engine, allocator->count, &found, 1, &count, &more);
    if (count == 0)
        return;
    if (found.requested_bytes != asked->bytes || found.handle.allocation_id != allocator->count + 1)
        world_fail(world, "request %s of client %" PRIu64 " made something else", asked->id,
                   client->number);
    struct model_allocation known = {.reserved = found.reserved_bytes,
                                     .on_gpu = found.device == WORSEGPU_GPU};
    worsegpu_handle_to_text(&found.handle, known.handle);
    const struct verdict verdict = {
        .world = world, .client = client, .asked = asked, .line = "", .allocator = allocator};
    judge_admitted(&verdict, known.on_gpu, known.reserved);
    enter(world, client, allocator, asked, &known);
}

/* A free of what it may free must be done, unless a rule ended the connection before it, or there
 * was no memory for it. */
static void find_freed(struct world *world, struct world_client *client,
                       struct model_allocator *allocator, const struct asked *asked)
{
    const struct verdict verdict = {
        .world = world, .client = client, .asked = asked, .line = "", .allocator = allocator};
    const char *wrong;
    struct worsegpu_snapshot snapshot;
    uint64_t id = find_target(&verdict, &wrong);
    worsegpu_snapshot(allocator->hosted->engine, &snapshot);
    if (id && snapshot.free_calls > allocator->frees)
        model_free(allocator, id, client->number);
    else if (id && !client->end->connection->broken && !world_memory_failed(world))
        world_fail(world, "request %s of client %" PRIu64 " freed nothing", asked->id,
                   client->number);
}

void judge_untold(struct world *world, struct world_client *client, const struct asked *asked)
{
    struct model_allocator *allocator = model_find(&world->model, asked->allocator, client->number);
    if (client->end->connection->broken) {
        bool ends = false;
        for (size_t index = 0; index < world->model.rule_count; index++)
            ends = ends || (world->model.rules[index].live &&
                            world->model.rules[index].action >= WORSEGPU_FAULT_DISCONNECT_BEFORE);
        if (!ends && !world_memory_failed(world) && !asked->silent)
            world_fail(world, "no rule ends connection %" PRIu64, client->number);
        client->goodbye = true;
    }
    if (allocator && asked->kind == ASKED_ALLOCATE)
        find_untold(world, client, allocator, asked);
    else if (allocator && asked->kind == ASKED_FREE)
        find_freed(world, client, allocator, asked);
}
