/* Whether events are what has happened: in each trace, and for each subscriber. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/judge.h"

/* ------------------------------------------------------------------------------------- traces */

static void judge_fault(struct world *world, const struct worsegpu_event *event)
{
    struct model_rule *rule = NULL;
    /* A later request of the same turn may have removed it already. */
    for (size_t index = 0; index < world->model.rule_count; index++)
        if (world->model.rules[index].number == event->rule)
            rule = &world->model.rules[index];
    if (!rule || rule->action != event->action)
        world_fail(world, "event %" PRIu64 " is of rule %" PRIu64 ", which is none",
                   event->sequence, event->rule);
    rule->fired++;
    if (rule->times && rule->fired > rule->times)
        world_fail(world, "rule %" PRIu64 " fires more than %" PRIu64 " times", rule->number,
                   rule->times);
}

/* One event that is there: it must be the next that has to be, or a fault. */
static void judge_recorded(struct world *world, struct model_allocator *allocator,
                           const struct worsegpu_event *event, size_t *expected)
{
    const struct model_event found = {.allocation_id = event->allocation_id,
                                      .client = event->client,
                                      .user = event->user,
                                      .operation = (int)event->operation};
    if (event->sequence != allocator->events.count + 1)
        world_fail(world, "%s has event %" PRIu64 " after %zu", allocator->name, event->sequence,
                   allocator->events.count);
    model_add_event(&allocator->events, &found);
    if (event->operation == WORSEGPU_FAULT) {
        judge_fault(world, event);
        return;
    }
    const struct model_event *wanted = &allocator->pending.items[*expected];
    if (*expected == allocator->pending.count || wanted->operation != found.operation ||
        wanted->allocation_id != found.allocation_id || wanted->client != found.client ||
        wanted->user != found.user)
        world_fail(world, "%s has an event %" PRIu64 " (%s of %" PRIu64 ") that must not be",
                   allocator->name, event->sequence, worsegpu_operation_name(event->operation),
                   event->allocation_id);
    ++*expected;
}

/* The events since the last look: those that must have come, in their order, with faults between
 * them. Of those that were dropped, the number is known. */
static void judge_trace_of(struct world *world, struct model_allocator *allocator)
{
    struct worsegpu_snapshot snapshot;
    struct worsegpu_event event;
    size_t count = 1;
    bool more;
    uint64_t dropped;
    worsegpu_snapshot(allocator->hosted->engine, &snapshot);
    uint64_t faults = snapshot.faults - allocator->faults;
    uint64_t new = allocator->pending.count + faults;
    allocator->faults = snapshot.faults;
    if (allocator->trace_limit == 0) {
        allocator->pending.count = 0;
        return;
    }
    if (snapshot.last_sequence != allocator->events.count + new)
        world_fail(world, "%s has %" PRIu64 " events, not %" PRIu64, allocator->name,
                   snapshot.last_sequence, allocator->events.count + new);
    if (new == 0)
        return;
    worsegpu_trace(allocator->hosted->engine, allocator->events.count, NULL, 0, NULL, NULL,
                   &dropped);
    const struct model_event unknown = {.operation = MODEL_UNKNOWN_EVENT};
    for (uint64_t index = 0; index < dropped; index++)
        model_add_event(&allocator->events, &unknown);
    /* How many of the dropped ones were faults is not known: those that are left tell. */
    uint64_t faults_left = 0;
    uint64_t after = allocator->events.count;
    for (; count > 0; after = event.sequence) {
        worsegpu_trace(allocator->hosted->engine, after, &event, 1, &count, &more, NULL);
        if (count == 0)
            break;
        faults_left += event.operation == WORSEGPU_FAULT;
    }
    size_t expected = (size_t)(dropped - (faults - faults_left));
    for (count = 1; count > 0;) {
        worsegpu_trace(allocator->hosted->engine, allocator->events.count, &event, 1, &count, &more,
                       NULL);
        if (count > 0)
            judge_recorded(world, allocator, &event, &expected);
    }
    if (expected != allocator->pending.count)
        world_fail(world, "%s lacks events", allocator->name);
    allocator->pending.count = 0;
}

void judge_traces(struct world *world)
{
    for (struct model_allocator *allocator = world->model.allocators; allocator;
         allocator = allocator->next)
        if (!allocator->ended && allocator->hosted)
            judge_trace_of(world, allocator);
}

/* -------------------------------------------------------------------------------- subscribers */

static struct world_subscription *subscription_of(struct world_client *client, const char *line)
{
    for (size_t index = 0; index < client->subscription_count; index++) {
        char name[ALLOCATOR_NAME_SIZE + 2];
        snprintf(name, sizeof(name), "\"%s\"", client->subscriptions[index].allocator->name);
        if (answer_is(line, "allocator", name))
            return &client->subscriptions[index];
    }
    return NULL;
}

/* Exactly those that are dropped, and no other. */
static void judge_missed(struct world *world, const struct world_client *client,
                         struct world_subscription *subscription, uint64_t missed)
{
    uint64_t dropped;
    worsegpu_trace(subscription->allocator->hosted->engine, subscription->sent, NULL, 0, NULL, NULL,
                   &dropped);
    if (missed == 0 || missed != dropped)
        world_fail(world,
                   "client %" PRIu64 " is told that it missed %" PRIu64 " events, not %" PRIu64,
                   client->number, missed, dropped);
    subscription->sent += missed;
}

static void judge_shown(struct world *world, const struct world_client *client,
                        const struct world_subscription *subscription, const char *line)
{
    const struct model_allocator *allocator = subscription->allocator;
    char operation[32];
    if (subscription->sent >= allocator->events.count)
        world_fail(world, "client %" PRIu64 " sees what has not happened: %s", client->number,
                   line);
    const struct model_event *known = &allocator->events.items[subscription->sent];
    if (known->operation == MODEL_UNKNOWN_EVENT)
        return;
    answer_text(line, "operation", operation, sizeof(operation));
    bool same =
        strcmp(operation, worsegpu_operation_name((enum worsegpu_operation)known->operation)) == 0;
    if (!same || answer_u64(line, "client") != known->client ||
        (known->allocation_id && answer_u64(line, "allocation_id") != known->allocation_id))
        world_fail(world, "client %" PRIu64 " sees another event: %s", client->number, line);
    bool foreign = client->peer.uid != 0 && client->peer.uid != known->user;
    if (foreign && !world->limits.trace_visible && strstr(line, "\"tag\":\""))
        world_fail(world, "client %" PRIu64 " sees another user's tag: %s", client->number, line);
}

void judge_event(struct world *world, struct world_client *client, const char *line)
{
    struct world_subscription *subscription = subscription_of(client, line);
    if (strncmp(line, "{\"jsonrpc\":\"2.0\",\"method\":\"event\",", 33) != 0)
        world_fail(world, "client %" PRIu64 " is told among events: %s", client->number, line);
    if (!subscription)
        world_fail(world, "client %" PRIu64 " did not subscribe to this: %s", client->number, line);
    world->events++;
    if (answer_member(line, "missed")) {
        judge_missed(world, client, subscription, answer_u64(line, "missed"));
        return;
    }
    if (answer_u64(line, "sequence") != subscription->sent + 1)
        world_fail(world, "client %" PRIu64 " must see event %" PRIu64 " now: %s", client->number,
                   subscription->sent + 1, line);
    judge_shown(world, client, subscription, line);
    subscription->sent++;
}
