/* One client's connection; see connection.h. */
#include "daemon/connection.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "daemon/dispatch.h"
#include "daemon/reply.h"

/* ----------------------------------------------------------------------------------- output */

static size_t unread_bytes(const struct connection *connection)
{
    return connection->output.length + connection->in_flight;
}

static bool output_is_full(const struct connection *connection)
{
    return unread_bytes(connection) > connection->server->options->max_unread_bytes;
}

static void borrow_buffer(struct connection *connection)
{
    struct json_writer *output = &connection->output;
    if (output->data)
        return;
    struct spare_buffer buffer = spare_buffers_borrow(&connection->server->spares);
    output->data = buffer.data;
    output->capacity = buffer.capacity;
}

static void return_buffer(struct server *server, char *data, size_t capacity)
{
    if (capacity >= REPLY_ROOM)
        spare_buffers_give(&server->spares, (struct spare_buffer){data, capacity});
    else
        memory_release_array(server->memory, data, capacity, 1);
}

/* Takes the buffer off the writer. */
static char *detach_buffer(struct json_writer *output, size_t *capacity)
{
    char *data = output->data;
    *capacity = output->capacity;
    json_writer_init(output, output->memory, output->max_bytes);
    return data;
}

/* A busy connection keeps its buffer, an idle one has none. */
static void let_go_of_buffer(struct connection *connection)
{
    size_t capacity;
    bool busy = connection->lines_wait && !connection_is_delayed(connection);
    if (connection->output.length > 0 || busy)
        return;
    char *data = detach_buffer(&connection->output, &capacity);
    return_buffer(connection->server, data, capacity);
}

/* Room for a whole answer. Without the memory for it, room for an error is enough to say so. */
static bool make_room(struct connection *connection, bool *poor)
{
    struct json_writer *output = &connection->output;
    size_t limit = (size_t)connection->server->options->max_output_bytes;
    output->max_bytes = limit > connection->in_flight ? limit - connection->in_flight : 0;
    borrow_buffer(connection);
    *poor = false;
    if (json_writer_reserve(output, REPLY_ROOM) == 0)
        return true;
    *poor = true;
    return json_writer_reserve(output, REPLY_ERROR_ROOM) == 0;
}

const char *connection_output(const struct connection *connection, size_t *length)
{
    *length = connection->output.length;
    return connection->output.data;
}

size_t connection_room_for_events(const struct connection *connection)
{
    size_t limit = (size_t)connection->server->options->max_unread_bytes;
    size_t unread = unread_bytes(connection);
    if (connection->broken || connection->input_ended)
        return 0;
    if (unread == 0 && limit < SUBSCRIPTIONS_LONGEST_LINE)
        return SUBSCRIPTIONS_LONGEST_LINE;
    return unread < limit ? limit - unread : 0;
}

int connection_append_events(struct connection *connection, const char *lines, size_t length)
{
    struct json_writer *output = &connection->output;
    if (length > connection_room_for_events(connection))
        return CONNECTION_FULL;
    output->max_bytes = (size_t)connection->server->options->max_output_bytes;
    borrow_buffer(connection);
    if (json_writer_reserve(output, length) != 0) {
        let_go_of_buffer(connection);
        return CONNECTION_POOR;
    }
    json_writer_raw_value(output, lines, length - 1);
    json_writer_newline(output);
    return 0;
}

/* Room for more events. */
static void tell_drained(struct connection *connection)
{
    if (!TAILQ_EMPTY(&connection->subscriptions))
        subscriptions_drained(connection);
}

static void count_written(struct connection *connection, size_t length)
{
    connection->counts.bytes_out += length;
    connection->server->counts.bytes_out += length;
}

void connection_written(struct connection *connection, size_t length)
{
    struct json_writer *output = &connection->output;
    size_t rest = output->length - length;
    count_written(connection, length);
    memmove(output->data, output->data + length, rest);
    json_writer_cut(output, rest);
    connection->starved = false;
    let_go_of_buffer(connection);
    tell_drained(connection);
}

char *connection_take_output(struct connection *connection, size_t *length, size_t *capacity)
{
    *length = connection->output.length;
    connection->in_flight += *length;
    return detach_buffer(&connection->output, capacity);
}

void connection_give_back(struct connection *connection, char *data, size_t length, size_t capacity)
{
    connection->in_flight -= length;
    count_written(connection, length);
    connection->starved = false;
    return_buffer(connection->server, data, capacity);
    tell_drained(connection);
}

/* ----------------------------------------------------------------------------------- delays */

int connection_delay(struct connection *connection, const char *line, size_t length,
                     uint64_t until_ms)
{
    char *copy = memory_allocate_array(connection->server->memory, length, 1);
    if (!copy)
        return -1;
    memcpy(copy, line, length);
    connection->delayed = (struct delayed_line){
        .line = copy, .length = length, .until_ms = until_ms, .due = connection->hurried};
    return 0;
}

static void release_delayed(struct connection *connection)
{
    memory_release_array(connection->server->memory, connection->delayed.line,
                         connection->delayed.length, 1);
    connection->delayed = (struct delayed_line){.line = NULL};
}

bool connection_is_delayed(const struct connection *connection)
{
    return connection->delayed.line && !connection->delayed.due && !connection->broken;
}

void connection_hurry(struct connection *connection)
{
    connection->hurried = true;
    connection->delayed.due = connection->delayed.line != NULL;
}

/* ------------------------------------------------------------------------------- beginning and end
 */

static int compare_connections(const struct connection *left, const struct connection *right)
{
    return left->number < right->number ? -1 : left->number > right->number;
}

RB_GENERATE_INTERNAL(client_tree, connection, by_number, compare_connections,
                     __attribute__((unused)) static)

struct connection *connection_find(const struct server *server, uint64_t number)
{
    struct connection wanted = {.number = number};
    struct client_tree clients = server->clients; /* the macro wants to write to it, but does not */
    return RB_FIND(client_tree, &clients, &wanted);
}

struct connection *connection_after(struct server *server, uint64_t number)
{
    struct connection wanted = {.number = number + 1};
    return number == UINT64_MAX ? NULL : RB_NFIND(client_tree, &server->clients, &wanted);
}

struct connection *connection_create(struct server *server, struct peer peer, struct moment now)
{
    struct connection *connection = memory_allocate_zeroed(server->memory, 1, sizeof(*connection));
    if (!connection)
        return NULL;
    connection->user = users_hold(&server->users, peer.uid);
    if (!connection->user) {
        memory_release_array(server->memory, connection, 1, sizeof(*connection));
        return NULL;
    }
    connection->user->connections++;
    connection->connected = now;
    json_writer_init(&connection->output, server->memory,
                     (size_t)server->options->max_output_bytes);
    framing_init(&connection->input, server->memory, (size_t)server->options->max_line_bytes);
    connection->server = server;
    connection->peer = peer;
    connection->number = ++server->next_connection;
    RB_INSERT(client_tree, &server->clients, connection);
    TAILQ_INIT(&connection->holdings);
    TAILQ_INIT(&connection->allocators);
    TAILQ_INIT(&connection->subscriptions);
    server->connections++;
    return connection;
}

void connection_close_allocator(struct connection *connection, struct hosted *hosted)
{
    holding_orphan(&hosted->holding);
    subscriptions_remove(connection, hosted);
    rules_forget_allocator(&connection->server->rules, connection->server->memory, hosted);
    TAILQ_REMOVE(&connection->allocators, hosted, link);
    connection->allocator_count--;
    TAILQ_INSERT_TAIL(&connection->server->graveyard, hosted, link);
}

void connection_destroy(struct connection *connection)
{
    struct server *server = connection->server;
    struct holding *holding;
    struct hosted *hosted;
    subscriptions_end(connection);
    while ((holding = TAILQ_FIRST(&connection->holdings)) != NULL) {
        TAILQ_REMOVE(&connection->holdings, holding, link);
        holding_orphan(holding);
        TAILQ_INSERT_TAIL(&server->endings, holding, link);
    }
    while ((hosted = TAILQ_FIRST(&connection->allocators)) != NULL)
        connection_close_allocator(connection, hosted);
    framing_release(&connection->input);
    release_delayed(connection);
    size_t capacity;
    char *data = detach_buffer(&connection->output, &capacity);
    return_buffer(server, data, capacity);
    RB_REMOVE(client_tree, &server->clients, connection);
    connection->user->connections--;
    users_drop(&server->users, connection->user);
    memory_release_array(server->memory, connection, 1, sizeof(*connection));
    server->connections--;
    /* After a crowd no more are kept than those who are left can use; one is for whoever comes. */
    spare_buffers_trim(&server->spares, server->connections > 0 ? (size_t)server->connections : 1);
}

struct holding *connection_find_holding(struct connection *connection, struct hosted *hosted)
{
    struct holding *holding;
    if (!hosted->shared)
        return &hosted->holding;
    TAILQ_FOREACH(holding, &connection->holdings, link)
    {
        if (holding->hosted == hosted)
            return holding;
    }
    return NULL;
}

struct holding *connection_holding(struct connection *connection, struct hosted *hosted)
{
    struct holding *holding = connection_find_holding(connection, hosted);
    if (holding)
        return holding;
    holding = memory_allocate_array(connection->server->memory, 1, sizeof(*holding));
    if (!holding)
        return NULL;
    holding_init(holding, hosted, connection->number, &connection->account);
    TAILQ_INSERT_TAIL(&connection->holdings, holding, link);
    return holding;
}

struct hosted *connection_allocator(struct connection *connection, const char *name,
                                    size_t name_bytes)
{
    struct hosted *hosted = hosted_find(&connection->server->shared, name, name_bytes);
    return hosted ? hosted : hosted_find(&connection->allocators, name, name_bytes);
}

/* ------------------------------------------------------------------------------------- input */

/* Notes when a line begins that does not end, and whether it could not be read on for a while. */
static void watch_line(struct connection *connection, struct moment now)
{
    /* While a line is delayed, or whole ones wait, nothing is read on either: the time for the line
     * starts after that. */
    bool in_line = !connection->input_ended && !connection->broken && !connection->delayed.line &&
                   !connection->lines_wait && framing_in_line(&connection->input);
    if (in_line && !connection->in_line) {
        connection->line_since_ms = now.monotonic_ms;
        connection->held_up = false;
    }
    connection->in_line = in_line;
    connection->held_up = connection->held_up || output_is_full(connection);
}

void connection_break_off(struct connection *connection)
{
    connection->broken = true;
    subscriptions_end(connection);
    connection->lines_wait = false;
    connection->in_line = false;
}

static void tell_too_long(struct connection *connection, struct moment now)
{
    char message[PROTO_MAX_ERROR_TEXT];
    uint64_t limit = connection->server->options->max_line_bytes;
    snprintf(message, sizeof(message), "a line is at most %" PRIu64 " bytes with its line end",
             limit);
    dispatch_refuse(connection, ERROR_INVALID_REQUEST, message);
    log_client(
        connection->server->log, now.monotonic_ms,
        "connection %" PRIu64 " (user %u, process %d) sent a line of more than %" PRIu64 " bytes",
        connection->number, (unsigned)connection->peer.uid, (int)connection->peer.pid, limit);
}

/* Of the turn. */
static void spend(struct connection *connection, uint64_t cost)
{
    connection->turn_left = cost < connection->turn_left ? connection->turn_left - cost : 0;
}

/* The delayed line, whose time has come; it is no longer kept afterwards. */
static uint64_t take_delayed(struct connection *connection, bool poor, struct moment now)
{
    struct delayed_line delayed = connection->delayed;
    connection->delayed = (struct delayed_line){.line = NULL};
    uint64_t cost = dispatch_delayed_line(connection, delayed.line, delayed.length, poor, now);
    memory_release_array(connection->server->memory, delayed.line, delayed.length, 1);
    return cost;
}

/* What framing_next says. Where a line has ended, the rest of one too long included, what comes
 * after it has begun later: its time starts anew. */
static enum framing_result next_line(struct connection *connection, const char **line,
                                     size_t *length)
{
    bool discarded = connection->input.discarding;
    enum framing_result result = framing_next(&connection->input, line, length);
    if (result == FRAMING_LINE ||
        (discarded && (result == FRAMING_TOO_LONG || !connection->input.discarding)))
        connection->in_line = false;
    return result;
}

/* Takes one line. false when none can be taken now. */
static bool take_line(struct connection *connection, struct moment now)
{
    const char *line;
    size_t length;
    bool poor;
    uint64_t cost = 1;
    if (output_is_full(connection) || connection_is_delayed(connection))
        return false;
    if (!make_room(connection, &poor)) {
        if (unread_bytes(connection) == 0)
            connection_break_off(connection); /* not even an error can be said */
        connection->starved = true;           /* what is unread must go first */
        return false;
    }
    if (connection->delayed.line) {
        spend(connection, take_delayed(connection, poor, now));
        return true;
    }
    switch (next_line(connection, &line, &length)) {
    case FRAMING_LINE:
        cost = dispatch_line(connection, line, length, poor, now);
        break;
    case FRAMING_TOO_LONG:
        tell_too_long(connection, now);
        break;
    case FRAMING_MORE:
        connection->lines_wait = false;
        return false;
    case FRAMING_NO_MEMORY:
        dispatch_refuse(connection, ERROR_INTERNAL_ERROR,
                        "the daemon is out of memory for this line");
        connection_break_off(connection);
        return false;
    }
    spend(connection, cost);
    return true;
}

static void run_lines(struct connection *connection, struct moment now)
{
    connection->turn_left = connection->server->options->max_requests_per_turn;
    metrics_begin_burst(&connection->server->counts);
    while (connection->turn_left && !connection->broken && take_line(connection, now))
        ;
    metrics_end_burst(&connection->server->counts);
    /* When the last request of the turn was the last there was, nothing waits for another turn. */
    if (connection->turn_left == 0 && !framing_has_bytes(&connection->input))
        connection->lines_wait = false;
    if (!TAILQ_EMPTY(&connection->subscriptions))
        subscriptions_look_at_private(connection);
}

void connection_receive(struct connection *connection, const char *bytes, size_t length,
                        struct moment now)
{
    connection->counts.bytes_in += length;
    connection->server->counts.bytes_in += length;
    framing_feed(&connection->input, bytes, length);
    connection->lines_wait = true;
    run_lines(connection, now);
    if (!connection->broken && framing_keep(&connection->input) != 0) {
        bool poor;
        if (make_room(connection, &poor))
            dispatch_refuse(connection, ERROR_INTERNAL_ERROR,
                            "the daemon is out of memory for what was sent");
        connection_break_off(connection);
    }
    watch_line(connection, now);
    let_go_of_buffer(connection);
}

void connection_run(struct connection *connection, struct moment now)
{
    run_lines(connection, now);
    watch_line(connection, now);
    let_go_of_buffer(connection);
}

void connection_end_input(struct connection *connection)
{
    connection->input_ended = true;
    subscriptions_end(connection); /* nobody is known to listen any more */
    connection->in_line = false;
}

/* Whether something is left to be carried out, now or later. */
static bool has_work(const struct connection *connection)
{
    return connection->lines_wait || connection->delayed.line;
}

bool connection_wants_turn(const struct connection *connection)
{
    return has_work(connection) && !connection->broken && !connection->starved &&
           !connection_is_delayed(connection) && !output_is_full(connection);
}

bool connection_wants_input(const struct connection *connection)
{
    return !connection->input_ended && !connection->broken && !has_work(connection) &&
           !output_is_full(connection);
}

bool connection_finished(const struct connection *connection)
{
    return (connection->broken || (connection->input_ended && !has_work(connection))) &&
           unread_bytes(connection) == 0;
}

uint64_t connection_deadline_ms(const struct connection *connection)
{
    if (connection_is_delayed(connection))
        return connection->delayed.until_ms;
    if (!connection->in_line || connection->broken)
        return UINT64_MAX;
    return connection->line_since_ms + connection->server->options->max_half_line_seconds * 1000;
}

void connection_expire(struct connection *connection, struct moment now)
{
    bool poor;
    uint64_t seconds = connection->server->options->max_half_line_seconds;
    if (connection_is_delayed(connection)) {
        connection->delayed.due = true;
        return;
    }
    /* While the client left its answers unread, its line was not read on either: the time starts
     * again. */
    if (connection->held_up || output_is_full(connection)) {
        connection->line_since_ms = now.monotonic_ms;
        connection->held_up = output_is_full(connection);
        return;
    }
    log_client(
        connection->server->log, now.monotonic_ms,
        "connection %" PRIu64 " (user %u, process %d) did not end its line for %" PRIu64 " s",
        connection->number, (unsigned)connection->peer.uid, (int)connection->peer.pid, seconds);
    if (make_room(connection, &poor)) {
        char message[PROTO_MAX_ERROR_TEXT];
        snprintf(message, sizeof(message), "the line did not end for %" PRIu64 " s; goodbye",
                 seconds);
        dispatch_refuse(connection, ERROR_INVALID_REQUEST, message);
    }
    connection_break_off(connection);
}
