/* What worsegpu-cli says, and ends with, when a daemon refuses, breaks the contract, falls silent
 * or goes away: whole commands against a daemon that answers as each test tells it to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/memory.h"
#include "client/cli/cli.h"

enum {
    MOST_WORDS = 16
};

/* What the daemon says to requests that have `part` in them: `text` with each '@' replaced by their
 * id. The first that fits counts. */
struct saying {
    const char *part;
    const char *text;
    bool hangs_up; /* afterwards */
};

#define RESULT(result) "{\"jsonrpc\":\"2.0\",\"id\":@,\"result\":" result "}\n"
#define ERROR(code, kind, more)                                                                    \
    "{\"jsonrpc\":\"2.0\",\"id\":@,\"error\":{\"code\":" #code                                     \
    ",\"message\":\"no\",\"data\":{\"kind\":\"" kind "\"" more "}}}\n"

struct stage {
    char folder[64];
    char path[96];
    char script[96];
    int listener;
    pthread_t thread;
    const struct saying *sayings; /* ends with a NULL part */
    bool is_patient;              /* the client closes first */
    int status;                   /* of the last command */
    char *output;
    char *errors;
};

static void say(int descriptor, const char *text, const char *line)
{
    const char *start = strstr(line, "\"id\":");
    size_t id_length = start ? strcspn(start + 5, ",}") : 0;
    for (const char *at = text; *at;) {
        size_t plain = strcspn(at, "@");
        (void)!send(descriptor, at, plain, MSG_NOSIGNAL);
        at += plain;
        if (*at == '@') {
            (void)!send(descriptor, start ? start + 5 : "null", start ? id_length : 4,
                        MSG_NOSIGNAL);
            at++;
        }
    }
}

/* Whether the connection goes on. Who is not spoken of hears nothing. */
static bool answer(const struct stage *stage, int descriptor, const char *line)
{
    for (const struct saying *saying = stage->sayings; saying->part; saying++) {
        if (strstr(line, saying->part)) {
            say(descriptor, saying->text, line);
            return !saying->hangs_up;
        }
    }
    return true;
}

static void *serve(void *context)
{
    const struct stage *stage = context;
    for (int descriptor = accept(stage->listener, NULL, NULL); descriptor >= 0;
         descriptor = accept(stage->listener, NULL, NULL)) {
        FILE *stream = fdopen(descriptor, "r");
        char *line = NULL;
        size_t room = 0;
        while (getline(&line, &room, stream) > 0 && answer(stage, descriptor, line))
            continue;
        free(line);
        /* Who only says that no more comes waits for answers. */
        struct pollfd waiting = {.fd = descriptor};
        if (stage->is_patient)
            (void)poll(&waiting, 1, -1);
        fclose(stream);
    }
    return NULL;
}

static int set_up(void **state)
{
    static struct stage stage;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *folder = getenv("TMPDIR");
    stage = (struct stage){0};
    snprintf(stage.folder, sizeof(stage.folder), "%.40s/wg-XXXXXX", folder ? folder : "/tmp");
    if (!mkdtemp(stage.folder))
        return -1;
    snprintf(stage.path, sizeof(stage.path), "%s/socket", stage.folder);
    snprintf(stage.script, sizeof(stage.script), "%s/script", stage.folder);
    memcpy(address.sun_path, stage.path, strlen(stage.path) + 1);
    stage.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(stage.listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(stage.listener, 8) < 0)
        return -1;
    *state = &stage;
    return pthread_create(&stage.thread, NULL, serve, &stage);
}

static int tear_down(void **state)
{
    struct stage *stage = *state;
    shutdown(stage->listener, SHUT_RDWR);
    pthread_join(stage->thread, NULL);
    close(stage->listener);
    free(stage->output);
    free(stage->errors);
    unlink(stage->path);
    unlink(stage->script);
    rmdir(stage->folder);
    return 0;
}

typedef int (*program)(int argc, char **argv, const struct worsegpu_memory *memory, FILE *out,
                       FILE *errors);

/* Runs a program with these words, the last one NULL, on the daemon of the sayings. */
static void perform(struct stage *stage, program main_of, const struct saying *sayings,
                    const char *const *given)
{
    char storage[MOST_WORDS][128];
    char *words[MOST_WORDS + 1];
    int count = 0;
    size_t length;
    for (; given[count]; count++) {
        assert_true(count < MOST_WORDS);
        snprintf(storage[count], sizeof(storage[0]), "%s",
                 strcmp(given[count], "SOCKET") == 0   ? stage->path
                 : strcmp(given[count], "SCRIPT") == 0 ? stage->script
                                                       : given[count]);
        words[count] = storage[count];
    }
    words[count] = NULL;
    free(stage->output);
    free(stage->errors);
    FILE *out = open_memstream(&stage->output, &length);
    FILE *errors = open_memstream(&stage->errors, &length);
    stage->sayings = sayings;
    stage->status = main_of(count, words, memory_system(), out, errors);
    fclose(out);
    fclose(errors);
}

#define PERFORM(stage, sayings, ...)                                                               \
    perform(stage, cli_main, sayings,                                                              \
            (const char *const[]){"worsegpu-cli", "--socket", "SOCKET", __VA_ARGS__, NULL})

static void expect(const struct stage *stage, int status, const char *part)
{
    if (stage->status != status || !strstr(stage->errors, part))
        fail_msg("ended with %d, not %d, and said: %s", stage->status, status, stage->errors);
}

static void expect_output(const struct stage *stage, const char *part)
{
    if (!strstr(stage->output, part))
        fail_msg("printed without \"%s\": %s", part, stage->output);
}

static void write_script(const struct stage *stage, const char *text)
{
    FILE *file = fopen(stage->script, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* ------------------------------------------------------------------------------ run */

#define ONE_LINE "{\"method\":\"validate\"}\n"
/* What `run` asks by itself, before the script. */
#define INFO                                                                                       \
    RESULT("{\"server\":\"worsegpud\",\"version\":\"1\",\"protocol\":1,\"pid\":2,"                 \
           "\"uptime_seconds\":3,\"policies\":[\"worse\"],\"allocators\":[{\"name\":\"gpu0\"}],"   \
           "\"limits\":{\"max_line_bytes\":65536,\"max_json_depth\":5,\"max_connections\":6,"      \
           "\"max_connections_per_user\":7,\"max_allocators_per_connection\":8,"                   \
           "\"max_live_allocations\":9,\"max_output_bytes\":10,\"max_trace_limit\":11}}")

static void expect_of_run(struct stage *stage, const char *text, bool hangs_up, const char *part)
{
    const struct saying sayings[] = {
        {"\"info\"", INFO, false}, {"\"validate\"", text, hangs_up}, {0}};
    write_script(stage, ONE_LINE);
    PERFORM(stage, sayings, "--timeout", "20", "run", "SCRIPT");
    expect(stage, CLI_NO_DAEMON, part);
}

static void test_run_ends_when_an_answer_is_no_json(void **state)
{
    expect_of_run(*state, "HTTP/1.1 400 Bad Request\r\n", false, "a line that is not strict JSON");
    expect(*state, CLI_NO_DAEMON, "is it a worsegpud that listens there?");
}

static void test_run_ends_when_an_answer_is_neither_well_nor_bad(void **state)
{
    expect_of_run(*state, "{\"jsonrpc\":\"2.0\",\"id\":@}\n", false,
                  "neither a result nor an error");
    expect_of_run(*state, "{\"jsonrpc\":\"2.0\",\"id\":@,\"result\":{},\"error\":{}}\n", false,
                  "neither a result nor an error, or with both");
}

static void test_run_ends_when_nothing_was_asked(void **state)
{
    expect_of_run(*state, RESULT("{}") RESULT("{}"), false, "an answer to nothing");
}

static void test_run_ends_when_the_daemon_is_silent_for_too_long(void **state)
{
    const struct saying silent[] = {{"\"info\"", INFO, false}, {0}};
    struct stage *stage = *state;
    stage->is_patient = true;
    write_script(stage, ONE_LINE);
    PERFORM(*state, silent, "--timeout", "0.05", "run", "SCRIPT");
    expect(*state, CLI_NO_DAEMON, "no answer within 0.05 seconds");
    PERFORM(*state, silent, "--json", "--timeout", "0.05", "run", "SCRIPT");
    expect_output(*state, "\"kind\":\"timeout\"");
}

static void test_run_counts_what_was_not_answered(void **state)
{
    expect_of_run(*state, "", true, "1 of 1 requests were not answered");
    expect(*state, CLI_NO_DAEMON, "look whether the daemon still runs");
}

static void test_run_passes_events_on_and_counts_them_as_no_answer(void **state)
{
    const struct saying sayings[] = {
        {"\"info\"", INFO, false},
        {"\"validate\"", "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{}}\n" RESULT("{}"),
         false},
        {0}};
    write_script(*state, ONE_LINE);
    PERFORM(*state, sayings, "run", "SCRIPT");
    expect(*state, CLI_FINE, "");
    expect_output(*state, "\"method\":\"event\"");
    expect_output(*state, "\"result\":{}");
}

/* ------------------------------------------------------------------------------ refusals */

static void test_a_quota_of_allocations_is_told_in_numbers(void **state)
{
    const struct saying sayings[] = {
        {"allocate",
         ERROR(5, "quota_exceeded",
               ",\"which\":\"max_user_allocations\",\"limit\":2000,\"used\":1999,\"left\":1"),
         false},
        {0}};
    PERFORM(*state, sayings, "alloc", "1");
    expect(*state, CLI_OUT_OF_MEMORY, "the limit is max_user_allocations: 2000, used 1999, left 1");
}

static void test_a_quota_of_bytes_is_told_in_bytes(void **state)
{
    const struct saying sayings[] = {
        {"allocate",
         ERROR(5, "quota_exceeded",
               ",\"which\":\"max_user_bytes\",\"limit\":2048,\"used\":1024,\"left\":1024"),
         false},
        {0}};
    PERFORM(*state, sayings, "alloc", "1MiB");
    expect(*state, CLI_OUT_OF_MEMORY, "the limit is max_user_bytes: 2.0 KiB, used 1.0 KiB");
}

static void test_half_a_limit_is_not_told(void **state)
{
    const struct saying sayings[] = {
        {"allocate", ERROR(5, "quota_exceeded", ",\"which\":\"max_user_bytes\",\"limit\":2048"),
         false},
        {0}};
    PERFORM(*state, sayings, "alloc", "1");
    expect(*state, CLI_OUT_OF_MEMORY, "see what is taken");
    assert_null(strstr(((struct stage *)*state)->errors, "the limit is"));
}

static void test_who_may_not_is_told_who_may(void **state)
{
    const struct saying sayings[] = {{"rules", ERROR(4, "permission_denied", ""), false}, {0}};
    PERFORM(*state, sayings, "rules", "--clear", "1");
    expect(*state, CLI_REFUSED, "who may: root, the daemon's own user");
}

static void test_a_wrong_parameter_leads_to_the_help_of_the_command(void **state)
{
    const struct saying sayings[] = {
        {"", ERROR(-32602, "invalid_params", ",\"param\":\"stream\""), false}, {0}};
    PERFORM(*state, sayings, "event-done", "1");
    expect(*state, CLI_REFUSED, "worsegpu-cli help event-done");
    PERFORM(*state, sayings, "call", "event_done", "{}");
    expect(*state, CLI_REFUSED, "see how it is called: worsegpu-cli help\n");
}

static void test_an_error_keeps_its_particulars_in_json(void **state)
{
    const struct saying sayings[] = {
        {"validate", ERROR(8, "invariant_violation", ",\"check\":\"gpu_accounts\""), false},
        {"info", ERROR(-32601, "method_not_found", ",\"method\":\"info\""), false},
        {0}};
    PERFORM(*state, sayings, "--json", "validate");
    expect(*state, CLI_REFUSED, "invariant_violation");
    expect_output(*state, "\"check\":\"gpu_accounts\"");
    PERFORM(*state, sayings, "--json", "info");
    expect_output(*state, "\"method\":\"info\"");
}

static void test_an_unknown_kind_of_error_is_shown_without_advice(void **state)
{
    const struct saying sayings[] = {{"validate", ERROR(99, "too_purple", ""), false}, {0}};
    PERFORM(*state, sayings, "validate");
    expect(*state, CLI_REFUSED, "too_purple: no\n");
}

static void test_wrong_usage_is_a_document_in_json_as_well(void **state)
{
    const struct saying silent[] = {{0}};
    PERFORM(*state, silent, "--json", "smi", "--query", "gpu_usd");
    expect(*state, CLI_USAGE, "did you mean 'gpu_used'?");
    expect_output(*state, "{\"error\":{\"message\":\"smi has no field 'gpu_usd'");
    expect_output(*state, "\"kind\":\"usage\"");
}

/* ------------------------------------------------------------------------------ single commands */

#define HANDLE(last) "1-00112233445566778899aabbccddeef" #last
#define DETACHED(number)                                                                           \
    "{\"allocation_id\":" #number                                                                  \
    ",\"handle\":\"" HANDLE(number) "\",\"requested_bytes\":1,\"reserved_bytes\":256,\"device\":"  \
                                    "\"gpu\",\"block_index\":0,"                                   \
                                    "\"offset\":0,\"client\":1,\"detached\":true}"

static void test_freeing_all_detached_tells_a_refusal_and_goes_on(void **state)
{
    const struct saying sayings[] = {
        {"\"list\"",
         RESULT("{\"allocations\":[" DETACHED(1) "," DETACHED(2) "," DETACHED(
             3) "],\"next\":3,\"more\":false}"),
         false},
        {HANDLE(1), ERROR(2, "unknown_handle", ""), false},
        {HANDLE(2), ERROR(4, "permission_denied", ""), false},
        {HANDLE(3), RESULT("{\"allocation_id\":3,\"device\":\"gpu\",\"released\":false}"), false},
        {0}};
    PERFORM(*state, sayings, "free", "--all-detached", "--allocator", "gpu0");
    expect(*state, CLI_REFUSED, "permission_denied");
    expect_output(*state, "1 detached allocation freed, 1 of them forgotten");
    PERFORM(*state, sayings, "--json", "free", "--all-detached");
    expect_output(*state, "{\"count\":1,\"forgotten\":1,\"error\":{\"code\":4");
}

static void test_help_of_inject_lists_actions_and_options(void **state)
{
    const struct saying silent[] = {{0}};
    PERFORM(*state, silent, "help", "inject");
    assert_int_equal(((struct stage *)*state)->status, CLI_FINE);
    expect_output(*state, "Actions\n");
    expect_output(*state, "Options of a rule\n");
    expect_output(*state, "  --nth ");
}

static void test_help_of_nothing_near_names_where_all_are_listed(void **state)
{
    const struct saying silent[] = {{0}};
    PERFORM(*state, silent, "help", "xylophone");
    expect(*state, CLI_USAGE, "all there are: worsegpu-cli help");
    PERFORM(*state, silent, "help", "snapshop");
    expect(*state, CLI_USAGE, "did you mean: worsegpu-cli help snapshot");
}

static void test_alloc_passes_alignment_and_end_on(void **state)
{
    const struct saying sayings[] = {
        {"\"alignment\":512,\"upper\":true",
         RESULT("{\"allocation_id\":1,\"handle\":\"" HANDLE(
             1) "\",\"requested_bytes\":1,\"reserved_bytes\":256,\"device\":\"gpu\","
                "\"block_index\":0,\"offset\":0}"),
         false},
        {"", ERROR(99, "not_passed_on", ""), false},
        {0}};
    PERFORM(*state, sayings, "alloc", "1", "--alignment", "512", "--upper");
    expect(*state, CLI_FINE, "");
}

static void test_alloc_refuses_counts_and_streams_out_of_range(void **state)
{
    const struct saying silent[] = {{0}};
    PERFORM(*state, silent, "alloc", "1", "--count", "0");
    expect(*state, CLI_USAGE, "--count");
    PERFORM(*state, silent, "alloc", "1", "--count", "18446744073709551615");
    expect(*state, CLI_USAGE, "--count");
    PERFORM(*state, silent, "alloc", "1", "--stream", "18446744073709551615");
    expect(*state, CLI_USAGE, "--stream");
}

static void test_an_unknown_user_of_a_rule_is_refused_before_anything_is_sent(void **state)
{
    const struct saying silent[] = {{0}};
    PERFORM(*state, silent, "inject", "oom", "--user", "nobody-of-this-name");
    expect(*state, CLI_USAGE, "there is no user \"nobody-of-this-name\"");
}

static void test_a_rule_is_told_in_words(void **state)
{
    const struct saying sayings[] = {
        {"rules",
         RESULT("{\"rules\":[{\"rule\":4,\"action\":\"delay\",\"every\":3,\"delay_ms\":7,"
                "\"allocator\":\"gpu1\",\"matched\":9,\"fired\":3,\"spent\":false}],\"next\":4,"
                "\"more\":false}"),
         false},
        {0}};
    PERFORM(*state, sayings, "rules");
    expect(*state, CLI_FINE, "");
    expect_output(*state, "every 3");
    expect_output(*state, "allocator gpu1");
}

static void test_a_demo_that_is_answered_by_a_stranger_ends(void **state)
{
    const struct saying sayings[] = {{"", "220 mail.example.org ESMTP\n", false}, {0}};
    PERFORM(*state, sayings, "demo", "--delay", "0", "--json");
    expect(*state, CLI_NO_DAEMON, "is it a worsegpud that listens there?");
}

static void test_an_empty_name_of_a_socket_is_refused(void **state)
{
    const struct saying silent[] = {{0}};
    perform(*state, cli_main, silent,
            (const char *const[]){"worsegpu-cli", "--socket", "", "info", NULL});
    expect(*state, CLI_USAGE, "the socket path is empty");
}

static void test_the_socket_of_the_environment_is_in_the_advice(void **state)
{
    const struct saying silent[] = {{0}};
    const char *before = getenv("WORSEGPU_SOCKET");
    assert_null(before);
    assert_int_equal(setenv("WORSEGPU_SOCKET", "/nonexistent/worsegpud.sock", 1), 0);
    perform(*state, cli_main, silent, (const char *const[]){"worsegpu-cli", "info", NULL});
    unsetenv("WORSEGPU_SOCKET");
    expect(*state, CLI_NO_DAEMON, "/nonexistent/worsegpud.sock");
    expect(*state, CLI_NO_DAEMON, "start one: worsegpud &");
}

#define ON_STAGE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_STAGE(test_run_ends_when_an_answer_is_no_json),
        ON_STAGE(test_run_ends_when_an_answer_is_neither_well_nor_bad),
        ON_STAGE(test_run_ends_when_nothing_was_asked),
        ON_STAGE(test_run_ends_when_the_daemon_is_silent_for_too_long),
        ON_STAGE(test_run_counts_what_was_not_answered),
        ON_STAGE(test_run_passes_events_on_and_counts_them_as_no_answer),
        ON_STAGE(test_a_quota_of_allocations_is_told_in_numbers),
        ON_STAGE(test_a_quota_of_bytes_is_told_in_bytes),
        ON_STAGE(test_half_a_limit_is_not_told),
        ON_STAGE(test_who_may_not_is_told_who_may),
        ON_STAGE(test_a_wrong_parameter_leads_to_the_help_of_the_command),
        ON_STAGE(test_an_error_keeps_its_particulars_in_json),
        ON_STAGE(test_an_unknown_kind_of_error_is_shown_without_advice),
        ON_STAGE(test_wrong_usage_is_a_document_in_json_as_well),
        ON_STAGE(test_freeing_all_detached_tells_a_refusal_and_goes_on),
        ON_STAGE(test_help_of_inject_lists_actions_and_options),
        ON_STAGE(test_help_of_nothing_near_names_where_all_are_listed),
        ON_STAGE(test_alloc_passes_alignment_and_end_on),
        ON_STAGE(test_alloc_refuses_counts_and_streams_out_of_range),
        ON_STAGE(test_an_unknown_user_of_a_rule_is_refused_before_anything_is_sent),
        ON_STAGE(test_a_rule_is_told_in_words),
        ON_STAGE(test_a_demo_that_is_answered_by_a_stranger_ends),
        ON_STAGE(test_an_empty_name_of_a_socket_is_refused),
        ON_STAGE(test_the_socket_of_the_environment_is_in_the_advice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
