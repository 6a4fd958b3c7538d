/* Writing the parameters of a request; see parameters.h. */
#include "client/parameters.h"

#include <string.h>

#include "proto/json_text.h"

static const char *parameter_name(enum parameter parameter)
{
    return parameter_info(parameter)->name;
}

void parameters_put_text(worsegpu_client *client, enum parameter parameter, const char *value)
{
    if (value)
        json_writer_member_text(&client->out, parameter_name(parameter), value);
}

void parameters_put_u64(worsegpu_client *client, enum parameter parameter, bool given,
                        uint64_t value)
{
    if (given)
        json_writer_member_u64(&client->out, parameter_name(parameter), value);
}

void parameters_put_bool(worsegpu_client *client, enum parameter parameter, bool given, bool value)
{
    if (given)
        json_writer_member_bool(&client->out, parameter_name(parameter), value);
}

void parameters_put_double(worsegpu_client *client, enum parameter parameter, bool given,
                           double value)
{
    if (given)
        json_writer_member_double(&client->out, parameter_name(parameter), value);
}

int parameters_check_text(const char *text, const char *name, struct worsegpu_client_error *error)
{
    if (!text)
        return WORSEGPU_CLIENT_OK;
    size_t length = strlen(text);
    for (size_t at = 0; at < length;) {
        size_t bytes = json_text_utf8_length(text + at, length - at);
        if (bytes == 0)
            return client_error_set(error, WORSEGPU_CLIENT_INVALID_ARGUMENT, "%s is not UTF-8",
                                    name);
        at += bytes;
    }
    return WORSEGPU_CLIENT_OK;
}

int parameters_check_texts(const char *allocator, const char *other, enum parameter other_parameter,
                           struct worsegpu_client_error *error)
{
    int status = parameters_check_text(allocator, "the allocator's name", error);
    return status == WORSEGPU_CLIENT_OK
               ? parameters_check_text(other, parameter_name(other_parameter), error)
               : status;
}

int parameters_call_simple(worsegpu_client *client, enum method method, const char *allocator,
                           struct worsegpu_client_error *error)
{
    int status = parameters_check_text(allocator, "the allocator's name", error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    struct client_draft draft = client_draft_begin(client, method);
    parameters_put_text(client, PARAMETER_allocator, allocator);
    return client_draft_call(client, draft, error);
}
