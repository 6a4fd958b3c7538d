/* The table of policies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/policy.h"
#include "lib/worsegpu.h"

static void test_the_first_two_are_worse_and_reference(void **state)
{
    (void)state;
    assert_string_equal(worsegpu_policy_name(0), "worse");
    assert_string_equal(worsegpu_policy_name(1), "reference");
}

static void test_each_is_found_by_its_name_and_has_a_sentence(void **state)
{
    (void)state;
    const char *name;
    size_t count = 0;
    for (; (name = worsegpu_policy_name(count)) != NULL; count++) {
        assert_ptr_equal(policy_find(name), policy_at(count));
        const char *summary = worsegpu_policy_summary(name);
        assert_true(strlen(summary) > 10);
        assert_int_equal(summary[strlen(summary) - 1], '.');
    }
    assert_true(count >= 2);
    assert_null(worsegpu_policy_name(count + 1));
    assert_null(worsegpu_policy_name(SIZE_MAX));
}

static void test_an_unknown_name_finds_nothing(void **state)
{
    (void)state;
    assert_null(policy_find("better"));
    assert_null(policy_find(""));
    assert_null(worsegpu_policy_summary("Worse"));
}

static void test_each_answers_every_question(void **state)
{
    (void)state;
    const struct policy_operations *operations;
    for (size_t i = 0; (operations = policy_at(i)) != NULL; i++) {
        assert_non_null(operations->create);
        assert_non_null(operations->destroy);
        assert_non_null(operations->place);
        assert_non_null(operations->release);
        assert_non_null(operations->measure);
        assert_non_null(operations->check);
        assert_non_null(operations->each_block);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_two_are_worse_and_reference),
        cmocka_unit_test(test_each_is_found_by_its_name_and_has_a_sentence),
        cmocka_unit_test(test_an_unknown_name_finds_nothing),
        cmocka_unit_test(test_each_answers_every_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
