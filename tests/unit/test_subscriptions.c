/* Events as they happen: nothing is lost, doubled or out of order without being told, everybody
 * sees what may be seen, and who reads slowly costs the others nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/memory_daemon.h"

enum {
    USER = 1000,
    OTHER_USER = 1001,
    LONG = 200000 /* milliseconds; longer than anybody rests */
};

/* What a subscriber has been told so far: everything up to `last`, in order. */
struct seen {
    uint64_t last;
    uint64_t events;
    uint64_t missed;
    uint64_t missed_lines;
};

/* Lets all happen that happens by itself. */
static void settle(struct memory_daemon *daemon)
{
    memory_daemon_settle(daemon);
    memory_daemon_wait(daemon, SUBSCRIPTIONS_REST_MS);
    memory_daemon_settle(daemon);
}

/* The next line, which must be about this allocator: an event, or how many were missed. false when
 * there is none. */
static bool see_one(struct memory_client *client, const char *allocator, struct seen *seen)
{
    char name[ALLOCATOR_NAME_SIZE];
    const char *line = memory_client_line(client);
    if (!line)
        return false;
    assert_null(answer_member(line, "id"));
    assert_true(answer_is(line, "jsonrpc", "\"2.0\""));
    assert_true(answer_is(line, "method", "\"event\""));
    answer_text(line, "allocator", name, sizeof(name));
    assert_string_equal(name, allocator);
    if (answer_member(line, "missed")) {
        uint64_t missed = answer_u64(line, "missed");
        assert_null(answer_member(line, "event"));
        assert_true(missed > 0);
        seen->missed += missed;
        seen->missed_lines++;
        seen->last += missed;
    } else {
        assert_int_equal(answer_u64(line, "sequence"), seen->last + 1);
        seen->events++;
        seen->last++;
    }
    return true;
}

static void see_all(struct memory_client *client, const char *allocator, struct seen *seen)
{
    while (see_one(client, allocator, seen))
        ;
}

/* Makes `count` events on an allocator, an even number of them. */
static void make_events(struct memory_client *client, const char *allocator, unsigned count)
{
    char params[128];
    for (unsigned index = 0; index < count; index += 2) {
        snprintf(params, sizeof(params),
                 "\"allocator\":\"%s\",\"requested_bytes\":%u,\"tag\":\"t\"", allocator,
                 100 + index);
        assert_kind(memory_client_call(client, "allocate", params), "result");
        snprintf(params, sizeof(params), "\"allocator\":\"%s\",\"tag\":\"t\"", allocator);
        assert_kind(memory_client_call(client, "free", params), "result");
    }
}

static uint64_t subscribe(struct memory_client *client, const char *params)
{
    memory_client_send_text(client, "{\"id\":1,\"method\":\"subscribe\",\"params\":{");
    memory_client_send_text(client, params);
    memory_client_send_line(client, "}}");
    memory_daemon_turn(client->daemon);
    memory_daemon_turn(client->daemon);
    const char *answer = memory_client_line(client);
    assert_non_null(answer);
    assert_kind(answer, "result");
    return answer_u64(answer, "next");
}

/* A daemon with somebody who works and somebody who watches, both the same user. */
struct pair {
    struct memory_daemon daemon;
    struct memory_client *worker;
    struct memory_client *watcher;
};

static void begin(struct pair *pair, const char *words)
{
    memory_daemon_start(&pair->daemon, NULL, words);
    pair->worker = memory_daemon_connect(&pair->daemon, USER);
    pair->watcher = memory_daemon_connect(&pair->daemon, USER);
}

/* ---------------------------------------------------------------------------- where it begins */

static void test_without_after_it_begins_now(void **state)
{
    struct pair pair;
    (void)state;
    begin(&pair, "");
    make_events(pair.worker, "gpu0", 6);
    struct seen seen = {.last = subscribe(pair.watcher, "")};
    assert_int_equal(seen.last, 6);
    make_events(pair.worker, "gpu0", 4);
    settle(&pair.daemon);
    see_all(pair.watcher, "gpu0", &seen);
    assert_int_equal(seen.events, 4);
    assert_int_equal(seen.missed, 0);
    memory_daemon_end(&pair.daemon);
}

static void test_after_0_begins_with_the_first(void **state)
{
    struct pair pair;
    struct seen seen = {.last = 0};
    (void)state;
    begin(&pair, "");
    make_events(pair.worker, "gpu0", 6);
    assert_int_equal(subscribe(pair.watcher, "\"after\":0"), 0);
    make_events(pair.worker, "gpu0", 4);
    settle(&pair.daemon);
    see_all(pair.watcher, "gpu0", &seen);
    assert_int_equal(seen.events, 10);
    memory_daemon_end(&pair.daemon);
}

static void test_after_in_the_past_begins_behind_it(void **state)
{
    struct pair pair;
    struct seen seen = {.last = 4};
    (void)state;
    begin(&pair, "");
    make_events(pair.worker, "gpu0", 6);
    assert_int_equal(subscribe(pair.watcher, "\"after\":4,\"allocator\":\"gpu0\""), 4);
    settle(&pair.daemon);
    see_all(pair.watcher, "gpu0", &seen);
    assert_int_equal(seen.events, 2);
    memory_daemon_end(&pair.daemon);
}

static void test_after_in_the_future_waits_for_it(void **state)
{
    struct pair pair;
    struct seen seen = {.last = 8};
    (void)state;
    begin(&pair, "");
    make_events(pair.worker, "gpu0", 2);
    assert_int_equal(subscribe(pair.watcher, "\"after\":8"), 8);
    make_events(pair.worker, "gpu0", 4);
    settle(&pair.daemon);
    assert_null(memory_client_line(pair.watcher));
    make_events(pair.worker, "gpu0", 4);
    settle(&pair.daemon);
    see_all(pair.watcher, "gpu0", &seen);
    assert_int_equal(seen.events, 2);
    assert_int_equal(seen.missed, 0);
    memory_daemon_end(&pair.daemon);
}

static void test_an_unknown_allocator_cannot_be_watched(void **state)
{
    struct pair pair;
    (void)state;
    begin(&pair, "");
    assert_kind(memory_client_call(pair.worker, "open", "\"name\":\"mine\""), "result");
    assert_kind(memory_client_call(pair.watcher, "subscribe", "\"allocator\":\"mine\""),
                "unknown_allocator");
    assert_int_equal(pair.daemon.server.subscriptions.count, 0);
    memory_daemon_end(&pair.daemon);
}

/* ---------------------------------------------------------------------------------- the stream */

static void test_an_event_is_what_trace_shows(void **state)
{
    struct pair pair;
    (void)state;
    begin(&pair, "--capacity=1MiB --fallback-on-oom=false --gpu-probability=1");
    subscribe(pair.watcher, "");
    memory_client_call(pair.worker, "hello", "\"name\":\"worker\"");
    memory_client_call(pair.worker, "allocate",
                       "\"requested_bytes\":100,\"tag\":\"a \\\"tag\\\"\",\"stream\":7");
    memory_client_call(pair.worker, "allocate", "\"requested_bytes\":10000000");
    memory_client_call(pair.worker, "free", "\"tag\":\"a \\\"tag\\\"\"");
    settle(&pair.daemon);
    char *trace = strdup(memory_client_call(pair.worker, "trace", ""));
    assert_non_null(trace);
    for (int index = 0; index < 3; index++) {
        const char *line = memory_client_line(pair.watcher);
        assert_non_null(line);
        const char *event = answer_member(line, "event");
        assert_non_null(event);
        char *copy = strndup(event, strlen(event) - 2); /* without the two brackets around it */
        assert_non_null(copy);
        assert_non_null(strstr(trace, copy));
        free(copy);
    }
    assert_null(memory_client_line(pair.watcher));
    free(trace);
    memory_daemon_end(&pair.daemon);
}

static void test_an_event_after_a_rest_comes_at_once(void **state)
{
    struct pair pair;
    struct seen seen = {.last = 0};
    (void)state;
    begin(&pair, "");
    subscribe(pair.watcher, "");
    memory_daemon_settle(&pair.daemon);
    make_events(pair.worker, "gpu0", 2); /* the allocate comes alone, the free rests */
    memory_daemon_settle(&pair.daemon);
    see_all(pair.watcher, "gpu0", &seen);
    assert_int_equal(seen.events, 1);
    assert_in_range(subscriptions_rest_ms(&pair.daemon.server, pair.daemon.now.monotonic_ms), 1,
                    SUBSCRIPTIONS_REST_MS);
    settle(&pair.daemon);
    see_all(pair.watcher, "gpu0", &seen);
    assert_int_equal(seen.events, 2);
    assert_true(subscriptions_rest_ms(&pair.daemon.server, pair.daemon.now.monotonic_ms) ==
                UINT64_MAX);
    memory_daemon_end(&pair.daemon);
}

static void test_many_events_come_whole_and_in_order(void **state)
{
    enum {
        ROUNDS = 40,
        EACH = 400
    };
    struct pair pair;
    struct seen seen = {.last = 0};
    (void)state;
    begin(&pair, "");
    subscribe(pair.watcher, "");
    for (int round = 0; round < ROUNDS; round++) {
        make_events(pair.worker, "gpu0", EACH);
        settle(&pair.daemon);
        see_all(pair.watcher, "gpu0", &seen);
    }
    assert_int_equal(seen.events, ROUNDS * EACH);
    assert_int_equal(seen.missed, 0);
    memory_daemon_end(&pair.daemon);
}

static void test_events_come_between_answers(void **state)
{
    struct pair pair;
    unsigned answers = 0;
    unsigned events = 0;
    const char *line;
    (void)state;
    begin(&pair, "");
    subscribe(pair.watcher, "");
    for (int index = 0; index < 100; index++) {
        memory_client_send_line(pair.watcher, "{\"id\":5,\"method\":\"snapshot\"}");
        memory_client_send_line(pair.watcher, "{\"id\":5,\"method\":\"allocate\",\"params\":{"
                                              "\"requested_bytes\":10}}");
    }
    settle(&pair.daemon);
    while ((line = memory_client_line(pair.watcher)) != NULL) {
        if (answer_member(line, "id")) {
            assert_kind(line, "result");
            answers++;
        } else {
            assert_int_equal(answer_u64(line, "sequence"), ++events);
        }
        assert_int_equal(line[strlen(line) - 1], '}');
    }
    assert_int_equal(answers, 200);
    assert_int_equal(events, 100);
    memory_daemon_end(&pair.daemon);
}

static void test_ten_subscribers_get_the_same_stream(void **state)
{
    enum {
        CROWD = 10,
        ROUNDS = 60
    };
    struct pair pair;
    struct memory_client *crowd[CROWD];
    char *streams[CROWD];
    (void)state;
    begin(&pair, "");
    for (int index = 0; index < CROWD; index++) {
        crowd[index] = memory_daemon_connect(&pair.daemon, USER);
        subscribe(crowd[index], "");
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int index = 0; index < CROWD; index++)
            crowd[index]->deaf = (round + index) % 3 == 0;
        make_events(pair.worker, "gpu0", 50);
        settle(&pair.daemon);
    }
    for (int index = 0; index < CROWD; index++)
        crowd[index]->deaf = false;
    settle(&pair.daemon);
    for (int index = 0; index < CROWD; index++) {
        size_t length = crowd[index]->told.length - crowd[index]->told.start;
        streams[index] = strndup(crowd[index]->told.data + crowd[index]->told.start, length);
        assert_non_null(streams[index]);
        assert_true(strcmp(streams[index], streams[0]) == 0);
    }
    for (int index = 0; index < CROWD; index++) {
        struct seen seen = {.last = 0};
        see_all(crowd[index], "gpu0", &seen);
        assert_int_equal(seen.events, ROUNDS * 50);
        free(streams[index]);
    }
    memory_daemon_end(&pair.daemon);
}

/* ------------------------------------------------------------------------------------- missed */

static void test_what_was_dropped_is_told_once_and_it_goes_on(void **state)
{
    struct pair pair;
    struct seen seen = {.last = 2};
    (void)state;
    begin(&pair, "--trace-limit=10");
    make_events(pair.worker, "gpu0", 40);
    subscribe(pair.watcher, "\"after\":2");
    settle(&pair.daemon);
    see_all(pair.watcher, "gpu0", &seen);
    assert_int_equal(seen.missed, 28);
    assert_int_equal(seen.missed_lines, 1);
    assert_int_equal(seen.events, 10);
    make_events(pair.worker, "gpu0", 4);
    settle(&pair.daemon);
    see_all(pair.watcher, "gpu0", &seen);
    assert_int_equal(seen.missed_lines, 1);
    assert_int_equal(seen.events, 14);
    memory_daemon_end(&pair.daemon);
}

static void test_cleared_events_are_missed(void **state)
{
    struct pair pair;
    struct seen seen = {.last = 0};
    (void)state;
    begin(&pair, "");
    struct memory_client *root = memory_daemon_connect(&pair.daemon, 0);
    make_events(pair.worker, "gpu0", 6);
    assert_kind(memory_client_call(root, "trace_clear", ""), "result");
    make_events(pair.worker, "gpu0", 2);
    subscribe(pair.watcher, "\"after\":0");
    settle(&pair.daemon);
    see_all(pair.watcher, "gpu0", &seen);
    assert_int_equal(seen.missed, 6);
    assert_int_equal(seen.events, 2);
    memory_daemon_end(&pair.daemon);
}

static void test_a_miss_is_told_without_waiting_for_the_next_event(void **state)
{
    struct pair pair;
    struct seen seen = {.last = 0};
    (void)state;
    begin(&pair, "");
    struct memory_client *root = memory_daemon_connect(&pair.daemon, 0);
    subscribe(pair.watcher, "");
    make_events(pair.worker, "gpu0", 2);
    settle(&pair.daemon);
    see_all(pair.watcher, "gpu0", &seen);
    assert_int_equal(seen.events, 2);
    pair.daemon.now.monotonic_ms = 0; /* no wake-up is due before the clear */
    make_events(pair.worker, "gpu0", 6);
    assert_kind(memory_client_call(root, "trace_clear", ""), "result");
    pair.daemon.now.monotonic_ms = 2000000;
    settle(&pair.daemon);
    see_all(pair.watcher, "gpu0", &seen);
    assert_int_equal(seen.missed, 6);
    memory_daemon_end(&pair.daemon);
}

static void test_a_clear_when_all_was_sent_is_no_miss(void **state)
{
    struct pair pair;
    struct seen seen = {.last = 0};
    (void)state;
    begin(&pair, "");
    struct memory_client *root = memory_daemon_connect(&pair.daemon, 0);
    subscribe(pair.watcher, "");
    make_events(pair.worker, "gpu0", 6);
    settle(&pair.daemon);
    assert_kind(memory_client_call(root, "trace_clear", ""), "result");
    make_events(pair.worker, "gpu0", 2);
    settle(&pair.daemon);
    see_all(pair.watcher, "gpu0", &seen);
    assert_int_equal(seen.missed, 0);
    assert_int_equal(seen.events, 8);
    memory_daemon_end(&pair.daemon);
}

static void test_without_a_trace_nothing_is_sent(void **state)
{
    struct pair pair;
    (void)state;
    begin(&pair, "--trace-limit=0");
    assert_int_equal(subscribe(pair.watcher, "\"after\":0"), 0);
    make_events(pair.worker, "gpu0", 10);
    settle(&pair.daemon);
    assert_null(memory_client_line(pair.watcher));
    memory_daemon_end(&pair.daemon);
}

static void test_a_slow_reader_falls_behind_and_others_do_not_notice(void **state)
{
    enum {
        EVENTS = 4000,
        EACH = 20
    };
    struct pair pair;
    struct seen seen = {.last = 0};
    struct seen slow = {.last = 0};
    (void)state;
    begin(&pair, "--trace-limit=100");
    struct memory_client *deaf = memory_daemon_connect(&pair.daemon, USER);
    size_t limit = (size_t)pair.daemon.options.max_unread_bytes;
    subscribe(pair.watcher, "");
    subscribe(deaf, "");
    deaf->deaf = true;
    for (int made = 0; made < EVENTS; made += EACH) {
        make_events(pair.worker, "gpu0", EACH);
        settle(&pair.daemon);
        see_all(pair.watcher, "gpu0", &seen);
        assert_true(deaf->connection->output.length <= limit);
    }
    assert_int_equal(seen.events, EVENTS);
    assert_int_equal(seen.missed, 0);
    assert_true(deaf->connection->output.length > limit / 2);
    /* Nothing waits for it: it costs a turn nothing. */
    assert_true(TAILQ_EMPTY(&pair.daemon.server.subscriptions.waiting));
    deaf->deaf = false;
    settle(&pair.daemon);
    see_all(deaf, "gpu0", &slow);
    assert_int_equal(slow.last, EVENTS);
    assert_int_equal(slow.missed_lines, 1);
    assert_int_equal(slow.events + slow.missed, EVENTS);
    memory_daemon_end(&pair.daemon);
}

static void test_events_alone_never_keep_requests_from_being_read(void **state)
{
    struct pair pair;
    (void)state;
    begin(&pair, "");
    subscribe(pair.watcher, "");
    pair.watcher->deaf = true;
    make_events(pair.worker, "gpu0", 2000);
    settle(&pair.daemon);
    assert_true(connection_wants_input(pair.watcher->connection));
    uint64_t before = pair.watcher->connection->counts.requests;
    memory_client_send_line(pair.watcher, "{\"id\":9,\"method\":\"snapshot\"}");
    settle(&pair.daemon);
    assert_int_equal(pair.watcher->connection->counts.requests, before + 1);
    memory_daemon_end(&pair.daemon);
}

static void test_with_the_smallest_output_events_still_come(void **state)
{
    struct pair pair;
    struct seen seen = {.last = 0};
    (void)state;
    begin(&pair, "--max-unread-bytes=1");
    subscribe(pair.watcher, "");
    make_events(pair.worker, "gpu0", 100);
    settle(&pair.daemon);
    see_all(pair.watcher, "gpu0", &seen);
    assert_int_equal(seen.events, 100);
    pair.watcher->deaf = true;
    make_events(pair.worker, "gpu0", 100);
    settle(&pair.daemon);
    assert_true(pair.watcher->connection->output.length <= SUBSCRIPTIONS_LONGEST_LINE);
    memory_daemon_end(&pair.daemon);
}

static void test_the_longest_event_is_sent(void **state)
{
    struct pair pair;
    char open[128];
    char params[1024];
    char name[65];
    (void)state;
    begin(&pair, "");
    memset(name, 'n', 64);
    name[64] = '\0';
    struct memory_client *client = pair.worker;
    snprintf(open, sizeof(open), "\"name\":\"%s\",\"trace_limit\":10", name);
    assert_kind(memory_client_call(client, "open", open), "result");
    snprintf(open, sizeof(open), "\"name\":\"%s\"", name);
    assert_kind(memory_client_call(client, "hello", open), "result");
    int length = snprintf(params, sizeof(params),
                          "\"allocator\":\"%s\",\"requested_bytes\":1099511627776,\"stream\":"
                          "9007199254740991,\"tag\":\"",
                          name);
    for (int index = 0; index < 64; index++)
        length += snprintf(params + length, sizeof(params) - (size_t)length, "\\u0001");
    snprintf(params + length, sizeof(params) - (size_t)length, "\"");
    snprintf(open, sizeof(open), "\"allocator\":\"%s\"", name);
    assert_int_equal(subscribe(client, open), 0);
    memory_client_send_text(client, "{\"method\":\"allocate\",\"params\":{");
    memory_client_send_text(client, params);
    memory_client_send_line(client, "}}");
    settle(&pair.daemon);
    const char *line = memory_client_line(client);
    assert_non_null(line);
    assert_int_equal(answer_count(line, "\\u0001"), 64);
    assert_true(strlen(line) + 1 + 100 < SUBSCRIPTIONS_LONGEST_LINE); /* longer numbers fit, too */
    memory_daemon_end(&pair.daemon);
}

/* ---------------------------------------------------------------------------------- visibility */

static void test_each_subscriber_sees_what_it_may_see(void **state)
{
    struct pair pair;
    (void)state;
    begin(&pair, "");
    struct memory_client *other = memory_daemon_connect(&pair.daemon, OTHER_USER);
    struct memory_client *root = memory_daemon_connect(&pair.daemon, 0);
    subscribe(pair.watcher, "");
    subscribe(other, "");
    subscribe(root, "");
    memory_client_call(pair.worker, "hello", "\"name\":\"worker\"");
    make_events(pair.worker, "gpu0", 2);
    settle(&pair.daemon);
    for (int index = 0; index < 2; index++) {
        const char *line = memory_client_line(pair.watcher);
        assert_true(answer_is(line, "tag", "\"t\"") && answer_is(line, "name", "\"worker\""));
        line = memory_client_line(root);
        assert_true(answer_is(line, "tag", "\"t\"") && answer_is(line, "name", "\"worker\""));
        line = memory_client_line(other);
        assert_true(answer_is(line, "tag", "null") && answer_is(line, "name", "null"));
    }
    memory_daemon_end(&pair.daemon);
}

static void test_when_all_may_see_all_others_see_tags_too(void **state)
{
    struct pair pair;
    (void)state;
    begin(&pair, "--trace-visibility=all");
    pair.daemon.server.trace_visible_to_all = true;
    struct memory_client *other = memory_daemon_connect(&pair.daemon, OTHER_USER);
    subscribe(other, "");
    make_events(pair.worker, "gpu0", 2);
    settle(&pair.daemon);
    assert_true(answer_is(memory_client_line(other), "tag", "\"t\""));
    /* Who sees what is asked anew for each event, also while lines are kept. */
    pair.daemon.server.trace_visible_to_all = false;
    struct memory_client *late = memory_daemon_connect(&pair.daemon, OTHER_USER);
    subscribe(late, "\"after\":0");
    settle(&pair.daemon);
    assert_true(answer_is(memory_client_line(late), "tag", "null"));
    memory_daemon_end(&pair.daemon);
}

/* --------------------------------------------------------------------------- several, and the end
 */

static void test_two_allocators_are_two_streams(void **state)
{
    struct pair pair;
    uint64_t shared = 0;
    uint64_t mine = 0;
    const char *line;
    (void)state;
    begin(&pair, "");
    struct memory_client *client = pair.worker;
    assert_kind(memory_client_call(client, "open", "\"name\":\"mine\",\"trace_limit\":50"),
                "result");
    subscribe(client, "");
    subscribe(client, "\"allocator\":\"mine\"");
    for (int index = 0; index < 30; index++) {
        memory_client_send_line(client, "{\"method\":\"allocate\",\"params\":{"
                                        "\"requested_bytes\":10,\"allocator\":\"mine\"}}");
        memory_client_send_line(client, "{\"method\":\"allocate\",\"params\":{"
                                        "\"requested_bytes\":10,\"allocator\":\"gpu0\"}}");
    }
    settle(&pair.daemon);
    while ((line = memory_client_line(client)) != NULL)
        assert_int_equal(answer_u64(line, "sequence"),
                         answer_is(line, "allocator", "\"mine\"") ? ++mine : ++shared);
    assert_int_equal(mine, 30);
    assert_int_equal(shared, 30);
    memory_daemon_end(&pair.daemon);
}

static void test_a_second_subscribe_starts_anew(void **state)
{
    struct pair pair;
    struct seen seen = {.last = 0};
    (void)state;
    begin(&pair, "");
    subscribe(pair.watcher, "");
    make_events(pair.worker, "gpu0", 6);
    settle(&pair.daemon);
    see_all(pair.watcher, "gpu0", &seen);
    assert_int_equal(seen.events, 6);
    assert_int_equal(subscribe(pair.watcher, "\"after\":2"), 2);
    assert_int_equal(pair.daemon.server.subscriptions.count, 1);
    seen = (struct seen){.last = 2};
    settle(&pair.daemon);
    see_all(pair.watcher, "gpu0", &seen);
    assert_int_equal(seen.events, 4);
    memory_daemon_end(&pair.daemon);
}

static void test_after_unsubscribe_nothing_comes(void **state)
{
    struct pair pair;
    (void)state;
    begin(&pair, "");
    subscribe(pair.watcher, "");
    const char *answer = memory_client_call(pair.watcher, "unsubscribe", "");
    assert_true(answer_is(answer, "unsubscribed", "true"));
    make_events(pair.worker, "gpu0", 6);
    settle(&pair.daemon);
    assert_null(memory_client_line(pair.watcher));
    answer = memory_client_call(pair.watcher, "unsubscribe", "");
    assert_true(answer_is(answer, "unsubscribed", "false"));
    memory_daemon_end(&pair.daemon);
}

static void test_a_subscription_ends_with_its_private_allocator(void **state)
{
    struct pair pair;
    (void)state;
    begin(&pair, "");
    struct memory_client *client = pair.worker;
    assert_kind(memory_client_call(client, "open", "\"name\":\"mine\",\"trace_limit\":50"),
                "result");
    subscribe(client, "\"allocator\":\"mine\"");
    assert_kind(memory_client_call(client, "close", "\"allocator\":\"mine\""), "result");
    assert_int_equal(pair.daemon.server.subscriptions.count, 0);
    /* A new one of that name is another one. */
    assert_kind(memory_client_call(client, "open", "\"name\":\"mine\",\"trace_limit\":50"),
                "result");
    make_events(client, "mine", 2);
    settle(&pair.daemon);
    assert_null(memory_client_line(client));
    memory_daemon_end(&pair.daemon);
}

static void test_the_lines_of_an_allocator_end_with_it(void **state)
{
    struct pair pair;
    (void)state;
    begin(&pair, "");
    struct memory_client *client = pair.watcher;
    subscribe(client, ""); /* keeps the pages */
    for (unsigned round = 0; round < 3; round++) {
        assert_kind(memory_client_call(client, "open", "\"name\":\"mine\",\"trace_limit\":50"),
                    "result");
        make_events(client, "mine", 2 + 2 * round);
        subscribe(client, "\"allocator\":\"mine\",\"after\":0");
        settle(&pair.daemon);
        struct seen seen = {.last = 0};
        see_all(client, "mine", &seen);
        assert_int_equal(seen.events, 2 + 2 * round);
        assert_kind(memory_client_call(client, "close", "\"allocator\":\"mine\""), "result");
    }
    memory_daemon_end(&pair.daemon);
}

static void test_a_subscription_ends_with_its_connection(void **state)
{
    struct pair pair;
    (void)state;
    begin(&pair, "");
    subscribe(pair.watcher, "");
    memory_client_hang_up(pair.watcher);
    assert_int_equal(pair.daemon.server.subscriptions.count, 0);
    make_events(pair.worker, "gpu0", 4);
    settle(&pair.daemon);
    memory_daemon_end(&pair.daemon);
}

static void test_who_shuts_its_side_is_sent_no_more_and_ends(void **state)
{
    struct pair pair;
    (void)state;
    begin(&pair, "");
    subscribe(pair.watcher, "");
    memory_client_send_line(pair.watcher, "{\"id\":2,\"method\":\"subscribe\"}");
    memory_client_shut(pair.watcher);
    settle(&pair.daemon);
    assert_null(pair.watcher->connection);
    assert_int_equal(pair.daemon.server.subscriptions.count, 0);
    memory_daemon_end(&pair.daemon);
}

static void test_who_only_listens_is_not_sent_away(void **state)
{
    struct pair pair;
    struct seen seen = {.last = 0};
    (void)state;
    begin(&pair, "");
    subscribe(pair.watcher, "");
    for (int round = 0; round < 5; round++) {
        memory_daemon_wait(&pair.daemon, LONG);
        make_events(pair.worker, "gpu0", 2);
        settle(&pair.daemon);
    }
    see_all(pair.watcher, "gpu0", &seen);
    assert_int_equal(seen.events, 10);
    assert_non_null(pair.watcher->connection);
    memory_daemon_end(&pair.daemon);
}

/* --------------------------------------------------------------------------------------- memory */

static void test_a_subscribe_without_memory_changes_nothing(void **state)
{
    (void)state;
    struct chaos chaos;
    bool failed = true;
    unsigned refused = 0;
    for (uint64_t point = 1; failed; point++) {
        struct memory_daemon daemon;
        chaos_init(&chaos);
        memory_daemon_start(&daemon, &chaos, "");
        struct memory_client *client = memory_daemon_connect(&daemon, USER);
        chaos_arm(&chaos, point, true);
        const char *answer = memory_client_call(client, "subscribe", "");
        failed = chaos.failed;
        chaos_arm(&chaos, 0, false);
        if (answer_member(answer, "error")) {
            assert_true(failed);
            assert_kind(answer, "internal_error");
            assert_int_equal(daemon.server.subscriptions.count, 0);
            assert_true(TAILQ_EMPTY(&daemon.server.subscriptions.topics));
            refused++;
        } else {
            assert_int_equal(daemon.server.subscriptions.count, 1);
        }
        memory_daemon_end(&daemon);
        assert_int_equal(chaos.live_pieces, 0);
        chaos_hook_cjson(NULL);
    }
    assert_true(refused >= 3); /* a page, a topic, the subscription */
}

/* Two subscribers, one of them slow, while memory fails: afterwards both streams are whole. */
static bool watch_without_memory(struct chaos *chaos, void *context)
{
    enum {
        EVENTS = 300
    };
    static const char quiet[] = "{\"method\":\"subscribe\",\"params\":{\"after\":0}}";
    struct memory_daemon daemon;
    struct seen seen = {.last = 0};
    struct seen slow = {.last = 0};
    uint64_t fail_at = chaos->fail_at;
    bool for_good = chaos->for_good;
    (void)context;
    chaos_arm(chaos, 0, false);
    memory_daemon_start(&daemon, chaos, "");
    struct memory_client *worker = memory_daemon_connect(&daemon, USER);
    struct memory_client *watcher = memory_daemon_connect(&daemon, USER);
    struct memory_client *deaf = memory_daemon_connect(&daemon, USER);
    make_events(worker, "gpu0", EVENTS);
    deaf->deaf = true;
    chaos_arm(chaos, fail_at, for_good);
    memory_client_send_line(watcher, quiet);
    memory_client_send_line(deaf, quiet);
    settle(&daemon);
    bool failed = chaos->failed;
    chaos_arm(chaos, 0, false);
    deaf->deaf = false;
    /* Who was refused asks again: nobody was answered, as they asked for. */
    if (TAILQ_EMPTY(&watcher->connection->subscriptions))
        memory_client_send_line(watcher, quiet);
    if (TAILQ_EMPTY(&deaf->connection->subscriptions))
        memory_client_send_line(deaf, quiet);
    settle(&daemon);
    see_all(watcher, "gpu0", &seen);
    see_all(deaf, "gpu0", &slow);
    assert_int_equal(seen.events, EVENTS);
    assert_int_equal(slow.events, EVENTS);
    memory_daemon_end(&daemon);
    chaos_hook_cjson(NULL);
    chaos->failed = failed;
    return true;
}

static void test_without_memory_subscribers_wait_and_lose_nothing(void **state)
{
    (void)state;
    assert_true(chaos_loop(watch_without_memory, NULL) >= 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_after_it_begins_now),
        cmocka_unit_test(test_after_0_begins_with_the_first),
        cmocka_unit_test(test_after_in_the_past_begins_behind_it),
        cmocka_unit_test(test_after_in_the_future_waits_for_it),
        cmocka_unit_test(test_an_unknown_allocator_cannot_be_watched),
        cmocka_unit_test(test_an_event_is_what_trace_shows),
        cmocka_unit_test(test_an_event_after_a_rest_comes_at_once),
        cmocka_unit_test(test_many_events_come_whole_and_in_order),
        cmocka_unit_test(test_events_come_between_answers),
        cmocka_unit_test(test_ten_subscribers_get_the_same_stream),
        cmocka_unit_test(test_what_was_dropped_is_told_once_and_it_goes_on),
        cmocka_unit_test(test_cleared_events_are_missed),
        cmocka_unit_test(test_a_miss_is_told_without_waiting_for_the_next_event),
        cmocka_unit_test(test_a_clear_when_all_was_sent_is_no_miss),
        cmocka_unit_test(test_without_a_trace_nothing_is_sent),
        cmocka_unit_test(test_a_slow_reader_falls_behind_and_others_do_not_notice),
        cmocka_unit_test(test_events_alone_never_keep_requests_from_being_read),
        cmocka_unit_test(test_with_the_smallest_output_events_still_come),
        cmocka_unit_test(test_the_longest_event_is_sent),
        cmocka_unit_test(test_each_subscriber_sees_what_it_may_see),
        cmocka_unit_test(test_when_all_may_see_all_others_see_tags_too),
        cmocka_unit_test(test_two_allocators_are_two_streams),
        cmocka_unit_test(test_a_second_subscribe_starts_anew),
        cmocka_unit_test(test_after_unsubscribe_nothing_comes),
        cmocka_unit_test(test_a_subscription_ends_with_its_private_allocator),
        cmocka_unit_test(test_the_lines_of_an_allocator_end_with_it),
        cmocka_unit_test(test_a_subscription_ends_with_its_connection),
        cmocka_unit_test(test_who_shuts_its_side_is_sent_no_more_and_ends),
        cmocka_unit_test(test_who_only_listens_is_not_sent_away),
        cmocka_unit_test(test_a_subscribe_without_memory_changes_nothing),
        cmocka_unit_test(test_without_memory_subscribers_wait_and_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
