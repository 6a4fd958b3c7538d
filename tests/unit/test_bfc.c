/* The policy bfc: hand-worked cases, admission, memory that fails, and what the audit must notice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/policies/bfc.h"
#include "tests/support/policy_world.h"

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define REFUSED UINT64_MAX

static const struct policy_rules no_rules = {0};

static struct bfc *bfc_of(struct policy_world *world)
{
    return (struct bfc *)world->policy;
}

/* Asks for so many bytes: the offset, or REFUSED. */
static uint64_t ask(struct policy_world *world, uint64_t bytes)
{
    int verdict = policy_world_allocate(world, bytes);
    assert_true(verdict == POLICY_PLACED || verdict == POLICY_FULL);
    return verdict == POLICY_PLACED ? world->live[world->live_count - 1].placement.offset : REFUSED;
}

/* What the last allocation really got. */
static uint64_t got(const struct policy_world *world)
{
    return world->live[world->live_count - 1].placement.reserved_bytes;
}

static struct policy_measures measures_of(const struct policy_world *world)
{
    struct policy_measures measures;
    world->operations->measure(world->policy, &measures);
    return measures;
}

/* ------------------------------------------------------------------------------ choice and split
 */

static void test_bins_hold_powers_of_two_and_the_last_has_no_end(void **state)
{
    (void)state;
    assert_int_equal(bfc_bin_of(256), 0);
    assert_int_equal(bfc_bin_of(511), 0);
    assert_int_equal(bfc_bin_of(512), 1);
    assert_int_equal(bfc_bin_of(256 * MIB - 1), 19);
    assert_int_equal(bfc_bin_of(256 * MIB), 20);
    assert_int_equal(bfc_bin_of(GIB << 20), 20);
}

static void test_the_smallest_chunk_that_fits_is_taken_and_the_lowest_among_equals(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "bfc", "", MIB, &no_rules);
    /* From below: 1024, wall, 512, wall, 512, wall, the rest. */
    const uint64_t sizes[] = {1024, 256, 512, 256, 512, 256};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        ask(&world, sizes[i]);
    policy_world_free_offset(&world, 2048); /* the upper 512 */
    policy_world_free_offset(&world, 1280); /* the lower 512 */
    policy_world_free_offset(&world, 0);
    assert_int_equal(ask(&world, 300), 1280);
    assert_int_equal(ask(&world, 300), 2048);
    assert_int_equal(ask(&world, 300), 0);
    policy_world_close(&world);
}

static void test_a_chunk_of_less_than_twice_the_size_is_handed_out_whole(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "bfc", "", MIB, &no_rules);
    assert_int_equal(ask(&world, 1024), 0);
    assert_int_equal(ask(&world, 256), 1024);
    policy_world_free_offset(&world, 0);
    assert_int_equal(ask(&world, 513), 0); /* 768 of 1024: 256 are wasted */
    assert_int_equal(got(&world), 1024);
    policy_world_free_offset(&world, 0);
    assert_int_equal(ask(&world, 512), 0); /* exactly half: split */
    assert_int_equal(got(&world), 512);
    policy_world_close(&world);
}

static void test_a_chunk_with_128_mib_to_spare_is_split(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "bfc", "", 512 * MIB, &no_rules);
    ask(&world, 300 * MIB);
    ask(&world, 212 * MIB);
    policy_world_free_offset(&world, 0);
    assert_int_equal(ask(&world, 172 * MIB + 256), 0); /* 256 bytes short of it */
    assert_int_equal(got(&world), 300 * MIB);
    policy_world_free_offset(&world, 0);
    assert_int_equal(ask(&world, 172 * MIB), 0);
    assert_int_equal(got(&world), 172 * MIB);
    policy_world_close(&world);
}

static void test_a_fraction_of_the_limit_can_be_what_is_spared(void **state)
{
    (void)state;
    struct policy_world world;
    /* A thousandth of 1 MiB is 1048.576, cut to 1048: 1024 to spare are kept, 1280 are not. */
    policy_world_open(&world, "bfc", "fragmentation_fraction=0.001", MIB, &no_rules);
    ask(&world, 8192);
    ask(&world, 256);
    policy_world_free_offset(&world, 0);
    assert_int_equal(ask(&world, 7168), 0);
    assert_int_equal(got(&world), 8192);
    policy_world_free_offset(&world, 0);
    assert_int_equal(ask(&world, 6912), 0);
    assert_int_equal(got(&world), 6912);
    policy_world_close(&world);
}

static void test_a_fraction_too_small_for_a_byte_still_splits_no_exact_fit(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "bfc", "fragmentation_fraction=0.000000001", MIB, &no_rules);
    assert_int_equal(ask(&world, MIB), 0);
    assert_int_equal(got(&world), MIB);
    policy_world_close(&world);
}

static uint64_t scanned(struct policy_world *world, uint64_t bytes, int expected_verdict)
{
    struct policy_request request = {.requested_bytes = bytes};
    struct policy_outcome outcome;
    struct policy_free how = {0};
    int verdict = world->operations->place(world->policy, &request, &outcome);
    assert_int_equal(verdict, expected_verdict);
    if (verdict == POLICY_PLACED)
        world->operations->release(world->policy, &outcome.placement, &how);
    return outcome.blocks_scanned;
}

static void test_blocks_scanned_counts_what_a_walk_through_the_bins_sees(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "bfc", "", 16 * KIB, &no_rules);
    /* Nothing, then one look at the chunk that growth brought. */
    assert_int_equal(scanned(&world, 1, POLICY_PLACED), 1);
    /* Free at the end: 1024, 1280 and 1536 in bin 2, and the rest in a higher one. */
    const uint64_t sizes[] = {1024, 256, 1280, 256, 1536, 256};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        ask(&world, sizes[i]);
    policy_world_free_offset(&world, 0);
    policy_world_free_offset(&world, 1280);
    policy_world_free_offset(&world, 2816);
    assert_int_equal(scanned(&world, 256, POLICY_PLACED), 1);  /* the first of a higher bin */
    assert_int_equal(scanned(&world, 1536, POLICY_PLACED), 3); /* two are too small */
    assert_int_equal(scanned(&world, 1792, POLICY_PLACED), 4); /* three are, then the rest */
    assert_int_equal(scanned(&world, 16 * KIB, POLICY_FULL), 0);
    policy_world_close(&world);
}

/* ------------------------------------------------------------------------------ regions */

static void test_growth_begins_with_2_mib_and_doubles(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "bfc", "allow_growth=true device_coalesces=false", 64 * MIB,
                      &no_rules);
    assert_int_equal(ask(&world, 1), 0);
    assert_int_equal(bfc_of(&world)->pool_bytes, 2 * MIB);
    assert_int_equal(ask(&world, 2 * MIB), 2 * MIB); /* 4 MiB more */
    assert_int_equal(bfc_of(&world)->pool_bytes, 6 * MIB);
    assert_int_equal(ask(&world, 9 * MIB), 6 * MIB); /* 8 doubled to 16, and not once more */
    assert_int_equal(bfc_of(&world)->pool_bytes, 22 * MIB);
    /* 7 MiB are too many for the rests of 2 (less 256 bytes), 2 and 7 (9 were handed out of 16):
     * 16 MiB more. */
    assert_int_equal(ask(&world, 7 * MIB + 1), 22 * MIB);
    assert_int_equal(bfc_of(&world)->pool_bytes, 38 * MIB);
    assert_int_equal(measures_of(&world).segments, 4);
    policy_world_close(&world);
}

static void test_a_region_joins_the_one_below_and_its_free_end(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "bfc", "allow_growth=true", 64 * MIB, &no_rules);
    assert_int_equal(ask(&world, MIB), 0);
    /* Not enough in the upper MiB: 4 MiB more, of which 2 lie together with it. */
    assert_int_equal(ask(&world, 2 * MIB), MIB);
    assert_int_equal(measures_of(&world).segments, 1);
    assert_int_equal(world.operations->largest_free(world.policy), 3 * MIB);
    policy_world_close(&world);
}

static void test_a_used_end_stays_apart_from_what_a_region_grows_by(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "bfc", "allow_growth=true", 64 * MIB, &no_rules);
    assert_int_equal(ask(&world, 2 * MIB), 0);
    /* 4 MiB come, all of which are handed out: less than twice 3. */
    assert_int_equal(ask(&world, 3 * MIB), 2 * MIB);
    assert_int_equal(got(&world), 4 * MIB);
    assert_int_equal(measures_of(&world).segments, 1);
    policy_world_close(&world);
}

static void test_growth_has_room_for_a_region_and_a_rest_whatever_there_is(void **state)
{
    (void)state;
    for (int chunks = 0; chunks < 70; chunks++) {
        struct policy_world world;
        policy_world_open(&world, "bfc", "allow_growth=true device_coalesces=false", 64 * MIB,
                          &no_rules);
        world.look_closely = false;
        for (int i = 0; i < chunks; i++)
            ask(&world, 256);
        ask(&world, 2 * MIB);
        assert_true(bfc_of(&world)->chunks.length <= bfc_of(&world)->chunks.capacity);
        policy_world_check(&world);
        policy_world_close(&world);
    }
}

static void test_a_step_doubled_for_a_refused_request_stays_doubled(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "bfc", "allow_growth=true limit=64MiB", 20 * MIB, &no_rules);
    assert_int_equal(ask(&world, 30 * MIB), REFUSED);
    assert_int_equal(bfc_of(&world)->step_bytes, 32 * MIB);
    /* 32 MiB, 33554432, are too many. Nine tenths of it are 30198988 cut to an integer, rounded up
     * 30199040; of that 27179264; 24461568; 22015488; 19814144, which is below 20 MiB. */
    assert_int_equal(ask(&world, 1), 0);
    assert_int_equal(bfc_of(&world)->pool_bytes, 19814144);
    policy_world_close(&world);
}

static void test_steps_down_are_in_single_precision(void **state)
{
    (void)state;
    struct policy_world world;
    /* 0.9 is 0.89999998 in single precision. Of 3221225472 bytes that makes 2899102720 (24 bits; a
     * multiple of 256), then 2609192448, then 2348273152, which fits. In double precision it were
     * 2899102976, 2609192704 and 2348273664, which does not. */
    policy_world_open(&world, "bfc", "limit=3GiB", 2348273300, &no_rules);
    assert_int_equal(ask(&world, 1), 0);
    assert_int_equal(bfc_of(&world)->pool_bytes, 2348273152);
    policy_world_close(&world);
}

static void test_the_last_steps_down_are_256_bytes_each(void **state)
{
    (void)state;
    struct policy_world world;
    /* 2304 * 0.9 is rounded up to 2304 again: then 2048, 1792, 1536, 1280, 1024. */
    policy_world_open(&world, "bfc", "limit=2304", 1100, &no_rules);
    assert_int_equal(ask(&world, 1), 0);
    assert_int_equal(bfc_of(&world)->pool_bytes, 1024);
    assert_int_equal(ask(&world, 1024), REFUSED);
    policy_world_close(&world);
    policy_world_open(&world, "bfc", "limit=2304", 200, &no_rules);
    assert_int_equal(ask(&world, 1), REFUSED);
    policy_world_close(&world);
}

static void test_without_a_limit_the_capacity_at_the_start_is_it(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "bfc", "allow_growth=true", 4 * MIB, &no_rules);
    policy_world_resize(&world, 64 * MIB);
    assert_int_equal(ask(&world, 5 * MIB), REFUSED);
    assert_int_equal(ask(&world, 4 * MIB), 0);
    assert_int_equal(ask(&world, 1), REFUSED);
    policy_world_close(&world);
    /* A device that shrinks says no. */
    policy_world_open(&world, "bfc", "allow_growth=true", 4 * MIB, &no_rules);
    policy_world_resize(&world, MIB);
    assert_int_equal(ask(&world, 2 * MIB), REFUSED);
    assert_int_equal(ask(&world, MIB / 2), 0);
    assert_in_range(bfc_of(&world)->pool_bytes, MIB / 2, MIB);
    policy_world_close(&world);
}

static void test_only_collection_gives_empty_regions_back(void **state)
{
    (void)state;
    static const char *const knobs[] = {
        "allow_growth=true device_coalesces=false",
        "allow_growth=true device_coalesces=false garbage_collection=true",
    };
    for (uint64_t collects = 0; collects < 2; collects++) {
        struct policy_world world;
        policy_world_open(&world, "bfc", knobs[collects], 8 * MIB, &no_rules);
        /* 2, 4 and 2 MiB, of which the lower two become empty. */
        ask(&world, 2 * MIB);
        ask(&world, 4 * MIB);
        ask(&world, 2 * MIB);
        policy_world_free_offset(&world, 0);
        policy_world_free_offset(&world, 2 * MIB);
        assert_int_equal(ask(&world, 6 * MIB + 1),
                         REFUSED); /* 6 MiB cannot be enough: nothing is given back */
        assert_int_equal(bfc_of(&world)->pool_bytes, 8 * MIB);
        assert_int_equal(ask(&world, 5 * MIB), collects ? 0 : REFUSED);
        assert_int_equal(measures_of(&world).retries, collects);
        assert_int_equal(world.told[DEVICE_REGION_FREE], 2 * collects);
        policy_world_close(&world);
    }
}

static void test_a_region_with_a_forgotten_chunk_is_not_given_back(void **state)
{
    (void)state;
    struct policy_world world;
    policy_world_open(&world, "bfc", "allow_growth=true garbage_collection=true", 2 * MIB,
                      &no_rules);
    ask(&world, 256);
    policy_world_forget(&world, 0);
    assert_int_equal(ask(&world, 2 * MIB), REFUSED);
    assert_int_equal(bfc_of(&world)->pool_bytes, 2 * MIB);
    assert_int_equal(measures_of(&world).forgotten_bytes, 256);
    assert_int_equal(ask(&world, 2 * MIB - 256), 256);
    policy_world_close(&world);
}

/* ------------------------------------------------------------------------------ admission */

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

static int ask_admitted(struct policy_world *world, uint64_t bytes, struct admission *admission,
                        struct policy_outcome *outcome)
{
    struct policy_request request = {
        .requested_bytes = bytes,
        .admit = admit,
        .admit_context = admission,
    };
    return world->operations->place(world->policy, &request, outcome);
}

static void test_what_is_not_admitted_leaves_pool_and_step_as_they_were(void **state)
{
    (void)state;
    struct policy_world world;
    struct admission admission = {0};
    struct policy_outcome outcome;
    policy_world_open(&world, "bfc", "allow_growth=true", 64 * MIB, &no_rules);
    ask(&world, MIB);
    char *before = policy_world_statistics(&world);
    for (int i = 0; i < 20; i++) /* 8 MiB would join the free MiB below: 9, less than twice 5 */
        assert_int_equal(ask_admitted(&world, 5 * MIB, &admission, &outcome), POLICY_NOT_ADMITTED);
    assert_int_equal(admission.asked, 20);
    assert_int_equal(admission.bytes, 9 * MIB);
    char *after = policy_world_statistics(&world);
    assert_string_equal(before, after);
    free(before);
    free(after);
    policy_world_check(&world);
    assert_int_equal(bfc_of(&world)->step_bytes, 4 * MIB);
    assert_int_equal(ask_admitted(&world, MIB, &admission, &outcome), POLICY_NOT_ADMITTED);
    admission.answer = true;
    assert_int_equal(ask_admitted(&world, 5 * MIB, &admission, &outcome), POLICY_PLACED);
    assert_int_equal(admission.bytes, outcome.placement.reserved_bytes);
    assert_int_equal(admission.asked, 22);
    assert_int_equal(ask_admitted(&world, 64 * MIB, &admission, &outcome), POLICY_FULL);
    assert_int_equal(admission.asked, 22);
    policy_world_close(&world);
}

/* ------------------------------------------------------------------------------ the rest */

static void test_every_shape_of_work_holds_up(void **state)
{
    (void)state;
    policy_world_run_all("bfc", "", MIB, &no_rules);
    policy_world_run_all("bfc", "allow_growth=true", 32 * MIB, &no_rules);
    policy_world_run_all("bfc", "allow_growth=true garbage_collection=true device_coalesces=false",
                         32 * MIB, &no_rules);
}

static void test_no_failure_of_memory_changes_anything(void **state)
{
    (void)state;
    policy_world_chaos("bfc", "", MIB, &no_rules);
    policy_world_chaos("bfc", "allow_growth=true garbage_collection=true", 32 * MIB, &no_rules);
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
    policy_world_open(&world, "bfc", "allow_growth=true garbage_collection=true", 64 * MIB,
                      &no_rules);
    ask(&world, 1000);
    ask(&world, 300 * KIB);
    struct bfc *bfc = bfc_of(&world);
    assert_null(audit_of(&world));

    bfc->pool_bytes += 256;
    assert_string_equal(audit_of(&world), "gpu_reserved_sum");
    bfc->pool_bytes -= 256;
    bfc->empty_bytes += 256;
    assert_string_equal(audit_of(&world), "gpu_free_sum");
    bfc->empty_bytes -= 256;
    bfc->bins_with_free ^= 1;
    assert_string_equal(audit_of(&world), "free_index_class");
    bfc->bins_with_free ^= 1;
    bfc->bins[bfc_bin_of(1024)].used_chunks++;
    assert_string_equal(audit_of(&world), "gpu_used_sum");
    bfc->bins[bfc_bin_of(1024)].used_chunks--;
    uint32_t region = bfc->regions_by_offset.root;
    bfc->regions.items[region].own ^= 1;
    assert_string_equal(audit_of(&world), "block_layout");
    bfc->regions.items[region].own ^= 1;
    uint32_t last = (uint32_t)bfc->regions.items[region].own;
    bfc_bin_remove(bfc, last);
    assert_non_null(audit_of(&world));
    bfc_bin_insert(bfc, last);
    assert_null(audit_of(&world));

    /* A region that is empty and does not say so. */
    policy_world_free(&world, 0);
    policy_world_free(&world, 0);
    assert_null(audit_of(&world));
    block_order_remove(&bfc->regions_by_offset, &bfc->region_nodes, region);
    block_order_insert(&bfc->regions_by_offset, &bfc->region_nodes, region, 0, region, 0);
    assert_non_null(audit_of(&world));
    policy_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bins_hold_powers_of_two_and_the_last_has_no_end),
        cmocka_unit_test(test_the_smallest_chunk_that_fits_is_taken_and_the_lowest_among_equals),
        cmocka_unit_test(test_a_chunk_of_less_than_twice_the_size_is_handed_out_whole),
        cmocka_unit_test(test_a_chunk_with_128_mib_to_spare_is_split),
        cmocka_unit_test(test_a_fraction_of_the_limit_can_be_what_is_spared),
        cmocka_unit_test(test_a_fraction_too_small_for_a_byte_still_splits_no_exact_fit),
        cmocka_unit_test(test_blocks_scanned_counts_what_a_walk_through_the_bins_sees),
        cmocka_unit_test(test_growth_begins_with_2_mib_and_doubles),
        cmocka_unit_test(test_a_region_joins_the_one_below_and_its_free_end),
        cmocka_unit_test(test_a_used_end_stays_apart_from_what_a_region_grows_by),
        cmocka_unit_test(test_growth_has_room_for_a_region_and_a_rest_whatever_there_is),
        cmocka_unit_test(test_a_step_doubled_for_a_refused_request_stays_doubled),
        cmocka_unit_test(test_steps_down_are_in_single_precision),
        cmocka_unit_test(test_the_last_steps_down_are_256_bytes_each),
        cmocka_unit_test(test_without_a_limit_the_capacity_at_the_start_is_it),
        cmocka_unit_test(test_only_collection_gives_empty_regions_back),
        cmocka_unit_test(test_a_region_with_a_forgotten_chunk_is_not_given_back),
        cmocka_unit_test(test_what_is_not_admitted_leaves_pool_and_step_as_they_were),
        cmocka_unit_test(test_every_shape_of_work_holds_up),
        cmocka_unit_test(test_no_failure_of_memory_changes_anything),
        cmocka_unit_test(test_the_audit_notices_what_is_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
