/* A witness of sessions; see session_witness.h. */
#include "tests/support/session_witness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "lib/worsegpu.h"
#include "tests/support/naive_json.h"

enum {
    MOST_TURNS = 100000, /* more means that the daemon never comes to rest */
    ROOM_TO_CONNECT = 65536,
    TREE_BYTES = 1 << 20, /* of cJSON's for one line at the most: it knows no limit */
    CHUNK_BYTES = 65536   /* what a connection reads at once */
};

/* ------------------------------------------------------------------------------ life */

/* The daemon's memory: so much and no more. */
static void *limited_resize(void *context, void *pointer, size_t old_bytes, size_t new_bytes)
{
    struct session_witness *witness = context;
    if (new_bytes > old_bytes &&
        new_bytes - old_bytes + witness->chaos.live_bytes > WITNESS_MEMORY_BYTES) {
        witness->refused = true;
        return NULL;
    }
    return witness->unlimited.resize(witness->unlimited.context, pointer, old_bytes, new_bytes);
}

void session_witness_begin(struct session_witness *witness, const char *options)
{
    memset(witness, 0, sizeof(*witness));
    chaos_init(&witness->chaos);
    witness->unlimited = witness->chaos.memory;
    witness->chaos.memory = (struct worsegpu_memory){limited_resize, witness};
    request_decoder_init(&witness->decoder, memory_system());
    witness->decoder.long_way_only = true;
    memory_daemon_start(&witness->daemon, &witness->chaos, options);
}

void session_witness_end(struct session_witness *witness)
{
    session_witness_settle(witness);
    request_decoder_release(&witness->decoder); /* its tree came from the chaos too */
    for (size_t i = 0; i < witness->client_count; i++)
        free(witness->clients[i].sent.data);
    memory_daemon_end(&witness->daemon);
    assert_int_equal(witness->chaos.live_bytes, 0);
    assert_int_equal(witness->chaos.live_pieces, 0);
    chaos_hook_cjson(NULL);
}

bool session_witness_connect(struct session_witness *witness, uid_t uid)
{
    if (witness->client_count == WITNESS_CLIENTS ||
        witness->chaos.live_bytes + ROOM_TO_CONNECT > WITNESS_MEMORY_BYTES)
        return false;
    struct witnessed_client *client = &witness->clients[witness->client_count++];
    client->client = memory_daemon_connect(&witness->daemon, uid);
    return true;
}

/* ------------------------------------------------------------------------------ sending */

static void send_bytes(struct witnessed_client *client, const char *bytes, size_t length)
{
    struct memory_bytes *sent = &client->sent;
    if (sent->length + length + 1 > sent->capacity) {
        sent->capacity = 2 * (sent->length + length + 1);
        sent->data = realloc(sent->data, sent->capacity);
        assert_non_null(sent->data);
    }
    if (length > 0)
        memcpy(sent->data + sent->length, bytes, length);
    sent->length += length;
    memory_client_send(client->client, bytes, length);
}

void session_witness_send(struct session_witness *witness, size_t number, const char *bytes,
                          size_t length)
{
    struct witnessed_client *client = &witness->clients[number];
    size_t done = 0;
    if (client->shut || !client->client->connection)
        return;
    for (size_t at = 0; at + 1 < length; at++) {
        size_t which = (size_t)((unsigned char)bytes[at + 1] - '0');
        if (bytes[at] != '@' || which >= WITNESS_HANDLES || which >= witness->handle_count)
            continue;
        const char *handle =
            witness->handles[(witness->handle_count - 1 - which) % WITNESS_HANDLES];
        send_bytes(client, bytes + done, at - done);
        send_bytes(client, handle, strlen(handle));
        done = at + 2;
        at++;
    }
    send_bytes(client, bytes + done, length - done);
}

void session_witness_shut(struct session_witness *witness, size_t number)
{
    witness->clients[number].shut = true;
    memory_client_shut(witness->clients[number].client);
}

void session_witness_hang_up(struct session_witness *witness, size_t number)
{
    witness->clients[number].shut = true;
    memory_client_hang_up(witness->clients[number].client);
}

/* ------------------------------------------------------------------------------ looking */

/* Writes how the answer to the next line that gets one begins; false when there is none yet. */
static bool next_answer(struct session_witness *witness, struct witnessed_client *client,
                        struct json_writer *begin)
{
    const struct memory_bytes *sent = &client->sent;
    size_t most = (size_t)witness->daemon.options.max_line_bytes;
    struct request request = {.id = {.kind = REQUEST_ID_NONE}};
    while (client->read < sent->length) {
        const char *line = sent->data + client->read;
        size_t left = sent->length - client->read;
        const char *newline = memchr(line, '\n', left);
        size_t length = newline ? (size_t)(newline - line) : left;
        bool told = client->skipping;
        bool too_long = length >= most;
        bool answered = too_long && !told;
        if (!newline && !answered)
            return false;
        client->skipping = !newline;
        if (newline)
            client->read += length + 1;
        if (newline && !too_long && !told) {
            struct request_problem problem;
            length -= length > 0 && line[length - 1] == '\r' ? 1 : 0;
            answered = request_decode(&witness->decoder, line, length, &request, &problem) !=
                           REQUEST_EMPTY &&
                       !request.notification;
        }
        if (answered) {
            json_writer_raw_value(begin, "{\"jsonrpc\":\"2.0\",\"id\":", 22);
            begin->comma = false;
            request_id_write(begin, &request.id);
            return true;
        }
    }
    return false;
}

/* Notes the handles in an answer. */
static void keep_handles(struct session_witness *witness, const char *line)
{
    static const char key[] = "\"handle\":\"";
    for (const char *at = line; (at = strstr(at, key)) != NULL;) {
        at += sizeof(key) - 1;
        size_t length = strcspn(at, "\"");
        if (length >= WITNESS_HANDLE_SIZE)
            continue;
        char *kept = witness->handles[witness->handle_count++ % WITNESS_HANDLES];
        memcpy(kept, at, length);
        kept[length] = '\0';
    }
}

static bool starts_with(const char *line, const char *begin, size_t length)
{
    return strncmp(line, begin, length) == 0;
}

static void look_at_line(struct session_witness *witness, struct witnessed_client *client,
                         const char *line)
{
    static const char event[] = "{\"jsonrpc\":\"2.0\",\"method\":\"event\",";
    if (!naive_json_is_strict(line, strlen(line), NULL, NULL))
        fail_msg("no strict JSON: %s", line);
    keep_handles(witness, line);
    if (starts_with(line, event, sizeof(event) - 1) || witness->refused)
        return;
    struct json_writer begin;
    json_writer_init(&begin, memory_system(), 8192);
    bool wanted = next_answer(witness, client, &begin);
    assert_int_equal(begin.failure, JSON_WRITER_FINE);
    bool fits = wanted && starts_with(line, begin.data, begin.length) &&
                (starts_with(line + begin.length, ",\"result\":{", 11) ||
                 starts_with(line + begin.length, ",\"error\":{", 10));
    if (!fits && !strstr(line, "goodbye")) /* a line that took too long */
        fail_msg("wanted %.*s, got %s", (int)begin.length, begin.data ? begin.data : "nothing",
                 line);
    json_writer_release(&begin);
}

void session_witness_look(struct session_witness *witness)
{
    const struct options *options = &witness->daemon.options;
    for (size_t i = 0; i < witness->client_count; i++) {
        struct witnessed_client *client = &witness->clients[i];
        const char *line;
        while ((line = memory_client_line(client->client)) != NULL)
            look_at_line(witness, client, line);
        const struct connection *connection = client->client->connection;
        if (connection) {
            assert_true(connection->output.length <= options->max_output_bytes);
            assert_true(connection->input.held_capacity <= options->max_line_bytes + CHUNK_BYTES);
        }
    }
    assert_true(witness->chaos.live_bytes <= WITNESS_MEMORY_BYTES + TREE_BYTES);
}

/* ------------------------------------------------------------------------------ at rest */

static void rest(struct session_witness *witness)
{
    int turns = 0;
    while (memory_daemon_turn(&witness->daemon))
        assert_true(++turns < MOST_TURNS);
}

/* Moves the time on to the first delay that ends; false when nobody is delayed. */
static bool wait_for_delay(struct session_witness *witness)
{
    uint64_t until = UINT64_MAX;
    uint64_t now = witness->daemon.now.monotonic_ms;
    for (size_t i = 0; i < witness->client_count; i++) {
        const struct connection *connection = witness->clients[i].client->connection;
        if (connection && connection_is_delayed(connection) &&
            connection_deadline_ms(connection) < until)
            until = connection_deadline_ms(connection);
    }
    if (until == UINT64_MAX)
        return false;
    memory_daemon_wait(&witness->daemon, until > now ? until - now : 0);
    return true;
}

static void check_allocators(const struct hosted_list *list)
{
    const struct hosted *hosted;
    TAILQ_FOREACH(hosted, list, link)
    {
        const char *broken = NULL;
        int status = worsegpu_validate(hosted->engine, NULL, &broken);
        if (status == WORSEGPU_INVARIANT_VIOLATION)
            fail_msg("%s: %s does not hold", hosted->name, broken);
    }
}

void session_witness_settle(struct session_witness *witness)
{
    for (size_t i = 0; i < witness->client_count; i++)
        witness->clients[i].client->deaf = false;
    do
        rest(witness);
    while (wait_for_delay(witness));
    session_witness_look(witness);
    for (size_t i = 0; i < witness->client_count; i++) {
        struct witnessed_client *client = &witness->clients[i];
        struct json_writer begin;
        if (!client->client->connection)
            continue;
        assert_int_equal(client->client->told.length, client->client->told.start);
        assert_int_equal(client->client->sent.length, client->client->sent.start);
        check_allocators(&client->client->connection->allocators);
        json_writer_init(&begin, memory_system(), 8192);
        if (!witness->refused && next_answer(witness, client, &begin))
            fail_msg("no answer %.*s", (int)begin.length, begin.data);
        json_writer_release(&begin);
    }
    check_allocators(&witness->daemon.server.shared);
}
