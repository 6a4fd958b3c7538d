/* Line -> request, the long way; see request.h.
 *
 * The tree of a line lives in the decoder until the next line is decoded: texts of a request and of
 * its problem point into it, or into the line. */
#include "proto/request.h"

#include <string.h>

#include "proto/json_text.h"
#include "proto/request_params.h"
#include "proto/request_rescue.h"
#include "proto/request_short.h"

void request_decoder_init(struct request_decoder *decoder, const struct worsegpu_memory *memory)
{
    json_document_init(&decoder->document, memory);
    decoder->long_way_only = false;
}

void request_decoder_release(struct request_decoder *decoder)
{
    json_document_release(&decoder->document);
}

static bool read_id(const struct request_reading *reading, const cJSON *item)
{
    struct request_id *id = &reading->request->id;
    if (cJSON_IsString(item)) {
        size_t length = strlen(item->valuestring);
        if (length > PROTO_MAX_ID_BYTES)
            return false;
        id->kind = REQUEST_ID_STRING;
        id->length = length;
        memcpy(id->string, item->valuestring, length);
        return true;
    }
    if (!request_read_safe_integer(reading, item, &id->integer))
        return false;
    size_t length;
    if (id->integer == 0 && *json_document_spelling(reading->document, item, &length) == '-')
        return false;
    id->kind = REQUEST_ID_INTEGER;
    return true;
}

static enum request_result unknown_method(const struct request_reading *reading, const char *name)
{
    char text[REQUEST_SHOWN_BYTES];
    char list[REQUEST_LIST_BYTES] = "";
    json_text_printable(name, strlen(name), text, sizeof(text));
    for (unsigned i = 0; i < METHODS; i++)
        request_append_name(list, method_info((enum method)i)->name);
    request_refuse(reading->problem, ERROR_METHOD_NOT_FOUND,
                   "there is no method \"%s\"; there are %s", text, list);
    return request_naming(reading->problem, "method", name);
}

/* A member that no request has; NULL when there is none. */
static const cJSON *stray_member(const cJSON *root)
{
    static const char *const KNOWN[] = {"jsonrpc", "id", "method", "params"};
    for (const cJSON *item = root->child; item; item = item->next) {
        size_t i = 0;
        while (i < sizeof(KNOWN) / sizeof(KNOWN[0]) && strcmp(item->string, KNOWN[i]) != 0)
            i++;
        if (i == sizeof(KNOWN) / sizeof(KNOWN[0]))
            return item;
    }
    return NULL;
}

static enum request_result read_request(const struct request_reading *reading)
{
    struct request *request = reading->request;
    struct request_problem *problem = reading->problem;
    const cJSON *root = reading->document->root;
    char text[REQUEST_SHOWN_BYTES];
    if (!cJSON_IsObject(root))
        return request_refuse(problem, ERROR_INVALID_REQUEST,
                              "a request must be an object, not %s (there are no batches)",
                              request_shown(reading, root, text));
    const cJSON *id = json_document_member(root, "id");
    const cJSON *jsonrpc = json_document_member(root, "jsonrpc");
    const cJSON *method = json_document_member(root, "method");
    if (id && !read_id(reading, id))
        return request_refuse(
            problem, ERROR_INVALID_REQUEST,
            "id must be a string of at most %d bytes or a plain integer from -%lld to %lld",
            PROTO_MAX_ID_BYTES, (long long)PROTO_MAX_SAFE_INTEGER,
            (long long)PROTO_MAX_SAFE_INTEGER);
    request->notification = !id && cJSON_IsString(method);
    const cJSON *stray = stray_member(root);
    if (stray) {
        json_text_printable(stray->string, strlen(stray->string), text, sizeof(text));
        return request_refuse(problem, ERROR_INVALID_REQUEST,
                              "a request has no member \"%s\", only jsonrpc, id, method and params",
                              text);
    }
    if (jsonrpc && !(cJSON_IsString(jsonrpc) && strcmp(jsonrpc->valuestring, "2.0") == 0))
        return request_refuse(problem, ERROR_INVALID_REQUEST,
                              "jsonrpc must be the string \"2.0\" or be left out");
    if (!method)
        return request_refuse(problem, ERROR_INVALID_REQUEST, "a request needs a method");
    if (!cJSON_IsString(method))
        return request_refuse(problem, ERROR_INVALID_REQUEST, "method must be a string, not %s",
                              request_shown(reading, method, text));
    request->method = method_from_name(method->valuestring, strlen(method->valuestring));
    if (request->method == METHODS)
        return unknown_method(reading, method->valuestring);
    return request_params_read(reading, json_document_member(root, "params"));
}

static bool is_empty(const char *line, size_t length)
{
    while (length > 0 && (line[length - 1] == ' ' || line[length - 1] == '\t'))
        length--;
    return length == 0;
}

enum request_result request_decode(struct request_decoder *decoder, const char *line, size_t length,
                                   struct request *request, struct request_problem *problem)
{
    if (!decoder->long_way_only && request_short(line, length, request))
        return REQUEST_FINE;
    request->id.kind = REQUEST_ID_NONE;
    request->notification = false;
    request->method = METHODS;
    request->given = 0;
    if (is_empty(line, length))
        return REQUEST_EMPTY;
    struct request_reading reading = {&decoder->document, request, problem};
    const struct strict_json *strict = &decoder->document.strict;
    switch (json_document_read(&decoder->document, line, length)) {
    case STRICT_JSON_NO_MEMORY:
        /* If there is memory for the check alone, only the tree was too much. */
        if (strict_json_check(&decoder->document.strict, line, length) == STRICT_JSON_FINE)
            request_rescue(line, length, request);
        return REQUEST_NO_MEMORY;
    case STRICT_JSON_REFUSED:
        return request_refuse(problem, ERROR_PARSE_ERROR, "not strict JSON: %s at byte %zu",
                              strict->why, strict->where);
    case STRICT_JSON_FINE:
        break;
    }
    return read_request(&reading);
}

void request_id_write(struct json_writer *writer, const struct request_id *id)
{
    switch (id->kind) {
    case REQUEST_ID_NONE:
        json_writer_null(writer);
        break;
    case REQUEST_ID_INTEGER:
        json_writer_i64(writer, id->integer);
        break;
    case REQUEST_ID_STRING:
        json_writer_string(writer, id->string, id->length);
        break;
    }
}
