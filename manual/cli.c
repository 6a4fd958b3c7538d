/* Fragments from the tables of worsegpu-cli (client/cli/commands.def, proto/inject_words). */
#include <string.h>

#include "client/cli/commands.h"
#include "client/cli/workload_options.h"
#include "manual/manual.h"
#include "proto/inject_words.h"

static void write_option(FILE *out, enum option option)
{
    const struct option_info *info = option_info(option);
    fprintf(out, "*--%s*", info->name);
    if (*info->placeholder != '\0')
        fprintf(out, " _%s_", info->placeholder);
    fputs("\n\t", out);
    manual_text(out, info->meaning);
    fputs(".\n\n", out);
}

static void write_global_options(FILE *out)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        if (option_is_global((enum option)i))
            write_option(out, (enum option)i);
    }
}

/* Lines of `details` as one paragraph. */
static void write_details(FILE *out, const char *details)
{
    char sentence[2] = {0, 0};
    for (; *details != '\0'; details++) {
        sentence[0] = *details == '\n' ? ' ' : *details;
        manual_text(out, sentence);
    }
}

static bool has_own_options(enum command command)
{
    return command_info(command)->reading == COMMAND_READING_OWN;
}

static void write_own_options(FILE *out, enum command command)
{
    struct workload_option option;
    for (size_t i = 0; (option = workload_option(command, i)).name; i++) {
        fprintf(out, "*%s*", option.name);
        if (option.placeholder)
            fprintf(out, " _%s_", option.placeholder);
        fputs("\n\t", out);
        manual_text(out, option.meaning);
        fputs(".\n\n", out);
    }
}

static void write_commands(FILE *out)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        const struct command_info *info = command_info((enum command)i);
        /* scdoc knows no markup in a heading, and so no escaping. */
        fprintf(out, "## %s%s%s\n\n", info->name, *info->operands != '\0' ? " " : "",
                info->operands);
        manual_text(out, info->summary);
        fputs(".\n\n", out);
        if (*info->details != '\0') {
            write_details(out, info->details);
            fputs("\n\n", out);
        }
        for (size_t j = 0; j < OPTIONS; j++) {
            if (!option_is_global((enum option)j) && command_takes((enum command)i, (enum option)j))
                write_option(out, (enum option)j);
        }
        if (has_own_options((enum command)i))
            write_own_options(out, (enum command)i);
        fputs("Example:\n\n```\n", out);
        fprintf(out, "%s\n```\n\n", info->example);
    }
}

static void write_rule_words(FILE *out)
{
    for (size_t i = 0; inject_words_action(i); i++) {
        fprintf(out, "*%s*\n\t", inject_words_action(i)->word);
        manual_text(out, inject_words_action(i)->meaning);
        fputs(".\n\n", out);
    }
    for (size_t i = 0; inject_words_option(i); i++) {
        const struct inject_option *option = inject_words_option(i);
        fprintf(out, "*%s* _%s_\n\t", option->word, option->placeholder);
        manual_text(out, option->meaning);
        fputs(".\n\n", out);
    }
}

/* For bash: the commands, and for each its options. */
static void write_bash_commands(FILE *out)
{
    fputs("    commands='", out);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "%s%s", i > 0 ? " " : "", command_info((enum command)i)->name);
    fputs("'\n    global='", out);
    const char *before = "";
    for (size_t i = 0; i < OPTIONS; i++) {
        if (!option_is_global((enum option)i))
            continue;
        fprintf(out, "%s--%s", before, option_info((enum option)i)->name);
        before = " ";
    }
    fputs("'\n", out);
}

static void write_bash_cases(FILE *out)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        enum command command = (enum command)i;
        fprintf(out, "    %s) options='", command_info(command)->name);
        const char *before = "";
        for (size_t j = 0; j < OPTIONS; j++) {
            if (option_is_global((enum option)j) || !command_takes(command, (enum option)j))
                continue;
            fprintf(out, "%s--%s", before, option_info((enum option)j)->name);
            before = " ";
        }
        for (size_t j = 0; has_own_options(command) && workload_option(command, j).name; j++)
            fprintf(out, "%s%s", j > 0 ? " " : "", workload_option(command, j).name);
        if (command == COMMAND_inject) {
            for (size_t j = 0; inject_words_option(j); j++)
                fprintf(out, "%s%s", j > 0 ? " " : "", inject_words_option(j)->word);
            fputs("' words='", out);
            for (size_t j = 0; inject_words_action(j); j++)
                fprintf(out, "%s%s", j > 0 ? " " : "", inject_words_action(j)->word);
        }
        if (command == COMMAND_help)
            fputs("' words=\"$commands\" ;;\n", out);
        else
            fputs("' ;;\n", out);
    }
}

static void write_zsh_option(FILE *out, enum option option)
{
    const struct option_info *info = option_info(option);
    fprintf(out, "        '--%s[", info->name);
    manual_zsh_text(out, info->meaning);
    fputc(']', out);
    if (*info->placeholder != '\0')
        fprintf(out, ":%s:%s", info->placeholder,
                strcmp(info->placeholder, "PATH") == 0 ? "_files" : "");
    fputs("' \\\n", out);
}

static void write_zsh_global(FILE *out)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        if (option_is_global((enum option)i))
            write_zsh_option(out, (enum option)i);
    }
}

static void write_zsh_commands(FILE *out)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        const struct command_info *info = command_info((enum command)i);
        fprintf(out, "        '%s:", info->name);
        manual_zsh_text(out, info->summary);
        fputs("'\n", out);
    }
}

static void write_zsh_own_options(FILE *out, enum command command)
{
    struct workload_option option;
    for (size_t i = 0; (option = workload_option(command, i)).name; i++) {
        fprintf(out, "        '%s[", option.name);
        manual_zsh_text(out, option.meaning);
        fputc(']', out);
        if (option.placeholder)
            fprintf(out, ":%s:", option.placeholder);
        fputs("' \\\n", out);
    }
}

static void write_zsh_cases(FILE *out)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        enum command command = (enum command)i;
        fprintf(out, "    %s) _arguments \\\n", command_info(command)->name);
        for (size_t j = 0; j < OPTIONS; j++) {
            if (!option_is_global((enum option)j) && command_takes(command, (enum option)j))
                write_zsh_option(out, (enum option)j);
        }
        if (has_own_options(command))
            write_zsh_own_options(out, command);
        if (command == COMMAND_inject) {
            for (size_t j = 0; inject_words_option(j); j++) {
                fprintf(out, "        '%s[", inject_words_option(j)->word);
                manual_zsh_text(out, inject_words_option(j)->meaning);
                fprintf(out, "]:%s:' \\\n", inject_words_option(j)->placeholder);
            }
            fputs("        '1:action:(", out);
            for (size_t j = 0; inject_words_action(j); j++)
                fprintf(out, "%s%s", j > 0 ? " " : "", inject_words_action(j)->word);
            fputs(")' \\\n", out);
        }
        fprintf(out, "        '*: :%s' ;;\n", command == COMMAND_run ? "_files" : "_default");
    }
}

const struct manual_fragment manual_of_cli[] = {
    {"cli-options", write_global_options},
    {"cli-commands", write_commands},
    {"cli-rule-words", write_rule_words},
    {"cli-commands.sh", write_bash_commands},
    {"cli-cases.sh", write_bash_cases},
    {"cli-global.zsh", write_zsh_global},
    {"cli-commands.zsh", write_zsh_commands},
    {"cli-cases.zsh", write_zsh_cases},
    {NULL, NULL},
};
