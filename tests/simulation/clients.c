/* What clients and their connections do in a step; see world.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/world.h"

/* ------------------------------------------------------------------------------ coming and going
 */

void client_come(struct world *world)
{
    static const uid_t users[] = {0, 1000, 1001, 1002};
    struct draw *draw = &world->draw;
    uid_t uid = users[draw_below(draw, sizeof(users) / sizeof(users[0]))];
    const struct peer peer = {
        .uid = uid,
        .gid = uid,
        .pid = (pid_t)draw_between(draw, 100, 120),
        .admin = uid == 0 || (uid == 1000 && draw_chance(draw, 50)),
    };
    bool sleepy = draw_chance(draw, 25);
    bool unruly = draw_chance(draw, 20);
    size_t window = (size_t)draw_size(draw, 14);
    struct memory_client *end = memory_daemon_let_in(&world->daemon, peer);
    if (!end) {
        world_log(world, "user %u is not let in", (unsigned)uid);
        if (!world_memory_failed(world))
            world_fail(world, "no memory failed, but a client is not let in");
        return;
    }
    struct world_client *client = calloc(1, sizeof(*client));
    if (!client)
        abort();
    client->end = end;
    world->came++;
    client->peer = peer;
    client->sleepy = sleepy;
    client->unruly = unruly;
    client->number = end->connection->number;
    end->window = sleepy ? window : 0;
    TAILQ_INIT(&client->asked);
    world->clients[world->client_count++] = client;
    world_log(world, "client %" PRIu64 " comes: user %u%s%s%s", client->number, (unsigned)uid,
              peer.admin ? ", admin" : "", sleepy ? ", sleepy" : "", unruly ? ", unruly" : "");
}

static void drop_asked(struct world_client *client)
{
    struct asked *asked;
    while ((asked = TAILQ_FIRST(&client->asked)) != NULL) {
        TAILQ_REMOVE(&client->asked, asked, link);
        free(asked);
    }
}

/* Its connection is no more. */
static void connection_gone(struct world *world, struct world_client *client)
{
    world_log(world, "connection %" PRIu64 " is gone", client->number);
    drop_asked(client);
    client->subscription_count = 0;
    model_end_connection(&world->model, client->number);
}

bool client_is_gone(const struct world_client *client)
{
    return !client->end->connection && client->tapped.length == 0;
}

void client_release(struct world *world, size_t index)
{
    struct world_client *client = world->clients[index];
    memory_client_forget(client->end);
    drop_asked(client);
    free(client->tapped.data);
    free(client);
    world->clients[index] = world->clients[--world->client_count];
}

void client_shut(struct world *world, struct world_client *client)
{
    bool halfway = draw_chance(&world->draw, 30);
    world_log(world, "client %" PRIu64 " shuts its side%s", client->number,
              halfway ? " in the middle of a line" : "");
    if (halfway)
        memory_client_send_text(client->end, "{\"id\":1,\"met");
    memory_client_shut(client->end);
    client->shut = true;
}

void client_hang_up(struct world *world, struct world_client *client)
{
    world_log(world, "client %" PRIu64 " hangs up", client->number);
    memory_client_hang_up(client->end);
    world_bytes_drop(&client->tapped, client->tapped.length);
    connection_gone(world, client);
}

/* --------------------------------------------------------------------------------------- sending
 */

void client_send(struct world *world, struct world_client *client)
{
    struct world_bytes lines = {.data = NULL};
    uint64_t count = draw_chance(&world->draw, 70) ? draw_between(&world->draw, 1, 3)
                                                   : draw_between(&world->draw, 1, 24);
    for (uint64_t index = 0; index < count; index++) {
        size_t start = lines.length;
        struct asked *asked = asked_draw(world, client, &lines);
        asked->start = client->sent_bytes;
        client->sent_bytes += lines.length - start;
        asked->end = client->sent_bytes;
        TAILQ_INSERT_TAIL(&client->asked, asked, link);
        world_log_line(world, "asks", client->number, lines.data + start, lines.length - start - 1);
    }
    memory_client_send(client->end, lines.data, lines.length);
    free(lines.data);
}

/* ---------------------------------------------------------------------------------------- taking
 */

static size_t unread_bytes(const struct connection *connection)
{
    return connection->output.length + connection->in_flight;
}

/* What the connection has said since its output was so long: whole lines. */
static void tap(struct world *world, struct world_client *client, size_t before,
                void (*judge)(struct world *world, struct world_client *client, const char *line,
                              size_t length))
{
    size_t length;
    const char *output = connection_output(client->end->connection, &length);
    if (length == before)
        return;
    if (length < before)
        world_fail(world, "the output of connection %" PRIu64 " got shorter", client->number);
    if (output[length - 1] != '\n')
        world_fail(world, "connection %" PRIu64 " said half a line", client->number);
    world_bytes_add(&client->tapped, output + before, length - before);
    while (before < length) {
        const char *end = memchr(output + before, '\n', length - before);
        size_t line_length = (size_t)(end - output) - before;
        char *line = strndup(output + before, line_length);
        if (!line)
            abort();
        world_log_line(world, "is told", client->number, line, line_length);
        if (strict_json_check(&world->strict, line, line_length) != STRICT_JSON_FINE)
            world_fail(world, "this is not strict JSON: %s", line);
        judge(world, client, line, line_length);
        free(line);
        before += line_length + 1;
    }
}

/* A line of which nobody knows whether it is carried out must be the last of its chunk: so its
 * outcome can be looked up before anything else happens. */
static size_t end_at_silent(const struct world_client *client, size_t most)
{
    const struct asked *asked;
    TAILQ_FOREACH(asked, &client->asked, link)
    {
        if (asked->silent && asked->end > client->fed_bytes)
            return asked->end - client->fed_bytes < most ? (size_t)(asked->end - client->fed_bytes)
                                                         : most;
    }
    return most;
}

/* Notes whether a line is half there, and since when. */
static void note_half(struct world *world, struct world_client *client, uint64_t fed)
{
    const struct connection *connection = client->end->connection;
    const struct asked *asked;
    uint64_t whole = client->whole_bytes;
    client->fed_bytes += fed;
    TAILQ_FOREACH(asked, &client->asked, link)
    {
        if (asked->end <= client->fed_bytes && asked->end > whole)
            whole = asked->end;
    }
    bool in_half = client->fed_bytes > whole;
    if (in_half && (!client->in_half || whole != client->whole_bytes)) {
        client->half_since_ms = world->daemon.now.monotonic_ms;
        client->excused = false;
    }
    client->in_half = in_half;
    client->whole_bytes = whole;
    if (!connection_wants_input(connection))
        client->excused = true;
}

/* The connection is broken off: it must have had a reason. */
static void judge_break(struct world *world, struct world_client *client)
{
    if (!client->goodbye && !world_memory_failed(world))
        world_fail(world, "connection %" PRIu64 " ends without a reason", client->number);
    client->goodbye = true;
    client->subscription_count = 0;
    drop_asked(client);
}

void client_take_in(struct world *world, struct world_client *client, size_t most)
{
    struct connection *connection = client->end->connection;
    uint64_t bytes_before = connection->counts.bytes_in;
    uint64_t requests_before = connection->counts.requests;
    size_t output_before = connection->output.length;
    bool full = unread_bytes(connection) > world->limits.unread_bytes;
    bool broken = connection->broken;
    bool input_ended = connection->input_ended;
    client->judged = 0;
    world->failures_before = world->chaos.failures;
    if (!memory_client_take_in(client->end, end_at_silent(client, most)))
        return;
    uint64_t executed = client->executed = connection->counts.requests - requests_before;
    world_log(world, "connection %" PRIu64 " takes %" PRIu64 " bytes, %" PRIu64 " requests",
              client->number, connection->counts.bytes_in - bytes_before, executed);
    note_half(world, client, connection->counts.bytes_in - bytes_before);
    if (full && executed > 0)
        world_fail(world, "requests are carried out while too much is unread");
    if (executed > world->limits.requests_per_turn)
        world_fail(world, "%" PRIu64 " requests in one turn", executed);
    tap(world, client, output_before, judge_line);
    judge_rest(world, client);
    if (connection->broken && !broken)
        judge_break(world, client);
    if (connection->input_ended && !input_ended)
        client->subscription_count = 0;
    judge_traces(world);
    look_at_client(world, client);
}

/* ----------------------------------------------------------------------------- telling and reading
 */

/* Whether all that came whole has been answered. */
static void judge_farewell(struct world *world, const struct world_client *client)
{
    const struct asked *asked;
    TAILQ_FOREACH(asked, &client->asked, link)
    {
        bool taken = asked->end <= client->fed_bytes;
        if (asked->kind != ASKED_BLANK && (taken || !world->stopping))
            world_fail(world, "connection %" PRIu64 " ends with request %s unanswered",
                       client->number, asked->id);
    }
}

void client_flush(struct world *world, struct world_client *client)
{
    bool broken = client->end->connection->broken;
    memory_client_flush(client->end);
    if (client->end->connection)
        return;
    if (!broken && !client->shut && !world->stopping)
        world_fail(world, "connection %" PRIu64 " is closed on its client", client->number);
    if (!broken)
        judge_farewell(world, client);
    connection_gone(world, client);
}

void client_read(struct world *world, struct world_client *client, size_t most)
{
    char bytes[4096];
    size_t length;
    for (; most > 0; most -= length) {
        length =
            memory_client_read(client->end, bytes, most < sizeof(bytes) ? most : sizeof(bytes));
        if (length == 0)
            break;
        if (length > client->tapped.length || memcmp(bytes, client->tapped.data, length) != 0)
            world_fail(world, "client %" PRIu64 " reads what was not said", client->number);
        world_bytes_drop(&client->tapped, length);
    }
    if (most > 0 && !client->end->connection && client->tapped.length > 0)
        world_fail(world, "client %" PRIu64 " never gets its last %zu bytes", client->number,
                   client->tapped.length);
}

/* -------------------------------------------------------------------------------- events and time
 */

static void judge_event_line(struct world *world, struct world_client *client, const char *line,
                             size_t length)
{
    (void)length;
    judge_event(world, client, line);
}

void client_serve_events(struct world *world)
{
    size_t lengths[WORLD_MOST_CLIENTS] = {0};
    for (size_t index = 0; index < world->client_count; index++)
        if (world->clients[index]->end->connection)
            lengths[index] = world->clients[index]->end->connection->output.length;
    if (!memory_daemon_serve_events(&world->daemon))
        return;
    world_log(world, "events are served");
    for (size_t index = 0; index < world->client_count; index++) {
        struct world_client *client = world->clients[index];
        struct connection *connection = client->end->connection;
        if (!connection || connection->output.length == lengths[index])
            continue;
        size_t most = (size_t)world->limits.unread_bytes;
        if (most < SUBSCRIPTIONS_LONGEST_LINE)
            most = SUBSCRIPTIONS_LONGEST_LINE;
        if (unread_bytes(connection) > most)
            world_fail(world, "events alone fill the output of connection %" PRIu64,
                       client->number);
        tap(world, client, lengths[index], judge_event_line);
    }
}

static void judge_goodbye(struct world *world, struct world_client *client, const char *line,
                          size_t length)
{
    uint64_t waited = world->daemon.now.monotonic_ms - client->half_since_ms;
    const struct asked *first = TAILQ_FIRST(&client->asked);
    (void)length;
    if (!strstr(line, "\"id\":null") || !strstr(line, "\"kind\":\"invalid_request\""))
        world_fail(world, "time went on, and connection %" PRIu64 " says %s", client->number, line);
    if (!client->in_half || waited < world->limits.half_line_seconds * 1000)
        world_fail(world, "connection %" PRIu64 " is ended %" PRIu64 " ms after its line began",
                   client->number, client->in_half ? waited : 0);
    if (first && first->end <= client->whole_bytes && first->kind != ASKED_BLANK)
        world_fail(world,
                   "connection %" PRIu64
                   " is ended for a half line with whole ones not carried out",
                   client->number);
    client->goodbye = true;
}

void client_expired(struct world *world, struct world_client *client, size_t output_before)
{
    struct connection *connection = client->end->connection;
    uint64_t waited = world->daemon.now.monotonic_ms - client->half_since_ms;
    bool was = client->goodbye;
    if (unread_bytes(connection) > world->limits.unread_bytes)
        client->excused = true;
    tap(world, client, output_before, judge_goodbye);
    if (connection->broken && !was)
        judge_break(world, client);
    if (!connection->broken && client->in_half && !client->excused && !connection->input_ended &&
        waited >= world->limits.half_line_seconds * 1000)
        world_fail(world, "connection %" PRIu64 " has had a half line for %" PRIu64 " ms",
                   client->number, waited);
}
