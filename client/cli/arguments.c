/* Reading the command line; see arguments.h. */
#include "client/cli/arguments.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes_text.h"

#define MAX_SECONDS 1000000.0

/* Where the value of an option goes. */
static void *option_field(struct option_values *values, enum option option)
{
    static const size_t places[OPTIONS] = {
#define OPTION(name, text, type, placeholder, meaning)                                             \
    [OPTION_##name] = offsetof(struct option_values, name),
#include "client/cli/commands.def"
    };
    return (char *)values + places[option];
}

__attribute__((format(printf, 2, 3))) static int refuse(struct arguments *arguments,
                                                        const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(arguments->problem, sizeof(arguments->problem), format, list);
    va_end(list);
    if (arguments->advice[0] == '\0') {
        bool known = arguments->command != COMMANDS;
        snprintf(arguments->advice, sizeof(arguments->advice), "try: worsegpu-cli help%s%s",
                 known ? " " : "", known ? command_info(arguments->command)->name : "");
    }
    return 1;
}

static int set_value(struct arguments *arguments, enum option option, const char *value)
{
    const struct option_info *info = option_info(option);
    void *field = option_field(&arguments->values, option);
    double seconds;
    switch (info->type) {
    case OPTION_TYPE_FLAG:
        *(bool *)field = true;
        break;
    case OPTION_TYPE_TEXT:
        *(const char **)field = value;
        break;
    case OPTION_TYPE_COUNT:
        if (!count_from_text(value, field))
            return refuse(arguments, "--%s needs a whole number, not \"%s\"", info->name, value);
        break;
    case OPTION_TYPE_SECONDS:
    default:
        if (!number_from_text(value, &seconds) || seconds < 0 || seconds > MAX_SECONDS)
            return refuse(arguments, "--%s needs a number of seconds from 0 to %.0f, not \"%s\"",
                          info->name, MAX_SECONDS, value);
        /* Any wait at all is at least a millisecond: 0 means for ever. */
        *(uint64_t *)field = seconds > 0 && seconds < 0.001 ? 1 : (uint64_t)(seconds * 1000.0);
        break;
    }
    arguments->given |= UINT32_C(1) << option;
    return 0;
}

static int refuse_unknown_option(struct arguments *arguments, const char *typed)
{
    char name[64];
    size_t length = strcspn(typed, "=");
    snprintf(name, sizeof(name), "%.*s", (int)(length < 63 ? length : 63), typed);
    const char *bare = name + strspn(name, "-");
    const char *nearest = option_nearest(bare, arguments->command);
    if (nearest)
        snprintf(arguments->advice, sizeof(arguments->advice), "did you mean --%s?", nearest);
    if (arguments->command == COMMANDS)
        return refuse(arguments, "there is no option %s before the command", name);
    return refuse(arguments, "%s has no option %s", command_info(arguments->command)->name, name);
}

/* Whether a command that reads its own words gets this one too: it is no global option. */
static bool is_own_word(const struct arguments *arguments, const char *typed)
{
    if (arguments->command == COMMANDS ||
        command_info(arguments->command)->reading != COMMAND_READING_WORDS ||
        strcmp(typed, "-h") == 0)
        return false;
    enum option option =
        typed[1] == '-' ? option_from_name(typed + 2, strcspn(typed + 2, "=")) : OPTIONS;
    return option == OPTIONS || !option_is_global(option);
}

/* Reads one option, whose value may be the next argument. */
static int read_option(struct arguments *arguments, int argc, char **argv, int *at)
{
    const char *typed = argv[*at];
    if (strcmp(typed, "-h") == 0)
        typed = "--help";
    const char *name = typed + 2;
    size_t length = typed[1] == '-' ? strcspn(name, "=") : 0;
    enum option option = typed[1] == '-' ? option_from_name(name, length) : OPTIONS;
    if (option == OPTIONS)
        return refuse_unknown_option(arguments, typed);
    if (!command_takes(arguments->command, option)) {
        if (arguments->command == COMMANDS)
            return refuse(arguments, "--%s belongs after the command", option_info(option)->name);
        return refuse(arguments, "%s has no option --%s", command_info(arguments->command)->name,
                      option_info(option)->name);
    }
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    if (option_info(option)->type == OPTION_TYPE_FLAG) {
        if (value)
            return refuse(arguments, "--%s takes no value", option_info(option)->name);
    } else if (!value) {
        if (*at + 1 >= argc)
            return refuse(arguments, "--%s needs a value: --%s %s", option_info(option)->name,
                          option_info(option)->name, option_info(option)->placeholder);
        value = argv[++*at];
    }
    return set_value(arguments, option, value);
}

static int read_command(struct arguments *arguments, const char *name)
{
    arguments->command = command_from_name(name);
    if (arguments->command != COMMANDS)
        return 0;
    const char *nearest = command_nearest(name);
    if (nearest)
        snprintf(arguments->advice, sizeof(arguments->advice), "did you mean: worsegpu-cli %s",
                 nearest);
    return refuse(arguments, "there is no command \"%s\"", name);
}

static int check_operands(struct arguments *arguments)
{
    if (arguments->command == COMMANDS || arguments_have(arguments, OPTION_help))
        return 0;
    const struct command_info *info = command_info(arguments->command);
    if (arguments->operand_count < info->least)
        return refuse(arguments, "%s needs %s, for example: %s", info->name, info->operands,
                      info->example);
    if (arguments->operand_count > info->most)
        return refuse(arguments, "%s does not take \"%s\"", info->name,
                      arguments->operands[info->most]);
    return 0;
}

int arguments_read(struct arguments *arguments, int argc, char **argv, const char **operands)
{
    bool only_operands = false;
    *arguments = (struct arguments){.command = COMMANDS, .operands = operands};
    for (int at = 1; at < argc; at++) {
        int status = 0;
        if (!only_operands && strcmp(argv[at], "--") == 0) {
            only_operands = true;
        } else if (!only_operands && argv[at][0] == '-' && argv[at][1] != '\0' &&
                   !is_own_word(arguments, argv[at])) {
            status = read_option(arguments, argc, argv, &at);
        } else if (arguments->command == COMMANDS) {
            status = read_command(arguments, argv[at]);
            if (status == 0 && command_info(arguments->command)->reading == COMMAND_READING_OWN) {
                arguments->own = argv + at + 1;
                arguments->own_count = argc - at - 1;
                return 0;
            }
        } else {
            operands[arguments->operand_count++] = argv[at];
        }
        if (status != 0)
            return status;
    }
    return check_operands(arguments);
}
