/* Reading the members of an answer; see reader.h. */
#include "client/reader.h"

#include <string.h>

#include "base/memory.h"

struct reader reader_start(const worsegpu_client *client, const cJSON *object)
{
    return (struct reader){.document = &client->document, .object = object};
}

void reader_miss(struct reader *reader, const char *name)
{
    if (!reader->missing)
        reader->missing = name;
}

uint64_t reader_u64(struct reader *reader, const char *name)
{
    uint64_t value = 0;
    if (!json_document_u64(reader->document, json_document_member(reader->object, name), &value))
        reader_miss(reader, name);
    return value;
}

bool reader_bool(struct reader *reader, const char *name)
{
    const cJSON *item = json_document_member(reader->object, name);
    if (!cJSON_IsBool(item))
        reader_miss(reader, name);
    return cJSON_IsTrue(item);
}

double reader_double(struct reader *reader, const char *name)
{
    const cJSON *item = json_document_member(reader->object, name);
    if (!cJSON_IsNumber(item)) {
        reader_miss(reader, name);
        return 0;
    }
    return item->valuedouble;
}

void reader_text(struct reader *reader, const char *name, char *field, size_t size)
{
    const cJSON *item = json_document_member(reader->object, name);
    field[0] = '\0';
    if (!cJSON_IsString(item) || strlen(item->valuestring) >= size)
        reader_miss(reader, name);
    else
        client_copy_text(field, size, item->valuestring);
}

static bool is_absent(const cJSON *item)
{
    return !item || cJSON_IsNull(item);
}

void reader_text_if_given(struct reader *reader, const char *name, char *field, size_t size)
{
    field[0] = '\0';
    if (!is_absent(json_document_member(reader->object, name)))
        reader_text(reader, name, field, size);
}

bool reader_u64_if_given(struct reader *reader, const char *name, uint64_t *value)
{
    *value = 0;
    if (is_absent(json_document_member(reader->object, name)))
        return false;
    *value = reader_u64(reader, name);
    return true;
}

enum worsegpu_client_device reader_device(struct reader *reader)
{
    const cJSON *item = json_document_member(reader->object, "device");
    const char *name = cJSON_IsString(item) ? item->valuestring : "";
    if (strcmp(name, "gpu") == 0)
        return WORSEGPU_CLIENT_GPU;
    if (strcmp(name, "cpu") != 0)
        reader_miss(reader, "device");
    return WORSEGPU_CLIENT_CPU;
}

int reader_end(worsegpu_client *client, const struct reader *reader,
               struct worsegpu_client_error *error)
{
    if (!reader->missing)
        return WORSEGPU_CLIENT_OK;
    client->broken = WORSEGPU_CLIENT_BAD_REPLY;
    return client_error_set(
        error, WORSEGPU_CLIENT_BAD_REPLY,
        "the other side does not speak the contract: \"%s\" is missing or wrong", reader->missing);
}

int reader_page(worsegpu_client *client, struct reader *reader, const char *name, size_t item_bytes,
                void **items, size_t *count, struct worsegpu_client_error *error)
{
    const cJSON *array = json_document_member(client->result_item, name);
    *items = NULL;
    *count = 0;
    if (!cJSON_IsArray(array)) {
        reader_miss(reader, name);
        return WORSEGPU_CLIENT_OK;
    }
    size_t wanted = (size_t)cJSON_GetArraySize(array);
    size_t bytes;
    if (__builtin_mul_overflow(wanted, item_bytes, &bytes))
        return client_error_no_memory(error);
    if (bytes > client->page_bytes) {
        void *grown =
            memory_resize_array(client->memory, client->page, client->page_bytes, bytes, 1);
        if (!grown)
            return client_error_no_memory(error);
        client->page = grown;
        client->page_bytes = bytes;
    }
    *items = wanted > 0 ? client->page : NULL;
    *count = wanted;
    return WORSEGPU_CLIENT_OK;
}

void reader_page_end(struct reader *reader, uint64_t after, uint64_t *next, bool *more)
{
    *next = reader_u64(reader, "next");
    *more = reader_bool(reader, "more");
    if (*more && *next <= after)
        reader_miss(reader, "next");
}
