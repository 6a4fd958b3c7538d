/* Text that a test has worked out, against the same in tests/figures; see kept_figures.h. */
#include "tests/support/kept_figures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_new(const char *text)
{
    const char *path = getenv("WORSEGPU_NEW_FIGURES");
    if (!path)
        return;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

void kept_figures_compare(const char *name, char *text)
{
    char path[4096];
    static char expected[4096];
    write_new(text);
    snprintf(path, sizeof(path), "tests/figures/%s", name);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("there is no %s", path);
    char *line = text;
    while (*line) {
        char *next = line + strcspn(line, "\n");
        if (*next)
            *next++ = '\0';
        if (!fgets(expected, sizeof(expected), file))
            fail_msg("%s ends before %s", path, line);
        expected[strcspn(expected, "\n")] = '\0';
        assert_string_equal(line, expected);
        line = next;
    }
    assert_null(fgets(expected, sizeof(expected), file));
    fclose(file);
    free(text);
}
