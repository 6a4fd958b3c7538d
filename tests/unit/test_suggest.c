/* The word that someone probably meant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/suggest.h"

static const char *const WORDS[] = {"alloc", "free", "snapshot", "trace", "list"};

static const char *nearest(const char *typed)
{
    return suggest_nearest(typed, WORDS, sizeof(WORDS) / sizeof(WORDS[0]));
}

static void test_a_letter_too_many_too_few_or_wrong_is_seen_through(void **state)
{
    (void)state;
    assert_string_equal(nearest("alloca"), "alloc");
    assert_string_equal(nearest("aloc"), "alloc");
    assert_string_equal(nearest("allok"), "alloc");
    assert_string_equal(nearest("shapshot"), "snapshot");
}

static void test_two_letters_swapped_count_as_one_slip(void **state)
{
    (void)state;
    static const char *const TWO[] = {"ab12", "1b2a"};
    assert_string_equal(nearest("lsit"), "list");
    assert_string_equal(suggest_nearest("ba12", TWO, 2), "ab12");
}

static void test_the_word_itself_is_nearest(void **state)
{
    (void)state;
    assert_string_equal(nearest("trace"), "trace");
}

static void test_a_word_that_is_like_none_gets_no_suggestion(void **state)
{
    (void)state;
    assert_null(nearest("zzzzz"));
    assert_null(nearest(""));
    assert_null(nearest("x"));
    assert_null(suggest_nearest("alloc", WORDS, 0));
}

static void test_a_very_long_word_gets_no_suggestion(void **state)
{
    (void)state;
    assert_null(nearest("allocallocallocallocallocallocallocallocalloc"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_letter_too_many_too_few_or_wrong_is_seen_through),
        cmocka_unit_test(test_two_letters_swapped_count_as_one_slip),
        cmocka_unit_test(test_the_word_itself_is_nearest),
        cmocka_unit_test(test_a_word_that_is_like_none_gets_no_suggestion),
        cmocka_unit_test(test_a_very_long_word_gets_no_suggestion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
