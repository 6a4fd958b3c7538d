/* Policies times knobs: --policy and --vary as a list of settings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "lab/compare.h"
#include "lab/fit_settings.h"
#include "tests/support/chaos.h"

/* The settings as one text, a line each; `vary` may be NULL. */
static void assert_settings(const char *policy, const char *vary, const char *expected)
{
    struct text_list list;
    char problem[FIT_SETTINGS_PROBLEM_SIZE] = "";
    char text[2048] = "";
    text_list_init(&list, memory_system());
    assert_int_equal(fit_settings_add(&list, policy), 0);
    if (vary && fit_settings_vary(&list, vary, problem) != 0)
        fail_msg("%s", problem);
    for (size_t i = 0; i < list.count; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s\n", list.texts[i]);
    assert_string_equal(text, expected);
    text_list_release(&list);
}

static void assert_refused(const char *policy, const char *vary, const char *part)
{
    struct text_list list;
    char problem[FIT_SETTINGS_PROBLEM_SIZE] = "";
    text_list_init(&list, memory_system());
    assert_int_equal(fit_settings_add(&list, policy), 0);
    assert_int_equal(fit_settings_vary(&list, vary, problem), 1);
    if (!strstr(problem, part))
        fail_msg("%s", problem);
    text_list_release(&list);
}

static void test_each_value_is_a_setting(void **state)
{
    (void)state;
    assert_settings("buddy", "minimum_block=256, 4KiB",
                    "buddy minimum_block=256\nbuddy minimum_block=4KiB\n");
}

static void test_default_leaves_the_knob_out(void **state)
{
    (void)state;
    assert_settings("buddy", "minimum_block=default,512", "buddy\nbuddy minimum_block=512\n");
}

static void test_a_name_in_torchs_conf_is_varied_in_there(void **state)
{
    (void)state;
    assert_settings("torch", "max_split_size_mb=default,64",
                    "torch\ntorch alloc_conf=max_split_size_mb:64\n");
    assert_settings(
        "torch memory_fraction=0.5 alloc_conf=backend:native device_reuses_addresses=true",
        "max_split_size_mb=64",
        "torch memory_fraction=0.5 alloc_conf=backend:native,max_split_size_mb:64 "
        "device_reuses_addresses=true\n");
}

static void test_commas_in_brackets_and_semicolons_do_not_part(void **state)
{
    (void)state;
    assert_settings("torch", "roundup_power2_divisions=[256:1,512:2],4",
                    "torch alloc_conf=roundup_power2_divisions:[256:1,512:2]\n"
                    "torch alloc_conf=roundup_power2_divisions:4\n");
    assert_settings("torch",
                    "alloc_conf=max_split_size_mb:64,garbage_collection_threshold:0.8;default",
                    "torch alloc_conf=max_split_size_mb:64,garbage_collection_threshold:0.8\n"
                    "torch\n");
}

static void test_every_combination_is_there(void **state)
{
    (void)state;
    struct text_list list;
    char problem[FIT_SETTINGS_PROBLEM_SIZE];
    text_list_init(&list, memory_system());
    assert_int_equal(fit_settings_add(&list, "list_fit"), 0);
    assert_int_equal(fit_settings_add(&list, "buddy"), 0);
    assert_int_equal(fit_settings_vary(&list, "fit=first,best", problem), 0);
    assert_int_equal(fit_settings_vary(&list, "header=0,8,16", problem), 0);
    assert_int_equal(list.count, 7);
    assert_string_equal(list.texts[0], "list_fit fit=first header=0");
    assert_string_equal(list.texts[5], "list_fit fit=best header=16");
    assert_string_equal(list.texts[6], "buddy");
    text_list_release(&list);
}

static void test_a_knob_of_one_policy_is_no_name_in_anothers_conf(void **state)
{
    (void)state;
    struct text_list list;
    char problem[FIT_SETTINGS_PROBLEM_SIZE];
    text_list_init(&list, memory_system());
    assert_int_equal(fit_settings_add(&list, "torch"), 0);
    assert_int_equal(fit_settings_add(&list, "bfc"), 0);
    assert_int_equal(fit_settings_vary(&list, "allow_growth=true", problem), 0);
    assert_string_equal(list.texts[0], "torch");
    assert_string_equal(list.texts[1], "bfc allow_growth=true");
    text_list_release(&list);
}

static void test_all_is_the_usual_line_up(void **state)
{
    (void)state;
    struct text_list list;
    text_list_init(&list, memory_system());
    assert_int_equal(fit_settings_add(&list, "all"), 0);
    assert_true(list.count > 10);
    for (size_t i = 0; i < list.count; i++)
        assert_string_equal(list.texts[i], compare_usual(i));
    assert_null(compare_usual(list.count));
    text_list_release(&list);
}

static void test_what_is_no_variation_is_refused_with_a_reason(void **state)
{
    (void)state;
    assert_refused("torch", "max_split_size_mb", "KEY=VALUE");
    assert_refused("torch", "=1", "KEY=VALUE");
    assert_refused("torch", "max_split_size_mb=", "empty value");
    assert_refused("torch", "max_split_size_mb=32,,64", "empty value");
    assert_refused("buddy", "minimal_block=1", "minimal_block");
}

static bool vary_without_memory(struct chaos *chaos, void *context)
{
    (void)context;
    struct text_list list;
    char problem[FIT_SETTINGS_PROBLEM_SIZE];
    text_list_init(&list, &chaos->memory);
    int status = fit_settings_add(&list, "all");
    if (status == 0)
        status = fit_settings_vary(&list, "max_split_size_mb=default,64,128", problem);
    assert_true(status == 0 || status == -1);
    text_list_release(&list);
    return status == 0;
}

static void test_running_out_of_memory_leaks_nothing(void **state)
{
    (void)state;
    assert_true(chaos_loop(vary_without_memory, NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_value_is_a_setting),
        cmocka_unit_test(test_default_leaves_the_knob_out),
        cmocka_unit_test(test_a_name_in_torchs_conf_is_varied_in_there),
        cmocka_unit_test(test_commas_in_brackets_and_semicolons_do_not_part),
        cmocka_unit_test(test_every_combination_is_there),
        cmocka_unit_test(test_a_knob_of_one_policy_is_no_name_in_anothers_conf),
        cmocka_unit_test(test_all_is_the_usual_line_up),
        cmocka_unit_test(test_what_is_no_variation_is_refused_with_a_reason),
        cmocka_unit_test(test_running_out_of_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
