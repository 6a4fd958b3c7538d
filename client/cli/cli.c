/* worsegpu-cli: reads the command line, hands over to the command, and makes sure that what it
 * printed was really written. */
#include "client/cli/cli.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "base/version.h"
#include "client/cli/report.h"

typedef int (*command_function)(struct cli *cli);

static const command_function FUNCTIONS[COMMANDS] = {
#define COMMAND(name, text, reading, operands, least, most, summary, details, example)             \
    [COMMAND_##name] = perform_##name,
#include "client/cli/commands.def"
};

/* Gives the connection the name that was asked for. */
static int introduce(struct cli *cli, worsegpu_client **client, struct worsegpu_client_error *error)
{
    if (!arguments_have(&cli->arguments, OPTION_name))
        return WORSEGPU_CLIENT_OK;
    int status = worsegpu_client_hello(*client, cli->arguments.values.name, NULL, error);
    if (status == WORSEGPU_CLIENT_OK)
        return status;
    worsegpu_client_disconnect(*client);
    *client = NULL;
    return status;
}

int cli_try_connect(struct cli *cli, worsegpu_client **client, struct worsegpu_client_error *error)
{
    struct worsegpu_client_options options = {
        .path = cli->arguments.values.socket,
        .timeout_ms = arguments_have(&cli->arguments, OPTION_timeout)
                          ? cli->arguments.values.timeout
                          : CLI_DEFAULT_TIMEOUT_MS,
        .memory = cli->memory,
    };
    int status = worsegpu_client_connect(&options, client, error);
    return status == WORSEGPU_CLIENT_OK ? introduce(cli, client, error) : status;
}

worsegpu_client *cli_connect(struct cli *cli, int *status)
{
    worsegpu_client *client;
    struct worsegpu_client_error error;
    if (cli_try_connect(cli, &client, &error) != WORSEGPU_CLIENT_OK) {
        *status = report_error(cli, NULL, &error);
        return NULL;
    }
    return client;
}

const char *cli_allocator(const struct cli *cli)
{
    return cli->arguments.values.allocator;
}

static int say_hello(struct cli *cli)
{
    output_advice(&cli->output,
                  "worsegpu-cli talks to worsegpud, a fake GPU that misbehaves on purpose.");
    output_advice(&cli->output, "  worsegpu-cli demo          watch it work");
    output_advice(&cli->output,
                  "  worsegpud &                share a fake GPU with everybody here");
    output_advice(&cli->output, "  worsegpu-cli alloc 2MiB    ask that for memory");
    output_advice(&cli->output, "  worsegpu-cli help          all commands");
    return CLI_USAGE;
}

static int dispatch(struct cli *cli)
{
    const struct arguments *arguments = &cli->arguments;
    if (arguments_have(arguments, OPTION_version)) {
        output_text(&cli->output, "worsegpu-cli %s\n", WORSEGPU_VERSION);
        return CLI_FINE;
    }
    if (arguments->command == COMMANDS)
        return arguments_have(arguments, OPTION_help) ? perform_help(cli) : say_hello(cli);
    if (arguments_have(arguments, OPTION_help)) {
        cli_print_help(cli, arguments->command);
        return CLI_FINE;
    }
    return FUNCTIONS[arguments->command](cli);
}

/* What could not be written turns success into failure. A reader that went away (EPIPE) knows it
 * already. */
static int finish(struct cli *cli, int status)
{
    int failure = output_flush(&cli->output);
    if (failure == 0)
        return status;
    if (failure != EPIPE)
        output_complaint(&cli->output, cli->program, "cannot write to standard output: %s",
                         strerrordesc_np(failure));
    return status == CLI_FINE ? CLI_REFUSED : status;
}

static void start(struct cli *cli, const char *program, int argc, char **argv,
                  const struct worsegpu_memory *memory, FILE *out, FILE *errors)
{
    *cli = (struct cli){.program = program, .memory = memory, .argc = argc, .argv = argv};
    cli->arguments.command = COMMANDS;
    output_init(&cli->output, out, errors);
}

int cli_main(int argc, char **argv, const struct worsegpu_memory *memory, FILE *out, FILE *errors)
{
    struct cli cli;
    int status;
    start(&cli, "worsegpu-cli", argc, argv, memory, out, errors);
    size_t room = argc > 0 ? (size_t)argc : 1;
    const char **operands = memory_allocate_array(memory, room, sizeof(*operands));
    if (!operands)
        return finish(&cli, report_no_memory(&cli));
    int problem = arguments_read(&cli.arguments, argc, argv, operands);
    cli.output.json = cli.arguments.values.json;
    if (problem != 0)
        status = report_usage(&cli, cli.arguments.problem, cli.arguments.advice);
    else
        status = dispatch(&cli);
    memory_release_array(memory, operands, room, sizeof(*operands));
    return finish(&cli, status);
}

/* A program that is one command. */
static int single_main(const char *program, enum command command, int argc, char **argv,
                       const struct worsegpu_memory *memory, FILE *out, FILE *errors)
{
    struct cli cli;
    start(&cli, program, argc, argv, memory, out, errors);
    cli.arguments.command = command;
    cli.arguments.own = argv + (argc > 0 ? 1 : 0);
    cli.arguments.own_count = argc > 0 ? argc - 1 : 0;
    return finish(&cli, FUNCTIONS[command](&cli));
}

int demo_main(int argc, char **argv, const struct worsegpu_memory *memory, FILE *out, FILE *errors)
{
    return single_main("worse-gpu-demo", COMMAND_demo, argc, argv, memory, out, errors);
}

int benchmark_main(int argc, char **argv, const struct worsegpu_memory *memory, FILE *out,
                   FILE *errors)
{
    return single_main("worse-gpu-benchmark", COMMAND_benchmark, argc, argv, memory, out, errors);
}
