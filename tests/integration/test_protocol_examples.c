/* proto/PROTOCOL.md says what is so: its examples are run against a real daemon, and its tables
 * compared with those that the programs are built from. How the examples are written stands in that
 * page itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/version.h"
#include "daemon/metrics.h"
#include "lib/worsegpu.h"
#include "proto/errors.h"
#include "proto/methods.h"
#include "tests/support/real_daemon.h"

static const char page[] = "proto/PROTOCOL.md";
static const char fence[] = "```";
static const char example_fence[] = "```example";

enum {
    MOST_MESSAGES = 64,
    MOST_WORDS = 32,
    MOST_HANDLES = 16,
    MOST_EARLY = 16,
    HANDLE_DIGITS = 32
};

/* One fenced block. */
struct example {
    unsigned line;               /* of the page, where it begins */
    char *words[MOST_WORDS + 1]; /* the daemon's options */
    size_t word_count;
    struct {
        char direction; /* '>' or '<' */
        const char *text;
    } messages[MOST_MESSAGES];
    size_t message_count;
};

/* ---------------------------------------------------------------------------------- reading the
 * page */

/* Cuts the next line off a text; NULL after the last. */
static char *cut_line(char **text)
{
    char *line = *text;
    if (!*line)
        return NULL;
    char *end = strchr(line, '\n');
    if (end) {
        *end = '\0';
        *text = end + 1;
    } else {
        *text = line + strlen(line);
    }
    return line;
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Cuts the next word off a text; NULL after the last. What stands between two ' belongs together.
 */
static char *cut_word(char **text)
{
    char *word = *text + strspn(*text, " ");
    bool quoted = *word == '\'';
    if (!*word)
        return NULL;
    word += quoted;
    char *end = strchrnul(word, quoted ? '\'' : ' ');
    assert_true(!quoted || *end); /* a ' that stands alone */
    *text = end + (*end != '\0');
    *end = '\0';
    return word;
}

/* The next example of the page; false when there is none. `at` and `line` go on from call to call.
 */
static bool next_example(struct real_room *room, char **at, unsigned *line, struct example *example)
{
    char *text;
    while ((text = cut_line(at)) != NULL && ((*line)++, !starts(text, example_fence)))
        ;
    if (!text)
        return false;
    memset(example, 0, sizeof(*example));
    example->line = *line;
    char *rest = text + strlen(example_fence);
    for (char *word; (word = cut_word(&rest)) != NULL;) {
        assert_true(example->word_count < MOST_WORDS);
        example->words[example->word_count++] = word;
    }
    while ((text = cut_line(at)) != NULL && ((*line)++, !starts(text, fence))) {
        if (starts(text, "> ") || starts(text, "< ")) {
            assert_true(example->message_count < MOST_MESSAGES);
            example->messages[example->message_count].direction = *text;
            example->messages[example->message_count++].text = text + 2;
        } else if (starts(text, "  ") && example->message_count > 0) {
            const char **message = &example->messages[example->message_count - 1].text;
            *message = real_room_text(room, "%s%s", *message, text + 2);
        } else {
            fail_msg("%s:%u: neither '> ' nor '< ' nor two spaces", page, *line);
        }
    }
    assert_non_null(text); /* a fence that does not end */
    return true;
}

static char *read_page(struct real_room *room)
{
    return real_room_read(room, page);
}

/* --------------------------------------------------------------------------------------
 * placeholders */

/* The handles of one example, by the id before the dash. */
struct handles {
    const char *handles[MOST_HANDLES]; /* index: allocation id */
};

/* A request with its placeholders filled in from what earlier answers showed. */
static const char *fill_in(struct real_room *room, const struct handles *handles,
                           const char *request)
{
    static const char placeholder[] = "-<handle>";
    const char *found = strstr(request, placeholder);
    if (!found)
        return request;
    const char *number = found;
    while (number > request && isdigit((unsigned char)number[-1]))
        number--;
    unsigned long id = strtoul(number, NULL, 10);
    if (id >= MOST_HANDLES || !handles->handles[id])
        fail_msg("no answer has shown the handle in %s", request);
    return real_room_text(room, "%.*s%s%s", (int)(number - request), request, handles->handles[id],
                          fill_in(room, handles, found + sizeof(placeholder) - 1));
}

/* An answer of the page as JSON: a bare placeholder becomes a string that begins with '#'. */
static cJSON *parse_expected(const char *text)
{
    char *json = test_malloc(strlen(text) * 4 + 1);
    size_t length = 0;
    bool in_string = false;
    for (const char *at = text; *at; at++) {
        if (in_string && *at == '\\') {
            json[length++] = *at++;
        } else if (*at == '"') {
            in_string = !in_string;
        } else if (!in_string && *at == '<') {
            json[length++] = '"';
            json[length++] = '#';
        } else if (!in_string && *at == '>') {
            json[length++] = *at;
            json[length++] = '"';
            continue;
        }
        json[length++] = *at;
    }
    json[length] = '\0';
    cJSON *value = cJSON_Parse(json);
    test_free(json);
    return value;
}

static bool is_handle(const char *text, const char *id, size_t id_length)
{
    return strncmp(text, id, id_length) == 0 && text[id_length] == '-' &&
           strspn(text + id_length + 1, "0123456789abcdef") == HANDLE_DIGITS &&
           text[id_length + 1 + HANDLE_DIGITS] == '\0';
}

static bool is_plain_integer(const cJSON *value)
{
    return cJSON_IsNumber(value) && value->valuedouble >= 0 &&
           value->valuedouble == (double)(uint64_t)value->valuedouble;
}

/* The names of the policies, in their order. */
static bool are_the_policies(const cJSON *value)
{
    size_t index = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, value)
    {
        const char *name = worsegpu_policy_name(index++);
        if (!name || !cJSON_IsString(item) || strcmp(item->valuestring, name) != 0)
            return false;
    }
    return index > 0 && !worsegpu_policy_name(index);
}

static bool text_matches(struct real_room *room, struct handles *handles, const char *expected,
                         const cJSON *actual)
{
    if (strcmp(expected, "#<policies>") == 0)
        return are_the_policies(actual);
    if (starts(expected, "#<"))
        return is_plain_integer(actual);
    if (!cJSON_IsString(actual))
        return false;
    const char *text = actual->valuestring;
    if (strcmp(expected, "<text>") == 0)
        return *text != '\0';
    if (strcmp(expected, "<version>") == 0)
        return strcmp(text, WORSEGPU_VERSION) == 0;
    const char *placeholder = strstr(expected, "-<handle>");
    if (!placeholder)
        return strcmp(expected, text) == 0;
    unsigned long id = strtoul(expected, NULL, 10);
    if (id >= MOST_HANDLES || !is_handle(text, expected, (size_t)(placeholder - expected)))
        return false;
    if (handles->handles[id])
        return strcmp(handles->handles[id], text) == 0; /* the same handle each time it is shown */
    handles->handles[id] = real_room_text(room, "%s", text);
    return true;
}

static bool matches(struct real_room *room, struct handles *handles, const cJSON *expected,
                    const cJSON *actual)
{
    if (!expected || !actual)
        return false;
    if (cJSON_IsString(expected))
        return text_matches(room, handles, expected->valuestring, actual);
    if (cJSON_IsNumber(expected))
        return cJSON_IsNumber(actual) && expected->valuedouble >= actual->valuedouble &&
               expected->valuedouble <= actual->valuedouble;
    if (expected->type != actual->type ||
        cJSON_GetArraySize(expected) != cJSON_GetArraySize(actual))
        return false;
    const cJSON *item;
    int index = 0;
    cJSON_ArrayForEach(item, expected)
    {
        const cJSON *other = cJSON_IsObject(expected)
                                 ? cJSON_GetObjectItemCaseSensitive(actual, item->string)
                                 : cJSON_GetArrayItem(actual, index++);
        if (!other || !matches(room, handles, item, other))
            return false;
    }
    return true;
}

/* ---------------------------------------------------------------------------------------- examples
 */

/* What the daemon has said before it was its turn on the page: events and answers may change
 * places, but keep the order among themselves. */
struct early {
    const char *lines[MOST_EARLY];
    size_t count;
};

static bool is_event(const char *line)
{
    return strstr(line, "\"method\":\"event\"") != NULL;
}

/* The next event, or the next answer; NULL at the end. */
static const char *next_line(struct real_room *room, struct real_client *client,
                             struct early *early, bool event)
{
    for (size_t index = 0; index < early->count; index++) {
        const char *line = early->lines[index];
        if (is_event(line) != event)
            continue;
        early->count--;
        memmove(early->lines + index, early->lines + index + 1,
                (early->count - index) * sizeof(*early->lines));
        return line;
    }
    const char *line;
    while ((line = real_client_line(client)) != NULL && is_event(line) != event) {
        assert_true(early->count < MOST_EARLY);
        early->lines[early->count++] = real_room_text(room, "%s", line);
    }
    return line;
}

static void run_example(struct real_room *room, const struct example *example)
{
    struct real_daemon daemon = real_daemon_start_list(room, (const char *const *)example->words);
    struct real_client *client = real_daemon_connect(&daemon);
    struct handles handles = {0};
    struct early early = {.count = 0};
    for (size_t index = 0; index < example->message_count; index++) {
        const char *text = example->messages[index].text;
        if (example->messages[index].direction == '>') {
            real_client_send(client, fill_in(room, &handles, text));
            continue;
        }
        cJSON *expected = parse_expected(text);
        if (!expected)
            fail_msg("%s:%u: this answer is no JSON: %s", page, example->line, text);
        const char *line = next_line(room, client, &early, is_event(text));
        cJSON *actual = line ? cJSON_Parse(line) : NULL;
        bool right = actual && matches(room, &handles, expected, actual);
        cJSON_Delete(expected);
        cJSON_Delete(actual);
        if (!right)
            fail_msg("in the example at %s:%u\nthe page says    %s\nthe daemon says  %s", page,
                     example->line, text, line ? line : "nothing");
    }
    real_client_shutdown(client);
    const char *line = early.count ? early.lines[0] : real_client_line(client);
    if (line)
        fail_msg("in the example at %s:%u the page does not show this answer: %s", page,
                 example->line, line);
    real_daemon_stop(&daemon);
}

static void test_each_example_is_what_a_daemon_answers(void **state)
{
    char *at = read_page(*state);
    unsigned line = 0;
    unsigned count = 0;
    struct example example;
    for (; next_example(*state, &at, &line, &example); count++)
        run_example(*state, &example);
    assert_true(count >= METHODS);
}

static void test_each_method_has_an_example_that_succeeds(void **state)
{
    bool shown[METHODS] = {false};
    char *at = read_page(*state);
    unsigned line = 0;
    struct example example;
    while (next_example(*state, &at, &line, &example))
        for (size_t index = 0; index + 1 < example.message_count; index++) {
            const char *name = strstr(example.messages[index].text, "\"method\":\"");
            if (example.messages[index].direction != '>' || !name ||
                !strstr(example.messages[index + 1].text, "\"result\""))
                continue;
            name += strlen("\"method\":\"");
            enum method method = method_from_name(name, strcspn(name, "\""));
            if (method != METHODS)
                shown[method] = true;
        }
    for (unsigned method = 0; method < METHODS; method++)
        if (!shown[method])
            fail_msg("%s has no example of %s", page, method_info((enum method)method)->name);
}

/* Each member's name must stand in the text in backticks. */
static void expect_explained(struct real_room *room, const char *text, const cJSON *value)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, value)
    {
        if (item->string && !strstr(text, real_room_text(room, "`%s`", item->string)))
            fail_msg("%s shows the member %s and does not explain it", page, item->string);
        expect_explained(room, text, item);
    }
}

static void test_each_member_of_an_answer_is_explained(void **state)
{
    const char *text = read_page(*state);
    char *at = read_page(*state);
    unsigned line = 0;
    struct example example;
    while (next_example(*state, &at, &line, &example))
        for (size_t index = 0; index < example.message_count; index++) {
            if (example.messages[index].direction != '<')
                continue;
            cJSON *answer = parse_expected(example.messages[index].text);
            expect_explained(*state, text, answer);
            cJSON_Delete(answer);
        }
}

/* ------------------------------------------------------------------------------------------ tables
 */

/* Text from a heading line to the next heading of at most its level. */
static char *section(struct real_room *room, const char *heading)
{
    char *text = read_page(room);
    char *begin = strstr(text, real_room_text(room, "\n%s\n", heading));
    if (!begin) {
        fail_msg("%s has no section '%s'", page, heading);
        return text; /* never: it has jumped away */
    }
    begin += strlen(heading) + 2;
    size_t level = strspn(heading, "#");
    char *end = begin;
    while ((end = strstr(end, "\n#")) != NULL && strspn(end + 1, "#") > level)
        end++;
    if (end)
        end[1] = '\0';
    return begin;
}

/* The rows of the tables in a section, without heads and rules. */
static const char *rows(struct real_room *room, const char *heading)
{
    char *at = section(room, heading);
    const char *found = "";
    const char *line;
    unsigned in_table = 0;
    while ((line = cut_line(&at)) != NULL) {
        in_table = *line == '|' ? in_table + 1 : 0;
        if (in_table > 2)
            found = real_room_text(room, "%s%s\n", found, line);
    }
    return found;
}

static void expect_rows(struct real_room *room, const char *heading, const char *expected)
{
    const char *found = rows(room, heading);
    if (strcmp(found, expected) != 0)
        fail_msg("%s, '%s': the table must be\n%sand is\n%s", page, heading, expected, found);
}

static const char *range_text(struct real_room *room, const struct parameter_info *info)
{
    unsigned long long minimum = info->minimum;
    unsigned long long maximum = info->maximum;
    switch (info->type) {
    case PARAMETER_TYPE_INTEGER:
    case PARAMETER_TYPE_PROBABILITY:
        return real_room_text(room, "%llu to %llu", minimum, maximum);
    case PARAMETER_TYPE_BOOLEAN:
        return "true, false";
    case PARAMETER_TYPE_TEXT:
    case PARAMETER_TYPE_NAME:
        return real_room_text(room, "%llu to %llu bytes", minimum, maximum);
    case PARAMETER_TYPE_SEED:
        return real_room_text(room, "up to %llu digits", maximum);
    }
    return NULL;
}

static void test_the_parameters_of_each_method_are_those_of_the_table(void **state)
{
    static const char *const types[] = {"integer", "probability", "boolean",
                                        "text",    "name",        "seed"};
    for (unsigned index = 0; index < METHODS; index++) {
        const struct method_info *method = method_info((enum method)index);
        const char *expected = "";
        enum parameter parameter;
        for (size_t place = 0;
             (parameter = method_parameter((enum method)index, place)) != PARAMETERS; place++) {
            const struct parameter_info *info = parameter_info(parameter);
            bool required = (method->required >> parameter & 1u) != 0;
            const char *otherwise = required              ? "required"
                                    : *info->default_text ? info->default_text
                                                          : "none";
            expected = real_room_text(*state, "%s| `%s` | %s | %s | %s | %s |\n", expected,
                                      info->name, types[info->type], range_text(*state, info),
                                      otherwise, info->meaning);
        }
        expect_rows(*state, real_room_text(*state, "### `%s`", method->name), expected);
    }
}

static void test_the_methods_are_those_of_the_table(void **state)
{
    char *at = section(*state, "## Methods");
    const char *found = "";
    const char *expected = "";
    const char *line;
    while ((line = cut_line(&at)) != NULL)
        if (starts(line, "### "))
            found = real_room_text(*state, "%s%s\n", found, line);
    for (unsigned index = 0; index < METHODS; index++)
        expected =
            real_room_text(*state, "%s### `%s`\n", expected, method_info((enum method)index)->name);
    assert_string_equal(found, expected);
}

static void test_every_policy_is_described(void **state)
{
    const char *text = section(*state, "## Policies");
    const char *name;
    for (size_t index = 0; (name = worsegpu_policy_name(index)) != NULL; index++)
        if (!strstr(text, real_room_text(*state, "`%s`", name)))
            fail_msg("%s does not say what the policy %s is", page, name);
}

static void test_the_errors_are_those_of_the_table(void **state)
{
    const char *expected = "";
    for (unsigned index = 0; index < ERROR_KINDS; index++) {
        enum error_kind kind = (enum error_kind)index;
        expected = real_room_text(*state, "%s| %d | `%s` | %s |\n", expected, error_code(kind),
                                  error_kind_name(kind), error_when(kind));
    }
    expect_rows(*state, "## Errors", expected);
}

static void test_the_metrics_are_those_of_the_table(void **state)
{
    const char *expected = "";
    for (size_t index = 0; index < metrics_count(); index++) {
        const struct metrics_info *info = metrics_info(index);
        expected = real_room_text(*state, "%s| `%s` | %s | %s | %s |\n", expected, info->name,
                                  info->type, info->labels, info->help);
    }
    expect_rows(*state, "## Metrics", expected);
}

static void test_the_limits_are_those_of_the_options(void **state)
{
    const char *expected = "";
#define OPTION(field, flag, type, default_text, minimum, maximum, scope, change, help)
#define LIMIT(field, flag, type, default_text, minimum, maximum, scope, change, help)              \
    expected = real_room_text(*state, "%s| `%s` | `--%s` | %s | %s to %s | %s |\n", expected,      \
                              #field, flag, default_text, #minimum, #maximum, help);
#include "daemon/options.def"
    expect_rows(*state, "## Limits", expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_each_example_is_what_a_daemon_answers),
        IN_ROOM(test_each_method_has_an_example_that_succeeds),
        IN_ROOM(test_each_member_of_an_answer_is_explained),
        IN_ROOM(test_the_parameters_of_each_method_are_those_of_the_table),
        IN_ROOM(test_the_methods_are_those_of_the_table),
        IN_ROOM(test_every_policy_is_described),
        IN_ROOM(test_the_errors_are_those_of_the_table),
        IN_ROOM(test_the_metrics_are_those_of_the_table),
        IN_ROOM(test_the_limits_are_those_of_the_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
