/* help: what there is, written from the table in commands.def. */
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/report.h"
#include "client/cli/workload_options.h"
#include "proto/inject_words.h"

static int option_width(enum option option)
{
    const struct option_info *info = option_info(option);
    size_t width = strlen(info->name) + strlen(info->placeholder) + (info->placeholder[0] != '\0');
    return (int)width;
}

static void print_options(struct cli *cli, enum command command, bool global)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        enum option option = (enum option)i;
        const struct option_info *info = option_info(option);
        if (option_is_global(option) != global || !command_takes(command, option))
            continue;
        output_text(&cli->output, "  --%s%s%s%*s%s\n", info->name,
                    info->placeholder[0] != '\0' ? " " : "", info->placeholder,
                    20 - option_width(option), "", info->meaning);
    }
}

/* What `inject` takes: the words are known by proto/inject_words alone. */
static void print_inject_words(struct cli *cli)
{
    struct output *output = &cli->output;
    output_styled(output, OUTPUT_BOLD, "Actions");
    output_text(output, "\n");
    for (size_t i = 0; inject_words_action(i); i++)
        output_text(output, "  %-20s  %s\n", inject_words_action(i)->word,
                    inject_words_action(i)->meaning);
    output_text(output, "\n");
    output_styled(output, OUTPUT_BOLD, "Options of a rule");
    output_text(output, "\n");
    for (size_t i = 0; inject_words_option(i); i++) {
        const struct inject_option *option = inject_words_option(i);
        output_text(output, "  %s %-*s  %s\n", option->word, (int)(19 - strlen(option->word)),
                    option->placeholder, option->meaning);
    }
    output_text(output, "  --user takes a user's name as well.\n\n");
}

static void print_overview(struct cli *cli)
{
    struct output *output = &cli->output;
    output_text(output,
                "worsegpu-cli talks to worsegpud, a fake GPU that misbehaves on purpose.\n\n"
                "Usage: worsegpu-cli [OPTION...] COMMAND [ARGUMENT...]\n\n");
    output_styled(output, OUTPUT_BOLD, "Commands");
    output_text(output, "\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        const struct command_info *info = command_info((enum command)i);
        output_text(output, "  %-13s  %s\n", info->name, info->summary);
    }
    output_text(output, "\n");
    output_styled(output, OUTPUT_BOLD, "Options of every command");
    output_text(output, "\n");
    print_options(cli, COMMANDS, true);
    output_text(output, "\nExit status: 0 fine, 1 the daemon said no, 2 wrong usage, 3 no daemon,\n"
                        "4 out of memory or over quota.\n\n"
                        "One command in full: worsegpu-cli help COMMAND\n");
}

void cli_print_help(struct cli *cli, enum command command)
{
    struct output *output = &cli->output;
    const struct command_info *info = command_info(command);
    if (info->reading == COMMAND_READING_OWN) {
        char program[64];
        snprintf(program, sizeof(program), "worsegpu-cli %s", info->name);
        workload_print_help(output, program, command);
        return;
    }
    output_text(output, "Usage: worsegpu-cli [OPTION...] %s%s%s\n\n%s\n", info->name,
                info->operands[0] != '\0' ? " " : "", info->operands, info->summary);
    if (info->details[0] != '\0')
        output_text(output, "%s\n", info->details);
    output_text(output, "\n");
    if (command == COMMAND_inject)
        print_inject_words(cli);
    output_styled(output, OUTPUT_BOLD, "Options");
    output_text(output, "\n");
    print_options(cli, command, false);
    print_options(cli, command, true);
    output_text(output, "\n");
    output_styled(output, OUTPUT_BOLD, "Example");
    output_text(output, "\n  %s\n", info->example);
}

int perform_help(struct cli *cli)
{
    if (cli->arguments.operand_count == 0) {
        print_overview(cli);
        return CLI_FINE;
    }
    const char *name = cli->arguments.operands[0];
    enum command command = command_from_name(name);
    if (command == COMMANDS) {
        char problem[ARGUMENTS_PROBLEM_SIZE];
        char advice[ARGUMENTS_PROBLEM_SIZE];
        const char *nearest = command_nearest(name);
        snprintf(problem, sizeof(problem), "there is no command \"%s\"", name);
        snprintf(advice, sizeof(advice), "%s%s", nearest ? "did you mean: worsegpu-cli help " : "",
                 nearest ? nearest : "all there are: worsegpu-cli help");
        return report_usage(cli, problem, advice);
    }
    cli_print_help(cli, command);
    return CLI_FINE;
}
