/* The parameters of a request, the long way; see request_params.h. Texts point into the reading's
 * tree and live as long as it does. */
#include "proto/request_params.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/json_text.h"
#include "proto/request_short.h"

enum request_result request_refuse(struct request_problem *problem, enum error_kind kind,
                                   const char *format, ...)
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

enum request_result request_naming(struct request_problem *problem, const char *data_name,
                                   const char *name)
{
    problem->data_name = data_name;
    problem->data.bytes = name;
    problem->data.length = json_text_cut(name, strlen(name), PROTO_MAX_ECHO_BYTES);
    return REQUEST_REFUSED;
}

const char *request_shown(const struct request_reading *reading, const cJSON *value,
                          char text[REQUEST_SHOWN_BYTES])
{
    if (cJSON_IsNumber(value)) {
        size_t length;
        const char *spelling = json_document_spelling(reading->document, value, &length);
        json_text_printable(spelling, length, text, REQUEST_SHOWN_BYTES);
        return text;
    }
    return cJSON_IsString(value)   ? "a string"
           : cJSON_IsObject(value) ? "an object"
           : cJSON_IsArray(value)  ? "an array"
           : cJSON_IsTrue(value)   ? "true"
           : cJSON_IsFalse(value)  ? "false"
                                   : "null";
}

void request_append_name(char list[REQUEST_LIST_BYTES], const char *name)
{
    size_t used = strlen(list);
    snprintf(list + used, REQUEST_LIST_BYTES - used, "%s%s", used ? ", " : "", name);
}

bool request_read_safe_integer(const struct request_reading *reading, const cJSON *item,
                               int64_t *value)
{
    return json_document_i64(reading->document, item, value) && *value >= -PROTO_MAX_SAFE_INTEGER &&
           *value <= PROTO_MAX_SAFE_INTEGER;
}

static enum request_result wrong_value(const struct request_reading *reading,
                                       const struct parameter_info *info, const cJSON *item)
{
    char text[REQUEST_SHOWN_BYTES];
    const char *value = request_shown(reading, item, text);
    struct request_problem *problem = reading->problem;
    bool is_string = cJSON_IsString(item);
    switch (info->type) {
    case PARAMETER_TYPE_INTEGER:
        request_refuse(problem, ERROR_INVALID_PARAMS,
                       "%s must be an integer from %llu to %llu, not %s", info->name,
                       (unsigned long long)info->minimum, (unsigned long long)info->maximum, value);
        break;
    case PARAMETER_TYPE_PROBABILITY:
        request_refuse(problem, ERROR_INVALID_PARAMS, "%s must be a number from 0 to 1, not %s",
                       info->name, value);
        break;
    case PARAMETER_TYPE_BOOLEAN:
        request_refuse(problem, ERROR_INVALID_PARAMS, "%s must be true or false, not %s",
                       info->name, value);
        break;
    case PARAMETER_TYPE_TEXT:
        if (is_string)
            snprintf(text, sizeof(text), "one of %zu", strlen(item->valuestring));
        request_refuse(problem, ERROR_INVALID_PARAMS,
                       "%s must be a string of %llu to %llu bytes, not %s", info->name,
                       (unsigned long long)info->minimum, (unsigned long long)info->maximum,
                       is_string ? text : value);
        break;
    case PARAMETER_TYPE_NAME:
        if (is_string)
            json_text_printable(item->valuestring, strlen(item->valuestring), text, sizeof(text));
        request_refuse(
            problem, ERROR_INVALID_PARAMS,
            "%s must be %llu to %llu of A-Z a-z 0-9 . _ -, beginning with a letter or digit, "
            "not %s",
            info->name, (unsigned long long)info->minimum, (unsigned long long)info->maximum,
            is_string ? text : value);
        break;
    case PARAMETER_TYPE_SEED:
        request_refuse(
            problem, ERROR_INVALID_PARAMS,
            "%s must be an integer from -%lld to %lld, a string of 1 to %llu decimal digits "
            "(perhaps after a minus sign), or null",
            info->name, (long long)PROTO_MAX_SAFE_INTEGER, (long long)PROTO_MAX_SAFE_INTEGER,
            (unsigned long long)info->maximum);
        break;
    }
    return request_naming(problem, "param", info->name);
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

static bool read_seed(const struct request_reading *reading, const cJSON *item,
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
    if (!request_read_safe_integer(reading, item, &unused))
        return false;
    seed->decimal.bytes = json_document_spelling(reading->document, item, &seed->decimal.length);
    return true;
}

/* Reads one parameter into its field; false when its value is wrong. */
static bool read_value(const struct request_reading *reading, const cJSON *item,
                       const struct parameter_info *info, void *field)
{
    switch (info->type) {
    case PARAMETER_TYPE_INTEGER: {
        uint64_t *value = field;
        return json_document_u64(reading->document, item, value) && *value >= info->minimum &&
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
        return read_seed(reading, item, info, field);
    }
    return false;
}

static enum request_result unknown_parameter(const struct request_reading *reading,
                                             const char *name)
{
    const struct method_info *method = method_info(reading->request->method);
    char text[REQUEST_SHOWN_BYTES];
    char list[REQUEST_LIST_BYTES] = "";
    json_text_printable(name, strlen(name), text, sizeof(text));
    for (size_t i = 0; method_parameter(reading->request->method, i) != PARAMETERS; i++)
        request_append_name(list,
                            parameter_info(method_parameter(reading->request->method, i))->name);
    if (method->takes == 0)
        request_refuse(reading->problem, ERROR_INVALID_PARAMS,
                       "%s takes no parameters, so not \"%s\"", method->name, text);
    else
        request_refuse(reading->problem, ERROR_INVALID_PARAMS,
                       "%s takes no parameter \"%s\"; it takes %s", method->name, text, list);
    return request_naming(reading->problem, "param", name);
}

enum request_result request_params_read(const struct request_reading *reading, const cJSON *params)
{
    struct request *request = reading->request;
    const struct method_info *method = method_info(request->method);
    if (params && !cJSON_IsObject(params)) {
        char text[REQUEST_SHOWN_BYTES];
        request_refuse(reading->problem, ERROR_INVALID_PARAMS, "params must be an object, not %s",
                       request_shown(reading, params, text));
        return request_naming(reading->problem, "param", "params");
    }
    const cJSON *first = params ? params->child : NULL;
    for (const cJSON *item = first; item; item = item->next) {
        enum parameter parameter = parameter_from_name(item->string, strlen(item->string));
        if (parameter == PARAMETERS || (method->takes >> parameter & 1u) == 0)
            return unknown_parameter(reading, item->string);
    }
    for (const cJSON *item = first; item; item = item->next) {
        enum parameter parameter = parameter_from_name(item->string, strlen(item->string));
        const struct parameter_info *info = parameter_info(parameter);
        if (!read_value(reading, item, info, request_field(&request->params, parameter)))
            return wrong_value(reading, info, item);
        request->given |= UINT64_C(1) << parameter;
    }
    for (unsigned i = 0; i < PARAMETERS; i++) {
        if ((method->required & ~request->given) >> i & 1u) {
            const char *name = parameter_info((enum parameter)i)->name;
            request_refuse(reading->problem, ERROR_INVALID_PARAMS, "%s needs %s", method->name,
                           name);
            return request_naming(reading->problem, "param", name);
        }
    }
    return REQUEST_FINE;
}
