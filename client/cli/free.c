/* free: gives allocations back, by handle, by number through `list`, or all detached ones. */
#include <inttypes.h>
#include <string.h>

#include "base/bytes_text.h"
#include "client/cli/free_detached.h"
#include "client/cli/report.h"
#include "client/cli/result.h"
#include "proto/errors.h"

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

static int free_one(struct cli *cli, worsegpu_client *client, const char *typed,
                    struct worsegpu_client_release *release, struct worsegpu_client_error *error)
{
    char found[WORSEGPU_CLIENT_HANDLE_SIZE];
    const char *handle = typed;
    uint64_t id;
    if (count_from_text(typed, &id)) {
        int status = find_handle(cli, client, id, found, error);
        if (status != WORSEGPU_CLIENT_OK)
            return status;
        handle = found;
    }
    return worsegpu_client_free_handle(client, cli_allocator(cli), handle, release, error);
}

static void print_release(struct cli *cli, const struct worsegpu_client_release *release)
{
    output_text(&cli->output, "%" PRIu64 " on the %s: ", release->allocation_id,
                release->device == WORSEGPU_CLIENT_GPU ? "gpu" : "cpu");
    output_styled(&cli->output, release->released ? OUTPUT_GOOD : OUTPUT_WARNING,
                  release->released ? "released" : "forgotten");
    output_text(&cli->output, "\n");
}

/* Frees all of them; a refusal of one does not keep the others. *first_error is the first one. */
static int free_all(struct cli *cli, worsegpu_client *client,
                    struct worsegpu_client_error *first_error)
{
    const struct arguments *arguments = &cli->arguments;
    int status = CLI_FINE;
    bool first = true;
    for (size_t i = 0; i < arguments->operand_count; i++) {
        struct worsegpu_client_release release;
        struct worsegpu_client_error error;
        int outcome = free_one(cli, client, arguments->operands[i], &release, &error);
        if (outcome == WORSEGPU_CLIENT_OK && cli->output.json) {
            size_t length;
            const char *result = worsegpu_client_result(client, &length);
            output_bytes(&cli->output, ",", first ? 0 : 1);
            output_bytes(&cli->output, result, length);
            first = false;
        } else if (outcome == WORSEGPU_CLIENT_OK) {
            print_release(cli, &release);
        } else {
            report_sentence(cli, arguments->operands[i], &error);
            if (status == CLI_FINE) {
                *first_error = error;
                status = report_exit(&error);
            }
        }
        if (outcome < 0)
            break;
    }
    return status;
}

static int free_named(struct cli *cli, worsegpu_client *client)
{
    struct worsegpu_client_error error;
    bool several = cli->output.json && cli->arguments.operand_count > 1;
    output_text(&cli->output, "%s", several ? "{\"freed\":[" : "");
    int status = free_all(cli, client, &error);
    output_text(&cli->output, "%s", several ? "]" : "");
    if (cli->output.json && status != CLI_FINE) {
        output_text(&cli->output, "%s", several ? "," : "{");
        report_json_member(cli, &error);
    }
    if (cli->output.json)
        output_text(&cli->output, "%s\n", several || status != CLI_FINE ? "}" : "");
    return status;
}

int perform_free(struct cli *cli)
{
    int status;
    bool all = cli->arguments.values.all_detached;
    bool named = cli->arguments.operand_count > 0;
    if (all && named)
        return report_usage(cli, "--all-detached frees them all: it goes with no ID and no HANDLE",
                            "try: worsegpu-cli help free");
    if (!all && !named)
        return report_usage(cli, "free needs ID|HANDLE..., for example: worsegpu-cli free 7",
                            "try: worsegpu-cli help free");
    worsegpu_client *client = cli_connect(cli, &status);
    if (!client)
        return status;
    status = all ? free_detached(cli, client) : free_named(cli, client);
    worsegpu_client_disconnect(client);
    return status;
}
