/* validate: have the daemon recompute every account and compare. */
#include <inttypes.h>

#include "client/cli/report.h"
#include "client/cli/result.h"

int perform_validate(struct cli *cli)
{
    int status;
    uint64_t checks;
    struct worsegpu_client_error error;
    worsegpu_client *client = cli_connect(cli, &status);
    if (!client)
        return status;
    if (worsegpu_client_validate(client, cli_allocator(cli), &checks, &error) != 0) {
        status = report_error(cli, NULL, &error);
    } else if (cli->output.json) {
        result_print(cli, client);
        status = CLI_FINE;
    } else {
        output_styled(&cli->output, OUTPUT_GOOD, "valid");
        output_text(&cli->output, ": %" PRIu64 " checks held\n", checks);
        status = CLI_FINE;
    }
    worsegpu_client_disconnect(client);
    return status;
}
