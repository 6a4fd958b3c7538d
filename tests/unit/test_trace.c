/* The ring of events: what it keeps, what it says is gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/memory.h"
#include "lib/trace.h"
#include "tests/support/chaos.h"

static struct trace made(size_t limit)
{
    struct trace trace;
    assert_int_equal(trace_init(&trace, limit, memory_system()), WORSEGPU_OK);
    return trace;
}

static void push(struct trace *trace, uint64_t id)
{
    struct trace_record record = {.allocation_id = id};
    trace_push(trace, &record, NULL);
}

struct page {
    struct worsegpu_event events[64];
    size_t count;
    bool more;
    uint64_t dropped;
};

static struct page read_page(const struct trace *trace, uint64_t after, size_t limit)
{
    struct page page;
    memset(&page, 0, sizeof(page));
    trace_read(trace, after, page.events, limit, &page.count, &page.more, &page.dropped);
    return page;
}

static void test_a_limit_of_0_records_nothing(void **state)
{
    (void)state;
    struct trace trace = made(0);
    push(&trace, 1);
    struct page page = read_page(&trace, 0, 64);
    assert_int_equal(page.count, 0);
    assert_int_equal(page.dropped, 0);
    assert_false(page.more);
    assert_int_equal(trace.last_sequence, 0);
    assert_int_equal(trace_clear(&trace), 0);
    trace_release(&trace);
}

static void test_the_oldest_goes_at_the_limit(void **state)
{
    (void)state;
    struct trace trace = made(3);
    for (uint64_t id = 1; id <= 5; id++)
        push(&trace, id * 10);
    struct page page = read_page(&trace, 0, 64);
    assert_int_equal(page.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(page.events[i].sequence, i + 3);
        assert_int_equal(page.events[i].allocation_id, (i + 3) * 10);
    }
    assert_int_equal(page.dropped, 2);
    trace_release(&trace);
}

static void test_pages_follow_each_other(void **state)
{
    (void)state;
    struct trace trace = made(20);
    for (uint64_t id = 1; id <= 27; id++)
        push(&trace, id);
    uint64_t after = 0;
    uint64_t expected = 8;
    for (;;) {
        struct page page = read_page(&trace, after, 6);
        for (size_t i = 0; i < page.count; i++)
            assert_int_equal(page.events[i].allocation_id, expected++);
        after = page.events[page.count - 1].sequence;
        if (!page.more)
            break;
    }
    assert_int_equal(expected, 28);
    trace_release(&trace);
}

static void test_dropped_counts_only_what_came_after(void **state)
{
    (void)state;
    struct trace trace = made(4);
    for (uint64_t id = 1; id <= 10; id++)
        push(&trace, id);
    assert_int_equal(read_page(&trace, 0, 64).dropped, 6);
    assert_int_equal(read_page(&trace, 4, 64).dropped, 2);
    assert_int_equal(read_page(&trace, 6, 64).dropped, 0);
    assert_int_equal(read_page(&trace, 9, 64).dropped, 0);
    assert_int_equal(read_page(&trace, 10, 64).dropped, 0);
    assert_int_equal(read_page(&trace, UINT64_MAX, 64).dropped, 0);
    trace_release(&trace);
}

static void test_after_the_newest_there_is_nothing(void **state)
{
    (void)state;
    struct trace trace = made(4);
    push(&trace, 1);
    for (uint64_t after = 1; after != 0; after *= 2) {
        struct page page = read_page(&trace, after, 64);
        assert_int_equal(page.count, 0);
        assert_false(page.more);
    }
    trace_release(&trace);
}

static void test_more_says_whether_others_follow(void **state)
{
    (void)state;
    struct trace trace = made(4);
    push(&trace, 1);
    push(&trace, 2);
    assert_true(read_page(&trace, 0, 0).more);
    assert_true(read_page(&trace, 0, 1).more);
    assert_false(read_page(&trace, 0, 2).more);
    assert_false(read_page(&trace, 1, 1).more);
    trace_release(&trace);
}

static void test_clearing_keeps_the_sequence_and_counts_as_dropped(void **state)
{
    (void)state;
    struct trace trace = made(4);
    push(&trace, 1);
    push(&trace, 2);
    assert_int_equal(trace_clear(&trace), 2);
    assert_int_equal(read_page(&trace, 0, 64).count, 0);
    assert_int_equal(read_page(&trace, 0, 64).dropped, 2);
    push(&trace, 3);
    struct page page = read_page(&trace, 0, 64);
    assert_int_equal(page.count, 1);
    assert_int_equal(page.events[0].sequence, 3);
    assert_int_equal(page.dropped, 2);
    assert_int_equal(trace_clear(&trace), 1);
    trace_release(&trace);
}

static void test_every_member_comes_out_as_it_went_in(void **state)
{
    (void)state;
    struct trace trace = made(2);
    char tag[WORSEGPU_MAX_TAG_BYTES];
    memset(tag, 't', sizeof(tag));
    struct trace_record record = {
        .allocation_id = UINT64_MAX,
        .requested_bytes = 2,
        .reserved_bytes = 3,
        .stream = 4,
        .client = 5,
        .time_us = 6,
        .rule = 7,
        .operation = WORSEGPU_FREE,
        .action = WORSEGPU_FAULT_DISCONNECT_AFTER,
        .device = WORSEGPU_CPU,
        .reason = WORSEGPU_FORGOTTEN,
        .tag_bytes = sizeof(tag),
        .released = true,
        .stream_given = true,
    };
    trace_push(&trace, &record, tag);
    push(&trace, 1);
    struct page page = read_page(&trace, 0, 64);
    const struct worsegpu_event *event = &page.events[0];
    assert_int_equal(event->allocation_id, UINT64_MAX);
    assert_int_equal(event->requested_bytes, 2);
    assert_int_equal(event->reserved_bytes, 3);
    assert_int_equal(event->stream, 4);
    assert_int_equal(event->client, 5);
    assert_int_equal(event->time_us, 6);
    assert_int_equal(event->rule, 7);
    assert_int_equal(event->action, WORSEGPU_FAULT_DISCONNECT_AFTER);
    assert_int_equal(event->operation, WORSEGPU_FREE);
    assert_int_equal(event->device, WORSEGPU_CPU);
    assert_int_equal(event->reason, WORSEGPU_FORGOTTEN);
    assert_true(event->released);
    assert_true(event->stream_given);
    assert_int_equal(event->tag_bytes, sizeof(tag));
    assert_memory_equal(event->tag, tag, sizeof(tag));
    assert_int_equal(page.events[1].tag_bytes, 0);
    assert_int_equal(page.events[1].tag[0], 0);
    trace_release(&trace);
}

static void test_the_largest_ring_can_be_made_and_filled_round(void **state)
{
    (void)state;
    struct trace trace = made(WORSEGPU_MAX_TRACE_LIMIT);
    for (uint64_t id = 1; id <= WORSEGPU_MAX_TRACE_LIMIT + 5; id++)
        push(&trace, id);
    struct page page = read_page(&trace, 0, 2);
    assert_int_equal(page.events[0].sequence, 6);
    assert_int_equal(page.events[0].allocation_id, 6);
    assert_int_equal(page.dropped, 5);
    trace_release(&trace);
}

static bool init_in_chaos(struct chaos *chaos, void *context)
{
    (void)context;
    struct trace trace;
    if (trace_init(&trace, 10, &chaos->memory) != WORSEGPU_OK)
        return false;
    trace_release(&trace);
    return true;
}

static void test_without_memory_there_is_no_ring(void **state)
{
    (void)state;
    assert_true(chaos_loop(init_in_chaos, NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_limit_of_0_records_nothing),
        cmocka_unit_test(test_the_oldest_goes_at_the_limit),
        cmocka_unit_test(test_pages_follow_each_other),
        cmocka_unit_test(test_dropped_counts_only_what_came_after),
        cmocka_unit_test(test_after_the_newest_there_is_nothing),
        cmocka_unit_test(test_more_says_whether_others_follow),
        cmocka_unit_test(test_clearing_keeps_the_sequence_and_counts_as_dropped),
        cmocka_unit_test(test_every_member_comes_out_as_it_went_in),
        cmocka_unit_test(test_the_largest_ring_can_be_made_and_filled_round),
        cmocka_unit_test(test_without_memory_there_is_no_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
