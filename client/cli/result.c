/* Printing results; see result.h. */
#include "client/cli/result.h"

#include "client/json_span.h"

void result_print(struct cli *cli, const worsegpu_client *client)
{
    size_t length;
    const char *result = worsegpu_client_result(client, &length);
    output_bytes(&cli->output, result, length);
    output_bytes(&cli->output, "\n", 1);
}

void result_print_items(struct cli *cli, const worsegpu_client *client, const char *member,
                        bool *first)
{
    struct json_span result;
    result.bytes = worsegpu_client_result(client, &result.length);
    struct json_span array = json_span_member(result, member);
    size_t position = 0;
    struct json_span item = json_span_next(array, &position, NULL);
    while (item.bytes) {
        output_bytes(&cli->output, ",", *first ? 0 : 1);
        output_bytes(&cli->output, item.bytes, item.length);
        *first = false;
        item = json_span_next(array, &position, NULL);
    }
}
