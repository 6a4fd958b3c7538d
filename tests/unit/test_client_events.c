/* Events that a client has subscribed to: taken as they come, kept while a call waits for its
 * answer, never mistaken for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>

#include "client/worsegpu_client.h"
#include "tests/support/chaos.h"
#include "tests/unit/client_fake.h"

enum {
    SOON_MS = 20
};

#define EVENT_JSON(sequence)                                                                       \
    "{\"operation\":\"free\",\"allocation_id\":1,\"released\":true,\"device\":\"gpu\","            \
    "\"sequence\":" #sequence "}"
#define NOTIFICATION(members)                                                                      \
    "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{" members "}}\n"
#define EVENT(sequence) NOTIFICATION("\"allocator\":\"gpu0\",\"event\":" EVENT_JSON(sequence))
#define MISSED(allocator, count) NOTIFICATION("\"allocator\":\"" allocator "\",\"missed\":" #count)
#define FAULT                                                                                      \
    NOTIFICATION("\"allocator\":\"gpu0\",\"event\":{\"operation\":\"fault\","                      \
                 "\"action\":\"out_of_memory\",\"rule\":3,\"requested_bytes\":7,\"sequence\":2,"   \
                 "\"time_us\":5,\"client\":4,\"tag\":null,\"name\":\"me\",\"stream\":0}")

static void start(struct fake *fake, const char *said)
{
    assert_true(fake_start(fake, NULL, 0));
    fake_say(fake, said);
}

static void expect_event(const struct fake *fake, uint64_t sequence)
{
    struct worsegpu_client_notice notice;
    struct worsegpu_client_error error;
    assert_int_equal(worsegpu_client_next_event(fake->client, &notice, &error), WORSEGPU_CLIENT_OK);
    assert_int_equal(error.status, WORSEGPU_CLIENT_OK);
    assert_int_equal(notice.missed, 0);
    assert_int_equal(notice.event.sequence, sequence);
    assert_string_equal(notice.allocator, "gpu0");
}

static void expect_missed(const struct fake *fake, const char *allocator, uint64_t missed)
{
    struct worsegpu_client_notice notice;
    assert_int_equal(worsegpu_client_next_event(fake->client, &notice, NULL), WORSEGPU_CLIENT_OK);
    assert_int_equal(notice.missed, missed);
    assert_string_equal(notice.allocator, allocator);
    assert_string_equal(notice.event.operation, "");
}

static void expect_nothing(const struct fake *fake)
{
    bool taken = true;
    struct worsegpu_client_notice notice;
    assert_int_equal(worsegpu_client_take_event(fake->client, &notice, &taken, NULL),
                     WORSEGPU_CLIENT_OK);
    assert_false(taken);
}

static void call(const struct fake *fake)
{
    assert_int_equal(worsegpu_client_call(fake->client, "m", NULL, NULL), WORSEGPU_CLIENT_OK);
}

static void test_subscribe_says_from_where_and_unsubscribe_for_what(void **state)
{
    (void)state;
    struct fake fake;
    char heard[512];
    uint64_t next = 0;
    uint64_t after = 0;
    start(&fake, FAKE_RESULT(1, "{\"allocator\":\"gpu0\",\"next\":7}")
                     FAKE_RESULT(2, "{\"allocator\":\"a\",\"next\":0}")
                         FAKE_RESULT(3, "{\"unsubscribed\":true}"));
    assert_int_equal(worsegpu_client_subscribe(fake.client, NULL, NULL, &next, NULL), 0);
    assert_int_equal(next, 7);
    assert_int_equal(worsegpu_client_subscribe(fake.client, "a", &after, NULL, NULL), 0);
    assert_int_equal(worsegpu_client_unsubscribe(fake.client, "a", NULL), 0);
    fake_hear(&fake, heard, sizeof(heard));
    assert_string_equal(heard,
                        "{\"id\":1,\"method\":\"subscribe\",\"params\":{}}\n"
                        "{\"id\":2,\"method\":\"subscribe\",\"params\":{\"after\":0,"
                        "\"allocator\":\"a\"}}\n"
                        "{\"id\":3,\"method\":\"unsubscribe\",\"params\":{\"allocator\":\"a\"}}\n");
    fake_end(&fake);
}

static void test_events_and_missed_ones_come_in_their_order(void **state)
{
    (void)state;
    struct fake fake;
    start(&fake, EVENT(1) MISSED("gpu0", 5) EVENT(7));
    expect_event(&fake, 1);
    expect_missed(&fake, "gpu0", 5);
    expect_event(&fake, 7);
    expect_nothing(&fake);
    fake_end(&fake);
}

static void test_a_fault_is_read_with_all_its_members(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_notice notice;
    start(&fake, FAULT);
    assert_int_equal(worsegpu_client_next_event(fake.client, &notice, NULL), 0);
    assert_string_equal(notice.event.operation, "fault");
    assert_string_equal(notice.event.action, "out_of_memory");
    assert_int_equal(notice.event.rule, 3);
    assert_int_equal(notice.event.requested_bytes, 7);
    assert_int_equal(notice.event.allocation_id, 0);
    assert_int_equal(notice.event.time_us, 5);
    assert_int_equal(notice.event.client, 4);
    assert_string_equal(notice.event.tag, "");
    assert_string_equal(notice.event.name, "me");
    assert_true(notice.event.stream_given);
    fake_end(&fake);
}

static void assert_result(const struct fake *fake, const char *expected)
{
    size_t length;
    const char *result = worsegpu_client_result(fake->client, &length);
    assert_non_null(result);
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(result, expected, length);
}

static void test_an_event_is_shown_as_it_came(void **state)
{
    (void)state;
    struct fake fake;
    size_t length;
    start(&fake, EVENT(4) FAKE_RESULT(1, "{}") EVENT(5) MISSED("gpu0", 1));
    call(&fake);
    expect_event(&fake, 4);
    assert_result(&fake, EVENT_JSON(4));
    expect_event(&fake, 5);
    assert_result(&fake, EVENT_JSON(5));
    expect_missed(&fake, "gpu0", 1);
    assert_null(worsegpu_client_result(fake.client, &length));
    fake_end(&fake);
}

static void test_events_before_an_answer_are_kept_and_are_no_answers(void **state)
{
    (void)state;
    struct fake fake;
    start(&fake, EVENT(1) EVENT(2) FAKE_RESULT(1, "{\"n\":1}") EVENT(3) FAKE_RESULT(2, "{\"n\":2}")
                     EVENT(4));
    call(&fake);
    assert_result(&fake, "{\"n\":1}");
    expect_event(&fake, 1);
    call(&fake);
    assert_result(&fake, "{\"n\":2}");
    for (uint64_t sequence = 2; sequence <= 4; sequence++)
        expect_event(&fake, sequence);
    fake_end(&fake);
}

static void test_events_between_pipelined_answers_are_kept(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_notice notice;
    start(&fake, EVENT(1) FAKE_RESULT(1, "{}") EVENT(2) FAKE_ERROR(2, 2, "unknown_handle", ""));
    for (int i = 0; i < 2; i++)
        assert_int_equal(worsegpu_client_queue(fake.client, "m", NULL, NULL), 0);
    assert_int_equal(worsegpu_client_next_event(fake.client, &notice, NULL),
                     WORSEGPU_CLIENT_INVALID_ARGUMENT);
    assert_int_equal(worsegpu_client_receive(fake.client, NULL), WORSEGPU_CLIENT_OK);
    assert_int_equal(worsegpu_client_receive(fake.client, NULL), WORSEGPU_CLIENT_REFUSED);
    expect_event(&fake, 1);
    expect_event(&fake, 2);
    fake_end(&fake);
}

static void test_silence_is_a_timeout_and_nothing_is_lost(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_notice notice;
    struct worsegpu_client_error error;
    assert_true(fake_start(&fake, NULL, SOON_MS));
    assert_int_equal(worsegpu_client_next_event(fake.client, &notice, &error),
                     WORSEGPU_CLIENT_TIMEOUT);
    assert_string_equal(error.kind, "timeout");
    fake_say(&fake, EVENT(9));
    expect_event(&fake, 9);
    fake_end(&fake);
}

static void test_the_late_answer_of_a_call_that_gave_up_is_no_event(void **state)
{
    (void)state;
    struct fake fake;
    assert_true(fake_start(&fake, NULL, SOON_MS));
    assert_int_equal(worsegpu_client_call(fake.client, "m", NULL, NULL), WORSEGPU_CLIENT_TIMEOUT);
    fake_say(&fake, FAKE_RESULT(1, "{\"late\":true}") EVENT(1) FAKE_RESULT(2, "{}"));
    expect_event(&fake, 1);
    call(&fake);
    fake_end(&fake);
}

static void test_an_answer_to_nothing_is_a_bad_reply(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_notice notice;
    start(&fake, FAKE_RESULT(1, "{}"));
    assert_int_equal(worsegpu_client_next_event(fake.client, &notice, NULL),
                     WORSEGPU_CLIENT_BAD_REPLY);
    fake_end(&fake);
}

static void test_an_error_to_nobody_is_told_to_who_waits_for_events(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_notice notice;
    struct worsegpu_client_error error;
    start(&fake, FAKE_ERROR(null, 9, "shutting_down", ""));
    fake_hang_up(&fake);
    assert_int_equal(worsegpu_client_next_event(fake.client, &notice, &error),
                     WORSEGPU_CLIENT_REFUSED);
    assert_string_equal(error.kind, "shutting_down");
    assert_int_equal(worsegpu_client_next_event(fake.client, &notice, &error),
                     WORSEGPU_CLIENT_CLOSED);
    fake_end(&fake);
}

static void test_what_came_before_the_end_is_taken_and_then_the_end_is_told(void **state)
{
    (void)state;
    struct fake fake;
    bool taken;
    struct worsegpu_client_notice notice;
    start(&fake, EVENT(1));
    fake_hang_up(&fake);
    assert_int_equal(worsegpu_client_take_event(fake.client, &notice, &taken, NULL), 0);
    assert_true(taken);
    assert_int_equal(worsegpu_client_take_event(fake.client, &notice, &taken, NULL),
                     WORSEGPU_CLIENT_CLOSED);
    assert_false(taken);
    fake_end(&fake);
}

/* More events than are kept: the answer still comes, and how many were lost is told in its place.
 */
struct storm {
    int descriptor;
    uint64_t events;
    bool of_two; /* the last ones are of another allocator */
};

static void *blow(void *context)
{
    const struct storm *storm = context;
    FILE *stream = fdopen(storm->descriptor, "w");
    for (uint64_t i = 1; i <= storm->events; i++)
        fprintf(stream,
                "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"allocator\":\"%s\","
                "\"event\":{\"operation\":\"free\",\"device\":\"gpu\",\"sequence\":%llu}}}\n",
                storm->of_two && i > storm->events / 2 ? "gpu1" : "gpu0", (unsigned long long)i);
    fprintf(stream, MISSED("gpu0", 100));
    fprintf(stream, FAKE_RESULT(1, "{}"));
    fprintf(stream, EVENT(77));
    fclose(stream);
    return NULL;
}

static void lose_some(bool of_two, const char *allocator)
{
    struct fake fake;
    pthread_t thread;
    struct worsegpu_client_notice notice;
    struct chaos chaos; /* plain pieces of malloc's, whose ends valgrind knows */
    chaos_init(&chaos);
    assert_true(fake_start(&fake, &chaos.memory, 0));
    struct storm storm = {fake.server, 150000, of_two};
    fake.server = -1; /* the thread's from now on */
    assert_int_equal(pthread_create(&thread, NULL, blow, &storm), 0);
    call(&fake);
    uint64_t kept = 0;
    assert_int_equal(worsegpu_client_next_event(fake.client, &notice, NULL), 0);
    for (; notice.missed == 0; kept++) {
        assert_int_equal(notice.event.sequence, kept + 1);
        assert_int_equal(worsegpu_client_next_event(fake.client, &notice, NULL), 0);
    }
    assert_true(kept > 0 && kept < storm.events);
    assert_int_equal(notice.missed, storm.events - kept + 100);
    assert_string_equal(notice.allocator, allocator);
    expect_event(&fake, 77);
    pthread_join(thread, NULL);
    fake_end(&fake);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_events_that_find_no_room_are_counted_as_missed(void **state)
{
    (void)state;
    lose_some(false, "gpu0");
}

static void test_missed_events_of_several_allocators_name_none(void **state)
{
    (void)state;
    lose_some(true, "");
}

static void test_an_event_that_breaks_the_contract_is_a_bad_reply(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "{\"jsonrpc\":\"2.0\",\"method\":\"other\",\"params\":{\"allocator\":\"a\",\"missed\":1}}"
        "\n",
        "{\"jsonrpc\":\"2.0\",\"method\":1,\"params\":{\"allocator\":\"a\",\"missed\":1}}\n",
        "{\"jsonrpc\":\"1.0\",\"method\":\"event\",\"params\":{\"allocator\":\"a\",\"missed\":1}}"
        "\n",
        "{\"method\":\"event\",\"params\":{\"allocator\":\"a\",\"missed\":1}}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"event\"}\n",
        NOTIFICATION("\"allocator\":\"a\""),
        NOTIFICATION("\"allocator\":\"a\",\"missed\":-1"),
        NOTIFICATION("\"missed\":1"),
        NOTIFICATION("\"event\":" EVENT_JSON(1)),
        NOTIFICATION("\"allocator\":\"a\",\"event\":7"),
        NOTIFICATION("\"allocator\":\"a\",\"event\":{\"operation\":\"free\",\"sequence\":1}"),
        NOTIFICATION("\"allocator\":\"a\",\"event\":{\"operation\":\"fault\",\"rule\":1,"
                     "\"sequence\":1}"),
        NOTIFICATION("\"allocator\":\"a\",\"event\":{\"operation\":\"fault\",\"action\":\"delay\","
                     "\"sequence\":1}"),
    };
    for (size_t i = 0; i < sizeof(LINES) / sizeof(LINES[0]); i++) {
        struct fake fake;
        bool taken;
        struct worsegpu_client_notice notice;
        start(&fake, LINES[i]);
        assert_int_equal(worsegpu_client_take_event(fake.client, &notice, &taken, NULL),
                         WORSEGPU_CLIENT_BAD_REPLY);
        assert_false(taken);
        assert_int_equal(worsegpu_client_call(fake.client, "m", NULL, NULL),
                         WORSEGPU_CLIENT_BAD_REPLY);
        fake_end(&fake);
    }
}

/* A call among events, then the events, each failure repeated until it goes through: nothing is
 * lost and nothing comes twice. */
static bool events_under_chaos(struct chaos *chaos, void *context)
{
    (void)context;
    struct fake fake;
    struct worsegpu_client_notice notice;
    if (!fake_start(&fake, &chaos->memory, 0))
        return false;
    chaos_hook_cjson(chaos);
    fake_say(&fake, EVENT(1) FAULT FAKE_RESULT(1, "{}") EVENT(3));
    int status = worsegpu_client_queue(fake.client, "m", NULL, NULL);
    while (status == WORSEGPU_CLIENT_OK && worsegpu_client_due(fake.client) > 0) {
        status = worsegpu_client_receive(fake.client, NULL);
        if (status == WORSEGPU_CLIENT_NO_MEMORY && !chaos->for_good)
            status = WORSEGPU_CLIENT_OK;
    }
    for (uint64_t next = 1; status == WORSEGPU_CLIENT_OK && next <= 3;) {
        status = worsegpu_client_next_event(fake.client, &notice, NULL);
        if (status == WORSEGPU_CLIENT_OK)
            assert_int_equal(notice.event.sequence, next++);
        else if (status == WORSEGPU_CLIENT_NO_MEMORY && !chaos->for_good)
            status = WORSEGPU_CLIENT_OK;
    }
    assert_true(status == WORSEGPU_CLIENT_OK || status == WORSEGPU_CLIENT_NO_MEMORY);
    fake_end(&fake);
    chaos_hook_cjson(NULL);
    return status == WORSEGPU_CLIENT_OK;
}

static void test_events_survive_each_failing_allocation(void **state)
{
    (void)state;
    assert_true(chaos_loop(events_under_chaos, NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_subscribe_says_from_where_and_unsubscribe_for_what),
        cmocka_unit_test(test_events_and_missed_ones_come_in_their_order),
        cmocka_unit_test(test_a_fault_is_read_with_all_its_members),
        cmocka_unit_test(test_an_event_is_shown_as_it_came),
        cmocka_unit_test(test_events_before_an_answer_are_kept_and_are_no_answers),
        cmocka_unit_test(test_events_between_pipelined_answers_are_kept),
        cmocka_unit_test(test_silence_is_a_timeout_and_nothing_is_lost),
        cmocka_unit_test(test_the_late_answer_of_a_call_that_gave_up_is_no_event),
        cmocka_unit_test(test_an_answer_to_nothing_is_a_bad_reply),
        cmocka_unit_test(test_an_error_to_nobody_is_told_to_who_waits_for_events),
        cmocka_unit_test(test_what_came_before_the_end_is_taken_and_then_the_end_is_told),
        cmocka_unit_test(test_events_that_find_no_room_are_counted_as_missed),
        cmocka_unit_test(test_missed_events_of_several_allocators_name_none),
        cmocka_unit_test(test_an_event_that_breaks_the_contract_is_a_bad_reply),
        cmocka_unit_test(test_events_survive_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
