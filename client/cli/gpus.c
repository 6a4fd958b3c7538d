/* The GPUs and connections of a daemon; see gpus.h. */
#include "client/cli/gpus.h"

#include <string.h>

#include "base/memory.h"
#include "client/client_state.h"
#include "client/json_span.h"
#include "proto/json_document.h"
#include "proto/limits.h"

void gpus_init(struct gpus *gpus, const struct worsegpu_memory *memory)
{
    *gpus = (struct gpus){.memory = memory};
}

void gpus_release(struct gpus *gpus)
{
    memory_release_array(gpus->memory, gpus->items, gpus->capacity, sizeof(*gpus->items));
    memory_release_array(gpus->memory, gpus->peers, gpus->peer_capacity, sizeof(*gpus->peers));
    gpus_init(gpus, gpus->memory);
}

static int add_gpu(struct gpus *gpus, const char *name, struct worsegpu_client_error *error)
{
    if (memory_grow(gpus->memory, &gpus->items, &gpus->capacity, gpus->count + 1,
                    sizeof(*gpus->items)) != 0)
        return client_error_no_memory(error);
    struct gpu *gpu = &gpus->items[gpus->count++];
    memset(gpu, 0, sizeof(*gpu));
    snprintf(gpu->name, sizeof(gpu->name), "%s", name);
    return WORSEGPU_CLIENT_OK;
}

/* The names in the answer to `info`. */
static int read_names(struct gpus *gpus, const worsegpu_client *client,
                      struct worsegpu_client_error *error)
{
    size_t length;
    const char *result = worsegpu_client_result(client, &length);
    struct json_document document;
    json_document_init(&document, gpus->memory);
    int status = WORSEGPU_CLIENT_OK;
    if (json_document_read(&document, result, length) != STRICT_JSON_FINE)
        status = client_error_no_memory(error); /* the library has read it before */
    const cJSON *allocator;
    cJSON_ArrayForEach(allocator, json_document_member(document.root, "allocators"))
    {
        const cJSON *name = json_document_member(allocator, "name");
        if (status == WORSEGPU_CLIENT_OK && cJSON_IsString(name))
            status = add_gpu(gpus, name->valuestring, error);
    }
    json_document_release(&document);
    return status;
}

static void write_result(struct json_writer *document, const worsegpu_client *client)
{
    size_t length;
    const char *result = worsegpu_client_result(client, &length);
    json_writer_raw_value(document, result, length);
}

static int read_snapshots(struct gpus *gpus, worsegpu_client *client, struct json_writer *document,
                          struct worsegpu_client_error *error)
{
    for (size_t i = 0; i < gpus->count; i++) {
        struct gpu *gpu = &gpus->items[i];
        int status = worsegpu_client_snapshot(client, gpu->name, &gpu->snapshot, error);
        if (status != WORSEGPU_CLIENT_OK)
            return status;
        if (!document)
            continue;
        json_writer_begin_object(document);
        json_writer_member_text(document, "name", gpu->name);
        json_writer_key(document, "snapshot");
        write_result(document, client);
        json_writer_end_object(document);
    }
    return WORSEGPU_CLIENT_OK;
}

int gpus_read(struct gpus *gpus, worsegpu_client *client, const char *only,
              struct json_writer *document, struct worsegpu_client_error *error)
{
    gpus->count = 0;
    int status = worsegpu_client_info(client, &gpus->info, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    if (document) {
        json_writer_key(document, "info");
        write_result(document, client);
        json_writer_key(document, "gpus");
        json_writer_begin_array(document);
    }
    status = only ? add_gpu(gpus, only, error) : read_names(gpus, client, error);
    if (status == WORSEGPU_CLIENT_OK)
        status = read_snapshots(gpus, client, document, error);
    if (document)
        json_writer_end_array(document);
    return status;
}

/* The items of the page as they came; its own connection is left out here as well. */
static void write_peers(struct json_writer *document, const worsegpu_client *client,
                        const struct worsegpu_client_peers *page)
{
    struct json_span result;
    result.bytes = worsegpu_client_result(client, &result.length);
    struct json_span array = json_span_member(result, "clients");
    size_t position = 0;
    for (size_t i = 0; i < page->count; i++) {
        struct json_span item = json_span_next(array, &position, NULL);
        if (item.bytes && !page->peers[i].you)
            json_writer_raw_value(document, item.bytes, item.length);
    }
}

static int add_peers(struct gpus *gpus, const struct worsegpu_client_peers *page,
                     struct worsegpu_client_error *error)
{
    if (page->count > 0 && memory_grow(gpus->memory, &gpus->peers, &gpus->peer_capacity,
                                       gpus->peer_count + page->count, sizeof(*gpus->peers)) != 0)
        return client_error_no_memory(error);
    for (size_t i = 0; i < page->count; i++) {
        if (!page->peers[i].you)
            gpus->peers[gpus->peer_count++] = page->peers[i];
    }
    return WORSEGPU_CLIENT_OK;
}

int gpus_read_peers(struct gpus *gpus, worsegpu_client *client, struct json_writer *document,
                    struct worsegpu_client_error *error)
{
    struct worsegpu_client_peers page = {.more = true};
    int status = WORSEGPU_CLIENT_OK;
    gpus->peer_count = 0;
    if (document) {
        json_writer_key(document, "clients");
        json_writer_begin_array(document);
    }
    while (status == WORSEGPU_CLIENT_OK && page.more) {
        status = worsegpu_client_clients(client, page.next, PROTO_MAX_PAGE, &page, error);
        if (status == WORSEGPU_CLIENT_OK && document)
            write_peers(document, client, &page);
        if (status == WORSEGPU_CLIENT_OK)
            status = add_peers(gpus, &page, error);
    }
    if (document)
        json_writer_end_array(document);
    return status;
}
