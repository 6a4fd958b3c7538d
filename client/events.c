/* Events as they happen: subscribing, taking them from the stream, and keeping those that come
 * while a call waits for its answer. */
#include <stdint.h>
#include <string.h>

#include "base/memory.h"
#include "client/json_span.h"
#include "client/parameters.h"
#include "client/typed_results.h"

int worsegpu_client_subscribe(worsegpu_client *client, const char *allocator, const uint64_t *after,
                              uint64_t *next, struct worsegpu_client_error *error)
{
    int status = parameters_check_text(allocator, "the allocator's name", error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct client_draft draft = client_draft_begin(client, METHOD_subscribe);
    parameters_put_u64(client, PARAMETER_after, after != NULL, after ? *after : 0);
    parameters_put_text(client, PARAMETER_allocator, allocator);
    status = client_draft_call(client, draft, error);
    return status == WORSEGPU_CLIENT_OK ? typed_read_count(client, "next", next, error) : status;
}

int worsegpu_client_unsubscribe(worsegpu_client *client, const char *allocator,
                                struct worsegpu_client_error *error)
{
    return parameters_call_simple(client, METHOD_unsubscribe, allocator, error);
}

/* ------------------------------------------------------------------------------ one notification
 */

/* Reads the notification in client->document, whose text is `line`. OK or BAD_REPLY. */
static int read_notice(worsegpu_client *client, struct json_span line,
                       struct worsegpu_client_notice *notice, struct worsegpu_client_error *error)
{
    const cJSON *root = client->document.root;
    const cJSON *version = json_document_member(root, "jsonrpc");
    const cJSON *method = json_document_member(root, "method");
    const cJSON *params = json_document_member(root, "params");
    const cJSON *event = json_document_member(params, "event");
    struct reader reader = reader_start(client, params);
    memset(notice, 0, sizeof(*notice));
    if (!cJSON_IsString(version) || strcmp(version->valuestring, "2.0") != 0 ||
        !cJSON_IsString(method) || strcmp(method->valuestring, "event") != 0)
        return client_reply_broken(client, error, "a notification that is no event");
    reader_text(&reader, "allocator", notice->allocator, sizeof(notice->allocator));
    if (event) {
        reader.object = event;
        typed_read_event(&reader, &notice->event);
    } else {
        notice->missed = reader_u64(&reader, "missed");
        if (notice->missed == 0)
            reader_miss(&reader, "missed");
    }
    int status = reader_end(client, &reader, error);
    if (status == WORSEGPU_CLIENT_OK && event) {
        struct json_span text = json_span_member(json_span_member(line, "params"), "event");
        client->result = text.bytes;
        client->result_length = text.length;
    }
    return status;
}

/* ------------------------------------------------------------------------------ keeping */

void client_events_release(worsegpu_client *client)
{
    memory_release_array(client->memory, client->events.data, client->events.capacity, 1);
}

static void count_missed(struct client_events *events, const struct worsegpu_client_notice *notice)
{
    uint64_t more = notice->missed > 0 ? notice->missed : 1;
    if (events->missed == 0)
        memcpy(events->missed_allocator, notice->allocator, sizeof(events->missed_allocator));
    else if (strcmp(events->missed_allocator, notice->allocator) != 0)
        events->missed_allocator[0] = '\0';
    if (__builtin_add_overflow(events->missed, more, &events->missed))
        events->missed = UINT64_MAX;
}

int client_events_keep(worsegpu_client *client, const char *line, size_t length,
                       struct worsegpu_client_error *error)
{
    struct client_events *events = &client->events;
    struct worsegpu_client_notice notice;
    int status = read_notice(client, (struct json_span){line, length}, &notice, error);
    client->result = NULL; /* it is nobody's answer */
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    if (events->start == events->end)
        events->start = events->end = 0;
    size_t held = events->end - events->start;
    if (events->missed > 0 || length + 1 > WORSEGPU_CLIENT_MAX_EVENT_BYTES - held) {
        count_missed(events, &notice);
        return WORSEGPU_CLIENT_OK;
    }
    if (events->start > 0 && events->capacity - events->end < length + 1) {
        memmove(events->data, events->data + events->start, held);
        events->start = 0;
        events->end = held;
    }
    if (memory_grow(client->memory, &events->data, &events->capacity, events->end + length + 1, 1) <
        0)
        return client_error_no_memory(error);
    memcpy(events->data + events->end, line, length);
    events->data[events->end + length] = '\n';
    events->end += length + 1;
    return WORSEGPU_CLIENT_OK;
}

/* The oldest of what was kept. */
static int take_kept(worsegpu_client *client, struct worsegpu_client_notice *notice, bool *taken,
                     struct worsegpu_client_error *error)
{
    struct client_events *events = &client->events;
    client->result = NULL;
    client->result_item = NULL;
    if (events->start < events->end) {
        const char *line = events->data + events->start;
        const char *end = memchr(line, '\n', events->end - events->start);
        size_t length = (size_t)(end - line);
        /* It was strict JSON when it came. */
        if (json_document_read(&client->document, line, length) != STRICT_JSON_FINE)
            return client_error_no_memory(error);
        events->start += length + 1;
        *taken = true;
        return read_notice(client, (struct json_span){line, length}, notice, error);
    }
    if (events->missed > 0) {
        memset(notice, 0, sizeof(*notice));
        memcpy(notice->allocator, events->missed_allocator, sizeof(notice->allocator));
        notice->missed = events->missed;
        events->missed = 0;
        *taken = true;
    }
    return WORSEGPU_CLIENT_OK;
}

/* ------------------------------------------------------------------------------ taking */

static int start_taking(worsegpu_client *client, struct worsegpu_client_error *error)
{
    int status = client_check_alive(client, error);
    if (status == WORSEGPU_CLIENT_OK)
        status = client_check_nothing_due(client, error);
    if (status == WORSEGPU_CLIENT_OK)
        client_error_fine(error);
    return status;
}

/* Judges a line of the stream, which may also be the answer to a call that gave up. */
static int take_line(worsegpu_client *client, const char *line, size_t length,
                     struct worsegpu_client_notice *notice, bool *taken,
                     struct worsegpu_client_error *error)
{
    bool late = client->due_id < client->next_id;
    int status = client_reply_read(client, late ? client->due_id : UINT64_MAX, line, length, error);
    if (status == WORSEGPU_CLIENT_NO_MEMORY)
        return status; /* the line stays, to be read again */
    client_stream_take(client, length);
    if (status == CLIENT_NOTIFICATION) {
        status = read_notice(client, (struct json_span){line, length}, notice, error);
        *taken = status == WORSEGPU_CLIENT_OK;
        return status;
    }
    client->result = NULL;
    client->result_item = NULL;
    if (status < 0)
        return status;
    if (!late) /* an error to nobody is the daemon's last word */
        return status == WORSEGPU_CLIENT_REFUSED
                   ? status
                   : client_reply_broken(client, error, "an answer to nothing");
    client->due_id++;
    client_error_fine(error);
    return WORSEGPU_CLIENT_OK;
}

int worsegpu_client_next_event(worsegpu_client *client, struct worsegpu_client_notice *notice,
                               struct worsegpu_client_error *error)
{
    bool taken = false;
    struct client_deadline deadline = client_deadline_start(client);
    int status = start_taking(client, error);
    if (status == WORSEGPU_CLIENT_OK)
        status = take_kept(client, notice, &taken, error);
    while (status == WORSEGPU_CLIENT_OK && !taken) {
        const char *line;
        size_t length;
        status = client_stream_line(client, deadline, &line, &length, error);
        if (status == WORSEGPU_CLIENT_OK)
            status = take_line(client, line, length, notice, &taken, error);
    }
    return status;
}

int worsegpu_client_take_event(worsegpu_client *client, struct worsegpu_client_notice *notice,
                               bool *taken, struct worsegpu_client_error *error)
{
    bool looked = false;
    *taken = false;
    int status = start_taking(client, error);
    if (status == WORSEGPU_CLIENT_OK)
        status = take_kept(client, notice, taken, error);
    while (status == WORSEGPU_CLIENT_OK && !*taken) {
        const char *line;
        size_t length;
        status = client_stream_peek(client, &line, &length, error);
        if (status != WORSEGPU_CLIENT_OK || (!line && looked))
            return status;
        if (line) {
            status = take_line(client, line, length, notice, taken, error);
        } else {
            looked = true;
            status = client_stream_advance(client, error);
        }
    }
    return status;
}
