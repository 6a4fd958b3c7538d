/* A client whose other side is the test: a socket pair. Our ids count up from 1, so that answers
 * can be written before the requests, and no thread is needed. Lives for one test. */
#ifndef CLIENT_FAKE_H
#define CLIENT_FAKE_H

#include <assert.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/worsegpu_client.h"

struct fake {
    int server; /* the test's end, -1 once closed */
    worsegpu_client *client;
};

/* false when there was no memory for the client. */
static inline bool fake_start(struct fake *fake, const struct worsegpu_memory *memory,
                              uint64_t timeout_ms)
{
    int pair[2];
    *fake = (struct fake){.server = -1, .client = NULL};
    struct worsegpu_client_options options = {.timeout_ms = timeout_ms, .memory = memory};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return false;
    fake->server = pair[0];
    if (worsegpu_client_adopt(pair[1], &options, &fake->client, NULL) == WORSEGPU_CLIENT_OK)
        return true;
    close(pair[0]);
    close(pair[1]);
    return false;
}

static inline void fake_hang_up(struct fake *fake)
{
    if (fake->server >= 0)
        close(fake->server);
    fake->server = -1;
}

static inline void fake_end(struct fake *fake)
{
    worsegpu_client_disconnect(fake->client);
    fake_hang_up(fake);
}

/* Writes bytes to the client. */
static inline void fake_say(struct fake *fake, const char *text)
{
    size_t length = strlen(text);
    ssize_t written = send(fake->server, text, length, MSG_NOSIGNAL);
    assert(written == (ssize_t)length);
    (void)written;
}

/* What the client has sent so far, NUL-terminated. */
static inline void fake_hear(struct fake *fake, char *text, size_t size)
{
    size_t length = 0;
    ssize_t got;
    while ((got = recv(fake->server, text + length, size - 1 - length, MSG_DONTWAIT)) > 0)
        length += (size_t)got;
    text[length] = '\0';
}

#define FAKE_RESULT(id, result) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"result\":" result "}\n"
#define FAKE_ERROR(id, code, kind, more)                                                           \
    "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"error\":{\"code\":" #code                               \
    ",\"message\":\"no\",\"data\":{\"kind\":\"" kind "\"" more "}}}\n"

#endif
