/* The command line of worsegpu-cli, and the table behind it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "client/cli/arguments.h"

enum {
    MOST_WORDS = 16
};

static const char *operands[MOST_WORDS];
static char storage[MOST_WORDS][64]; /* argv is not constant */

/* Reads the words, the last one NULL. */
static int read_words(struct arguments *arguments, const char *first, ...)
{
    static char name[] = "worsegpu-cli";
    char *words[MOST_WORDS] = {name};
    int count = 1;
    va_list list;
    va_start(list, first);
    for (const char *word = first; word; word = va_arg(list, const char *)) {
        assert_true(count < MOST_WORDS - 1);
        snprintf(storage[count], sizeof(storage[count]), "%s", word);
        words[count] = storage[count];
        count++;
    }
    va_end(list);
    return arguments_read(arguments, count, words, operands);
}

static void test_a_command_with_options_and_operands(void **state)
{
    (void)state;
    struct arguments arguments = {0};
    assert_int_equal(read_words(&arguments, "--socket", "/s", "alloc", "4096", "--count=3", "2MiB",
                                "--hold", "--tag", "t", "--json", NULL),
                     0);
    assert_int_equal(arguments.command, COMMAND_alloc);
    assert_string_equal(arguments.values.socket, "/s");
    assert_int_equal(arguments.values.count, 3);
    assert_true(arguments.values.hold && arguments.values.json);
    assert_string_equal(arguments.values.tag, "t");
    assert_int_equal(arguments.operand_count, 2);
    assert_string_equal(arguments.operands[0], "4096");
    assert_string_equal(arguments.operands[1], "2MiB");
    assert_true(arguments_have(&arguments, OPTION_count));
    assert_false(arguments_have(&arguments, OPTION_stream));
}

static void test_no_words_are_no_command_and_no_mistake(void **state)
{
    (void)state;
    struct arguments arguments = {0};
    assert_int_equal(read_words(&arguments, NULL), 0);
    assert_int_equal(arguments.command, COMMANDS);
}

static void test_after_two_dashes_all_words_are_operands(void **state)
{
    (void)state;
    struct arguments arguments = {0};
    assert_int_equal(read_words(&arguments, "free", "--", "--json", "-1", NULL), 0);
    assert_int_equal(arguments.operand_count, 2);
    assert_false(arguments.values.json);
}

static void test_a_single_dash_is_an_operand(void **state)
{
    (void)state;
    struct arguments arguments = {0};
    assert_int_equal(read_words(&arguments, "run", "-", NULL), 0);
    assert_string_equal(arguments.operands[0], "-");
}

static void test_the_last_of_repeated_options_counts(void **state)
{
    (void)state;
    struct arguments arguments = {0};
    assert_int_equal(read_words(&arguments, "trace", "--after", "1", "--after", "2", NULL), 0);
    assert_int_equal(arguments.values.after, 2);
}

static void test_seconds_become_milliseconds(void **state)
{
    (void)state;
    struct arguments arguments = {0};
    assert_int_equal(read_words(&arguments, "info", "--timeout", "1.5", NULL), 0);
    assert_int_equal(arguments.values.timeout, 1500);
    assert_int_equal(read_words(&arguments, "info", "--timeout", "0", NULL), 0);
    assert_int_equal(arguments.values.timeout, 0);
    assert_int_equal(read_words(&arguments, "info", "--timeout", "1e-9", NULL), 0);
    assert_int_equal(arguments.values.timeout, 1);
}

static void assert_refused(struct arguments *arguments, int status, const char *problem,
                           const char *advice)
{
    assert_int_equal(status, 1);
    assert_non_null(strstr(arguments->problem, problem));
    assert_non_null(strstr(arguments->advice, advice));
}

static void test_a_misspelled_option_gets_the_nearest_real_one(void **state)
{
    (void)state;
    struct arguments arguments = {0};
    int status = read_words(&arguments, "alloc", "--cuont", "3", "4096", NULL);
    assert_refused(&arguments, status, "alloc has no option --cuont", "--count");
    status = read_words(&arguments, "--jsn", "info", NULL);
    assert_refused(&arguments, status, "--jsn", "--json");
}

static void test_every_command_is_known_by_a_slip_of_the_finger(void **state)
{
    (void)state;
    for (size_t i = 0; i < COMMANDS; i++) {
        const char *name = command_info((enum command)i)->name;
        char slip[64];
        snprintf(slip, sizeof(slip), "%.1s%c%s", name, name[0], name + 1);
        assert_string_equal(command_nearest(slip), name);
    }
}

static void test_an_option_of_another_command_is_refused(void **state)
{
    (void)state;
    struct arguments arguments = {0};
    int status = read_words(&arguments, "info", "--hold", NULL);
    assert_refused(&arguments, status, "info has no option --hold", "help info");
}

static void test_a_commands_option_before_the_command_is_explained(void **state)
{
    (void)state;
    struct arguments arguments = {0};
    int status = read_words(&arguments, "--count", "3", "alloc", "1", NULL);
    assert_refused(&arguments, status, "--count belongs after the command", "help");
}

static void test_an_unknown_command_gets_the_nearest_real_one(void **state)
{
    (void)state;
    struct arguments arguments = {0};
    assert_refused(&arguments, read_words(&arguments, "snapshto", NULL), "\"snapshto\"",
                   "snapshot");
    assert_refused(&arguments, read_words(&arguments, "qqqqqqqq", NULL), "\"qqqqqqqq\"", "help");
}

static void test_values_are_checked(void **state)
{
    (void)state;
    static const char *const BAD[][3] = {
        {"alloc", "--count", "x"},     {"alloc", "--count", "-1"},   {"alloc", "--count", ""},
        {"alloc", "--count", "1.0"},   {"info", "--timeout", "-1"},  {"info", "--timeout", "nan"},
        {"info", "--timeout", "1e99"}, {"trace", "--after", "0x10"}, {"trace", "--limit", "2MiB"},
    };
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        struct arguments arguments = {0};
        int status = read_words(&arguments, BAD[i][0], BAD[i][1], BAD[i][2], NULL);
        assert_refused(&arguments, status, BAD[i][1], "help");
    }
}

static void test_a_missing_value_and_a_value_too_many_are_refused(void **state)
{
    (void)state;
    struct arguments arguments = {0};
    assert_refused(&arguments, read_words(&arguments, "alloc", "1", "--tag", NULL), "--tag TAG",
                   "alloc");
    assert_refused(&arguments, read_words(&arguments, "info", "--json=1", NULL), "takes no value",
                   "info");
}

static void test_operands_too_few_and_too_many_are_refused(void **state)
{
    (void)state;
    struct arguments arguments = {0};
    assert_refused(&arguments, read_words(&arguments, "resize", NULL), "needs SIZE", "help resize");
    assert_refused(&arguments, read_words(&arguments, "alloc", NULL), "needs SIZE...",
                   "help alloc");
    assert_refused(&arguments, read_words(&arguments, "info", "x", NULL), "\"x\"", "help info");
    assert_refused(&arguments, read_words(&arguments, "call", "a", "b", "c", NULL), "\"c\"",
                   "call");
}

static void test_help_is_given_without_the_operands(void **state)
{
    (void)state;
    struct arguments arguments = {0};
    assert_int_equal(read_words(&arguments, "alloc", "--help", NULL), 0);
    assert_true(arguments.values.help);
    assert_int_equal(read_words(&arguments, "alloc", "-h", NULL), 0);
    assert_true(arguments.values.help);
}

static void test_options_before_a_mistake_still_count(void **state)
{
    (void)state;
    struct arguments arguments = {0};
    assert_int_equal(read_words(&arguments, "--json", "nonsense", NULL), 1);
    assert_true(arguments.values.json);
}

static void test_what_follows_demo_is_left_to_it(void **state)
{
    (void)state;
    struct arguments arguments = {0};
    assert_int_equal(read_words(&arguments, "--json", "demo", "--nonsense", "--", "x", NULL), 0);
    assert_int_equal(arguments.command, COMMAND_demo);
    assert_int_equal(arguments.own_count, 3);
    assert_string_equal(arguments.own[0], "--nonsense");
}

static void test_an_option_is_typed_with_dashes(void **state)
{
    (void)state;
    struct arguments arguments = {0};
    assert_int_equal(read_words(&arguments, "free", "--all-detached", NULL), 0);
    assert_true(arguments.values.all_detached);
    assert_refused(&arguments, read_words(&arguments, "free", "--all_detached", NULL),
                   "free has no option", "--all-detached");
}

static void test_the_words_of_a_rule_are_left_to_inject_without_the_global_ones(void **state)
{
    (void)state;
    static const char *const LEFT[] = {"oom", "--nth", "3", "--stream=4", "-x", "--allocator"};
    struct arguments arguments = {0};
    assert_int_equal(read_words(&arguments, "--json", "inject", "oom", "--nth", "3", "--stream=4",
                                "--socket", "/s", "-x", "--timeout=2", "--allocator", NULL),
                     0);
    assert_int_equal(arguments.operand_count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(arguments.operands[i], LEFT[i]);
    assert_string_equal(arguments.values.socket, "/s");
    assert_int_equal(arguments.values.timeout, 2000);
    assert_false(arguments_have(&arguments, OPTION_stream));
    assert_int_equal(read_words(&arguments, "inject", "-h", NULL), 0);
    assert_true(arguments.values.help);
    assert_refused(&arguments, read_words(&arguments, "inject", NULL), "needs ACTION", "inject");
}

/* What help prints must not run into itself, and each example must be one of the command. */
static void test_the_table_of_commands_is_in_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < COMMANDS; i++) {
        const struct command_info *info = command_info((enum command)i);
        assert_int_equal(command_from_name(info->name), i);
        assert_true(strlen(info->name) <= 13);
        assert_true(strlen(info->summary) > 0 && strlen(info->summary) <= 66);
        assert_non_null(strstr(info->example, info->name));
        assert_true(info->least <= info->most);
        assert_true((info->most > 0) == (info->operands[0] != '\0'));
    }
    for (size_t i = 0; i < OPTIONS; i++) {
        const struct option_info *info = option_info((enum option)i);
        assert_int_equal(option_from_name(info->name, strlen(info->name)), i);
        assert_true((info->type == OPTION_TYPE_FLAG) == (info->placeholder[0] == '\0'));
        assert_true(strlen(info->name) + strlen(info->placeholder) < 20);
        assert_true(strlen(info->meaning) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_command_with_options_and_operands),
        cmocka_unit_test(test_no_words_are_no_command_and_no_mistake),
        cmocka_unit_test(test_after_two_dashes_all_words_are_operands),
        cmocka_unit_test(test_a_single_dash_is_an_operand),
        cmocka_unit_test(test_the_last_of_repeated_options_counts),
        cmocka_unit_test(test_seconds_become_milliseconds),
        cmocka_unit_test(test_a_misspelled_option_gets_the_nearest_real_one),
        cmocka_unit_test(test_every_command_is_known_by_a_slip_of_the_finger),
        cmocka_unit_test(test_an_option_of_another_command_is_refused),
        cmocka_unit_test(test_a_commands_option_before_the_command_is_explained),
        cmocka_unit_test(test_an_unknown_command_gets_the_nearest_real_one),
        cmocka_unit_test(test_values_are_checked),
        cmocka_unit_test(test_a_missing_value_and_a_value_too_many_are_refused),
        cmocka_unit_test(test_operands_too_few_and_too_many_are_refused),
        cmocka_unit_test(test_help_is_given_without_the_operands),
        cmocka_unit_test(test_options_before_a_mistake_still_count),
        cmocka_unit_test(test_what_follows_demo_is_left_to_it),
        cmocka_unit_test(test_an_option_is_typed_with_dashes),
        cmocka_unit_test(test_the_words_of_a_rule_are_left_to_inject_without_the_global_ones),
        cmocka_unit_test(test_the_table_of_commands_is_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
