/* The client library at its edges: texts that are no UTF-8, deadlines beyond the clock, a daemon
 * that floods or says strange things, and outputs nobody wants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/version.h"
#include "client/client_state.h"
#include "client/worsegpu_client_rules.h"
#include "tests/unit/client_fake.h"

struct stage {
    struct fake fake;
    struct worsegpu_client_error error;
};

static int set_up(void **state)
{
    static struct stage stage;
    stage = (struct stage){0};
    *state = &stage;
    return fake_start(&stage.fake, memory_system(), 2000) ? 0 : -1;
}

static int tear_down(void **state)
{
    struct stage *stage = *state;
    fake_end(&stage->fake);
    return 0;
}

static void test_the_version_is_that_of_all(void **state)
{
    assert_string_equal(worsegpu_client_version(), WORSEGPU_VERSION);
    (void)state;
}

/* ------------------------------------------------------------------------------ texts */

#define BROKEN "gpu\xff"

/* Every call that takes a text. */
static int call_with_text(worsegpu_client *client, size_t which,
                          struct worsegpu_client_error *error)
{
    struct worsegpu_client_request tagged = {.requested_bytes = 1, .tag = BROKEN};
    struct worsegpu_client_request plain = {.requested_bytes = 1};
    struct worsegpu_client_config policy = {.policy = BROKEN};
    struct worsegpu_client_config knobs = {.knobs = BROKEN};
    struct worsegpu_client_config seed = {.seed = BROKEN};
    struct worsegpu_client_config scan = {.scan = BROKEN};
    struct worsegpu_client_allocation allocation;
    struct worsegpu_client_snapshot snapshot;
    struct worsegpu_client_trace trace;
    struct worsegpu_client_list list;
    struct worsegpu_client_map map;
    const char *text;
    bool used;
    switch (which) {
    case 0:
        return worsegpu_client_open(client, BROKEN, NULL, NULL, error);
    case 1:
        return worsegpu_client_open(client, "a", &policy, NULL, error);
    case 2:
        return worsegpu_client_open(client, "a", &knobs, NULL, error);
    case 3:
        return worsegpu_client_open(client, "a", &seed, NULL, error);
    case 4:
        return worsegpu_client_open(client, "a", &scan, NULL, error);
    case 5:
        return worsegpu_client_close(client, BROKEN, error);
    case 6:
        return worsegpu_client_allocate(client, BROKEN, &plain, &allocation, error);
    case 7:
        return worsegpu_client_allocate(client, NULL, &tagged, &allocation, error);
    case 8:
        return worsegpu_client_free_handle(client, NULL, BROKEN, NULL, error);
    case 9:
        return worsegpu_client_free_tag(client, NULL, BROKEN, NULL, error);
    case 10:
        return worsegpu_client_free_on_stream(client, BROKEN, "h", 1, NULL, error);
    case 11:
        return worsegpu_client_record_stream(client, NULL, BROKEN, 1, &used, error);
    case 12:
        return worsegpu_client_event_done(client, BROKEN, 1, 1, false, &used, error);
    case 13:
        return worsegpu_client_empty_cache(client, BROKEN, NULL, &used, error);
    case 14:
        return worsegpu_client_statistics(client, BROKEN, error);
    case 15:
        return worsegpu_client_snapshot(client, BROKEN, &snapshot, error);
    case 16:
        return worsegpu_client_map(client, BROKEN, 0, 0, 1, &map, error);
    case 17:
        return worsegpu_client_metrics(client, BROKEN, &text, error);
    case 18:
        return worsegpu_client_trace(client, BROKEN, 0, 1, &trace, error);
    case 19:
        return worsegpu_client_trace_clear(client, BROKEN, NULL, error);
    case 20:
        return worsegpu_client_validate(client, BROKEN, NULL, error);
    case 21:
        return worsegpu_client_list(client, BROKEN, 0, 1, &list, error);
    case 22:
        return worsegpu_client_resize(client, BROKEN, 1, NULL, error);
    case 23:
        return worsegpu_client_hello(client, BROKEN, NULL, error);
    case 24:
        return worsegpu_client_subscribe(client, BROKEN, NULL, NULL, error);
    case 25:
        return worsegpu_client_unsubscribe(client, BROKEN, error);
    default:
        return INT_MIN; /* that is all */
    }
}

static void test_a_text_that_is_no_utf_8_is_refused_and_nothing_is_sent(void **state)
{
    struct stage *stage = *state;
    char heard[256];
    size_t which = 0;
    for (;; which++) {
        int status = call_with_text(stage->fake.client, which, &stage->error);
        if (status == INT_MIN)
            break;
        if (status != WORSEGPU_CLIENT_INVALID_ARGUMENT ||
            !strstr(stage->error.message, "is not UTF-8"))
            fail_msg("call %zu: %d, %s", which, status, stage->error.message);
        fake_hear(&stage->fake, heard, sizeof(heard));
        assert_string_equal(heard, "");
        assert_int_equal(worsegpu_client_due(stage->fake.client), 0);
    }
    assert_int_equal(which, 26);
}

static void test_probabilities_that_are_no_numbers_are_refused(void **state)
{
    struct stage *stage = *state;
    struct worsegpu_client_config gpu = {.gpu_probability_given = true,
                                         .gpu_probability = (double)NAN};
    struct worsegpu_client_config forget = {.forget_probability_given = true,
                                            .forget_probability = (double)INFINITY};
    assert_int_equal(worsegpu_client_open(stage->fake.client, "a", &gpu, NULL, &stage->error),
                     WORSEGPU_CLIENT_INVALID_ARGUMENT);
    assert_int_equal(worsegpu_client_open(stage->fake.client, "a", &forget, NULL, &stage->error),
                     WORSEGPU_CLIENT_INVALID_ARGUMENT);
}

static void test_a_long_text_is_cut_between_characters(void **state)
{
    char field[6];
    client_copy_text(field, sizeof(field), "abcd\xc3\xa9"); /* e with an accent does not fit */
    assert_string_equal(field, "abcd");
    client_copy_text(field, sizeof(field), "abc\xc3\xa9"); /* here it does */
    assert_string_equal(field, "abc\xc3\xa9");
    client_copy_text(field, sizeof(field), "a\xf0\x9f\x98\x80z");
    assert_string_equal(field, "a\xf0\x9f\x98\x80");
    client_copy_text(field, sizeof(field), "ab\xf0\x9f\x98\x80");
    assert_string_equal(field, "ab");
    (void)state;
}

static void test_who_wants_no_error_gets_the_status_alone(void **state)
{
    struct stage *stage = *state;
    fake_say(&stage->fake, FAKE_ERROR(1, 8, "invariant_violation", ""));
    assert_int_equal(worsegpu_client_validate(stage->fake.client, NULL, NULL, NULL),
                     WORSEGPU_CLIENT_REFUSED);
    fake_hang_up(&stage->fake);
    assert_int_equal(worsegpu_client_validate(stage->fake.client, NULL, NULL, NULL),
                     WORSEGPU_CLIENT_CLOSED);
}

static void test_an_error_of_the_system_without_a_name_has_words(void **state)
{
    assert_string_equal(client_error_system(1 << 20), "unknown error");
    (void)state;
}

/* ------------------------------------------------------------------------------ results */

static void test_results_that_nobody_wants_are_left_out(void **state)
{
    struct stage *stage = *state;
    worsegpu_client *client = stage->fake.client;
    bool used = false;
    fake_say(&stage->fake, FAKE_RESULT(1, "{\"given_back\":512,\"used\":true}"));
    assert_int_equal(worsegpu_client_empty_cache(client, NULL, NULL, &used, &stage->error),
                     WORSEGPU_CLIENT_OK);
    assert_true(used);
    fake_say(&stage->fake,
             FAKE_RESULT(2, "{\"allocation_id\":1,\"device\":\"gpu\",\"released\":true}"));
    assert_int_equal(worsegpu_client_free_handle(client, NULL, "h", NULL, &stage->error),
                     WORSEGPU_CLIENT_OK);
}

static void test_a_deadline_beyond_the_clock_is_none(void **state)
{
    struct stage *stage = *state;
    stage->fake.client->timeout_ms = UINT64_MAX;
    fake_say(&stage->fake, FAKE_RESULT(1, "{\"valid\":true,\"checks\":5}"));
    assert_int_equal(worsegpu_client_validate(stage->fake.client, NULL, NULL, &stage->error),
                     WORSEGPU_CLIENT_OK);
}

static void test_a_fragmentation_longer_than_any_number_is_a_bad_reply(void **state)
{
    struct stage *stage = *state;
    struct worsegpu_client_snapshot snapshot;
    char digits[200];
    char text[1024];
    memset(digits, '0', sizeof(digits) - 1);
    digits[sizeof(digits) - 1] = '\0';
    snprintf(text, sizeof(text),
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"gpu_capacity\":1,\"gpu_reserved\":2,"
             "\"gpu_unreserved\":3,\"gpu_used\":4,\"gpu_free\":5,\"gpu_forgotten\":6,"
             "\"gpu_blocks\":7,\"cpu_bytes\":8,\"active_allocations\":9,\"trace_events\":10,"
             "\"fragmentation\":0.%s}}\n",
             digits);
    fake_say(&stage->fake, text);
    assert_int_equal(worsegpu_client_snapshot(stage->fake.client, NULL, &snapshot, &stage->error),
                     WORSEGPU_CLIENT_BAD_REPLY);
    assert_non_null(strstr(stage->error.message, "\"fragmentation\" is missing or wrong"));
}

/* ------------------------------------------------------------------------------ events */

#define NOTICE(version, method, params)                                                            \
    "{\"jsonrpc\":" version ",\"method\":" method ",\"params\":" params "}\n"
#define MISSED(number)                                                                             \
    NOTICE("\"2.0\"", "\"event\"", "{\"allocator\":\"gpu0\",\"missed\":" number "}")

static void test_events_that_break_the_contract_are_bad_replies(void **state)
{
    static const char *const broken[] = {
        NOTICE("\"1.0\"", "\"event\"", "{\"allocator\":\"a\",\"missed\":1}"),
        NOTICE("2.0", "\"event\"", "{\"allocator\":\"a\",\"missed\":1}"),
        NOTICE("\"2.0\"", "\"news\"", "{\"allocator\":\"a\",\"missed\":1}"),
        NOTICE("\"2.0\"", "7", "{\"allocator\":\"a\",\"missed\":1}"),
        NOTICE("\"2.0\"", "\"event\"", "{\"allocator\":\"a\"}"),
        NOTICE("\"2.0\"", "\"event\"", "[]"),
    };
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        struct worsegpu_client_notice notice;
        struct worsegpu_client_error error;
        struct fake fake;
        assert_true(fake_start(&fake, memory_system(), 2000));
        fake_say(&fake, broken[i]);
        int status = worsegpu_client_next_event(fake.client, &notice, &error);
        if (status != WORSEGPU_CLIENT_BAD_REPLY)
            fail_msg("%d after %s", status, broken[i]);
        fake_end(&fake);
    }
    (void)state;
}

static void test_an_answer_while_only_events_are_due_is_a_bad_reply(void **state)
{
    struct stage *stage = *state;
    worsegpu_client *client = stage->fake.client;
    struct worsegpu_client_notice notice;
    fake_say(&stage->fake, FAKE_RESULT(1, "{}"));
    assert_int_equal(worsegpu_client_next_event(client, &notice, &stage->error),
                     WORSEGPU_CLIENT_BAD_REPLY);
    /* Nothing is believed any more of what comes after it. */
    fake_say(&stage->fake, MISSED("2"));
    assert_int_equal(worsegpu_client_next_event(client, &notice, &stage->error),
                     WORSEGPU_CLIENT_BAD_REPLY);
}

static void test_the_last_word_of_a_daemon_that_stops_reaches_who_waits_for_events(void **state)
{
    struct stage *stage = *state;
    struct worsegpu_client_notice notice;
    fake_say(&stage->fake, FAKE_ERROR(null, 9, "shutting_down", ""));
    assert_int_equal(worsegpu_client_next_event(stage->fake.client, &notice, &stage->error),
                     WORSEGPU_CLIENT_REFUSED);
    assert_string_equal(stage->error.kind, "shutting_down");
}

static void test_events_before_an_answer_are_kept_and_their_end_is_told_after_them(void **state)
{
    struct stage *stage = *state;
    worsegpu_client *client = stage->fake.client;
    struct worsegpu_client_notice notice;
    fake_say(&stage->fake, MISSED("3") MISSED("4") FAKE_RESULT(1, "{\"valid\":true,\"checks\":5}"));
    assert_int_equal(worsegpu_client_validate(client, NULL, NULL, &stage->error),
                     WORSEGPU_CLIENT_OK);
    fake_hang_up(&stage->fake);
    assert_int_equal(worsegpu_client_next_event(client, &notice, &stage->error),
                     WORSEGPU_CLIENT_OK);
    assert_int_equal(notice.missed, 3);
    assert_int_equal(worsegpu_client_next_event(client, &notice, &stage->error),
                     WORSEGPU_CLIENT_OK);
    assert_int_equal(notice.missed, 4);
    assert_int_equal(worsegpu_client_next_event(client, &notice, &stage->error),
                     WORSEGPU_CLIENT_CLOSED);
}

static void test_an_event_of_a_queued_request_s_time_waits_for_its_answer(void **state)
{
    struct stage *stage = *state;
    struct worsegpu_client_notice notice;
    assert_int_equal(worsegpu_client_queue(stage->fake.client, "validate", NULL, &stage->error),
                     WORSEGPU_CLIENT_OK);
    assert_int_equal(worsegpu_client_next_event(stage->fake.client, &notice, &stage->error),
                     WORSEGPU_CLIENT_INVALID_ARGUMENT);
}

/* ------------------------------------------------------------------------------ floods */

/* A daemon that writes without end and reads nothing: the client says that it is full, keeps what
 * it has, and goes on once the answers are taken. */
static void test_a_client_that_holds_too_much_is_busy_until_answers_are_taken(void **state)
{
    struct stage *stage = *state;
    worsegpu_client *client = stage->fake.client;
    static const char answer[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"valid\":true,\"checks\":5,\"more\":\"";
    const size_t length = (size_t)1 << 20;
    char *line = malloc(length);
    assert_non_null(line);
    memset(line, 'x', length);
    memcpy(line, answer, sizeof(answer) - 1);
    memcpy(line + length - 4, "\"}}\n", 4);
    assert_int_equal(fcntl(stage->fake.server, F_SETFL, O_NONBLOCK), 0);

    /* As many bytes as it holds, a little at a time; it has no request that could not be sent. */
    size_t said = 0;
    while (said < WORSEGPU_CLIENT_MAX_HELD_BYTES + length) {
        size_t part = length - said % length;
        ssize_t sent = send(stage->fake.server, line + said % length, part, MSG_NOSIGNAL);
        if (sent > 0)
            said += (size_t)sent;
        size_t before = client->in.end - client->in.start;
        assert_int_equal(worsegpu_client_advance(client, &stage->error), WORSEGPU_CLIENT_OK);
        if (sent < 0 && client->in.end - client->in.start == before)
            break; /* it takes no more, and nor does the socket */
    }
    assert_true(client->in.end - client->in.start >= WORSEGPU_CLIENT_MAX_HELD_BYTES);
    free(line);

    /* More than the socket takes while the other side does not read. */
    for (int i = 0; i < 60000; i++)
        assert_int_equal(worsegpu_client_notify(client, "validate", NULL, &stage->error),
                         WORSEGPU_CLIENT_OK);
    assert_int_equal(worsegpu_client_flush(client, &stage->error), WORSEGPU_CLIENT_BUSY);
    assert_string_equal(stage->error.kind, "busy");
    assert_true(worsegpu_client_unsent(client) > 0);
}

static void test_what_cannot_be_sent_to_a_daemon_that_has_gone_is_closed(void **state)
{
    struct stage *stage = *state;
    worsegpu_client *client = stage->fake.client;
    assert_int_equal(worsegpu_client_notify(client, "validate", NULL, &stage->error),
                     WORSEGPU_CLIENT_OK);
    fake_hang_up(&stage->fake);
    assert_int_equal(worsegpu_client_flush(client, &stage->error), WORSEGPU_CLIENT_CLOSED);
    assert_int_equal(worsegpu_client_unsent(client), 0);
    assert_int_equal(worsegpu_client_advance(client, &stage->error), WORSEGPU_CLIENT_CLOSED);
    assert_true(worsegpu_client_has_ended(client));
}

#define ON_STAGE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_version_is_that_of_all),
        ON_STAGE(test_a_text_that_is_no_utf_8_is_refused_and_nothing_is_sent),
        ON_STAGE(test_probabilities_that_are_no_numbers_are_refused),
        cmocka_unit_test(test_a_long_text_is_cut_between_characters),
        ON_STAGE(test_who_wants_no_error_gets_the_status_alone),
        cmocka_unit_test(test_an_error_of_the_system_without_a_name_has_words),
        ON_STAGE(test_results_that_nobody_wants_are_left_out),
        ON_STAGE(test_a_deadline_beyond_the_clock_is_none),
        ON_STAGE(test_a_fragmentation_longer_than_any_number_is_a_bad_reply),
        cmocka_unit_test(test_events_that_break_the_contract_are_bad_replies),
        ON_STAGE(test_an_answer_while_only_events_are_due_is_a_bad_reply),
        ON_STAGE(test_the_last_word_of_a_daemon_that_stops_reaches_who_waits_for_events),
        ON_STAGE(test_events_before_an_answer_are_kept_and_their_end_is_told_after_them),
        ON_STAGE(test_an_event_of_a_queued_request_s_time_waits_for_its_answer),
        ON_STAGE(test_a_client_that_holds_too_much_is_busy_until_answers_are_taken),
        ON_STAGE(test_what_cannot_be_sent_to_a_daemon_that_has_gone_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
