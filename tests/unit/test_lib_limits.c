/* The last length that is taken, and the first that is not: numbers, repeated words, sentences,
 * tags. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "lib/policies/torch_config.h"
#include "lib/policy.h"
#include "tests/support/engine.h"
#include "tests/support/policy_world.h"

enum {
    TORCH_DIGITS = 39, /* of a number in alloc_conf */
    KNOB_DIGITS = 63,  /* of a number in any knob */
    SHOWN_BYTES = 40   /* of a word that a sentence repeats */
};

/* `number` with zeros before it, so many bytes in all. */
static const char *padded(char text[128], const char *number, size_t length)
{
    size_t zeros = length - strlen(number);
    memset(text, '0', zeros);
    memcpy(text + zeros, number, strlen(number) + 1);
    return text;
}

static bool torch_reads(const char *text, char problem[KNOBS_PROBLEM_SIZE])
{
    struct torch_settings settings;
    torch_settings_default(&settings);
    return torch_settings_read(text, strlen(text), &settings, problem);
}

static void test_a_number_in_alloc_conf_has_at_most_39_digits(void **state)
{
    (void)state;
    char number[128];
    char text[256];
    char problem[KNOBS_PROBLEM_SIZE];
    for (size_t digits = TORCH_DIGITS - 1; digits <= TORCH_DIGITS + 1; digits++) {
        snprintf(text, sizeof(text), "max_split_size_mb:%s", padded(number, "32", digits));
        assert_int_equal(torch_reads(text, problem), digits <= TORCH_DIGITS);
    }
    assert_true(torch_reads("pinned_num_register_threads:128", problem));
    assert_false(torch_reads("pinned_num_register_threads:256", problem));
    assert_false(torch_reads("pinned_num_register_threads:127", problem));
}

static void test_a_foreign_word_is_repeated_up_to_40_bytes(void **state)
{
    (void)state;
    char word[128];
    char expected[128];
    char problem[KNOBS_PROBLEM_SIZE];
    for (size_t length = SHOWN_BYTES - 1; length <= SHOWN_BYTES + 2; length++) {
        memset(word, 'x', length);
        word[0] = '~';
        word[1] = '\x7f';
        word[2] = '!';
        word[length] = '\0';
        memcpy(expected, word, sizeof(expected));
        expected[1] = '?';
        expected[length < SHOWN_BYTES ? length : SHOWN_BYTES] = '\0';
        char quoted[160];
        snprintf(quoted, sizeof(quoted), "\"%s\"", expected);
        assert_false(torch_reads(word, problem));
        if (!strstr(problem, quoted))
            fail_msg("%s does not repeat %s", problem, quoted);
    }
}

/* ------------------------------------------------------------------------------ knobs */

static const struct policy_knob count_knob[] = {
    {"depth", KNOB_COUNT, "7", 1, 9, NULL, "a count"},
};
static const struct policy_operations with_count = {
    .name = "fake", .knobs = count_knob, .knob_count = 1};

static void test_a_number_in_a_knob_has_at_most_63_digits(void **state)
{
    (void)state;
    char number[128];
    char text[256];
    char problem[KNOBS_PROBLEM_SIZE];
    struct knob_value values[KNOBS_MAX];
    for (size_t digits = KNOB_DIGITS - 1; digits <= KNOB_DIGITS + 1; digits++) {
        snprintf(text, sizeof(text), "depth=%s", padded(number, "5", digits));
        assert_int_equal(knobs_read(&with_count, NULL, text, values, problem),
                         digits <= KNOB_DIGITS);
    }
}

static void test_a_word_of_one_letter_is_no_end(void **state)
{
    (void)state;
    char problem[KNOBS_PROBLEM_SIZE];
    struct knob_value values[KNOBS_MAX];
    assert_false(knobs_read(&with_count, NULL, "x", values, problem));
    assert_false(knobs_read(&with_count, NULL, "x depth=5", values, problem));
}

#define LONG_NAME "a_name_of_exactly_forty_bytes_for_a_knob_"
static const struct policy_knob long_knobs[] = {
    {LONG_NAME "1", KNOB_COUNT, "7", 1, 9, NULL, ""},
    {LONG_NAME "2", KNOB_COUNT, "7", 1, 9, NULL, ""},
    {LONG_NAME "3", KNOB_COUNT, "7", 1, 9, NULL, ""},
    {LONG_NAME "4", KNOB_COUNT, "7", 1, 9, NULL, ""},
    {LONG_NAME "5", KNOB_COUNT, "7", 1, 9, NULL, ""},
    {LONG_NAME "6", KNOB_COUNT, "7", 1, 9, NULL, ""},
    {LONG_NAME "7", KNOB_COUNT, "7", 1, 9, NULL, ""},
    {LONG_NAME "8", KNOB_COUNT, "7", 1, 9, NULL, ""},
};

/* The sentence fills its room to the last byte and is cut there, with any number of knobs. */
static void test_a_sentence_with_all_knobs_is_cut_where_its_room_ends(void **state)
{
    (void)state;
    struct knob_value values[KNOBS_MAX];
    for (size_t count = 1; count <= 8; count++) {
        struct policy_operations operations = {
            .name = "fake", .knobs = long_knobs, .knob_count = count};
        char room[KNOBS_PROBLEM_SIZE + 64];
        char whole[2 * KNOBS_PROBLEM_SIZE];
        int length = snprintf(whole, sizeof(whole), "policy fake has no knob 'x'; it has ");
        for (size_t i = 0; i < count; i++)
            length += snprintf(whole + length, sizeof(whole) - (size_t)length, "%s%s",
                               i > 0 ? ", " : "", long_knobs[i].name);
        whole[KNOBS_PROBLEM_SIZE - 1] = '\0';
        memset(room, '#', sizeof(room));
        assert_false(knobs_read(&operations, NULL, "x=1", values, room));
        assert_string_equal(room, whole);
        for (size_t i = KNOBS_PROBLEM_SIZE; i < sizeof(room); i++)
            assert_int_equal(room[i], '#');
    }
}

/* ------------------------------------------------------------------------------ events */

static void test_an_event_has_its_own_figures_and_no_other(void **state)
{
    (void)state;
    struct worsegpu_config config = engine_config("1");
    config.policy = "torch";
    config.gpu_capacity = UINT64_C(64) << 20;
    config.trace_limit = 10;
    worsegpu_allocator *allocator = engine_create(&config);
    struct worsegpu_request request = engine_request(1000);
    struct worsegpu_allocation allocation;
    struct worsegpu_event event;
    request.tag = "t";
    request.tag_bytes = 1;
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
    size_t count;
    bool more;
    uint64_t dropped;
    worsegpu_trace(allocator, 0, &event, 1, &count, &more, &dropped);
    assert_int_equal(count, 1);
    assert_int_equal(event.requested_bytes, 1000);
    assert_int_equal(event.count, 0);
    assert_int_equal(event.alignment, 0);
    assert_int_equal(event.tag_bytes, 1);
    assert_int_equal(event.tag[0], 't');
    const struct worsegpu_teller teller = {0};
    worsegpu_event_done(allocator, 4, 3, false, &teller, NULL);
    worsegpu_trace(allocator, 1, &event, 1, &count, &more, &dropped);
    assert_int_equal(count, 1);
    assert_int_equal(event.requested_bytes, 0);
    assert_int_equal(event.count, 3);
    worsegpu_destroy(allocator);
}

static void test_a_map_of_one_byte_has_one_cell(void **state)
{
    (void)state;
    struct worsegpu_config config = engine_config("1");
    config.policy = "list_fit";
    worsegpu_allocator *allocator = engine_create(&config);
    struct worsegpu_request request = engine_request(1);
    struct worsegpu_allocation allocation;
    struct worsegpu_cell cells[4];
    struct worsegpu_map map;
    assert_int_equal(worsegpu_allocate(allocator, &request, &allocation), WORSEGPU_OK);
    assert_int_equal(worsegpu_map(allocator, allocation.offset, 1, cells, 4, &map), WORSEGPU_OK);
    assert_int_equal(map.cells, 1);
    assert_int_equal(map.cell_bytes, 1);
    assert_int_equal(cells[0].used_bytes, 1);
    worsegpu_destroy(allocator);
}

/* ------------------------------------------------------------------------------ policies */

/* All but the reference recompute their accounts in memory that is taken for it. */
static void test_an_audit_without_memory_says_so_in_every_policy(void **state)
{
    (void)state;
    for (size_t i = 0; policy_at(i); i++) {
        struct policy_world world;
        const struct policy_rules rules = {.beyond_capacity = true, .no_places = true};
        policy_world_open(&world, policy_at(i)->name, NULL, UINT64_C(64) << 20, &rules);
        world.look_closely = false;
        bool takes_memory = strcmp(policy_at(i)->name, "reference") != 0;
        for (uint64_t fail_at = 1; fail_at <= 2; fail_at++) {
            struct policy_live live = policy_world_live(&world);
            struct audit audit = {0};
            chaos_arm(&world.chaos, fail_at, false);
            assert_int_equal(world.operations->check(world.policy, &live, &audit),
                             takes_memory ? WORSEGPU_NO_MEMORY : WORSEGPU_OK);
            chaos_arm(&world.chaos, 0, false);
            assert_null(audit.broken);
        }
        policy_world_close(&world);
    }
}

static void test_one_byte_is_one_block_of_the_reference(void **state)
{
    (void)state;
    const struct policy_rules rules = {.no_places = true};
    struct policy_world world;
    struct policy_measures measures;
    policy_world_open(&world, "reference", NULL, 100, &rules);
    world.look_closely = false;
    assert_int_equal(policy_world_allocate(&world, 1), POLICY_PLACED);
    world.operations->measure(world.policy, &measures);
    assert_int_equal(measures.blocks, 1);
    assert_int_equal(measures.forgotten_blocks, 0);
    policy_world_forget(&world, 0);
    world.operations->measure(world.policy, &measures);
    assert_int_equal(measures.blocks, 1);
    assert_int_equal(measures.forgotten_blocks, 1);
    policy_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_number_in_alloc_conf_has_at_most_39_digits),
        cmocka_unit_test(test_a_foreign_word_is_repeated_up_to_40_bytes),
        cmocka_unit_test(test_a_number_in_a_knob_has_at_most_63_digits),
        cmocka_unit_test(test_a_word_of_one_letter_is_no_end),
        cmocka_unit_test(test_a_sentence_with_all_knobs_is_cut_where_its_room_ends),
        cmocka_unit_test(test_an_event_has_its_own_figures_and_no_other),
        cmocka_unit_test(test_a_map_of_one_byte_has_one_cell),
        cmocka_unit_test(test_an_audit_without_memory_says_so_in_every_policy),
        cmocka_unit_test(test_one_byte_is_one_block_of_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
