/* The text of PYTORCH_CUDA_ALLOC_CONF, and the rounding that it governs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/knobs.h"
#include "lib/policies/torch_config.h"
#include "lib/policy.h"
#include "tests/support/torch_world.h"

static bool read_text(const char *text, struct torch_settings *settings,
                      char problem[KNOBS_PROBLEM_SIZE])
{
    problem[0] = '\0';
    torch_settings_default(settings);
    return torch_settings_read(text, strlen(text), settings, problem);
}

static struct torch_settings settings_of(const char *text)
{
    struct torch_settings settings;
    char problem[KNOBS_PROBLEM_SIZE];
    if (!read_text(text, &settings, problem))
        fail_msg("\"%s\": %s", text, problem);
    return settings;
}

/* The text is refused with a sentence that has `part` in it. */
static void assert_refused(const char *text, const char *part)
{
    struct torch_settings settings;
    char problem[KNOBS_PROBLEM_SIZE];
    if (read_text(text, &settings, problem))
        fail_msg("\"%s\" was taken", text);
    assert_int_equal(strncmp(problem, "alloc_conf: ", 12), 0);
    if (!strstr(problem, part))
        fail_msg("\"%s\": \"%s\" does not say \"%s\"", text, problem, part);
}

static void test_an_empty_text_sets_nothing(void **state)
{
    (void)state;
    struct torch_settings settings = settings_of("");
    assert_int_equal(settings.max_split_bytes, UINT64_MAX);
    assert_int_equal(settings.non_split_rounding_bytes, MIB(20));
    assert_true(settings.collection_threshold == 0);
    assert_false(settings.expandable);
    for (int i = 0; i < TORCH_DIVISIONS; i++)
        assert_int_equal(settings.divisions[i], 0);
}

static void test_settings_are_parted_by_commas_and_the_last_of_a_name_counts(void **state)
{
    (void)state;
    struct torch_settings settings =
        settings_of("max_split_size_mb:64,garbage_collection_threshold:0.8,"
                    "max_non_split_rounding_mb:40,expandable_segments:True,max_split_size_mb:128,");
    assert_int_equal(settings.max_split_bytes, MIB(128));
    assert_int_equal(settings.non_split_rounding_bytes, MIB(40));
    assert_true(settings.collection_threshold == 0.8);
    assert_true(settings.expandable);
    assert_false(settings_of("expandable_segments:True,expandable_segments:False").expandable);
}

static void test_blanks_mean_nothing(void **state)
{
    (void)state;
    struct torch_settings settings =
        settings_of(" max_split_size_mb : 21 , roundup_power2_divisions : [ 1 : 2 , > : 4 ] ");
    assert_int_equal(settings.max_split_bytes, MIB(21));
    assert_int_equal(settings.divisions[0], 4);
}

static void test_both_sizes_must_be_above_20_mib(void **state)
{
    (void)state;
    assert_refused("max_split_size_mb:20", "above 20, not \"20\"");
    assert_refused("max_non_split_rounding_mb:20", "above 20");
    assert_int_equal(settings_of("max_split_size_mb:21").max_split_bytes, MIB(21));
    assert_int_equal(settings_of("max_split_size_mb:2147483647").max_split_bytes,
                     UINT64_C(2147483647) << 20);
    assert_refused("max_split_size_mb:2147483648", "whole number");
}

static void test_a_number_has_nothing_behind_it(void **state)
{
    (void)state;
    assert_refused("max_split_size_mb:64MB", "not \"64MB\"");
    assert_refused("max_split_size_mb:-1", "not \"-1\"");
    assert_refused("max_split_size_mb:64.5", "not \"64.5\"");
    assert_refused("max_split_size_mb:", "not nothing");
    assert_refused("max_split_size_mb:,", "not \",\"");
    assert_refused("garbage_collection_threshold:0.5x", "not \"0.5x\"");
}

static void test_the_collection_threshold_is_between_0_and_1(void **state)
{
    (void)state;
    assert_refused("garbage_collection_threshold:0", "above 0 and below 1");
    assert_refused("garbage_collection_threshold:1", "above 0 and below 1");
    assert_refused("garbage_collection_threshold:nan", "above 0 and below 1");
    assert_true(settings_of("garbage_collection_threshold:1e-3").collection_threshold == 1e-3);
}

static void test_yes_and_no_are_python_words(void **state)
{
    (void)state;
    assert_refused("expandable_segments:true", "True or False, not \"true\"");
    assert_refused("expandable_segments:1", "True or False");
    assert_refused("expandable_segments", "after expandable_segments there must be a \":\"");
    assert_refused("expandable_segments=True", "is no setting");
}

static void test_an_unknown_name_is_refused_with_those_there_are(void **state)
{
    (void)state;
    assert_refused("max_split_size:64", "\"max_split_size\" is no setting of PyTorch 2.6; there "
                                        "are max_split_size_mb, ");
    assert_refused(",max_split_size_mb:64", "\",\" is no setting");
    assert_refused("max_split_size_mb:64 backend:native", "there must be a \",\"");
}

static void test_a_foreign_word_is_repeated_harmlessly(void **state)
{
    (void)state;
    assert_refused("\033x\n\377:1", "\"?x??\" is no setting");
}

static void test_what_has_no_meaning_here_is_taken_and_checked(void **state)
{
    (void)state;
    settings_of("backend:native,release_lock_on_cudamalloc:True,release_lock_on_hipmalloc:False,"
                "pinned_use_cuda_host_register:True,pinned_use_hip_host_register:True,"
                "pinned_num_register_threads:128,pinned_use_background_threads:False");
    assert_refused("pinned_num_register_threads:3", "a power of two up to 128");
    assert_refused("pinned_num_register_threads:256", "a power of two up to 128");
    assert_refused("pinned_use_background_threads:maybe", "True or False");
}

static void test_another_backend_is_refused_with_the_reason(void **state)
{
    (void)state;
    assert_refused("backend:cudaMallocAsync",
                   "another allocator, which this policy does not model");
    assert_refused("backend:other", "must be native");
}

/* ------------------------------------------------------------------------------ divisions */

static void assert_divisions(const char *text, const uint64_t expected[TORCH_DIVISIONS])
{
    struct torch_settings settings = settings_of(text);
    for (int i = 0; i < TORCH_DIVISIONS; i++) {
        if (settings.divisions[i] != expected[i])
            fail_msg("%s: number %d is %d, not %d", text, i, (int)settings.divisions[i],
                     (int)expected[i]);
    }
}

static void test_one_number_sets_all_divisions(void **state)
{
    (void)state;
    static const uint64_t fours[] = {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4};
    assert_divisions("roundup_power2_divisions:4", fours);
    assert_refused("roundup_power2_divisions:3", "a power of two");
    assert_refused("roundup_power2_divisions:0", "a power of two");
}

static void test_the_first_entry_of_a_list_also_sets_all_below_it(void **state)
{
    (void)state;
    static const uint64_t expected[] = {8, 8, 8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    assert_divisions("roundup_power2_divisions:[4:8,16:2]", expected);
}

static void test_the_rest_of_a_list_overwrites_the_last_named_one(void **state)
{
    (void)state;
    /* 64 is number 6, 256 number 8, which loses its 2; number 7 was never set. */
    static const uint64_t expected[] = {8, 8, 8, 8, 8, 8, 8, 0, 16, 16, 16, 16, 16, 16, 16, 16};
    assert_divisions("roundup_power2_divisions:[64:8,256:2,>:16]", expected);
    static const uint64_t all[] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
    assert_divisions("roundup_power2_divisions:[>:2]", all);
}

static void test_an_interval_above_the_last_one_is_the_last_one(void **state)
{
    (void)state;
    static const uint64_t expected[] = {4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
    assert_divisions("roundup_power2_divisions:[1:4,1048576:2]", expected);
}

static void test_a_broken_list_is_refused(void **state)
{
    (void)state;
    assert_refused("roundup_power2_divisions:[3:2]", "interval");
    assert_refused("roundup_power2_divisions:[4:3]", "a power of two, not \"3\"");
    assert_refused("roundup_power2_divisions:[4:2", "not nothing");
    assert_refused("roundup_power2_divisions:[4:2,", "closed by");
    assert_refused("roundup_power2_divisions:[4", "\":\", not nothing");
    assert_refused("roundup_power2_divisions:[4:2 8:2]", "\",\" or \"]\"");
    assert_refused("roundup_power2_divisions:[4:2]]", "must be a \",\"");
}

/* ------------------------------------------------------------------------------ rounding */

static uint64_t rounded(const char *text, uint64_t bytes)
{
    struct torch_settings settings = settings_of(text);
    return torch_settings_round(&settings, bytes);
}

static void test_sizes_are_rounded_to_512(void **state)
{
    (void)state;
    assert_int_equal(rounded("", 1), 512);
    assert_int_equal(rounded("", 512), 512);
    assert_int_equal(rounded("", 513), 1024);
    assert_int_equal(rounded("", MIB(1) + 1), MIB(1) + 512);
    assert_int_equal(rounded("", UINT64_C(1) << 53), UINT64_C(1) << 53);
}

static void test_a_division_rounds_to_parts_of_the_power_of_two_below(void **state)
{
    (void)state;
    const char *quarters = "roundup_power2_divisions:4";
    /* Above 512 x 4 only; 2,049 lies between 2,048 and 4,096, whose quarters are 512 apart. */
    assert_int_equal(rounded(quarters, 1025), 1536);
    assert_int_equal(rounded(quarters, 2049), 2560);
    assert_int_equal(rounded(quarters, 5000), 5120);
    /* 1,200 KiB between 1 and 2 MiB: quarters of 256 KiB. */
    assert_int_equal(rounded(quarters, KIB(1200)), KIB(1280));
    assert_int_equal(rounded(quarters, MIB(1) * 7 / 4 + 1), MIB(2));
    assert_int_equal(rounded(quarters, MIB(4)), MIB(4));
}

static void test_the_division_is_that_of_the_interval_of_the_size(void **state)
{
    (void)state;
    const char *list = "roundup_power2_divisions:[1:2,4:8]";
    assert_int_equal(rounded(list, KIB(513)), KIB(768));       /* below 1 MiB: number 0 */
    assert_int_equal(rounded(list, MIB(1) + 1), KIB(1536));    /* number 0 */
    assert_int_equal(rounded(list, MIB(2) + 1), MIB(2) + 512); /* number 1: none */
    assert_int_equal(rounded(list, MIB(4) + 1), KIB(4608));    /* number 2: eighths */
    assert_int_equal(rounded("roundup_power2_divisions:[32768:2]", (UINT64_C(1) << 40) + 1),
                     UINT64_C(3) << 39); /* above 64 GiB: number 15 */
}

static void test_every_rounding_is_a_multiple_of_512_and_none_smaller(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "roundup_power2_divisions:1", "roundup_power2_divisions:2",
        "roundup_power2_divisions:1024", "roundup_power2_divisions:[1:64,8:2,>:1073741824]"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct torch_settings settings = settings_of(texts[i]);
        uint64_t before = 0;
        for (uint64_t bytes = 1; bytes < UINT64_C(1) << 53; bytes += bytes / 7 + 1) {
            uint64_t result = torch_settings_round(&settings, bytes);
            assert_true(result >= bytes && result % 512 == 0 && result < 2 * bytes + 512);
            assert_int_equal(torch_settings_round(&settings, result), result);
            assert_true(result >= before || i == 4);
            before = result;
        }
    }
}

/* ------------------------------------------------------------------------------ knobs */

static void test_the_knobs_are_read_and_refused_with_the_sentence(void **state)
{
    (void)state;
    struct worsegpu_config config;
    struct knob_value values[KNOBS_MAX];
    char problem[KNOBS_PROBLEM_SIZE];
    worsegpu_config_default(&config);
    for (int i = 0; i < 2; i++) {
        const struct policy_operations *torch = policy_find(i == 0 ? "torch" : "torch_expandable");
        assert_true(knobs_read(torch, &config,
                               "alloc_conf=max_split_size_mb:64 memory_fraction=0.5 "
                               "device_reuses_addresses=true",
                               values, problem));
        assert_true(
            knobs_read(torch, &config, "alloc_conf= memory_fraction=none", values, problem));
        assert_false(knobs_read(torch, &config, "alloc_conf=max_split_size_mb:1", values, problem));
        assert_non_null(strstr(problem, "above 20"));
        assert_false(knobs_read(torch, &config, "memory_fraction=1.5", values, problem));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_text_sets_nothing),
        cmocka_unit_test(test_settings_are_parted_by_commas_and_the_last_of_a_name_counts),
        cmocka_unit_test(test_blanks_mean_nothing),
        cmocka_unit_test(test_both_sizes_must_be_above_20_mib),
        cmocka_unit_test(test_a_number_has_nothing_behind_it),
        cmocka_unit_test(test_the_collection_threshold_is_between_0_and_1),
        cmocka_unit_test(test_yes_and_no_are_python_words),
        cmocka_unit_test(test_an_unknown_name_is_refused_with_those_there_are),
        cmocka_unit_test(test_a_foreign_word_is_repeated_harmlessly),
        cmocka_unit_test(test_what_has_no_meaning_here_is_taken_and_checked),
        cmocka_unit_test(test_another_backend_is_refused_with_the_reason),
        cmocka_unit_test(test_one_number_sets_all_divisions),
        cmocka_unit_test(test_the_first_entry_of_a_list_also_sets_all_below_it),
        cmocka_unit_test(test_the_rest_of_a_list_overwrites_the_last_named_one),
        cmocka_unit_test(test_an_interval_above_the_last_one_is_the_last_one),
        cmocka_unit_test(test_a_broken_list_is_refused),
        cmocka_unit_test(test_sizes_are_rounded_to_512),
        cmocka_unit_test(test_a_division_rounds_to_parts_of_the_power_of_two_below),
        cmocka_unit_test(test_the_division_is_that_of_the_interval_of_the_size),
        cmocka_unit_test(test_every_rounding_is_a_multiple_of_512_and_none_smaller),
        cmocka_unit_test(test_the_knobs_are_read_and_refused_with_the_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
