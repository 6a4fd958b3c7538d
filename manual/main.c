/* Makes a manual page's or a completion's source whole: `manual <PAGE.in >PAGE`. See manual.h.
 *
 * %include NAME   the fragment of that name in the place of the line
 * @version@       the version
 *
 * Ends with 1 when the source asks for a fragment that there is not, or writing fails. */
#include <stdbool.h>
#include <string.h>

#include "base/version.h"
#include "manual/manual.h"

enum {
    LINE_SIZE = 4096
};

static const struct manual_fragment *const lists[] = {
    manual_of_daemon, manual_of_cli, manual_of_lab, manual_of_wire, manual_of_engine};

void manual_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("\\*_`[]#~|", *text))
            fputc('\\', out);
        fputc(*text, out);
    }
}

void manual_zsh_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr("[]:\\", *text))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

static const struct manual_fragment *find(const char *name)
{
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        for (const struct manual_fragment *fragment = lists[i]; fragment->name; fragment++) {
            if (strcmp(fragment->name, name) == 0)
                return fragment;
        }
    }
    return NULL;
}

static void write_line(const char *line)
{
    static const char mark[] = "@version@";
    const char *found;
    while ((found = strstr(line, mark)) != NULL) {
        fwrite(line, 1, (size_t)(found - line), stdout);
        fputs(WORSEGPU_VERSION, stdout);
        line = found + strlen(mark);
    }
    fputs(line, stdout);
}

int main(void)
{
    static const char include[] = "%include ";
    char line[LINE_SIZE];
    while (fgets(line, sizeof(line), stdin)) {
        if (strncmp(line, include, strlen(include)) != 0) {
            write_line(line);
            continue;
        }
        char *name = line + strlen(include);
        name[strcspn(name, "\n")] = '\0';
        const struct manual_fragment *fragment = find(name);
        if (!fragment) {
            fprintf(stderr, "manual: there is no fragment '%s'\n", name);
            return 1;
        }
        fragment->write(stdout);
    }
    return ferror(stdin) || fflush(stdout) != 0;
}
