/* A stranger's program: uses both libraries through their installed headers, in C and in C++.
 *
 * tools/installcheck.sh compiles it as both, and runs it below `worsegpud --run`. */
#include <stdio.h>
#include <string.h>

#include <worsegpu.h>
#include <worsegpu_client.h>

static int use_engine(void)
{
    struct worsegpu_config config;
    worsegpu_allocator *allocator = NULL;
    struct worsegpu_request request;
    struct worsegpu_allocation allocation;
    struct worsegpu_snapshot snapshot;
    int status;

    worsegpu_config_default(&config);
    config.seed = "7";
    memset(&request, 0, sizeof(request));
    request.requested_bytes = 4096;
    status = worsegpu_create(&config, &allocator);
    if (status != WORSEGPU_OK)
        return status;
    status = worsegpu_allocate(allocator, &request, &allocation);
    worsegpu_snapshot(allocator, &snapshot);
    if (status == WORSEGPU_OK && snapshot.active_allocations != 1)
        status = WORSEGPU_INVARIANT_VIOLATION;
    if (status == WORSEGPU_OK)
        status = worsegpu_free(allocator, &allocation.handle, 0, 0, NULL);
    worsegpu_destroy(allocator);
    return status;
}

static int use_client(void)
{
    worsegpu_client *client = NULL;
    struct worsegpu_client_error error;
    struct worsegpu_client_request request;
    struct worsegpu_client_allocation allocation;
    int status;

    memset(&request, 0, sizeof(request));
    request.requested_bytes = 4096;
    status = worsegpu_client_connect(NULL, &client, &error);
    if (status == WORSEGPU_CLIENT_OK)
        status = worsegpu_client_allocate(client, NULL, &request, &allocation, &error);
    if (status == WORSEGPU_CLIENT_OK)
        status = worsegpu_client_free_handle(client, NULL, allocation.handle, NULL, &error);
    if (status != WORSEGPU_CLIENT_OK)
        fprintf(stderr, "%s: %s\n", error.kind, error.message);
    worsegpu_client_disconnect(client);
    return status;
}

int main(void)
{
    int engine = use_engine();
    int client = use_client();
    printf("%s %s\n", worsegpu_version(), worsegpu_client_version());
    if (engine != 0 || client != 0)
        fprintf(stderr, "engine %d, client %d\n", engine, client);
    return engine != 0 || client != 0;
}
