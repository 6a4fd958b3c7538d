/* validate: each invariant of the table is broken on purpose, and exactly its name comes back. An
 * invariant that is added to the table without a way to break it here makes this test fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/allocator_internal.h"
#include "lib/policies/reference.h"
#include "lib/policies/worse.h"
#include "lib/worsegpu.h"
#include "tests/support/engine.h"

/* An allocator with blocks in every state, live ones on both sides, tags, holes, survivors and a
 * trace. */
static worsegpu_allocator *lively(enum worsegpu_scan scan)
{
    enum {
        STEPS = 400
    };
    struct worsegpu_handle handles[STEPS];
    struct worsegpu_config config = engine_config("12");
    config.gpu_probability = 0.8;
    config.forget_probability = 0.1;
    config.gpu_capacity = UINT64_C(1) << 30;
    config.trace_limit = 64;
    config.scan = scan;
    worsegpu_allocator *allocator = engine_create(&config);
    for (size_t i = 0; i < STEPS; i++) {
        struct worsegpu_request request = engine_request(100 + i % 3);
        if (i % 4 == 0) {
            request.tag = "tag";
            request.tag_bytes = 3;
        }
        struct worsegpu_allocation allocation;
        assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
        handles[i] = allocation.handle;
        if (i >= 60 && i % 5 != 0)
            assert_int_equal(worsegpu_free(allocator, &handles[i - 60], 0, 0, NULL), WORSEGPU_OK);
    }
    engine_assert_valid(allocator);
    return allocator;
}

static struct worse_policy *worse_of(worsegpu_allocator *allocator)
{
    return (struct worse_policy *)allocator->policy;
}

static size_t block_in_state(const struct worse_policy *worse, enum worse_state wanted)
{
    for (size_t i = 0; i < worse->blocks; i++) {
        if (worse->states[i] >> WORSE_STATE_SHIFT == (uint64_t)wanted)
            return i;
    }
    fail_msg("no block in state %d", (int)wanted);
    return 0;
}

/* A class with at least so many free blocks. */
static struct free_class *class_with(struct worse_policy *worse, uint32_t blocks)
{
    for (size_t i = 0; i < worse->index.table_size; i++) {
        struct free_class *free_class = &worse->index.table[i];
        if (free_class->size_bytes != 0 && free_class->blocks >= blocks)
            return free_class;
    }
    fail_msg("no class has %u free blocks", blocks);
    return NULL;
}

static struct handle_record *live_record(worsegpu_allocator *allocator, enum worsegpu_device device)
{
    for (size_t i = 0; i < allocator->live.length; i++) {
        struct handle_record *record = &allocator->live.records[i];
        if (record->skip == 0 && record->device == (uint8_t)device && !record->tag)
            return record;
    }
    fail_msg("no such live allocation");
    return NULL;
}

/* ------------------------------------------------------------------------------ how to break each
 * one */

static void break_block_state(worsegpu_allocator *allocator)
{
    struct worse_policy *worse = worse_of(allocator);
    worse->states[block_in_state(worse, WORSE_FORGOTTEN)] |= UINT64_C(3) << WORSE_STATE_SHIFT;
}

static void break_block_layout(worsegpu_allocator *allocator)
{
    struct worse_policy *worse = worse_of(allocator);
    worse->offsets[worse->blocks - 1] += 256;
}

static void break_gpu_reserved_sum(worsegpu_allocator *allocator)
{
    worse_of(allocator)->reserved_bytes += 256;
}

static void break_gpu_used_sum(worsegpu_allocator *allocator)
{
    worse_of(allocator)->used_bytes -= 256;
}

static void break_gpu_free_sum(worsegpu_allocator *allocator)
{
    worse_of(allocator)->free_bytes += 1;
}

static void break_gpu_forgotten_sum(worsegpu_allocator *allocator)
{
    worse_of(allocator)->forgotten_bytes = 0;
}

static void break_gpu_forgotten_count(worsegpu_allocator *allocator)
{
    worse_of(allocator)->forgotten_blocks++;
}

static void break_gpu_capacity_bound(worsegpu_allocator *allocator)
{
    allocator->largest_capacity_bytes = worse_of(allocator)->reserved_bytes - 1;
}

static void break_free_index_class(worsegpu_allocator *allocator)
{
    worse_of(allocator)->index.classes--;
}

static void break_free_index_member(worsegpu_allocator *allocator)
{
    struct worse_policy *worse = worse_of(allocator);
    class_with(worse, 1)->top = (uint32_t)block_in_state(worse, WORSE_USED);
}

static void break_free_index_order(worsegpu_allocator *allocator)
{
    struct worse_policy *worse = worse_of(allocator);
    struct free_class *free_class = class_with(worse, 2);
    uint32_t top = free_class->top;
    uint32_t below = worse->links[top].child;
    struct free_links links = worse->links[top];
    worse->links[top].child = worse->links[below].child;
    worse->links[top].sibling = worse->links[below].sibling;
    worse->links[below].child = top;
    worse->links[below].sibling = links.sibling;
    free_class->top = below;
}

static void break_free_index_count(worsegpu_allocator *allocator)
{
    class_with(worse_of(allocator), 1)->blocks++;
}

static void break_gpu_placement(worsegpu_allocator *allocator)
{
    live_record(allocator, WORSEGPU_GPU)->offset += 256;
}

static void break_gpu_live_sum(worsegpu_allocator *allocator)
{
    allocator->counters.gpu_used -= 256;
}

static void break_gpu_requested_sum(worsegpu_allocator *allocator)
{
    live_record(allocator, WORSEGPU_GPU)->requested_bytes++;
}

static void break_gpu_live_count(worsegpu_allocator *allocator)
{
    allocator->counters.gpu_allocations++;
}

static void break_cpu_bytes_sum(worsegpu_allocator *allocator)
{
    live_record(allocator, WORSEGPU_CPU)->requested_bytes++;
}

static void break_cpu_live_count(worsegpu_allocator *allocator)
{
    allocator->host.allocations--;
}

static void break_live_order(worsegpu_allocator *allocator)
{
    allocator->counters.last_id--;
}

static void break_live_holes(worsegpu_allocator *allocator)
{
    struct handle_table *table = &allocator->live;
    for (size_t i = 0; i + 1 < table->length; i++) {
        if (table->records[i].skip == 1 && table->records[i + 1].skip == 0) {
            table->records[i].skip = 2;
            return;
        }
    }
    fail_msg("no hole before a live allocation");
}

static void break_live_count(worsegpu_allocator *allocator)
{
    allocator->live.live++;
}

static void break_live_limit(worsegpu_allocator *allocator)
{
    allocator->config.max_live_allocations = allocator->live.live - 1;
}

static void break_live_index(worsegpu_allocator *allocator)
{
    struct handle_table *table = &allocator->live;
    assert_true(table->survivors > 0);
    size_t at = 0;
    while (table->slots[at].position == 0)
        at++;
    table->slots[at].position = 0;
}

static void break_live_tag(worsegpu_allocator *allocator)
{
    live_record(allocator, WORSEGPU_CPU)->tag_bytes = 3;
}

static void break_calls_balance(worsegpu_allocator *allocator)
{
    allocator->counters.free_calls--;
}

static void break_oom_calls(worsegpu_allocator *allocator)
{
    allocator->counters.oom_fallbacks = allocator->counters.allocate_calls + 1;
}

static void break_peak_gpu_used_bound(worsegpu_allocator *allocator)
{
    allocator->counters.peak_gpu_used = allocator->counters.gpu_used - 1;
}

static void break_peak_cpu_bytes_bound(worsegpu_allocator *allocator)
{
    allocator->host.peak_bytes = allocator->host.used_bytes - 1;
}

static void break_trace_limit(worsegpu_allocator *allocator)
{
    allocator->trace.count = allocator->trace.limit + 1;
}

static void break_trace_sequence(worsegpu_allocator *allocator)
{
    allocator->trace.last_sequence++;
}

static void break_trace_order(worsegpu_allocator *allocator)
{
    struct trace *trace = &allocator->trace;
    size_t at = 0;
    while (trace->records[at].operation != WORSEGPU_ALLOCATE)
        at++;
    trace->records[at].allocation_id -= 2;
}

typedef void (*break_one)(worsegpu_allocator *allocator);

static const break_one breakings[INVARIANT_COUNT] = {
#define INVARIANT(name, sentence) [INVARIANT_##name] = break_##name,
#include "lib/invariants.def"
#undef INVARIANT
};

/* ------------------------------------------------------------------------------ tests */

static void assert_broken(worsegpu_allocator *allocator, const char *expected)
{
    uint64_t checks = 0;
    const char *broken = NULL;
    assert_int_equal(worsegpu_validate(allocator, &checks, &broken), WORSEGPU_INVARIANT_VIOLATION);
    assert_string_equal(broken, expected);
    assert_true(checks > 0);
    assert_int_equal(worsegpu_validate(allocator, NULL, NULL), WORSEGPU_INVARIANT_VIOLATION);
}

static void test_each_broken_invariant_is_named(void **state)
{
    (void)state;
    for (int i = 0; i < INVARIANT_COUNT; i++) {
        worsegpu_allocator *allocator = lively(WORSEGPU_SCAN_ACCOUNTED);
        assert_non_null(breakings[i]);
        breakings[i](allocator);
        assert_broken(allocator, invariant_name((enum invariant)i));
        worsegpu_destroy(allocator);
    }
}

static void test_a_walked_list_is_audited_as_well(void **state)
{
    (void)state;
    const enum invariant shared[] = {INVARIANT_block_state,         INVARIANT_block_layout,
                                     INVARIANT_gpu_reserved_sum,    INVARIANT_gpu_used_sum,
                                     INVARIANT_gpu_forgotten_count, INVARIANT_gpu_placement,
                                     INVARIANT_live_index,          INVARIANT_trace_order};
    for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++) {
        worsegpu_allocator *allocator = lively(WORSEGPU_SCAN_WALKED);
        breakings[shared[i]](allocator);
        assert_broken(allocator, invariant_name(shared[i]));
        worsegpu_destroy(allocator);
    }
}

static void test_every_invariant_has_a_name_and_a_sentence_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < INVARIANT_COUNT; i++) {
        const char *sentence = invariant_sentence((enum invariant)i);
        assert_int_equal(sentence[strlen(sentence) - 1], '.');
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(invariant_name((enum invariant)i),
                                    invariant_name((enum invariant)j));
            assert_string_not_equal(sentence, invariant_sentence((enum invariant)j));
        }
    }
}

static void test_links_that_lead_in_a_circle_end_in_a_name(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = lively(WORSEGPU_SCAN_ACCOUNTED);
    struct worse_policy *worse = worse_of(allocator);
    struct free_class *free_class = class_with(worse, 2);
    uint32_t below = worse->links[free_class->top].child;
    worse->links[below].sibling = below;
    assert_broken(allocator, "free_index_member");
    worsegpu_destroy(allocator);
}

static void test_a_link_out_of_the_list_ends_in_a_name(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = lively(WORSEGPU_SCAN_ACCOUNTED);
    struct worse_policy *worse = worse_of(allocator);
    worse->links[class_with(worse, 1)->top].child = (uint32_t)worse->blocks;
    assert_broken(allocator, "free_index_member");
    worsegpu_destroy(allocator);
}

static void test_a_class_left_out_is_missed(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = lively(WORSEGPU_SCAN_ACCOUNTED);
    struct free_class *free_class = class_with(worse_of(allocator), 1);
    free_class->top = FREE_INDEX_NONE;
    free_class->blocks = 0;
    assert_broken(allocator, "free_index_count");
    worsegpu_destroy(allocator);
}

static void test_two_allocations_on_one_block_are_found(void **state)
{
    (void)state;
    worsegpu_allocator *allocator = lively(WORSEGPU_SCAN_ACCOUNTED);
    struct handle_record *victim = live_record(allocator, WORSEGPU_GPU);
    victim->cookie = UINT64_MAX;
    assert_broken(allocator, "gpu_placement");
    for (size_t i = 0; i < allocator->live.length; i++) {
        const struct handle_record *other = &allocator->live.records[i];
        if (other == victim || other->skip != 0 || other->device != WORSEGPU_GPU)
            continue;
        victim->cookie = other->cookie;
        victim->block_index = other->block_index;
        victim->offset = other->offset;
        victim->reserved_bytes = other->reserved_bytes;
    }
    assert_broken(allocator, "gpu_placement");
    worsegpu_destroy(allocator);
}

static void test_the_reference_is_audited_too(void **state)
{
    (void)state;
    struct worsegpu_config config = engine_config("1");
    config.policy = "reference";
    config.gpu_capacity = 1000;
    worsegpu_allocator *allocator = engine_create(&config);
    engine_allocate(allocator, 700);
    struct reference_policy *reference = (struct reference_policy *)allocator->policy;
    reference->used_bytes++;
    assert_broken(allocator, "gpu_reserved_sum");
    reference->used_bytes--;
    reference->forgotten_bytes = 301;
    assert_broken(allocator, "gpu_capacity_bound");
    reference->forgotten_bytes = 300;
    engine_assert_valid(allocator);
    worsegpu_destroy(allocator);
}

static void test_an_empty_allocator_is_valid(void **state)
{
    (void)state;
    const char *name;
    for (size_t i = 0; (name = worsegpu_policy_name(i)) != NULL; i++) {
        struct worsegpu_config config = engine_config("1");
        config.policy = name;
        worsegpu_allocator *allocator = engine_create(&config);
        engine_assert_valid(allocator);
        worsegpu_destroy(allocator);
    }
}

static void test_validating_changes_nothing(void **state)
{
    (void)state;
    static struct engine_state before;
    static struct engine_state after;
    worsegpu_allocator *allocator = lively(WORSEGPU_SCAN_ACCOUNTED);
    struct python_random random = allocator->random;
    engine_look(allocator, &before);
    engine_assert_valid(allocator);
    engine_look(allocator, &after);
    engine_assert_same(&before, &after, false);
    assert_memory_equal(&random, &allocator->random, sizeof(random));
    worsegpu_destroy(allocator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_broken_invariant_is_named),
        cmocka_unit_test(test_a_walked_list_is_audited_as_well),
        cmocka_unit_test(test_every_invariant_has_a_name_and_a_sentence_of_its_own),
        cmocka_unit_test(test_links_that_lead_in_a_circle_end_in_a_name),
        cmocka_unit_test(test_a_link_out_of_the_list_ends_in_a_name),
        cmocka_unit_test(test_a_class_left_out_is_missed),
        cmocka_unit_test(test_two_allocations_on_one_block_are_found),
        cmocka_unit_test(test_the_reference_is_audited_too),
        cmocka_unit_test(test_an_empty_allocator_is_valid),
        cmocka_unit_test(test_validating_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
