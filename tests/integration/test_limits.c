/* The limits of a real daemon over real sockets: what it refuses, in which words, and that a client
 * that misbehaves costs the others nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/real_daemon.h"

static const char info_request[] = "{\"id\":1,\"method\":\"info\"}";
static const char snapshot_request[] = "{\"id\":1,\"method\":\"snapshot\"}";

#define MIB (UINT64_C(1024) * 1024)

/* --------------------------------------------------------------------------------- too many
 * connections */

static void expect_served(struct real_client *client)
{
    assert_string_equal(real_json_text(real_client_call(client, info_request), "result.server"),
                        "worsegpud");
}

/* One error line with id null, then the end. */
static void expect_turned_away(struct real_client *client, uint64_t limit)
{
    const cJSON *reply = real_client_reply(client);
    real_json_expect_error(reply, "limit_exceeded");
    assert_true(cJSON_IsNull(real_json(reply, "id")));
    assert_int_equal(real_json_number(reply, "error.data.limit"), limit);
    real_client_expect_end(client);
}

/* The daemon learns of an end a moment later: then there is room again. */
static struct real_client *connect_until_served(const struct real_daemon *daemon)
{
    struct real_wait wait = {0};
    for (;; real_wait_more(&wait)) {
        struct real_client *client = real_daemon_connect(daemon);
        if (real_client_send_some(client, info_request, strlen(info_request)) &&
            real_client_send_some(client, "\n", 1) &&
            real_json_has(real_client_reply(client), "result"))
            return client;
    }
}

static void test_one_connection_too_many_is_told_so_and_closed(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--max-connections", "3", NULL);
    struct real_client *clients[3];
    for (unsigned index = 0; index < 3; index++)
        expect_served(clients[index] = real_daemon_connect(&daemon));
    expect_turned_away(real_daemon_connect(&daemon), 3);
    expect_turned_away(real_daemon_connect(&daemon), 3);
    for (unsigned index = 0; index < 3; index++)
        expect_served(clients[index]);
    real_client_close(clients[1]);
    expect_served(connect_until_served(&daemon));
    real_daemon_stop(&daemon);
}

enum {
    OF_USER = 2,
    OTHER_USER = 12345
};

/* In a process of its own, perhaps of another user: one connection more than this user may have.
 * Prints what each was told. It runs in the room, since it may not be allowed to walk there. */
static int connect_as_user(void *context)
{
    static const char line[] = "{\"id\":1,\"method\":\"snapshot\"}\n";
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "s"};
    (void)context;
    for (unsigned index = 0; index <= OF_USER; index++) {
        char answer[2048];
        size_t length = 0;
        int descriptor = socket(AF_UNIX, SOCK_STREAM, 0); /* open until this process ends */
        if (descriptor < 0 ||
            connect(descriptor, (const struct sockaddr *)&address, sizeof(address)) != 0)
            return 91;
        /* One that is turned away may have been closed before we ask. */
        send(descriptor, line, sizeof(line) - 1, MSG_NOSIGNAL);
        do {
            ssize_t count = recv(descriptor, answer + length, sizeof(answer) - length, 0);
            if (count <= 0)
                return 92;
            length += (size_t)count;
        } while (answer[length - 1] != '\n');
        if (write(STDOUT_FILENO, answer, length) != (ssize_t)length)
            return 93;
    }
    return 0;
}

static void test_one_user_can_have_only_so_many_connections(void **state)
{
    struct real_room *room = *state;
    struct real_daemon daemon = real_daemon_start(room, "--max-connections-per-user", "2", NULL);
    struct real_setup setup = {.folder = room->folder, .user = getuid() == 0 ? OTHER_USER : 0};
    if (setup.user)
        assert_int_equal(chmod(daemon.socket_path, 0666), 0);
    struct real_process *process = real_process_fork(room, &setup, connect_as_user, NULL);
    assert_int_equal(real_process_wait(process), 0);
    const char *told = real_process_output(room, process);
    assert_int_equal(real_lines(told), OF_USER + 1);
    assert_int_equal(real_lines_with(told, "\"result\""), OF_USER);
    assert_int_equal(real_lines_with(told, "\"id\":null,\"error\""), 1);
    assert_int_equal(real_lines_with(told, "\"kind\":\"limit_exceeded\",\"limit\":2}"), 1);
    real_daemon_stop(&daemon);
}

static void test_root_is_exempt_from_the_limit_of_a_user(void **state)
{
    if (getuid() != 0) {
        print_message("only root can tell whether root is exempt\n");
        skip();
    }
    struct real_daemon daemon = real_daemon_start(*state, "--max-connections-per-user", "2", NULL);
    struct real_client *clients[5];
    for (unsigned index = 0; index < 5; index++)
        expect_served(clients[index] = real_daemon_connect(&daemon));
    for (unsigned index = 0; index < 5; index++)
        expect_served(clients[index]);
    real_daemon_stop(&daemon);
}

enum {
    FEW_FILES = 64,
    CROWD = 100
};

static void test_with_few_descriptors_it_refuses_in_words_and_does_not_spin(void **state)
{
    struct real_setup setup = {.open_files = FEW_FILES};
    struct real_daemon daemon =
        real_daemon_start_at(*state, &setup, REAL_DAEMON_TOLD, real_room_path(*state, "s"), NULL);
    struct real_client *first = real_daemon_connect(&daemon);
    uint64_t limit =
        real_json_number(real_client_call(first, info_request), "result.limits.max_connections");
    assert_in_range(limit, 1, FEW_FILES - 1);
    assert_int_equal(real_lines_with(real_daemon_log(&daemon), "ulimit -n"), 1);

    struct real_client *crowd[CROWD];
    for (unsigned index = 0; index < CROWD; index++)
        crowd[index] = real_daemon_connect(&daemon);
    for (unsigned index = 0; index + 1 < limit; index++)
        expect_served(crowd[index]);
    for (unsigned index = (unsigned)limit - 1; index < CROWD; index++)
        expect_turned_away(crowd[index], limit);
    assert_true(real_process_descriptors(daemon.process) <= FEW_FILES);

    /* A loop that runs into EMFILE again and again would take the whole second. */
    uint64_t before = real_process_cpu_ms(daemon.process);
    sleep(1);
    assert_true(real_process_cpu_ms(daemon.process) - before < 500);

    for (unsigned index = 0; index < CROWD; index++)
        real_client_close(crowd[index]);
    expect_served(connect_until_served(&daemon));
    expect_served(first);
    real_daemon_stop(&daemon);
}

static void test_descriptors_of_ended_clients_are_closed(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    unsigned before = real_process_descriptors(daemon.process);
    for (unsigned round = 0; round < 50; round++)
        assert_true(real_client_probe(daemon.socket_path));
    assert_int_equal(real_process_descriptors(daemon.process), before);
    real_daemon_stop(&daemon);
}

/* ------------------------------------------------------------------------------------ half a line
 */

static void test_half_a_line_ends_its_connection_and_no_other(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--max-half-line-seconds", "1", NULL);
    struct real_client *silent = real_daemon_connect(&daemon);
    struct real_client *half = real_daemon_connect(&daemon);
    struct real_client *slow = real_daemon_connect(&daemon);
    struct real_wait wait = {0};
    real_client_send_bytes(half, "{\"id\":1,", 8);
    while (!real_client_has_news(slow)) { /* a byte now and then is no whole line either */
        real_client_send_some(slow, "[", 1);
        for (unsigned pause = 0; pause < 50; pause++)
            real_wait_more(&wait);
    }
    struct real_client *ended[] = {half, slow};
    for (unsigned index = 0; index < 2; index++) {
        const cJSON *reply = real_client_reply(ended[index]);
        real_json_expect_error(reply, "invalid_request");
        assert_true(cJSON_IsNull(real_json(reply, "id")));
        real_client_expect_end(ended[index]);
    }
    assert_int_equal(real_lines_with(real_daemon_log(&daemon), "did not end its line for 1 s"), 2);
    expect_served(silent);
    real_daemon_stop(&daemon);
}

/* Whoever is always within a line, of another one each time, does not stand before those whose line
 * never ends. */
static void test_half_a_line_ends_its_connection_beside_a_busy_one(void **state)
{
    static const char rest_and_next[] = "\"method\":\"snapshot\"}\n{\"id\":1,";
    struct real_daemon daemon = real_daemon_start(*state, "--max-half-line-seconds", "1", NULL);
    struct real_client *busy = real_daemon_connect(&daemon);
    struct real_client *half = real_daemon_connect(&daemon);
    struct real_wait wait = {0};
    real_client_send_bytes(busy, "{\"id\":1,", 8);
    expect_served(real_daemon_connect(&daemon)); /* so that the busy one is the first */
    real_client_send_bytes(half, "{\"id\":1,", 8);
    while (!real_client_has_news(half)) {
        real_client_send_bytes(busy, rest_and_next, sizeof(rest_and_next) - 1);
        assert_true(cJSON_IsNumber(real_json(real_client_reply(busy), "result.gpu_used")));
        for (unsigned pause = 0; pause < 50; pause++)
            real_wait_more(&wait);
    }
    real_json_expect_error(real_client_reply(half), "invalid_request");
    real_client_expect_end(half);
    assert_int_equal(real_lines_with(real_daemon_log(&daemon), "did not end its line for 1 s"), 1);
    real_daemon_stop(&daemon);
}

/* ---------------------------------------------------------------------------------- slow readers
 */

enum {
    ASKED = 10000,
    SLOW_READERS = 4
};

/* A client's requests, id 0 to ASKED - 1, and how many of their bytes have been sent. */
struct questions {
    char *bytes;
    size_t length;
    size_t sent;
    unsigned answered;
};

static void ask_many(struct real_room *room, struct questions *questions)
{
    size_t size = (size_t)ASKED * 40;
    char *bytes = test_malloc(size);
    (void)room;
    *questions = (struct questions){.bytes = bytes};
    for (unsigned id = 0; id < ASKED; id++)
        questions->length += (size_t)snprintf(bytes + questions->length, size - questions->length,
                                              "{\"id\":%u,\"method\":\"info\"}\n", id);
}

static void send_on(struct real_client *client, struct questions *questions)
{
    questions->sent += real_client_send_some(client, questions->bytes + questions->sent,
                                             questions->length - questions->sent);
}

static void test_slow_readers_cost_no_memory_and_get_all_answers_in_order(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *slow[SLOW_READERS];
    struct questions questions[SLOW_READERS];
    struct real_client *other = real_daemon_connect(&daemon);
    struct real_wait wait = {0};
    expect_served(other);
    uint64_t before = real_process_resident_bytes(daemon.process);
    for (unsigned index = 0; index < SLOW_READERS; index++) {
        slow[index] = real_daemon_connect(&daemon);
        ask_many(*state, &questions[index]);
    }
    /* Sends until nothing goes in any more: the daemon has stopped reading. */
    for (unsigned quiet = 0; quiet < 100; real_wait_more(&wait)) {
        size_t sent = 0;
        for (unsigned index = 0; index < SLOW_READERS; index++) {
            sent -= questions[index].sent;
            send_on(slow[index], &questions[index]);
            sent += questions[index].sent;
        }
        quiet = sent == 0 ? quiet + 1 : 0;
        expect_served(other);
    }
    uint64_t answers = (uint64_t)ASKED * 1000 * SLOW_READERS;
    uint64_t grown = real_process_resident_bytes(daemon.process) - before;
    if (!real_daemon_is_sanitized() && grown > 2 * MIB)
        fail_msg("grew by %lu bytes, where all answers are %lu", (unsigned long)grown,
                 (unsigned long)answers);

    for (unsigned index = 0; index < SLOW_READERS; index++) {
        struct questions *mine = &questions[index];
        assert_true(mine->sent < mine->length); /* it really was held back */
        while (mine->answered < ASKED) {
            if (mine->sent < mine->length)
                send_on(slow[index], mine);
            else if (mine->answered + 1 == ASKED)
                real_client_shutdown(slow[index]);
            if (mine->sent < mine->length && !real_client_has_news(slow[index]))
                continue;
            const char *line = real_client_line(slow[index]);
            assert_non_null(line);
            char expected[64];
            snprintf(expected, sizeof(expected), "{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{",
                     mine->answered++);
            assert_memory_equal(line, expected, strlen(expected));
        }
        real_client_expect_end(slow[index]);
        test_free(mine->bytes);
    }
    real_daemon_stop(&daemon);
}

/* ------------------------------------------------------------------------------------ floods */

enum {
    FLOODS = 8,
    PER_TURN = 8,
    LOOKS = 100
};

/* Fills its connection with requests for ever, all of them notifications. */
static int flood(void *context)
{
    static const char pair[] =
        "{\"method\":\"allocate\",\"params\":{\"requested_bytes\":64,\"tag\":\"a\"}}\n"
        "{\"method\":\"free\",\"params\":{\"tag\":\"a\"}}\n";
    static char lines[(sizeof(pair) - 1) * 500];
    const char *path = context;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    for (size_t at = 0; at < sizeof(lines); at += sizeof(pair) - 1)
        memcpy(lines + at, pair, sizeof(pair) - 1);
    int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    if (descriptor < 0 ||
        connect(descriptor, (const struct sockaddr *)&address, sizeof(address)) != 0)
        return 91;
    for (size_t at = 0;;) {
        ssize_t count = send(descriptor, lines + at, sizeof(lines) - at, MSG_NOSIGNAL);
        if (count < 0)
            return 92;
        at = (at + (size_t)count) % sizeof(lines);
    }
}

static uint64_t calls_made(struct real_client *client)
{
    const cJSON *snapshot = real_client_call(client, snapshot_request);
    return real_json_number(snapshot, "result.detail.allocate_calls") +
           real_json_number(snapshot, "result.detail.free_calls");
}

/* The daemon sleeps while they all send, so that it reads all batches in one turn of its loop and
 * writes the answers together; some of those who asked have gone meanwhile. */
static void test_batches_of_many_clients_at_once_are_each_answered_whole(void **state)
{
    enum {
        CLIENTS = 40,
        DEPTH = 64,
        GONE = 7 /* every seventh */
    };
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *clients[CLIENTS];
    char line[64];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = real_daemon_connect(&daemon);
        expect_served(clients[i]);
    }
    real_process_signal(daemon.process, SIGSTOP);
    for (int i = 0; i < CLIENTS; i++)
        for (int number = 0; number < DEPTH; number++) {
            snprintf(line, sizeof(line), "{\"id\":%d,\"method\":\"snapshot\"}", number);
            real_client_send(clients[i], line);
        }
    for (int i = 0; i < CLIENTS; i += GONE)
        real_client_close(clients[i]);
    real_process_signal(daemon.process, SIGCONT);
    for (int i = 0; i < CLIENTS; i++)
        for (int number = 0; number < DEPTH && i % GONE != 0; number++) {
            const cJSON *reply = real_client_reply(clients[i]);
            assert_int_equal(real_json_number(reply, "id"), number);
            assert_true(real_json_has(reply, "result"));
        }
    expect_served(clients[1]);
    real_daemon_stop(&daemon);
}

static void test_eight_floods_do_not_starve_a_ninth_client(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--policy", "reference", "--trace-limit",
                                                  "0", "--max-requests-per-turn", "8", NULL);
    struct real_client *ninth = real_daemon_connect(&daemon);
    struct real_process *floods[FLOODS];
    struct real_wait wait = {0};
    for (unsigned index = 0; index < FLOODS; index++)
        floods[index] = real_process_fork(*state, NULL, flood, (void *)daemon.socket_path);
    while (calls_made(ninth) < 100000)
        real_wait_more(&wait);
    /* How many requests of the others are carried out while the ninth has one? It counts turns, not
     * time: the least of many looks is one in which this process did not lose the processor. One
     * buffer of a flood holds a thousand requests. */
    uint64_t least = UINT64_MAX;
    uint64_t before = calls_made(ninth);
    for (unsigned look = 0; look < LOOKS; look++) {
        uint64_t now = calls_made(ninth);
        least = now - before < least ? now - before : least;
        before = now;
    }
    if (least > UINT64_C(4) * FLOODS * PER_TURN)
        fail_msg("%lu requests of others came before one of the ninth", (unsigned long)least);
    for (unsigned index = 0; index < FLOODS; index++)
        assert_false(real_process_has_ended(floods[index])); /* they were at it all the time */
    real_daemon_stop(&daemon);
}

/* ---------------------------------------------------------------------------------------- the log
 */

static void test_lines_about_misbehaviour_are_few_and_cannot_be_forged(void **state)
{
    static char line[70000];
    static const char forged[] = "\r\033[2Jworsegpud: stopped ";
    for (size_t at = 0; at < sizeof(line); at++)
        line[at] = forged[at % (sizeof(forged) - 1)];
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    for (unsigned round = 0; round < 200; round++) {
        real_client_send_bytes(client, line, sizeof(line));
        real_json_expect_error(real_client_call(client, ""), "invalid_request");
    }
    const char *log = real_daemon_log(&daemon);
    assert_in_range(real_lines_with(log, "sent a line of more than 65536 bytes"), 1, 100);
    assert_true(real_lines(log) <= 101);
    for (const char *byte = log; *byte; byte++)
        assert_true(*byte == '\n' || (*byte >= ' ' && *byte < 127));
    real_daemon_stop(&daemon);
}

/* ---------------------------------------------------------------------------------------- memory
 */

enum {
    BATCH = 500
};

/* Sends BATCH requests and reads the answers; how many of them hold `part`. */
static unsigned batch(struct real_client *client, const char *lines, size_t length,
                      const char *part)
{
    unsigned count = 0;
    real_client_send_bytes(client, lines, length);
    for (unsigned index = 0; index < BATCH; index++) {
        const char *line = real_client_line(client);
        assert_non_null(line);
        count += strstr(line, part) != NULL;
    }
    return count;
}

static void test_when_memory_is_used_up_requests_fail_and_the_daemon_goes_on(void **state)
{
    static const char one[] =
        "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":1}}\n";
    static char lines[(sizeof(one) - 1) * BATCH];
    for (size_t at = 0; at < sizeof(lines); at += sizeof(one) - 1)
        memcpy(lines + at, one, sizeof(one) - 1);
    struct real_daemon daemon = real_daemon_start(*state, "--max-memory-bytes", "16MiB", NULL);
    struct real_client *other = real_daemon_connect(&daemon);
    struct real_client *greedy = real_daemon_connect(&daemon);
    uint64_t given = 0;
    unsigned in_batch;
    expect_served(other);
    do {
        in_batch = batch(greedy, lines, sizeof(lines), "\"result\"");
        given += in_batch;
    } while (in_batch == BATCH);
    assert_int_equal(batch(greedy, lines, sizeof(lines), "\"kind\":\"internal_error\""), BATCH);
    assert_int_equal(
        real_json_number(real_client_call(other, snapshot_request), "result.active_allocations"),
        given); /* what failed has changed nothing */
    assert_true(real_process_resident_bytes(daemon.process) < 64 * MIB ||
                real_daemon_is_sanitized());

    real_client_close(greedy);
    struct real_wait wait = {0};
    while (real_json_number(real_client_call(other, snapshot_request),
                            "result.active_allocations") > 0)
        real_wait_more(&wait);
    real_json(real_client_call(
                  other, "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":1}}"),
              "result.handle");
    assert_true(real_json_true(real_client_call(other, "{\"id\":1,\"method\":\"validate\"}"),
                               "result.valid"));
    expect_served(real_daemon_connect(&daemon));
    real_daemon_stop(&daemon);
}

enum {
    MILLION = 1000000,
    WARM_UP = 200000
};

static void test_a_million_requests_leave_memory_where_it_was(void **state)
{
    if (real_daemon_is_sanitized()) {
        print_message("a sanitizer keeps memory back, so its size tells nothing\n");
        skip();
    }
    static const char pair[] =
        "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":3000,\"tag\":\"a\"}}\n"
        "{\"id\":2,\"method\":\"free\",\"params\":{\"tag\":\"a\"}}\n";
    static char lines[(sizeof(pair) - 1) * BATCH / 2];
    for (size_t at = 0; at < sizeof(lines); at += sizeof(pair) - 1)
        memcpy(lines + at, pair, sizeof(pair) - 1);
    struct real_daemon daemon = real_daemon_start(*state, "--seed", "3", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    uint64_t settled = 0;
    for (unsigned made = 0; made < MILLION; made += BATCH) {
        if (made == WARM_UP) /* the trace and the fake GPU are full by now */
            settled = real_process_resident_bytes(daemon.process);
        assert_int_equal(batch(client, lines, sizeof(lines), "\"result\""), BATCH);
    }
    uint64_t end = real_process_resident_bytes(daemon.process);
    if (end > settled + MIB)
        fail_msg("grew from %lu to %lu bytes", (unsigned long)settled, (unsigned long)end);
    real_daemon_stop(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_one_connection_too_many_is_told_so_and_closed),
        IN_ROOM(test_one_user_can_have_only_so_many_connections),
        IN_ROOM(test_root_is_exempt_from_the_limit_of_a_user),
        IN_ROOM(test_with_few_descriptors_it_refuses_in_words_and_does_not_spin),
        IN_ROOM(test_descriptors_of_ended_clients_are_closed),
        IN_ROOM(test_half_a_line_ends_its_connection_and_no_other),
        IN_ROOM(test_half_a_line_ends_its_connection_beside_a_busy_one),
        IN_ROOM(test_slow_readers_cost_no_memory_and_get_all_answers_in_order),
        IN_ROOM(test_batches_of_many_clients_at_once_are_each_answered_whole),
        IN_ROOM(test_eight_floods_do_not_starve_a_ninth_client),
        IN_ROOM(test_lines_about_misbehaviour_are_few_and_cannot_be_forged),
        IN_ROOM(test_when_memory_is_used_up_requests_fail_and_the_daemon_goes_on),
        IN_ROOM(test_a_million_requests_leave_memory_where_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
