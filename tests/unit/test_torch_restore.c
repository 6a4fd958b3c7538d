/* A torch policy that starts in the middle of a run, with segments where a log says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "lib/blocks/device.h"
#include "lib/knobs.h"
#include "lib/policies/torch.h"
#include "lib/statistics.h"
#include "tests/support/chaos.h"

#define KIB(count) ((uint64_t)(count) << 10)
#define MIB(count) ((uint64_t)(count) << 20)
#define BASE (UINT64_C(7) << 40) /* addresses as a driver gives them */

enum {
    LIVE = 8
};

/* A policy over a device that gives one place again and again, or refuses. */
struct run {
    struct chaos chaos;
    struct worsegpu_config config;
    struct policy *policy;
    struct device_source source;
    struct device_watch watch;
    bool refuses;
    uint64_t place; /* of the next segment */
    uint64_t taken;
    uint64_t given;
    uint64_t told;
    struct policy_placement live[LIVE];
    size_t live_count;
};

static int take(void *context, enum device_event event, uint64_t bytes, uint64_t *offset)
{
    struct run *run = context;
    (void)bytes;
    assert_int_equal(event, DEVICE_REGION);
    if (run->refuses)
        return 1;
    run->taken++;
    *offset = run->place;
    return 0;
}

static void give_back(void *context, enum device_event event, uint64_t offset, uint64_t bytes)
{
    struct run *run = context;
    (void)offset;
    (void)bytes;
    assert_int_equal(event, DEVICE_REGION_FREE);
    run->given++;
    run->refuses = false;
}

static void tell(void *context, enum device_event event, uint64_t offset, uint64_t bytes)
{
    struct run *run = context;
    (void)event;
    (void)offset;
    (void)bytes;
    run->told++;
}

static void open_run(struct run *run)
{
    struct knob_value knobs[KNOBS_MAX];
    char problem[KNOBS_PROBLEM_SIZE];
    *run = (struct run){.place = BASE};
    chaos_init(&run->chaos);
    worsegpu_config_default(&run->config);
    assert_true(knobs_read(&policy_torch, &run->config, "", knobs, problem));
    run->source = (struct device_source){run, take, give_back};
    run->watch = (struct device_watch){run, tell};
    struct policy_setup setup = {
        .config = &run->config,
        .knobs = knobs,
        .memory = &run->chaos.memory,
        .source = &run->source,
        .watch = &run->watch,
    };
    assert_int_equal(policy_torch.create(&setup, &run->policy), WORSEGPU_OK);
}

static void each_live(const struct policy_live *live, policy_visit visit, void *context)
{
    const struct run *run = live->context;
    for (size_t i = 0; i < run->live_count; i++)
        visit(context, &run->live[i]);
}

static void check(const struct run *run)
{
    struct policy_live live = {.each = each_live, .context = run, .largest_capacity_bytes = 0};
    struct audit audit = {0};
    assert_int_equal(policy_torch.check(run->policy, &live, &audit), WORSEGPU_OK);
    if (audit.broken)
        fail_msg("%s does not hold", audit.broken);
}

static void close_run(struct run *run)
{
    check(run);
    policy_torch.destroy(run->policy);
    assert_int_equal(run->chaos.live_pieces, 0);
}

static uint64_t ask(struct run *run, uint64_t bytes)
{
    struct policy_request request = {.requested_bytes = bytes};
    struct policy_outcome outcome;
    int verdict = policy_torch.place(run->policy, &request, &outcome);
    if (verdict == POLICY_FULL)
        return UINT64_MAX;
    assert_int_equal(verdict, POLICY_PLACED);
    run->live[run->live_count++] = outcome.placement;
    check(run);
    return outcome.placement.offset;
}

static void give(struct run *run, size_t place)
{
    struct policy_free how = {.stream = 0};
    policy_torch.release(run->policy, &run->live[place], &how);
    run->live[place] = run->live[--run->live_count];
    check(run);
}

static void restore(struct run *run, uint64_t offset, uint64_t bytes)
{
    assert_int_equal(
        torch_restore_block(run->policy, offset, bytes, bytes, &run->live[run->live_count]), 0);
    run->live_count++;
    check(run);
}

static struct policy_measures measures_of(const struct run *run)
{
    struct policy_measures measures;
    policy_torch.measure(run->policy, &measures);
    return measures;
}

/* ------------------------------------------------------------------------------ */

static void test_a_restored_segment_is_one_free_block_and_no_call_to_the_device(void **state)
{
    (void)state;
    struct run run;
    open_run(&run);
    assert_int_equal(torch_restore_segment(run.policy, BASE, MIB(20), 0, false), 0);
    struct policy_measures measures = measures_of(&run);
    assert_int_equal(measures.reserved_bytes, MIB(20));
    assert_int_equal(measures.free_bytes, MIB(20));
    assert_int_equal(measures.segments, 1);
    assert_int_equal(measures.device_calls, 0);
    assert_int_equal(run.taken + run.told, 0);
    assert_int_equal(ask(&run, MIB(4)), BASE);
    close_run(&run);
}

static void test_restored_blocks_are_cut_out_wherever_they_lie(void **state)
{
    (void)state;
    struct run run;
    open_run(&run);
    assert_int_equal(torch_restore_segment(run.policy, BASE, MIB(20), 0, false), 0);
    restore(&run, BASE + MIB(12), MIB(3));
    restore(&run, BASE, MIB(2));
    restore(&run, BASE + MIB(15), MIB(5));
    assert_int_equal(measures_of(&run).used_bytes, MIB(10));
    assert_int_equal(ask(&run, MIB(8)), BASE + MIB(2));
    assert_int_equal(ask(&run, MIB(2)), BASE + MIB(10));
    for (int i = 0; i < 5; i++)
        give(&run, 0);
    assert_int_equal(policy_torch.largest_free(run.policy), MIB(20));
    close_run(&run);
}

static void test_what_does_not_fit_in_a_free_block_is_not_restored(void **state)
{
    (void)state;
    struct run run;
    struct policy_placement placement;
    open_run(&run);
    assert_int_equal(torch_restore_segment(run.policy, BASE, MIB(2), 0, true), 0);
    restore(&run, BASE + KIB(4), KIB(4));
    static const uint64_t wrong[][2] = {
        {BASE + KIB(4), KIB(4)},     /* handed out */
        {BASE + KIB(2), KIB(4)},     /* reaches into it */
        {BASE + MIB(2) - 512, 1024}, /* past the end */
        {BASE - 512, 512},           /* before the first segment */
        {BASE + MIB(2), 512},        /* behind the last */
        {BASE, 0},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(torch_restore_block(run.policy, wrong[i][0], wrong[i][1], 1, &placement),
                         1);
    check(&run);
    close_run(&run);
}

static void test_a_segment_that_overlaps_another_is_not_restored(void **state)
{
    (void)state;
    struct run run;
    open_run(&run);
    assert_int_equal(torch_restore_segment(run.policy, BASE, MIB(2), 0, true), 0);
    assert_int_equal(torch_restore_segment(run.policy, BASE, MIB(2), 1, true), 1);
    assert_int_equal(torch_restore_segment(run.policy, BASE + MIB(1), MIB(2), 0, true), 1);
    assert_int_equal(torch_restore_segment(run.policy, BASE - MIB(1), MIB(20), 0, false), 1);
    assert_int_equal(torch_restore_segment(run.policy, BASE - 512, 1024, 0, false), 1);
    assert_int_equal(torch_restore_segment(run.policy, BASE + MIB(4), 0, 0, false), 1);
    assert_int_equal(torch_restore_segment(run.policy, BASE + MIB(4), 1000, 0, false), 1);
    assert_int_equal(torch_restore_segment(run.policy, UINT64_MAX - 511, 512, 0, false), 1);
    assert_int_equal(torch_restore_segment(run.policy, BASE + MIB(2), MIB(2), 0, true), 0);
    close_run(&run);
}

static void test_a_segment_is_known_by_any_offset_in_it(void **state)
{
    (void)state;
    struct run run;
    struct torch_segment_facts facts;
    open_run(&run);
    assert_false(torch_segment_at(run.policy, BASE, &facts));
    assert_int_equal(torch_restore_segment(run.policy, BASE, MIB(2), 9, true), 0);
    assert_int_equal(torch_restore_segment(run.policy, BASE + MIB(30), MIB(20), 0, false), 0);
    restore(&run, BASE + MIB(31), MIB(2));
    assert_true(torch_segment_at(run.policy, BASE + MIB(2) - 1, &facts));
    assert_int_equal(facts.offset, BASE);
    assert_int_equal(facts.bytes, MIB(2));
    assert_int_equal(facts.stream, 9);
    assert_true(facts.small && facts.whole_and_free && !facts.expandable);
    assert_false(torch_segment_at(run.policy, BASE + MIB(2), &facts));
    assert_true(torch_segment_at(run.policy, BASE + MIB(32), &facts));
    assert_int_equal(facts.offset, BASE + MIB(30));
    assert_false(facts.small || facts.whole_and_free);
    assert_false(torch_segment_at(run.policy, BASE + MIB(50), &facts));
    close_run(&run);
}

static void test_a_recorded_release_gives_back_a_whole_free_segment_only(void **state)
{
    (void)state;
    struct run run;
    open_run(&run);
    assert_int_equal(torch_restore_segment(run.policy, BASE, MIB(20), 0, false), 0);
    restore(&run, BASE, MIB(20));
    assert_int_equal(torch_release_segment(run.policy, BASE), 1);
    give(&run, 0);
    assert_int_equal(torch_release_segment(run.policy, BASE + 512), 1);
    assert_int_equal(torch_release_segment(run.policy, BASE), 0);
    assert_int_equal(torch_release_segment(run.policy, BASE), 1);
    assert_int_equal(run.given, 1);
    assert_int_equal(run.told, 1);
    assert_int_equal(measures_of(&run).reserved_bytes, 0);
    close_run(&run);
}

static void test_a_device_that_says_no_meets_the_flush(void **state)
{
    (void)state;
    struct run run;
    open_run(&run);
    assert_int_equal(torch_restore_segment(run.policy, BASE, MIB(20), 0, false), 0);
    assert_int_equal(torch_restore_segment(run.policy, BASE + MIB(20), MIB(2), 0, true), 0);
    run.refuses = true; /* until something comes back */
    run.place = BASE + MIB(100);
    assert_int_equal(ask(&run, MIB(30)), BASE + MIB(100));
    assert_int_equal(run.given, 2);
    assert_int_equal(torch_retries(run.policy), 1);
    run.refuses = true;
    assert_int_equal(ask(&run, MIB(30)), UINT64_MAX);
    assert_int_equal(torch_retries(run.policy), 2);
    close_run(&run);
}

static void test_the_same_place_given_twice_breaks_nothing_but_the_audit(void **state)
{
    (void)state;
    struct run run;
    open_run(&run);
    assert_int_equal(ask(&run, MIB(20)), BASE);
    struct policy_request request = {.requested_bytes = MIB(20)};
    struct policy_outcome outcome;
    assert_int_equal(policy_torch.place(run.policy, &request, &outcome), POLICY_PLACED);
    run.live[run.live_count++] = outcome.placement;
    struct policy_live live = {.each = each_live, .context = &run, .largest_capacity_bytes = 0};
    struct audit audit = {0};
    assert_int_equal(policy_torch.check(run.policy, &live, &audit), WORSEGPU_OK);
    assert_string_equal(audit.broken, "block_layout");
    policy_torch.release(run.policy, &run.live[--run.live_count], &(struct policy_free){0});
    policy_torch.empty_cache(run.policy);
    policy_torch.destroy(run.policy);
    assert_int_equal(run.chaos.live_pieces, 0);
}

static void test_restoring_without_memory_changes_nothing(void **state)
{
    (void)state;
    bool failed = true;
    for (uint64_t fail_at = 1; failed; fail_at++) {
        struct run run;
        open_run(&run);
        chaos_arm(&run.chaos, fail_at, true);
        int status = torch_restore_segment(run.policy, BASE, MIB(20), 4, false);
        failed = run.chaos.failed;
        assert_int_equal(status, failed ? WORSEGPU_NO_MEMORY : 0);
        chaos_arm(&run.chaos, 0, false);
        assert_int_equal(measures_of(&run).reserved_bytes, failed ? 0 : MIB(20));
        close_run(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_restored_segment_is_one_free_block_and_no_call_to_the_device),
        cmocka_unit_test(test_restored_blocks_are_cut_out_wherever_they_lie),
        cmocka_unit_test(test_what_does_not_fit_in_a_free_block_is_not_restored),
        cmocka_unit_test(test_a_segment_that_overlaps_another_is_not_restored),
        cmocka_unit_test(test_a_segment_is_known_by_any_offset_in_it),
        cmocka_unit_test(test_a_recorded_release_gives_back_a_whole_free_segment_only),
        cmocka_unit_test(test_a_device_that_says_no_meets_the_flush),
        cmocka_unit_test(test_the_same_place_given_twice_breaks_nothing_but_the_audit),
        cmocka_unit_test(test_restoring_without_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
