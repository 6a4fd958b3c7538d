/* Tests of daemon/rules.c: when rules match, when they are due, which one fires. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/memory.h"
#include "daemon/allocators.h"
#include "daemon/rules.h"
#include "tests/support/chaos.h"

static struct rule_wish oom(void)
{
    return (struct rule_wish){
        .when = RULE_NTH, .count = 1, .times = 1, .action = WORSEGPU_FAULT_OUT_OF_MEMORY};
}

static struct rule_occasion allocation(uint64_t size)
{
    return (struct rule_occasion){.method = METHOD_allocate,
                                  .of_allocation = true,
                                  .size_bytes = size,
                                  .stream = 3,
                                  .tag = "weights.1",
                                  .tag_bytes = 9,
                                  .process = 40,
                                  .user = 1000,
                                  .client = 5};
}

static struct rule *add(struct rules *rules, const struct rule_wish *wish)
{
    struct rule *rule = rules_add(rules, memory_system(), wish);
    assert_non_null(rule);
    return rule;
}

/* As the daemon does it: the rule that is to fire does. Its number, 0 for none. */
static uint64_t meet(struct rules *rules, const struct rule_occasion *occasion)
{
    struct rule *rule = rules_judge(rules, occasion);
    if (!rule)
        return 0;
    rule_fire(rule);
    return rule->number;
}

/* Whether a rule with this wish fires on its first occasion. */
static bool hits(const struct rule_wish *wish, const struct rule_occasion *occasion)
{
    struct rules rules;
    rules_init(&rules);
    struct rule *rule = add(&rules, wish);
    bool hit = meet(&rules, occasion) != 0;
    assert_int_equal(rule->matched, hit);
    rules_release(&rules, memory_system());
    return hit;
}

/* ------------------------------------------------------------------------------- conditions */

static void test_a_rule_without_conditions_matches_what_its_action_suits(void **state)
{
    (void)state;
    struct rule_wish wish = oom();
    struct rule_occasion occasion = allocation(10);
    assert_true(hits(&wish, &occasion));
    occasion.method = METHOD_free;
    assert_false(hits(&wish, &occasion));
    wish.action = WORSEGPU_FAULT_FORGET;
    assert_true(hits(&wish, &occasion));
    wish.action = WORSEGPU_FAULT_DELAY;
    assert_true(hits(&wish, &occasion));
    occasion.method = METHOD_snapshot;
    occasion.of_allocation = false;
    assert_false(hits(&wish, &occasion));
    wish.conditions = RULE_METHOD;
    wish.method = METHOD_snapshot;
    assert_true(hits(&wish, &occasion));
}

static void test_a_method_condition_leaves_the_others_alone(void **state)
{
    (void)state;
    struct rule_wish wish = oom();
    struct rule_occasion occasion = allocation(10);
    wish.action = WORSEGPU_FAULT_DELAY;
    wish.conditions = RULE_METHOD;
    wish.method = METHOD_free;
    assert_false(hits(&wish, &occasion));
    occasion.method = METHOD_free;
    assert_true(hits(&wish, &occasion));
}

static void test_both_ends_of_a_size_range_belong_to_it(void **state)
{
    (void)state;
    struct rule_wish wish = oom();
    wish.conditions = RULE_MIN_SIZE | RULE_MAX_SIZE;
    wish.min_size = 10;
    wish.max_size = 20;
    for (uint64_t size = 8; size <= 22; size++) {
        struct rule_occasion occasion = allocation(size);
        assert_int_equal(hits(&wish, &occasion), size >= 10 && size <= 20);
    }
}

static void test_a_size_or_stream_that_is_not_known_does_not_match(void **state)
{
    (void)state;
    struct rule_wish wish = oom();
    struct rule_occasion occasion = allocation(10);
    wish.action = WORSEGPU_FAULT_DELAY;
    wish.max_size = 20;
    wish.conditions = RULE_MAX_SIZE;
    assert_true(hits(&wish, &occasion));
    occasion.of_allocation = false;
    assert_false(hits(&wish, &occasion));
    wish.conditions = RULE_STREAM;
    wish.stream = 3;
    assert_false(hits(&wish, &occasion));
    occasion.of_allocation = true;
    assert_true(hits(&wish, &occasion));
    wish.stream = 4;
    assert_false(hits(&wish, &occasion));
}

static void test_a_tag_prefix_is_the_beginning_of_the_tag(void **state)
{
    (void)state;
    struct rule_occasion occasion = allocation(10);
    static const struct {
        const char *prefix;
        bool hit;
    } cases[] = {{"w", true}, {"weights.1", true}, {"weights.10", false}, {"eights", false}};
    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++) {
        struct rule_wish wish = oom();
        wish.conditions = RULE_TAG_PREFIX;
        wish.tag_prefix_bytes = strlen(cases[index].prefix);
        memcpy(wish.tag_prefix, cases[index].prefix, wish.tag_prefix_bytes);
        assert_int_equal(hits(&wish, &occasion), cases[index].hit);
        struct rule_occasion untagged = allocation(10);
        untagged.tag = NULL;
        untagged.tag_bytes = 0;
        assert_false(hits(&wish, &untagged));
    }
}

static void test_process_user_client_and_allocator_must_be_the_same(void **state)
{
    (void)state;
    struct hosted here = {.shared = true};
    struct hosted there = {.shared = true};
    struct rule_occasion occasion = allocation(10);
    occasion.hosted = &here;
    static const enum rule_condition conditions[] = {RULE_PROCESS, RULE_USER, RULE_CLIENT,
                                                     RULE_ALLOCATOR};
    for (size_t index = 0; index < 4; index++) {
        struct rule_wish wish = oom();
        wish.process = 40;
        wish.user = 1000;
        wish.client = 5;
        wish.hosted = &here;
        wish.conditions = conditions[index];
        assert_true(hits(&wish, &occasion));
        wish.process = 41;
        wish.user = 1001;
        wish.client = 6;
        wish.hosted = &there;
        assert_false(hits(&wish, &occasion));
    }
}

static void test_all_conditions_must_hold_at_once(void **state)
{
    (void)state;
    struct rule_wish wish = oom();
    struct rule_occasion occasion = allocation(10);
    wish.conditions = RULE_MIN_SIZE | RULE_USER;
    wish.min_size = 10;
    wish.user = 1001;
    assert_false(hits(&wish, &occasion));
    occasion.user = 1001;
    assert_true(hits(&wish, &occasion));
}

/* ------------------------------------------------------------------------------------- when */

/* Which of `count` occasions a rule alone fires on, as a text of . and X. */
static void assert_fires(const struct rule_wish *wish, const char *wanted)
{
    char fired[64] = "";
    struct rules rules;
    struct rule_occasion occasion = allocation(10);
    rules_init(&rules);
    struct rule *rule = add(&rules, wish);
    for (size_t index = 0; index < strlen(wanted); index++)
        fired[index] = meet(&rules, &occasion) ? 'X' : '.';
    assert_string_equal(fired, wanted);
    assert_int_equal(rule->matched, strlen(wanted));
    rules_release(&rules, memory_system());
}

static void test_nth_fires_from_the_nth_match_on_as_often_as_it_may(void **state)
{
    (void)state;
    struct rule_wish wish = oom();
    assert_fires(&wish, "X...");
    wish.count = 3;
    assert_fires(&wish, "..X.....");
    wish.times = 2;
    assert_fires(&wish, "..XX....");
    wish.times = 0;
    assert_fires(&wish, "..XXXXXX");
}

static void test_every_fires_at_each_nth_match_as_often_as_it_may(void **state)
{
    (void)state;
    struct rule_wish wish = oom();
    wish.when = RULE_EVERY;
    wish.count = 3;
    wish.times = 0;
    assert_fires(&wish, "..X..X..X.");
    wish.times = 2;
    assert_fires(&wish, "..X..X....");
}

static void test_what_does_not_match_does_not_count(void **state)
{
    (void)state;
    struct rules rules;
    struct rule_wish wish = oom();
    struct rule_occasion small = allocation(1);
    struct rule_occasion large = allocation(100);
    wish.count = 2;
    wish.conditions = RULE_MIN_SIZE;
    wish.min_size = 50;
    rules_init(&rules);
    struct rule *rule = add(&rules, &wish);
    assert_int_equal(meet(&rules, &large), 0);
    for (int index = 0; index < 5; index++)
        assert_int_equal(meet(&rules, &small), 0);
    assert_int_equal(meet(&rules, &large), 1);
    assert_int_equal(rule->matched, 2);
    assert_true(rule_is_spent(rule));
    rules_release(&rules, memory_system());
}

static void test_the_oldest_rule_fires_and_the_others_stay_due(void **state)
{
    (void)state;
    struct rules rules;
    struct rule_occasion occasion = allocation(10);
    struct rule_wish first = oom();
    struct rule_wish second = oom();
    struct rule_wish third = oom();
    second.when = RULE_EVERY;
    second.count = 1000;
    second.times = 0;
    third.count = 1;
    rules_init(&rules);
    add(&rules, &first);
    struct rule *every = add(&rules, &second);
    every->matched = 999; /* due together with the first */
    add(&rules, &third);
    assert_int_equal(meet(&rules, &occasion), 1);
    assert_int_equal(meet(&rules, &occasion), 2);
    assert_int_equal(meet(&rules, &occasion), 3);
    assert_int_equal(meet(&rules, &occasion), 0);
    rules_release(&rules, memory_system());
}

static void test_a_rule_that_was_judged_but_did_not_fire_stays_due(void **state)
{
    (void)state;
    struct rules rules;
    struct rule_wish wish = oom();
    struct rule_occasion occasion = allocation(10);
    wish.when = RULE_EVERY;
    wish.count = 2;
    rules_init(&rules);
    struct rule *rule = add(&rules, &wish);
    assert_null(rules_judge(&rules, &occasion));
    assert_ptr_equal(rules_judge(&rules, &occasion), rule);
    assert_ptr_equal(rules_judge(&rules, &occasion), rule);
    assert_int_equal(rule->fired, 0);
    rules_release(&rules, memory_system());
}

/* ------------------------------------------------------------------------------ probability */

enum {
    DRAWS = 2000
};

static struct rule_wish maybe(double probability, uint64_t seed)
{
    struct rule_wish wish = oom();
    wish.when = RULE_PROBABILITY;
    wish.probability = probability;
    wish.seed = seed;
    wish.times = 0;
    return wish;
}

/* When the rule that is the last in the list fires; `others` stand before it. */
static size_t draw_firings(const struct rule_wish *wish, size_t others, bool fired[DRAWS])
{
    struct rules rules;
    size_t count = 0;
    rules_init(&rules);
    for (size_t index = 0; index < others; index++) {
        struct rule_wish other = maybe(0.0, index);
        add(&rules, &other);
    }
    struct rule *rule = add(&rules, wish);
    for (size_t index = 0; index < DRAWS; index++) {
        struct rule_occasion occasion = allocation(10);
        fired[index] = meet(&rules, &occasion) == rule->number;
        count += fired[index];
    }
    rules_release(&rules, memory_system());
    return count;
}

static void test_equal_seeds_fire_alike_whatever_other_rules_there_are(void **state)
{
    (void)state;
    bool alone[DRAWS];
    bool among[DRAWS];
    bool other[DRAWS];
    struct rule_wish wish = maybe(0.25, 7);
    size_t count = draw_firings(&wish, 0, alone);
    assert_int_equal(draw_firings(&wish, 5, among), count);
    assert_memory_equal(alone, among, sizeof(alone));
    wish.seed = 8;
    draw_firings(&wish, 0, other);
    assert_memory_not_equal(alone, other, sizeof(alone));
    /* 500 expected; a fair stream of 2,000 draws misses this range once in 10^14. */
    assert_in_range(count, 350, 650);
}

static void test_probability_zero_never_fires_and_one_always(void **state)
{
    (void)state;
    bool fired[DRAWS];
    struct rule_wish wish = maybe(0.0, 0);
    assert_int_equal(draw_firings(&wish, 0, fired), 0);
    wish.probability = 1.0;
    assert_int_equal(draw_firings(&wish, 0, fired), DRAWS);
}

/* --------------------------------------------------------------------------------- the list */

static void test_numbers_are_never_used_again(void **state)
{
    (void)state;
    struct rules rules;
    struct rule_wish wish = oom();
    rules_init(&rules);
    add(&rules, &wish);
    struct rule *second = add(&rules, &wish);
    rules_remove(&rules, memory_system(), second);
    assert_null(rules_find(&rules, 2));
    assert_int_equal(add(&rules, &wish)->number, 3);
    assert_int_equal(rules.count, 2);
    assert_int_equal(rules_find(&rules, 3)->number, 3);
    rules_release(&rules, memory_system());
}

static void test_rules_about_an_allocator_end_with_it(void **state)
{
    (void)state;
    struct rules rules;
    struct hosted here = {.shared = false};
    struct rule_wish wish = oom();
    rules_init(&rules);
    add(&rules, &wish);
    wish.conditions = RULE_ALLOCATOR;
    wish.hosted = &here;
    add(&rules, &wish);
    add(&rules, &wish);
    rules_forget_allocator(&rules, memory_system(), &here);
    assert_int_equal(rules.count, 1);
    assert_non_null(rules_find(&rules, 1));
    rules_release(&rules, memory_system());
}

static void test_a_method_that_no_rule_is_about_needs_no_judging(void **state)
{
    (void)state;
    struct rules rules;
    struct rule_wish wish = oom();
    rules_init(&rules);
    struct rule *rule = add(&rules, &wish);
    assert_true(rules_may_meet(&rules, METHOD_allocate));
    assert_false(rules_may_meet(&rules, METHOD_free));
    rules_remove(&rules, memory_system(), rule);
    assert_false(rules_may_meet(&rules, METHOD_allocate));
    rules_release(&rules, memory_system());
}

static void test_no_rule_can_keep_rules_from_being_cleared(void **state)
{
    (void)state;
    for (int action = 0; action < WORSEGPU_FAULT_ACTIONS; action++) {
        enum worsegpu_fault_action value = (enum worsegpu_fault_action)action;
        assert_false(rule_action_suits(value, METHOD_inject));
        assert_false(rule_action_suits(value, METHOD_rules));
        assert_false(rule_action_suits(value, METHOD_rules_clear));
    }
}

static void test_every_action_has_its_name(void **state)
{
    (void)state;
    enum worsegpu_fault_action found = WORSEGPU_FAULT_ACTIONS;
    for (int action = 0; action < WORSEGPU_FAULT_ACTIONS; action++) {
        const char *name = worsegpu_fault_action_name((enum worsegpu_fault_action)action);
        assert_true(rule_action_from_name(name, strlen(name), &found));
        assert_int_equal(found, action);
        assert_false(rule_action_from_name(name, strlen(name) - 1, &found));
    }
}

static bool add_two(struct chaos *chaos, void *context)
{
    struct rules rules;
    struct rule_wish wish = oom();
    (void)context;
    rules_init(&rules);
    bool first = rules_add(&rules, &chaos->memory, &wish) != NULL;
    bool second = rules_add(&rules, &chaos->memory, &wish) != NULL;
    assert_int_equal(rules.count, first + second);
    assert_int_equal(rules.last_number, first + second);
    rules_release(&rules, &chaos->memory);
    return first && second;
}

static void test_without_memory_there_is_no_rule(void **state)
{
    (void)state;
    assert_true(chaos_loop(add_two, NULL) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rule_without_conditions_matches_what_its_action_suits),
        cmocka_unit_test(test_a_method_condition_leaves_the_others_alone),
        cmocka_unit_test(test_both_ends_of_a_size_range_belong_to_it),
        cmocka_unit_test(test_a_size_or_stream_that_is_not_known_does_not_match),
        cmocka_unit_test(test_a_tag_prefix_is_the_beginning_of_the_tag),
        cmocka_unit_test(test_process_user_client_and_allocator_must_be_the_same),
        cmocka_unit_test(test_all_conditions_must_hold_at_once),
        cmocka_unit_test(test_nth_fires_from_the_nth_match_on_as_often_as_it_may),
        cmocka_unit_test(test_every_fires_at_each_nth_match_as_often_as_it_may),
        cmocka_unit_test(test_what_does_not_match_does_not_count),
        cmocka_unit_test(test_the_oldest_rule_fires_and_the_others_stay_due),
        cmocka_unit_test(test_a_rule_that_was_judged_but_did_not_fire_stays_due),
        cmocka_unit_test(test_equal_seeds_fire_alike_whatever_other_rules_there_are),
        cmocka_unit_test(test_probability_zero_never_fires_and_one_always),
        cmocka_unit_test(test_numbers_are_never_used_again),
        cmocka_unit_test(test_rules_about_an_allocator_end_with_it),
        cmocka_unit_test(test_a_method_that_no_rule_is_about_needs_no_judging),
        cmocka_unit_test(test_no_rule_can_keep_rules_from_being_cleared),
        cmocka_unit_test(test_every_action_has_its_name),
        cmocka_unit_test(test_without_memory_there_is_no_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
