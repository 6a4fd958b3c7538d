/* metrics: what the daemon knows of itself, as text for Prometheus. */
#include <string.h>

#include "client/cli/report.h"
#include "client/cli/result.h"

int perform_metrics(struct cli *cli)
{
    bool openmetrics = cli->arguments.values.openmetrics;
    int status;
    struct worsegpu_client_error error;
    const char *text;
    worsegpu_client *client = cli_connect(cli, &status);
    if (!client)
        return status;
    status = CLI_FINE;
    if (worsegpu_client_metrics(client, openmetrics ? "openmetrics" : "prometheus", &text,
                                &error) != WORSEGPU_CLIENT_OK)
        status = report_error(cli, NULL, &error);
    else if (cli->output.json)
        result_print(cli, client);
    else
        output_bytes(&cli->output, text, strlen(text));
    worsegpu_client_disconnect(client);
    return status;
}
