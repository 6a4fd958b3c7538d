/* What a client is inside; shared by the files of this folder only.
 *
 * Bytes flow through two buffers: `out` holds requests until they are sent, `in` what was read and
 * not taken yet. Answers come in the order of the requests and our ids count up by one, so the id
 * of the next answer is known and nothing has to be looked up. */
#ifndef CLIENT_STATE_H
#define CLIENT_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/worsegpu_client.h"
#include "proto/json_document.h"
#include "proto/json_writer.h"
#include "proto/methods.h"

struct client_input {
    char *data;
    size_t start;   /* first byte not taken yet */
    size_t scanned; /* up to here there is no LF */
    size_t end;
    size_t capacity;
};

/* Events that came while an answer was waited for. Once one found no room, all that come are only
 * counted, until what was kept and the count have been taken: so the order is true. */
struct client_events {
    char *data; /* whole lines, with their LF */
    size_t start;
    size_t end;
    size_t capacity;
    uint64_t missed;
    char missed_allocator[WORSEGPU_CLIENT_NAME_SIZE]; /* empty: of several */
};

struct worsegpu_client {
    const struct worsegpu_memory *memory;
    uint64_t timeout_ms; /* 0: wait for ever */
    int descriptor;
    struct json_writer out;
    size_t sent; /* bytes at the start of `out` that are sent */
    struct client_input in;
    struct client_events events;
    bool send_ended;    /* the other side takes no more */
    bool receive_ended; /* the other side has sent all it will */
    int broken; /* BAD_REPLY once the contract was broken: nothing after that can be trusted */
    uint64_t next_id;      /* of the next request */
    uint64_t due_id;       /* of the next answer; equal to next_id when none is due */
    uint64_t abandoned_id; /* answers with an id below this are thrown away */
    struct json_document document;
    const cJSON *result_item; /* in `document`; NULL when the last answer was no result */
    const char *result;       /* in `in` */
    size_t result_length;
    void *page; /* the items of the last page */
    size_t page_bytes;
};

/* A moment on the monotonic clock; `never` for no timeout. */
struct client_deadline {
    bool never;
    uint64_t at_ms;
};
struct client_deadline client_deadline_start(const worsegpu_client *client);

/* Fills in `error` (may be NULL) with a status of ours and a message; returns the status. */
__attribute__((format(printf, 3, 4))) int client_error_set(struct worsegpu_client_error *error,
                                                           int status, const char *format, ...);
/* All went well: only the status is touched, since most calls end here. */
void client_error_fine(struct worsegpu_client_error *error);
void client_error_clear(struct worsegpu_client_error *error);
int client_error_no_memory(struct worsegpu_client_error *error);
const char *client_error_system(int number); /* the system's text for an errno */

/* Copies a text into a fixed field, cut at a whole character. */
void client_copy_text(char *field, size_t size, const char *text);

/* stream.c: bytes in and out. Statuses as in worsegpu_client.h. */
void client_stream_release(worsegpu_client *client);
int client_stream_advance(worsegpu_client *client, struct worsegpu_client_error *error);
int client_stream_flush(worsegpu_client *client, struct client_deadline deadline,
                        struct worsegpu_client_error *error);
/* Waits for a whole line and shows it without taking it. */
int client_stream_line(worsegpu_client *client, struct client_deadline deadline, const char **line,
                       size_t *length, struct worsegpu_client_error *error);
/* Shows a whole line that is already here; *line NULL when there is none. */
int client_stream_peek(worsegpu_client *client, const char **line, size_t *length,
                       struct worsegpu_client_error *error);
/* Takes the line shown last; its bytes stay where they are until the next reading. */
void client_stream_take(worsegpu_client *client, size_t length);

enum {
    CLIENT_NOTIFICATION = 2 /* the line is no answer */
};

/* reply.c: judges one line as the answer to `id`, and keeps its result. CLIENT_NOTIFICATION when it
 * has a method and no id: client->document holds it. */
int client_reply_read(worsegpu_client *client, uint64_t id, const char *line, size_t length,
                      struct worsegpu_client_error *error);

/* A sentence about a broken contract; the client is of no more use. */
int client_reply_broken(worsegpu_client *client, struct worsegpu_client_error *error,
                        const char *what);

/* events.c: keeps a notification, which client->document holds, for later. OK, BAD_REPLY or
 * NO_MEMORY. */
int client_events_keep(worsegpu_client *client, const char *line, size_t length,
                       struct worsegpu_client_error *error);
void client_events_release(worsegpu_client *client);

/* call.c: whether the client can still be used, and no answer is due. */
int client_check_alive(const worsegpu_client *client, struct worsegpu_client_error *error);
int client_check_nothing_due(const worsegpu_client *client, struct worsegpu_client_error *error);

/* call.c: requests whose parameters are written by us, so that they need no check. Begin, write
 * members with client->out, end. After a failure everything is as before begin. */
struct client_draft {
    size_t mark; /* where the request starts in client->out */
};
struct client_draft client_draft_begin(worsegpu_client *client, enum method method);
int client_draft_queue(worsegpu_client *client, struct client_draft draft,
                       struct worsegpu_client_error *error);
/* Queues it, flushes, waits for the answer. */
int client_draft_call(worsegpu_client *client, struct client_draft draft,
                      struct worsegpu_client_error *error);

#endif
