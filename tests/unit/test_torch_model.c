/* The torch policies against a slow and simple witness: the same random operations, and after each
 * of them the same offset, the same calls to the device and the same figures and free lists. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/naive_torch.h"
#include "tests/support/torch_world.h"

enum {
    STEPS = 350,
    SEEDS = 4,
    LIVE = 120
};

/* One policy and its witness. */
struct pair {
    struct policy_world world;
    struct device_watch counting; /* the world's own */
    struct naive_torch naive;
    FILE *told;
    char *told_text;
    size_t told_length;
    char *naive_text;
    size_t naive_length;
    size_t names[LIVE]; /* the witness's names of world.live */
    uint64_t streams;
};

static void tell(void *context, enum device_event event, uint64_t offset, uint64_t bytes)
{
    static const char *const names[] = {"region",    "region_free", "reserve",
                                        "unreserve", "map",         "unmap"};
    struct pair *pair = context;
    fprintf(pair->told, "%s %" PRIu64 " %" PRIu64 "\n", names[event], offset, bytes);
    pair->counting.tell(pair->counting.context, event, offset, bytes);
}

static void write_knobs(const struct naive_settings *settings, char *text, size_t size)
{
    FILE *out = fmemopen(text, size, "w");
    assert_non_null(out);
    fprintf(out, "alloc_conf=expandable_segments:%s", settings->expandable ? "True" : "False");
    if (settings->max_split != UINT64_MAX)
        fprintf(out, ",max_split_size_mb:%" PRIu64, settings->max_split >> 20);
    if (settings->rounding != MIB(20))
        fprintf(out, ",max_non_split_rounding_mb:%" PRIu64, settings->rounding >> 20);
    if (settings->division > 0)
        fprintf(out, ",roundup_power2_divisions:%" PRIu64, settings->division);
    if (settings->collection > 0)
        fprintf(out, ",garbage_collection_threshold:%g", settings->collection);
    if (settings->fraction >= 0)
        fprintf(out, " memory_fraction=%g", settings->fraction);
    fprintf(out, " device_reuses_addresses=%s", settings->reuses_addresses ? "true" : "false");
    assert_int_equal(fclose(out), 0);
}

static void open_pair(struct pair *pair, const struct naive_settings *settings, uint64_t streams)
{
    char knobs[256];
    write_knobs(settings, knobs, sizeof(knobs));
    torch_open(&pair->world, knobs, settings->device_bytes);
    pair->world.look_closely = false;
    pair->counting = pair->world.watch;
    pair->world.watch = (struct device_watch){pair, tell};
    pair->naive = (struct naive_torch){.settings = *settings};
    pair->told = open_memstream(&pair->told_text, &pair->told_length);
    pair->naive.told = open_memstream(&pair->naive_text, &pair->naive_length);
    assert_non_null(pair->told);
    assert_non_null(pair->naive.told);
    pair->streams = streams;
}

static void assert_same(struct pair *pair)
{
    char *naive = NULL;
    size_t length;
    char *seen = policy_world_statistics(&pair->world);
    FILE *out = open_memstream(&naive, &length);
    assert_non_null(out);
    naive_statistics(&pair->naive, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(seen, naive);
    free(seen);
    free(naive);
    assert_int_equal(fflush(pair->told), 0);
    assert_int_equal(fflush(pair->naive.told), 0);
    assert_int_equal(pair->told_length, pair->naive_length);
}

static void close_pair(struct pair *pair)
{
    policy_world_check(&pair->world);
    assert_int_equal(fclose(pair->told), 0);
    assert_int_equal(fclose(pair->naive.told), 0);
    assert_string_equal(pair->told_text, pair->naive_text);
    free(pair->told_text);
    free(pair->naive_text);
    policy_world_close(&pair->world);
}

/* ------------------------------------------------------------------------------ operations */

static uint64_t below(struct pair *pair, uint64_t bound)
{
    return policy_world_below(&pair->world, bound);
}

static uint64_t draw_size(struct pair *pair)
{
    uint64_t capacity = pair->naive.settings.device_bytes;
    switch (below(pair, 8)) {
    case 0:
    case 1:
        return 1 + below(pair, MIB(1));
    case 2:
        return MIB(1) + below(pair, MIB(9));
    case 3: /* borders */
        return MIB(1 + below(pair, 24)) + 512 * below(pair, 3) - 512;
    case 4:
        return 1 + below(pair, capacity + capacity / 3);
    default:
        return 1 + below(pair, capacity / 5);
    }
}

static void allocate(struct pair *pair)
{
    size_t place = pair->world.live_count;
    uint64_t bytes = draw_size(pair);
    uint64_t stream = below(pair, pair->streams);
    if (place == LIVE)
        return;
    uint64_t offset = torch_ask(&pair->world, bytes, stream);
    assert_int_equal(offset, naive_place(&pair->naive, bytes, stream, &pair->names[place]));
}

static void step(struct pair *pair)
{
    struct policy_world *world = &pair->world;
    uint64_t chance = below(pair, 100);
    if (chance < 50 || world->live_count == 0) {
        allocate(pair);
        return;
    }
    size_t place = (size_t)below(pair, world->live_count);
    if (chance < 84) {
        naive_release(&pair->naive, pair->names[place]);
        policy_world_free(world, place);
        pair->names[place] = pair->names[world->live_count];
    } else if (chance < 92) {
        uint64_t stream = below(pair, pair->streams + 2);
        naive_record(&pair->naive, pair->names[place], stream);
        assert_int_equal(
            world->operations->record_stream(world->policy, &world->live[place].placement, stream),
            0);
    } else if (chance < 99) {
        uint64_t stream = below(pair, pair->streams + 2);
        uint64_t count = below(pair, 3) == 0 ? UINT64_MAX : below(pair, 4);
        bool newest = below(pair, 4) == 0;
        naive_done(&pair->naive, stream, count, newest);
        world->operations->event_done(world->policy, stream, count, newest);
    } else {
        naive_empty(&pair->naive);
        world->operations->empty_cache(world->policy);
    }
}

static void compare(struct naive_settings settings)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct pair pair = {.streams = 0};
        open_pair(&pair, &settings, seed % 2 == 0 ? 1 : 3);
        pair.world.number = seed * UINT64_C(0x9e3779b97f4a7c15);
        for (int i = 0; i < STEPS; i++) {
            step(&pair);
            assert_same(&pair);
            if (i % 25 == 0)
                policy_world_check(&pair.world);
        }
        assert_true(pair.world.refused > 0);
        close_pair(&pair);
    }
}

/* ------------------------------------------------------------------------------ settings */

static struct naive_settings plain(uint64_t device_bytes)
{
    return (struct naive_settings){
        .device_bytes = device_bytes,
        .max_split = UINT64_MAX,
        .rounding = MIB(20),
        .fraction = -1,
    };
}

static void test_the_default_settings(void **state)
{
    (void)state;
    compare(plain(MIB(170)));
}

static void test_a_device_that_reuses_addresses(void **state)
{
    (void)state;
    struct naive_settings settings = plain(MIB(201) + 4096);
    settings.reuses_addresses = true;
    compare(settings);
}

static void test_a_memory_fraction_and_divided_powers(void **state)
{
    (void)state;
    struct naive_settings settings = plain(MIB(300));
    settings.fraction = 0.7;
    settings.division = 4;
    compare(settings);
}

static void test_a_largest_size_for_splitting(void **state)
{
    (void)state;
    struct naive_settings settings = plain(MIB(200));
    settings.max_split = MIB(24);
    compare(settings);
    settings.rounding = MIB(33);
    settings.max_split = MIB(40);
    settings.reuses_addresses = true;
    compare(settings);
}

static void test_collection(void **state)
{
    (void)state;
    struct naive_settings settings = plain(MIB(300));
    settings.fraction = 1;
    settings.collection = 0.3;
    compare(settings);
    settings.max_split = MIB(30);
    settings.fraction = 0.8;
    settings.collection = 0.6;
    compare(settings);
    settings.fraction = -1;
    compare(settings);
}

static void test_expandable_segments(void **state)
{
    (void)state;
    struct naive_settings settings = plain(MIB(230));
    settings.expandable = true;
    compare(settings);
    settings.reuses_addresses = true;
    settings.device_bytes = MIB(171) + 512;
    compare(settings);
}

static void test_expandable_segments_with_other_knobs(void **state)
{
    (void)state;
    struct naive_settings settings = plain(MIB(250));
    settings.expandable = true;
    settings.max_split = MIB(24);
    settings.division = 8;
    compare(settings);
    settings.fraction = 0.75;
    settings.collection = 0.4;
    compare(settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_default_settings),
        cmocka_unit_test(test_a_device_that_reuses_addresses),
        cmocka_unit_test(test_a_memory_fraction_and_divided_powers),
        cmocka_unit_test(test_a_largest_size_for_splitting),
        cmocka_unit_test(test_collection),
        cmocka_unit_test(test_expandable_segments),
        cmocka_unit_test(test_expandable_segments_with_other_knobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
