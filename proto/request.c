/* Line -> request, the long way; see request.h.
 *
 * The tree of a line lives in the decoder until the next line is decoded: texts of a request and of
 * its problem point into it, or into the line. */
#include "proto/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/json_text.h"
#include "proto/request_rescue.h"
#include "proto/request_short.h"

enum {
    SHOWN_BYTES = 64, /* how much of a client's text a message shows, NUL included */
    LIST_BYTES = 256  /* room for a list of names */
};

struct decoding {
    struct json_document *document;
    struct request *request;
    struct request_problem *problem;
};

void request_decoder_init(struct request_decoder *decoder, const struct worsegpu_memory *memory)
{
    json_document_init(&decoder->document, memory);
    decoder->long_way_only = false;
}

void request_decoder_release(struct request_decoder *decoder)
{
    json_document_release(&decoder->document);
}

__attribute__((format(printf, 3, 4))) static enum request_result
refuse(struct request_problem *problem, enum error_kind kind, const char *format, ...)
{
    va_list arguments;
    problem->kind = kind;
    problem->data_name = NULL;
    problem->data = (struct request_text){NULL, 0};
    va_start(arguments, format);
    vsnprintf(problem->message, sizeof(problem->message), format, arguments);
    va_end(arguments);
    return REQUEST_REFUSED;
}

/* Adds the member of data that names what was wrong. Returns REQUEST_REFUSED. */
static enum request_result naming(struct request_problem *problem, const char *data_name,
                                  const char *name)
{
    problem->data_name = data_name;
    problem->data.bytes = name;
    problem->data.length = json_text_cut(name, strlen(name), PROTO_MAX_ECHO_BYTES);
    return REQUEST_REFUSED;
}

/* What a value is, for "..., not <this>". */
static const char *shown(const struct decoding *decoding, const cJSON *value,
                         char text[SHOWN_BYTES])
{
    if (cJSON_IsNumber(value)) {
        size_t length;
        const char *spelling = json_document_spelling(decoding->document, value, &length);
        json_text_printable(spelling, length, text, SHOWN_BYTES);
        return text;
    }
    return cJSON_IsString(value)   ? "a string"
           : cJSON_IsObject(value) ? "an object"
           : cJSON_IsArray(value)  ? "an array"
           : cJSON_IsTrue(value)   ? "true"
           : cJSON_IsFalse(value)  ? "false"
                                   : "null";
}

static void append_name(char list[LIST_BYTES], const char *name)
{
    size_t used = strlen(list);
    snprintf(list + used, LIST_BYTES - used, "%s%s", used ? ", " : "", name);
}

/* A plain integer within +-(2^53 - 1). */
static bool is_safe_integer(const struct decoding *decoding, const cJSON *item, int64_t *value)
{
    return json_document_i64(decoding->document, item, value) &&
           *value >= -PROTO_MAX_SAFE_INTEGER && *value <= PROTO_MAX_SAFE_INTEGER;
}

static bool read_id(const struct decoding *decoding, const cJSON *item)
{
    struct request_id *id = &decoding->request->id;
    if (cJSON_IsString(item)) {
        size_t length = strlen(item->valuestring);
        if (length > PROTO_MAX_ID_BYTES)
            return false;
        id->kind = REQUEST_ID_STRING;
        id->length = length;
        memcpy(id->string, item->valuestring, length);
        return true;
    }
    if (!is_safe_integer(decoding, item, &id->integer))
        return false;
    size_t length;
    if (id->integer == 0 && *json_document_spelling(decoding->document, item, &length) == '-')
        return false;
    id->kind = REQUEST_ID_INTEGER;
    return true;
}

static enum request_result wrong_value(const struct decoding *decoding,
                                       const struct parameter_info *info, const cJSON *item)
{
    char text[SHOWN_BYTES];
    const char *value = shown(decoding, item, text);
    struct request_problem *problem = decoding->problem;
    bool is_string = cJSON_IsString(item);
    switch (info->type) {
    case PARAMETER_TYPE_INTEGER:
        refuse(problem, ERROR_INVALID_PARAMS, "%s must be an integer from %llu to %llu, not %s",
               info->name, (unsigned long long)info->minimum, (unsigned long long)info->maximum,
               value);
        break;
    case PARAMETER_TYPE_PROBABILITY:
        refuse(problem, ERROR_INVALID_PARAMS, "%s must be a number from 0 to 1, not %s", info->name,
               value);
        break;
    case PARAMETER_TYPE_BOOLEAN:
        refuse(problem, ERROR_INVALID_PARAMS, "%s must be true or false, not %s", info->name,
               value);
        break;
    case PARAMETER_TYPE_TEXT:
        if (is_string)
            snprintf(text, sizeof(text), "one of %zu", strlen(item->valuestring));
        refuse(problem, ERROR_INVALID_PARAMS, "%s must be a string of %llu to %llu bytes, not %s",
               info->name, (unsigned long long)info->minimum, (unsigned long long)info->maximum,
               is_string ? text : value);
        break;
    case PARAMETER_TYPE_NAME:
        if (is_string)
            json_text_printable(item->valuestring, strlen(item->valuestring), text, sizeof(text));
        refuse(problem, ERROR_INVALID_PARAMS,
               "%s must be %llu to %llu of A-Z a-z 0-9 . _ -, beginning with a letter or digit, "
               "not %s",
               info->name, (unsigned long long)info->minimum, (unsigned long long)info->maximum,
               is_string ? text : value);
        break;
    case PARAMETER_TYPE_SEED:
        refuse(problem, ERROR_INVALID_PARAMS,
               "%s must be an integer from -%lld to %lld, a string of 1 to %llu decimal digits "
               "(perhaps after a minus sign), or null",
               info->name, (long long)PROTO_MAX_SAFE_INTEGER, (long long)PROTO_MAX_SAFE_INTEGER,
               (unsigned long long)info->maximum);
        break;
    }
    return naming(problem, "param", info->name);
}

static bool read_text(const cJSON *item, const struct parameter_info *info,
                      struct request_text *text)
{
    if (!cJSON_IsString(item))
        return false;
    text->bytes = item->valuestring;
    text->length = strlen(item->valuestring);
    return text->length >= info->minimum && text->length <= info->maximum;
}

static bool read_seed(const struct decoding *decoding, const cJSON *item,
                      const struct parameter_info *info, struct request_seed *seed)
{
    int64_t unused;
    *seed = (struct request_seed){.given = !cJSON_IsNull(item), .is_string = cJSON_IsString(item)};
    if (!seed->given)
        return true;
    if (seed->is_string) {
        seed->decimal.bytes = item->valuestring;
        seed->decimal.length = strlen(item->valuestring);
        return request_is_decimal(seed->decimal.bytes, seed->decimal.length, info->maximum);
    }
    if (!is_safe_integer(decoding, item, &unused))
        return false;
    seed->decimal.bytes = json_document_spelling(decoding->document, item, &seed->decimal.length);
    return true;
}

/* Reads one parameter into its field; false when its value is wrong. */
static bool read_value(const struct decoding *decoding, const cJSON *item,
                       const struct parameter_info *info, void *field)
{
    switch (info->type) {
    case PARAMETER_TYPE_INTEGER: {
        uint64_t *value = field;
        return json_document_u64(decoding->document, item, value) && *value >= info->minimum &&
               *value <= info->maximum;
    }
    case PARAMETER_TYPE_PROBABILITY: {
        double *value = field;
        if (!cJSON_IsNumber(item))
            return false;
        *value = item->valuedouble;
        return *value >= 0.0 && *value <= 1.0;
    }
    case PARAMETER_TYPE_BOOLEAN: {
        bool *value = field;
        *value = cJSON_IsTrue(item);
        return cJSON_IsBool(item);
    }
    case PARAMETER_TYPE_TEXT:
        return read_text(item, info, field);
    case PARAMETER_TYPE_NAME: {
        struct request_text *text = field;
        return read_text(item, info, text) && request_is_name(text->bytes, text->length);
    }
    case PARAMETER_TYPE_SEED:
        return read_seed(decoding, item, info, field);
    }
    return false;
}

static enum request_result unknown_parameter(const struct decoding *decoding, const char *name)
{
    const struct method_info *method = method_info(decoding->request->method);
    char text[SHOWN_BYTES];
    char list[LIST_BYTES] = "";
    json_text_printable(name, strlen(name), text, sizeof(text));
    for (size_t i = 0; method_parameter(decoding->request->method, i) != PARAMETERS; i++)
        append_name(list, parameter_info(method_parameter(decoding->request->method, i))->name);
    if (method->takes == 0)
        refuse(decoding->problem, ERROR_INVALID_PARAMS, "%s takes no parameters, so not \"%s\"",
               method->name, text);
    else
        refuse(decoding->problem, ERROR_INVALID_PARAMS, "%s takes no parameter \"%s\"; it takes %s",
               method->name, text, list);
    return naming(decoding->problem, "param", name);
}

/* Names before values, values before what is missing. */
static enum request_result read_params(const struct decoding *decoding, const cJSON *params)
{
    struct request *request = decoding->request;
    const struct method_info *method = method_info(request->method);
    if (params && !cJSON_IsObject(params)) {
        char text[SHOWN_BYTES];
        refuse(decoding->problem, ERROR_INVALID_PARAMS, "params must be an object, not %s",
               shown(decoding, params, text));
        return naming(decoding->problem, "param", "params");
    }
    const cJSON *first = params ? params->child : NULL;
    for (const cJSON *item = first; item; item = item->next) {
        enum parameter parameter = parameter_from_name(item->string, strlen(item->string));
        if (parameter == PARAMETERS || (method->takes >> parameter & 1u) == 0)
            return unknown_parameter(decoding, item->string);
    }
    for (const cJSON *item = first; item; item = item->next) {
        enum parameter parameter = parameter_from_name(item->string, strlen(item->string));
        const struct parameter_info *info = parameter_info(parameter);
        if (!read_value(decoding, item, info, request_field(&request->params, parameter)))
            return wrong_value(decoding, info, item);
        request->given |= UINT32_C(1) << parameter;
    }
    for (unsigned i = 0; i < PARAMETERS; i++) {
        if ((method->required & ~request->given) >> i & 1u) {
            const char *name = parameter_info((enum parameter)i)->name;
            refuse(decoding->problem, ERROR_INVALID_PARAMS, "%s needs %s", method->name, name);
            return naming(decoding->problem, "param", name);
        }
    }
    return REQUEST_FINE;
}

static enum request_result unknown_method(const struct decoding *decoding, const char *name)
{
    char text[SHOWN_BYTES];
    char list[LIST_BYTES] = "";
    json_text_printable(name, strlen(name), text, sizeof(text));
    for (unsigned i = 0; i < METHODS; i++)
        append_name(list, method_info((enum method)i)->name);
    refuse(decoding->problem, ERROR_METHOD_NOT_FOUND, "there is no method \"%s\"; there are %s",
           text, list);
    return naming(decoding->problem, "method", name);
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

static enum request_result read_request(const struct decoding *decoding)
{
    struct request *request = decoding->request;
    struct request_problem *problem = decoding->problem;
    const cJSON *root = decoding->document->root;
    char text[SHOWN_BYTES];
    if (!cJSON_IsObject(root))
        return refuse(problem, ERROR_INVALID_REQUEST,
                      "a request must be an object, not %s (there are no batches)",
                      shown(decoding, root, text));
    const cJSON *id = json_document_member(root, "id");
    const cJSON *jsonrpc = json_document_member(root, "jsonrpc");
    const cJSON *method = json_document_member(root, "method");
    if (id && !read_id(decoding, id))
        return refuse(problem, ERROR_INVALID_REQUEST,
                      "id must be a string of at most %d bytes or a plain integer from -%lld to "
                      "%lld",
                      PROTO_MAX_ID_BYTES, (long long)PROTO_MAX_SAFE_INTEGER,
                      (long long)PROTO_MAX_SAFE_INTEGER);
    request->notification = !id && cJSON_IsString(method);
    const cJSON *stray = stray_member(root);
    if (stray) {
        json_text_printable(stray->string, strlen(stray->string), text, sizeof(text));
        return refuse(problem, ERROR_INVALID_REQUEST,
                      "a request has no member \"%s\", only jsonrpc, id, method and params", text);
    }
    if (jsonrpc && !(cJSON_IsString(jsonrpc) && strcmp(jsonrpc->valuestring, "2.0") == 0))
        return refuse(problem, ERROR_INVALID_REQUEST,
                      "jsonrpc must be the string \"2.0\" or be left out");
    if (!method)
        return refuse(problem, ERROR_INVALID_REQUEST, "a request needs a method");
    if (!cJSON_IsString(method))
        return refuse(problem, ERROR_INVALID_REQUEST, "method must be a string, not %s",
                      shown(decoding, method, text));
    request->method = method_from_name(method->valuestring, strlen(method->valuestring));
    if (request->method == METHODS)
        return unknown_method(decoding, method->valuestring);
    return read_params(decoding, json_document_member(root, "params"));
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
    struct decoding decoding = {&decoder->document, request, problem};
    const struct strict_json *strict = &decoder->document.strict;
    switch (json_document_read(&decoder->document, line, length)) {
    case STRICT_JSON_NO_MEMORY:
        /* Checked once more: if there is memory for that, it is right and only its tree was too
         * much. */
        if (strict_json_check(&decoder->document.strict, line, length) == STRICT_JSON_FINE)
            request_rescue(line, length, request);
        return REQUEST_NO_MEMORY;
    case STRICT_JSON_REFUSED:
        return refuse(problem, ERROR_PARSE_ERROR, "not strict JSON: %s at byte %zu", strict->why,
                      strict->where);
    case STRICT_JSON_FINE:
        break;
    }
    return read_request(&decoding);
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
