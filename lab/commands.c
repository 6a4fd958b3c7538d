/* The table of commands; see commands.def. */
#include "lab/commands.h"

static const struct command_option OPTION_TABLE[LAB_OPTIONS] = {
#define OPTION(name, text, type, placeholder, meaning)                                             \
    [LAB_OPTION_##name] = {text, COMMAND_OPTION_##type, placeholder, meaning},
#include "lab/commands.def"
};

static const struct command_entry COMMAND_TABLE[LAB_COMMANDS] = {
#define COMMAND(name, operands, least, most, summary, details, example)                            \
    [LAB_COMMAND_##name] = {#name, operands, least, most, summary, details, example},
#include "lab/commands.def"
};

static const struct command_takes TAKES_TABLE[] = {
#define TAKES(command, option) {LAB_COMMAND_##command, LAB_OPTION_##option},
#include "lab/commands.def"
};

static const struct command_table TABLE = {
    .program = "worsegpu-lab",
    .about = "worsegpu-lab sends recorded logs through the allocators people really use.",
    .exits =
        "Exit status: 0 fine, 1 a mismatch or a bad log, 2 wrong usage, 3 a file that cannot be\n"
        "read or written, 4 out of memory.",
    .options = OPTION_TABLE,
    .option_count = LAB_OPTIONS,
    .globals = 0
#define GLOBAL(option) | UINT64_C(1) << LAB_OPTION_##option
#include "lab/commands.def"
    ,
    .help = LAB_OPTION_help,
    .commands = COMMAND_TABLE,
    .command_count = LAB_COMMANDS,
    .takes = TAKES_TABLE,
    .takes_count = sizeof(TAKES_TABLE) / sizeof(TAKES_TABLE[0]),
};

_Static_assert((int)LAB_OPTIONS <= (int)COMMAND_LINE_OPTIONS, "every option has its bit");
_Static_assert((int)LAB_COMMANDS <= (int)COMMAND_LINE_COMMANDS, "there is room for all commands");

const struct command_table *lab_table(void)
{
    return &TABLE;
}
