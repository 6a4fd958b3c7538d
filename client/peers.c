/* hello and clients: who is connected to the daemon. */
#include <string.h>

#include "client/parameters.h"
#include "client/typed_results.h"

int worsegpu_client_hello(worsegpu_client *client, const char *name, uint64_t *number,
                          struct worsegpu_client_error *error)
{
    int status = parameters_check_text(name, "the name", error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct client_draft draft = client_draft_begin(client, METHOD_hello);
    parameters_put_text(client, PARAMETER_name, name);
    status = client_draft_call(client, draft, error);
    return status == WORSEGPU_CLIENT_OK ? typed_read_count(client, "client", number, error)
                                        : status;
}

static void read_peer(struct reader *reader, struct worsegpu_client_peer *peer)
{
    memset(peer, 0, sizeof(*peer));
    peer->client = reader_u64(reader, "client");
    reader_text_if_given(reader, "name", peer->name, sizeof(peer->name));
    peer->user = reader_u64(reader, "user");
    peer->group = reader_u64(reader, "group");
    if (!json_document_i64(reader->document, json_document_member(reader->object, "process"),
                           &peer->process))
        reader_miss(reader, "process");
    peer->you = reader_bool(reader, "you");
    peer->connected_us = reader_u64(reader, "connected_us");
    peer->connected_seconds = reader_u64(reader, "connected_seconds");
    peer->allocations = reader_u64(reader, "allocations");
    peer->gpu_bytes = reader_u64(reader, "gpu_bytes");
    peer->cpu_bytes = reader_u64(reader, "cpu_bytes");
    peer->detached = reader_u64(reader, "detached");
    peer->private_allocators = reader_u64(reader, "private_allocators");
    peer->requests = reader_u64(reader, "requests");
    peer->errors = reader_u64(reader, "errors");
    peer->bytes_in = reader_u64(reader, "bytes_in");
    peer->bytes_out = reader_u64(reader, "bytes_out");
}

static int read_peers(worsegpu_client *client, uint64_t after, struct worsegpu_client_peers *page,
                      struct worsegpu_client_error *error)
{
    struct reader reader = reader_start(client, client->result_item);
    void *items;
    int status = reader_page(client, &reader, "clients", sizeof(struct worsegpu_client_peer),
                             &items, &page->count, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct worsegpu_client_peer *peers = items;
    page->peers = peers;
    reader_page_end(&reader, after, &page->next, &page->more);
    size_t index = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, json_document_member(client->result_item, "clients"))
    {
        reader.object = item;
        if (peers)
            read_peer(&reader, &peers[index++]);
    }
    return reader_end(client, &reader, error);
}

int worsegpu_client_clients(worsegpu_client *client, uint64_t after, uint64_t limit,
                            struct worsegpu_client_peers *page, struct worsegpu_client_error *error)
{
    struct client_draft draft = client_draft_begin(client, METHOD_clients);
    parameters_put_u64(client, PARAMETER_after, true, after);
    parameters_put_u64(client, PARAMETER_limit, true, limit);
    int status = client_draft_call(client, draft, error);
    return status == WORSEGPU_CLIENT_OK ? read_peers(client, after, page, error) : status;
}
