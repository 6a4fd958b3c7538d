/* Judging one answer line: is it what the contract allows, is it ours, and what does it say? */
#include <string.h>

#include "client/client_state.h"
#include "client/json_span.h"

int client_reply_broken(worsegpu_client *client, struct worsegpu_client_error *error,
                        const char *what)
{
    client->broken = WORSEGPU_CLIENT_BAD_REPLY;
    return client_error_set(error, WORSEGPU_CLIENT_BAD_REPLY,
                            "the other side does not speak the contract: %s", what);
}

static void copy_member(const cJSON *object, const char *name, char *field, size_t size)
{
    const cJSON *item = json_document_member(object, name);
    if (cJSON_IsString(item))
        client_copy_text(field, size, item->valuestring);
}

static int read_error(worsegpu_client *client, const cJSON *item,
                      struct worsegpu_client_error *error)
{
    const struct json_document *document = &client->document;
    const cJSON *message = json_document_member(item, "message");
    const cJSON *data = json_document_member(item, "data");
    int64_t code;
    if (!json_document_i64(document, json_document_member(item, "code"), &code) ||
        !cJSON_IsString(message))
        return client_reply_broken(client, error, "an error without a code and a message");
    if (!cJSON_IsString(json_document_member(data, "kind")))
        return client_reply_broken(client, error, "an error without data.kind");
    if (!error)
        return WORSEGPU_CLIENT_REFUSED;
    client_error_clear(error);
    error->status = WORSEGPU_CLIENT_REFUSED;
    error->code = code;
    client_copy_text(error->message, sizeof(error->message), message->valuestring);
    copy_member(data, "kind", error->kind, sizeof(error->kind));
    copy_member(data, "param", error->param, sizeof(error->param));
    copy_member(data, "method", error->method, sizeof(error->method));
    copy_member(data, "check", error->check, sizeof(error->check));
    copy_member(data, "which", error->which, sizeof(error->which));
    error->limit_given =
        json_document_u64(document, json_document_member(data, "limit"), &error->limit);
    error->used_given =
        json_document_u64(document, json_document_member(data, "used"), &error->used);
    error->left_given =
        json_document_u64(document, json_document_member(data, "left"), &error->left);
    error->rule_given =
        json_document_u64(document, json_document_member(data, "rule"), &error->rule);
    error->requested_bytes_given = json_document_u64(
        document, json_document_member(data, "requested_bytes"), &error->requested_bytes);
    return WORSEGPU_CLIENT_REFUSED;
}

int client_reply_read(worsegpu_client *client, uint64_t id, const char *line, size_t length,
                      struct worsegpu_client_error *error)
{
    struct json_document *document = &client->document;
    client->result = NULL;
    client->result_item = NULL;
    switch (json_document_read(document, line, length)) {
    case STRICT_JSON_NO_MEMORY:
        return client_error_no_memory(error);
    case STRICT_JSON_FINE:
        break;
    case STRICT_JSON_REFUSED:
    default:
        return client_reply_broken(client, error, "a line that is not strict JSON");
    }
    const cJSON *root = document->root;
    const cJSON *version = json_document_member(root, "jsonrpc");
    const cJSON *number = json_document_member(root, "id");
    const cJSON *failure = json_document_member(root, "error");
    const cJSON *result = json_document_member(root, "result");
    if (!cJSON_IsObject(root))
        return client_reply_broken(client, error, "an answer that is not an object");
    if (!cJSON_IsString(version) || strcmp(version->valuestring, "2.0") != 0)
        return client_reply_broken(client, error, "an answer without \"jsonrpc\":\"2.0\"");
    if (!number && json_document_member(root, "method"))
        return CLIENT_NOTIFICATION;
    if (!number || (failure == NULL) == (result == NULL) || cJSON_GetArraySize(root) != 3)
        return client_reply_broken(client, error,
                                   "an answer needs an id, and a result or an error, and no more");
    if (result && !cJSON_IsObject(result))
        return client_reply_broken(client, error, "a result that is not an object");

    uint64_t got;
    bool nobody = cJSON_IsNull(number) && failure; /* it could not read the id, or refuses us all */
    if (!nobody && (!json_document_u64(document, number, &got) || got != id))
        return client_reply_broken(client, error, "an answer with another id than the request's");
    if (failure)
        return read_error(client, failure, error);

    size_t index = 0;
    for (const cJSON *member = root->child; member != result; member = member->next)
        index++;
    struct json_span text = json_span_child((struct json_span){line, length}, index);
    client->result_item = result;
    client->result = text.bytes;
    client->result_length = text.length;
    client_error_fine(error);
    return WORSEGPU_CLIENT_OK;
}

const char *worsegpu_client_result(const worsegpu_client *client, size_t *length)
{
    *length = client->result ? client->result_length : 0;
    return client->result;
}
