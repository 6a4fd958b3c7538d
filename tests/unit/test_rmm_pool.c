/* The policy rmm_pool: hand-worked cases, admission, memory that fails, and what the audit must
 * notice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/policies/rmm_pool.h"
#include "tests/support/policy_world.h"

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)
#define REFUSED UINT64_MAX

static const struct policy_rules no_rules = {0};

static struct rmm_pool *pool_of(struct policy_world *world)
{
    return (struct rmm_pool *)world->policy;
}

static uint64_t segments_of(const struct policy_world *world)
{
    struct policy_measures measures;
    world->operations->measure(world->policy, &measures);
    return measures.segments;
}

/* Asks on a stream: the offset, or REFUSED. */
static uint64_t ask_on(struct policy_world *world, uint64_t stream, uint64_t bytes)
{
    struct policy_request request = {.requested_bytes = bytes, .stream = stream};
    int verdict = policy_world_ask(world, &request, true);
    assert_true(verdict == POLICY_PLACED || verdict == POLICY_FULL);
    return verdict == POLICY_PLACED ? world->live[world->live_count - 1].placement.offset : REFUSED;
}

static void free_at(struct policy_world *world, uint64_t offset, uint64_t stream)
{
    size_t place = 0;
    while (world->live[place].placement.offset != offset)
        assert_true(++place < world->live_count);
    policy_world_free_on(world, place, stream, false);
}

/* --------------------------------------------------------------------------------- hand-worked */

static void test_sizes_are_rounded_up_to_256(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "rmm_pool", "initial_pool_size=1MiB", MIB, &no_rules);
    assert_int_equal(ask_on(&world, 0, 1), 0);
    assert_int_equal(ask_on(&world, 0, 257), 256);
    assert_int_equal(ask_on(&world, 0, 1), 768);
    policy_world_close(&world);
}

static void test_the_smallest_block_that_fits_is_taken_and_the_lowest_among_equals(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "rmm_pool", "initial_pool_size=1MiB", MIB, &no_rules);
    /* From below: 1024, wall, 512, wall, 512, wall, the rest. */
    const uint64_t sizes[] = {1024, 256, 512, 256, 512, 256};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        ask_on(&world, 0, sizes[i]);
    free_at(&world, 2048, 0); /* the upper 512 */
    free_at(&world, 1280, 0); /* the lower 512 */
    free_at(&world, 0, 0);
    assert_int_equal(ask_on(&world, 0, 300), 1280);
    assert_int_equal(ask_on(&world, 0, 300), 2048);
    assert_int_equal(ask_on(&world, 0, 300), 0);
    policy_world_close(&world);
}

static void test_without_a_maximum_the_pool_doubles(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "rmm_pool", "device_granularity=256", MIB, &no_rules);
    /* P = 0: a piece of 1024. P = 1024, 256 wanted: a piece of 1024 at 1024, 768 of it left. 4096
     * wanted: P = 2048, a piece of 4096 at 2048. */
    assert_int_equal(ask_on(&world, 0, 1024), 0);
    assert_int_equal(ask_on(&world, 0, 256), 1024);
    assert_int_equal(pool_of(&world)->pool_bytes, 2048);
    assert_int_equal(ask_on(&world, 0, 4096), 2048);
    assert_int_equal(pool_of(&world)->pool_bytes, 6144);
    assert_int_equal(segments_of(&world), 3);
    assert_int_equal(ask_on(&world, 0, 768), 1280);
    policy_world_close(&world);
}

static void test_with_a_maximum_the_pool_grows_by_half_of_what_is_left(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "rmm_pool", "maximum_pool_size=8192 device_granularity=256", MIB,
                      &no_rules);
    /* left 8192: a piece of 4096. Then left 4096: half is 2048, 3072 are wanted and taken. Then
     * left 1024, and 1280 wanted: refused. */
    assert_int_equal(ask_on(&world, 0, 4096), 0);
    assert_int_equal(ask_on(&world, 0, 3072), 4096);
    assert_int_equal(ask_on(&world, 0, 1280), REFUSED);
    assert_int_equal(ask_on(&world, 0, 1024), 7168);
    assert_int_equal(ask_on(&world, 0, 1), REFUSED);
    policy_world_close(&world);
}

static void test_an_odd_half_lets_the_pool_end_above_its_maximum(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "rmm_pool", "maximum_pool_size=768 device_granularity=256", 8192,
                      &no_rules);
    /* left 768: half is 384, of which 128 remain as a block. P = 384, left 384 rounded up: 512; a
     * piece of 256 at 512. P = 640, left 128 rounded up: 256; a piece of 256. P = 896. */
    assert_int_equal(ask_on(&world, 0, 256), 0);
    assert_int_equal(pool_of(&world)->pool_bytes, 384);
    assert_int_equal(ask_on(&world, 0, 256), 512);
    assert_int_equal(ask_on(&world, 0, 256), 768);
    assert_int_equal(pool_of(&world)->pool_bytes, 896);
    assert_int_equal(ask_on(&world, 0, 256), REFUSED);
    policy_world_close(&world);
}

static void test_growth_tries_half_as_much_when_the_device_says_no(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "rmm_pool", "maximum_pool_size=64KiB device_granularity=256",
                      20 * KIB, &no_rules);
    /* Half of 64 KiB is too much for a device of 20 KiB; 16 KiB is not. */
    assert_int_equal(ask_on(&world, 0, 256), 0);
    assert_int_equal(pool_of(&world)->pool_bytes, 16 * KIB);
    /* 24 KiB is half of what is left, then 12, 6 and the 5 KiB wanted: no. */
    policy_world_allocate(&world, 15 * KIB);
    assert_int_equal(ask_on(&world, 0, 5 * KIB), REFUSED);
    assert_int_equal(ask_on(&world, 0, 4 * KIB), 16 * KIB);
    policy_world_close(&world);
}

static void test_upstream_blocks_do_not_merge_though_they_touch(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "rmm_pool", "device_granularity=256", 4096, &no_rules);
    assert_int_equal(ask_on(&world, 0, 2048), 0);
    assert_int_equal(ask_on(&world, 0, 2048), 2048);
    free_at(&world, 0, 0);
    free_at(&world, 2048, 0);
    assert_int_equal(ask_on(&world, 0, 4096), REFUSED);
    assert_int_equal(world.operations->largest_free(world.policy), 2048);
    policy_world_close(&world);
}

static void test_a_block_goes_to_the_list_of_the_stream_that_frees_it(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "rmm_pool", "initial_pool_size=1024 maximum_pool_size=1024", MIB,
                      &no_rules);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(ask_on(&world, 1, 256), i * 256);
    free_at(&world, 0, 2);
    free_at(&world, 512, 1);
    /* Its own list comes first, although the other block lies lower. */
    assert_int_equal(ask_on(&world, 1, 256), 512);
    assert_int_equal(ask_on(&world, 1, 256), 0);
    policy_world_close(&world);
}

static void test_other_streams_are_asked_in_the_order_of_their_first_use(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "rmm_pool", "initial_pool_size=1024 maximum_pool_size=1024", MIB,
                      &no_rules);
    for (uint64_t i = 0; i < 4; i++)
        ask_on(&world, 0, 256);
    free_at(&world, 0, 9);   /* the second stream that is used */
    free_at(&world, 512, 3); /* the third */
    assert_int_equal(ask_on(&world, 5, 256), 0);
    assert_int_equal(ask_on(&world, 5, 256), 512);
    policy_world_close(&world);
}

static void test_neighbours_of_different_streams_merge_only_when_nothing_else_fits(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "rmm_pool", "initial_pool_size=1024 maximum_pool_size=1024", MIB,
                      &no_rules);
    for (uint64_t i = 0; i < 4; i++)
        ask_on(&world, 0, 256);
    free_at(&world, 0, 1);
    free_at(&world, 256, 2);
    free_at(&world, 512, 3);
    free_at(&world, 768, 0);
    assert_int_equal(world.operations->largest_free(world.policy), 256);
    /* On stream 1 the lists of 0 and 2 are merged in; then 512 fit at 0, and 3 is left alone. */
    assert_int_equal(ask_on(&world, 1, 512), 0);
    assert_int_equal(ask_on(&world, 3, 256), 512);
    assert_int_equal(ask_on(&world, 3, 256), 768);
    policy_world_close(&world);
}

static void test_lists_that_were_merged_stay_so_after_a_refusal(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "rmm_pool", "initial_pool_size=768 maximum_pool_size=768", MIB,
                      &no_rules);
    for (uint64_t i = 0; i < 3; i++)
        ask_on(&world, 0, 256);
    free_at(&world, 0, 1);
    free_at(&world, 256, 2);
    assert_int_equal(ask_on(&world, 0, 768), REFUSED);
    assert_int_equal(world.operations->largest_free(world.policy), 512);
    policy_world_close(&world);
}

static void test_blocks_scanned_counts_the_lists_that_are_walked(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "rmm_pool", "initial_pool_size=2048 maximum_pool_size=2048", MIB,
                      &no_rules);
    for (uint64_t i = 0; i < 8; i++)
        ask_on(&world, 0, 256);
    free_at(&world, 0, 1); /* two blocks on 1, one on 2, one on 3 */
    free_at(&world, 512, 1);
    free_at(&world, 1024, 2);
    free_at(&world, 1536, 3);
    struct policy_outcome outcome;
    struct policy_request request = {.requested_bytes = 256, .stream = 2};
    struct policy_free how = {.stream = 2};
    assert_int_equal(world.operations->place(world.policy, &request, &outcome), POLICY_PLACED);
    assert_int_equal(outcome.blocks_scanned, 1); /* its own list */
    world.operations->release(world.policy, &outcome.placement, &how);
    request.stream = 0;
    how.stream = 1;
    assert_int_equal(world.operations->place(world.policy, &request, &outcome), POLICY_PLACED);
    assert_int_equal(outcome.blocks_scanned, 2); /* none of its own, both of stream 1 */
    world.operations->release(world.policy, &outcome.placement, &how);
    /* Own 1; the lists of 0, 1 and 3 with 0, 2 and 1; then the union after each: 1, 3, 4. */
    request = (struct policy_request){.requested_bytes = 512, .stream = 2};
    assert_int_equal(world.operations->place(world.policy, &request, &outcome), POLICY_FULL);
    assert_int_equal(outcome.blocks_scanned, 1 + 3 + 1 + 3 + 4);
    policy_world_close(&world);
}

static void test_the_initial_pool_must_fit(void **state)
{
    (void)state;
    struct worsegpu_config config;
    struct knob_value values[KNOBS_MAX];
    char problem[KNOBS_PROBLEM_SIZE];
    worsegpu_config_default(&config);
    config.gpu_capacity = MIB;
    const struct policy_operations *rmm = policy_find("rmm_pool");
    assert_true(knobs_read(rmm, &config, "initial_pool_size=1MiB", values, problem));
    assert_false(knobs_read(rmm, &config, "initial_pool_size=2MiB", values, problem));
    assert_non_null(strstr(problem, "initial_pool_size"));
    assert_false(knobs_read(rmm, &config, "initial_pool_size=1MiB maximum_pool_size=512KiB", values,
                            problem));
    assert_non_null(strstr(problem, "maximum_pool_size"));
}

static int say_no(void *context, enum device_event event, uint64_t bytes, uint64_t *offset)
{
    (void)context;
    (void)event;
    (void)bytes;
    (void)offset;
    return 1;
}

static void test_a_device_without_room_for_the_initial_pool_leaves_it_empty(void **state)
{
    (void)state;
    static const struct device_source refusing = {.take = say_no};
    struct worsegpu_config config;
    struct knob_value values[KNOBS_MAX];
    char problem[KNOBS_PROBLEM_SIZE];
    struct chaos chaos;
    chaos_init(&chaos);
    worsegpu_config_default(&config);
    const struct policy_operations *rmm = policy_find("rmm_pool");
    assert_true(knobs_read(rmm, &config, "initial_pool_size=1MiB", values, problem));
    struct policy_setup setup = {
        .config = &config,
        .knobs = values,
        .memory = &chaos.memory,
        .source = &refusing,
    };
    struct policy *policy;
    struct policy_measures measures;
    assert_int_equal(rmm->create(&setup, &policy), WORSEGPU_OK);
    rmm->measure(policy, &measures);
    assert_int_equal(measures.reserved_bytes, 0);
    rmm->destroy(policy);
    assert_int_equal(chaos.live_pieces, 0);
}

/* ----------------------------------------------------------------------------------- admission */

struct admission {
    bool answer;
    uint64_t asked;
    uint64_t bytes;
};

static bool admit(void *context, enum worsegpu_device device, uint64_t reserved_bytes)
{
    struct admission *admission = context;
    assert_int_equal(device, WORSEGPU_GPU);
    admission->asked++;
    admission->bytes = reserved_bytes;
    return admission->answer;
}

static int ask_admitted(struct policy_world *world, uint64_t bytes, struct admission *admission)
{
    struct policy_request request = {
        .requested_bytes = bytes,
        .admit = admit,
        .admit_context = admission,
    };
    struct policy_outcome outcome;
    return world->operations->place(world->policy, &request, &outcome);
}

static void test_what_is_not_admitted_leaves_no_piece_and_no_hole_in_the_device(void **state)
{
    (void)state;
    struct policy_world world;
    struct admission admission = {0};
    policy_world_open(&world, "rmm_pool", "device_granularity=256", 4096, &no_rules);
    for (int i = 0; i < 100; i++)
        assert_int_equal(ask_admitted(&world, 1000, &admission), POLICY_NOT_ADMITTED);
    assert_int_equal(admission.asked, 100);
    assert_int_equal(admission.bytes, 1024);
    assert_int_equal(pool_of(&world)->pool_bytes, 0);
    assert_int_equal(pool_of(&world)->device.taken_bytes, 0);
    policy_world_check(&world);
    assert_int_equal(ask_on(&world, 0, 4096), 0);
    /* Full: nobody is asked. */
    assert_int_equal(ask_admitted(&world, 1, &admission), POLICY_FULL);
    assert_int_equal(admission.asked, 100);
    policy_world_close(&world);
}

static void test_every_shape_of_work_holds_up(void **state)
{
    (void)state;
    policy_world_run_all("rmm_pool", "device_granularity=256", MIB, &no_rules);
    policy_world_run_all("rmm_pool", "initial_pool_size=256KiB maximum_pool_size=1000000", 2 * MIB,
                         &no_rules);
}

static void test_no_failure_of_memory_changes_anything(void **state)
{
    (void)state;
    policy_world_chaos("rmm_pool", "device_granularity=256", MIB, &no_rules);
    policy_world_chaos("rmm_pool", "initial_pool_size=1MiB maximum_pool_size=1MiB", MIB, &no_rules);
}

static void test_many_streams_are_used_by_frees_without_memory(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "rmm_pool", "initial_pool_size=1MiB", MIB, &no_rules);
    world.look_closely = false;
    for (int i = 0; i < 3000; i++)
        policy_world_allocate(&world, 1);
    chaos_arm(&world.chaos, 1, true);
    for (uint64_t i = 0; i < 3000; i++)
        policy_world_free_on(&world, 0, i * 7 + 1, false);
    assert_false(world.chaos.failed);
    chaos_arm(&world.chaos, 0, false);
    policy_world_check(&world);
    /* The lists of 3,001 streams come together again. */
    assert_int_equal(ask_on(&world, 0, MIB), 0);
    policy_world_check(&world);
    policy_world_close(&world);
}

static void test_streams_past_the_greatest_number_share_a_list(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "rmm_pool", "initial_pool_size=1024 maximum_pool_size=1024", MIB,
                      &no_rules);
    world.look_closely = false;
    for (uint64_t stream = 0; stream < RMM_STREAMS_MAX + 1000; stream++) {
        uint64_t offset = ask_on(&world, stream, 1024);
        assert_int_equal(offset, 0);
        free_at(&world, 0, stream);
    }
    assert_int_equal(pool_of(&world)->streams.length, RMM_STREAMS_MAX);
    policy_world_check(&world);
    policy_world_close(&world);
}

static void test_a_device_that_shrinks_refuses_growth(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "rmm_pool", "device_granularity=256", MIB, &no_rules);
    assert_int_equal(ask_on(&world, 0, 64 * KIB), 0);
    policy_world_resize(&world, 32 * KIB);
    assert_int_equal(ask_on(&world, 0, 1024), REFUSED);
    policy_world_resize(&world, 80 * KIB);
    assert_int_equal(ask_on(&world, 0, 1024), 64 * KIB);
    assert_int_equal(pool_of(&world)->pool_bytes, 80 * KIB); /* 64 tried, 32, then 16 */
    policy_world_close(&world);
}

struct picture {
    size_t count;
    struct policy_block blocks[8];
};

static void draw(void *context, const struct policy_block *block)
{
    struct picture *picture = context;
    assert_true(picture->count < 8);
    picture->blocks[picture->count++] = *block;
}

static void test_blocks_tell_whose_free_memory_they_are_and_their_piece(void **state)
{
    (void)state;
    struct policy_world world;
    struct picture picture = {0};
    policy_world_open(&world, "rmm_pool", "device_granularity=256", MIB, &no_rules);
    ask_on(&world, 0, 1024); /* a piece of its own */
    ask_on(&world, 0, 512);  /* the lower half of the next one */
    free_at(&world, 0, 7);
    world.operations->each_block(world.policy, draw, &picture);
    assert_int_equal(picture.count, 3);
    const struct policy_block expected[] = {
        {0, 1024, 7, 0, POLICY_BLOCK_FREE},
        {1024, 512, 0, 1024, POLICY_BLOCK_USED},
        {1536, 512, 0, 1024, POLICY_BLOCK_FREE},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_int_equal(picture.blocks[i].offset, expected[i].offset);
        assert_int_equal(picture.blocks[i].bytes, expected[i].bytes);
        assert_int_equal(picture.blocks[i].stream, expected[i].stream);
        assert_int_equal(picture.blocks[i].segment, expected[i].segment);
        assert_int_equal(picture.blocks[i].state, expected[i].state);
    }
    policy_world_close(&world);
}

static const char *audit_of(struct policy_world *world)
{
    struct policy_live live = policy_world_live(world);
    struct audit audit = {0};
    assert_int_equal(world->operations->check(world->policy, &live, &audit), WORSEGPU_OK);
    return audit.broken;
}

static void test_the_audit_notices_what_is_broken(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "rmm_pool", "initial_pool_size=4096", MIB, &no_rules);
    for (uint64_t i = 0; i < 4; i++)
        ask_on(&world, 0, 256);
    free_at(&world, 0, 1);
    free_at(&world, 512, 2);
    struct rmm_pool *pool = pool_of(&world);
    assert_null(audit_of(&world));

    pool->pool_bytes++;
    assert_string_equal(audit_of(&world), "gpu_reserved_sum");
    pool->pool_bytes--;
    pool->streams.lists[0].bytes--;
    assert_string_equal(audit_of(&world), "free_index_count");
    pool->streams.lists[0].bytes++;
    pool->streams.tree[1].greatest++;
    assert_string_equal(audit_of(&world), "free_index_class");
    pool->streams.tree[1].greatest--;
    pool->streams.turns[0].there = false;
    assert_string_equal(audit_of(&world), "free_index_class");
    pool->streams.turns[0].there = true;
    pool->streams.turns[2].stream++;
    assert_non_null(audit_of(&world));
    pool->streams.turns[2].stream--;
    rmm_streams_swap(&pool->streams, 0, 1);
    assert_string_equal(audit_of(&world), "free_index_class");
    rmm_streams_swap(&pool->streams, 0, 1);
    assert_null(audit_of(&world));

    /* Neighbours in one list that were left apart. */
    uint32_t used = 0;
    while (pool->blocks.items[used].offset != 768 || pool->blocks.items[used].state != BLOCK_USED)
        used++;
    struct rmm_list *list = rmm_streams_list(&pool->streams, 0);
    uint32_t above = pool->blocks.items[used].above;
    rmm_list_remove(pool, list, above);
    uint32_t upper = blocks_split(&pool->blocks, above, 256);
    rmm_list_insert(pool, list, above);
    rmm_list_insert(pool, list, upper);
    rmm_streams_note(&pool->streams, &pool->nodes, 0);
    assert_string_equal(audit_of(&world), "block_layout");
    policy_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_are_rounded_up_to_256),
        cmocka_unit_test(test_the_smallest_block_that_fits_is_taken_and_the_lowest_among_equals),
        cmocka_unit_test(test_without_a_maximum_the_pool_doubles),
        cmocka_unit_test(test_with_a_maximum_the_pool_grows_by_half_of_what_is_left),
        cmocka_unit_test(test_an_odd_half_lets_the_pool_end_above_its_maximum),
        cmocka_unit_test(test_growth_tries_half_as_much_when_the_device_says_no),
        cmocka_unit_test(test_upstream_blocks_do_not_merge_though_they_touch),
        cmocka_unit_test(test_a_block_goes_to_the_list_of_the_stream_that_frees_it),
        cmocka_unit_test(test_other_streams_are_asked_in_the_order_of_their_first_use),
        cmocka_unit_test(test_neighbours_of_different_streams_merge_only_when_nothing_else_fits),
        cmocka_unit_test(test_lists_that_were_merged_stay_so_after_a_refusal),
        cmocka_unit_test(test_blocks_scanned_counts_the_lists_that_are_walked),
        cmocka_unit_test(test_the_initial_pool_must_fit),
        cmocka_unit_test(test_a_device_without_room_for_the_initial_pool_leaves_it_empty),
        cmocka_unit_test(test_what_is_not_admitted_leaves_no_piece_and_no_hole_in_the_device),
        cmocka_unit_test(test_every_shape_of_work_holds_up),
        cmocka_unit_test(test_no_failure_of_memory_changes_anything),
        cmocka_unit_test(test_many_streams_are_used_by_frees_without_memory),
        cmocka_unit_test(test_streams_past_the_greatest_number_share_a_list),
        cmocka_unit_test(test_a_device_that_shrinks_refuses_growth),
        cmocka_unit_test(test_blocks_tell_whose_free_memory_they_are_and_their_piece),
        cmocka_unit_test(test_the_audit_notices_what_is_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
