/* Every decision of every policy through one long mixed workload, as sums in
 * tests/figures/policy-figures.txt, with the statistics, measures and blocks that they end in. What
 * no worked example and no model looks at (a count of blocks looked at after a refusal, a peak, a
 * list that is told) cannot change unseen. Figures that were changed on purpose: run this program
 * with WORSEGPU_NEW_FIGURES=FILE, and read the difference before it is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/policy.h"
#include "lib/statistics.h"
#include "tests/support/kept_figures.h"
#include "tests/support/policy_world.h"

enum {
    SEED = 20261201,
    STEPS = 600,
    STEPS_A_LINE = 60,
    MOST_LIVE = 60
};

static const struct played {
    const char *policy;
    const char *knobs;
    uint64_t capacity_bytes;
    uint64_t largest_bytes;
} played[] = {
    {"worse", "", 1000000, 150000},
    {"reference", "", 1000000, 150000},
    {"list_fit", "", 100000, 15000},
    {"list_fit", "fit=best", 100000, 15000},
    {"list_fit", "fit=worst", 100000, 15000},
    {"list_fit", "fit=next", 100000, 15000},
    {"list_fit", "fit=next order=insert_front", 100000, 15000},
    {"list_fit", "fit=first order=insert_back", 100000, 15000},
    {"list_fit", "fit=best order=size_up header=16 alignment=16", 100000, 15000},
    {"list_fit", "fit=worst order=size_down merge=false", 100000, 15000},
    {"list_fit", "fit=next merge=false", 100000, 15000},
    {"list_fit", "order=insert_front tail=apart", 100000, 15000},
    {"buddy", "", 1000000, 150000},
    {"buddy", "minimum_block=1", 100001, 15000},
    {"tlsf", "", 1000000, 150000},
    {"tlsf", "fl_index_max=17", 100007, 15000},
    {"offset", "", 1000000, 150000},
    {"offset", "max_allocs=30 unit_bytes=64", 1000000, 150000},
    {"vma", "", 1000000, 150000},
    {"vma", "strategy=min_memory alignment=16", 1000000, 150000},
    {"vma", "strategy=min_offset", 1000000, 150000},
    {"vma", "strategy=min_time", 1000000, 150000},
    {"vma", "algorithm=linear", 1000000, 150000},
    {"driver", "", UINT64_C(100) << 20, 15000000},
    {"driver", "share_small=false", UINT64_C(100) << 20, 15000000},
    {"rmm_pool", "", 10000000, 1500000},
    {"rmm_pool", "initial_pool_size=1MiB maximum_pool_size=4MiB", 10000000, 1500000},
    {"bfc", "", UINT64_C(64) << 20, 9000000},
    {"bfc", "allow_growth=true", UINT64_C(64) << 20, 9000000},
    {"bfc", "allow_growth=true garbage_collection=true", UINT64_C(64) << 20, 9000000},
    {"torch", "", UINT64_C(400) << 20, 120000000},
    {"torch", "alloc_conf=expandable_segments:True", UINT64_C(400) << 20, 120000000},
    {"torch", "alloc_conf=max_split_size_mb:21", UINT64_C(400) << 20, 120000000},
    {"torch", "alloc_conf=roundup_power2_divisions:4", UINT64_C(400) << 20, 120000000},
    {"torch", "alloc_conf=garbage_collection_threshold:0.5 memory_fraction=0.7",
     UINT64_C(400) << 20, 120000000},
};

struct allocation {
    struct policy_placement placement;
    uint64_t stream;
};

struct play {
    struct policy_world world;
    const struct policy_operations *operations;
    struct policy *policy;
    struct allocation live[MOST_LIVE];
    size_t count;
    uint64_t sum;
    uint64_t placed;
    uint64_t refused;
    uint64_t asked;
};

/* FNV-1a, word by word. */
static void add(struct play *play, uint64_t word)
{
    play->sum = (play->sum ^ word) * UINT64_C(1099511628211);
}

static uint64_t below(struct play *play, uint64_t bound)
{
    return policy_world_below(&play->world, bound);
}

static bool admit_most(void *context, enum worsegpu_device device, uint64_t reserved_bytes)
{
    struct play *play = context;
    add(play, (uint64_t)device);
    add(play, reserved_bytes);
    return play->asked++ % 11 != 10;
}

static void free_one(struct play *play)
{
    size_t at = (size_t)below(play, play->count);
    struct policy_free how = {.stream = play->live[at].stream, .forget = below(play, 60) == 0};
    if (below(play, 8) == 0)
        how.stream = below(play, 3);
    add(play, play->operations->release(play->policy, &play->live[at].placement, &how));
    play->live[at] = play->live[--play->count];
}

static void allocate_one(struct play *play, uint64_t largest)
{
    struct policy_request request = {
        .requested_bytes = 1 + below(play, below(play, 4) == 0 ? largest : largest / 20),
        .stream = below(play, 5) == 0 ? below(play, 3) : 0,
        .alignment = below(play, 6) == 0 ? UINT64_C(1) << below(play, 12) : 0,
        .upper = below(play, 7) == 0,
        .admit = admit_most,
        .admit_context = play,
    };
    struct policy_outcome outcome;
    memset(&outcome, 0x5a, sizeof(outcome));
    int verdict = play->operations->place(play->policy, &request, &outcome);
    add(play, (uint64_t)verdict);
    add(play, outcome.blocks_scanned);
    play->refused += verdict == POLICY_FULL;
    if (verdict != POLICY_PLACED)
        return;
    add(play, outcome.placement.offset);
    add(play, outcome.placement.reserved_bytes);
    add(play, (uint64_t)outcome.placement.block_index);
    play->live[play->count++] = (struct allocation){outcome.placement, request.stream};
    play->placed++;
}

static void tell_streams(struct play *play)
{
    if (play->operations->record_stream && play->count > 0) {
        size_t at = (size_t)below(play, play->count);
        assert_int_equal(play->operations->record_stream(play->policy, &play->live[at].placement,
                                                         below(play, 3)),
                         0);
    }
    if (play->operations->event_done && below(play, 2) == 0)
        play->operations->event_done(play->policy, below(play, 3), 1 + below(play, 2),
                                     below(play, 2) == 0);
    if (play->operations->empty_cache && below(play, 20) == 0)
        play->operations->empty_cache(play->policy);
}

static void step(struct play *play, uint64_t largest)
{
    uint64_t kind = below(play, 20);
    if (kind == 0)
        tell_streams(play);
    else if (play->count == MOST_LIVE || (kind < 9 && play->count > 0))
        free_one(play);
    else
        allocate_one(play, largest);
    struct policy_measures measures = {0};
    play->operations->measure(play->policy, &measures);
    add(play, measures.reserved_bytes);
    add(play, measures.used_bytes);
    add(play, measures.free_bytes);
    add(play, measures.forgotten_bytes);
    add(play, measures.pending_bytes);
    add(play, measures.blocks);
    add(play, measures.forgotten_blocks);
    add(play, measures.segments);
    add(play, measures.device_calls);
    add(play, measures.retries);
    add(play, measures.cannot_fragment);
    if (play->operations->largest_free)
        add(play, play->operations->largest_free(play->policy));
}

/* ------------------------------------------------------------------------------ as text */

static void tell_count(void *context, const char *name, uint64_t value)
{
    fprintf(context, "    %s %" PRIu64 "\n", name, value);
}

static void tell_number(void *context, const char *name, double value)
{
    fprintf(context, "    %s %.17g\n", name, value);
}

static void tell_none(void *context, const char *name)
{
    fprintf(context, "    %s none\n", name);
}

static void tell_values(void *context, const char *name, const uint64_t *values, size_t count)
{
    fprintf(context, "    %s", name);
    for (size_t i = 0; i < count; i++)
        fprintf(context, " %" PRIu64, values[i]);
    fputc('\n', context);
}

static void tell_list(void *context, const char *name)
{
    fprintf(context, "    %s begins\n", name);
}

static void tell_row(void *context, const char *const *names, const uint64_t *values, size_t count)
{
    fprintf(context, "     ");
    for (size_t i = 0; i < count; i++)
        fprintf(context, " %s %" PRIu64, names ? names[i] : "-", values[i]);
    fputc('\n', context);
}

static void end_list(void *context)
{
    fprintf(context, "    ends\n");
}

static void tell(const struct play *play, FILE *file, bool lists)
{
    const struct statistics_sink sink = {
        .context = file,
        .lists = lists,
        .count = tell_count,
        .number = tell_number,
        .none = tell_none,
        .values = tell_values,
        .list_begin = tell_list,
        .row = tell_row,
        .list_end = end_list,
    };
    fprintf(file, "  statistics %s\n", lists ? "with lists" : "without lists");
    if (play->operations->statistics)
        play->operations->statistics(play->policy, &sink);
}

static void see_block(void *context, const struct policy_block *block)
{
    struct play *play = context;
    add(play, block->offset);
    add(play, block->bytes);
    add(play, block->stream);
    add(play, block->segment);
    add(play, (uint64_t)block->state);
}

static void play_all(const struct played *one, FILE *file)
{
    struct play play = {.sum = UINT64_C(14695981039346656037)};
    policy_world_open(&play.world, one->policy, one->knobs, one->capacity_bytes, NULL);
    play.world.number = SEED;
    play.operations = play.world.operations;
    play.policy = play.world.policy;
    fprintf(file, "%s %s\n", one->policy, one->knobs);
    tell(&play, file, false);
    for (int i = 1; i <= STEPS; i++) {
        step(&play, one->largest_bytes);
        if (i % STEPS_A_LINE == 0)
            fprintf(file, "  step %d: %" PRIu64 " placed, %" PRIu64 " refused, %016" PRIx64 "\n", i,
                    play.placed, play.refused, play.sum);
    }
    assert_true(play.placed > STEPS / 10); /* it has not been refusing all the time */
    play.operations->each_block(play.policy, see_block, &play);
    fprintf(file, "  blocks: %016" PRIx64 "\n", play.sum);
    tell(&play, file, false);
    tell(&play, file, true);
    while (play.count > 0)
        free_one(&play);
    tell(&play, file, false);
    policy_world_close(&play.world);
}

static void test_every_decision_is_as_it_was(void **state)
{
    (void)state;
    char *figures = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&figures, &length);
    assert_non_null(out);
    for (size_t i = 0; i < sizeof(played) / sizeof(played[0]); i++)
        play_all(&played[i], out);
    fclose(out);
    kept_figures_compare("policy-figures.txt", figures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_decision_is_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
