/* A request through the whole daemon while its memory fails: at every point, for every method of
 * the table.
 *
 * Each line is sent to a daemon whose memory fails at the k-th request from then on, and afterwards
 * to a twin that was treated alike and has all the memory it wants. The answer must be the twin's,
 * or internal_error under the same id with nothing changed; then the same line goes through, and
 * both go on alike to the last random draw. A line that comes in two pieces may also end its
 * connection, when there is no memory to keep or join them: then it is told so with id null, unless
 * nothing can be said at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "proto/methods.h"
#include "tests/support/memory_daemon.h"

enum {
    USER = 1000,
    MOST_LINES = 240,
    SEEN_SIZE = 120000,
    LINE_SIZE = 80000,
    HISTORY = 40,
    GOING_ON = 8,
    ESCAPES = 60
};

/* Stands for the handle of the first allocation, which differs between twins. */
static const char handle_mark[] = "@H@";

/* ------------------------------------------------------------------------------------- lines */

struct lines {
    char *text[MOST_LINES];
    enum method method[MOST_LINES]; /* METHODS: of none */
    size_t count;
};

static void add_line(struct lines *lines, enum method method, const char *text)
{
    assert_true(lines->count < MOST_LINES);
    lines->text[lines->count] = strdup(text);
    assert_non_null(lines->text[lines->count]);
    lines->method[lines->count++] = method;
}

/* A value that is fine for this parameter. */
static const char *sample(enum method method, enum parameter parameter)
{
    static const char *const values[PARAMETERS] = {
        [PARAMETER_allocator] = "\"mine\"",
        [PARAMETER_name] = "\"fresh\"",
        [PARAMETER_policy] = "\"reference\"",
        [PARAMETER_knobs] = "\" \"",
        [PARAMETER_gpu_capacity] = "40960",
        [PARAMETER_gpu_probability] = "0.5",
        [PARAMETER_forget_probability] = "0.25",
        [PARAMETER_fallback_on_oom] = "false",
        [PARAMETER_max_request_bytes] = "100000",
        [PARAMETER_trace_limit] = "20",
        [PARAMETER_seed] = "\"-123456789012345678901234567890\"",
        [PARAMETER_scan] = "\"walked\"",
        [PARAMETER_requested_bytes] = "5000",
        [PARAMETER_tag] = "\"tag-1\"",
        [PARAMETER_stream] = "3",
        [PARAMETER_alignment] = "512",
        [PARAMETER_upper] = "true",
        [PARAMETER_detached] = "true",
        [PARAMETER_handle] = "\"@H@\"",
        [PARAMETER_after] = "5",
        [PARAMETER_limit] = "10",
        [PARAMETER_count] = "2",
        [PARAMETER_newest] = "true",
        [PARAMETER_format] = "\"prometheus\"",
        [PARAMETER_cells] = "10",
        [PARAMETER_from] = "100",
        [PARAMETER_bytes] = "1000",
        [PARAMETER_orphans] = "true",
        [PARAMETER_action] = "\"out_of_memory\"",
        [PARAMETER_nth] = "2",
        [PARAMETER_every] = "3",
        [PARAMETER_probability] = "0.75",
        [PARAMETER_rule_seed] = "9",
        [PARAMETER_times] = "4",
        [PARAMETER_method] = "\"allocate\"",
        [PARAMETER_min_size] = "1000",
        [PARAMETER_max_size] = "2000",
        [PARAMETER_tag_prefix] = "\"later\"",
        [PARAMETER_process] = "100",
        [PARAMETER_user] = "1000",
        [PARAMETER_client] = "1",
        [PARAMETER_delay_ms] = "1",
        [PARAMETER_rule] = "1",
    };
    if (method == METHOD_allocate && parameter == PARAMETER_tag)
        return "\"tag-new\"";
    assert_non_null(values[parameter]);
    return values[parameter];
}

/* A request with these parameters. */
static void add_request(struct lines *lines, enum method method, uint64_t given)
{
    char params[1024] = "";
    char line[1536];
    enum parameter parameter;
    for (size_t i = 0; (parameter = method_parameter(method, i)) != PARAMETERS; i++) {
        if (!(given >> parameter & 1u))
            continue;
        size_t used = strlen(params);
        snprintf(params + used, sizeof(params) - used, "%s\"%s\":%s", used ? "," : "",
                 parameter_info(parameter)->name, sample(method, parameter));
    }
    snprintf(line, sizeof(line), "{\"id\":\"an id\",\"method\":\"%s\",\"params\":{%s}}",
             method_info(method)->name, params);
    add_line(lines, method, line);
}

/* Each method with what it needs, with each other parameter as well, and with all. */
static void add_methods(struct lines *lines)
{
    for (int number = 0; number < METHODS; number++) {
        enum method method = (enum method)number;
        const struct method_info *info = method_info(method);
        enum parameter parameter;
        add_request(lines, method, info->required);
        for (size_t i = 0; (parameter = method_parameter(method, i)) != PARAMETERS; i++)
            if (!(info->required >> parameter & 1u))
                add_request(lines, method, info->required | UINT64_C(1) << parameter);
        add_request(lines, method, info->takes);
    }
}

static void add_oddities(struct lines *lines)
{
    static const char *const odd[] = {
        "no json",
        "[1,2,3]",
        "{\"id\":5}",
        "{\"id\":null,\"method\":\"snapshot\"}",
        "{\"id\":5,\"method\":\"unheard \\u00e4 of\"}",
        "{\"id\":5,\"method\":\"snapshot\",\"params\":[]}",
        "{\"id\":5,\"method\":\"allocate\",\"params\":{\"requested_bytes\":1.0}}",
        "{\"id\":5,\"method\":\"allocate\",\"params\":{\"requested_bytes\":1,\"tag\":\"tag-1\"}}",
        "{\"id\":5,\"method\":\"free\",\"params\":{\"handle\":\"@H@\",\"allocator\":\"mine\"}}",
        "{\"id\":5,\"method\":\"open\",\"params\":{\"name\":\"mine\"}}",
        "{\"id\":5,\"method\":\"open\",\"params\":{\"name\":\"x\",\"policy\":\"nicer\"}}",
        "{\"id\":5,\"method\":\"trace\",\"params\":{\"allocator\":\"nowhere\"}}",
        "{\"params\":{\"tag\":\"\\u0074ag-1\"},\"method\":\"free\",\"id\":\"\\u00e4\"}",
        "  { \"method\" : \"snapshot\" , \"id\" : -7, \"jsonrpc\" : \"2.0\" }  ",
        "{\"method\":\"allocate\",\"params\":{\"requested_bytes\":5000,\"tag\":\"quiet\"}}",
        "{\"method\":\"free\",\"params\":{\"tag\":\"tag-1\"}}",
        "{\"method\":\"open\",\"params\":{\"name\":\"quiet\"}}",
        "{\"method\":\"close\",\"params\":{\"allocator\":\"mine\"}}",
        "{\"method\":\"trace\"}",
    };
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        add_line(lines, METHODS, odd[i]);
    /* Lines of great length: one that fits, one that does not. */
    static const size_t lengths[] = {60000, 70000};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        static const char start[] =
            "{\"id\":6,\"method\":\"free\",\"params\":{\"handle\":\"\\u0041";
        char *line = malloc(lengths[i] + 1);
        assert_non_null(line);
        memset(line, 'x', lengths[i]);
        memcpy(line, start, sizeof(start) - 1);
        memcpy(line + lengths[i] - 3, "\"}}", 4);
        add_line(lines, METHODS, line);
        free(line);
    }
}

static void release_lines(struct lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        free(lines->text[i]);
}

/* Takes the text out of an answer of `metrics`: it counts how much was said. */
static void scrub_metrics(char *answer)
{
    char *start = strstr(answer, "\"text\":\"# ");
    char *end = start ? strstr(start, "# EOF") : NULL;
    if (end)
        memmove(start, end, strlen(end) + 1);
}

/* Takes out what twins do not have in common: secrets, seeds that were drawn, and how much was said
 * when a line had to be sent twice. */
static void scrub(char *answer)
{
    static const char *const keys[] = {
        "\"seed\":", "\"requests\":", "\"errors\":", "\"bytes_in\":", "\"bytes_out\":"};
    answer_scrub(answer);
    scrub_metrics(answer);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        for (char *found = strstr(answer, keys[i]); found; found = strstr(found, keys[i])) {
            found += strlen(keys[i]);
            size_t digits = strspn(found, "0123456789");
            memmove(found, found + digits, strlen(found + digits) + 1);
        }
    }
}

/* -------------------------------------------------------------------------------- one daemon */

struct side {
    struct memory_daemon daemon;
    struct memory_client *client;
    struct memory_client *watcher; /* root: sees all of gpu0 */
    char handle[WORSEGPU_HANDLE_TEXT_SIZE];
};

/* Two allocators with something in them; the trace is longer than the buffer that is kept ready. */
static void begin_side(struct side *side, struct chaos *chaos, bool long_way_only)
{
    char params[768];
    char escapes[ESCAPES * 6 + 1]; /* short as a tag, long in an answer */
    for (size_t i = 0; i < ESCAPES; i++)
        memcpy(escapes + 6 * i, "\\u001b", 7);
    memory_daemon_start(&side->daemon, chaos, "--trace-limit=60 --capacity=200000");
    side->daemon.server.decoder.long_way_only = long_way_only;
    side->client = memory_daemon_connect(&side->daemon, USER);
    side->watcher = memory_daemon_connect(&side->daemon, 0);
    /* More members than any method takes: from here on there is room to read every line's id. */
    assert_kind(memory_client_call(side->client, "snapshot",
                                   "\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,"
                                   "\"h\":1,\"i\":1,\"j\":1,\"k\":1,\"l\":1,\"m\":1,\"n\":1,"
                                   "\"o\":1,\"p\":1,\"q\":1,\"r\":1,\"s\":1,\"t\":1"),
                "invalid_params");
    assert_kind(
        memory_client_call(side->client, "open", "\"name\":\"mine\",\"seed\":3,\"trace_limit\":20"),
        "result");
    for (int i = 0; i < HISTORY; i++) {
        snprintf(params, sizeof(params), "\"requested_bytes\":%d,\"tag\":\"%s%d\",\"detached\":%s",
                 100 + 17 * i, i == 1 ? "tag-" : escapes, i, i % 3 ? "false" : "true");
        const char *answer = memory_client_call(side->client, "allocate", params);
        assert_kind(answer, "result");
        if (i == 0)
            answer_text(answer, "handle", side->handle, sizeof(side->handle));
    }
    assert_kind(
        memory_client_call(side->client, "allocate",
                           "\"requested_bytes\":9,\"allocator\":\"mine\",\"tag\":\"tag-1\""),
        "result");
}

/* The line with this side's handle in it. The caller frees. */
static char *line_of(const struct side *side, const char *text)
{
    size_t size = strlen(text) + sizeof(side->handle) + 1;
    char *line = malloc(size);
    assert_non_null(line);
    const char *mark = strstr(text, handle_mark);
    if (mark)
        snprintf(line, size, "%.*s%s%s", (int)(mark - text), text, side->handle,
                 mark + strlen(handle_mark));
    else
        snprintf(line, size, "%s", text);
    return line;
}

/* What a subscriber is told unasked; that is another test's business. */
static bool is_event(const char *told)
{
    return answer_is(told, "method", "\"event\"");
}

static void drop_events(struct memory_client *client)
{
    const char *told;
    while ((told = memory_client_line(client)) != NULL)
        assert_true(is_event(told));
}

/* Sends a line, perhaps in two pieces, and copies its answer without its secrets. The caller frees;
 * NULL when there was none. */
static char *send_line(struct side *side, const char *text, bool split)
{
    char *line = line_of(side, text);
    size_t first = split ? strlen(line) / 2 : 0;
    if (split) {
        memory_client_send(side->client, line, first);
        memory_daemon_settle(&side->daemon);
    }
    memory_client_send_line(side->client, line + first);
    memory_daemon_settle(&side->daemon);
    free(line);
    const char *told;
    char *answer = NULL;
    unsigned answers = 0;
    while ((told = memory_client_line(side->client)) != NULL) {
        if (is_event(told))
            continue;
        answers++;
        if (!answer)
            answer = strdup(told);
    }
    assert_true(answers <= 1 && (answers == 0 || answer));
    if (answer)
        scrub(answer);
    return answer;
}

static void add_seen(char *seen, struct memory_client *client, const char *method,
                     const char *params)
{
    size_t used = strlen(seen);
    drop_events(client);
    const char *answer = memory_client_call(client, method, params);
    assert_true(used + strlen(answer) + 2 < SEEN_SIZE);
    snprintf(seen + used, SEEN_SIZE - used, "%s\n", answer);
}

/* All that can be seen of the daemon. The caller frees. */
static char *observe(struct side *side)
{
    static const char *const methods[] = {"snapshot", "trace", "list", "validate", "rules"};
    char *seen = malloc(SEEN_SIZE);
    assert_non_null(seen);
    *seen = '\0';
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        add_seen(seen, side->watcher, methods[i], "");
        if (!side->client->connection || strcmp(methods[i], "rules") == 0)
            continue;
        add_seen(seen, side->client, methods[i], "\"allocator\":\"mine\"");
        add_seen(seen, side->client, methods[i], "\"allocator\":\"fresh\"");
    }
    if (side->client->connection)
        add_seen(seen, side->client, "info", "");
    scrub(seen);
    return seen;
}

static void assert_same_and_free(char *left, char *right)
{
    assert_string_equal(left, right);
    free(left);
    free(right);
}

/* Both do the same for a while, and nobody could tell them apart. */
static void go_on_alike(struct side *side, struct side *twin)
{
    for (int i = 0; i < GOING_ON; i++) {
        struct side *sides[2] = {side, twin};
        char *answers[2];
        for (int k = 0; k < 2; k++) {
            char params[64];
            snprintf(params, sizeof(params), "\"requested_bytes\":%d,\"tag\":\"later-%d\"",
                     1000 + i, i / 2);
            answers[k] = strdup(memory_client_call(sides[k]->watcher, i % 2 ? "free" : "allocate",
                                                   i % 2 ? strchr(params, ',') + 1 : params));
            assert_non_null(answers[k]);
            assert_kind(answers[k], "result");
            scrub(answers[k]);
        }
        assert_same_and_free(answers[0], answers[1]);
    }
    assert_same_and_free(observe(side), observe(twin));
}

/* -------------------------------------------------------------------------------- the trial */

struct trial {
    const char *line;
    bool split;
    bool long_way_only;
    bool fails_alone;            /* out: whether it was ever refused for want of memory */
    char kind[ANSWER_KIND_SIZE]; /* out: what the twin answered; "" for nothing */
};

static bool is_internal_error(const char *answer)
{
    char kind[ANSWER_KIND_SIZE];
    return answer && strcmp(answer_kind(answer, kind), "internal_error") == 0;
}

static void assert_same_id(const char *left, const char *right)
{
    const char *value = answer_member(right, "id");
    assert_non_null(value);
    size_t length = strcspn(value, ",");
    if (strncmp(answer_member(left, "id"), value, length + 1) != 0)
        fail_msg("%s has not the id of %s", left, right);
}

/* The connection has ended: only a line in two pieces may do that. The twin's client goes as well.
 */
static void check_the_end(const struct trial *trial, const char *answer, struct side *twin)
{
    assert_true(trial->split);
    if (answer) {
        assert_true(is_internal_error(answer));
        assert_true(answer_is(answer, "id", "null"));
    }
    memory_client_hang_up(twin->client);
    memory_daemon_settle(&twin->daemon);
}

/* After a failure: nothing has changed, and the line goes through now. Returns the answer to it. */
static char *check_refusal(struct side *side, const struct trial *trial, const char *before,
                           const char *expected)
{
    char *now = observe(side);
    assert_string_equal(now, before);
    free(now);
    char *answer = send_line(side, trial->line, false);
    if (expected)
        assert_non_null(answer);
    return answer;
}

static bool try_line(struct chaos *chaos, void *context)
{
    struct trial *trial = context;
    uint64_t fail_at = chaos->fail_at;
    bool for_good = chaos->for_good;
    struct side side;
    struct side twin;
    chaos_arm(chaos, 0, false);
    begin_side(&side, chaos, trial->long_way_only);
    begin_side(&twin, chaos, trial->long_way_only);

    chaos_arm(chaos, fail_at, for_good);
    char *answer = send_line(&side, trial->line, trial->split);
    bool failed = chaos->failed;
    chaos_arm(chaos, 0, false);

    bool through = true;
    char *before = observe(&twin);
    if (!side.client->connection) {
        through = false;
        assert_true(failed);
        check_the_end(trial, answer, &twin);
    } else {
        char *expected = send_line(&twin, trial->line, false);
        snprintf(trial->kind, sizeof(trial->kind), "%s", "");
        if (expected)
            answer_kind(expected, trial->kind);
        if (is_internal_error(answer)) {
            through = false;
            assert_true(failed);
            assert_same_id(answer, expected);
            free(answer);
            answer = check_refusal(&side, trial, before, expected);
        } else if (!expected && failed) {
            /* Nobody was told; it either did its work or changed nothing. */
            char *now = observe(&side);
            char *after = observe(&twin);
            through = strcmp(now, after) == 0;
            if (!through) {
                assert_string_equal(now, before);
                assert_null(send_line(&side, trial->line, false));
            }
            free(now);
            free(after);
        }
        if (expected)
            assert_string_equal(answer, expected);
        else
            assert_null(answer);
        free(expected);
    }
    free(answer);
    free(before);
    go_on_alike(&side, &twin);
    memory_daemon_end(&side.daemon);
    memory_daemon_end(&twin.daemon);
    chaos->failed = failed;
    trial->fails_alone = trial->fails_alone || !through;
    return through;
}

/* Tries all lines; says for which methods there was a result. */
static void try_all(bool split, bool long_way_only)
{
    struct lines lines = {.count = 0};
    bool answered[METHODS] = {false};
    bool poor[METHODS] = {false};
    uint64_t points = 0;
    add_methods(&lines);
    add_oddities(&lines);
    for (size_t i = 0; i < lines.count; i++) {
        struct trial trial = {
            .line = lines.text[i], .split = split, .long_way_only = long_way_only};
        points += chaos_loop(try_line, &trial);
        chaos_hook_cjson(NULL);
        if (lines.method[i] == METHODS)
            continue;
        answered[lines.method[i]] = answered[lines.method[i]] || strcmp(trial.kind, "result") == 0;
        poor[lines.method[i]] = poor[lines.method[i]] || trial.fails_alone;
    }
    for (int method = 0; method < METHODS; method++)
        assert_true(answered[method]);
    /* What takes memory of its own has been refused for it. */
    assert_true(poor[METHOD_open] && poor[METHOD_allocate] && poor[METHOD_trace] &&
                poor[METHOD_validate]);
    assert_true(points > lines.count);
    release_lines(&lines);
}

static void test_every_request_goes_through_or_changes_nothing(void **state)
{
    (void)state;
    try_all(false, false);
}

static void test_every_request_that_goes_the_long_way_goes_through_or_changes_nothing(void **state)
{
    (void)state;
    try_all(false, true);
}

static void test_every_request_in_two_pieces_goes_through_changes_nothing_or_ends(void **state)
{
    (void)state;
    try_all(true, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_request_goes_through_or_changes_nothing),
        cmocka_unit_test(test_every_request_that_goes_the_long_way_goes_through_or_changes_nothing),
        cmocka_unit_test(test_every_request_in_two_pieces_goes_through_changes_nothing_or_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
