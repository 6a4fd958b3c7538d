/* Fragments from the table of worsegpu-lab (lab/commands.def). */
#include <string.h>

#include "console/command_line.h"
#include "lab/commands.h"
#include "manual/manual.h"

static bool is_global(size_t option)
{
    return (lab_table()->globals >> option & 1u) != 0;
}

static bool takes(size_t command, size_t option)
{
    for (size_t i = 0; i < lab_table()->takes_count; i++) {
        if (lab_table()->takes[i].command == command && lab_table()->takes[i].option == option)
            return true;
    }
    return false;
}

static void write_option(FILE *out, size_t option)
{
    const struct command_option *info = &lab_table()->options[option];
    fprintf(out, "*--%s*", info->name);
    if (*info->placeholder != '\0')
        fprintf(out, " _%s_", info->placeholder);
    fputs("\n\t", out);
    manual_text(out, info->meaning);
    fputs(".\n\n", out);
}

static void write_globals(FILE *out)
{
    for (size_t i = 0; i < lab_table()->option_count; i++) {
        if (is_global(i))
            write_option(out, i);
    }
}

static void write_commands(FILE *out)
{
    for (size_t i = 0; i < lab_table()->command_count; i++) {
        const struct command_entry *entry = &lab_table()->commands[i];
        fprintf(out, "## %s%s%s\n\n", entry->name, *entry->operands != '\0' ? " " : "",
                entry->operands);
        manual_text(out, entry->summary);
        fputs(".\n\n", out);
        if (*entry->details != '\0')
            fprintf(out, "```\n%s\n```\n\n", entry->details);
        for (size_t j = 0; j < lab_table()->option_count; j++) {
            if (!is_global(j) && takes(i, j))
                write_option(out, j);
        }
        fprintf(out, "Example:\n\n```\n%s\n```\n\n", entry->example);
    }
}

static void write_exits(FILE *out)
{
    fprintf(out, "```\n%s\n```\n", lab_table()->exits);
}

static void write_bash_commands(FILE *out)
{
    fputs("    commands='", out);
    for (size_t i = 0; i < lab_table()->command_count; i++)
        fprintf(out, "%s%s", i > 0 ? " " : "", lab_table()->commands[i].name);
    fputs("'\n    global='", out);
    const char *before = "";
    for (size_t i = 0; i < lab_table()->option_count; i++) {
        if (!is_global(i))
            continue;
        fprintf(out, "%s--%s", before, lab_table()->options[i].name);
        before = " ";
    }
    fputs("'\n", out);
}

static void write_bash_cases(FILE *out)
{
    for (size_t i = 0; i < lab_table()->command_count; i++) {
        fprintf(out, "    %s) options='", lab_table()->commands[i].name);
        const char *before = "";
        for (size_t j = 0; j < lab_table()->option_count; j++) {
            if (is_global(j) || !takes(i, j))
                continue;
            fprintf(out, "%s--%s", before, lab_table()->options[j].name);
            before = " ";
        }
        fputs("' ;;\n", out);
    }
}

static void write_zsh_option(FILE *out, size_t option)
{
    const struct command_option *info = &lab_table()->options[option];
    fprintf(out, "        '%s--%s[", info->type == COMMAND_OPTION_TEXTS ? "*" : "", info->name);
    manual_zsh_text(out, info->meaning);
    fputc(']', out);
    if (*info->placeholder != '\0')
        fprintf(out, ":%s:%s", info->placeholder,
                strcmp(info->placeholder, "FILE") == 0 ? "_files" : "");
    fputs("' \\\n", out);
}

static void write_zsh_globals(FILE *out)
{
    for (size_t i = 0; i < lab_table()->option_count; i++) {
        if (is_global(i))
            write_zsh_option(out, i);
    }
}

static void write_zsh_commands(FILE *out)
{
    for (size_t i = 0; i < lab_table()->command_count; i++) {
        fprintf(out, "        '%s:", lab_table()->commands[i].name);
        manual_zsh_text(out, lab_table()->commands[i].summary);
        fputs("'\n", out);
    }
}

static void write_zsh_cases(FILE *out)
{
    for (size_t i = 0; i < lab_table()->command_count; i++) {
        fprintf(out, "    %s) _arguments \\\n", lab_table()->commands[i].name);
        for (size_t j = 0; j < lab_table()->option_count; j++) {
            if (!is_global(j) && takes(i, j))
                write_zsh_option(out, j);
        }
        fputs("        '*: :_files' ;;\n", out);
    }
}

const struct manual_fragment manual_of_lab[] = {
    {"lab-options", write_globals},
    {"lab-commands", write_commands},
    {"lab-exits", write_exits},
    {"lab-commands.sh", write_bash_commands},
    {"lab-cases.sh", write_bash_cases},
    {"lab-global.zsh", write_zsh_globals},
    {"lab-commands.zsh", write_zsh_commands},
    {"lab-cases.zsh", write_zsh_cases},
    {NULL, NULL},
};
