/* The table of commands.def as C. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option {
#define OPTION(name, text, type, placeholder, meaning) OPTION_##name,
#include "client/cli/commands.def"
    OPTIONS /* how many there are, at most 32 */
};

enum command {
#define COMMAND(name, text, reading, operands, least, most, summary, details, example)             \
    COMMAND_##name,
#include "client/cli/commands.def"
    COMMANDS /* how many there are */
};

enum option_type {
    OPTION_TYPE_FLAG,
    OPTION_TYPE_TEXT,
    OPTION_TYPE_COUNT,
    OPTION_TYPE_SECONDS
};
enum command_reading {
    COMMAND_READING_PLAIN,
    COMMAND_READING_OWN,
    COMMAND_READING_WORDS
};

struct option_info {
    const char *name; /* without the dashes */
    enum option_type type;
    const char *placeholder;
    const char *meaning;
};

struct command_info {
    const char *name;
    enum command_reading reading;
    const char *operands;
    size_t least;
    size_t most;
    const char *summary;
    const char *details;
    const char *example;
};

const struct option_info *option_info(enum option option);
const struct command_info *command_info(enum command command);

/* By name; OPTIONS or COMMANDS when there is none. */
enum option option_from_name(const char *name, size_t length);
enum command command_from_name(const char *name);

/* Whether every command takes the option; whether this one does. COMMANDS as command: none was
 * given yet. */
bool option_is_global(enum option option);
bool command_takes(enum command command, enum option option);

/* The nearest real name, NULL when nothing is near. */
const char *option_nearest(const char *name, enum command command);
const char *command_nearest(const char *name);

#endif
