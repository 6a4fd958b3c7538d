/* A strict text as a tree with exact numbers; and the public suite of JSON texts, when it is there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proto/json_document.h"
#include "tests/support/chaos.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void read_text(struct json_document *document, const char *text)
{
    json_document_init(document, memory_system());
    assert_int_equal(json_document_read(document, text, strlen(text)), STRICT_JSON_FINE);
    assert_non_null(document->root);
}

static void test_every_number_keeps_its_spelling(void **state)
{
    (void)state;
    static const char *const spellings[] = {
        "4096",
        "4096.0",
        "1e3",
        "-0",
        "18446744073709551615",
        "0.30000000000000004",
        "1e400",
        "5",
        "12345678901234567890123456789012345678901234567890123456789012345678901234567890"};
    char text[1024] = "{\"skipped\":[\"1\",{},[],null,true]";
    for (size_t i = 0; i < COUNT(spellings); i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof(text) - used, ",\"%zu\":[{\"n\":%s}]", i, spellings[i]);
    }
    size_t used = strlen(text);
    snprintf(text + used, sizeof(text) - used, "}");
    struct json_document document;
    read_text(&document, text);
    for (size_t i = 0; i < COUNT(spellings); i++) {
        char name[16];
        size_t length;
        snprintf(name, sizeof(name), "%zu", i);
        const cJSON *list = json_document_member(document.root, name);
        const cJSON *number = json_document_member(list->child, "n");
        const char *spelling = json_document_spelling(&document, number, &length);
        assert_int_equal(length, strlen(spellings[i]));
        assert_memory_equal(spelling, spellings[i], length);
    }
    json_document_release(&document);
}

/* Reads `text` as the only value and as either kind of integer. */
static bool as_u64(const char *text, uint64_t *value)
{
    struct json_document document;
    read_text(&document, text);
    bool fine = json_document_u64(&document, document.root, value);
    json_document_release(&document);
    return fine;
}

static bool as_i64(const char *text, int64_t *value)
{
    struct json_document document;
    read_text(&document, text);
    bool fine = json_document_i64(&document, document.root, value);
    json_document_release(&document);
    return fine;
}

static void test_integers_are_exact_to_the_last_bit(void **state)
{
    (void)state;
    uint64_t size;
    int64_t number;
    assert_true(as_u64("18446744073709551615", &size));
    assert_int_equal(size, UINT64_MAX);
    assert_true(as_u64("9007199254740993", &size));
    assert_int_equal(size, UINT64_C(9007199254740993));
    assert_true(as_u64("0", &size));
    assert_int_equal(size, 0);
    assert_true(as_i64("9223372036854775807", &number));
    assert_int_equal(number, INT64_MAX);
    assert_true(as_i64("-9223372036854775808", &number));
    assert_int_equal(number, INT64_MIN);
}

static void test_minus_zero_is_zero(void **state)
{
    (void)state;
    uint64_t size = 1;
    int64_t number = 1;
    assert_true(as_u64("-0", &size));
    assert_int_equal(size, 0);
    assert_true(as_i64("-0", &number));
    assert_int_equal(number, 0);
}

static void test_an_integer_out_of_range_is_none(void **state)
{
    (void)state;
    uint64_t size = 7;
    int64_t number = 7;
    assert_false(as_u64("18446744073709551616", &size));
    assert_false(as_u64("-1", &size));
    assert_false(as_u64("184467440737095516150", &size));
    assert_false(as_i64("9223372036854775808", &number));
    assert_false(as_i64("-9223372036854775809", &number));
    assert_int_equal(size, 7);
    assert_int_equal(number, 7);
}

static void test_what_is_not_written_as_an_integer_is_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"1.0", "1e3", "\"1\"", "true", "null", "[]", "{}", "[1]"};
    uint64_t size;
    int64_t number;
    for (size_t i = 0; i < COUNT(texts); i++) {
        assert_false(as_u64(texts[i], &size));
        assert_false(as_i64(texts[i], &number));
    }
    struct json_document document;
    json_document_init(&document, memory_system());
    assert_false(json_document_u64(&document, NULL, &size));
    assert_false(json_document_i64(&document, NULL, &number));
    json_document_release(&document);
}

static void test_members_are_found_by_their_exact_name(void **state)
{
    (void)state;
    struct json_document document;
    read_text(&document, "{\"a\":1,\"\\u0062\":2}");
    assert_non_null(json_document_member(document.root, "a"));
    assert_non_null(json_document_member(document.root, "b"));
    assert_null(json_document_member(document.root, "A"));
    assert_null(json_document_member(document.root, ""));
    assert_null(json_document_member(NULL, "a"));
    assert_null(json_document_member(document.root->child, "a"));
    json_document_release(&document);
}

static void test_an_array_has_no_members(void **state)
{
    (void)state;
    struct json_document document;
    read_text(&document, "[{\"a\":1}]");
    assert_null(json_document_member(document.root, "a"));
    json_document_release(&document);
}

static void test_after_a_refusal_there_is_no_tree(void **state)
{
    (void)state;
    struct json_document document;
    read_text(&document, "[1]");
    assert_int_equal(json_document_read(&document, "[01]", 4), STRICT_JSON_REFUSED);
    assert_null(document.root);
    assert_int_equal(json_document_read(&document, "[2]", 3), STRICT_JSON_FINE);
    assert_int_equal(cJSON_GetArraySize(document.root), 1);
    json_document_release(&document);
}

static void test_a_text_needs_no_nul_behind_it(void **state)
{
    (void)state;
    static const char *const texts[] = {"7",     "\"a\"", "true",        "null",
                                        "false", "[1]",   "{\"a\":-1.5}"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        size_t length = strlen(texts[i]);
        char *exact = malloc(length);
        assert_non_null(exact);
        memcpy(exact, texts[i], length);
        struct json_document document;
        json_document_init(&document, memory_system());
        assert_int_equal(json_document_read(&document, exact, length), STRICT_JSON_FINE);
        json_document_release(&document);
        free(exact);
    }
}

static bool read_with_failures(struct chaos *chaos, void *context)
{
    static const char text[] = "{\"a\":[1,2.5,\"x\\u00e9\"],\"b\":{\"c\":null,\"d\":true}}";
    (void)context;
    struct json_document document;
    chaos_hook_cjson(chaos);
    json_document_init(&document, &chaos->memory);
    enum strict_json_result result = json_document_read(&document, text, sizeof(text) - 1);
    assert_int_equal(result, chaos->failed ? STRICT_JSON_NO_MEMORY : STRICT_JSON_FINE);
    assert_int_equal(document.root != NULL, result == STRICT_JSON_FINE);
    chaos->fail_at = 0;
    assert_int_equal(json_document_read(&document, text, sizeof(text) - 1), STRICT_JSON_FINE);
    json_document_release(&document);
    chaos_hook_cjson(NULL);
    return result == STRICT_JSON_FINE;
}

static void test_a_failed_reading_leaves_nothing_behind(void **state)
{
    (void)state;
    assert_true(chaos_loop(read_with_failures, NULL) > 20);
}

/* Texts that are JSON, but more than the contract takes: keys twice, and \u0000 in a string. */
static bool is_beyond_the_contract(const char *name)
{
    static const char *const names[] = {
        "y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json",
        "y_object_escaped_null_in_key.json", "y_string_null_escape.json"};
    for (size_t i = 0; i < COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Whether more than 16 brackets are open somewhere; those within strings count, which is right for
 * all texts of the suite. */
static bool is_deep(const char *text, size_t length)
{
    int depth = 0;
    for (size_t i = 0; i < length; i++) {
        depth += text[i] == '[' || text[i] == '{';
        depth -= text[i] == ']' || text[i] == '}';
        if (depth > 16)
            return true;
    }
    return false;
}

static char *read_file(const char *folder, const char *name, size_t *length)
{
    enum {
        ROOM = 1 << 20
    };
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    char *text = malloc(ROOM);
    assert_non_null(file);
    assert_non_null(text);
    *length = fread(text, 1, ROOM, file);
    assert_true(*length < ROOM);
    fclose(file);
    return text;
}

static void test_the_json_suite_is_judged_as_it_says(void **state)
{
    (void)state;
    char folder[2048];
    const char *shared = getenv("WORSEGPU_SHARED");
    snprintf(folder, sizeof(folder), "%s/json-test-suite/test_parsing",
             shared ? shared : "../shared");
    DIR *suite = opendir(folder);
    if (!suite) {
        print_message("skipped: there is no JSON suite in %s (WORSEGPU_SHARED says where)\n",
                      folder);
        skip();
        return; /* not reached; the analyzer does not know */
    }
    struct json_document document;
    json_document_init(&document, memory_system());
    size_t taken = 0;
    size_t refused = 0;
    for (const struct dirent *entry; (entry = readdir(suite));) {
        const char *name = entry->d_name;
        if (!strchr("yni", name[0]) || name[0] == '\0' || name[1] != '_')
            continue;
        size_t length;
        char *text = read_file(folder, name, &length);
        enum strict_json_result result = json_document_read(&document, text, length);
        assert_int_not_equal(result, STRICT_JSON_NO_MEMORY); /* cJSON takes what is strict */
        bool must_refuse = name[0] == 'n' || is_beyond_the_contract(name) || is_deep(text, length);
        if (must_refuse && result != STRICT_JSON_REFUSED)
            fail_msg("taken: %s", name);
        if (!must_refuse && name[0] == 'y' && result != STRICT_JSON_FINE)
            fail_msg("refused: %s: %s at byte %zu", name, document.strict.why,
                     document.strict.where);
        taken += result == STRICT_JSON_FINE;
        refused += result == STRICT_JSON_REFUSED;
        free(text);
    }
    closedir(suite);
    json_document_release(&document);
    assert_true(taken > 80);
    assert_true(refused > 180);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_number_keeps_its_spelling),
        cmocka_unit_test(test_integers_are_exact_to_the_last_bit),
        cmocka_unit_test(test_minus_zero_is_zero),
        cmocka_unit_test(test_an_integer_out_of_range_is_none),
        cmocka_unit_test(test_what_is_not_written_as_an_integer_is_none),
        cmocka_unit_test(test_members_are_found_by_their_exact_name),
        cmocka_unit_test(test_an_array_has_no_members),
        cmocka_unit_test(test_after_a_refusal_there_is_no_tree),
        cmocka_unit_test(test_a_text_needs_no_nul_behind_it),
        cmocka_unit_test(test_a_failed_reading_leaves_nothing_behind),
        cmocka_unit_test(test_the_json_suite_is_judged_as_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
