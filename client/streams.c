/* record_stream, event_done, empty_cache and statistics: what the models of caching allocators are
 * told and tell besides. */
#include "client/parameters.h"
#include "client/typed_results.h"

/* Whether the policy had a use for it; `used` may be NULL. */
static int read_used(worsegpu_client *client, struct reader *reader, bool *used,
                     struct worsegpu_client_error *error)
{
    bool value = reader_bool(reader, "used");
    if (used)
        *used = value;
    return reader_end(client, reader, error);
}

int worsegpu_client_record_stream(worsegpu_client *client, const char *allocator,
                                  const char *handle, uint64_t stream, bool *used,
                                  struct worsegpu_client_error *error)
{
    int status = parameters_check_texts(allocator, handle, PARAMETER_handle, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct client_draft draft = client_draft_begin(client, METHOD_record_stream);
    parameters_put_text(client, PARAMETER_handle, handle);
    parameters_put_u64(client, PARAMETER_stream, true, stream);
    parameters_put_text(client, PARAMETER_allocator, allocator);
    status = client_draft_call(client, draft, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct reader reader = reader_start(client, client->result_item);
    reader_device(&reader);
    return read_used(client, &reader, used, error);
}

int worsegpu_client_event_done(worsegpu_client *client, const char *allocator, uint64_t stream,
                               uint64_t count, bool newest, bool *used,
                               struct worsegpu_client_error *error)
{
    int status = parameters_check_text(allocator, "the allocator's name", error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct client_draft draft = client_draft_begin(client, METHOD_event_done);
    parameters_put_u64(client, PARAMETER_stream, true, stream);
    parameters_put_u64(client, PARAMETER_count, count > 0, count);
    parameters_put_bool(client, PARAMETER_newest, newest, true);
    parameters_put_text(client, PARAMETER_allocator, allocator);
    status = client_draft_call(client, draft, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct reader reader = reader_start(client, client->result_item);
    return read_used(client, &reader, used, error);
}

int worsegpu_client_empty_cache(worsegpu_client *client, const char *allocator,
                                uint64_t *given_back, bool *used,
                                struct worsegpu_client_error *error)
{
    int status = parameters_call_simple(client, METHOD_empty_cache, allocator, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct reader reader = reader_start(client, client->result_item);
    uint64_t bytes = reader_u64(&reader, "given_back");
    if (given_back)
        *given_back = bytes;
    return read_used(client, &reader, used, error);
}

int worsegpu_client_statistics(worsegpu_client *client, const char *allocator,
                               struct worsegpu_client_error *error)
{
    int status = parameters_call_simple(client, METHOD_statistics, allocator, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct reader reader = reader_start(client, client->result_item);
    if (!cJSON_IsString(json_document_member(client->result_item, "policy")))
        reader_miss(&reader, "policy");
    if (!cJSON_IsObject(json_document_member(client->result_item, "statistics")))
        reader_miss(&reader, "statistics");
    return reader_end(client, &reader, error);
}
