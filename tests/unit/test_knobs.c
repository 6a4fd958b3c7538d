/* Knobs: their text, strictly read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "lib/knobs.h"
#include "lib/policy.h"

enum {
    LIMIT,
    DEPTH,
    FRACTION,
    MERGE,
    FIT,
    NOTE,
    MAXIMUM
};

static const struct policy_knob knobs[] = {
    {"limit", KNOB_BYTES, "1MiB", 256, 1 << 30, NULL, "bytes"},
    {"depth", KNOB_COUNT, "7", 1, 9, NULL, "a count"},
    {"fraction", KNOB_NUMBER, "none", 0, 0, NULL, "a number"},
    {"merge", KNOB_YESNO, "true", 0, 1, NULL, "yes or no"},
    {"fit", KNOB_CHOICE, "best", 0, 0, "first best worst", "a choice"},
    {"note", KNOB_TEXT, "", 0, 8, NULL, "a text"},
    {"maximum", KNOB_BYTES, "none", 1, 1 << 30, NULL, "bytes, or no maximum"},
};

static bool depth_is_even(const struct knob_value *values, const struct worsegpu_config *config,
                          char problem[KNOBS_PROBLEM_SIZE])
{
    (void)config;
    if (values[DEPTH].count % 2 == 1)
        return true;
    snprintf(problem, KNOBS_PROBLEM_SIZE, "depth must be odd");
    return false;
}

static const struct policy_operations fake = {
    .name = "fake",
    .knobs = knobs,
    .knob_count = sizeof(knobs) / sizeof(knobs[0]),
    .knobs_fit = depth_is_even,
};

static const struct policy_operations bare = {.name = "bare"};

static bool reads(const char *text, struct knob_value *values)
{
    char problem[KNOBS_PROBLEM_SIZE];
    bool fine = knobs_read(&fake, NULL, text, values, problem);
    assert_int_equal(fine, problem[0] == '\0');
    return fine;
}

static void assert_refused(const char *text, const char *sentence)
{
    struct knob_value values[KNOBS_MAX];
    char problem[KNOBS_PROBLEM_SIZE];
    assert_false(knobs_read(&fake, NULL, text, values, problem));
    assert_string_equal(problem, sentence);
}

static void test_what_is_left_out_has_its_default(void **state)
{
    (void)state;
    const char *const empty[] = {NULL, "", "  \t "};
    for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) {
        struct knob_value values[KNOBS_MAX];
        assert_true(reads(empty[i], values));
        assert_int_equal(values[LIMIT].count, 1 << 20);
        assert_int_equal(values[DEPTH].count, 7);
        assert_true(values[FRACTION].none);
        assert_int_equal(values[MERGE].count, 1);
        assert_int_equal(values[FIT].count, 1);
        assert_int_equal(values[NOTE].text_bytes, 0);
        assert_true(values[MAXIMUM].none);
    }
}

static void test_every_type_is_read(void **state)
{
    (void)state;
    struct knob_value values[KNOBS_MAX];
    assert_true(reads(" limit=2KiB depth=9\tfraction=0.25 merge=false fit=worst note=a:b,c=d "
                      "maximum=4096",
                      values));
    assert_int_equal(values[LIMIT].count, 2048);
    assert_int_equal(values[DEPTH].count, 9);
    assert_false(values[FRACTION].none);
    assert_true(values[FRACTION].number == 0.25);
    assert_int_equal(values[MERGE].count, 0);
    assert_int_equal(values[FIT].count, 2);
    assert_int_equal(values[NOTE].text_bytes, strlen("a:b,c=d"));
    assert_memory_equal(values[NOTE].text, "a:b,c=d", strlen("a:b,c=d"));
    assert_int_equal(values[MAXIMUM].count, 4096);
}

static void test_none_can_be_written_only_where_it_is_the_default(void **state)
{
    (void)state;
    struct knob_value values[KNOBS_MAX];
    assert_true(reads("maximum=none fraction=none", values));
    assert_true(values[MAXIMUM].none);
    assert_refused("limit=none", "knob limit of policy fake must be 256 to 1073741824 bytes, such "
                                 "as 4096 or 2MiB, not 'none'");
}

static void test_a_value_out_of_range_is_named_with_what_it_must_be(void **state)
{
    (void)state;
    assert_refused("depth=10", "knob depth of policy fake must be a number from 1 to 9, not '10'");
    assert_refused("fraction=1.5",
                   "knob fraction of policy fake must be a number from 0 to 1, or none, not '1.5'");
    assert_refused("merge=yes", "knob merge of policy fake must be true or false, not 'yes'");
    assert_refused("fit=next",
                   "knob fit of policy fake must be one of: first best worst, not 'next'");
    assert_refused("note=123456789", "knob note of policy fake must be a text of at most 8 bytes "
                                     "without blanks, not '123456789'");
    assert_refused("limit=", "knob limit of policy fake must be 256 to 1073741824 bytes, such as "
                             "4096 or 2MiB, not ''");
}

static void test_an_unknown_knob_is_answered_with_the_known_ones(void **state)
{
    (void)state;
    assert_refused("limits=4096", "policy fake has no knob 'limits'; it has limit, depth, "
                                  "fraction, merge, fit, note, maximum");
    struct knob_value values[KNOBS_MAX];
    char problem[KNOBS_PROBLEM_SIZE];
    assert_false(knobs_read(&bare, NULL, "limit=1", values, problem));
    assert_string_equal(problem, "policy bare has no knob 'limit': it has none");
}

static void test_a_word_without_an_equals_sign_is_refused(void **state)
{
    (void)state;
    assert_refused("fit best",
                   "knobs are written NAME=VALUE, with blanks between them; 'fit' is not");
}

static void test_no_knob_is_given_twice(void **state)
{
    (void)state;
    assert_refused("depth=3 depth=3", "knob depth is given twice");
}

static void test_the_policy_has_the_last_word(void **state)
{
    (void)state;
    assert_refused("depth=4", "depth must be odd");
}

static void test_a_long_foreign_word_is_cut_in_the_sentence(void **state)
{
    (void)state;
    char text[1000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct knob_value values[KNOBS_MAX];
    char problem[KNOBS_PROBLEM_SIZE];
    assert_false(knobs_read(&fake, NULL, text, values, problem));
    assert_in_range(strlen(problem), 1, KNOBS_PROBLEM_SIZE - 1);
}

/* Every policy's table: names of their own, and defaults that its own rules accept. */
static void test_the_tables_of_all_policies_are_sound(void **state)
{
    (void)state;
    struct worsegpu_config config;
    worsegpu_config_default(&config);
    const struct policy_operations *operations;
    for (size_t p = 0; (operations = policy_at(p)) != NULL; p++) {
        struct knob_value values[KNOBS_MAX];
        char problem[KNOBS_PROBLEM_SIZE];
        assert_in_range(operations->knob_count, 0, KNOBS_MAX);
        if (!knobs_read(operations, &config, "", values, problem))
            fail_msg("%s: %s", operations->name, problem);
        for (size_t i = 0; i < operations->knob_count; i++) {
            const struct policy_knob *knob = &operations->knobs[i];
            assert_int_equal(knob->choices != NULL, knob->type == KNOB_CHOICE);
            assert_true(strlen(knob->meaning) > 10);
            assert_true(strpbrk(knob->name, "= \t") == NULL);
            for (size_t j = 0; j < i; j++)
                assert_string_not_equal(knob->name, operations->knobs[j].name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_left_out_has_its_default),
        cmocka_unit_test(test_every_type_is_read),
        cmocka_unit_test(test_none_can_be_written_only_where_it_is_the_default),
        cmocka_unit_test(test_a_value_out_of_range_is_named_with_what_it_must_be),
        cmocka_unit_test(test_an_unknown_knob_is_answered_with_the_known_ones),
        cmocka_unit_test(test_a_word_without_an_equals_sign_is_refused),
        cmocka_unit_test(test_no_knob_is_given_twice),
        cmocka_unit_test(test_the_policy_has_the_last_word),
        cmocka_unit_test(test_a_long_foreign_word_is_cut_in_the_sentence),
        cmocka_unit_test(test_the_tables_of_all_policies_are_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
