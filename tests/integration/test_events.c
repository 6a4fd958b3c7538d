/* Watching a real daemon: many subscribers over real sockets, one of which stops reading. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/real_daemon.h"

enum {
    CROWD = 20,
    ROUNDS = 100,
    EACH = 100, /* operations in a round: half of them allocate, half free */
    OPERATIONS = ROUNDS * EACH
};

/* What a subscriber has been told. */
struct stream {
    struct real_client *client;
    uint64_t last; /* up to here it was sent or told of everything */
    uint64_t events;
    uint64_t missed;
};

static struct stream subscribe(const struct real_daemon *daemon)
{
    static const char request[] =
        "{\"id\":1,\"method\":\"subscribe\",\"params\":{\"after\":0,\"allocator\":\"gpu0\"}}";
    struct stream stream = {.client = real_daemon_connect(daemon)};
    const cJSON *reply = real_client_call(stream.client, request);
    assert_string_equal(real_json_text(reply, "result.allocator"), "gpu0");
    assert_int_equal(real_json_number(reply, "result.next"), 0);
    return stream;
}

/* Takes one line of a stream. */
static void take(struct stream *stream)
{
    const cJSON *line = real_client_reply(stream->client);
    assert_string_equal(real_json_text(line, "method"), "event");
    assert_string_equal(real_json_text(line, "params.allocator"), "gpu0");
    if (real_json_has(line, "params.missed")) {
        uint64_t missed = real_json_number(line, "params.missed");
        assert_true(missed > 0);
        stream->missed += missed;
        stream->last += missed;
        return;
    }
    assert_int_equal(real_json_number(line, "params.event.sequence"), stream->last + 1);
    stream->last++;
    stream->events++;
}

static void take_until(struct stream *stream, uint64_t sequence)
{
    while (stream->last < sequence)
        take(stream);
}

/* Allocates and frees, many requests at a time. */
static void work(struct real_client *client)
{
    char batch[EACH * 128];
    size_t length = 0;
    for (unsigned index = 0; index < EACH / 2; index++)
        length += (size_t)snprintf(
            batch + length, sizeof(batch) - length,
            "{\"id\":%u,\"method\":\"allocate\",\"params\":{\"requested_bytes\":64,\"tag\":\"%u\"}}"
            "\n{\"id\":%u,\"method\":\"free\",\"params\":{\"tag\":\"%u\"}}\n",
            index, index, index, index);
    real_client_send_bytes(client, batch, length);
    for (unsigned index = 0; index < EACH; index++)
        assert_true(real_json_has(real_client_reply(client), "result"));
}

static void test_everyone_gets_all_or_is_told_and_one_who_stops_reading_hurts_nobody(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--trace-limit", "2000", NULL);
    struct real_client *worker = real_daemon_connect(&daemon);
    struct stream crowd[CROWD];
    struct stream deaf = subscribe(&daemon);
    for (unsigned index = 0; index < CROWD; index++)
        crowd[index] = subscribe(&daemon);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        work(worker);
        /* Nobody of these is ever further behind than the ring is long. */
        for (unsigned index = 0; index < CROWD; index++)
            take_until(&crowd[index], (uint64_t)round * EACH);
    }
    for (unsigned index = 0; index < CROWD; index++) {
        assert_int_equal(crowd[index].last, OPERATIONS);
        assert_int_equal(crowd[index].events, OPERATIONS);
        assert_false(real_client_has_news(crowd[index].client));
    }
    take_until(&deaf, OPERATIONS);
    assert_true(deaf.missed > 0);
    assert_int_equal(deaf.events + deaf.missed, OPERATIONS);
    /* From then on it is as good as the others. */
    work(worker);
    uint64_t missed = deaf.missed;
    take_until(&deaf, OPERATIONS + EACH);
    assert_int_equal(deaf.missed, missed);
    real_daemon_stop(&daemon);
}

static void test_a_flood_reaches_everyone_whole_or_with_what_is_missing_told(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--trace-limit", "500", NULL);
    struct real_client *worker = real_daemon_connect(&daemon);
    struct stream crowd[CROWD];
    for (unsigned index = 0; index < CROWD; index++)
        crowd[index] = subscribe(&daemon);
    for (unsigned round = 0; round < ROUNDS; round++)
        work(worker);
    for (unsigned index = 0; index < CROWD; index++) {
        take_until(&crowd[index], OPERATIONS);
        assert_int_equal(crowd[index].events + crowd[index].missed, OPERATIONS);
        assert_true(crowd[index].events > 0);
    }
    real_daemon_stop(&daemon);
}

static void test_one_event_alone_reaches_all_without_another_request(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *worker = real_daemon_connect(&daemon);
    struct stream crowd[CROWD];
    for (unsigned index = 0; index < CROWD; index++)
        crowd[index] = subscribe(&daemon);
    for (unsigned round = 1; round <= 20; round++) {
        real_client_call(worker,
                         "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":64}}");
        for (unsigned index = 0; index < CROWD; index++)
            take_until(&crowd[index], round);
    }
    real_daemon_stop(&daemon);
}

static void test_what_an_ending_client_leaves_is_seen(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *worker = real_daemon_connect(&daemon);
    struct stream watcher = subscribe(&daemon);
    for (unsigned index = 0; index < 10; index++)
        real_client_call(worker,
                         "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":64}}");
    real_client_close(worker);
    take_until(&watcher, 20);
    assert_int_equal(watcher.events, 20);
    real_daemon_stop(&daemon);
}

static void test_a_subscriber_may_ask_while_it_listens(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct stream self = subscribe(&daemon);
    unsigned answers = 0;
    for (unsigned index = 0; index < EACH; index++)
        real_client_send(self.client,
                         "{\"id\":7,\"method\":\"allocate\",\"params\":{\"requested_bytes\":64}}");
    while (answers < EACH || self.last < EACH) {
        const cJSON *line = real_client_reply(self.client);
        if (real_json_has(line, "id")) {
            assert_true(real_json_has(line, "result"));
            answers++;
        } else {
            assert_int_equal(real_json_number(line, "params.event.sequence"), ++self.last);
        }
    }
    assert_int_equal(answers, EACH);
    real_daemon_stop(&daemon);
}

static void test_subscribers_that_go_away_leave_nothing(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *worker = real_daemon_connect(&daemon);
    work(worker); /* so that it has been let in when descriptors are counted */
    unsigned before = real_process_descriptors(daemon.process);
    for (unsigned round = 0; round < 10; round++) {
        struct stream crowd[CROWD];
        for (unsigned index = 0; index < CROWD; index++)
            crowd[index] = subscribe(&daemon);
        work(worker);
        for (unsigned index = 0; index < CROWD; index++)
            if (index % 2)
                real_client_shutdown(crowd[index].client);
            else
                real_client_close(crowd[index].client);
        work(worker);
        for (unsigned index = 1; index < CROWD; index += 2) {
            while (real_client_line(crowd[index].client))
                ; /* what was on its way, then the end */
            real_client_close(crowd[index].client);
        }
    }
    struct real_wait wait = {0};
    while (real_process_descriptors(daemon.process) > before)
        real_wait_more(&wait);
    real_daemon_stop(&daemon);
}

static void test_the_daemon_stops_with_subscribers_that_do_not_read(void **state)
{
    struct real_daemon daemon =
        real_daemon_start(*state, "--max-stop-seconds", "0", "--trace-limit", "1000", NULL);
    struct real_client *worker = real_daemon_connect(&daemon);
    for (unsigned index = 0; index < CROWD; index++)
        subscribe(&daemon);
    for (unsigned round = 0; round < 20; round++)
        work(worker);
    real_daemon_stop(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_everyone_gets_all_or_is_told_and_one_who_stops_reading_hurts_nobody),
        IN_ROOM(test_a_flood_reaches_everyone_whole_or_with_what_is_missing_told),
        IN_ROOM(test_one_event_alone_reaches_all_without_another_request),
        IN_ROOM(test_what_an_ending_client_leaves_is_seen),
        IN_ROOM(test_a_subscriber_may_ask_while_it_listens),
        IN_ROOM(test_subscribers_that_go_away_leave_nothing),
        IN_ROOM(test_the_daemon_stops_with_subscribers_that_do_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
