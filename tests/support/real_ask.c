/* Requests of a raw client; see real_ask.h. */
#include "tests/support/real_ask.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

enum {
    LONGEST_REQUEST = 1024
};

void real_ask_later(struct real_client *client, const char *lines)
{
    char bytes[LONGEST_REQUEST];
    size_t length = strlen(lines);
    assert_true(length > 0 && length < sizeof(bytes) && lines[length - 1] == '\n');
    for (size_t index = 0; index < length; index++)
        bytes[index] = lines[index] == '\'' ? '"' : lines[index];
    real_client_send_bytes(client, bytes, length);
}

const cJSON *real_ask(struct real_client *client, const char *method, const char *format, ...)
{
    char line[LONGEST_REQUEST];
    va_list arguments;
    va_start(arguments, format);
    int begin = snprintf(line, sizeof(line), "{'id':1,'method':'%s','params':{", method);
    int more = vsnprintf(line + begin, sizeof(line) - (size_t)begin, format, arguments);
    va_end(arguments);
    size_t length = (size_t)begin + (size_t)more;
    assert_true(begin > 0 && more >= 0 && length + sizeof("}}\n") <= sizeof(line));
    memcpy(line + length, "}}\n", sizeof("}}\n"));
    real_ask_later(client, line);
    return real_client_reply(client);
}

unsigned real_json_count(const cJSON *reply, const char *path)
{
    const cJSON *array = real_json(reply, path);
    assert_true(cJSON_IsArray(array));
    return (unsigned)cJSON_GetArraySize(array);
}
