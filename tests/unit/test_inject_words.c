/* Tests of proto/inject_words.c: words in, parameters of an inject request out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "proto/inject_words.h"
#include "proto/request.h"
#include "tests/support/chaos.h"

enum {
    LONGEST = 1024
};

static void assert_words(const char *text, const char *json)
{
    char message[INJECT_WORDS_MESSAGE_SIZE] = "";
    struct json_writer out;
    json_writer_init(&out, memory_system(), LONGEST);
    if (inject_words_write_text(text, &out, message) != INJECT_WORDS_FINE)
        fail_msg("%s: %s", text, message);
    if (out.length != strlen(json) || memcmp(out.data, json, out.length) != 0)
        fail_msg("%s: wanted %s, got %.*s", text, json, (int)out.length, out.data);
    json_writer_release(&out);
}

/* Refused with a message that has this in it; what was written before stays alone. */
static void assert_wrong(const char *text, const char *part)
{
    char message[INJECT_WORDS_MESSAGE_SIZE] = "";
    struct json_writer out;
    json_writer_init(&out, memory_system(), LONGEST);
    json_writer_begin_array(&out);
    json_writer_u64(&out, 7);
    assert_int_equal(inject_words_write_text(text, &out, message), INJECT_WORDS_WRONG);
    if (!strstr(message, part) || strchr(message, '\n'))
        fail_msg("%s: no '%s' in '%s'", text, part, message);
    json_writer_end_array(&out);
    assert_int_equal(out.length, 3);
    assert_memory_equal(out.data, "[7]", 3);
    json_writer_release(&out);
}

static void test_the_example_of_the_manual_means_what_it_says(void **state)
{
    (void)state;
    assert_words("oom --nth 10 --times 1 --min-size 1MiB",
                 "{\"action\":\"out_of_memory\",\"nth\":10,\"times\":1,\"min_size\":1048576}");
}

static void test_each_action_has_a_short_name_and_its_full_one(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"oom", "out_of_memory"},
        {"quota", "quota_exceeded"},
        {"host", "host_fallback"},
        {"forget", "forget"},
        {"delay", "delay"},
        {"disconnect-before", "disconnect_before"},
        {"disconnect-after", "disconnect_after"},
    };
    size_t count = sizeof(pairs) / sizeof(pairs[0]);
    for (size_t index = 0; index < count; index++) {
        char json[LONGEST];
        snprintf(json, sizeof(json), "{\"action\":\"%s\"}", pairs[index][1]);
        assert_words(pairs[index][0], json);
        assert_words(pairs[index][1], json);
        assert_string_equal(inject_words_action(index)->word, pairs[index][0]);
    }
    assert_null(inject_words_action(count));
}

static void test_every_option_becomes_its_parameter(void **state)
{
    (void)state;
    assert_words("delay --every=3 --delay-ms=50 --method info",
                 "{\"action\":\"delay\",\"every\":3,\"delay_ms\":50,\"method\":\"info\"}");
    assert_words("host --probability 0.25 --seed 7",
                 "{\"action\":\"host_fallback\",\"probability\":0.25,\"rule_seed\":7}");
    assert_words(
        "oom --max-size 1.5KiB --stream 0 --tag-prefix w --process 4 --user 0 --client 9 "
        "--allocator gpu1",
        "{\"action\":\"out_of_memory\",\"max_size\":1536,\"stream\":0,\"tag_prefix\":\"w\","
        "\"process\":4,\"user\":0,\"client\":9,\"allocator\":\"gpu1\"}");
}

static void test_an_option_listed_for_help_is_one_that_is_taken(void **state)
{
    (void)state;
    size_t count = 0;
    for (const struct inject_option *option; (option = inject_words_option(count)) != NULL;
         count++) {
        char text[LONGEST];
        char json[LONGEST];
        snprintf(text, sizeof(text), "oom %s", option->word);
        snprintf(json, sizeof(json), "a value is missing after %s", option->word);
        assert_wrong(text, json);
        assert_true(strlen(option->meaning) > 0 && strlen(option->placeholder) > 0);
    }
    /* inject takes action, and each of its other parameters has its option. */
    assert_int_equal(count + 1, (size_t)__builtin_popcountll(method_info(METHOD_inject)->takes));
}

static void test_quotes_keep_blanks_together(void **state)
{
    (void)state;
    assert_words("  oom\t--tag-prefix 'a \"b'  ",
                 "{\"action\":\"out_of_memory\",\"tag_prefix\":\"a \\\"b\"}");
    assert_words("oom --tag-prefix=\"it's\"",
                 "{\"action\":\"out_of_memory\",\"tag_prefix\":\"it's\"}");
    assert_wrong("oom --tag-prefix 'open", "quote");
}

static void test_a_wrong_word_is_named(void **state)
{
    (void)state;
    assert_wrong("", "action");
    assert_wrong("explode", "'explode'");
    assert_wrong("oom --nht 3", "'--nht'");
    assert_wrong("oom nth", "'nth'");
    assert_wrong("oom --nth", "--nth");
    assert_wrong("oom --nth 1 --nth=2", "--nth is given twice");
    assert_wrong("oom --method allocat", "'allocat'");
    assert_wrong("oom --tag-prefix ''", "--tag-prefix");
    assert_wrong("oom --tag-prefix \xff", "UTF-8");
    assert_wrong("expl\xc3\xb6"
                 "de",
                 "'expl\\u00f6de'");
}

static void test_a_value_out_of_its_range_is_named(void **state)
{
    (void)state;
    assert_wrong("oom --nth 0", "'0'");
    assert_wrong("oom --nth -1", "'-1'");
    assert_wrong("oom --nth 1.0", "'1.0'");
    assert_wrong("oom --times 9007199254740992", "--times");
    assert_wrong("oom --min-size big", "'big'");
    assert_wrong("oom --probability 1.01", "'1.01'");
    assert_wrong("delay --delay-ms 3600001", "3600000");
    assert_wrong("oom --process 0", "--process");
}

static void test_too_many_words_are_refused(void **state)
{
    (void)state;
    char text[LONGEST] = "oom";
    for (size_t count = 0; count < 40; count++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), " --nth 1");
    assert_wrong(text, "twice");
}

static bool write_words(struct chaos *chaos, void *context)
{
    char message[INJECT_WORDS_MESSAGE_SIZE] = "";
    struct json_writer out;
    (void)context;
    json_writer_init(&out, &chaos->memory, LONGEST);
    enum inject_words_result result =
        inject_words_write_text("oom --tag-prefix 'a b' --nth 2", &out, message);
    assert_true(result == INJECT_WORDS_FINE || result == INJECT_WORDS_NO_MEMORY);
    if (result != INJECT_WORDS_FINE)
        assert_int_equal(out.length, 0);
    json_writer_release(&out);
    return result == INJECT_WORDS_FINE;
}

static void test_without_memory_nothing_is_written(void **state)
{
    (void)state;
    assert_true(chaos_loop(write_words, NULL) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_example_of_the_manual_means_what_it_says),
        cmocka_unit_test(test_each_action_has_a_short_name_and_its_full_one),
        cmocka_unit_test(test_every_option_becomes_its_parameter),
        cmocka_unit_test(test_an_option_listed_for_help_is_one_that_is_taken),
        cmocka_unit_test(test_quotes_keep_blanks_together),
        cmocka_unit_test(test_a_wrong_word_is_named),
        cmocka_unit_test(test_a_value_out_of_its_range_is_named),
        cmocka_unit_test(test_too_many_words_are_refused),
        cmocka_unit_test(test_without_memory_nothing_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
