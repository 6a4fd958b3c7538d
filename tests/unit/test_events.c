/* Recordings of events: frees that find their allocations, slots, facts, devices, walks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/memory.h"
#include "lab/events.h"
#include "lab/live_table.h"
#include "tests/support/chaos.h"

enum {
    MOST_EVENTS = 64
};

/* A format whose content is records as they lie in memory. */
static bool never(const unsigned char *head, size_t bytes)
{
    (void)head;
    (void)bytes;
    return false;
}

static int read_raw(struct log_source *source, const struct worsegpu_memory *memory,
                    const struct log_sink *sink, struct log_facts *facts,
                    struct log_problem *problem)
{
    (void)memory;
    facts->times = true;
    for (;;) {
        const unsigned char *bytes;
        size_t length;
        struct log_record record;
        int status = log_source_peek(source, sizeof(record), &bytes, &length, problem);
        if (status != LOG_FINE || length < sizeof(record))
            return status;
        memcpy(&record, bytes, sizeof(record));
        log_source_skip(source, sizeof(record));
        status = sink->record(sink->context, &record);
        if (status != LOG_FINE)
            return status;
    }
}

static const struct log_format RAW = {
    .name = "raw", .summary = "records of a test", .detect = never, .read = read_raw};

static int read_records(const struct log_record *records, size_t count, uint32_t device,
                        const struct worsegpu_memory *memory, struct events **events,
                        struct log_problem *problem)
{
    struct log_source *source;
    problem->text[0] = '\0';
    int status = log_source_open_bytes(records, count * sizeof(*records), memory, &source, problem);
    if (status != LOG_FINE)
        return status;
    status = events_read(source, &RAW, device, memory, NULL, NULL, events, problem);
    log_source_close(source);
    return status;
}

static struct events *must_read(const struct log_record *records, size_t count, uint32_t device)
{
    struct events *events = NULL;
    struct log_problem problem;
    assert_int_equal(read_records(records, count, device, memory_system(), &events, &problem),
                     LOG_FINE);
    return events;
}

/* All events of a recording. */
static size_t walk_all(const struct events *events, struct event *all)
{
    struct events_walk *walk;
    size_t count = 0;
    int status;
    assert_int_equal(events_walk_begin(events, &walk), LOG_FINE);
    struct event event;
    while ((status = events_walk_next(walk, &event)) == LOG_FINE) {
        assert_true(count < MOST_EVENTS);
        all[count++] = event;
    }
    assert_int_equal(status, LOG_STOPPED);
    events_walk_end(walk);
    assert_int_equal(count, events_facts(events)->events);
    return count;
}

static struct log_record allocate(uint64_t key, uint64_t bytes)
{
    return (struct log_record){
        .operation = LOG_ALLOCATE, .key = key, .bytes = bytes, .address = LOG_NO_ADDRESS};
}

static struct log_record freed(uint64_t key)
{
    return (struct log_record){.operation = LOG_FREE, .key = key, .address = LOG_NO_ADDRESS};
}

#define READ(records, device) must_read(records, sizeof(records) / sizeof((records)[0]), device)

static void test_a_free_finds_its_allocation(void **state)
{
    (void)state;
    const struct log_record records[] = {allocate(70, 100), allocate(80, 200), freed(70)};
    struct event all[MOST_EVENTS] = {0};
    struct events *events = READ(records, EVENTS_ANY_DEVICE);
    assert_int_equal(walk_all(events, all), 3);
    assert_int_equal(all[0].id, 1);
    assert_int_equal(all[1].id, 2);
    assert_int_equal(all[2].operation, LOG_FREE);
    assert_int_equal(all[2].id, 1);
    assert_int_equal(all[2].slot, all[0].slot);
    assert_int_equal(all[2].bytes, 100);
    events_release(events);
}

static void test_a_new_allocation_gets_the_lowest_slot_that_is_free(void **state)
{
    (void)state;
    const struct log_record records[] = {allocate(1, 8), allocate(2, 8), allocate(3, 8),
                                         allocate(4, 8), freed(3),       freed(2),
                                         allocate(5, 8), allocate(6, 8), allocate(7, 8)};
    struct event all[MOST_EVENTS] = {0};
    struct events *events = READ(records, EVENTS_ANY_DEVICE);
    walk_all(events, all);
    assert_int_equal(all[6].slot, 1);
    assert_int_equal(all[7].slot, 2);
    assert_int_equal(all[8].slot, 4);
    assert_int_equal(events_facts(events)->peak_live, 5);
    events_release(events);
}

static void test_every_field_of_a_record_comes_back(void **state)
{
    (void)state;
    const struct log_record records[] = {
        {.operation = LOG_ALLOCATE,
         .before = true,
         .upper = true,
         .key = 5,
         .address = UINT64_MAX - 1,
         .bytes = UINT64_C(1) << 62,
         .stream = UINT64_C(1) << 40,
         .alignment = 4096,
         .time_us = UINT64_MAX,
         .place = UINT64_MAX},
        {.operation = LOG_SEGMENT_ALLOCATE, .address = 0, .bytes = 1, .time_us = 0, .place = 1},
        {.operation = LOG_EVENT_DONE,
         .address = LOG_NO_ADDRESS,
         .newest = true,
         .bytes = UINT64_MAX,
         .stream = 3,
         .time_us = 7,
         .place = 2},
        {.operation = LOG_FREE,
         .key = 5,
         .address = LOG_NO_ADDRESS,
         .stream = 9,
         .time_us = 7,
         .place = 3}};
    struct event all[MOST_EVENTS] = {0};
    struct events *events = READ(records, EVENTS_ANY_DEVICE);
    assert_int_equal(walk_all(events, all), 4);
    assert_true(all[0].before && all[0].upper);
    assert_int_equal(all[0].address, UINT64_MAX - 1);
    assert_int_equal(all[0].bytes, UINT64_C(1) << 62);
    assert_int_equal(all[0].stream, UINT64_C(1) << 40);
    assert_int_equal(all[0].alignment, 4096);
    assert_int_equal(all[0].time_us, UINT64_MAX);
    assert_int_equal(all[0].place, UINT64_MAX);
    assert_int_equal(all[1].operation, LOG_SEGMENT_ALLOCATE);
    assert_int_equal(all[1].address, 0);
    assert_int_equal(all[1].time_us, 0);
    assert_int_equal(all[1].place, 1);
    assert_int_equal(all[2].bytes, UINT64_MAX);
    assert_true(all[2].newest && !all[3].newest);
    assert_int_equal(all[2].address, LOG_NO_ADDRESS);
    assert_int_equal(all[3].stream, 9);
    assert_int_equal(all[3].bytes, UINT64_C(1) << 62);
    assert_int_equal(all[3].place, 3);
    events_release(events);
}

static void test_the_peak_is_told_with_its_place(void **state)
{
    (void)state;
    struct log_record records[] = {allocate(1, 100), allocate(2, 50), freed(1), allocate(3, 100),
                                   allocate(4, 1)};
    for (size_t i = 0; i < 5; i++)
        records[i].place = 10 + i;
    struct events *events = READ(records, EVENTS_ANY_DEVICE);
    const struct events_facts *facts = events_facts(events);
    assert_int_equal(facts->peak_bytes, 151);
    assert_int_equal(facts->peak_place, 14);
    assert_int_equal(facts->peak_id, 4);
    assert_int_equal(facts->peak_live, 3);
    assert_int_equal(facts->live_at_end, 3);
    events_release(events);
}

static void test_a_free_of_nothing_is_counted_and_left_out(void **state)
{
    (void)state;
    struct log_record use = freed(9);
    use.operation = LOG_RECORD_STREAM;
    const struct log_record records[] = {freed(1), allocate(1, 8), freed(1), freed(1), use};
    struct event all[MOST_EVENTS] = {0};
    struct events *events = READ(records, EVENTS_ANY_DEVICE);
    assert_int_equal(walk_all(events, all), 2);
    assert_int_equal(events_facts(events)->unknown_frees, 2);
    assert_int_equal(events_facts(events)->unknown_uses, 1);
    assert_int_equal(events_facts(events)->count[LOG_FREE], 1);
    events_release(events);
}

static void test_an_allocation_on_a_live_key_frees_the_older_one_first(void **state)
{
    (void)state;
    const struct log_record records[] = {allocate(1, 8), allocate(1, 16), freed(1)};
    struct event all[MOST_EVENTS] = {0};
    struct events *events = READ(records, EVENTS_ANY_DEVICE);
    assert_int_equal(walk_all(events, all), 4);
    assert_int_equal(all[1].operation, LOG_FREE);
    assert_int_equal(all[1].id, 1);
    assert_int_equal(all[2].id, 2);
    assert_int_equal(all[3].id, 2);
    assert_int_equal(events_facts(events)->doubled, 1);
    assert_int_equal(events_facts(events)->peak_bytes, 16);
    events_release(events);
}

static struct log_record on_device(struct log_record record, uint32_t device)
{
    record.device = device;
    return record;
}

static void test_the_lowest_device_that_allocates_is_taken(void **state)
{
    (void)state;
    struct log_record segment = {.operation = LOG_SEGMENT_ALLOCATE, .bytes = 4096};
    const struct log_record records[] = {
        on_device(segment, 0),         on_device(freed(1), 0),        on_device(allocate(1, 30), 2),
        on_device(segment, 1),         on_device(allocate(2, 40), 3), on_device(allocate(1, 10), 1),
        on_device(allocate(2, 20), 2), on_device(freed(1), 2),        on_device(freed(1), 1),
    };
    struct event all[MOST_EVENTS] = {0};
    struct events *events = READ(records, EVENTS_ANY_DEVICE);
    assert_int_equal(events_facts(events)->device, 1);
    assert_int_equal(events_facts(events)->devices, 3);
    assert_int_equal(walk_all(events, all), 3);
    assert_int_equal(all[0].operation, LOG_SEGMENT_ALLOCATE);
    assert_int_equal(all[1].bytes, 10);
    assert_int_equal(all[1].id, 1);
    assert_int_equal(all[2].id, 1);
    events_release(events);
}

static void test_the_device_asked_for_is_taken(void **state)
{
    (void)state;
    const struct log_record records[] = {on_device(allocate(1, 10), 0),
                                         on_device(allocate(1, 20), 5), on_device(freed(1), 0)};
    struct event all[MOST_EVENTS] = {0};
    struct events *events = READ(records, 5);
    assert_int_equal(events_facts(events)->device, 5);
    assert_int_equal(walk_all(events, all), 1);
    assert_int_equal(all[0].bytes, 20);
    events_release(events);
}

static void test_a_device_that_allocates_nothing_is_refused_with_those_that_do(void **state)
{
    (void)state;
    const struct log_record records[] = {on_device(allocate(1, 10), 2),
                                         on_device(allocate(1, 20), 5)};
    struct events *events = NULL;
    struct log_problem problem;
    assert_int_equal(read_records(records, 2, 1, memory_system(), &events, &problem), LOG_BAD);
    assert_string_equal(problem.text, "device 1 allocates nothing in this log; these do: 2, 5");
    assert_null(events);
}

static void test_more_live_bytes_than_64_bits_are_refused(void **state)
{
    (void)state;
    struct log_record records[] = {allocate(1, UINT64_MAX), allocate(2, 1)};
    records[1].place = 7;
    struct events *events = NULL;
    struct log_problem problem;
    assert_int_equal(read_records(records, 2, 0, memory_system(), &events, &problem), LOG_BAD);
    assert_non_null(strstr(problem.text, "7: what is live comes to more than 2^64 bytes"));
}

static void test_streams_and_span_are_those_of_the_device(void **state)
{
    (void)state;
    struct log_record records[] = {allocate(1, 8), allocate(2, 8), on_device(allocate(3, 8), 1),
                                   freed(2)};
    const uint64_t streams[] = {0, 4, 7, 4};
    for (size_t i = 0; i < 4; i++) {
        records[i].stream = streams[i];
        records[i].time_us = i == 2 ? 1000 : 10 + 5 * i;
    }
    struct events *events = READ(records, EVENTS_ANY_DEVICE);
    assert_int_equal(events_facts(events)->streams, 2);
    assert_int_equal(events_facts(events)->span_us, 15);
    events_release(events);
}

static void test_a_free_without_a_stream_has_that_of_its_allocation(void **state)
{
    (void)state;
    struct log_record records[] = {allocate(1, 8), freed(1)};
    struct event all[MOST_EVENTS] = {0};
    records[0].stream = 6;
    records[1].stream = LOG_OWN_STREAM;
    struct events *events = READ(records, EVENTS_ANY_DEVICE);
    walk_all(events, all);
    assert_int_equal(all[1].stream, 6);
    assert_int_equal(events_facts(events)->streams, 1);
    events_release(events);
}

static void test_two_walks_do_not_disturb_each_other(void **state)
{
    (void)state;
    const struct log_record records[] = {allocate(1, 8), allocate(2, 16)};
    struct events *events = READ(records, EVENTS_ANY_DEVICE);
    struct events_walk *one, *two;
    struct event event;
    assert_int_equal(events_walk_begin(events, &one), LOG_FINE);
    assert_int_equal(events_walk_begin(events, &two), LOG_FINE);
    assert_int_equal(events_walk_next(one, &event), LOG_FINE);
    assert_int_equal(events_walk_next(one, &event), LOG_FINE);
    assert_int_equal(events_walk_next(two, &event), LOG_FINE);
    assert_int_equal(event.bytes, 8);
    assert_int_equal(events_walk_next(one, &event), LOG_STOPPED);
    events_walk_end(one);
    events_walk_end(two);
    events_release(events);
}

/* ------------------------------------------------------------------------------ against a model */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

enum {
    MODEL_KEYS = 40,
    MODEL_RECORDS = 3000
};

static void test_slots_and_live_bytes_agree_with_a_naive_model(void **state)
{
    (void)state;
    static struct log_record records[MODEL_RECORDS];
    uint64_t random = 1;
    for (size_t i = 0; i < MODEL_RECORDS; i++) {
        uint64_t key = next_random(&random) % MODEL_KEYS;
        records[i] =
            next_random(&random) % 2 ? allocate(key, 1 + next_random(&random) % 100) : freed(key);
    }
    struct events *events = must_read(records, MODEL_RECORDS, EVENTS_ANY_DEVICE);
    struct events_walk *walk;
    struct event event;
    bool used[MODEL_KEYS] = {false};
    uint64_t bytes[MODEL_KEYS] = {0}, ids[MODEL_KEYS] = {0};
    uint64_t live = 0, peak = 0;
    assert_int_equal(events_walk_begin(events, &walk), LOG_FINE);
    while (events_walk_next(walk, &event) == LOG_FINE) {
        if (event.operation == LOG_ALLOCATE) {
            uint32_t lowest = 0;
            while (used[lowest])
                lowest++;
            assert_int_equal(event.slot, lowest);
            used[lowest] = true;
            bytes[lowest] = event.bytes;
            ids[lowest] = event.id;
            live += event.bytes;
            peak = live > peak ? live : peak;
        } else {
            assert_true(used[event.slot]);
            assert_int_equal(event.bytes, bytes[event.slot]);
            assert_int_equal(event.id, ids[event.slot]);
            used[event.slot] = false;
            live -= event.bytes;
        }
    }
    events_walk_end(walk);
    assert_int_equal(peak, events_facts(events)->peak_bytes);
    assert_true(events_facts(events)->doubled > 0 && events_facts(events)->unknown_frees > 0);
    events_release(events);
}

static void test_keys_that_were_removed_are_gone_and_the_others_stay(void **state)
{
    (void)state;
    const struct keyed_hash hash = {{3, 5}};
    struct number_map map;
    static bool present[MODEL_KEYS];
    uint64_t random = 2;
    number_map_init(&map, &hash, memory_system());
    for (int i = 0; i < 20000; i++) {
        uint64_t key = next_random(&random) % MODEL_KEYS;
        if (next_random(&random) % 2) {
            assert_int_equal(number_map_reserve(&map), 0);
            number_map_put(&map, key, (uint32_t)key + 1);
            present[key] = true;
        } else {
            number_map_remove(&map, key);
            present[key] = false;
        }
        for (uint64_t k = 0; k < MODEL_KEYS; k++)
            assert_int_equal(number_map_find(&map, k), present[k] ? k + 1 : NUMBER_MAP_NONE);
    }
    number_map_release(&map);
}

/* ------------------------------------------------------------------------------ without memory */

static bool read_without_memory(struct chaos *chaos, void *context)
{
    (void)context;
    struct log_record records[40];
    struct events *events = NULL;
    struct log_problem problem;
    for (size_t i = 0; i < 40; i++)
        records[i] = on_device(allocate(i, 8), i % 2 ? 0 : 1);
    int status = read_records(records, 40, EVENTS_ANY_DEVICE, &chaos->memory, &events, &problem);
    if (status != LOG_FINE) {
        assert_int_equal(status, LOG_NO_MEMORY);
        assert_null(events);
        return false;
    }
    struct events_walk *walk;
    struct event event;
    status = events_walk_begin(events, &walk);
    if (status == LOG_FINE) {
        assert_int_equal(events_walk_next(walk, &event), LOG_FINE);
        events_walk_end(walk);
    }
    events_release(events);
    return status == LOG_FINE;
}

static void test_reading_without_memory_says_so_and_leaves_nothing(void **state)
{
    (void)state;
    assert_true(chaos_loop(read_without_memory, NULL) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_free_finds_its_allocation),
        cmocka_unit_test(test_a_new_allocation_gets_the_lowest_slot_that_is_free),
        cmocka_unit_test(test_every_field_of_a_record_comes_back),
        cmocka_unit_test(test_the_peak_is_told_with_its_place),
        cmocka_unit_test(test_a_free_of_nothing_is_counted_and_left_out),
        cmocka_unit_test(test_an_allocation_on_a_live_key_frees_the_older_one_first),
        cmocka_unit_test(test_the_lowest_device_that_allocates_is_taken),
        cmocka_unit_test(test_the_device_asked_for_is_taken),
        cmocka_unit_test(test_a_device_that_allocates_nothing_is_refused_with_those_that_do),
        cmocka_unit_test(test_more_live_bytes_than_64_bits_are_refused),
        cmocka_unit_test(test_streams_and_span_are_those_of_the_device),
        cmocka_unit_test(test_a_free_without_a_stream_has_that_of_its_allocation),
        cmocka_unit_test(test_two_walks_do_not_disturb_each_other),
        cmocka_unit_test(test_slots_and_live_bytes_agree_with_a_naive_model),
        cmocka_unit_test(test_keys_that_were_removed_are_gone_and_the_others_stay),
        cmocka_unit_test(test_reading_without_memory_says_so_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
