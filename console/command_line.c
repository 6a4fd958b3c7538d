/* Reading a command line by its table, and help from it; see command_line.h. */
#include "console/command_line.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes_text.h"
#include "base/suggest.h"

/* ------------------------------------------------------------------------------ the table */

static bool is_global(const struct command_table *table, size_t option)
{
    return (table->globals >> option & 1u) != 0;
}

/* Whether this command takes the option by itself or as a global one. */
static bool takes(const struct command_table *table, size_t command, size_t option)
{
    for (size_t i = 0; i < table->takes_count; i++) {
        if (table->takes[i].command == command && table->takes[i].option == option)
            return true;
    }
    return is_global(table, option);
}

static size_t find_option(const struct command_table *table, const char *name, size_t length)
{
    size_t i = 0;
    while (i < table->option_count && (strlen(table->options[i].name) != length ||
                                       memcmp(table->options[i].name, name, length) != 0))
        i++;
    return i;
}

size_t command_line_find(const struct command_table *table, const char *name, const char **nearest)
{
    const char *words[COMMAND_LINE_COMMANDS];
    *nearest = NULL;
    for (size_t i = 0; i < table->command_count; i++) {
        words[i] = table->commands[i].name;
        if (strcmp(words[i], name) == 0)
            return i;
    }
    *nearest = suggest_nearest(name, words, table->command_count);
    return table->command_count;
}

/* ------------------------------------------------------------------------------ reading */

struct reader {
    struct command_line *line;
    const struct command_table *table;
    int argc;
    char **argv;
    int at;
};

__attribute__((format(printf, 2, 3))) static int refuse(struct reader *reader, const char *format,
                                                        ...)
{
    struct command_line *line = reader->line;
    const struct command_table *table = reader->table;
    va_list list;
    va_start(list, format);
    vsnprintf(line->problem, sizeof(line->problem), format, list);
    va_end(list);
    if (line->advice[0] == '\0') {
        bool known = line->command < table->command_count;
        snprintf(line->advice, sizeof(line->advice), "try: %s help%s%s", table->program,
                 known ? " " : "", known ? table->commands[line->command].name : "");
    }
    return 1;
}

static int set_value(struct reader *reader, size_t option, const char *value)
{
    struct command_line *line = reader->line;
    const struct command_option *info = &reader->table->options[option];
    switch (info->type) {
    case COMMAND_OPTION_FLAG:
        line->values[option].flag = true;
        break;
    case COMMAND_OPTION_TEXT:
        line->values[option].text = value;
        break;
    case COMMAND_OPTION_TEXTS:
        line->text_options[line->text_count] = option;
        line->texts[line->text_count++] = value;
        break;
    case COMMAND_OPTION_COUNT:
        if (!count_from_text(value, &line->values[option].number))
            return refuse(reader, "--%s needs a whole number, not \"%s\"", info->name, value);
        break;
    case COMMAND_OPTION_BYTES:
    default:
        if (!bytes_from_text(value, &line->values[option].number))
            return refuse(reader, "--%s needs a size such as 4096, 2MiB or 1.5GiB, not \"%s\"",
                          info->name, value);
        break;
    }
    line->given |= UINT64_C(1) << option;
    return 0;
}

static int refuse_unknown_option(struct reader *reader, const char *typed)
{
    struct command_line *line = reader->line;
    const struct command_table *table = reader->table;
    const char *words[COMMAND_LINE_OPTIONS];
    size_t count = 0;
    char name[64];
    size_t length = strcspn(typed, "=");
    snprintf(name, sizeof(name), "%.*s", (int)(length < 63 ? length : 63), typed);
    for (size_t i = 0; i < table->option_count; i++) {
        if (takes(table, line->command, i))
            words[count++] = table->options[i].name;
    }
    const char *nearest = suggest_nearest(name + strspn(name, "-"), words, count);
    if (nearest)
        snprintf(line->advice, sizeof(line->advice), "did you mean --%s?", nearest);
    if (line->command == table->command_count)
        return refuse(reader, "there is no option %s before the command", name);
    return refuse(reader, "%s has no option %s", table->commands[line->command].name, name);
}

/* One option, whose value may be the next word. */
static int read_option(struct reader *reader)
{
    const struct command_table *table = reader->table;
    const struct command_line *line = reader->line;
    const char *typed = reader->argv[reader->at];
    bool dashed = typed[1] == '-';
    const char *name = typed + 2;
    size_t length = dashed ? strcspn(name, "=") : 0;
    size_t option = dashed                     ? find_option(table, name, length)
                    : strcmp(typed, "-h") == 0 ? table->help
                                               : table->option_count;
    if (option == table->option_count)
        return refuse_unknown_option(reader, typed);
    const struct command_option *info = &table->options[option];
    if (!takes(table, line->command, option)) {
        if (line->command == table->command_count)
            return refuse(reader, "--%s belongs after the command", info->name);
        return refuse(reader, "%s has no option --%s", table->commands[line->command].name,
                      info->name);
    }
    const char *value = dashed && name[length] == '=' ? name + length + 1 : NULL;
    if (info->type == COMMAND_OPTION_FLAG) {
        if (value)
            return refuse(reader, "--%s takes no value", info->name);
    } else if (!value) {
        if (reader->at + 1 >= reader->argc)
            return refuse(reader, "--%s needs a value: --%s %s", info->name, info->name,
                          info->placeholder);
        value = reader->argv[++reader->at];
    }
    return set_value(reader, option, value);
}

static int read_command(struct reader *reader, const char *name)
{
    const char *nearest;
    struct command_line *line = reader->line;
    line->command = command_line_find(reader->table, name, &nearest);
    if (line->command < reader->table->command_count)
        return 0;
    if (nearest)
        snprintf(line->advice, sizeof(line->advice), "did you mean: %s %s", reader->table->program,
                 nearest);
    return refuse(reader, "there is no command \"%s\"", name);
}

static int check_operands(struct reader *reader)
{
    const struct command_line *line = reader->line;
    if (line->command == reader->table->command_count ||
        command_line_has(line, reader->table->help))
        return 0;
    const struct command_entry *entry = &reader->table->commands[line->command];
    if (line->operand_count < entry->least)
        return refuse(reader, "%s needs %s, for example: %.*s", entry->name, entry->operands,
                      (int)strcspn(entry->example, "\n"), entry->example);
    if (line->operand_count > entry->most)
        return refuse(reader, "%s does not take \"%s\"", entry->name, line->operands[entry->most]);
    return 0;
}

int command_line_read(struct command_line *line, const struct command_table *table, int argc,
                      char **argv, const char **operands, const char **texts, size_t *text_options)
{
    struct reader reader = {.line = line, .table = table, .argc = argc, .argv = argv};
    bool only_operands = false;
    *line = (struct command_line){.command = table->command_count,
                                  .operands = operands,
                                  .texts = texts,
                                  .text_options = text_options};
    for (reader.at = 1; reader.at < argc; reader.at++) {
        const char *typed = argv[reader.at];
        int status = 0;
        if (!only_operands && strcmp(typed, "--") == 0)
            only_operands = true;
        else if (!only_operands && typed[0] == '-' && typed[1] != '\0')
            status = read_option(&reader);
        else if (line->command == table->command_count)
            status = read_command(&reader, typed);
        else
            operands[line->operand_count++] = typed;
        if (status != 0)
            return status;
    }
    return check_operands(&reader);
}

const char *command_line_text(const struct command_line *line, size_t option, size_t index)
{
    for (size_t i = 0; i < line->text_count; i++) {
        if (line->text_options[i] == option && index-- == 0)
            return line->texts[i];
    }
    return NULL;
}

/* ------------------------------------------------------------------------------ help */

static void print_options(const struct command_table *table, struct output *output, size_t command,
                          bool global)
{
    for (size_t i = 0; i < table->option_count; i++) {
        const struct command_option *info = &table->options[i];
        if (is_global(table, i) != global || !takes(table, command, i))
            continue;
        bool valued = info->placeholder[0] != '\0';
        int width = (int)(strlen(info->name) + strlen(info->placeholder) + valued);
        output_text(output, "  --%s%s%s%*s%s\n", info->name, valued ? " " : "", info->placeholder,
                    width < 20 ? 20 - width : 1, "", info->meaning);
    }
}

static void print_heading(struct output *output, const char *text)
{
    output_styled(output, OUTPUT_BOLD, text);
    output_text(output, "\n");
}

void command_line_overview(const struct command_table *table, struct output *output)
{
    output_text(output, "%s\n\nUsage: %s [OPTION...] COMMAND [ARGUMENT...]\n\n", table->about,
                table->program);
    print_heading(output, "Commands");
    for (size_t i = 0; i < table->command_count; i++)
        output_text(output, "  %-10s  %s\n", table->commands[i].name, table->commands[i].summary);
    output_text(output, "\n");
    print_heading(output, "Options of every command");
    print_options(table, output, table->command_count, true);
    output_text(output, "\n%s\n\nOne command in full: %s help COMMAND\n", table->exits,
                table->program);
}

void command_line_help(const struct command_table *table, struct output *output, size_t command)
{
    const struct command_entry *entry = &table->commands[command];
    output_text(output, "Usage: %s %s [OPTION...]%s%s\n\n%s\n", table->program, entry->name,
                entry->operands[0] != '\0' ? " " : "", entry->operands, entry->summary);
    if (entry->details[0] != '\0')
        output_text(output, "\n%s\n", entry->details);
    output_text(output, "\n");
    print_heading(output, "Options");
    print_options(table, output, command, false);
    print_options(table, output, command, true);
    output_text(output, "\n");
    print_heading(output, "Examples");
    for (const char *at = entry->example; *at != '\0';) {
        size_t length = strcspn(at, "\n");
        output_text(output, "  %.*s\n", (int)length, at);
        at += length + (at[length] == '\n');
    }
}
