/* free: gives allocations back, by handle, by number through `list`, or all detached ones. */
#include <inttypes.h>

#include "client/cli/free_detached.h"
#include "client/cli/handle_operand.h"
#include "client/cli/report.h"
#include "client/cli/result.h"

static int free_one(struct cli *cli, worsegpu_client *client, const char *typed,
                    struct worsegpu_client_release *release, struct worsegpu_client_error *error)
{
    char found[WORSEGPU_CLIENT_HANDLE_SIZE];
    const char *handle;
    int status = handle_operand(cli, client, typed, found, &handle, error);
    if (status != WORSEGPU_CLIENT_OK)
        return status;
    if (arguments_have(&cli->arguments, OPTION_stream))
        return worsegpu_client_free_on_stream(client, cli_allocator(cli), handle,
                                              cli->arguments.values.stream, release, error);
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
    if (all && arguments_have(&cli->arguments, OPTION_stream))
        return report_usage(cli, "--stream goes with ID|HANDLE, not with --all-detached",
                            "try: worsegpu-cli help free");
    if (!stream_option_is_fine(cli, &status))
        return status;
    worsegpu_client *client = cli_connect(cli, &status);
    if (!client)
        return status;
    status = all ? free_detached(cli, client) : free_named(cli, client);
    worsegpu_client_disconnect(client);
    return status;
}
