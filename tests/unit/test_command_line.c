/* Command lines read by a table, and the help that is written from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/command_line.h"

enum {
    MOST_WORDS = 16
};

enum {
    OPTION_help,
    OPTION_name,
    OPTION_with,
    OPTION_over,
    OPTION_count,
    OPTION_size,
    OPTIONS
};
enum {
    COMMAND_paint,
    COMMAND_look,
    COMMANDS
};

static const struct command_option OPTION_TABLE[] = {
    {"help", COMMAND_OPTION_FLAG, "", "what it does"},
    {"name", COMMAND_OPTION_TEXT, "NAME", "its name"},
    {"with", COMMAND_OPTION_TEXTS, "THING", "with what"},
    {"over", COMMAND_OPTION_TEXTS, "THING", "over what"},
    {"count", COMMAND_OPTION_COUNT, "N", "how many"},
    {"size", COMMAND_OPTION_BYTES, "SIZE", "how large"},
};
static const struct command_entry COMMAND_TABLE[] = {
    {"paint", "WALL", 1, 1, "paints a wall", "Takes a day.", "show paint north\nshow paint south"},
    {"look", "", 0, SIZE_MAX, "looks", "", "show look"},
};
static const struct command_takes TAKES_TABLE[] = {
    {COMMAND_paint, OPTION_with}, {COMMAND_paint, OPTION_over}, {COMMAND_paint, OPTION_count},
    {COMMAND_paint, OPTION_size}, {COMMAND_look, OPTION_name},
};
static const struct command_table TABLE = {
    .program = "show",
    .about = "show is a test.",
    .exits = "It ends with 0.",
    .options = OPTION_TABLE,
    .option_count = OPTIONS,
    .globals = 1u << OPTION_help,
    .help = OPTION_help,
    .commands = COMMAND_TABLE,
    .command_count = COMMANDS,
    .takes = TAKES_TABLE,
    .takes_count = sizeof(TAKES_TABLE) / sizeof(TAKES_TABLE[0]),
};

/* A line with its own storage. */
struct typed {
    struct command_line line;
    const char *operands[MOST_WORDS];
    const char *texts[MOST_WORDS];
    size_t text_options[MOST_WORDS];
    char words[MOST_WORDS][64];
};

/* Reads the words, the last one NULL. */
static int read_words(struct typed *typed, ...)
{
    char *argv[MOST_WORDS];
    int count = 0;
    va_list list;
    snprintf(typed->words[count], sizeof(typed->words[0]), "show");
    argv[count] = typed->words[count];
    count++;
    va_start(list, typed);
    for (const char *word; (word = va_arg(list, const char *)) != NULL; count++) {
        assert_true(count < MOST_WORDS);
        snprintf(typed->words[count], sizeof(typed->words[0]), "%s", word);
        argv[count] = typed->words[count];
    }
    va_end(list);
    return command_line_read(&typed->line, &TABLE, count, argv, typed->operands, typed->texts,
                             typed->text_options);
}

static void refused(struct typed *typed, int status, const char *problem, const char *advice)
{
    assert_int_equal(status, 1);
    if (!strstr(typed->line.problem, problem) || !strstr(typed->line.advice, advice))
        fail_msg("%s / %s", typed->line.problem, typed->line.advice);
}

static void test_options_and_operands_come_in_any_order(void **state)
{
    (void)state;
    struct typed typed;
    assert_int_equal(read_words(&typed, "paint", "--count", "3", "north", "--size=2KiB", NULL), 0);
    assert_int_equal(typed.line.command, COMMAND_paint);
    assert_int_equal(typed.line.values[OPTION_count].number, 3);
    assert_int_equal(typed.line.values[OPTION_size].number, 2048);
    assert_int_equal(typed.line.operand_count, 1);
    assert_string_equal(typed.line.operands[0], "north");
    assert_false(command_line_has(&typed.line, OPTION_name));
}

static void test_an_option_of_many_texts_keeps_all_in_order(void **state)
{
    (void)state;
    struct typed typed;
    assert_int_equal(read_words(&typed, "paint", "--with", "oil", "north", "--with=sand", NULL), 0);
    assert_int_equal(typed.line.text_count, 2);
    assert_string_equal(typed.line.texts[0], "oil");
    assert_string_equal(typed.line.texts[1], "sand");
}

static void test_two_options_of_many_texts_are_told_apart(void **state)
{
    (void)state;
    struct typed typed;
    assert_int_equal(read_words(&typed, "paint", "--with", "oil", "--over=chalk", "north",
                                "--with=sand", "--over", "dust", NULL),
                     0);
    assert_int_equal(typed.line.text_count, 4);
    assert_string_equal(command_line_text(&typed.line, OPTION_with, 0), "oil");
    assert_string_equal(command_line_text(&typed.line, OPTION_with, 1), "sand");
    assert_null(command_line_text(&typed.line, OPTION_with, 2));
    assert_string_equal(command_line_text(&typed.line, OPTION_over, 1), "dust");
    assert_null(command_line_text(&typed.line, OPTION_name, 0));
}

static void test_after_two_dashes_all_are_operands(void **state)
{
    (void)state;
    struct typed typed;
    assert_int_equal(read_words(&typed, "look", "--", "--name", "-", NULL), 0);
    assert_int_equal(typed.line.operand_count, 2);
}

static void test_what_is_mistyped_gets_the_nearest_real_word(void **state)
{
    (void)state;
    struct typed typed;
    refused(&typed, read_words(&typed, "piant", NULL), "no command \"piant\"", "show paint");
    refused(&typed, read_words(&typed, "paint", "--conut", "3", NULL),
            "paint has no option --conut", "--count");
    refused(&typed, read_words(&typed, "look", "--count", "3", NULL), "look has no option --count",
            "help look");
    refused(&typed, read_words(&typed, "--name", "x", NULL), "--name belongs after the command",
            "help");
}

static void test_values_that_are_wrong_are_told(void **state)
{
    (void)state;
    struct typed typed;
    refused(&typed, read_words(&typed, "paint", "--count", "-1", NULL), "whole number", "");
    refused(&typed, read_words(&typed, "paint", "--size", "big", NULL), "needs a size", "");
    refused(&typed, read_words(&typed, "look", "--name", NULL), "--name NAME", "");
    refused(&typed, read_words(&typed, "look", "--help=yes", NULL), "takes no value", "");
    refused(&typed, read_words(&typed, "paint", NULL), "for example: show paint north", "");
    assert_null(strstr(typed.line.problem, "south"));
    refused(&typed, read_words(&typed, "paint", "a", "b", NULL), "does not take \"b\"", "");
}

static void test_a_request_for_help_needs_no_operands(void **state)
{
    (void)state;
    struct typed typed;
    assert_int_equal(read_words(&typed, "paint", "-h", NULL), 0);
    assert_true(command_line_has(&typed.line, OPTION_help));
}

static void test_help_is_written_from_the_table(void **state)
{
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    struct output output;
    output_init(&output, out, out);
    command_line_help(&TABLE, &output, COMMAND_paint);
    fclose(out);
    assert_non_null(strstr(text, "Usage: show paint [OPTION...] WALL\n\npaints a wall\n"));
    assert_non_null(strstr(text, "\nTakes a day.\n"));
    assert_non_null(strstr(text, "  --size SIZE           how large\n"));
    assert_non_null(strstr(text, "  --help                what it does\n"));
    assert_null(strstr(text, "--name"));
    assert_non_null(strstr(text, "  show paint north\n  show paint south\n"));
    free(text);
}

static void test_the_overview_has_all_commands(void **state)
{
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    struct output output;
    output_init(&output, out, out);
    command_line_overview(&TABLE, &output);
    fclose(out);
    assert_non_null(strstr(text, "show is a test.\n"));
    assert_non_null(strstr(text, "  paint       paints a wall\n"));
    assert_non_null(strstr(text, "It ends with 0.\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_and_operands_come_in_any_order),
        cmocka_unit_test(test_an_option_of_many_texts_keeps_all_in_order),
        cmocka_unit_test(test_two_options_of_many_texts_are_told_apart),
        cmocka_unit_test(test_after_two_dashes_all_are_operands),
        cmocka_unit_test(test_what_is_mistyped_gets_the_nearest_real_word),
        cmocka_unit_test(test_values_that_are_wrong_are_told),
        cmocka_unit_test(test_a_request_for_help_needs_no_operands),
        cmocka_unit_test(test_help_is_written_from_the_table),
        cmocka_unit_test(test_the_overview_has_all_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
