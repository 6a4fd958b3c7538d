/* The simulated device, against an array of ranges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/memory.h"
#include "lib/blocks/device.h"
#include "tests/support/chaos.h"

struct told {
    enum device_event event;
    uint64_t offset;
    uint64_t bytes;
};
struct fixture {
    struct worsegpu_config config;
    struct device_watch watch;
    struct device device;
    struct told last;
    size_t tellings;
};

static void be_told(void *context, enum device_event event, uint64_t offset, uint64_t bytes)
{
    struct fixture *fixture = context;
    fixture->last = (struct told){event, offset, bytes};
    fixture->tellings++;
}

static void open_with(struct fixture *fixture, uint64_t capacity, enum device_places places,
                      enum device_limit limit, uint64_t granularity,
                      const struct device_source *source)
{
    memset(fixture, 0, sizeof(*fixture));
    worsegpu_config_default(&fixture->config);
    fixture->config.gpu_capacity = capacity;
    fixture->watch = (struct device_watch){fixture, be_told};
    struct policy_setup setup = {
        .config = &fixture->config,
        .memory = memory_system(),
        .source = source,
        .watch = &fixture->watch,
    };
    device_init(&fixture->device, &setup, places, limit, granularity);
}

static void open_device(struct fixture *fixture, uint64_t capacity, enum device_places places,
                        enum device_limit limit, uint64_t granularity)
{
    open_with(fixture, capacity, places, limit, granularity, NULL);
}

static void assert_sound(const struct device *device)
{
    struct audit audit = {0};
    device_check(device, &audit);
    if (audit.broken)
        fail_msg("%s does not hold", audit.broken);
}

static void close_device(struct fixture *fixture)
{
    assert_sound(&fixture->device);
    device_release(&fixture->device);
}

/* The offset, or UINT64_MAX. */
static uint64_t take(struct fixture *fixture, uint64_t bytes)
{
    uint64_t offset;
    assert_int_equal(device_reserve_memory(&fixture->device), 0);
    if (device_take(&fixture->device, DEVICE_REGION, bytes, &offset) != 0)
        return UINT64_MAX;
    assert_sound(&fixture->device);
    return offset;
}

static void give(struct fixture *fixture, uint64_t offset, uint64_t bytes)
{
    device_give_back(&fixture->device, DEVICE_REGION_FREE, offset, bytes);
    assert_sound(&fixture->device);
}

static void test_upward_places_are_never_used_again(void **state)
{
    (void)state;
    struct fixture fixture;
    open_device(&fixture, 1000, DEVICE_UPWARD, DEVICE_LIMIT_END, 100);
    assert_int_equal(take(&fixture, 150), 0);
    assert_int_equal(take(&fixture, 10), 200);
    give(&fixture, 0, 150);
    assert_int_equal(take(&fixture, 100), 300);
    assert_int_equal(take(&fixture, 601), UINT64_MAX);
    assert_int_equal(take(&fixture, 600), 400);
    assert_int_equal(take(&fixture, 1), UINT64_MAX);
    close_device(&fixture);
}

static void test_the_lowest_place_that_fits_is_taken(void **state)
{
    (void)state;
    struct fixture fixture;
    open_device(&fixture, 1000, DEVICE_LOWEST, DEVICE_LIMIT_END, 100);
    assert_int_equal(take(&fixture, 100), 0);
    assert_int_equal(take(&fixture, 250), 100);
    assert_int_equal(take(&fixture, 100), 400);
    give(&fixture, 100, 250);
    assert_int_equal(take(&fixture, 301), 500); /* 300 are free at 100 */
    assert_int_equal(take(&fixture, 150), 100);
    assert_int_equal(take(&fixture, 102), UINT64_MAX); /* 300 to 400, and from 900 on */
    assert_int_equal(take(&fixture, 100), 300);
    give(&fixture, 0, 100);
    assert_int_equal(take(&fixture, 100), 0);
    close_device(&fixture);
}

static void test_a_limit_by_bytes_lets_addresses_go_on(void **state)
{
    (void)state;
    struct fixture fixture;
    open_device(&fixture, 100, DEVICE_UPWARD, DEVICE_LIMIT_BYTES, 1);
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(take(&fixture, 60), i * 60);
        assert_int_equal(take(&fixture, 41), UINT64_MAX);
        give(&fixture, i * 60, 60);
    }
    assert_int_equal(fixture.device.taken_bytes, 0);
    assert_int_equal(fixture.device.peak_bytes, 60);
    assert_int_equal(fixture.device.taken_calls, 5);
    assert_int_equal(fixture.device.given_calls, 5);
    close_device(&fixture);
}

static void test_the_capacity_is_read_at_each_call(void **state)
{
    (void)state;
    struct fixture fixture;
    open_device(&fixture, 100, DEVICE_UPWARD, DEVICE_LIMIT_BYTES, 1);
    assert_int_equal(take(&fixture, 80), 0);
    fixture.config.gpu_capacity = 50;
    assert_false(device_has_room(&fixture.device, 0));
    assert_int_equal(take(&fixture, 1), UINT64_MAX);
    fixture.config.gpu_capacity = 81;
    assert_true(device_has_room(&fixture.device, 1));
    assert_false(device_has_room(&fixture.device, 2));
    assert_int_equal(take(&fixture, 1), 80);
    close_device(&fixture);
}

static void test_reserved_addresses_take_no_memory_until_mapped(void **state)
{
    (void)state;
    struct fixture fixture;
    uint64_t offset;
    open_device(&fixture, 100, DEVICE_LOWEST, DEVICE_LIMIT_BYTES, 10);
    assert_int_equal(device_reserve_memory(&fixture.device), 0);
    assert_int_equal(device_take(&fixture.device, DEVICE_RESERVE, 1000, &offset), 0);
    assert_int_equal(offset, 0);
    assert_int_equal(fixture.device.taken_bytes, 0);
    assert_int_equal(fixture.device.taken_calls, 0);
    assert_int_equal(device_map(&fixture.device, 500, 70), 0);
    assert_int_equal(fixture.last.event, DEVICE_MAP);
    assert_int_equal(fixture.last.offset, 500);
    assert_int_equal(device_map(&fixture.device, 0, 31), 1);
    assert_int_equal(take(&fixture, 30), 1000);
    assert_int_equal(fixture.device.taken_calls, 2);
    device_unmap(&fixture.device, 500, 70);
    assert_int_equal(fixture.device.taken_bytes, 30);
    device_give_back(&fixture.device, DEVICE_UNRESERVE, 0, 1000);
    assert_int_equal(fixture.last.event, DEVICE_UNRESERVE);
    assert_int_equal(fixture.device.given_calls, 1);
    assert_int_equal(take(&fixture, 70), 0);
    close_device(&fixture);
}

static void test_ranges_that_touch_go_back_in_one_piece(void **state)
{
    (void)state;
    struct fixture fixture;
    open_device(&fixture, 1000, DEVICE_LOWEST, DEVICE_LIMIT_END, 1);
    take(&fixture, 100);
    take(&fixture, 50);
    take(&fixture, 50);
    take(&fixture, 10);
    assert_true(device_range_ends_at(&fixture.device, 150));
    assert_false(device_range_ends_at(&fixture.device, 149));
    assert_false(device_range_ends_at(&fixture.device, 0));
    fixture.tellings = 0;
    give(&fixture, 0, 200);
    assert_int_equal(fixture.tellings, 1);
    assert_int_equal(fixture.device.taken_bytes, 10);
    assert_int_equal(fixture.device.given_calls, 1);
    assert_false(device_range_ends_at(&fixture.device, 200));
    assert_true(device_range_ends_at(&fixture.device, 210));
    assert_int_equal(take(&fixture, 200), 0);
    close_device(&fixture);
}

static void test_addresses_that_would_overflow_are_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    open_device(&fixture, UINT64_MAX, DEVICE_UPWARD, DEVICE_LIMIT_BYTES, UINT64_C(1) << 32);
    assert_int_equal(take(&fixture, UINT64_MAX - 10), 0);
    assert_int_equal(take(&fixture, 1), UINT64_MAX);
    close_device(&fixture);
}

/* ------------------------------------------------------------------------------ a source */

struct script {
    uint64_t offset; /* UINT64_MAX: it says no */
    struct told taken;
    struct told given;
};

static int script_take(void *context, enum device_event event, uint64_t bytes, uint64_t *offset)
{
    struct script *script = context;
    if (script->offset == UINT64_MAX)
        return 1;
    if (event != DEVICE_MAP)
        *offset = script->offset;
    script->taken = (struct told){event, *offset, bytes};
    return 0;
}

static void script_give(void *context, enum device_event event, uint64_t offset, uint64_t bytes)
{
    struct script *script = context;
    script->given = (struct told){event, offset, bytes};
}

static void test_a_source_decides_instead_of_the_device(void **state)
{
    (void)state;
    struct fixture fixture;
    struct script script = {.offset = 12345};
    struct device_source source = {&script, script_take, script_give};
    open_with(&fixture, 10, DEVICE_UPWARD, DEVICE_LIMIT_END, 100, &source);
    assert_true(device_has_room(&fixture.device, UINT64_MAX));
    assert_int_equal(take(&fixture, 1000), 12345); /* whatever the capacity */
    assert_int_equal(fixture.device.taken_bytes, 1000);
    assert_int_equal(fixture.last.offset, 12345);
    assert_int_equal(device_map(&fixture.device, 12345, 5), 0);
    assert_int_equal(script.taken.event, DEVICE_MAP);
    assert_int_equal(script.taken.offset, 12345);
    device_unmap(&fixture.device, 12345, 5);
    assert_int_equal(script.given.event, DEVICE_UNMAP);
    script.offset = UINT64_MAX;
    assert_int_equal(take(&fixture, 1), UINT64_MAX);
    assert_int_equal(device_map(&fixture.device, 0, 1), 1);
    device_give_back(&fixture.device, DEVICE_REGION_FREE, 12345, 1000);
    assert_int_equal(script.given.event, DEVICE_REGION_FREE);
    assert_int_equal(script.given.bytes, 1000);
    device_release(&fixture.device);
}

static void test_a_source_that_names_an_address_twice_breaks_nothing(void **state)
{
    (void)state;
    struct fixture fixture;
    struct script script = {.offset = 100};
    struct device_source source = {&script, script_take, script_give};
    open_with(&fixture, 10, DEVICE_UPWARD, DEVICE_LIMIT_END, 1, &source);
    uint64_t offset;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(device_reserve_memory(&fixture.device), 0);
        assert_int_equal(device_take(&fixture.device, DEVICE_REGION, 50, &offset), 0);
    }
    struct audit audit = {0};
    device_check(&fixture.device, &audit);
    assert_string_equal(audit.broken, "block_layout");
    for (int i = 0; i < 3; i++)
        device_give_back(&fixture.device, DEVICE_REGION_FREE, 100, 50);
    assert_int_equal(fixture.device.taken_bytes, 0);
    close_device(&fixture);
}

/* ------------------------------------------------------------------------------ a naive model */

enum {
    RANGES = 64
};
struct naive {
    struct told ranges[RANGES]; /* in no order */
    size_t count;
    uint64_t end;
};

static uint64_t up(uint64_t value, uint64_t granularity)
{
    return (value + granularity - 1) / granularity * granularity;
}

static bool naive_fits(const struct naive *naive, uint64_t offset, uint64_t bytes)
{
    for (size_t i = 0; i < naive->count; i++) {
        const struct told *range = &naive->ranges[i];
        if (offset < range->offset + range->bytes && range->offset < offset + bytes)
            return false;
    }
    return true;
}

static uint64_t naive_place(const struct naive *naive, const struct fixture *fixture,
                            uint64_t bytes)
{
    const struct device *device = &fixture->device;
    uint64_t place = UINT64_MAX;
    if (device->places == DEVICE_UPWARD) {
        place = up(naive->end, device->granularity);
    } else {
        if (naive_fits(naive, 0, bytes))
            place = 0;
        for (size_t i = 0; i < naive->count; i++) {
            uint64_t end =
                up(naive->ranges[i].offset + naive->ranges[i].bytes, device->granularity);
            if (end < place && naive_fits(naive, end, bytes))
                place = end;
        }
    }
    uint64_t sum = bytes;
    for (size_t i = 0; i < naive->count; i++)
        sum += naive->ranges[i].bytes;
    bool room = device->limit == DEVICE_LIMIT_BYTES ? sum <= fixture->config.gpu_capacity
                                                    : place + bytes <= fixture->config.gpu_capacity;
    return room ? place : UINT64_MAX;
}

static void test_it_places_as_an_array_of_ranges_does(void **state)
{
    (void)state;
    for (uint64_t kind = 0; kind < 12; kind++) {
        struct fixture fixture;
        struct naive naive = {.count = 0};
        uint64_t granularity = kind < 4 ? 1 : kind < 8 ? 64 : 100;
        open_device(&fixture, 5000, kind & 1 ? DEVICE_LOWEST : DEVICE_UPWARD,
                    kind & 2 ? DEVICE_LIMIT_BYTES : DEVICE_LIMIT_END, granularity);
        uint64_t number = kind + 1;
        for (int step = 0; step < 2000; step++) {
            number = number * UINT64_C(6364136223846793005) + 1442695040888963407u;
            uint64_t drawn = number >> 33;
            if (drawn % 100 < 55 && naive.count < RANGES) {
                uint64_t bytes = 1 + drawn / 100 % 400;
                uint64_t expected = naive_place(&naive, &fixture, bytes);
                assert_int_equal(take(&fixture, bytes), expected);
                if (expected == UINT64_MAX)
                    continue;
                naive.ranges[naive.count++] = (struct told){DEVICE_REGION, expected, bytes};
                if (expected + bytes > naive.end)
                    naive.end = expected + bytes;
            } else if (naive.count > 0) {
                size_t place = drawn / 100 % naive.count;
                give(&fixture, naive.ranges[place].offset, naive.ranges[place].bytes);
                naive.ranges[place] = naive.ranges[--naive.count];
            }
        }
        close_device(&fixture);
    }
}

/* ------------------------------------------------------------------------------ audit, memory */

static void test_the_audit_finds_wrong_sums(void **state)
{
    (void)state;
    struct fixture fixture;
    open_device(&fixture, 1000, DEVICE_LOWEST, DEVICE_LIMIT_END, 1);
    take(&fixture, 10);
    take(&fixture, 10);
    struct audit audit = {0};
    fixture.device.taken_bytes++;
    device_check(&fixture.device, &audit);
    assert_string_equal(audit.broken, "gpu_reserved_sum");
    fixture.device.taken_bytes--;
    audit.broken = NULL;
    fixture.device.ranges.items[0].bytes = 5; /* the room above it is another now */
    fixture.device.taken_bytes -= 5;
    device_check(&fixture.device, &audit);
    assert_string_equal(audit.broken, "free_index_class");
    fixture.device.taken_bytes += 5;
    fixture.device.ranges.items[0].bytes = 10;
    close_device(&fixture);
}

static bool take_many(struct chaos *chaos, void *context)
{
    (void)context;
    struct worsegpu_config config;
    worsegpu_config_default(&config);
    struct policy_setup setup = {.config = &config, .memory = &chaos->memory};
    struct device device;
    device_init(&device, &setup, DEVICE_UPWARD, DEVICE_LIMIT_END, 1);
    bool fine = true;
    for (int i = 0; i < 40 && fine; i++) {
        uint64_t offset;
        fine = device_reserve_memory(&device) == 0;
        if (fine)
            assert_int_equal(device_take(&device, DEVICE_REGION, 10, &offset), 0);
        assert_sound(&device);
    }
    device_release(&device);
    return fine;
}

static void test_running_out_of_memory_changes_nothing(void **state)
{
    (void)state;
    assert_true(chaos_loop(take_many, NULL) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_upward_places_are_never_used_again),
        cmocka_unit_test(test_the_lowest_place_that_fits_is_taken),
        cmocka_unit_test(test_a_limit_by_bytes_lets_addresses_go_on),
        cmocka_unit_test(test_the_capacity_is_read_at_each_call),
        cmocka_unit_test(test_reserved_addresses_take_no_memory_until_mapped),
        cmocka_unit_test(test_ranges_that_touch_go_back_in_one_piece),
        cmocka_unit_test(test_addresses_that_would_overflow_are_refused),
        cmocka_unit_test(test_a_source_decides_instead_of_the_device),
        cmocka_unit_test(test_a_source_that_names_an_address_twice_breaks_nothing),
        cmocka_unit_test(test_it_places_as_an_array_of_ranges_does),
        cmocka_unit_test(test_the_audit_finds_wrong_sums),
        cmocka_unit_test(test_running_out_of_memory_changes_nothing),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
