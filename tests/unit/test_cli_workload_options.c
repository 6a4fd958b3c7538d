/* The options of demo and benchmark, against what the reference's own parser did. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/memory.h"
#include "client/cli/workload_options.h"
#include "tests/support/chaos.h"

enum {
    MOST_WORDS = 16
};

static struct workload_options options;
static char storage[MOST_WORDS][64]; /* argv is not constant */
static char problem[WORKLOAD_PROBLEM_SIZE];

static enum workload_options_result read_words(enum command command, const char *first, ...)
{
    char *words[MOST_WORDS];
    int count = 0;
    va_list list;
    va_start(list, first);
    for (const char *word = first; word; word = va_arg(list, const char *)) {
        assert_true(count < MOST_WORDS);
        snprintf(storage[count], sizeof(storage[count]), "%s", word);
        words[count] = storage[count];
        count++;
    }
    va_end(list);
    problem[0] = '\0';
    return workload_options_read(&options, command, count, words, memory_system(), problem);
}

static void assert_refused(enum workload_options_result result, const char *expected)
{
    assert_int_equal(result, WORKLOAD_OPTIONS_REFUSED);
    assert_string_equal(problem, expected);
}

/* ------------------------------------------------------------------------------ golden cases */

static char *read_file(const char *name)
{
    char path[512];
    const char *folder = getenv("WORSEGPU_GOLDEN");
    snprintf(path, sizeof(path), "%s/%s", folder ? folder : "tests/golden", name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = NULL;
    size_t room = 0;
    assert_true(getdelim(&text, &room, '\0', file) > 0);
    fclose(file);
    return text;
}

/* The cases in which we differ on purpose, and why. */
static const char *differs_because(const char *script, int count, char *const *words)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], "\xd9\xa3") == 0)
            return "digits outside ASCII are not read";
    }
    if (strcmp(script, "benchmark") == 0 && count == 2 && strcmp(words[0], "--capacity") == 0 &&
        strtoll(words[1], NULL, 10) > 100000)
        return "the reference refuses its own default capacity, which is a slip";
    return NULL;
}

static void test_every_golden_command_line_ends_as_the_reference_does(void **state)
{
    (void)state;
    char *text = read_file("cli-cases.json");
    cJSON *cases = cJSON_Parse(text);
    assert_non_null(cases);
    size_t same = 0;
    size_t different = 0;
    const cJSON *one;
    cJSON_ArrayForEach(one, cases)
    {
        char *words[MOST_WORDS];
        int count = 0;
        const cJSON *word;
        cJSON_ArrayForEach(word, cJSON_GetObjectItem(one, "argv")) words[count++] =
            word->valuestring;
        const char *script = cJSON_GetObjectItem(one, "script")->valuestring;
        int expected = cJSON_GetObjectItem(one, "exit")->valueint;
        enum command command = strcmp(script, "demo") == 0 ? COMMAND_demo : COMMAND_benchmark;
        enum workload_options_result result =
            workload_options_read(&options, command, count, words, memory_system(), problem);
        int got = result == WORKLOAD_OPTIONS_REFUSED ? 2 : 0;
        assert_true(result >= 0);
        if (differs_because(script, count, words)) {
            assert_int_not_equal(got, expected);
            different++;
        } else {
            assert_int_equal(got, expected);
            same++;
        }
    }
    assert_int_equal(same + different, 106);
    assert_int_equal(different, 4);
    cJSON_Delete(cases);
    free(text);
}

/* ------------------------------------------------------------------------------ values */

static void test_the_defaults_are_the_references(void **state)
{
    (void)state;
    assert_int_equal(read_words(COMMAND_demo, NULL), WORKLOAD_OPTIONS_FINE);
    assert_int_equal(options.steps, 18);
    assert_string_equal(options.seed, "7");
    assert_true(options.delay == 0.04);
    assert_false(options.json);
    assert_int_equal(read_words(COMMAND_benchmark, NULL), WORKLOAD_OPTIONS_FINE);
    assert_int_equal(options.steps, 100);
    assert_int_equal(options.capacity, 33554432);
}

static void test_values_arrive_in_every_spelling(void **state)
{
    (void)state;
    assert_int_equal(read_words(COMMAND_demo, "--st", "2", "--seed=-1_0", "--d", ".5",
                                "--steps=+03", "--j", NULL),
                     WORKLOAD_OPTIONS_FINE);
    assert_int_equal(options.steps, 3);
    assert_string_equal(options.seed, "-10");
    assert_true(options.delay == 0.5);
    assert_true(options.json);
}

static void test_the_capacity_goes_up_to_what_a_json_number_holds(void **state)
{
    (void)state;
    assert_int_equal(read_words(COMMAND_benchmark, "--capacity", "9007199254740991", NULL),
                     WORKLOAD_OPTIONS_FINE);
    assert_true(options.capacity == UINT64_C(9007199254740991));
    assert_refused(read_words(COMMAND_benchmark, "--capacity", "9007199254740992", NULL),
                   "argument --capacity: must be no greater than 9007199254740991");
    assert_refused(read_words(COMMAND_benchmark, "--capacity", "0", NULL),
                   "argument --capacity: must be positive");
}

static void test_messages_name_the_option_and_the_value(void **state)
{
    (void)state;
    assert_refused(read_words(COMMAND_demo, "--steps", "0", NULL),
                   "argument --steps: must be positive");
    assert_refused(read_words(COMMAND_demo, "--steps", "100001", NULL),
                   "argument --steps: must be no greater than 100000");
    assert_refused(read_words(COMMAND_demo, "--steps", "it's", NULL),
                   "argument --steps: invalid integer: \"it's\"");
    assert_refused(read_words(COMMAND_demo, "--seed", "x", NULL),
                   "argument --seed: invalid integer: 'x'");
    assert_refused(read_words(COMMAND_demo, "--delay", "nan", NULL),
                   "argument --delay: must be finite and zero or positive");
    assert_refused(read_words(COMMAND_demo, "--delay", "60.0001", NULL),
                   "argument --delay: must be no greater than 60 seconds");
    assert_refused(read_words(COMMAND_demo, "--delay", "abc", NULL),
                   "argument --delay: invalid number: 'abc'");
    assert_refused(read_words(COMMAND_demo, "--delay", "-inf", NULL),
                   "argument --delay: expected one argument");
    assert_refused(read_words(COMMAND_demo, "--json=1", NULL),
                   "argument --json: ignored explicit argument '1'");
    assert_refused(read_words(COMMAND_demo, "-h1", NULL),
                   "argument -h/--help: ignored explicit argument '1'");
}

static void test_an_ambiguous_prefix_is_reported_before_anything_else(void **state)
{
    (void)state;
    assert_refused(read_words(COMMAND_demo, "--help", "--s=2", NULL),
                   "ambiguous option: --s=2 could match --steps, --seed");
    assert_refused(read_words(COMMAND_demo, "--steps", "0", "--", "--s", NULL),
                   "argument --steps: must be positive");
}

static void test_unknown_words_are_reported_after_everything_else(void **state)
{
    (void)state;
    assert_refused(read_words(COMMAND_demo, "foo", "--steps", "0", NULL),
                   "argument --steps: must be positive");
    assert_int_equal(read_words(COMMAND_demo, "foo", "--help", NULL), WORKLOAD_OPTIONS_HELP);
    assert_refused(read_words(COMMAND_demo, "foo", "--json", NULL), "unrecognized argument: foo");
    assert_refused(read_words(COMMAND_demo, "--", NULL), "unrecognized argument: --");
    assert_refused(read_words(COMMAND_demo, "--x", NULL), "unrecognized argument: --x");
    assert_refused(read_words(COMMAND_demo, "--stpes=3", NULL),
                   "unrecognized argument: --stpes=3 (did you mean --steps?)");
    assert_refused(read_words(COMMAND_benchmark, "--capcity", "3", NULL),
                   "unrecognized argument: --capcity (did you mean --capacity?)");
}

static void test_two_dashes_are_no_value(void **state)
{
    (void)state;
    assert_refused(read_words(COMMAND_demo, "--seed", "--", "5", NULL),
                   "argument --seed: expected one argument");
}

static bool reading_under_chaos(struct chaos *chaos, void *context)
{
    (void)context;
    static char delay[] = "--delay=0.5";
    static char json[] = "--json";
    char *words[] = {delay, json};
    enum workload_options_result result =
        workload_options_read(&options, COMMAND_demo, 2, words, &chaos->memory, problem);
    assert_true(result == WORKLOAD_OPTIONS_FINE || result == WORKLOAD_OPTIONS_NO_MEMORY);
    return result == WORKLOAD_OPTIONS_FINE;
}

static void test_reading_survives_each_failing_allocation(void **state)
{
    (void)state;
    assert_true(chaos_loop(reading_under_chaos, NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_golden_command_line_ends_as_the_reference_does),
        cmocka_unit_test(test_the_defaults_are_the_references),
        cmocka_unit_test(test_values_arrive_in_every_spelling),
        cmocka_unit_test(test_the_capacity_goes_up_to_what_a_json_number_holds),
        cmocka_unit_test(test_messages_name_the_option_and_the_value),
        cmocka_unit_test(test_an_ambiguous_prefix_is_reported_before_anything_else),
        cmocka_unit_test(test_unknown_words_are_reported_after_everything_else),
        cmocka_unit_test(test_two_dashes_are_no_value),
        cmocka_unit_test(test_reading_survives_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
