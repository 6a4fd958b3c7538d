/* metrics: what the daemon knows of itself, as text for Prometheus. */
#include "client/parameters.h"
#include "client/reader.h"

static const char *text_of(struct reader *reader, const char *name)
{
    const cJSON *item = json_document_member(reader->object, name);
    if (cJSON_IsString(item))
        return item->valuestring;
    reader_miss(reader, name);
    return NULL;
}

int worsegpu_client_metrics(worsegpu_client *client, const char *format, const char **text,
                            struct worsegpu_client_error *error)
{
    int status = parameters_check_text(format, "the format", error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct client_draft draft = client_draft_begin(client, METHOD_metrics);
    parameters_put_text(client, PARAMETER_format, format);
    status = client_draft_call(client, draft, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct reader reader = reader_start(client, client->result_item);
    text_of(&reader, "content_type");
    *text = text_of(&reader, "text");
    return reader_end(client, &reader, error);
}
