/* Fragments from the daemon's table of options (daemon/options.def). */
#include <string.h>

#include "daemon/options_table.h"
#include "manual/manual.h"

enum scope {
    SCOPE_DAEMON,
    SCOPE_GPU
};

struct row {
    const char *flag;
    const char *default_text;
    enum scope scope;
    bool reloads;
    const char *help;
};

enum {
    RELOADS = 1,
    FIXED = 0
};

static const struct row rows[] = {
#define OPTION(field, flag, type, default_text, minimum, maximum, scope, change, help)             \
    {flag, default_text, SCOPE_##scope, change, help},
#include "daemon/options.def"
};

static void write_one(FILE *out, size_t index, const char *dashes)
{
    const struct row *row = &rows[index];
    const char *placeholder = option_placeholder(index);
    fprintf(out, "*%s%s*", dashes, row->flag);
    if (*dashes == '\0')
        fputs(" = ", out);
    else
        fputc(' ', out);
    if (*placeholder != '\0')
        fprintf(out, "_%s_", placeholder);
    else
        fputs("_WORD_", out);
    fputs("\n\t", out);
    manual_text(out, row->help);
    fputs(".", out);
    if (*row->default_text != '\0') {
        fputs(" Default: ", out);
        manual_text(out, row->default_text);
        fputs(".", out);
    }
    char expected[OPTION_EXPECTED_SIZE];
    option_expected(index, expected);
    fputs(" It must be ", out);
    manual_text(out, expected);
    fputs(".", out);
    if (*dashes == '\0')
        fputs(row->reloads ? " Follows a reload." : " Stays as it was at the start.", out);
    fputs("\n\n", out);
}

static void write_scope(FILE *out, enum scope scope, const char *dashes)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        if (rows[i].scope == scope)
            write_one(out, i, dashes);
    }
}

static void write_daemon_options(FILE *out)
{
    write_scope(out, SCOPE_DAEMON, "--");
}

static void write_gpu_options(FILE *out)
{
    write_scope(out, SCOPE_GPU, "--");
}

static void write_daemon_keys(FILE *out)
{
    write_scope(out, SCOPE_DAEMON, "");
}

static void write_gpu_keys(FILE *out)
{
    write_scope(out, SCOPE_GPU, "");
}

/* All options as words of a shell, with dashes. */
static void write_shell_options(FILE *out)
{
    fputs("    options='--help --version --config --inject --run", out);
    for (size_t i = 0; i < OPTIONS; i++)
        fprintf(out, " --%s", rows[i].flag);
    fputs("'\n", out);
}

/* Arguments for zsh's _arguments. */
static void write_zsh_options(FILE *out)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        fprintf(out, "    '--%s[", rows[i].flag);
        manual_zsh_text(out, rows[i].help);
        const char *placeholder = option_placeholder(i);
        fprintf(out, "]:%s:%s' \\\n", *placeholder != '\0' ? placeholder : "word",
                strcmp(rows[i].flag, "socket") == 0 || strcmp(rows[i].flag, "metrics-file") == 0
                    ? "_files"
                    : "");
    }
}

const struct manual_fragment manual_of_daemon[] = {
    {"daemon-options", write_daemon_options},
    {"gpu-options", write_gpu_options},
    {"daemon-keys", write_daemon_keys},
    {"gpu-keys", write_gpu_keys},
    {"daemon-options.sh", write_shell_options},
    {"daemon-options.zsh", write_zsh_options},
    {NULL, NULL},
};
