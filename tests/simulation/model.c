/* What the daemon should know, kept in the simplest way; see model.h. */
#include "tests/simulation/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for one item more. */
static void *with_room(void *items, size_t count, size_t *room, size_t item_bytes)
{
    if (count < *room)
        return items;
    *room = *room ? 2 * *room : 16;
    items = realloc(items, *room * item_bytes);
    if (!items)
        abort();
    return items;
}

static void release_allocator(struct model_allocator *allocator)
{
    free(allocator->allocations);
    free(allocator->events.items);
    free(allocator->pending.items);
    free(allocator);
}

void model_release(struct model *model)
{
    struct model_allocator *allocator;
    while ((allocator = model->allocators) != NULL) {
        model->allocators = allocator->next;
        release_allocator(allocator);
    }
    free(model->rules);
    free(model->endings);
}

struct model_allocator *model_add_allocator(struct model *model, const char *name, uint64_t owner)
{
    struct model_allocator *allocator = calloc(1, sizeof(*allocator));
    struct model_allocator **last = &model->allocators;
    if (!allocator)
        abort();
    snprintf(allocator->name, sizeof(allocator->name), "%s", name);
    allocator->owner = owner;
    while (*last)
        last = &(*last)->next;
    *last = allocator;
    return allocator;
}

struct model_allocator *model_find(const struct model *model, const char *name, uint64_t client)
{
    struct model_allocator *allocator = model->allocators;
    if (!*name)
        return allocator;
    for (; allocator; allocator = allocator->next)
        if (!allocator->ended && (allocator->owner == 0 || allocator->owner == client) &&
            strcmp(allocator->name, name) == 0)
            break;
    return allocator;
}

struct model_allocation *model_allocate(struct model_allocator *allocator)
{
    allocator->allocations = with_room(allocator->allocations, allocator->count, &allocator->room,
                                       sizeof(*allocator->allocations));
    struct model_allocation *allocation = &allocator->allocations[allocator->count++];
    *allocation = (struct model_allocation){.live = true, .held = true};
    return allocation;
}

void model_free(struct model_allocator *allocator, uint64_t id, uint64_t client)
{
    struct model_allocation *allocation = &allocator->allocations[id - 1];
    allocation->live = false;
    allocator->frees++;
    model_expect(allocator, WORSEGPU_FREE, id, client, allocation->uid);
}

uint64_t model_find_handle(const struct model_allocator *allocator, const char *handle)
{
    for (size_t index = 0; index < allocator->count; index++)
        if (allocator->allocations[index].live &&
            strcmp(allocator->allocations[index].handle, handle) == 0)
            return index + 1;
    return 0;
}

uint64_t model_find_tag(const struct model_allocator *allocator, uint64_t client, const char *tag)
{
    for (size_t index = 0; index < allocator->count; index++) {
        const struct model_allocation *allocation = &allocator->allocations[index];
        if (allocation->live && allocation->held && allocation->client == client &&
            strcmp(allocation->tag, tag) == 0)
            return index + 1;
    }
    return 0;
}

void model_add_event(struct model_events *events, const struct model_event *event)
{
    events->items = with_room(events->items, events->count, &events->capacity, sizeof(*event));
    events->items[events->count++] = *event;
}

void model_expect(struct model_allocator *allocator, int operation, uint64_t id, uint64_t client,
                  uint32_t user)
{
    const struct model_event event = {
        .allocation_id = id, .client = client, .user = user, .operation = operation};
    model_add_event(&allocator->pending, &event);
}

uint64_t model_live(const struct model_allocator *allocator)
{
    return model_account_of_allocator(allocator).allocations;
}

/* ------------------------------------------------------------------------------------ accounts */

static void add(struct account *account, const struct model_allocation *allocation)
{
    account->gpu_bytes += allocation->on_gpu ? allocation->reserved : 0;
    account->cpu_bytes += allocation->on_gpu ? 0 : allocation->reserved;
    account->allocations++;
    account->detached += allocation->detached;
}

struct account model_account_of_client(const struct model *model, uint64_t client)
{
    struct account account = {0};
    for (const struct model_allocator *allocator = model->allocators; allocator;
         allocator = allocator->next)
        for (size_t index = 0; index < allocator->count && !allocator->ended; index++) {
            const struct model_allocation *allocation = &allocator->allocations[index];
            if (allocation->live && allocation->held && allocation->client == client)
                add(&account, allocation);
        }
    return account;
}

/* Also for what has ended and is not reaped. */
struct account model_account_of_user(const struct model *model, uint32_t uid)
{
    struct account account = {0};
    for (const struct model_allocator *allocator = model->allocators; allocator;
         allocator = allocator->next)
        for (size_t index = 0; index < allocator->count; index++)
            if (allocator->allocations[index].live && allocator->allocations[index].uid == uid)
                add(&account, &allocator->allocations[index]);
    return account;
}

struct account model_account_of_allocator(const struct model_allocator *allocator)
{
    struct account account = {0};
    for (size_t index = 0; index < allocator->count; index++)
        if (allocator->allocations[index].live)
            add(&account, &allocator->allocations[index]);
    return account;
}

/* ------------------------------------------------------------------------------------- endings */

void model_close(struct model *model, struct model_allocator *allocator)
{
    allocator->ended = true;
    allocator->hosted = NULL;
    for (size_t index = 0; index < model->rule_count; index++)
        if (model->rules[index].allocator == allocator)
            model->rules[index].live = false;
}

void model_end_connection(struct model *model, uint64_t client)
{
    for (struct model_allocator *allocator = model->allocators; allocator;
         allocator = allocator->next) {
        if (allocator->owner == client && !allocator->ended)
            model_close(model, allocator);
        for (size_t index = 0; index < allocator->count; index++)
            if (allocator->allocations[index].client == client)
                allocator->allocations[index].held = false;
    }
    model->endings = with_room(model->endings, model->ending_count, &model->ending_room,
                               sizeof(*model->endings));
    model->endings[model->ending_count++] = (struct model_ending){.client = client};
}

static void reap_shared(struct model_allocator *allocator, uint64_t client)
{
    for (size_t index = 0; index < allocator->count; index++) {
        const struct model_allocation *allocation = &allocator->allocations[index];
        if (allocation->live && !allocation->detached && allocation->client == client)
            model_free(allocator, index + 1, client);
    }
}

void model_reap(struct model *model)
{
    for (size_t index = 0; index < model->ending_count; index++)
        for (struct model_allocator *allocator = model->allocators; allocator;
             allocator = allocator->next)
            if (allocator->owner == 0)
                reap_shared(allocator, model->endings[index].client);
    model->ending_count = 0;
    struct model_allocator **place = &model->allocators;
    while (*place) {
        struct model_allocator *allocator = *place;
        if (!allocator->ended) {
            place = &allocator->next;
            continue;
        }
        *place = allocator->next;
        for (size_t index = 0; index < model->rule_count; index++)
            if (model->rules[index].allocator == allocator)
                model->rules[index].allocator = NULL;
        release_allocator(allocator);
    }
}

/* --------------------------------------------------------------------------------------- rules */

struct model_rule *model_add_rule(struct model *model, uint64_t number)
{
    model->rules =
        with_room(model->rules, model->rule_count, &model->rule_room, sizeof(*model->rules));
    struct model_rule *rule = &model->rules[model->rule_count++];
    *rule = (struct model_rule){.number = number, .live = true};
    return rule;
}

struct model_rule *model_find_rule(const struct model *model, uint64_t number)
{
    for (size_t index = 0; index < model->rule_count; index++)
        if (model->rules[index].number == number && model->rules[index].live)
            return &model->rules[index];
    return NULL;
}

uint64_t model_live_rules(const struct model *model)
{
    uint64_t count = 0;
    for (size_t index = 0; index < model->rule_count; index++)
        count += model->rules[index].live;
    return count;
}
