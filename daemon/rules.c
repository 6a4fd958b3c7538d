/* Failing on purpose; see rules.h. */
#include "daemon/rules.h"

#include <string.h>

#include "base/memory.h"

void rules_init(struct rules *rules)
{
    memset(rules, 0, sizeof(*rules));
    TAILQ_INIT(&rules->list);
}

void rules_release(struct rules *rules, const struct worsegpu_memory *memory)
{
    struct rule *rule;
    while ((rule = TAILQ_FIRST(&rules->list)) != NULL)
        rules_remove(rules, memory, rule);
}

static uint64_t methods_of(const struct rule_wish *wish)
{
    uint64_t methods = 0;
    for (enum method method = 0; method < METHODS; method++) {
        bool wanted = wish->conditions & RULE_METHOD
                          ? method == wish->method
                          : method == METHOD_allocate || method == METHOD_free;
        if (wanted && rule_action_suits(wish->action, method))
            methods |= UINT64_C(1) << method;
    }
    return methods;
}

/* Enters a rule with its methods, or takes it out again. */
static void count_methods(struct rules *rules, const struct rule *rule, bool entered)
{
    for (enum method method = 0; method < METHODS; method++) {
        if (!(rule->methods >> method & 1u))
            continue;
        if (entered)
            rules->of_method[method]++;
        else
            rules->of_method[method]--;
    }
}

struct rule *rules_add(struct rules *rules, const struct worsegpu_memory *memory,
                       const struct rule_wish *wish)
{
    struct rule *rule = memory_allocate_zeroed(memory, 1, sizeof(*rule));
    if (!rule)
        return NULL;
    rule->wish = *wish;
    rule->stream_state = wish->seed;
    rule->number = ++rules->last_number;
    rule->methods = methods_of(wish);
    count_methods(rules, rule, true);
    TAILQ_INSERT_TAIL(&rules->list, rule, link);
    rules->count++;
    return rule;
}

void rules_remove(struct rules *rules, const struct worsegpu_memory *memory, struct rule *rule)
{
    TAILQ_REMOVE(&rules->list, rule, link);
    rules->count--;
    count_methods(rules, rule, false);
    memory_release_array(memory, rule, 1, sizeof(*rule));
}

void rules_forget_allocator(struct rules *rules, const struct worsegpu_memory *memory,
                            const struct hosted *hosted)
{
    struct rule *rule = TAILQ_FIRST(&rules->list);
    while (rule) {
        struct rule *next = TAILQ_NEXT(rule, link);
        if ((rule->wish.conditions & RULE_ALLOCATOR) && rule->wish.hosted == hosted)
            rules_remove(rules, memory, rule);
        rule = next;
    }
}

struct rule *rules_find(const struct rules *rules, uint64_t number)
{
    struct rule *rule;
    TAILQ_FOREACH(rule, &rules->list, link)
    {
        if (rule->number == number)
            return rule;
    }
    return NULL;
}

static bool tag_begins(const struct rule_wish *wish, const struct rule_occasion *occasion)
{
    return occasion->tag && occasion->tag_bytes >= wish->tag_prefix_bytes &&
           memcmp(occasion->tag, wish->tag_prefix, wish->tag_prefix_bytes) == 0;
}

/* Whether a rule about this method matches. */
static bool matches(const struct rule_wish *wish, const struct rule_occasion *occasion)
{
    unsigned given = wish->conditions;
    if ((given & (RULE_MIN_SIZE | RULE_MAX_SIZE | RULE_STREAM)) && !occasion->of_allocation)
        return false;
    return (!(given & RULE_MIN_SIZE) || occasion->size_bytes >= wish->min_size) &&
           (!(given & RULE_MAX_SIZE) || occasion->size_bytes <= wish->max_size) &&
           (!(given & RULE_STREAM) || occasion->stream == wish->stream) &&
           (!(given & RULE_PROCESS) || (uint64_t)occasion->process == wish->process) &&
           (!(given & RULE_USER) || occasion->user == wish->user) &&
           (!(given & RULE_CLIENT) || occasion->client == wish->client) &&
           (!(given & RULE_ALLOCATOR) || occasion->hosted == wish->hosted) &&
           (!(given & RULE_TAG_PREFIX) || tag_begins(wish, occasion));
}

/* The next number of the rule's own stream, 0 to below 1: SplitMix64 (Steele, Lea and Flood, 2014),
 * its top 53 bits. */
static double draw(struct rule *rule)
{
    uint64_t value = rule->stream_state += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    value ^= value >> 31;
    return (double)(value >> 11) * 0x1p-53;
}

bool rule_is_spent(const struct rule *rule)
{
    return rule->wish.times != 0 && rule->fired >= rule->wish.times;
}

/* Counts a match; whether the rule is due now. A probability draws on each match, fired or not, so
 * that its stream depends on nothing but its matches. */
static bool count_match(struct rule *rule)
{
    rule->matched++;
    switch (rule->wish.when) {
    case RULE_NTH:
        rule->due = rule->matched >= rule->wish.count;
        break;
    case RULE_EVERY:
        rule->due = rule->due || rule->matched % rule->wish.count == 0;
        break;
    case RULE_PROBABILITY:
        rule->due = draw(rule) < rule->wish.probability || rule->due;
        break;
    }
    return rule->due && !rule_is_spent(rule);
}

struct rule *rules_judge(struct rules *rules, const struct rule_occasion *occasion)
{
    struct rule *first = NULL;
    struct rule *rule;
    if (!rules_may_meet(rules, occasion->method))
        return NULL;
    TAILQ_FOREACH(rule, &rules->list, link)
    {
        if (rule->methods >> occasion->method & 1u && matches(&rule->wish, occasion) &&
            count_match(rule) && !first)
            first = rule;
    }
    return first;
}

void rule_fire(struct rule *rule)
{
    rule->fired++;
    rule->due = false;
}

bool rule_action_from_name(const char *name, size_t length, enum worsegpu_fault_action *action)
{
    for (int value = 0; value < WORSEGPU_FAULT_ACTIONS; value++) {
        const char *known = worsegpu_fault_action_name((enum worsegpu_fault_action)value);
        if (strlen(known) == length && memcmp(known, name, length) == 0) {
            *action = (enum worsegpu_fault_action)value;
            return true;
        }
    }
    return false;
}

bool rule_action_suits(enum worsegpu_fault_action action, enum method method)
{
    switch (action) {
    case WORSEGPU_FAULT_OUT_OF_MEMORY:
    case WORSEGPU_FAULT_QUOTA_EXCEEDED:
    case WORSEGPU_FAULT_HOST_FALLBACK:
        return method == METHOD_allocate;
    case WORSEGPU_FAULT_FORGET:
        return method == METHOD_free;
    default:
        return method != METHOD_inject && method != METHOD_rules && method != METHOD_rules_clear;
    }
}
