/* A whole daemon in memory; see memory_daemon.h. */
#include "tests/support/memory_daemon.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/reload.h"
#include "tests/support/chaos.h"

enum {
    CHUNK_BYTES = 65536 /* what one read brings at most */
};

/* ------------------------------------------------------------------------------------- bytes */

static void bytes_add(struct memory_bytes *bytes, const char *more, size_t length)
{
    if (bytes->start > 0 && bytes->length + length + 1 > bytes->capacity) {
        bytes->length -= bytes->start;
        memmove(bytes->data, bytes->data + bytes->start, bytes->length);
        bytes->start = 0;
    }
    if (bytes->length + length + 1 > bytes->capacity) {
        bytes->capacity = 2 * (bytes->length + length + 1);
        bytes->data = realloc(bytes->data, bytes->capacity);
        assert_non_null(bytes->data);
    }
    memcpy(bytes->data + bytes->length, more, length);
    bytes->length += length;
    bytes->data[bytes->length] = '\0';
}

static void bytes_take(struct memory_bytes *bytes, size_t length)
{
    bytes->start += length;
    if (bytes->start < bytes->length)
        return;
    bytes->start = bytes->length = 0;
}

static size_t bytes_left(const struct memory_bytes *bytes)
{
    return bytes->length - bytes->start;
}

/* ------------------------------------------------------------------------------ the daemon */

static void read_options(struct memory_daemon *daemon, const char *words)
{
    static char program[] = "worsegpud";
    static char seed[] = "--seed=7";
    char message[OPTIONS_MESSAGE_SIZE];
    char **argv = daemon->argv;
    char *rest = NULL;
    assert_true(strlen(words) < sizeof(daemon->words));
    memcpy(daemon->words, words, strlen(words) + 1);
    argv[0] = program;
    argv[1] = seed;
    daemon->argc = 2;
    for (char *word = strtok_r(daemon->words, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        assert_true(daemon->argc < MEMORY_DAEMON_MOST_WORDS);
        argv[daemon->argc++] = word;
    }
    if (options_read(&daemon->options, &daemon->chaos->memory, daemon->argc, argv, message) !=
        OPTIONS_FINE)
        fail_msg("%s", message);
}

void memory_daemon_start(struct memory_daemon *daemon, struct chaos *chaos, const char *words)
{
    char message[OPTIONS_MESSAGE_SIZE] = "";
    memset(daemon, 0, sizeof(*daemon));
    daemon->chaos = chaos ? chaos : &daemon->own_chaos;
    if (!chaos)
        chaos_init(&daemon->own_chaos);
    chaos_hook_cjson(daemon->chaos);
    daemon->now = (struct moment){.wall_us = UINT64_C(1700000000000000), .monotonic_ms = 1000000};
    read_options(daemon, words);
    FILE *stream = open_memstream(&daemon->log_text, &daemon->log_length);
    assert_non_null(stream);
    log_init(&daemon->log, stream, LOG_LEVEL_INFO);
    if (server_init(&daemon->server, &daemon->options, &daemon->chaos->memory, &daemon->log,
                    daemon->now, message, sizeof(message)) != WORSEGPU_OK)
        fail_msg("%s", message);
    daemon->server.pid = 1;
}

static void end_connection(struct memory_client *client)
{
    struct memory_writing *writing = &client->writing;
    if (writing->data)
        connection_give_back(client->connection, writing->data, writing->length, writing->capacity);
    *writing = (struct memory_writing){.data = NULL};
    connection_destroy(client->connection);
    client->connection = NULL;
}

static void release_client(struct memory_client *client)
{
    free(client->sent.data);
    free(client->told.data);
    free(client->line);
    free(client);
}

void memory_daemon_end(struct memory_daemon *daemon)
{
    struct memory_client *client;
    while ((client = daemon->clients) != NULL) {
        daemon->clients = client->next;
        if (client->connection)
            end_connection(client);
        release_client(client);
    }
    while (server_reap(&daemon->server, daemon->now))
        ;
    assert_int_equal(daemon->server.connections, 0);
    server_release(&daemon->server);
    assert_true(RB_EMPTY(&daemon->server.clients));
    assert_true(RB_EMPTY(&daemon->server.users.tree)); /* every charge came back */
    options_release(&daemon->options);
    fclose(daemon->log.stream);
    free(daemon->log_text);
    if (daemon->chaos != &daemon->own_chaos)
        return;
    assert_int_equal(daemon->chaos->live_bytes, 0);
    assert_int_equal(daemon->chaos->live_pieces, 0);
    chaos_hook_cjson(NULL);
}

bool memory_client_take_in(struct memory_client *client, size_t most)
{
    struct connection *connection = client->connection;
    struct moment now = client->daemon->now;
    size_t sent = bytes_left(&client->sent);
    if (sent > 0 && connection_wants_input(connection)) {
        size_t length = sent < most ? sent : most;
        /* Of its own size: who reads past the chunk is seen by the sanitizers. */
        char *chunk = malloc(length);
        assert_non_null(chunk);
        memcpy(chunk, client->sent.data + client->sent.start, length);
        connection_receive(connection, chunk, length, now);
        free(chunk);
        bytes_take(&client->sent, length);
        return true;
    }
    if (connection_wants_turn(connection)) {
        connection_run(connection, now);
        return true;
    }
    if (!client->shut || sent > 0 || connection->input_ended)
        return false;
    connection_end_input(connection);
    return true;
}

/* How many of `length` bytes fit into the window. */
static size_t window_takes(const struct memory_client *client, size_t length)
{
    size_t waiting = bytes_left(&client->told);
    if (client->window == 0)
        return length;
    size_t room = waiting < client->window ? client->window - waiting : 0;
    return length < room ? length : room;
}

/* A write that takes its time goes on. */
static bool write_on(struct memory_client *client)
{
    struct memory_writing *writing = &client->writing;
    size_t more = window_takes(client, writing->length - writing->done);
    bytes_add(&client->told, writing->data + writing->done, more);
    writing->done += more;
    if (writing->done < writing->length)
        return more > 0;
    connection_give_back(client->connection, writing->data, writing->length, writing->capacity);
    *writing = (struct memory_writing){.data = NULL};
    return true;
}

/* As the transport: what the socket does not take at once goes into a write of its own. */
static bool write_out(struct memory_client *client)
{
    struct connection *connection = client->connection;
    struct memory_writing *writing = &client->writing;
    size_t length;
    const char *output = connection_output(connection, &length);
    if (length == 0)
        return false;
    size_t taken = window_takes(client, length);
    bytes_add(&client->told, output, taken);
    if (taken == length) {
        connection_written(connection, length);
        return true;
    }
    writing->data = connection_take_output(connection, &writing->length, &writing->capacity);
    writing->done = taken;
    return true;
}

bool memory_client_flush(struct memory_client *client)
{
    bool moved = false;
    if (!client->deaf)
        moved = client->writing.data ? write_on(client) : write_out(client);
    if (!connection_finished(client->connection))
        return moved;
    end_connection(client);
    return true;
}

/* What the transport does for one stream in a turn. */
static bool tend(struct memory_client *client)
{
    bool moved = memory_client_take_in(client, CHUNK_BYTES);
    return memory_client_flush(client) || moved;
}

bool memory_daemon_serve_events(struct memory_daemon *daemon)
{
    bool moved = false;
    if (subscriptions_begin_turn(&daemon->server, daemon->now.monotonic_ms))
        while (subscriptions_serve(&daemon->server))
            moved = true;
    return moved;
}

bool memory_daemon_reap(struct memory_daemon *daemon)
{
    if (!server_must_reap(&daemon->server))
        return false;
    server_reap(&daemon->server, daemon->now);
    return true;
}

bool memory_daemon_turn(struct memory_daemon *daemon)
{
    bool moved = false;
    for (struct memory_client *client = daemon->clients; client; client = client->next)
        if (client->connection)
            moved = tend(client) || moved;
    moved = memory_daemon_serve_events(daemon) || moved;
    return (!daemon->left_alone && memory_daemon_reap(daemon)) || moved;
}

bool memory_daemon_reload(struct memory_daemon *daemon)
{
    return reload(&daemon->server, &daemon->options, daemon->argc, daemon->argv);
}

void memory_daemon_settle(struct memory_daemon *daemon)
{
    while (memory_daemon_turn(daemon))
        ;
}

void memory_daemon_wait(struct memory_daemon *daemon, uint64_t milliseconds)
{
    daemon->now.monotonic_ms += milliseconds;
    daemon->now.wall_us += milliseconds * 1000;
    for (struct memory_client *client = daemon->clients; client; client = client->next)
        if (client->connection &&
            connection_deadline_ms(client->connection) <= daemon->now.monotonic_ms)
            connection_expire(client->connection, daemon->now);
}

struct hosted *memory_daemon_gpu0(const struct memory_daemon *daemon)
{
    return TAILQ_FIRST(&daemon->server.shared);
}

/* ------------------------------------------------------------------------------ the clients */

struct memory_client *memory_daemon_connect(struct memory_daemon *daemon, uid_t uid)
{
    const struct peer peer = {.uid = uid, .gid = (gid_t)uid, .pid = 100, .admin = uid == 0};
    return memory_daemon_connect_peer(daemon, peer);
}

struct memory_client *memory_daemon_connect_peer(struct memory_daemon *daemon, struct peer peer)
{
    struct memory_client *client = memory_daemon_let_in(daemon, peer);
    assert_non_null(client);
    return client;
}

struct memory_client *memory_daemon_let_in(struct memory_daemon *daemon, struct peer peer)
{
    struct memory_client *client = calloc(1, sizeof(*client));
    assert_non_null(client);
    client->daemon = daemon;
    client->connection = connection_create(&daemon->server, peer, daemon->now);
    if (!client->connection) {
        free(client);
        return NULL;
    }
    struct memory_client **last = &daemon->clients;
    while (*last)
        last = &(*last)->next;
    *last = client;
    return client;
}

void memory_client_send(struct memory_client *client, const char *bytes, size_t length)
{
    assert_false(client->shut);
    bytes_add(&client->sent, bytes, length);
}

void memory_client_send_text(struct memory_client *client, const char *text)
{
    memory_client_send(client, text, strlen(text));
}

void memory_client_send_line(struct memory_client *client, const char *line)
{
    memory_client_send_text(client, line);
    memory_client_send(client, "\n", 1);
}

void memory_client_shut(struct memory_client *client)
{
    client->shut = true;
}

void memory_client_hang_up(struct memory_client *client)
{
    client->shut = true;
    bytes_take(&client->sent, bytes_left(&client->sent));
    if (client->connection)
        end_connection(client);
}

void memory_client_forget(struct memory_client *client)
{
    struct memory_client **place = &client->daemon->clients;
    assert_null(client->connection);
    while (*place != client)
        place = &(*place)->next;
    *place = client->next;
    release_client(client);
}

size_t memory_client_read(struct memory_client *client, char *bytes, size_t most)
{
    size_t left = bytes_left(&client->told);
    size_t length = left < most ? left : most;
    if (length == 0)
        return 0;
    memcpy(bytes, client->told.data + client->told.start, length);
    bytes_take(&client->told, length);
    return length;
}

const char *memory_client_line(struct memory_client *client)
{
    size_t left = bytes_left(&client->told);
    const char *start = left > 0 ? client->told.data + client->told.start : NULL;
    const char *end = start ? memchr(start, '\n', left) : NULL;
    if (!end)
        return NULL;
    size_t length = (size_t)(end - start);
    free(client->line);
    client->line = strndup(start, length);
    assert_non_null(client->line);
    bytes_take(&client->told, length + 1);
    return client->line;
}

const char *memory_client_ask(struct memory_client *client, const char *line)
{
    assert_int_equal(bytes_left(&client->told), 0);
    memory_client_send_line(client, line);
    memory_daemon_settle(client->daemon);
    const char *answer = memory_client_line(client);
    if (!answer)
        fail_msg("no answer to %s", line);
    assert_int_equal(bytes_left(&client->told), 0);
    return answer;
}

const char *memory_client_call(struct memory_client *client, const char *method, const char *params)
{
    static const char form[] = "{\"id\":1,\"method\":\"%s\",\"params\":{%s}}";
    size_t size = sizeof(form) + strlen(method) + strlen(params);
    char *line = malloc(size);
    assert_non_null(line);
    snprintf(line, size, form, method, params);
    const char *answer = memory_client_ask(client, line);
    free(line);
    return answer;
}

/* ----------------------------------------------------------------------------------- answers */

const char *answer_member(const char *answer, const char *name)
{
    char key[80];
    int length = snprintf(key, sizeof(key), "\"%s\":", name);
    assert_true(length > 0 && (size_t)length < sizeof(key));
    const char *found = strstr(answer, key);
    return found ? found + length : NULL;
}

static const char *member_there(const char *answer, const char *name)
{
    const char *value = answer_member(answer, name);
    if (!value)
        fail_msg("no %s in %s", name, answer);
    return value;
}

uint64_t answer_u64(const char *answer, const char *name)
{
    const char *value = member_there(answer, name);
    char *end;
    if (*value < '0' || *value > '9')
        fail_msg("%s is no number in %s", name, answer);
    uint64_t number = strtoull(value, &end, 10);
    assert_true(*end == ',' || *end == '}' || *end == ']');
    return number;
}

void answer_text(const char *answer, const char *name, char *text, size_t size)
{
    const char *value = member_there(answer, name);
    assert_int_equal(*value, '"');
    size_t length = strcspn(value + 1, "\"");
    assert_true(length < size);
    memcpy(text, value + 1, length);
    text[length] = '\0';
}

bool answer_is(const char *answer, const char *name, const char *json)
{
    const char *value = answer_member(answer, name);
    size_t length = strlen(json);
    return value && strncmp(value, json, length) == 0 && strchr(",}]", value[length]) &&
           value[length];
}

const char *answer_kind(const char *answer, char kind[ANSWER_KIND_SIZE])
{
    if (answer_member(answer, "error"))
        answer_text(answer, "kind", kind, ANSWER_KIND_SIZE);
    else
        snprintf(kind, ANSWER_KIND_SIZE, "%s",
                 answer_member(answer, "result") ? "result" : "nothing");
    return kind;
}

void assert_kind(const char *answer, const char *kind)
{
    char found[ANSWER_KIND_SIZE];
    if (strcmp(answer_kind(answer, found), kind) != 0)
        fail_msg("wanted %s, got %s", kind, answer);
}

size_t answer_count(const char *answer, const char *text)
{
    size_t count = 0;
    for (const char *found = strstr(answer, text); found;
         found = strstr(found + strlen(text), text))
        count++;
    return count;
}

void answer_scrub(char *answer)
{
    static const char key[] = "\"handle\":\"";
    for (char *found = strstr(answer, key); found; found = strstr(found, key)) {
        found += sizeof(key) - 1;
        char *secret = strchr(found, '-');
        for (; secret && *secret && *secret != '"'; secret++)
            *secret = '0';
    }
}
