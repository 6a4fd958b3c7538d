/* strict_json before other judges of JSON: a naive one of our own, and jq where it is installed.
 *
 * jq 1.6 is lenient, knowingly, in these: bytes that are no UTF-8 and lone surrogates become
 * U+FFFD; a key may stand twice, the last counts; raw control characters may stand in strings;
 * numbers are whatever its strtod takes (01, 1., .5, +1) and nan in any case, with a minus too;
 * a byte order mark may come first; an empty text is null; it reads \u0000, and deeper than the
 * contract has it. A NUL ends a text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/memory.h"
#include "proto/strict_json.h"
#include "tests/support/naive_json.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    MOST_BYTES = 1 << 20
};

typedef void (*text_work)(void *context, const char *name, const char *text, size_t length);

static size_t do_for_file(const char *folder, const char *name, text_work work, void *context)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    char *room = malloc(MOST_BYTES);
    assert_non_null(file);
    assert_non_null(room);
    size_t length = fread(room, 1, MOST_BYTES, file);
    assert_true(length < MOST_BYTES);
    fclose(file);
    char *text = malloc(length + 1); /* so that a reading beyond it is seen */
    assert_non_null(text);
    memcpy(text, room, length);
    free(room);
    work(context, name, text, length);
    free(text);
    return 1;
}

/* Does it for each file of a folder; how many there were. */
static size_t do_for_folder(const char *folder, text_work work, void *context)
{
    size_t files = 0;
    DIR *directory = opendir(folder);
    if (!directory)
        return 0;
    for (const struct dirent *entry; (entry = readdir(directory));)
        if (entry->d_name[0] != '.')
            files += do_for_file(folder, entry->d_name, work, context);
    closedir(directory);
    return files;
}

/* The corpora, which are always there, and the suite, which may be. */
static void do_for_all(text_work work, void *context)
{
    char suite[2048];
    const char *shared = getenv("WORSEGPU_SHARED");
    snprintf(suite, sizeof(suite), "%s/json-test-suite/test_parsing",
             shared ? shared : "../shared");
    assert_true(do_for_folder("tests/fuzz/corpus/fuzz_strict_json", work, context) > 10);
    assert_true(do_for_folder("tests/fuzz/corpus/fuzz_request", work, context) > 10);
    if (do_for_folder(suite, work, context) == 0)
        print_message("without the JSON suite: there is none in %s (WORSEGPU_SHARED says where)\n",
                      suite);
}

/* ------------------------------------------------------------------------------ our own */

static void compare_judges(void *context, const char *name, const char *text, size_t length)
{
    struct strict_json *json = context;
    bool fine = strict_json_check(json, text, length) == STRICT_JSON_FINE;
    if (fine != naive_json_is_strict(text, length, NULL, NULL))
        fail_msg("%s: strict_json %s it", name, fine ? "takes" : "refuses");
}

static void test_both_judges_agree_on_the_suite_and_the_corpora(void **state)
{
    (void)state;
    struct strict_json json;
    strict_json_init(&json, memory_system());
    do_for_all(compare_judges, &json);
    strict_json_release(&json);
}

static void test_both_judges_agree_on_every_change_of_one_byte(void **state)
{
    (void)state;
    static const char whole[] = "{\"a\\u00e9\\ud834\\udd1e\xe2\x82\xac\":[true,false,null,-1.5e+3],"
                                "\"b\":{\"\\n\":0,\"\xf0\x9d\x84\x9e\":{}}}";
    struct strict_json json;
    strict_json_init(&json, memory_system());
    for (size_t at = 0; at < sizeof(whole) - 1; at++) {
        char text[sizeof(whole)];
        memcpy(text, whole, sizeof(whole));
        for (int byte = 0; byte < 256; byte++) {
            text[at] = (char)byte;
            compare_judges(&json, text, text, sizeof(whole) - 1);
        }
        compare_judges(&json, "a cut text", whole, at);
    }
    strict_json_release(&json);
}

/* ------------------------------------------------------------------------------ jq */

enum verdict {
    STRICT,
    LENIENT, /* wrong, but jq may take it */
    WRONG
};

struct asking {
    struct strict_json json;
    FILE *lines; /* a text each, for jq */
    char verdicts[1024];
    size_t count;
};

static bool in_token(char byte)
{
    return isalnum((unsigned char)byte) || byte == '+' || byte == '-' || byte == '.';
}

/* Whether what stands there is what jq may take for a number. */
static bool is_loose_number(const char *text, size_t length, size_t where)
{
    static const char *const words[] = {"nan", "inf", "infinity"};
    size_t start = where;
    size_t end = where;
    while (start > 0 && in_token(text[start - 1]))
        start--;
    while (end < length && in_token(text[end]))
        end++;
    if (start == end)
        return false;
    if (strchr("+-.0123456789", text[start]))
        return true;
    for (size_t i = 0; i < COUNT(words); i++)
        if (strlen(words[i]) == end - start &&
            strncasecmp(words[i], text + start, end - start) == 0)
            return true;
    return false;
}

static bool is_lenient(const struct strict_json *json, const char *text, size_t length)
{
    static const char *const reasons[] = {
        "invalid UTF-8",
        "a lone surrogate",
        "\\u0000 is not taken",
        "a key stands twice in one object",
        "a raw control character in a string",
        "nested too deeply",
        "a number begins with a needless zero",
    };
    for (size_t i = 0; i < COUNT(reasons); i++)
        if (strcmp(json->why, reasons[i]) == 0)
            return true;
    bool empty = strspn(text, " \t") == length;
    bool marked = length > 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0;
    return empty || marked || is_loose_number(text, length, json->where);
}

/* Writes a text as one line: where a line end could stand, a blank can. */
static void ask(void *context, const char *name, const char *text, size_t length)
{
    struct asking *asking = context;
    char *line = malloc(length + 1);
    assert_non_null(line);
    assert_true(asking->count < sizeof(asking->verdicts));
    for (size_t i = 0; i < length; i++)
        line[i] = text[i];
    for (size_t i = 0; i < length; i++)
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' ';
    line[length] = '\0';
    if (!memchr(line, '\0', length)) {
        bool fine = strict_json_check(&asking->json, line, length) == STRICT_JSON_FINE;
        enum verdict verdict = fine                                      ? STRICT
                               : is_lenient(&asking->json, line, length) ? LENIENT
                                                                         : WRONG;
        asking->verdicts[asking->count++] = (char)verdict;
        fprintf(asking->lines, "%s\n", line);
    }
    (void)name;
    free(line);
}

static void test_jq_takes_what_is_strict_and_more_only_where_it_is_known(void **state)
{
    (void)state;
    /* NOLINTNEXTLINE(cert-env33-c): a command of the test's own */
    if (system("command -v jq >/dev/null 2>&1") != 0) {
        print_message("skipped: jq is not installed\n");
        skip();
    }
    static struct asking asking;
    const char *folder = getenv("TMPDIR");
    char path[2048];
    char command[4096];
    char answer[32];
    size_t answers = 0;
    snprintf(path, sizeof(path), "%s/judges-XXXXXX", folder ? folder : "/tmp");
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    asking.lines = fdopen(descriptor, "w");
    assert_non_null(asking.lines);
    strict_json_init(&asking.json, memory_system());
    do_for_all(ask, &asking);
    assert_int_equal(fclose(asking.lines), 0);
    snprintf(command, sizeof(command), "jq -R 'try (fromjson | true) catch false' <'%s'", path);
    /* NOLINTNEXTLINE(cert-env33-c): a command of the test's own */
    FILE *jq = popen(command, "r");
    assert_non_null(jq);
    for (; fgets(answer, sizeof(answer), jq); answers++) {
        assert_true(answers < asking.count);
        bool taken = strcmp(answer, "true\n") == 0;
        enum verdict verdict = (enum verdict)asking.verdicts[answers];
        if ((verdict == STRICT && !taken) || (verdict == WRONG && taken))
            fail_msg("line %zu for jq: it %s it", answers + 1, taken ? "takes" : "refuses");
    }
    assert_int_equal(pclose(jq), 0);
    assert_int_equal(answers, asking.count);
    strict_json_release(&asking.json);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_judges_agree_on_the_suite_and_the_corpora),
        cmocka_unit_test(test_both_judges_agree_on_every_change_of_one_byte),
        cmocka_unit_test(test_jq_takes_what_is_strict_and_more_only_where_it_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
