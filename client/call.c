/* Requests out, answers in, in order. */
#include <string.h>
#include <sys/socket.h>

#include "client/client_state.h"

uint64_t worsegpu_client_due(const worsegpu_client *client)
{
    uint64_t first = client->due_id > client->abandoned_id ? client->due_id : client->abandoned_id;
    return client->next_id - first;
}

int client_check_alive(const worsegpu_client *client, struct worsegpu_client_error *error)
{
    if (client->broken)
        return client_error_set(error, client->broken,
                                "the other side broke the contract earlier: connect anew");
    return WORSEGPU_CLIENT_OK;
}

/* Puts everything back as it was at `mark`. */
static int undo(worsegpu_client *client, size_t mark, struct worsegpu_client_error *error)
{
    json_writer_cut(&client->out, mark);
    return client_error_no_memory(error);
}

static void begin_request(worsegpu_client *client, bool answered)
{
    json_writer_begin_object(&client->out);
    if (answered)
        json_writer_member_u64(&client->out, "id", client->next_id);
}

static int end_request(worsegpu_client *client, size_t mark, bool answered,
                       struct worsegpu_client_error *error)
{
    json_writer_end_object(&client->out);
    json_writer_newline(&client->out);
    if (client->out.failure != JSON_WRITER_FINE)
        return undo(client, mark, error);
    if (answered)
        client->next_id++;
    client_error_fine(error);
    return WORSEGPU_CLIENT_OK;
}

static int check_strict(worsegpu_client *client, const char *text, size_t length, const char *what,
                        struct worsegpu_client_error *error)
{
    struct strict_json *strict = &client->document.strict;
    switch (strict_json_check(strict, text, length)) {
    case STRICT_JSON_FINE:
        return WORSEGPU_CLIENT_OK;
    case STRICT_JSON_NO_MEMORY:
        return client_error_no_memory(error);
    case STRICT_JSON_REFUSED:
    default:
        return client_error_set(error, WORSEGPU_CLIENT_INVALID_ARGUMENT,
                                "%s no strict JSON (byte %zu: %s)", what, strict->where,
                                strict->why);
    }
}

/* Line ends that stand between the parts of a JSON text become spaces: inside a string there are
 * none. */
static void join_lines(char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\n' || text[i] == '\r')
            text[i] = ' ';
    }
}

static int queue_foreign(worsegpu_client *client, const char *method, const char *params,
                         bool answered, struct worsegpu_client_error *error)
{
    int status = client_check_alive(client, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    /* The check uses the workspace of the last answer. */
    client->result = NULL;
    client->result_item = NULL;
    /* Alone first: the parameters must not slip in members of the request. */
    if (params)
        status = check_strict(client, params, strlen(params), "the parameters are", error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    size_t mark = client->out.length;
    begin_request(client, answered);
    json_writer_member_text(&client->out, "method", method);
    if (params) {
        json_writer_key(&client->out, "params");
        json_writer_raw_value(&client->out, params, strlen(params));
    }
    uint64_t id = client->next_id;
    status = end_request(client, mark, answered, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    size_t length = client->out.length - mark - 1; /* without our LF */
    join_lines(client->out.data + mark, length);
    status = check_strict(client, client->out.data + mark, length, "the request is", error);
    if (status != WORSEGPU_CLIENT_OK) {
        json_writer_cut(&client->out, mark);
        client->next_id = id;
    }
    return status;
}

int worsegpu_client_queue(worsegpu_client *client, const char *method, const char *params,
                          struct worsegpu_client_error *error)
{
    return queue_foreign(client, method, params, true, error);
}

int worsegpu_client_notify(worsegpu_client *client, const char *method, const char *params,
                           struct worsegpu_client_error *error)
{
    return queue_foreign(client, method, params, false, error);
}

int worsegpu_client_flush(worsegpu_client *client, struct worsegpu_client_error *error)
{
    int status = client_check_alive(client, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    client_error_fine(error);
    return client_stream_flush(client, client_deadline_start(client), error);
}

/* The answer with the id client->due_id. Notifications that come before it are kept for later. */
static int receive_due(worsegpu_client *client, struct client_deadline deadline,
                       struct worsegpu_client_error *error)
{
    for (;;) {
        const char *line;
        size_t length;
        int status = client_stream_line(client, deadline, &line, &length, error);
        if (status != WORSEGPU_CLIENT_OK)
            return status;
        status = client_reply_read(client, client->due_id, line, length, error);
        bool answer = status != CLIENT_NOTIFICATION;
        if (!answer)
            status = client_events_keep(client, line, length, error);
        if (status == WORSEGPU_CLIENT_NO_MEMORY)
            return status; /* the line stays, to be read again */
        client_stream_take(client, length);
        client->due_id += answer;
        if (answer || status != WORSEGPU_CLIENT_OK)
            return status;
    }
}

int worsegpu_client_receive(worsegpu_client *client, struct worsegpu_client_error *error)
{
    int status = client_check_alive(client, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    if (worsegpu_client_due(client) == 0)
        return client_error_set(error, WORSEGPU_CLIENT_INVALID_ARGUMENT, "no answer is due");
    struct client_deadline deadline = client_deadline_start(client);
    while (client->due_id < client->abandoned_id) {
        status = receive_due(client, deadline, error);
        if (status < 0)
            return status;
    }
    return receive_due(client, deadline, error);
}

/* Sends what is queued and waits for the answer to the last request. */
static int finish_call(worsegpu_client *client, struct worsegpu_client_error *error)
{
    int status = worsegpu_client_receive(client, error);
    if (status < 0)
        client->abandoned_id = client->next_id;
    return status;
}

int client_check_nothing_due(const worsegpu_client *client, struct worsegpu_client_error *error)
{
    if (worsegpu_client_due(client) > 0)
        return client_error_set(error, WORSEGPU_CLIENT_INVALID_ARGUMENT,
                                "the answers of queued requests must be received first");
    return WORSEGPU_CLIENT_OK;
}

int worsegpu_client_call(worsegpu_client *client, const char *method, const char *params,
                         struct worsegpu_client_error *error)
{
    int status = client_check_nothing_due(client, error);
    if (status == WORSEGPU_CLIENT_OK)
        status = worsegpu_client_queue(client, method, params, error);
    return status == WORSEGPU_CLIENT_OK ? finish_call(client, error) : status;
}

struct client_draft client_draft_begin(worsegpu_client *client, enum method method)
{
    struct client_draft draft = {.mark = client->out.length};
    begin_request(client, true);
    json_writer_member_text(&client->out, "method", method_info(method)->name);
    json_writer_key(&client->out, "params");
    json_writer_begin_object(&client->out);
    return draft;
}

int client_draft_queue(worsegpu_client *client, struct client_draft draft,
                       struct worsegpu_client_error *error)
{
    json_writer_end_object(&client->out);
    int status = client_check_alive(client, error);
    if (status != WORSEGPU_CLIENT_OK) {
        json_writer_cut(&client->out, draft.mark);
        return status;
    }
    return end_request(client, draft.mark, true, error);
}

int client_draft_call(worsegpu_client *client, struct client_draft draft,
                      struct worsegpu_client_error *error)
{
    int status = client_check_nothing_due(client, error);
    if (status != WORSEGPU_CLIENT_OK) {
        json_writer_cut(&client->out, draft.mark);
        return status;
    }
    status = client_draft_queue(client, draft, error);
    return status == WORSEGPU_CLIENT_OK ? finish_call(client, error) : status;
}

/* ------------------------------------------------------------------------------ raw lines */

int worsegpu_client_queue_line(worsegpu_client *client, const char *line, size_t length,
                               struct worsegpu_client_error *error)
{
    int status = client_check_alive(client, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    if (length > 0 && memchr(line, '\n', length))
        return client_error_set(error, WORSEGPU_CLIENT_INVALID_ARGUMENT,
                                "a line must not hold a line end");
    size_t mark = client->out.length;
    size_t bytes;
    if (__builtin_add_overflow(length, (size_t)1, &bytes) ||
        json_writer_reserve(&client->out, bytes) < 0)
        return undo(client, mark, error);
    json_writer_raw_value(&client->out, line, length);
    json_writer_newline(&client->out);
    if (client->out.failure != JSON_WRITER_FINE)
        return undo(client, mark, error);
    client_error_fine(error);
    return WORSEGPU_CLIENT_OK;
}

int worsegpu_client_advance(worsegpu_client *client, struct worsegpu_client_error *error)
{
    client_error_fine(error);
    return client_stream_advance(client, error);
}

int worsegpu_client_next_line(worsegpu_client *client, const char **line, size_t *length,
                              struct worsegpu_client_error *error)
{
    client_error_fine(error);
    int status = client_stream_peek(client, line, length, error);
    if (status == WORSEGPU_CLIENT_OK && *line)
        client_stream_take(client, *length);
    return status;
}

int worsegpu_client_finish(worsegpu_client *client, struct worsegpu_client_error *error)
{
    if (worsegpu_client_unsent(client) > 0)
        return client_error_set(error, WORSEGPU_CLIENT_INVALID_ARGUMENT,
                                "requests are still queued: flush them first");
    client_error_fine(error);
    /* It fails only when the other side is gone, which reading will tell. */
    (void)shutdown(client->descriptor, SHUT_WR);
    client->send_ended = true;
    return WORSEGPU_CLIENT_OK;
}
