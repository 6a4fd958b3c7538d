/* The table of commands; see commands.def. */
#include "client/cli/commands.h"

#include <string.h>

#include "base/suggest.h"

static const struct option_info OPTION_TABLE[OPTIONS] = {
#define OPTION(name, text, type, placeholder, meaning)                                             \
    [OPTION_##name] = {text, OPTION_TYPE_##type, placeholder, meaning},
#include "client/cli/commands.def"
};

static const uint32_t GLOBALS = 0
#define GLOBAL(option) | UINT32_C(1) << OPTION_##option
#include "client/cli/commands.def"
    ;

/* Which options a command takes, apart from the global ones. */
struct taking {
    enum command command;
    enum option option;
};
static const struct taking TAKING[] = {
#define TAKES(command, option) {COMMAND_##command, OPTION_##option},
#include "client/cli/commands.def"
};

static const struct command_info COMMAND_TABLE[COMMANDS] = {
#define COMMAND(name, text, reading, operands, least, most, summary, details, example)             \
    [COMMAND_##name] = {                                                                           \
        text, COMMAND_READING_##reading, operands, least, most, summary, details, example},
#include "client/cli/commands.def"
};

const struct option_info *option_info(enum option option)
{
    return &OPTION_TABLE[option];
}

const struct command_info *command_info(enum command command)
{
    return &COMMAND_TABLE[command];
}

bool option_is_global(enum option option)
{
    return (GLOBALS >> option & 1u) != 0;
}

bool command_takes(enum command command, enum option option)
{
    for (size_t i = 0; i < sizeof(TAKING) / sizeof(TAKING[0]); i++) {
        if (TAKING[i].command == command && TAKING[i].option == option)
            return true;
    }
    return option_is_global(option);
}

enum option option_from_name(const char *name, size_t length)
{
    size_t i = 0;
    while (i < OPTIONS && (strlen(OPTION_TABLE[i].name) != length ||
                           memcmp(OPTION_TABLE[i].name, name, length) != 0))
        i++;
    return (enum option)i;
}

enum command command_from_name(const char *name)
{
    size_t i = 0;
    while (i < COMMANDS && strcmp(COMMAND_TABLE[i].name, name) != 0)
        i++;
    return (enum command)i;
}

const char *option_nearest(const char *name, enum command command)
{
    const char *words[OPTIONS];
    size_t count = 0;
    for (size_t i = 0; i < OPTIONS; i++) {
        if (command_takes(command, (enum option)i))
            words[count++] = OPTION_TABLE[i].name;
    }
    return suggest_nearest(name, words, count);
}

const char *command_nearest(const char *name)
{
    const char *words[COMMANDS];
    for (size_t i = 0; i < COMMANDS; i++)
        words[i] = COMMAND_TABLE[i].name;
    return suggest_nearest(name, words, COMMANDS);
}
