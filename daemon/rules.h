/* Failing on purpose: rules that say when a request shall go wrong, and how.
 *
 * A rule says when (the Nth match from now, every Nth, or with a probability from its own seeded
 * stream; at most so many times), what matches, and what happens. Rules never touch an allocator's
 * random stream: while none fires, every decision is the one it would be without them.
 *
 * Every rule counts each of its matches. It is due from the match that its `when` names until it
 * fires; of those that are due the oldest fires, the others stay due for their next match. The
 * rules of a server live until they are cleared; those about a private allocator end with it. */
#ifndef RULES_H
#define RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/worsegpu_memory.h"
#include "lib/worsegpu.h"
#include "proto/methods.h"

struct hosted;

/* What must be true of a request, of those that are given. All but the method are true of any
 * method; size, stream and tag are those of the allocation that is made or freed. */
enum rule_condition {
    RULE_METHOD = 1,
    RULE_MIN_SIZE = 2,
    RULE_MAX_SIZE = 4,
    RULE_STREAM = 8,
    RULE_TAG_PREFIX = 16,
    RULE_PROCESS = 32,
    RULE_USER = 64,
    RULE_CLIENT = 128,
    RULE_ALLOCATOR = 256
};

enum rule_when {
    RULE_NTH,        /* due at each match from the Nth on */
    RULE_EVERY,      /* due at every Nth match */
    RULE_PROBABILITY /* due where its stream says so */
};

/* Everything that inject says. */
struct rule_wish {
    unsigned conditions; /* of enum rule_condition; they come first since all rules are asked */
    enum method method;
    uint64_t client; /* a connection's number */
    uint64_t process;
    uint64_t user;
    const struct hosted *hosted; /* the allocator */
    uint64_t min_size;           /* requested bytes, both ends included */
    uint64_t max_size;
    uint64_t stream;
    size_t tag_prefix_bytes;
    char tag_prefix[WORSEGPU_MAX_TAG_BYTES];
    enum rule_when when;
    uint64_t count;     /* N of nth and every, from 1 */
    double probability; /* 0 to 1 */
    uint64_t seed;      /* of the rule's own stream */
    uint64_t times;     /* fires at most so often; 0: no end */
    enum worsegpu_fault_action action;
    uint64_t delay_ms;
};

struct rule {
    TAILQ_ENTRY(rule) link;
    uint64_t methods; /* bit 1 << METHOD_x for each method that it may meet */
    struct rule_wish wish;
    uint64_t number; /* from 1, never used again */
    uint64_t stream_state;
    uint64_t matched;
    uint64_t fired;
    bool due;
};

TAILQ_HEAD(rule_list, rule);

struct rules {
    struct rule_list list; /* oldest first */
    size_t count;
    size_t of_method[METHODS]; /* how many of them may meet it */
    uint64_t last_number;
};

/* A request as the rules see it. */
struct rule_occasion {
    enum method method;
    bool of_allocation; /* it makes or frees one: only then are size, stream and tag known */
    uint64_t size_bytes;
    uint64_t stream;
    bool stream_given; /* whether it was asked for by name, for the event */
    const char *tag;   /* NULL for none */
    size_t tag_bytes;
    pid_t process;
    uid_t user;
    uint64_t client;
    const struct hosted *hosted; /* NULL where the method has none */
};

void rules_init(struct rules *rules);
void rules_release(struct rules *rules, const struct worsegpu_memory *memory);

/* Adds a rule; NULL without memory: nothing has changed. */
struct rule *rules_add(struct rules *rules, const struct worsegpu_memory *memory,
                       const struct rule_wish *wish);

/* Ends one. */
void rules_remove(struct rules *rules, const struct worsegpu_memory *memory, struct rule *rule);

/* Ends those about an allocator that ends. */
void rules_forget_allocator(struct rules *rules, const struct worsegpu_memory *memory,
                            const struct hosted *hosted);

struct rule *rules_find(const struct rules *rules, uint64_t number);

/* Whether any rule may meet this method: if not, there is nothing to judge. */
static inline bool rules_may_meet(const struct rules *rules, enum method method)
{
    return rules->of_method[method] != 0;
}

/* Counts the matches of a request and says which rule is to fire; NULL for none. It stays due until
 * rule_fire. O(rules). */
struct rule *rules_judge(struct rules *rules, const struct rule_occasion *occasion);

/* It fires: counted, and no longer due. */
void rule_fire(struct rule *rule);

/* Whether it has fired as often as it may. */
bool rule_is_spent(const struct rule *rule);

/* An action by its name ("out_of_memory", ...); false when there is none. */
bool rule_action_from_name(const char *name, size_t length, enum worsegpu_fault_action *action);

/* Whether an action can happen to a method: forget to free, the refusals and the fallback to
 * allocate, delay and the disconnects to every one but inject, rules and rules_clear, which must
 * always be there to get rid of a rule. */
bool rule_action_suits(enum worsegpu_fault_action action, enum method method);

#endif
