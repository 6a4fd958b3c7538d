/* An allocation on the command line; see handle_operand.h. */
#include "client/cli/handle_operand.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes_text.h"
#include "client/cli/report.h"
#include "proto/errors.h"
#include "proto/limits.h"

/* The handle of a live allocation that we may see. */
static int find_handle(struct cli *cli, worsegpu_client *client, uint64_t id,
                       char handle[WORSEGPU_CLIENT_HANDLE_SIZE],
                       struct worsegpu_client_error *error)
{
    struct worsegpu_client_list page = {0};
    int status = WORSEGPU_CLIENT_OK;
    if (id > 0)
        status = worsegpu_client_list(client, cli_allocator(cli), id - 1, 1, &page, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    if (page.count == 1 && page.allocations[0].allocation_id == id) {
        memcpy(handle, page.allocations[0].handle, WORSEGPU_CLIENT_HANDLE_SIZE);
        return WORSEGPU_CLIENT_OK;
    }
    memset(error, 0, sizeof(*error));
    error->status = WORSEGPU_CLIENT_REFUSED;
    error->code = error_code(ERROR_UNKNOWN_HANDLE);
    snprintf(error->kind, sizeof(error->kind), "%s", error_kind_name(ERROR_UNKNOWN_HANDLE));
    snprintf(error->message, sizeof(error->message),
             "no live allocation %" PRIu64 " that you may see", id);
    return error->status;
}

int handle_operand(struct cli *cli, worsegpu_client *client, const char *typed,
                   char found[WORSEGPU_CLIENT_HANDLE_SIZE], const char **handle,
                   struct worsegpu_client_error *error)
{
    uint64_t id;
    *handle = typed;
    if (!count_from_text(typed, &id))
        return WORSEGPU_CLIENT_OK;
    *handle = found;
    return find_handle(cli, client, id, found, error);
}

bool stream_option_is_fine(struct cli *cli, int *status)
{
    if (!arguments_have(&cli->arguments, OPTION_stream) ||
        cli->arguments.values.stream <= (uint64_t)PROTO_MAX_SAFE_INTEGER)
        return true;
    *status = report_usage(cli, "--stream is 0 to 9007199254740991", NULL);
    return false;
}
