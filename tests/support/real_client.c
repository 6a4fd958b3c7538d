/* Raw clients of a daemon; see real_client.h. */
#include "tests/support/real_client.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* A connected socket, or -1. */
static int connect_to(const char *socket_path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = REAL_PATIENCE_MS / 1000};
    size_t length = strlen(socket_path);
    assert_true(length < sizeof(address.sun_path));
    memcpy(address.sun_path, socket_path, length);
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(descriptor >= 0);
    if (connect(descriptor, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        int why = errno;
        close(descriptor);
        errno = why;
        return -1;
    }
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return descriptor;
}

struct real_client *real_client_connect(struct real_room *room, const char *socket_path)
{
    struct real_client *client = calloc(1, sizeof(*client));
    assert_non_null(client);
    client->descriptor = -1;
    client->next = room->clients;
    room->clients = client;
    client->descriptor = connect_to(socket_path);
    if (client->descriptor < 0)
        fail_msg("cannot connect to %s: %s", socket_path, strerror(errno));
    return client;
}

bool real_client_probe(const char *socket_path)
{
    char byte;
    int descriptor = connect_to(socket_path);
    if (descriptor < 0)
        return false;
    shutdown(descriptor, SHUT_WR);
    while (recv(descriptor, &byte, 1, 0) > 0)
        ;
    close(descriptor);
    return true;
}

void real_client_send_bytes(struct real_client *client, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t count = send(client->descriptor, bytes, length, MSG_NOSIGNAL);
        if (count < 0)
            fail_msg("cannot send: %s", strerror(errno));
        bytes += count;
        length -= (size_t)count;
    }
}

void real_client_send(struct real_client *client, const char *line)
{
    real_client_send_bytes(client, line, strlen(line));
    real_client_send_bytes(client, "\n", 1);
}

size_t real_client_send_some(struct real_client *client, const char *bytes, size_t length)
{
    ssize_t count = send(client->descriptor, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN && errno != EPIPE)
        fail_msg("cannot send: %s", strerror(errno));
    return count < 0 ? 0 : (size_t)count;
}

/* Receives some more. false at the end. */
static bool receive(struct real_client *client)
{
    if (client->start > 0) {
        memmove(client->received, client->received + client->start, client->length - client->start);
        client->length -= client->start;
        client->start = 0;
    }
    if (client->capacity - client->length < 65536) {
        size_t capacity = client->capacity * 2 + 131072;
        char *grown = realloc(client->received, capacity);
        assert_non_null(grown);
        client->received = grown;
        client->capacity = capacity;
    }
    ssize_t count = recv(client->descriptor, client->received + client->length, 65536, 0);
    if (count < 0 && errno != ECONNRESET)
        fail_msg("no answer within %d s: %s", REAL_PATIENCE_MS / 1000, strerror(errno));
    if (count <= 0) {
        client->ended = true;
        return false;
    }
    client->length += (size_t)count;
    return true;
}

const char *real_client_line(struct real_client *client)
{
    size_t seen = 0;
    for (;;) {
        char *begin = client->received + client->start;
        size_t length = client->length - client->start;
        char *end = length > seen ? memchr(begin + seen, '\n', length - seen) : NULL;
        if (end) {
            *end = '\0';
            client->start += (size_t)(end - begin) + 1;
            return begin;
        }
        seen = length;
        if (client->ended || !receive(client)) {
            if (seen > 0)
                fail_msg("the daemon closed in the middle of a line");
            return NULL;
        }
    }
}

const cJSON *real_client_reply(struct real_client *client)
{
    const char *line = real_client_line(client);
    if (!line)
        fail_msg("the daemon closed instead of answering");
    cJSON_Delete(client->reply);
    client->reply = cJSON_Parse(line);
    if (!client->reply)
        fail_msg("this is no JSON: %s", line);
    return client->reply;
}

const cJSON *real_client_call(struct real_client *client, const char *line)
{
    real_client_send(client, line);
    return real_client_reply(client);
}

bool real_client_has_news(struct real_client *client)
{
    struct pollfd entry = {.fd = client->descriptor, .events = POLLIN};
    return client->start < client->length || poll(&entry, 1, 0) > 0;
}

void real_client_expect_end(struct real_client *client)
{
    const char *line = real_client_line(client);
    if (line)
        fail_msg("expected the end, got %s", line);
}

void real_client_shutdown(struct real_client *client)
{
    assert_int_equal(shutdown(client->descriptor, SHUT_WR), 0);
}

void real_client_close(struct real_client *client)
{
    if (client->descriptor >= 0)
        close(client->descriptor);
    client->descriptor = -1;
}

void real_clients_close(struct real_room *room)
{
    for (struct real_client *client = room->clients; client; client = client->next)
        real_client_close(client);
}

void real_clients_release(struct real_room *room)
{
    while (room->clients) {
        struct real_client *client = room->clients;
        room->clients = client->next;
        real_client_close(client);
        cJSON_Delete(client->reply);
        free(client->received);
        free(client);
    }
}

/* ------------------------------------------------------------------------------------------ JSON
 */

/* NULL when there is none. */
static const cJSON *find(const cJSON *value, const char *path)
{
    while (value && *path) {
        char name[64];
        size_t length = strcspn(path, ".");
        assert_true(length < sizeof(name));
        memcpy(name, path, length);
        name[length] = '\0';
        value = cJSON_IsArray(value) ? cJSON_GetArrayItem(value, (int)strtol(name, NULL, 10))
                                     : cJSON_GetObjectItemCaseSensitive(value, name);
        path += length + (path[length] == '.');
    }
    return value;
}

bool real_json_has(const cJSON *reply, const char *path)
{
    return find(reply, path) != NULL;
}

const cJSON *real_json(const cJSON *reply, const char *path)
{
    const cJSON *value = find(reply, path);
    if (!value) {
        char *shown = cJSON_PrintUnformatted(reply);
        print_message("%s\n", shown);
        free(shown);
        fail_msg("there is no %s in it", path);
    }
    return value;
}

uint64_t real_json_number(const cJSON *reply, const char *path)
{
    const cJSON *value = real_json(reply, path);
    assert_true(cJSON_IsNumber(value));
    assert_true(value->valuedouble >= 0 && value->valuedouble <= 9007199254740991.0);
    return (uint64_t)value->valuedouble;
}

const char *real_json_text(const cJSON *reply, const char *path)
{
    const cJSON *value = real_json(reply, path);
    assert_true(cJSON_IsString(value));
    return value->valuestring;
}

bool real_json_true(const cJSON *reply, const char *path)
{
    const cJSON *value = real_json(reply, path);
    assert_true(cJSON_IsBool(value));
    return cJSON_IsTrue(value);
}

void real_json_expect_error(const cJSON *reply, const char *kind)
{
    assert_string_equal(real_json_text(reply, "error.data.kind"), kind);
}
