/* resize: another capacity for a fake GPU while it runs. */
#include "base/bytes_text.h"
#include "client/cli/report.h"
#include "client/cli/result.h"
#include "client/cli/size_operand.h"

int perform_resize(struct cli *cli)
{
    uint64_t bytes;
    struct worsegpu_client_error error;
    struct worsegpu_client_config config;
    int status = size_operand(cli, cli->arguments.operands[0], &bytes);
    if (status != CLI_FINE)
        return status;
    worsegpu_client *client = cli_connect(cli, &status);
    if (!client)
        return status;
    status = CLI_FINE;
    if (worsegpu_client_resize(client, cli_allocator(cli), bytes, &config, &error) != 0) {
        status = report_error(cli, NULL, &error);
    } else if (cli->output.json) {
        result_print(cli, client);
    } else {
        char text[BYTES_TEXT_SIZE];
        bytes_to_text(config.gpu_capacity, false, text);
        output_text(&cli->output, "the capacity is now %s\n", text);
    }
    worsegpu_client_disconnect(client);
    return status;
}
