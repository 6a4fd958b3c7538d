/* The table of commands.def as C. */
#ifndef LAB_COMMANDS_H
#define LAB_COMMANDS_H

#include "console/command_line.h"

enum lab_option {
#define OPTION(name, text, type, placeholder, meaning) LAB_OPTION_##name,
#include "lab/commands.def"
    LAB_OPTIONS
};

enum lab_command {
#define COMMAND(name, operands, least, most, summary, details, example) LAB_COMMAND_##name,
#include "lab/commands.def"
    LAB_COMMANDS
};

const struct command_table *lab_table(void);

#endif
