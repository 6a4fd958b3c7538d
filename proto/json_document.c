/* A strict JSON text as a cJSON tree; see json_document.h. */
#include "proto/json_document.h"

void json_document_init(struct json_document *document, const struct worsegpu_memory *memory)
{
    strict_json_init(&document->strict, memory);
    document->text = NULL;
    document->root = NULL;
}

static void drop_tree(struct json_document *document)
{
    cJSON_Delete(document->root);
    document->root = NULL;
    document->text = NULL;
}

void json_document_release(struct json_document *document)
{
    drop_tree(document);
    strict_json_release(&document->strict);
}

/* Gives each number below `item` and its later siblings its place; returns how many there are by
 * then. Goes no deeper than the strict reader let the text be. */
static int place_numbers(cJSON *item, int count)
{
    for (; item; item = item->next) {
        if (cJSON_IsNumber(item))
            item->valueint = count++;
        else if (item->child)
            count = place_numbers(item->child, count);
    }
    return count;
}

enum strict_json_result json_document_read(struct json_document *document, const char *text,
                                           size_t length)
{
    drop_tree(document);
    enum strict_json_result result = strict_json_check(&document->strict, text, length);
    if (result != STRICT_JSON_FINE)
        return result;
    const char *end;
    document->root = cJSON_ParseWithLengthOpts(text, length, &end, 0);
    if (!document->root) /* cJSON takes all that is strict, so there was no memory */
        return STRICT_JSON_NO_MEMORY;
    document->text = text;
    place_numbers(document->root, 0);
    return STRICT_JSON_FINE;
}

const char *json_document_spelling(const struct json_document *document, const cJSON *number,
                                   size_t *length)
{
    struct strict_json_span span = document->strict.numbers[number->valueint];
    *length = span.length;
    return document->text + span.start;
}

/* The magnitude of an integer written as one; false when it is not below 2^64. */
static bool magnitude(const struct json_document *document, const cJSON *item, uint64_t *value,
                      bool *negative)
{
    if (!cJSON_IsNumber(item))
        return false;
    size_t length;
    const char *spelling = json_document_spelling(document, item, &length);
    if (!strict_json_is_integer(spelling, length))
        return false;
    *negative = spelling[0] == '-';
    *value = 0;
    for (size_t i = *negative ? 1 : 0; i < length; i++)
        if (__builtin_mul_overflow(*value, UINT64_C(10), value) ||
            __builtin_add_overflow(*value, (uint64_t)(spelling[i] - '0'), value))
            return false;
    return true;
}

bool json_document_u64(const struct json_document *document, const cJSON *item, uint64_t *value)
{
    uint64_t size;
    bool negative;
    if (!magnitude(document, item, &size, &negative) || (negative && size != 0))
        return false;
    *value = size;
    return true;
}

bool json_document_i64(const struct json_document *document, const cJSON *item, int64_t *value)
{
    uint64_t size;
    bool negative;
    if (!magnitude(document, item, &size, &negative) ||
        size > (uint64_t)INT64_MAX + (negative ? 1u : 0u))
        return false;
    *value = negative ? (int64_t)(0 - size) : (int64_t)size;
    return true;
}

cJSON *json_document_member(const cJSON *object, const char *name)
{
    return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, name) : NULL;
}
