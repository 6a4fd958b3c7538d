/* Tests of daemon/connection.c: what it does with bytes, turns, time, unread answers and poor
 * memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/reply.h"
#include "tests/support/memory_daemon.h"

enum {
    USER = 1000,
    MOST_OUTPUT = 131072
};

static const char snapshot_line[] = "{\"id\":1,\"method\":\"snapshot\"}\n";
static const char allocate_line[] =
    "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":100}}\n";

static size_t unread_of(const struct memory_client *client)
{
    return client->connection->output.length + client->connection->in_flight;
}

static uint64_t allocations_made(const struct memory_daemon *daemon)
{
    struct worsegpu_snapshot snapshot;
    worsegpu_snapshot(memory_daemon_gpu0(daemon)->engine, &snapshot);
    return snapshot.allocate_calls;
}

static void send_often(struct memory_client *client, const char *text, size_t times)
{
    for (size_t i = 0; i < times; i++)
        memory_client_send_text(client, text);
}

static size_t lines_told(struct memory_client *client)
{
    size_t count = 0;
    while (memory_client_line(client))
        count++;
    return count;
}

/* ------------------------------------------------------------------------------- order, bytes */

static void test_requests_are_answered_in_their_order(void **state)
{
    struct memory_daemon daemon;
    char line[80];
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    for (int id = 1; id <= 200; id++) {
        snprintf(line, sizeof(line), "{\"id\":%d,\"method\":\"%s\"}", id,
                 id % 3 ? "snapshot" : "nonsense");
        memory_client_send_line(client, line);
    }
    memory_daemon_settle(&daemon);
    for (uint64_t id = 1; id <= 200; id++) {
        const char *answer = memory_client_line(client);
        assert_non_null(answer);
        assert_int_equal(answer_u64(answer, "id"), id);
        assert_kind(answer, id % 3 ? "result" : "method_not_found");
    }
    assert_null(memory_client_line(client));
    memory_daemon_end(&daemon);
}

/* Lines of every sort; the last one is not ended. */
static const char mixture[] =
    "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":4096,\"tag\":\"a\"}}\r\n"
    "\n"
    " \t\r\n"
    "{\"id\":\"two\",\"method\":\"snapshot\"}\n"
    "no json\n"
    "{\"method\":\"allocate\",\"params\":{\"requested_bytes\":7}}\n"
    "{\"id\":3,\"method\":\"free\",\"params\":{\"tag\":\"\\u0061\"}}\n"
    "{\"id\":4,\"method\":\"allocate\",\"params\":{\"requested_bytes\":1,\"tag\":\"\xc3\xa4\"}}\n"
    "{\"id\":5,\"method\":\"trace\",\"params\":{}}\n"
    "{\"id\":6,\"meth";

/* The answers to the mixture, cut into pieces of these lengths and a rest. The caller frees. */
static char *answers_to_pieces(size_t first, size_t each)
{
    struct memory_daemon daemon;
    size_t length = sizeof(mixture) - 1;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    for (size_t sent = 0; sent < length;) {
        size_t piece = sent == 0 ? first : each;
        if (piece > length - sent)
            piece = length - sent;
        memory_client_send(client, mixture + sent, piece);
        memory_daemon_settle(&daemon);
        sent += piece;
    }
    memory_client_shut(client);
    memory_daemon_settle(&daemon);
    assert_null(client->connection);
    assert_true(client->told.length > 0);
    char *answers = strdup(client->told.data);
    assert_non_null(answers);
    answer_scrub(answers);
    memory_daemon_end(&daemon);
    return answers;
}

static void test_a_split_at_any_byte_changes_no_answer(void **state)
{
    (void)state;
    char *whole = answers_to_pieces(sizeof(mixture), sizeof(mixture));
    assert_int_equal(answer_count(whole, "\n"), 6);
    for (size_t at = 1; at < sizeof(mixture) - 1; at++) {
        char *split = answers_to_pieces(at, sizeof(mixture));
        assert_string_equal(split, whole);
        free(split);
    }
    for (size_t each = 1; each < 5; each++) {
        char *split = answers_to_pieces(each, each);
        assert_string_equal(split, whole);
        free(split);
    }
    free(whole);
}

static void test_a_notification_and_an_empty_line_are_not_answered(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    memory_client_send_text(client,
                            "\r\n  \n{\"method\":\"snapshot\"}\n{\"method\":\"nonsense\"}\n");
    memory_daemon_settle(&daemon);
    assert_null(memory_client_line(client));
    assert_true(connection_wants_input(client->connection));
    memory_daemon_end(&daemon);
}

static void test_a_line_too_long_gets_one_error_and_the_next_one_its_answer(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-line-bytes=1024");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    for (size_t length = 1023; length < 3000; length += 331) {
        char *line = malloc(length);
        assert_non_null(line);
        memset(line, ' ', length);
        memcpy(line, snapshot_line, sizeof(snapshot_line) - 2);
        line[length - 1] = '\n';
        memory_client_send(client, line, length);
        memory_client_send_text(client, snapshot_line);
        memory_daemon_settle(&daemon);
        const char *answer = memory_client_line(client);
        assert_non_null(answer);
        assert_kind(answer, length <= 1024 ? "result" : "invalid_request");
        assert_true(answer_is(answer, "id", length <= 1024 ? "1" : "null"));
        answer = memory_client_line(client);
        assert_non_null(answer);
        assert_kind(answer, "result");
        assert_null(memory_client_line(client));
        free(line);
    }
    assert_non_null(strstr(daemon.log_text, "sent a line of more than 1024 bytes"));
    memory_daemon_end(&daemon);
}

/* ------------------------------------------------------------------------------------- turns */

static void test_a_turn_carries_out_so_many_requests_and_loses_none(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-requests-per-turn=64");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    send_often(client, allocate_line, 150);
    for (size_t turn = 0; turn < 2; turn++) {
        assert_true(memory_daemon_turn(&daemon));
        assert_int_equal(allocations_made(&daemon), 64 * (turn + 1));
        assert_int_equal(lines_told(client), 64);
        assert_true(connection_wants_turn(client->connection));
        assert_false(connection_wants_input(client->connection));
    }
    memory_daemon_settle(&daemon);
    assert_int_equal(allocations_made(&daemon), 150);
    assert_int_equal(lines_told(client), 150 - 128);
    assert_true(connection_wants_input(client->connection));
    memory_daemon_end(&daemon);
}

static void test_a_turn_that_is_just_full_leaves_nothing_for_another(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-requests-per-turn=64");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    send_often(client, allocate_line, 64);
    assert_true(memory_daemon_turn(&daemon));
    assert_int_equal(lines_told(client), 64);
    assert_false(connection_wants_turn(client->connection));
    assert_true(connection_wants_input(client->connection));
    send_often(client, allocate_line, 64);
    memory_client_send_text(client, "{\"id\":1,"); /* the beginning of a line is kept */
    assert_true(memory_daemon_turn(&daemon));
    assert_int_equal(lines_told(client), 64);
    memory_daemon_settle(&daemon);
    assert_true(connection_wants_input(client->connection));
    memory_client_send_text(client, "\"method\":\"snapshot\"}\n");
    memory_daemon_settle(&daemon);
    assert_int_equal(lines_told(client), 1);
    memory_daemon_end(&daemon);
}

static void test_a_long_walk_counts_as_many_requests(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-requests-per-turn=64 --max-unread-bytes=900000");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    send_often(client, allocate_line, 1000);
    memory_daemon_settle(&daemon);
    assert_int_equal(lines_told(client), 1000);
    send_often(client, "{\"id\":1,\"method\":\"list\"}\n",
               3); /* 1000 allocations each: nearly a turn */
    memory_daemon_turn(&daemon);
    assert_int_equal(lines_told(client), 2);
    memory_daemon_turn(&daemon);
    assert_int_equal(lines_told(client), 1);
    memory_daemon_end(&daemon);
}

static void test_one_connection_does_not_hold_up_another(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-requests-per-turn=4");
    struct memory_client *busy = memory_daemon_connect(&daemon, USER);
    struct memory_client *modest = memory_daemon_connect(&daemon, USER);
    send_often(busy, snapshot_line, 1000);
    memory_daemon_turn(&daemon);
    memory_client_send_text(modest, snapshot_line);
    memory_daemon_turn(&daemon);
    assert_int_equal(lines_told(modest), 1);
    assert_int_equal(lines_told(busy), 8);
    memory_daemon_end(&daemon);
}

/* ------------------------------------------------------------------------------------ unread */

static void test_with_unread_answers_nothing_is_carried_out_until_they_are_read(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-unread-bytes=1000 --max-requests-per-turn=1000");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    client->deaf = true;
    send_often(client, allocate_line, 100);
    memory_daemon_settle(&daemon);
    uint64_t made = allocations_made(&daemon);
    assert_in_range(made, 1, 20);
    assert_in_range(unread_of(client), 1001, 1001 + 400);
    assert_false(connection_wants_input(client->connection));
    assert_false(connection_wants_turn(client->connection));
    connection_run(client->connection, daemon.now); /* asked for all the same */
    assert_int_equal(allocations_made(&daemon), made);
    client->deaf = false;
    memory_daemon_settle(&daemon);
    assert_int_equal(allocations_made(&daemon), 100);
    assert_int_equal(lines_told(client), 100);
    assert_true(connection_wants_input(client->connection));
    memory_daemon_end(&daemon);
}

static void test_bytes_in_flight_count_as_unread(void **state)
{
    struct memory_daemon daemon;
    size_t length;
    size_t capacity;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-unread-bytes=1000 --max-requests-per-turn=1000");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    client->deaf = true;
    send_often(client, allocate_line, 100);
    memory_daemon_settle(&daemon);
    uint64_t made = allocations_made(&daemon);
    char *data = connection_take_output(client->connection, &length, &capacity);
    assert_int_equal(length, client->connection->in_flight);
    assert_true(length > 1000 && capacity >= length);
    memory_daemon_settle(&daemon);
    assert_int_equal(allocations_made(&daemon), made);
    assert_false(connection_wants_input(client->connection));
    connection_give_back(client->connection, data, length, capacity);
    assert_int_equal(client->connection->in_flight, 0);
    assert_true(connection_wants_turn(client->connection));
    client->deaf = false;
    memory_daemon_settle(&daemon);
    assert_int_equal(allocations_made(&daemon), 100);
    memory_daemon_end(&daemon);
}

static void test_output_never_passes_max_output_bytes(void **state)
{
    static const char *const requests[] = {
        "{\"id\":1,\"method\":\"trace\"}\n",
        "{\"id\":1,\"method\":\"list\"}\n",
        "{\"id\":1,\"method\":\"info\"}\n",
        "{\"id\":1,\"method\":\"trace\",\"params\":{\"limit\":90}}\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        struct memory_daemon daemon;
        memory_daemon_start(&daemon, NULL, "--max-output-bytes=131072");
        struct memory_client *client = memory_daemon_connect(&daemon, USER);
        send_often(client, allocate_line, 1500);
        memory_daemon_settle(&daemon);
        assert_int_equal(lines_told(client), 1500);
        client->deaf = true;
        send_often(client, requests[i], 500);
        bool held = false;
        while (memory_daemon_turn(&daemon)) {
            assert_true(unread_of(client) <= MOST_OUTPUT);
            assert_true(client->connection->output.capacity <= MOST_OUTPUT);
            if (!held && unread_of(client) > 20000) { /* a part of it on its way */
                size_t length;
                size_t capacity;
                char *data = connection_take_output(client->connection, &length, &capacity);
                memory_daemon_turn(&daemon);
                assert_true(unread_of(client) <= MOST_OUTPUT);
                connection_give_back(client->connection, data, length, capacity);
                held = true;
            }
        }
        assert_true(held && unread_of(client) > 65536);
        memory_daemon_end(&daemon);
    }
}

/* Reads all pages of a method; the last page says that it is one. How many items, how many pages.
 */
static size_t read_pages(struct memory_client *client, const char *method, const char *item,
                         size_t *pages)
{
    size_t items = 0;
    uint64_t after = 0;
    char params[64];
    for (*pages = 0; *pages < 1000; ++*pages) {
        snprintf(params, sizeof(params), "\"after\":%" PRIu64, after);
        const char *answer = memory_client_call(client, method, params);
        assert_kind(answer, "result");
        assert_true(strlen(answer) < MOST_OUTPUT);
        items += answer_count(answer, item);
        uint64_t next = answer_u64(answer, "next");
        if (answer_is(answer, "more", "false"))
            break;
        assert_true(next > after);
        after = next;
    }
    return items;
}

static void test_a_page_that_would_be_too_long_is_cut_and_says_more(void **state)
{
    struct memory_daemon daemon;
    char line[512];
    char tag[65] = {0};
    size_t pages;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-output-bytes=131072");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    memset(tag, 'x', 60);
    for (int i = 0; i < 950; i++) {
        snprintf(line, sizeof(line),
                 "{\"method\":\"allocate\",\"params\":{\"requested_bytes\":10,\"stream\":"
                 "9007199254740991,"
                 "\"tag\":\"%s%04d\"}}",
                 tag, i);
        memory_client_send_line(client, line);
    }
    memory_daemon_settle(&daemon);
    assert_int_equal(read_pages(client, "trace", "\"operation\"", &pages), 950);
    assert_true(pages > 0);
    assert_int_equal(read_pages(client, "list", "\"detached\"", &pages), 950);
    assert_true(pages > 0);
    memory_daemon_end(&daemon);
}

static void test_an_info_that_is_too_long_is_refused_in_words(void **state)
{
    struct memory_daemon daemon;
    char params[5000];
    char digits[4301];
    (void)state;
    memory_daemon_start(&daemon, NULL,
                        "--max-output-bytes=131072 --max-allocators-per-connection=40");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    memset(digits, '3', sizeof(digits) - 1);
    digits[sizeof(digits) - 1] = '\0';
    assert_kind(memory_client_call(client, "info", ""), "result");
    for (int i = 0; i < 40; i++) {
        snprintf(params, sizeof(params), "\"name\":\"a%d\",\"seed\":\"%s\"", i, digits);
        assert_kind(memory_client_call(client, "open", params), "result");
    }
    const char *answer = memory_client_call(client, "info", "");
    assert_kind(answer, "limit_exceeded");
    assert_int_equal(answer_u64(answer, "limit"), MOST_OUTPUT);
    assert_kind(memory_client_call(client, "snapshot", ""), "result");
    memory_daemon_end(&daemon);
}

/* --------------------------------------------------------------------------------------- end */

static void
test_at_the_end_of_input_whole_lines_are_carried_out_and_a_half_one_dropped(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-requests-per-turn=2");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    send_often(client, allocate_line, 7);
    memory_client_send(client, allocate_line, sizeof(allocate_line) - 2);
    memory_client_shut(client);
    memory_daemon_settle(&daemon);
    assert_null(client->connection);
    assert_int_equal(lines_told(client), 7);
    assert_int_equal(allocations_made(&daemon), 7);
    memory_daemon_end(&daemon);
}

static void test_a_connection_is_finished_only_when_its_answers_are_written(void **state)
{
    struct memory_daemon daemon;
    size_t length;
    size_t capacity;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    client->deaf = true;
    assert_false(connection_finished(client->connection));
    memory_client_send_text(client, snapshot_line);
    memory_client_shut(client);
    memory_daemon_settle(&daemon);
    assert_false(connection_finished(client->connection));
    char *data = connection_take_output(client->connection, &length, &capacity);
    assert_false(connection_finished(client->connection)); /* on their way, not there */
    connection_give_back(client->connection, data, length, capacity);
    assert_true(connection_finished(client->connection));
    memory_daemon_end(&daemon);
}

static void test_what_is_written_in_pieces_goes_on_where_it_stopped(void **state)
{
    struct memory_daemon daemon;
    char seen[1024];
    size_t length;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    client->deaf = true;
    memory_client_send_text(client, "{\"id\":1,\"method\":\"nonsense\"}\n");
    memory_daemon_settle(&daemon);
    const char *data = connection_output(client->connection, &length);
    assert_true(length > 2 && length < sizeof(seen));
    memcpy(seen, data, length);
    for (size_t written = 0; written < length; written++) {
        size_t left;
        data = connection_output(client->connection, &left);
        assert_int_equal(left, length - written);
        assert_memory_equal(data, seen + written, left);
        connection_written(client->connection, 1);
    }
    assert_int_equal(unread_of(client), 0);
    memory_daemon_end(&daemon);
}

/* -------------------------------------------------------------------------------- half a line */

static void test_half_a_line_ends_its_connection_in_time_with_one_error(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-half-line-seconds=30");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    assert_int_equal(connection_deadline_ms(client->connection), UINT64_MAX);
    memory_client_send_text(client, snapshot_line);
    memory_client_send_text(client, "{\"id\":1,");
    memory_daemon_settle(&daemon);
    assert_int_equal(connection_deadline_ms(client->connection), daemon.now.monotonic_ms + 30000);
    memory_daemon_wait(&daemon, 20000);
    memory_client_send_text(client, "\"met"); /* a byte now and then does not help */
    memory_daemon_settle(&daemon);
    memory_daemon_wait(&daemon, 9999);
    memory_daemon_settle(&daemon);
    assert_non_null(client->connection);
    memory_daemon_wait(&daemon, 1);
    memory_daemon_settle(&daemon);
    assert_null(client->connection);
    assert_kind(memory_client_line(client), "result");
    const char *answer = memory_client_line(client);
    assert_kind(answer, "invalid_request");
    assert_true(answer_is(answer, "id", "null"));
    assert_null(memory_client_line(client));
    assert_non_null(strstr(daemon.log_text, "did not end its line for 30 s"));
    memory_daemon_end(&daemon);
}

static void test_a_line_that_ends_in_time_stops_the_clock(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    memory_client_send(client, snapshot_line, 5);
    memory_daemon_settle(&daemon);
    memory_daemon_wait(&daemon, 29999);
    memory_client_send_text(client, snapshot_line + 5);
    memory_daemon_settle(&daemon);
    assert_kind(memory_client_line(client), "result");
    assert_int_equal(connection_deadline_ms(client->connection), UINT64_MAX);
    memory_daemon_wait(&daemon, 1000000);
    memory_client_send(client, snapshot_line, 5); /* the next one has its own time */
    memory_daemon_settle(&daemon);
    assert_int_equal(connection_deadline_ms(client->connection), daemon.now.monotonic_ms + 30000);
    memory_daemon_end(&daemon);
}

static void test_the_rest_of_a_line_too_long_must_end_in_time_too(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-line-bytes=1024");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    send_often(client, "0123456789", 200);
    memory_daemon_settle(&daemon);
    assert_kind(memory_client_line(client), "invalid_request");
    memory_daemon_wait(&daemon, 30000);
    memory_daemon_settle(&daemon);
    assert_null(client->connection);
    memory_daemon_end(&daemon);
}

/* Who sends without a pause is nearly always in the middle of a line: of another one each time. */
static void test_each_line_has_a_time_of_its_own(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-half-line-seconds=30");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    memory_client_send(client, snapshot_line, 5);
    memory_daemon_settle(&daemon);
    for (int i = 0; i < 10; i++) {
        memory_daemon_wait(&daemon, 20000);
        memory_client_send_text(client, snapshot_line + 5);
        memory_client_send(client, snapshot_line, 5);
        memory_daemon_settle(&daemon);
        assert_kind(memory_client_line(client), "result");
        assert_int_equal(connection_deadline_ms(client->connection),
                         daemon.now.monotonic_ms + 30000);
    }
    memory_daemon_wait(&daemon, 30000);
    memory_daemon_settle(&daemon);
    assert_null(client->connection);
    memory_daemon_end(&daemon);
}

static void test_a_line_after_one_too_long_has_a_time_of_its_own(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-line-bytes=1024 --max-half-line-seconds=30");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    send_often(client, "0123456789", 200);
    memory_daemon_settle(&daemon);
    assert_kind(memory_client_line(client), "invalid_request");
    memory_daemon_wait(&daemon, 20000);
    memory_client_send_text(client, "and its rest\n"); /* ended, and the next one begun */
    memory_client_send(client, snapshot_line, 5);
    memory_daemon_settle(&daemon);
    assert_int_equal(connection_deadline_ms(client->connection), daemon.now.monotonic_ms + 30000);
    memory_daemon_wait(&daemon, 20000);
    memory_client_send_text(client, "a line too long\n"); /* and now one that is too long again */
    send_often(client, "0123456789", 200);
    memory_daemon_settle(&daemon);
    assert_int_equal(connection_deadline_ms(client->connection), daemon.now.monotonic_ms + 30000);
    memory_daemon_end(&daemon);
}

static void test_the_clock_of_half_a_line_does_not_run_while_whole_ones_wait(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-requests-per-turn=1 --max-half-line-seconds=30");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    send_often(client, snapshot_line, 3);
    memory_client_send(client, snapshot_line, 5);
    memory_daemon_turn(&daemon);
    memory_daemon_wait(&daemon, 40000); /* the daemon was busy elsewhere */
    memory_daemon_settle(&daemon);
    assert_int_equal(lines_told(client), 3);
    assert_non_null(client->connection);
    assert_int_equal(connection_deadline_ms(client->connection), daemon.now.monotonic_ms + 30000);
    memory_daemon_end(&daemon);
}

static void test_the_clock_of_half_a_line_does_not_run_while_events_are_unread(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-unread-bytes=100 --max-half-line-seconds=30");
    struct memory_client *worker = memory_daemon_connect(&daemon, USER);
    struct memory_client *watcher = memory_daemon_connect(&daemon, USER);
    assert_kind(memory_client_ask(watcher, "{\"id\":1,\"method\":\"subscribe\"}"), "result");
    memory_client_send(watcher, snapshot_line, 5);
    watcher->deaf = true;
    memory_daemon_settle(&daemon);
    assert_kind(memory_client_call(worker, "allocate", "\"requested_bytes\":100"), "result");
    assert_false(connection_wants_input(watcher->connection)); /* an event fills it */
    memory_daemon_wait(&daemon, 40000);
    memory_daemon_settle(&daemon);
    assert_false(watcher->connection->broken);
    memory_daemon_end(&daemon);
}

static void test_the_clock_of_half_a_line_does_not_run_while_answers_are_unread(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--max-unread-bytes=100 --max-half-line-seconds=30");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    client->deaf = true;
    memory_client_send_text(client, snapshot_line);
    memory_client_send(client, snapshot_line, 5);
    memory_daemon_settle(&daemon);
    for (int i = 0; i < 10; i++) {
        memory_daemon_wait(&daemon, 29000);
        memory_daemon_settle(&daemon);
        assert_non_null(client->connection);
        assert_false(client->connection->broken);
    }
    client->deaf = false; /* it looks up just before its time is over */
    memory_daemon_settle(&daemon);
    assert_kind(memory_client_line(client), "result");
    memory_daemon_wait(&daemon, 29000);
    memory_daemon_settle(&daemon);
    assert_non_null(client->connection);
    memory_client_send_text(client, snapshot_line + 5);
    memory_daemon_settle(&daemon);
    assert_kind(memory_client_line(client), "result");
    memory_client_send(client, snapshot_line, 5); /* from here on it has no excuse */
    memory_daemon_settle(&daemon);
    memory_daemon_wait(&daemon, 60000);
    memory_daemon_wait(&daemon, 60000);
    memory_daemon_settle(&daemon);
    assert_null(client->connection);
    memory_daemon_end(&daemon);
}

static void test_a_broken_connection_carries_nothing_out(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    client->deaf = true;
    memory_client_send(client, allocate_line, 5);
    memory_daemon_settle(&daemon);
    memory_daemon_wait(&daemon, 30000);
    assert_true(client->connection->broken);
    memory_client_send_text(client, allocate_line + 5);
    memory_client_send_text(client, allocate_line);
    memory_daemon_settle(&daemon);
    assert_false(connection_wants_input(client->connection));
    assert_false(connection_wants_turn(client->connection));
    assert_int_equal(connection_deadline_ms(client->connection), UINT64_MAX);
    connection_run(client->connection, daemon.now);
    assert_int_equal(allocations_made(&daemon), 0);
    client->deaf = false;
    memory_daemon_settle(&daemon);
    assert_null(client->connection);
    assert_int_equal(lines_told(client), 1);
    memory_daemon_end(&daemon);
}

/* ----------------------------------------------------------------------------------- buffers */

static void test_an_idle_connection_holds_no_buffer(void **state)
{
    static const char *const texts[] = {
        "{\"id\":1,\"method\":\"snapshot\"}\n",
        "\n",
        "{\"method\":\"snapshot\"}\n",
        "{\"id\":1,\"method\":\"trace\",\"params\":{\"limit\":1}}\n",
        "{\"id\":1,\"half",
    };
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct memory_client *client = memory_daemon_connect(&daemon, USER);
        memory_client_send_text(client, texts[i]);
        memory_daemon_settle(&daemon);
        assert_null(client->connection->output.data);
        assert_int_equal(client->connection->output.capacity, 0);
        assert_int_equal(daemon.server.spares.count, 1);
    }
    memory_daemon_end(&daemon);
}

static void test_steady_traffic_needs_no_memory(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    for (int i = 0; i < 100; i++) {
        send_often(client, snapshot_line, 20);
        memory_daemon_settle(&daemon);
        assert_int_equal(lines_told(client), 20);
        if (i == 0)
            chaos_arm(daemon.chaos, 0, false); /* the first round may make the buffer larger */
    }
    assert_int_equal(daemon.chaos->requests, 0);
    memory_daemon_end(&daemon);
}

static void test_an_output_that_is_given_back_is_kept_for_the_next(void **state)
{
    struct memory_daemon daemon;
    size_t lengths[2];
    size_t capacities[2];
    char *buffers[2];
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    client->deaf = true;
    for (int i = 0; i < 2; i++) {
        memory_client_send_text(client, snapshot_line);
        memory_daemon_settle(&daemon);
        buffers[i] = connection_take_output(client->connection, &lengths[i], &capacities[i]);
        assert_null(client->connection->output.data);
        assert_int_equal(daemon.server.spares.count, 0);
    }
    assert_int_equal(client->connection->in_flight, lengths[0] + lengths[1]);
    size_t pieces = daemon.chaos->live_pieces;
    connection_give_back(client->connection, buffers[0], lengths[0], capacities[0]);
    assert_ptr_equal(daemon.server.spares.items[0].data, buffers[0]);
    connection_give_back(client->connection, buffers[1], lengths[1], capacities[1]);
    assert_ptr_equal(daemon.server.spares.items[1].data, buffers[1]);
    assert_int_equal(daemon.chaos->live_pieces, pieces);
    memory_client_send_text(client, snapshot_line);
    memory_daemon_settle(&daemon);
    assert_ptr_equal(client->connection->output.data, buffers[1]);
    memory_daemon_end(&daemon);
}

/* ------------------------------------------------------------------------------- poor memory */

/* Requests that need no memory themselves: frees by tag. */
static void test_without_memory_for_an_answer_the_request_is_refused_under_its_id(void **state)
{
    enum {
        ALLOCATIONS = 400
    };
    struct memory_daemon daemon;
    char params[80];
    char line[128];
    uint64_t id = 0;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    for (int i = 1; i <= ALLOCATIONS; i++) {
        snprintf(params, sizeof(params), "\"requested_bytes\":1,\"tag\":\"t%d\"", i);
        assert_kind(memory_client_call(client, "allocate", params), "result");
    }
    client->deaf = true;
    chaos_arm(daemon.chaos, 1, true);
    while (!client->connection->starved && id < ALLOCATIONS) {
        id++;
        snprintf(line, sizeof(line),
                 "{\"id\":%" PRIu64 ",\"method\":\"free\",\"params\":{\"tag\":\"t%" PRIu64 "\"}}",
                 id, id);
        memory_client_send_line(client, line);
        memory_daemon_turn(&daemon);
    }
    assert_true(client->connection->starved);
    assert_false(client->connection->broken);
    assert_false(connection_wants_turn(client->connection));
    /* Once something is written there is room again, and the one that waited is carried out. */
    client->deaf = false;
    memory_daemon_settle(&daemon);
    chaos_arm(daemon.chaos, 0, false);
    uint64_t refused = 0;
    for (uint64_t next = 1; next <= id; next++) {
        char kind[ANSWER_KIND_SIZE];
        const char *answer = memory_client_line(client);
        assert_non_null(answer);
        assert_int_equal(answer_u64(answer, "id"), next);
        if (strcmp(answer_kind(answer, kind), "internal_error") == 0)
            refused++;
        else
            assert_string_equal(kind, "result");
    }
    assert_null(memory_client_line(client));
    assert_in_range(refused, 1, id - 2);
    const char *answer = memory_client_call(client, "snapshot", "");
    assert_int_equal(answer_u64(answer, "active_allocations"), ALLOCATIONS - (id - refused));
    memory_daemon_end(&daemon);
}

static void test_without_memory_to_keep_half_a_line_the_client_is_told_and_ended(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    memory_client_send_text(client, allocate_line);
    memory_client_send_text(client, "{\"id\":2,");
    chaos_arm(daemon.chaos, 1, true); /* the whole line wants some as well */
    memory_daemon_settle(&daemon);
    chaos_arm(daemon.chaos, 0, false);
    assert_null(client->connection);
    assert_kind(memory_client_line(client), "internal_error");
    const char *answer = memory_client_line(client);
    assert_kind(answer, "internal_error");
    assert_true(answer_is(answer, "id", "null"));
    assert_null(memory_client_line(client));
    memory_daemon_end(&daemon);
}

static void test_without_memory_to_join_a_line_the_client_is_told_and_ended(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    memory_client_send(client, allocate_line, 5);
    memory_daemon_settle(&daemon);
    chaos_arm(daemon.chaos, 1, true);
    memory_client_send_text(client, allocate_line + 5);
    memory_daemon_settle(&daemon);
    chaos_arm(daemon.chaos, 0, false);
    assert_null(client->connection);
    const char *answer = memory_client_line(client);
    assert_kind(answer, "internal_error");
    assert_true(answer_is(answer, "id", "null"));
    assert_int_equal(allocations_made(&daemon), 0);
    memory_daemon_end(&daemon);
}

static void test_where_not_even_an_error_can_be_said_the_connection_ends(void **state)
{
    struct memory_daemon daemon;
    size_t length;
    size_t capacity;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *rich = memory_daemon_connect(&daemon, USER);
    struct memory_client *poor = memory_daemon_connect(&daemon, USER);
    rich->deaf = true;
    memory_client_send_text(rich, snapshot_line);
    memory_daemon_settle(&daemon);
    char *data =
        connection_take_output(rich->connection, &length, &capacity); /* the one spare buffer */
    chaos_arm(daemon.chaos, 1, true);
    memory_client_send_text(poor, allocate_line);
    memory_daemon_settle(&daemon);
    chaos_arm(daemon.chaos, 0, false);
    assert_null(poor->connection);
    assert_null(memory_client_line(poor));
    assert_int_equal(allocations_made(&daemon), 0);
    connection_give_back(rich->connection, data, length, capacity);
    memory_daemon_end(&daemon);
}

static bool create_a_connection(struct chaos *chaos, void *context)
{
    (void)context;
    struct memory_daemon daemon;
    uint64_t fail_at = chaos->fail_at;
    bool for_good = chaos->for_good;
    chaos_arm(chaos, 0, false);
    memory_daemon_start(&daemon, chaos, "");
    chaos_arm(chaos, fail_at, for_good);
    struct connection *connection =
        connection_create(&daemon.server, (struct peer){.uid = USER}, daemon.now);
    bool failed = chaos->failed;
    assert_int_equal(daemon.server.connections, connection ? 1 : 0);
    assert_int_equal(users_find(&daemon.server.users, USER) != NULL, connection != NULL);
    assert_ptr_equal(connection_after(&daemon.server, 0), connection);
    if (connection)
        connection_destroy(connection);
    assert_null(users_find(&daemon.server.users, USER));
    assert_null(connection_after(&daemon.server, 0));
    chaos_arm(chaos, 0, false);
    memory_daemon_end(&daemon);
    chaos->failed = failed;
    return connection != NULL;
}

static void test_a_connection_without_memory_is_not_made(void **state)
{
    (void)state;
    assert_true(chaos_loop(create_a_connection, NULL) > 0);
    chaos_hook_cjson(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_are_answered_in_their_order),
        cmocka_unit_test(test_a_split_at_any_byte_changes_no_answer),
        cmocka_unit_test(test_a_notification_and_an_empty_line_are_not_answered),
        cmocka_unit_test(test_a_line_too_long_gets_one_error_and_the_next_one_its_answer),
        cmocka_unit_test(test_a_turn_carries_out_so_many_requests_and_loses_none),
        cmocka_unit_test(test_a_turn_that_is_just_full_leaves_nothing_for_another),
        cmocka_unit_test(test_a_long_walk_counts_as_many_requests),
        cmocka_unit_test(test_one_connection_does_not_hold_up_another),
        cmocka_unit_test(test_with_unread_answers_nothing_is_carried_out_until_they_are_read),
        cmocka_unit_test(test_bytes_in_flight_count_as_unread),
        cmocka_unit_test(test_output_never_passes_max_output_bytes),
        cmocka_unit_test(test_a_page_that_would_be_too_long_is_cut_and_says_more),
        cmocka_unit_test(test_an_info_that_is_too_long_is_refused_in_words),
        cmocka_unit_test(
            test_at_the_end_of_input_whole_lines_are_carried_out_and_a_half_one_dropped),
        cmocka_unit_test(test_a_connection_is_finished_only_when_its_answers_are_written),
        cmocka_unit_test(test_what_is_written_in_pieces_goes_on_where_it_stopped),
        cmocka_unit_test(test_half_a_line_ends_its_connection_in_time_with_one_error),
        cmocka_unit_test(test_a_line_that_ends_in_time_stops_the_clock),
        cmocka_unit_test(test_the_rest_of_a_line_too_long_must_end_in_time_too),
        cmocka_unit_test(test_each_line_has_a_time_of_its_own),
        cmocka_unit_test(test_a_line_after_one_too_long_has_a_time_of_its_own),
        cmocka_unit_test(test_the_clock_of_half_a_line_does_not_run_while_whole_ones_wait),
        cmocka_unit_test(test_the_clock_of_half_a_line_does_not_run_while_events_are_unread),
        cmocka_unit_test(test_the_clock_of_half_a_line_does_not_run_while_answers_are_unread),
        cmocka_unit_test(test_a_broken_connection_carries_nothing_out),
        cmocka_unit_test(test_an_idle_connection_holds_no_buffer),
        cmocka_unit_test(test_steady_traffic_needs_no_memory),
        cmocka_unit_test(test_an_output_that_is_given_back_is_kept_for_the_next),
        cmocka_unit_test(test_without_memory_for_an_answer_the_request_is_refused_under_its_id),
        cmocka_unit_test(test_without_memory_to_keep_half_a_line_the_client_is_told_and_ended),
        cmocka_unit_test(test_without_memory_to_join_a_line_the_client_is_told_and_ended),
        cmocka_unit_test(test_where_not_even_an_error_can_be_said_the_connection_ends),
        cmocka_unit_test(test_a_connection_without_memory_is_not_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
