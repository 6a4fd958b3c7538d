/* call: any method with parameters as JSON; prints the result as it came. */
#include "client/cli/report.h"
#include "client/cli/result.h"

int perform_call(struct cli *cli)
{
    const struct arguments *arguments = &cli->arguments;
    const char *method = arguments->operands[0];
    const char *params = arguments->operand_count > 1 ? arguments->operands[1] : NULL;
    int status;
    struct worsegpu_client_error error;
    worsegpu_client *client = cli_connect(cli, &status);
    if (!client)
        return status;
    status = CLI_FINE;
    if (worsegpu_client_call(client, method, params, &error) != WORSEGPU_CLIENT_OK)
        status = report_error(cli, NULL, &error);
    else
        result_print(cli, client);
    worsegpu_client_disconnect(client);
    return status;
}
