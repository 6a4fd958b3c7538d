/* Finding the daemon's socket, connecting to it, and the life of a client. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/version.h"
#include "client/client_state.h"

#define SYSTEM_SOCKET "/run/worsegpu/worsegpud.sock"
#define USER_SOCKET "/worsegpu/worsegpud.sock" /* below $XDG_RUNTIME_DIR */

const char *worsegpu_client_version(void)
{
    return WORSEGPU_VERSION;
}

static void close_quietly(int descriptor)
{
    int kept = errno;
    close(descriptor);
    errno = kept;
}

static int set_send_timeout(int descriptor, uint64_t timeout_ms)
{
    uint64_t seconds = timeout_ms / 1000;
    struct timeval wait = {.tv_sec = seconds > INT_MAX ? INT_MAX : (time_t)seconds,
                           .tv_usec = (suseconds_t)(timeout_ms % 1000 * 1000)};
    return setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
}

/* A connected socket, or -1 with errno. With a full backlog connect waits; SO_SNDTIMEO bounds that.
 */
static int open_socket(const struct sockaddr_un *address, uint64_t timeout_ms)
{
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0)
        return -1;
    if (timeout_ms > 0 && set_send_timeout(descriptor, timeout_ms) < 0)
        goto failed;
    while (connect(descriptor, (const struct sockaddr *)address, sizeof(*address)) < 0) {
        if (errno != EINTR)
            goto failed;
    }
    return descriptor;
failed:
    close_quietly(descriptor);
    return -1;
}

/* Tries one path. The descriptor, or a status with the reason in `error`. */
static int connect_path(const char *path, uint64_t timeout_ms, struct worsegpu_client_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0)
        return client_error_set(error, WORSEGPU_CLIENT_INVALID_ARGUMENT,
                                "the socket path is empty");
    if (length >= sizeof(address.sun_path))
        return client_error_set(error, WORSEGPU_CLIENT_INVALID_ARGUMENT,
                                "the socket path has %zu bytes, a socket takes at most %zu", length,
                                sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, length + 1);
    int descriptor = open_socket(&address, timeout_ms);
    if (descriptor >= 0)
        return descriptor;
    if (errno == EAGAIN)
        return client_error_set(error, WORSEGPU_CLIENT_TIMEOUT,
                                "the daemon at %s did not take the connection in time", path);
    if (errno == ENOMEM || errno == ENOBUFS)
        return client_error_no_memory(error);
    return client_error_set(error, WORSEGPU_CLIENT_NO_DAEMON, "no daemon answers at %s (%s)", path,
                            client_error_system(errno));
}

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] != '\0' ? value : NULL;
}

/* The default search. As connect_path. */
static int connect_default(uint64_t timeout_ms, struct worsegpu_client_error *error)
{
    const char *given = environment("WORSEGPU_SOCKET");
    if (given)
        return connect_path(given, timeout_ms, error);

    const char *folder = environment("XDG_RUNTIME_DIR");
    char first[PATH_MAX] = "";
    struct worsegpu_client_error first_error = {0};
    if (folder) {
        int length = snprintf(first, sizeof(first), "%s%s", folder, USER_SOCKET);
        if (length < 0 || (size_t)length >= sizeof(first))
            return client_error_set(error, WORSEGPU_CLIENT_INVALID_ARGUMENT,
                                    "XDG_RUNTIME_DIR has %zu bytes, a path at most %zu",
                                    strlen(folder), sizeof(first) - 1);
        int descriptor = connect_path(first, timeout_ms, &first_error);
        if (descriptor >= 0 || descriptor == WORSEGPU_CLIENT_NO_MEMORY) {
            if (descriptor < 0 && error)
                *error = first_error;
            return descriptor;
        }
    }
    int descriptor = connect_path(SYSTEM_SOCKET, timeout_ms, error);
    if (descriptor != WORSEGPU_CLIENT_NO_DAEMON || !folder)
        return descriptor;
    const char *reason = client_error_system(errno);
    return client_error_set(error, WORSEGPU_CLIENT_NO_DAEMON, "%s, nor at %s (%s)",
                            first_error.message, SYSTEM_SOCKET, reason);
}

int worsegpu_client_adopt(int descriptor, const struct worsegpu_client_options *options,
                          worsegpu_client **client, struct worsegpu_client_error *error)
{
    const struct worsegpu_memory *memory =
        options && options->memory ? options->memory : memory_system();
    client_error_fine(error);
    *client = NULL;
    worsegpu_client *made = memory_allocate_zeroed(memory, 1, sizeof(*made));
    if (!made)
        return client_error_no_memory(error);
    made->memory = memory;
    made->timeout_ms = options ? options->timeout_ms : 0;
    made->descriptor = descriptor;
    made->next_id = made->due_id = made->abandoned_id = 1;
    json_writer_init(&made->out, memory, SIZE_MAX / 2);
    json_document_init(&made->document, memory);
    *client = made;
    return WORSEGPU_CLIENT_OK;
}

int worsegpu_client_connect(const struct worsegpu_client_options *options, worsegpu_client **client,
                            struct worsegpu_client_error *error)
{
    uint64_t timeout_ms = options ? options->timeout_ms : 0;
    client_error_fine(error);
    *client = NULL;
    int descriptor = options && options->path ? connect_path(options->path, timeout_ms, error)
                                              : connect_default(timeout_ms, error);
    if (descriptor < 0)
        return descriptor;
    int status = worsegpu_client_adopt(descriptor, options, client, error);
    if (status != WORSEGPU_CLIENT_OK)
        close_quietly(descriptor);
    return status;
}

void worsegpu_client_disconnect(worsegpu_client *client)
{
    if (!client)
        return;
    close(client->descriptor);
    client_stream_release(client);
    client_events_release(client);
    json_document_release(&client->document);
    json_writer_release(&client->out);
    memory_release_array(client->memory, client->page, client->page_bytes, 1);
    memory_release_array(client->memory, client, 1, sizeof(*client));
}

int worsegpu_client_descriptor(const worsegpu_client *client)
{
    return client->descriptor;
}
