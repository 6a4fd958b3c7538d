/* What the daemon should know, kept in the simplest way there is: lists that are walked.
 *
 * Nothing is added up as it goes: whoever asks for a sum has it made anew from the allocations. The
 * model does not know where a policy puts something: it takes device and reserved bytes from the
 * answer. All the rest it knows by itself: whose an allocation is, what a handle may do, what is
 * used of each limit, in which order events come. */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/allocators.h"
#include "lib/worsegpu.h"

enum {
    MODEL_TAG_SIZE = 32,
    MODEL_UNKNOWN_EVENT = WORSEGPU_OPERATIONS /* dropped before it could be looked at */
};

struct model_allocation {
    uint64_t requested;
    uint64_t reserved;
    uint64_t client; /* the connection that made it */
    uint32_t uid;
    bool live;
    bool on_gpu;
    bool detached;
    bool held; /* its connection lasts */
    char tag[MODEL_TAG_SIZE];
    char handle[WORSEGPU_HANDLE_TEXT_SIZE];
};

struct model_event {
    uint64_t allocation_id;
    uint64_t client;
    uint32_t user; /* whose tag it shows */
    int operation;
};

struct model_events {
    struct model_event *items;
    size_t count;
    size_t capacity;
};

struct model_allocator {
    struct model_allocator *next;
    struct hosted *hosted;
    char name[ALLOCATOR_NAME_SIZE];
    uint64_t owner; /* the connection of a private one; 0: shared */
    bool ended;     /* closed, or its connection has ended: it waits to be reaped */
    bool is_reference;
    bool is_worse;
    bool fallback;
    uint64_t max_request;
    uint64_t capacity;
    uint64_t host_capacity;
    uint64_t trace_limit;
    struct model_allocation *allocations; /* the one with id N at N - 1 */
    size_t count;
    size_t room;
    uint64_t frees;
    uint64_t failures;           /* allocations refused for want of room */
    uint64_t faults;             /* that were recorded */
    struct model_events events;  /* the one with sequence N at N - 1 */
    struct model_events pending; /* that must have come since */
};

struct model_rule {
    uint64_t number;
    uint64_t client; /* whose private allocator it is about; 0: none's */
    const struct model_allocator *allocator;
    enum worsegpu_fault_action action;
    uint64_t times; /* 0: no end */
    uint64_t fired;
    bool live;
};

/* A connection that has ended and is not reaped yet. */
struct model_ending {
    uint64_t client;
};

struct model {
    struct model_allocator *allocators; /* the shared ones first, in their order */
    struct model_rule *rules;
    size_t rule_count;
    size_t rule_room;
    struct model_ending *endings;
    size_t ending_count;
    size_t ending_room;
};

void model_release(struct model *model);

struct model_allocator *model_add_allocator(struct model *model, const char *name, uint64_t owner);

/* The one that a connection means by a name; NULL when there is none for it. An empty name is the
 * first shared one. */
struct model_allocator *model_find(const struct model *model, const char *name, uint64_t client);

/* Makes the next allocation of an allocator. */
struct model_allocation *model_allocate(struct model_allocator *allocator);

/* Ends the allocation with this id. `client` is who frees it. */
void model_free(struct model_allocator *allocator, uint64_t id, uint64_t client);

/* The live allocation with this handle; its id, or 0. */
uint64_t model_find_handle(const struct model_allocator *allocator, const char *handle);

/* The live allocation of a connection with this tag; its id, or 0. */
uint64_t model_find_tag(const struct model_allocator *allocator, uint64_t client, const char *tag);

/* An event that must have come. */
void model_expect(struct model_allocator *allocator, int operation, uint64_t id, uint64_t client,
                  uint32_t user);
void model_add_event(struct model_events *events, const struct model_event *event);

uint64_t model_live(const struct model_allocator *allocator);

/* What a connection holds, and what a user has to pay for, made anew from all allocations. */
struct account model_account_of_client(const struct model *model, uint64_t client);
struct account model_account_of_user(const struct model *model, uint32_t uid);

/* What is live in an allocator; `detached` is of no meaning. */
struct account model_account_of_allocator(const struct model_allocator *allocator);

/* Connections and private allocators come to their end, and are reaped. */
void model_close(struct model *model, struct model_allocator *allocator);
void model_end_connection(struct model *model, uint64_t client);
void model_reap(struct model *model);

/* Rules. */
struct model_rule *model_add_rule(struct model *model, uint64_t number);
struct model_rule *model_find_rule(const struct model *model, uint64_t number);
uint64_t model_live_rules(const struct model *model);

#endif
