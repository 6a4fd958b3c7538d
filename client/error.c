/* Errors as values: filling in a worsegpu_client_error. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/client_state.h"

static const char *status_kind(int status)
{
    switch (status) {
    case WORSEGPU_CLIENT_BUSY:
        return "busy";
    case WORSEGPU_CLIENT_BAD_REPLY:
        return "bad_reply";
    case WORSEGPU_CLIENT_TIMEOUT:
        return "timeout";
    case WORSEGPU_CLIENT_CLOSED:
        return "closed";
    case WORSEGPU_CLIENT_NO_DAEMON:
        return "no_daemon";
    case WORSEGPU_CLIENT_INVALID_ARGUMENT:
        return "invalid_argument";
    case WORSEGPU_CLIENT_NO_MEMORY:
        return "no_memory";
    default:
        return "";
    }
}

void client_copy_text(char *field, size_t size, const char *text)
{
    size_t length = strlen(text);
    if (length >= size) {
        length = size - 1;
        while (length > 0 && ((unsigned char)text[length] & 0xC0u) == 0x80u)
            length--;
    }
    memcpy(field, text, length);
    field[length] = '\0';
}

void client_error_fine(struct worsegpu_client_error *error)
{
    if (error)
        error->status = WORSEGPU_CLIENT_OK;
}

void client_error_clear(struct worsegpu_client_error *error)
{
    if (error)
        memset(error, 0, sizeof(*error));
}

int client_error_set(struct worsegpu_client_error *error, int status, const char *format, ...)
{
    if (!error)
        return status;
    client_error_clear(error);
    error->status = status;
    client_copy_text(error->kind, sizeof(error->kind), status_kind(status));
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof(error->message), format, arguments);
    va_end(arguments);
    return status;
}

int client_error_no_memory(struct worsegpu_client_error *error)
{
    return client_error_set(error, WORSEGPU_CLIENT_NO_MEMORY, "there is not enough memory");
}

const char *client_error_system(int number)
{
    const char *text = strerrordesc_np(number);
    return text ? text : "unknown error";
}
