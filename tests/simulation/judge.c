/* What an answer must be; see judge.h. */
#include "tests/simulation/judge.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void judge_fail(const struct verdict *verdict, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    world_fail(verdict->world, "client %" PRIu64 ", request %s: %s: %.2000s",
               verdict->client->number, verdict->asked->id, text, verdict->line);
}

static const char *value_of(const char *from, const char *name)
{
    char key[64];
    int length = snprintf(key, sizeof(key), "\"%s\":", name);
    const char *found = strstr(from, key);
    return found ? found + length : NULL;
}

uint64_t judge_u64(const struct verdict *verdict, const char *from, const char *name)
{
    const char *value = value_of(from, name);
    if (!value || *value < '0' || *value > '9')
        judge_fail(verdict, "no number %s", name);
    return strtoull(value, NULL, 10);
}

bool judge_is(const struct verdict *verdict, const char *name, const char *json)
{
    const char *value = value_of(verdict->line, name);
    size_t length = strlen(json);
    return value && strncmp(value, json, length) == 0 && strchr(",}]", value[length]) &&
           value[length];
}

bool judge_is_kind(const struct verdict *verdict, const char *kind)
{
    return verdict->kind && strcmp(verdict->kind, kind) == 0;
}

void judge_must(const struct verdict *verdict, const char *kind)
{
    bool same = kind ? judge_is_kind(verdict, kind) : verdict->kind == NULL;
    if (!same)
        judge_fail(verdict, "it must be %s", kind ? kind : "a result");
}

static void must_equal(const struct verdict *verdict, const char *name, uint64_t wanted)
{
    uint64_t found = judge_u64(verdict, verdict->line, name);
    if (found != wanted)
        judge_fail(verdict, "%s must be %" PRIu64, name, wanted);
}

/* --------------------------------------------------------------------------------- looking at it
 */

static void judge_snapshot(const struct verdict *verdict)
{
    const struct model_allocator *allocator = verdict->allocator;
    struct account account = model_account_of_allocator(allocator);
    must_equal(verdict, "gpu_capacity", allocator->capacity);
    must_equal(verdict, "gpu_used", account.gpu_bytes);
    must_equal(verdict, "cpu_bytes", account.cpu_bytes);
    must_equal(verdict, "active_allocations", account.allocations);
    must_equal(verdict, "allocate_calls", allocator->count);
    must_equal(verdict, "free_calls", allocator->frees);
    must_equal(verdict, "oom_failures", allocator->failures);
}

/* An allocation that the peer may see in list. */
static bool is_listed(const struct verdict *verdict, uint64_t id)
{
    const struct model_allocation *allocation = &verdict->allocator->allocations[id - 1];
    bool mine = verdict->client->peer.uid == 0 || allocation->uid == verdict->client->peer.uid;
    bool orphan = allocation->detached && !allocation->held;
    return allocation->live && mine && (!verdict->asked->orphans || orphan);
}

static void judge_list(const struct verdict *verdict)
{
    const struct model_allocator *allocator = verdict->allocator;
    const char *at = verdict->line;
    uint64_t listed = 0;
    for (uint64_t id = 1; id <= allocator->count; id++) {
        if (!is_listed(verdict, id))
            continue;
        const char *next = value_of(at, "allocation_id");
        if (!next)
            break;
        if (strtoull(next, NULL, 10) != id)
            judge_fail(verdict, "allocation %" PRIu64 " must come here", id);
        const struct model_allocation *allocation = &allocator->allocations[id - 1];
        if (judge_u64(verdict, next, "reserved_bytes") != allocation->reserved)
            judge_fail(verdict, "allocation %" PRIu64 " has %" PRIu64 " bytes", id,
                       allocation->reserved);
        at = next;
        listed++;
    }
    if (value_of(at, "allocation_id"))
        judge_fail(verdict, "an allocation that must not be here");
    uint64_t left = 0;
    for (uint64_t id = 1; id <= allocator->count; id++)
        left += is_listed(verdict, id);
    bool limited = verdict->asked->limit && listed == verdict->asked->limit;
    if (listed < left && !limited && !judge_is(verdict, "more", "true"))
        judge_fail(verdict, "%" PRIu64 " of %" PRIu64 " allocations", listed, left);
}

static const struct world_client *client_of(const struct world *world, uint64_t number)
{
    for (size_t index = 0; index < world->client_count; index++)
        if (world->clients[index]->number == number && world->clients[index]->end->connection)
            return world->clients[index];
    return NULL;
}

static void judge_clients(const struct verdict *verdict)
{
    struct world *world = verdict->world;
    uint64_t shown = 0;
    uint64_t wanted = 0;
    const char *at = value_of(verdict->line, "clients");
    if (!at)
        judge_fail(verdict, "no clients");
    while ((at = value_of(at, "client")) != NULL) {
        shown++;
        const struct world_client *client = client_of(world, strtoull(at, NULL, 10));
        if (!client)
            judge_fail(verdict, "a client that is gone");
        if (!verdict->client->peer.admin && client->peer.uid != verdict->client->peer.uid)
            judge_fail(verdict, "a client of another user");
        struct account account = model_account_of_client(&world->model, client->number);
        if (judge_u64(verdict, at, "allocations") != account.allocations ||
            judge_u64(verdict, at, "gpu_bytes") != account.gpu_bytes ||
            judge_u64(verdict, at, "cpu_bytes") != account.cpu_bytes ||
            judge_u64(verdict, at, "detached") != account.detached)
            judge_fail(verdict, "client %" PRIu64 " holds something else", client->number);
    }
    for (size_t index = 0; index < world->client_count; index++) {
        const struct world_client *client = world->clients[index];
        wanted += client->end->connection &&
                  (verdict->client->peer.admin || client->peer.uid == verdict->client->peer.uid);
    }
    if (verdict->asked->limit && wanted > verdict->asked->limit)
        wanted = verdict->asked->limit;
    if (shown != wanted && !judge_is(verdict, "more", "true"))
        judge_fail(verdict, "%" PRIu64 " clients must be here", wanted);
}

/* Of events that have been looked at: the same ones, without a gap. */
static void judge_trace(const struct verdict *verdict)
{
    const struct model_allocator *allocator = verdict->allocator;
    uint64_t dropped = judge_u64(verdict, verdict->line, "dropped");
    uint64_t sequence = verdict->asked->after_given ? verdict->asked->after : 0;
    uint64_t after = sequence;
    const char *at = verdict->line;
    while ((at = value_of(at, "sequence")) != NULL) {
        uint64_t found = strtoull(at, NULL, 10);
        if (sequence == after)
            sequence += dropped;
        if (found != sequence + 1)
            judge_fail(verdict, "event %" PRIu64 " must come here", sequence + 1);
        sequence = found;
    }
    if (sequence > allocator->events.count + allocator->pending.count + 64)
        judge_fail(verdict, "so many events there are not");
    if (sequence != after && judge_u64(verdict, verdict->line, "next") != sequence)
        judge_fail(verdict, "next must be %" PRIu64, sequence);
}

/* ------------------------------------------------------------------------------- what may change
 */

static bool may_change(const struct verdict *verdict)
{
    return verdict->client->peer.admin || verdict->allocator->owner != 0;
}

static uint64_t private_allocators(const struct world *world, uint64_t client)
{
    uint64_t count = 0;
    for (const struct model_allocator *allocator = world->model.allocators; allocator;
         allocator = allocator->next)
        count += allocator->owner == client && !allocator->ended;
    return count;
}

static void judge_open(const struct verdict *verdict)
{
    struct world *world = verdict->world;
    const struct asked *asked = verdict->asked;
    uint64_t number = verdict->client->number;
    if (model_find(&world->model, asked->name, number)) {
        judge_must(verdict, "name_in_use");
        return;
    }
    if (private_allocators(world, number) >= world->limits.allocators_per_connection) {
        judge_must(verdict, "limit_exceeded");
        must_equal(verdict, "limit", world->limits.allocators_per_connection);
        return;
    }
    judge_must(verdict, NULL);
    struct model_allocator *made = model_add_allocator(&world->model, asked->name, number);
    made->is_reference = strcmp(asked->policy, "reference") == 0;
    made->is_worse = strcmp(asked->policy, "worse") == 0;
    made->fallback = asked->fallback;
    made->max_request = asked->max_request;
    made->capacity = asked->bytes;
    made->trace_limit = asked->trace_limit;
    /* Another line of this turn may have closed it again already. */
    made->hosted =
        hosted_find(&verdict->client->end->connection->allocators, made->name, strlen(made->name));
    must_equal(verdict, "gpu_capacity", asked->bytes);
}

static void drop_subscription(struct world_client *client, const struct model_allocator *allocator,
                              bool *was)
{
    *was = false;
    for (size_t index = 0; index < client->subscription_count; index++) {
        if (client->subscriptions[index].allocator != allocator)
            continue;
        client->subscriptions[index] = client->subscriptions[--client->subscription_count];
        *was = true;
    }
}

static void judge_close(const struct verdict *verdict)
{
    bool was;
    if (verdict->allocator->owner == 0) {
        judge_must(verdict, "permission_denied");
        return;
    }
    judge_must(verdict, NULL);
    drop_subscription(verdict->client, verdict->allocator, &was);
    model_close(&verdict->world->model, verdict->allocator);
}

static void judge_resize(const struct verdict *verdict)
{
    if (!may_change(verdict)) {
        judge_must(verdict, "permission_denied");
        return;
    }
    judge_must(verdict, NULL);
    verdict->allocator->capacity = verdict->asked->bytes;
    must_equal(verdict, "gpu_capacity", verdict->asked->bytes);
}

static void judge_subscribe(const struct verdict *verdict)
{
    struct world_client *client = verdict->client;
    struct model_allocator *allocator = verdict->allocator;
    bool was;
    judge_must(verdict, NULL);
    uint64_t next = judge_u64(verdict, verdict->line, "next");
    if (verdict->asked->after_given ? next != verdict->asked->after
                                    : next < allocator->events.count)
        judge_fail(verdict, "it does not begin where it shall");
    drop_subscription(client, allocator, &was);
    if (client->subscription_count == WORLD_MOST_SUBSCRIPTIONS)
        judge_fail(verdict, "more subscriptions than there can be allocators");
    client->subscriptions[client->subscription_count++] =
        (struct world_subscription){.allocator = allocator, .sent = next};
}

static void judge_unsubscribe(const struct verdict *verdict)
{
    bool was;
    drop_subscription(verdict->client, verdict->allocator, &was);
    judge_must(verdict, NULL);
    if (!judge_is(verdict, "unsubscribed", was ? "true" : "false"))
        judge_fail(verdict, "there was %s subscription", was ? "a" : "no");
}

/* ----------------------------------------------------------------------------------------- rules
 */

static void judge_inject(const struct verdict *verdict)
{
    struct model *model = &verdict->world->model;
    const struct asked *asked = verdict->asked;
    bool private = *asked->allocator && verdict->allocator->owner != 0;
    if (!verdict->client->peer.admin && !private) {
        judge_must(verdict, "permission_denied");
        return;
    }
    if (model_live_rules(model) >= verdict->world->limits.rules) {
        judge_must(verdict, "limit_exceeded");
        must_equal(verdict, "limit", verdict->world->limits.rules);
        return;
    }
    judge_must(verdict, NULL);
    uint64_t number = judge_u64(verdict, verdict->line, "rule");
    if (number != model->rule_count + 1)
        judge_fail(verdict, "its number must be %zu", model->rule_count + 1);
    struct model_rule *rule = model_add_rule(model, number);
    rule->action = asked->action;
    rule->times = asked->times;
    rule->allocator = *asked->allocator ? verdict->allocator : NULL;
    rule->client = private ? verdict->client->number : 0;
}

static bool may_touch(const struct verdict *verdict, const struct model_rule *rule)
{
    return verdict->client->peer.admin || rule->client == verdict->client->number;
}

static void judge_rules(const struct verdict *verdict)
{
    const struct model *model = &verdict->world->model;
    const char *at = value_of(verdict->line, "rules");
    judge_must(verdict, NULL);
    if (!at)
        judge_fail(verdict, "no rules");
    for (size_t index = 0; index < model->rule_count; index++) {
        const struct model_rule *rule = &model->rules[index];
        if (!rule->live || !may_touch(verdict, rule))
            continue;
        at = value_of(at, "rule");
        if (!at || strtoull(at, NULL, 10) != rule->number)
            judge_fail(verdict, "rule %" PRIu64 " must come here", rule->number);
    }
    if (value_of(at, "rule"))
        judge_fail(verdict, "a rule that must not be here");
}

static void judge_rules_clear(const struct verdict *verdict)
{
    struct model *model = &verdict->world->model;
    uint64_t wanted = verdict->asked->rule;
    uint64_t cleared = 0;
    if (wanted) {
        const struct model_rule *rule = model_find_rule(model, wanted);
        if (!rule || !may_touch(verdict, rule)) {
            judge_must(verdict, rule ? "permission_denied" : "invalid_params");
            return;
        }
    }
    judge_must(verdict, NULL);
    for (size_t index = 0; index < model->rule_count; index++) {
        struct model_rule *rule = &model->rules[index];
        if (!rule->live || !may_touch(verdict, rule) || (wanted && rule->number != wanted))
            continue;
        rule->live = false;
        cleared++;
    }
    must_equal(verdict, "cleared", cleared);
}

/* --------------------------------------------------------------------------------- each request
 */

static bool is_of_allocator(enum asked_kind kind)
{
    return kind != ASKED_CLIENTS && kind != ASKED_INFO && kind != ASKED_HELLO &&
           kind != ASKED_OPEN && kind != ASKED_RULES && kind != ASKED_RULES_CLEAR &&
           kind != ASKED_WRONG && kind != ASKED_TOO_LONG;
}

static void judge_telling(const struct verdict *verdict)
{
    judge_must(verdict, NULL);
    model_expect(verdict->allocator,
                 verdict->asked->kind == ASKED_EVENT_DONE ? WORSEGPU_EVENT_DONE
                                                          : WORSEGPU_EMPTY_CACHE,
                 0, verdict->client->number, (uint32_t)verdict->client->peer.uid);
}

/* What may change nothing but is a page of something. */
static void judge_look(const struct verdict *verdict)
{
    judge_must(verdict, NULL);
    switch (verdict->asked->kind) {
    case ASKED_SNAPSHOT:
        judge_snapshot(verdict);
        break;
    case ASKED_VALIDATE:
        if (!judge_is(verdict, "valid", "true"))
            judge_fail(verdict, "it is not valid");
        break;
    case ASKED_LIST:
        judge_list(verdict);
        break;
    case ASKED_CLIENTS:
        judge_clients(verdict);
        break;
    case ASKED_TRACE:
        judge_trace(verdict);
        break;
    case ASKED_INFO:
        if (answer_count(verdict->line, "\"shared\":false") !=
            private_allocators(verdict->world, verdict->client->number))
            judge_fail(verdict, "other private allocators");
        break;
    case ASKED_HELLO:
        must_equal(verdict, "client", verdict->client->number);
        break;
    default:
        break;
    }
}

static void judge_request(const struct verdict *verdict)
{
    const struct asked *asked = verdict->asked;
    if (judge_is_kind(verdict, "internal_error") && world_memory_failed(verdict->world))
        return; /* nothing has changed: the looks after the turn see to that */
    if (is_of_allocator(asked->kind) && !verdict->allocator) {
        judge_must(verdict, "unknown_allocator");
        return;
    }
    switch (asked->kind) {
    case ASKED_ALLOCATE:
        judge_allocate(verdict);
        break;
    case ASKED_FREE:
    case ASKED_RECORD_STREAM:
        judge_free(verdict);
        break;
    case ASKED_EVENT_DONE:
    case ASKED_EMPTY_CACHE:
        judge_telling(verdict);
        break;
    case ASKED_TRACE_CLEAR:
        judge_must(verdict, may_change(verdict) ? NULL : "permission_denied");
        break;
    case ASKED_OPEN:
        judge_open(verdict);
        break;
    case ASKED_CLOSE:
        judge_close(verdict);
        break;
    case ASKED_RESIZE:
        judge_resize(verdict);
        break;
    case ASKED_SUBSCRIBE:
        judge_subscribe(verdict);
        break;
    case ASKED_UNSUBSCRIBE:
        judge_unsubscribe(verdict);
        break;
    case ASKED_INJECT:
        judge_inject(verdict);
        break;
    case ASKED_RULES:
        judge_rules(verdict);
        break;
    case ASKED_RULES_CLEAR:
        judge_rules_clear(verdict);
        break;
    case ASKED_WRONG:
        judge_must(verdict, error_kind_name(asked->wrong));
        break;
    case ASKED_TOO_LONG:
        judge_must(verdict, "invalid_request");
        break;
    default:
        judge_look(verdict);
        break;
    }
}

/* The oldest request that has not been answered; NULL when none was taken. One that is too long may
 * be refused before its end has come. */
static struct asked *oldest(const struct world *world, const struct world_client *client)
{
    struct asked *asked = TAILQ_FIRST(&client->asked);
    while (asked && asked->kind == ASKED_BLANK)
        asked = TAILQ_NEXT(asked, link);
    if (!asked)
        return NULL;
    uint64_t whole =
        asked->kind == ASKED_TOO_LONG ? asked->start + world->fixed.line_bytes - 1 : asked->end;
    return whole <= client->fed_bytes ? asked : NULL;
}

/* It is done, and with it the blank lines before it. */
static void done(struct world_client *client, struct asked *last)
{
    struct asked *asked;
    if (last->kind == ASKED_TOO_LONG) {
        last->kind = ASKED_BLANK; /* its end is still to come */
        return;
    }
    client->judged++;
    do {
        asked = TAILQ_FIRST(&client->asked);
        TAILQ_REMOVE(&client->asked, asked, link);
        if (asked != last)
            free(asked);
    } while (asked != last);
    free(last);
}

/* A request without an answer is the last one of its chunk. */
static void judge_silent(struct world *world, struct world_client *client)
{
    struct asked *asked = oldest(world, client);
    if (!asked || !asked->silent || client->judged == client->executed)
        return;
    judge_untold(world, client, asked);
    done(client, asked);
}

void judge_line(struct world *world, struct world_client *client, const char *line, size_t length)
{
    const char *id = value_of(line, "id");
    struct asked *asked = oldest(world, client);
    struct verdict verdict = {.world = world, .client = client, .asked = asked, .line = line};
    (void)length;
    bool no_id = id && strncmp(id, "null,", 5) == 0;
    bool poor = world_memory_failed(world) && strstr(line, "\"kind\":\"internal_error\"");
    world->answers++;
    if (!id || strncmp(line, "{\"jsonrpc\":\"2.0\",\"id\":", 22) != 0)
        world_fail(world, "client %" PRIu64 " is told among its answers: %s", client->number, line);
    if (poor && no_id && client->end->connection->broken) {
        judge_silent(world, client);
        asked = oldest(world, client);
    }
    if (poor && no_id && client->end->connection->broken && client->judged == client->executed) {
        client->goodbye = true; /* it cannot even read what was sent */
        return;
    }
    if (!asked)
        world_fail(world, "client %" PRIu64 " is answered without having asked: %s", client->number,
                   line);
    size_t id_length = strlen(asked->id);
    bool same = strncmp(id, asked->id, id_length) == 0 && id[id_length] == ',';
    /* Without memory even to read a line, nobody knows whether it wants an answer. */
    if (!(poor && no_id) && (asked->silent || !same))
        judge_fail(&verdict, "this is not its answer");
    verdict.kind = strstr(line, "\"error\":{") ? answer_kind(line, verdict.kind_text) : NULL;
    verdict.allocator = model_find(&world->model, asked->allocator, client->number);
    judge_request(&verdict);
    done(client, asked);
}

void judge_rest(struct world *world, struct world_client *client)
{
    while (client->judged < client->executed) {
        struct asked *asked = oldest(world, client);
        if (!asked)
            world_fail(world, "connection %" PRIu64 " counts requests that nobody sent",
                       client->number);
        if (!asked->silent && !client->end->connection->broken)
            world_fail(world, "request %s of client %" PRIu64 " is not answered", asked->id,
                       client->number);
        judge_untold(world, client, asked);
        done(client, asked);
    }
    if (client->judged > client->executed)
        world_fail(world, "connection %" PRIu64 " answers more than it counts", client->number);
}
