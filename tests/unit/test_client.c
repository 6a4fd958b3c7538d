/* The client's connection: calls, pipelines, raw lines, and other sides that misbehave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "client/worsegpu_client.h"
#include "tests/support/chaos.h"
#include "tests/unit/client_fake.h"

enum {
    SOON_MS = 20
};

static void start(struct fake *fake)
{
    assert_true(fake_start(fake, NULL, 0));
}

static void assert_result(const struct fake *fake, const char *expected)
{
    size_t length;
    const char *result = worsegpu_client_result(fake->client, &length);
    assert_non_null(result);
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(result, expected, length);
}

static void test_a_call_sends_one_line_and_gives_the_result(void **state)
{
    (void)state;
    struct fake fake;
    char heard[256];
    start(&fake);
    fake_say(&fake, FAKE_RESULT(1, "{\"a\": [1, \"}\"]}"));
    assert_int_equal(worsegpu_client_call(fake.client, "m", "{\"x\":1}", NULL), WORSEGPU_CLIENT_OK);
    assert_result(&fake, "{\"a\": [1, \"}\"]}");
    fake_hear(&fake, heard, sizeof(heard));
    assert_string_equal(heard, "{\"id\":1,\"method\":\"m\",\"params\":{\"x\":1}}\n");
    fake_end(&fake);
}

static void test_an_error_answer_is_read_with_all_its_members(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_error error;
    start(&fake);
    fake_say(&fake, FAKE_ERROR(1, 5, "quota_exceeded",
                               ",\"limit\":18446744073709551615,\"used\":7,\"requested_bytes\":9,"
                               "\"param\":\"p\",\"method\":\"q\",\"check\":\"c\","
                               "\"which\":\"max_user_gpu_bytes\",\"left\":11,\"rule\":12"));
    assert_int_equal(worsegpu_client_call(fake.client, "m", NULL, &error), WORSEGPU_CLIENT_REFUSED);
    assert_int_equal(error.status, WORSEGPU_CLIENT_REFUSED);
    assert_int_equal(error.code, 5);
    assert_string_equal(error.kind, "quota_exceeded");
    assert_string_equal(error.message, "no");
    assert_true(error.limit_given && error.used_given && error.requested_bytes_given);
    assert_true(error.limit == UINT64_MAX);
    assert_int_equal(error.used, 7);
    assert_int_equal(error.requested_bytes, 9);
    assert_string_equal(error.param, "p");
    assert_string_equal(error.method, "q");
    assert_string_equal(error.check, "c");
    assert_string_equal(error.which, "max_user_gpu_bytes");
    assert_true(error.left_given && error.rule_given);
    assert_int_equal(error.left, 11);
    assert_int_equal(error.rule, 12);
    fake_end(&fake);
}

static void test_a_refused_call_leaves_the_connection_usable(void **state)
{
    (void)state;
    struct fake fake;
    size_t length;
    start(&fake);
    fake_say(&fake, FAKE_ERROR(1, 7, "unknown_allocator", "") FAKE_RESULT(2, "{}"));
    assert_int_equal(worsegpu_client_call(fake.client, "m", NULL, NULL), WORSEGPU_CLIENT_REFUSED);
    assert_null(worsegpu_client_result(fake.client, &length));
    assert_int_equal(worsegpu_client_call(fake.client, "m", NULL, NULL), WORSEGPU_CLIENT_OK);
    fake_end(&fake);
}

static void test_an_answer_in_pieces_is_put_together(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_error error;
    start(&fake);
    assert_int_equal(worsegpu_client_queue(fake.client, "m", NULL, &error), 0);
    assert_int_equal(worsegpu_client_flush(fake.client, &error), 0);
    const char *const pieces[] = {"{\"jsonrpc\":\"2.0\"", ",\"id\":1,\"res", "ult\":{}}", "\n"};
    for (size_t i = 0; i < 4; i++) {
        fake_say(&fake, pieces[i]);
        assert_int_equal(worsegpu_client_advance(fake.client, &error), 0);
    }
    assert_int_equal(worsegpu_client_receive(fake.client, &error), WORSEGPU_CLIENT_OK);
    fake_end(&fake);
}

/* Each of these breaks the contract; the client says so, and is of no more use. */
static void test_an_answer_that_breaks_the_contract_is_a_bad_reply(void **state)
{
    (void)state;
    static const char *const ANSWERS[] = {
        "hello\n",
        "\n",
        "[]\n",
        "null\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},}\n",
        "{\"id\":1,\"result\":{}}\n",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"result\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1.0,\"result\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"event\",\"params\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"news\",\"params\":{}}\n",
        "{\"method\":\"event\",\"params\":{\"allocator\":\"a\",\"missed\":1}}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"event\"}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"missed\":1}}\n",
        ("{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"allocator\":\"a\","
         "\"missed\":0}}\n"),
        ("{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"allocator\":\"a\","
         "\"event\":[]}}\n"),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[]}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"more\":1}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"data\":{\"kind\":\"x\"}}}\n",
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1.5,\"message\":\"\",\"data\":{"
         "\"kind\":"
         "\"x\"}}}\n"),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"\"}}\n",
    };
    for (size_t i = 0; i < sizeof(ANSWERS) / sizeof(ANSWERS[0]); i++) {
        struct fake fake;
        struct worsegpu_client_error error;
        start(&fake);
        fake_say(&fake, ANSWERS[i]);
        assert_int_equal(worsegpu_client_call(fake.client, "m", NULL, &error),
                         WORSEGPU_CLIENT_BAD_REPLY);
        assert_string_equal(error.kind, "bad_reply");
        assert_int_equal(worsegpu_client_call(fake.client, "m", NULL, &error),
                         WORSEGPU_CLIENT_BAD_REPLY);
        fake_end(&fake);
    }
}

/* A daemon that is full says so before it reads anything. */
static void test_an_error_to_nobody_is_taken_as_the_answer(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_error error;
    start(&fake);
    fake_say(&fake, FAKE_ERROR(null, 6, "limit_exceeded", ",\"limit\":3"));
    fake_hang_up(&fake);
    assert_int_equal(worsegpu_client_call(fake.client, "m", NULL, &error), WORSEGPU_CLIENT_REFUSED);
    assert_string_equal(error.kind, "limit_exceeded");
    assert_int_equal(error.limit, 3);
    assert_int_equal(worsegpu_client_call(fake.client, "m", NULL, &error), WORSEGPU_CLIENT_CLOSED);
    fake_end(&fake);
}

static void test_an_end_without_an_answer_is_closed(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_error error;
    start(&fake);
    fake_hang_up(&fake);
    assert_int_equal(worsegpu_client_call(fake.client, "m", NULL, &error), WORSEGPU_CLIENT_CLOSED);
    assert_string_equal(error.kind, "closed");
    assert_false(worsegpu_client_ended_inside_line(fake.client));
    fake_end(&fake);
}

static void test_an_end_inside_an_answer_is_closed_and_told(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_error error;
    start(&fake);
    fake_say(&fake, "{\"jsonrpc\":\"2.0\",\"id\":1,");
    fake_hang_up(&fake);
    assert_int_equal(worsegpu_client_call(fake.client, "m", NULL, &error), WORSEGPU_CLIENT_CLOSED);
    assert_true(worsegpu_client_has_ended(fake.client));
    assert_true(worsegpu_client_ended_inside_line(fake.client));
    fake_end(&fake);
}

static void test_silence_is_a_timeout_and_the_late_answer_is_thrown_away(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_error error;
    assert_true(fake_start(&fake, NULL, SOON_MS));
    assert_int_equal(worsegpu_client_call(fake.client, "m", NULL, &error), WORSEGPU_CLIENT_TIMEOUT);
    assert_string_equal(error.kind, "timeout");
    fake_say(&fake, FAKE_RESULT(1, "{\"late\":true}") FAKE_RESULT(2, "{\"late\":false}"));
    assert_int_equal(worsegpu_client_call(fake.client, "m", NULL, &error), WORSEGPU_CLIENT_OK);
    assert_result(&fake, "{\"late\":false}");
    fake_end(&fake);
}

static void test_a_receive_that_timed_out_can_be_repeated(void **state)
{
    (void)state;
    struct fake fake;
    assert_true(fake_start(&fake, NULL, SOON_MS));
    assert_int_equal(worsegpu_client_queue(fake.client, "m", NULL, NULL), 0);
    assert_int_equal(worsegpu_client_receive(fake.client, NULL), WORSEGPU_CLIENT_TIMEOUT);
    fake_say(&fake, FAKE_RESULT(1, "{}"));
    assert_int_equal(worsegpu_client_receive(fake.client, NULL), WORSEGPU_CLIENT_OK);
    fake_end(&fake);
}

static void test_parameters_that_are_not_strict_json_send_nothing(void **state)
{
    (void)state;
    static const char *const PARAMS[] = {"", "{", "{}x", "{\"a\":01}", "{},\"b\":{}", "\xff"};
    struct fake fake;
    char heard[64];
    struct worsegpu_client_error error;
    start(&fake);
    for (size_t i = 0; i < sizeof(PARAMS) / sizeof(PARAMS[0]); i++) {
        assert_int_equal(worsegpu_client_call(fake.client, "m", PARAMS[i], &error),
                         WORSEGPU_CLIENT_INVALID_ARGUMENT);
        assert_string_equal(error.kind, "invalid_argument");
    }
    assert_int_equal(worsegpu_client_call(fake.client, "\xff", NULL, &error),
                     WORSEGPU_CLIENT_INVALID_ARGUMENT);
    assert_int_equal(worsegpu_client_flush(fake.client, &error), 0);
    fake_hear(&fake, heard, sizeof(heard));
    assert_string_equal(heard, "");
    assert_int_equal(worsegpu_client_due(fake.client), 0);
    fake_end(&fake);
}

static void test_line_ends_between_parameters_stay_within_the_line(void **state)
{
    (void)state;
    struct fake fake;
    char heard[64];
    start(&fake);
    assert_int_equal(worsegpu_client_notify(fake.client, "m", "{\r\n\"a\":\n1}", NULL), 0);
    assert_int_equal(worsegpu_client_flush(fake.client, NULL), 0);
    fake_hear(&fake, heard, sizeof(heard));
    assert_string_equal(heard, "{\"method\":\"m\",\"params\":{  \"a\": 1}}\n");
    fake_end(&fake);
}

static void test_queued_requests_are_answered_in_their_order(void **state)
{
    (void)state;
    struct fake fake;
    struct worsegpu_client_error error;
    start(&fake);
    fake_say(&fake, FAKE_RESULT(1, "{\"n\":1}") FAKE_ERROR(2, 2, "unknown_handle", "")
                        FAKE_RESULT(3, "{\"n\":3}"));
    for (int i = 0; i < 3; i++)
        assert_int_equal(worsegpu_client_queue(fake.client, "m", NULL, &error), 0);
    assert_int_equal(worsegpu_client_due(fake.client), 3);
    assert_int_equal(worsegpu_client_receive(fake.client, &error), WORSEGPU_CLIENT_OK);
    assert_result(&fake, "{\"n\":1}");
    assert_int_equal(worsegpu_client_receive(fake.client, &error), WORSEGPU_CLIENT_REFUSED);
    assert_int_equal(worsegpu_client_receive(fake.client, &error), WORSEGPU_CLIENT_OK);
    assert_result(&fake, "{\"n\":3}");
    assert_int_equal(worsegpu_client_receive(fake.client, &error),
                     WORSEGPU_CLIENT_INVALID_ARGUMENT);
    fake_end(&fake);
}

static void test_a_call_between_queued_requests_is_refused(void **state)
{
    (void)state;
    struct fake fake;
    start(&fake);
    assert_int_equal(worsegpu_client_queue(fake.client, "m", NULL, NULL), 0);
    assert_int_equal(worsegpu_client_call(fake.client, "m", NULL, NULL),
                     WORSEGPU_CLIENT_INVALID_ARGUMENT);
    assert_int_equal(
        worsegpu_client_snapshot(fake.client, NULL, &(struct worsegpu_client_snapshot){0}, NULL),
        WORSEGPU_CLIENT_INVALID_ARGUMENT);
    assert_int_equal(worsegpu_client_due(fake.client), 1);
    fake_end(&fake);
}

/* The other side answers each request at length before it reads the next one: with both sockets
 * full, a client that only writes would stand still for ever. */
enum {
    MANY = 3000,
    LONG_ANSWER = 1000
};

static void *answer_at_length(void *context)
{
    FILE *stream = fdopen(*(int *)context, "r+");
    char *line = NULL;
    size_t room = 0;
    char filler[LONG_ANSWER + 1];
    memset(filler, 'x', LONG_ANSWER);
    filler[LONG_ANSWER] = '\0';
    for (int i = 1; i <= MANY && getline(&line, &room, stream) > 0; i++) {
        char answer[LONG_ANSWER + 100];
        int length =
            snprintf(answer, sizeof(answer),
                     "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"a\":\"%s\"}}\n", i, filler);
        if (send(fileno(stream), answer, (size_t)length, MSG_NOSIGNAL) != length)
            break;
    }
    free(line);
    fclose(stream);
    return NULL;
}

static void test_many_requests_at_once_never_stand_still(void **state)
{
    (void)state;
    struct fake fake;
    pthread_t thread;
    start(&fake);
    int descriptor = fake.server;
    fake.server = -1; /* the thread's from now on */
    char params[LONG_ANSWER];
    snprintf(params, sizeof(params), "{\"a\":\"%0*d\"}", LONG_ANSWER - 20, 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(worsegpu_client_queue(fake.client, "m", params, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, answer_at_length, &descriptor), 0);
    assert_int_equal(worsegpu_client_flush(fake.client, NULL), 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(worsegpu_client_receive(fake.client, NULL), WORSEGPU_CLIENT_OK);
    pthread_join(thread, NULL);
    fake_end(&fake);
}

/* An other side that never stops talking. */
static void *flood(void *context)
{
    char bytes[64 * 1024];
    memset(bytes, 'x', sizeof(bytes));
    while (send(*(int *)context, bytes, sizeof(bytes), MSG_NOSIGNAL) > 0)
        continue;
    return NULL;
}

static void test_an_endless_answer_is_cut_off(void **state)
{
    (void)state;
    struct fake fake;
    pthread_t thread;
    struct worsegpu_client_error error;
    start(&fake);
    assert_int_equal(pthread_create(&thread, NULL, flood, &fake.server), 0);
    assert_int_equal(worsegpu_client_call(fake.client, "m", NULL, &error),
                     WORSEGPU_CLIENT_BAD_REPLY);
    worsegpu_client_disconnect(fake.client);
    fake.client = NULL;
    pthread_join(thread, NULL);
    fake_end(&fake);
}

static void test_raw_lines_go_out_and_come_in_as_they_are(void **state)
{
    (void)state;
    struct fake fake;
    char heard[64];
    const char *line;
    size_t length;
    start(&fake);
    assert_int_equal(worsegpu_client_queue_line(fake.client, "{]", 2, NULL), 0);
    assert_int_equal(worsegpu_client_queue_line(fake.client, "", 0, NULL), 0);
    assert_int_equal(worsegpu_client_queue_line(fake.client, "a\nb", 3, NULL),
                     WORSEGPU_CLIENT_INVALID_ARGUMENT);
    assert_int_equal(worsegpu_client_advance(fake.client, NULL), 0);
    fake_hear(&fake, heard, sizeof(heard));
    assert_string_equal(heard, "{]\n\n");
    fake_say(&fake, "x\n\nhalf");
    assert_int_equal(worsegpu_client_advance(fake.client, NULL), 0);
    assert_int_equal(worsegpu_client_next_line(fake.client, &line, &length, NULL), 0);
    assert_int_equal(length, 1);
    assert_int_equal(line[0], 'x');
    assert_int_equal(worsegpu_client_next_line(fake.client, &line, &length, NULL), 0);
    assert_non_null(line);
    assert_int_equal(length, 0);
    assert_int_equal(worsegpu_client_next_line(fake.client, &line, &length, NULL), 0);
    assert_null(line);
    fake_end(&fake);
}

static void test_finish_tells_the_other_side_that_no_more_comes(void **state)
{
    (void)state;
    struct fake fake;
    char byte;
    start(&fake);
    assert_int_equal(worsegpu_client_queue_line(fake.client, "a", 1, NULL), 0);
    assert_int_equal(worsegpu_client_finish(fake.client, NULL), WORSEGPU_CLIENT_INVALID_ARGUMENT);
    assert_int_equal(worsegpu_client_flush(fake.client, NULL), 0);
    assert_int_equal(worsegpu_client_finish(fake.client, NULL), 0);
    assert_int_equal(recv(fake.server, &byte, 1, 0), 1);
    assert_int_equal(recv(fake.server, &byte, 1, 0), 1);
    assert_int_equal(recv(fake.server, &byte, 1, 0), 0);
    fake_end(&fake);
}

static void test_a_call_after_finish_is_closed(void **state)
{
    (void)state;
    struct fake fake;
    assert_true(fake_start(&fake, NULL, 0));
    assert_int_equal(worsegpu_client_finish(fake.client, NULL), 0);
    fake_hang_up(&fake);
    assert_int_equal(worsegpu_client_call(fake.client, "m", NULL, NULL), WORSEGPU_CLIENT_CLOSED);
    fake_end(&fake);
}

/* ------------------------------------------------------------------------------ connecting */

static void test_a_path_too_long_is_refused_with_both_numbers(void **state)
{
    (void)state;
    char path[200];
    worsegpu_client *client;
    struct worsegpu_client_error error;
    memset(path, 'p', sizeof(path));
    path[108] = '\0';
    struct worsegpu_client_options options = {.path = path};
    assert_int_equal(worsegpu_client_connect(&options, &client, &error),
                     WORSEGPU_CLIENT_INVALID_ARGUMENT);
    assert_null(client);
    assert_non_null(strstr(error.message, "108"));
    assert_non_null(strstr(error.message, "107"));
}

static void test_a_path_of_the_greatest_length_is_tried(void **state)
{
    (void)state;
    char path[108] = "/";
    worsegpu_client *client;
    struct worsegpu_client_error error;
    memset(path + 1, 'p', sizeof(path) - 2);
    path[107] = '\0';
    struct worsegpu_client_options options = {.path = path};
    assert_int_equal(worsegpu_client_connect(&options, &client, &error), WORSEGPU_CLIENT_NO_DAEMON);
}

static void test_nobody_at_the_path_is_no_daemon(void **state)
{
    (void)state;
    worsegpu_client *client;
    struct worsegpu_client_error error;
    struct worsegpu_client_options options = {.path = "/nonexistent/worsegpud.sock"};
    assert_int_equal(worsegpu_client_connect(&options, &client, &error), WORSEGPU_CLIENT_NO_DAEMON);
    assert_null(client);
    assert_string_equal(error.kind, "no_daemon");
    assert_non_null(strstr(error.message, "/nonexistent/worsegpud.sock"));
}

/* A listening socket below a fresh XDG_RUNTIME_DIR. */
struct place {
    char folder[64];
    char inner[96];
    char path[128];
    int listener;
};

static void place_start(struct place *place)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(place->folder, sizeof(place->folder), "/tmp/worsegpu-client-XXXXXX");
    assert_non_null(mkdtemp(place->folder));
    snprintf(place->inner, sizeof(place->inner), "%s/worsegpu", place->folder);
    assert_int_equal(mkdir(place->inner, 0700), 0);
    snprintf(place->path, sizeof(place->path), "%s/worsegpud.sock", place->inner);
    memcpy(address.sun_path, place->path, strlen(place->path) + 1);
    place->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(place->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(place->listener, 1), 0);
    setenv("XDG_RUNTIME_DIR", place->folder, 1);
    unsetenv("WORSEGPU_SOCKET");
}

static void place_end(struct place *place)
{
    close(place->listener);
    unlink(place->path);
    rmdir(place->inner);
    rmdir(place->folder);
}

static void test_the_users_socket_is_found(void **state)
{
    (void)state;
    struct place place = {0};
    worsegpu_client *client;
    place_start(&place);
    assert_int_equal(worsegpu_client_connect(NULL, &client, NULL), WORSEGPU_CLIENT_OK);
    int flags = fcntl(worsegpu_client_descriptor(client), F_GETFD);
    assert_true((flags & FD_CLOEXEC) != 0);
    worsegpu_client_disconnect(client);
    place_end(&place);
}

static void test_with_worsegpu_socket_set_no_other_place_is_tried(void **state)
{
    (void)state;
    struct place place = {0};
    worsegpu_client *client;
    struct worsegpu_client_error error;
    place_start(&place);
    setenv("WORSEGPU_SOCKET", "/nonexistent/only-here", 1);
    assert_int_equal(worsegpu_client_connect(NULL, &client, &error), WORSEGPU_CLIENT_NO_DAEMON);
    assert_non_null(strstr(error.message, "/nonexistent/only-here"));
    place_end(&place);
}

static void test_an_empty_worsegpu_socket_counts_as_unset(void **state)
{
    (void)state;
    struct place place = {0};
    worsegpu_client *client;
    place_start(&place);
    setenv("WORSEGPU_SOCKET", "", 1);
    assert_int_equal(worsegpu_client_connect(NULL, &client, NULL), WORSEGPU_CLIENT_OK);
    worsegpu_client_disconnect(client);
    place_end(&place);
}

static void test_a_full_backlog_is_a_timeout(void **state)
{
    (void)state;
    struct place place = {0};
    worsegpu_client *clients[16] = {NULL};
    int status = WORSEGPU_CLIENT_OK;
    size_t count = 0;
    place_start(&place);
    struct worsegpu_client_options options = {.path = place.path, .timeout_ms = SOON_MS};
    while (status == WORSEGPU_CLIENT_OK && count < 16)
        status = worsegpu_client_connect(&options, &clients[count++], NULL);
    assert_int_equal(status, WORSEGPU_CLIENT_TIMEOUT);
    while (count > 0)
        worsegpu_client_disconnect(clients[--count]);
    place_end(&place);
}

/* ------------------------------------------------------------------------------ chaos */

static bool connect_under_chaos(struct chaos *chaos, void *context)
{
    const struct place *place = context;
    worsegpu_client *client;
    struct worsegpu_client_error error;
    struct worsegpu_client_options options = {.path = place->path, .memory = &chaos->memory};
    int status = worsegpu_client_connect(&options, &client, &error);
    assert_true(status == WORSEGPU_CLIENT_OK || status == WORSEGPU_CLIENT_NO_MEMORY);
    assert_true((client != NULL) == (status == WORSEGPU_CLIENT_OK));
    worsegpu_client_disconnect(client);
    int accepted = accept(place->listener, NULL, NULL);
    assert_true(accepted >= 0);
    close(accepted);
    return status == WORSEGPU_CLIENT_OK;
}

static void test_connect_survives_each_failing_allocation(void **state)
{
    (void)state;
    struct place place = {0};
    place_start(&place);
    assert_true(chaos_loop(connect_under_chaos, &place) > 0);
    place_end(&place);
}

/* Either it went through, or it says no memory; then the answer is thrown away, and the next call
 * with memory works. */
static bool call_under_chaos(struct chaos *chaos, void *context)
{
    (void)context;
    struct fake fake;
    if (!fake_start(&fake, &chaos->memory, 0))
        return false;
    chaos_hook_cjson(chaos);
    fake_say(&fake, FAKE_RESULT(1, "{\"a\":[1,2,3],\"b\":\"text\"}"));
    int status = worsegpu_client_call(fake.client, "m", "{\"a\":{\"b\":1,\"c\":2}}", NULL);
    bool through = status == WORSEGPU_CLIENT_OK;
    assert_true(through || status == WORSEGPU_CLIENT_NO_MEMORY);
    if (!through) {
        char heard[128];
        chaos_arm(chaos, 0, false);
        chaos->failed = true;
        fake_hear(&fake, heard, sizeof(heard));
        /* Not sent at all, or sent whole. */
        bool sent = heard[0] != '\0';
        if (sent)
            fake_say(&fake, FAKE_RESULT(2, "{}"));
        status = worsegpu_client_call(fake.client, "m", NULL, NULL);
        assert_int_equal(status, WORSEGPU_CLIENT_OK);
        if (sent)
            assert_result(&fake, "{}");
        else
            assert_result(&fake, "{\"a\":[1,2,3],\"b\":\"text\"}");
    }
    fake_end(&fake);
    chaos_hook_cjson(NULL);
    return through;
}

static void test_call_survives_each_failing_allocation(void **state)
{
    (void)state;
    assert_true(chaos_loop(call_under_chaos, NULL) > 0);
}

/* Whatever fails, trying again goes on where it stood: all three answers come, in order. */
static bool pipeline_under_chaos(struct chaos *chaos, void *context)
{
    (void)context;
    struct fake fake;
    bool through = true;
    if (!fake_start(&fake, &chaos->memory, 0))
        return false;
    chaos_hook_cjson(chaos);
    fake_say(&fake,
             FAKE_RESULT(1, "{\"n\":1}") FAKE_RESULT(2, "{\"n\":2}") FAKE_RESULT(3, "{\"n\":3}"));
    for (int step = 0; step < 8;) {
        int status;
        if (step < 3)
            status = worsegpu_client_queue(fake.client, "m", "{}", NULL);
        else if (step == 3)
            status = worsegpu_client_queue_line(fake.client, "{\"method\":\"x\"}", 14, NULL);
        else if (step == 4)
            status = worsegpu_client_flush(fake.client, NULL);
        else
            status = worsegpu_client_receive(fake.client, NULL);
        assert_true(status == WORSEGPU_CLIENT_OK || status == WORSEGPU_CLIENT_NO_MEMORY);
        if (status != WORSEGPU_CLIENT_OK) {
            chaos_arm(chaos, 0, false);
            chaos->failed = true;
            through = false;
            continue;
        }
        if (step >= 5) {
            char expected[16];
            snprintf(expected, sizeof(expected), "{\"n\":%d}", step - 4);
            assert_result(&fake, expected);
        }
        step++;
    }
    char heard[512];
    fake_hear(&fake, heard, sizeof(heard));
    assert_string_equal(heard, "{\"id\":1,\"method\":\"m\",\"params\":{}}\n"
                               "{\"id\":2,\"method\":\"m\",\"params\":{}}\n"
                               "{\"id\":3,\"method\":\"m\",\"params\":{}}\n"
                               "{\"method\":\"x\"}\n");
    fake_end(&fake);
    chaos_hook_cjson(NULL);
    return through;
}

static void test_a_pipeline_survives_each_failing_allocation(void **state)
{
    (void)state;
    assert_true(chaos_loop(pipeline_under_chaos, NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_sends_one_line_and_gives_the_result),
        cmocka_unit_test(test_an_error_answer_is_read_with_all_its_members),
        cmocka_unit_test(test_a_refused_call_leaves_the_connection_usable),
        cmocka_unit_test(test_an_answer_in_pieces_is_put_together),
        cmocka_unit_test(test_an_answer_that_breaks_the_contract_is_a_bad_reply),
        cmocka_unit_test(test_an_error_to_nobody_is_taken_as_the_answer),
        cmocka_unit_test(test_an_end_without_an_answer_is_closed),
        cmocka_unit_test(test_an_end_inside_an_answer_is_closed_and_told),
        cmocka_unit_test(test_silence_is_a_timeout_and_the_late_answer_is_thrown_away),
        cmocka_unit_test(test_a_receive_that_timed_out_can_be_repeated),
        cmocka_unit_test(test_parameters_that_are_not_strict_json_send_nothing),
        cmocka_unit_test(test_line_ends_between_parameters_stay_within_the_line),
        cmocka_unit_test(test_queued_requests_are_answered_in_their_order),
        cmocka_unit_test(test_a_call_between_queued_requests_is_refused),
        cmocka_unit_test(test_many_requests_at_once_never_stand_still),
        cmocka_unit_test(test_an_endless_answer_is_cut_off),
        cmocka_unit_test(test_raw_lines_go_out_and_come_in_as_they_are),
        cmocka_unit_test(test_finish_tells_the_other_side_that_no_more_comes),
        cmocka_unit_test(test_a_call_after_finish_is_closed),
        cmocka_unit_test(test_a_path_too_long_is_refused_with_both_numbers),
        cmocka_unit_test(test_a_path_of_the_greatest_length_is_tried),
        cmocka_unit_test(test_nobody_at_the_path_is_no_daemon),
        cmocka_unit_test(test_the_users_socket_is_found),
        cmocka_unit_test(test_with_worsegpu_socket_set_no_other_place_is_tried),
        cmocka_unit_test(test_an_empty_worsegpu_socket_counts_as_unset),
        cmocka_unit_test(test_a_full_backlog_is_a_timeout),
        cmocka_unit_test(test_connect_survives_each_failing_allocation),
        cmocka_unit_test(test_call_survives_each_failing_allocation),
        cmocka_unit_test(test_a_pipeline_survives_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
