/* worsegpu-cli, worse-gpu-demo and worse-gpu-benchmark as people run them, against a real daemon.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "tests/support/real_daemon.h"

enum {
    MOST_WORDS = 24
};

/* One run of a program: what it ended with and what it wrote. */
struct outcome {
    int status;
    const char *output;
    const char *errors;
};

static const char *program(struct real_room *room)
{
    return real_program(room, "worsegpu-cli");
}

static struct outcome outcome_of(struct real_room *room, struct real_process *process)
{
    struct outcome outcome = {.status = real_process_wait(process)};
    outcome.output = real_process_output(room, process);
    outcome.errors = real_process_errors(room, process);
    return outcome;
}

/* Starts worsegpu-cli with --socket and these words, the last one NULL. */
static struct real_process *start_list(const struct real_daemon *daemon, const char *first,
                                       va_list list)
{
    const char *words[MOST_WORDS] = {program(daemon->room), "--socket", daemon->socket_path};
    size_t count = 3;
    for (const char *word = first; word; word = va_arg(list, const char *)) {
        assert_true(count < MOST_WORDS - 1);
        words[count++] = word;
    }
    return real_process_start_list(daemon->room, NULL, words);
}

__attribute__((sentinel)) static struct real_process *start(const struct real_daemon *daemon,
                                                            const char *first, ...)
{
    va_list list;
    va_start(list, first);
    struct real_process *process = start_list(daemon, first, list);
    va_end(list);
    return process;
}

__attribute__((sentinel)) static struct outcome run(const struct real_daemon *daemon,
                                                    const char *first, ...)
{
    va_list list;
    va_start(list, first);
    struct real_process *process = start_list(daemon, first, list);
    va_end(list);
    return outcome_of(daemon->room, process);
}

/* What it printed must be exactly one JSON document and a line end. */
static cJSON *document_of(const struct outcome *outcome)
{
    size_t length = strlen(outcome->output);
    const char *end = NULL;
    cJSON *document = cJSON_ParseWithOpts(outcome->output, &end, false);
    assert_non_null(document);
    assert_ptr_equal(end, outcome->output + length - 1);
    assert_int_equal(*end, '\n');
    return document;
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text, part);
}

static uint64_t active_allocations(const struct real_daemon *daemon)
{
    struct real_client *client = real_daemon_connect(daemon);
    uint64_t count =
        real_json_number(real_client_call(client, "{\"id\":1,\"method\":\"snapshot\"}"),
                         "result.active_allocations");
    real_client_close(client);
    return count;
}

/* ------------------------------------------------------------------------------ alloc, list, free
 */

static void test_what_alloc_makes_stays_until_free_by_number(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--forget-probability", "0", NULL);
    struct outcome made = run(&daemon, "alloc", "4096", "2MiB", NULL);
    assert_int_equal(made.status, 0);
    assert_int_equal(real_lines(made.output), 3);
    assert_says(made.output, "2.0 MiB");
    struct outcome listed = run(&daemon, "list", NULL);
    assert_int_equal(listed.status, 0);
    assert_int_equal(real_lines(listed.output), 3);
    struct outcome freed = run(&daemon, "free", "2", "1", NULL);
    assert_int_equal(freed.status, 0);
    assert_int_equal(real_lines_with(freed.output, "released"), 2);
    assert_int_equal(active_allocations(&daemon), 0);
}

static void test_a_handle_frees_once(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct outcome made = run(&daemon, "--json", "alloc", "4096", NULL);
    cJSON *document = document_of(&made);
    const char *handle = real_json_text(document, "handle");
    assert_int_equal(run(&daemon, "free", handle, NULL).status, 0);
    struct outcome again = run(&daemon, "free", handle, NULL);
    assert_int_equal(again.status, 1);
    assert_says(again.errors, "unknown_handle");
    assert_says(again.errors, "worsegpu-cli list");
    cJSON_Delete(document);
}

static void test_a_number_that_is_not_live_frees_nothing_and_the_others_are_freed(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    assert_int_equal(run(&daemon, "alloc", "10", "--count", "2", NULL).status, 0);
    struct outcome freed = run(&daemon, "--json", "free", "1", "7", "2", NULL);
    assert_int_equal(freed.status, 1);
    cJSON *document = document_of(&freed);
    assert_int_equal(real_json_number(document, "freed.0.allocation_id"), 1);
    assert_int_equal(real_json_number(document, "freed.1.allocation_id"), 2);
    assert_string_equal(real_json_text(document, "error.data.kind"), "unknown_handle");
    assert_int_equal(active_allocations(&daemon), 0);
    cJSON_Delete(document);
}

static void test_several_allocations_are_one_document(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct outcome made = run(&daemon, "alloc", "1KiB", "3", "--count", "300", "--json", NULL);
    assert_int_equal(made.status, 0);
    cJSON *document = document_of(&made);
    const cJSON *allocations = real_json(document, "allocations");
    assert_int_equal(cJSON_GetArraySize(allocations), 600);
    assert_int_equal(real_json_number(document, "allocations.299.requested_bytes"), 1024);
    assert_int_equal(real_json_number(document, "allocations.300.requested_bytes"), 3);
    assert_int_equal(real_json_number(document, "allocations.599.allocation_id"), 600);
    cJSON_Delete(document);
}

static void test_a_wrong_size_anywhere_allocates_nothing(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    static const char *const BAD[] = {"0", "x", "1.5", "", "9007199254740992", "1e3"};
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        struct outcome made = run(&daemon, "alloc", "4096", BAD[i], NULL);
        assert_int_equal(made.status, 2);
        assert_string_equal(made.output, "");
    }
    assert_int_equal(run(&daemon, "alloc", "-5", NULL).status, 2);
    assert_int_equal(run(&daemon, "alloc", "1", "--count", "0", NULL).status, 2);
    assert_int_equal(run(&daemon, "alloc", "1", "2", "--tag", "t", NULL).status, 2);
    assert_int_equal(active_allocations(&daemon), 0);
}

static struct real_daemon start_strict(void **state)
{
    return real_daemon_start(*state, "--capacity", "1MiB", "--gpu-probability", "1",
                             "--fallback-on-oom", "false", NULL);
}

static void test_a_full_gpu_is_exit_4(void **state)
{
    struct real_daemon daemon = start_strict(state);
    struct outcome made = run(&daemon, "alloc", "2MiB", NULL);
    assert_int_equal(made.status, 4);
    assert_says(made.errors, "out_of_memory");
    assert_says(made.errors, "worsegpu-cli snapshot");
    made = run(&daemon, "alloc", "2MiB", "--json", NULL);
    assert_int_equal(made.status, 4);
    cJSON *document = document_of(&made);
    assert_int_equal(real_json_number(document, "error.code"), 1);
    assert_int_equal(real_json_number(document, "error.data.requested_bytes"), 2097152);
    cJSON_Delete(document);
}

static void test_a_refusal_keeps_the_other_allocations(void **state)
{
    struct real_daemon daemon = start_strict(state);
    struct outcome made = run(&daemon, "alloc", "100", "2MiB", "200", "--json", NULL);
    assert_int_equal(made.status, 4);
    cJSON *document = document_of(&made);
    assert_int_equal(cJSON_GetArraySize(real_json(document, "allocations")), 2);
    assert_string_equal(real_json_text(document, "error.data.kind"), "out_of_memory");
    assert_says(made.errors, "1 of 3 allocations failed");
    assert_int_equal(active_allocations(&daemon), 2);
    cJSON_Delete(document);
}

static void test_an_unknown_allocator_is_refused_with_advice(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct outcome made = run(&daemon, "alloc", "1", "--allocator", "gpu9", NULL);
    assert_int_equal(made.status, 1);
    assert_says(made.errors, "unknown_allocator");
    assert_says(made.errors, "worsegpu-cli info");
}

static void hold_until(void **state, int signal)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_wait wait = {0};
    struct real_process *holder = start(&daemon, "alloc", "4096", "8192", "--hold", NULL);
    while (real_lines(real_process_output(*state, holder)) < 3)
        assert_true(real_wait_more(&wait));
    assert_int_equal(active_allocations(&daemon), 2);
    real_process_signal(holder, signal);
    assert_int_equal(real_process_wait(holder), 0);
    while (active_allocations(&daemon) > 0)
        assert_true(real_wait_more(&wait));
}

static void test_hold_ends_well_on_ctrl_c(void **state)
{
    hold_until(state, SIGINT);
}

static void test_hold_ends_well_on_sigterm(void **state)
{
    hold_until(state, SIGTERM);
}

static void test_hold_notices_that_the_daemon_is_gone(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_wait wait = {0};
    struct real_process *holder = start(&daemon, "alloc", "4096", "--hold", NULL);
    while (real_lines(real_process_output(*state, holder)) < 2)
        assert_true(real_wait_more(&wait));
    real_daemon_stop(&daemon);
    assert_int_equal(real_process_wait(holder), 3);
}

/* ------------------------------------------------------------------------------ looking at it */

static void test_long_lists_and_traces_come_whole(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    assert_int_equal(run(&daemon, "alloc", "1", "--count", "2500", NULL).status, 0);
    struct outcome listed = run(&daemon, "list", "--json", NULL);
    cJSON *document = document_of(&listed);
    assert_int_equal(cJSON_GetArraySize(real_json(document, "allocations")), 2500);
    assert_false(real_json_true(document, "more"));
    cJSON_Delete(document);
    struct outcome trace =
        run(&daemon, "trace", "--json", "--after", "100", "--limit", "1200", NULL);
    document = document_of(&trace);
    assert_int_equal(cJSON_GetArraySize(real_json(document, "events")), 1200);
    assert_int_equal(real_json_number(document, "events.0.sequence"), 101);
    assert_int_equal(real_json_number(document, "next"), 1300);
    assert_true(real_json_true(document, "more"));
    cJSON_Delete(document);
    assert_int_equal(real_lines(run(&daemon, "list", NULL).output), 2501);
    assert_int_equal(real_lines(run(&daemon, "trace", "--limit", "7", NULL).output), 8);
    assert_int_equal(run(&daemon, "trace", "--limit", "0", NULL).status, 2);
}

static void test_trace_clear_forgets_and_the_loss_is_told(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    assert_int_equal(run(&daemon, "alloc", "1", "--count", "5", NULL).status, 0);
    assert_says(run(&daemon, "trace", "--clear", NULL).output, "5 events forgotten");
    assert_says(run(&daemon, "trace", NULL).output, "5 events are no longer retained");
    assert_int_equal(run(&daemon, "trace", "--clear", "--limit", "1", NULL).status, 2);
}

static void test_snapshot_validate_and_info_answer_in_both_forms(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--seed", "3", NULL);
    static const char *const COMMANDS[][3] = {
        {"snapshot", "fragmentation", "detail.allocate_calls"},
        {"validate", "checks held", "checks"},
        {"info", "max_line_bytes", "limits.max_line_bytes"}};
    for (size_t i = 0; i < 3; i++) {
        struct outcome people = run(&daemon, COMMANDS[i][0], NULL);
        assert_int_equal(people.status, 0);
        assert_says(people.output, COMMANDS[i][1]);
        struct outcome json = run(&daemon, COMMANDS[i][0], "--json", NULL);
        assert_int_equal(json.status, 0);
        cJSON *document = document_of(&json);
        assert_true(real_json_has(document, COMMANDS[i][2]));
        cJSON_Delete(document);
    }
}

static void test_a_tag_cannot_steer_the_terminal(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    assert_int_equal(run(&daemon, "alloc", "1", "--tag", "\033[31mred", NULL).status, 0);
    struct outcome trace = run(&daemon, "trace", NULL);
    assert_says(trace.output, "\\x1b[31mred");
    assert_null(strchr(trace.output, '\033'));
}

static void test_call_takes_any_method(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct outcome called = run(&daemon, "call", "allocate", "{\"requested_bytes\":\n5}", NULL);
    assert_int_equal(called.status, 0);
    assert_says(called.output, "\"requested_bytes\":5");
    called = run(&daemon, "call", "nonsense", NULL);
    assert_int_equal(called.status, 1);
    assert_says(called.errors, "method_not_found");
    assert_int_equal(run(&daemon, "call", "info", "{", NULL).status, 2);
    called = run(&daemon, "call", "info", "{\"x\":1}", "--json", NULL);
    assert_int_equal(called.status, 1);
    cJSON *document = document_of(&called);
    assert_string_equal(real_json_text(document, "error.data.param"), "x");
    cJSON_Delete(document);
}

/* ------------------------------------------------------------------------------ run */

static const char *script(struct real_room *room, const char *content)
{
    const char *path = real_room_path(room, "script.ndjson");
    real_room_write(room, path, content);
    return path;
}

static void test_run_answers_each_line_in_order_and_adds_ids(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    const char *path =
        script(*state, "{\"method\":\"allocate\",\"params\":{\"requested_bytes\":9,"
                       "\"tag\":\"a\"}}\n"
                       "\n  \t\n"
                       "{\"id\":\"mine\",\"method\":\"free\",\"params\":{\"tag\":\"a\"}}\r\n"
                       "  { \"method\" : \"snapshot\" }");
    struct outcome ran = run(&daemon, "run", path, NULL);
    assert_int_equal(ran.status, 0);
    assert_int_equal(real_lines(ran.output), 3);
    const char *first = strstr(ran.output, "\"id\":\"line-1\"");
    const char *second = strstr(ran.output, "\"id\":\"mine\"");
    const char *third = strstr(ran.output, "\"id\":\"line-5\"");
    assert_non_null(first);
    assert_true(first < second && second < third);
    assert_int_equal(active_allocations(&daemon), 0);
}

static void test_run_ends_with_1_when_any_answer_is_an_error(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    static const char *const LINES[] = {"{}", "[1]", "nonsense", "{\"method\":\"nonsense\"}",
                                        "{\"id\":null,\"method\":\"info\"}"};
    for (size_t i = 0; i < sizeof(LINES) / sizeof(LINES[0]); i++) {
        const char *text = real_room_text(*state,
                                          "{\"method\":\"validate\"}\n%s\n"
                                          "{\"method\":\"validate\"}\n",
                                          LINES[i]);
        struct outcome ran = run(&daemon, "run", script(*state, text), NULL);
        assert_int_equal(ran.status, 1);
        assert_int_equal(real_lines(ran.output), 3);
        assert_says(ran.errors, "1 of 3 requests failed");
    }
}

static void test_run_notices_a_line_too_long_and_goes_on(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--max-line-bytes", "2000", NULL);
    /* With its id the second one is too long by a byte, the third one just fits. */
    const char *text = real_room_text(*state,
                                      "{\"method\":\"info\"%*s}\n{\"method\":\"info\"%*s}\n"
                                      "{\"method\":\"info\"%*s}\n{\"method\":\"validate\"}\n",
                                      5000, "", 1969, "", 1968, "");
    struct outcome ran = run(&daemon, "run", script(*state, text), NULL);
    assert_int_equal(ran.status, 1);
    assert_int_equal(real_lines(ran.output), 2);
    assert_says(ran.errors, "line 1 is longer");
    assert_says(ran.errors, "line 2 is longer");
    assert_says(ran.errors, "2 of 4 requests failed");
}

static void test_run_of_nothing_is_fine(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct outcome ran = run(&daemon, "run", script(*state, "\n\n"), NULL);
    assert_int_equal(ran.status, 0);
    assert_string_equal(ran.output, "");
    ran = run(&daemon, "run", "-", "--json", NULL);
    assert_int_equal(ran.status, 0);
    assert_string_equal(ran.output, "{\"answers\":[]}\n");
}

static void test_run_of_a_missing_file_is_wrong_usage(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct outcome ran = run(&daemon, "run", "/nonexistent/script", NULL);
    assert_int_equal(ran.status, 2);
    assert_says(ran.errors, "No such file");
    assert_int_equal(run(&daemon, "run", "/", NULL).status, 2);
}

static void test_run_carries_out_a_long_script(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    const char *path = real_room_path(*state, "long.ndjson");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 1; i <= 20000; i++)
        fprintf(file, "{\"method\":\"allocate\",\"params\":{\"requested_bytes\":%d}}\n", i);
    fclose(file);
    struct outcome ran = run(&daemon, "run", path, "--json", NULL);
    assert_int_equal(ran.status, 0);
    cJSON *document = document_of(&ran);
    const cJSON *answers = real_json(document, "answers");
    assert_int_equal(cJSON_GetArraySize(answers), 20000);
    int expected = 1;
    const cJSON *answer;
    cJSON_ArrayForEach(answer, answers)
        assert_int_equal(real_json_number(answer, "result.requested_bytes"), expected++);
    cJSON_Delete(document);
}

/* ------------------------------------------------------------------------------ going wrong */

static void test_no_daemon_is_exit_3_and_says_how_to_start_one(void **state)
{
    struct real_room *room = *state;
    const char *nowhere = real_room_path(room, "nobody.sock");
    struct real_process *process = real_process_run(room, NULL, program(room), "--socket", nowhere,
                                                    "snapshot", "--json", NULL);
    struct outcome outcome = outcome_of(room, process);
    assert_int_equal(outcome.status, 3);
    assert_says(outcome.errors, real_room_text(room, "worsegpud --socket %s", nowhere));
    cJSON *document = document_of(&outcome);
    assert_string_equal(real_json_text(document, "error.data.kind"), "no_daemon");
    cJSON_Delete(document);
    /* Someone who says where the daemon is gets no other one. */
    process = real_process_run(room, NULL, program(room), "--socket", nowhere, "demo", NULL);
    assert_int_equal(real_process_wait(process), 3);
}

/* A socket where nobody ever answers. */
static int listen_silently(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path) + 1);
    assert_int_equal(bind(descriptor, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(descriptor, 8), 0);
    return descriptor;
}

static void test_silence_is_exit_3(void **state)
{
    struct real_room *room = *state;
    const char *path = real_room_path(room, "silent.sock");
    int listener = listen_silently(path);
    struct real_process *process = real_process_run(room, NULL, program(room), "--socket", path,
                                                    "--timeout", "0.05", "info", NULL);
    struct outcome outcome = outcome_of(room, process);
    assert_int_equal(outcome.status, 3);
    assert_says(outcome.errors, "--timeout");
    close(listener);
}

static void test_a_socket_path_too_long_is_refused_with_both_numbers(void **state)
{
    struct real_room *room = *state;
    char path[121];
    memset(path, 'p', sizeof(path) - 1);
    path[120] = '\0';
    struct outcome outcome = outcome_of(
        room, real_process_run(room, NULL, program(room), "--socket", path, "info", NULL));
    assert_int_equal(outcome.status, 2);
    assert_says(outcome.errors, "120");
    assert_says(outcome.errors, "107");
}

static void test_output_that_cannot_be_written_is_a_failure(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    static const char *const COMMANDS[] = {"info", "help", "--version", "demo --delay 0",
                                           "benchmark --json"};
    for (size_t i = 0; i < sizeof(COMMANDS) / sizeof(COMMANDS[0]); i++) {
        const char *line = real_room_text(*state, "'%s' --socket '%s' %s >/dev/full",
                                          program(*state), daemon.socket_path, COMMANDS[i]);
        struct outcome outcome =
            outcome_of(*state, real_process_run(*state, NULL, "/bin/sh", "-c", line, NULL));
        assert_int_equal(outcome.status, 1);
        assert_says(outcome.errors, "No space left");
    }
}

static void test_a_reader_that_goes_away_is_a_failure_without_a_word(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    assert_int_equal(run(&daemon, "alloc", "1", "--count", "5000", NULL).status, 0);
    const char *line =
        real_room_text(*state, "{ '%s' --socket '%s' list; echo $? >&2; } | head -c 1",
                       program(*state), daemon.socket_path);
    struct outcome outcome =
        outcome_of(*state, real_process_run(*state, NULL, "/bin/sh", "-c", line, NULL));
    assert_string_equal(outcome.errors, "1\n");
}

static void test_no_words_say_what_to_type(void **state)
{
    struct real_room *room = *state;
    struct outcome outcome = outcome_of(room, real_process_run(room, NULL, program(room), NULL));
    assert_int_equal(outcome.status, 2);
    assert_string_equal(outcome.output, "");
    assert_says(outcome.errors, "a fake GPU that misbehaves on purpose");
    assert_says(outcome.errors, "worsegpu-cli demo ");
    assert_says(outcome.errors, "worsegpud &");
    assert_says(outcome.errors, "worsegpu-cli help");
    assert_true(real_lines(outcome.errors) <= 6);
}

static void test_help_and_version_need_no_daemon(void **state)
{
    struct real_room *room = *state;
    static const char *const COMMANDS[] = {"alloc",    "free", "snapshot",  "trace",
                                           "validate", "list", "info",      "run",
                                           "call",     "demo", "benchmark", "help"};
    struct outcome all =
        outcome_of(room, real_process_run(room, NULL, program(room), "help", NULL));
    assert_int_equal(all.status, 0);
    for (size_t i = 0; i < sizeof(COMMANDS) / sizeof(COMMANDS[0]); i++) {
        const char *name = COMMANDS[i];
        assert_says(all.output, name);
        struct outcome one =
            outcome_of(room, real_process_run(room, NULL, program(room), name, "--help", NULL));
        struct outcome same =
            outcome_of(room, real_process_run(room, NULL, program(room), "help", name, NULL));
        assert_int_equal(one.status, 0);
        assert_string_equal(one.output, same.output);
        assert_says(one.output, "xample");
        assert_string_equal(one.errors, "");
    }
    assert_int_equal(
        real_process_wait(real_process_run(room, NULL, program(room), "help", "alocc", NULL)), 2);
    struct outcome version =
        outcome_of(room, real_process_run(room, NULL, program(room), "--version", NULL));
    assert_string_equal(version.output, "worsegpu-cli " WORSEGPU_VERSION "\n");
}

/* ------------------------------------------------------------------------------ demo, benchmark */

/* Surroundings without a daemon. */
static struct real_setup alone(struct real_room *room, const char *environment[4])
{
    environment[0] = real_room_text(room, "XDG_RUNTIME_DIR=%s", room->folder);
    environment[1] = "WORSEGPU_SOCKET";
    environment[2] = NULL;
    return (struct real_setup){.environment = environment};
}

/* The command line that a golden file's name stands for: KIND-seedS-stepsN[-capC].txt or .json. */
static void golden_words(struct real_room *room, const char *name, const char *words[MOST_WORDS])
{
    size_t count = 0;
    bool demo = strncmp(name, "demo-", 5) == 0;
    const char *seed = strstr(name, "-seed");
    const char *steps = strstr(name, "-steps");
    const char *capacity = strstr(name, "-cap");
    assert_true(seed && steps && seed < steps);
    words[count++] = real_program(room, demo ? "worse-gpu-demo" : "worse-gpu-benchmark");
    words[count++] = real_room_text(room, "--seed=%.*s", (int)(steps - seed) - 5, seed + 5);
    words[count++] = real_room_text(room, "--steps=%llu", strtoull(steps + 6, NULL, 10));
    if (demo)
        words[count++] = "--delay=0";
    if (capacity)
        words[count++] = real_room_text(room, "--capacity=%llu", strtoull(capacity + 4, NULL, 10));
    if (strstr(name, ".json"))
        words[count++] = "--json";
    words[count] = NULL;
}

static void test_demo_and_benchmark_print_what_the_reference_printed(void **state)
{
    struct real_room *room = *state;
    const char *environment[4];
    struct real_setup setup = alone(room, environment);
    const char *folder = getenv("WORSEGPU_GOLDEN");
    folder = folder ? folder : "tests/golden";
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    unsigned compared = 0;
    for (const struct dirent *entry = readdir(listing); entry; entry = readdir(listing)) {
        const char *words[MOST_WORDS];
        bool is_run = strncmp(entry->d_name, "demo-", 5) == 0 ||
                      strncmp(entry->d_name, "benchmark-", 10) == 0;
        /* With a sanitizer the longest take minutes, in code that the others run as well. */
        bool is_long = strstr(entry->d_name, "-steps100000.") != NULL;
        if (!is_run || (is_long && real_daemon_is_sanitized()))
            continue;
        golden_words(room, entry->d_name, words);
        struct outcome outcome = outcome_of(room, real_process_start_list(room, &setup, words));
        const char *path = real_room_text(room, "%s/%s", folder, entry->d_name);
        assert_int_equal(outcome.status, 0);
        assert_string_equal(outcome.output, real_room_read(room, path));
        assert_string_equal(outcome.errors, "");
        compared++;
    }
    closedir(listing);
    assert_int_equal(compared, real_daemon_is_sanitized() ? 30 : 33);
}

static void test_the_demo_of_the_cli_uses_the_daemon_it_is_given(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct outcome given = run(&daemon, "demo", "--delay", "0", "--steps", "40", NULL);
    const char *environment[4];
    struct real_setup setup = alone(*state, environment);
    struct outcome own =
        outcome_of(*state, real_process_run(*state, &setup, real_program(*state, "worse-gpu-demo"),
                                            "--delay", "0", "--steps", "40", NULL));
    assert_int_equal(given.status, 0);
    assert_string_equal(given.output, own.output);
    /* In an allocator of its own: the shared one saw nothing of it. */
    struct outcome trace = run(&daemon, "trace", NULL);
    assert_int_equal(real_lines(trace.output), 1);
}

static void test_json_before_demo_counts_as_well(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct outcome before = run(&daemon, "--json", "demo", "--delay", "0", NULL);
    struct outcome after = run(&daemon, "demo", "--delay", "0", "--json", NULL);
    assert_int_equal(before.status, 0);
    assert_string_equal(before.output, after.output);
}

static void test_a_delay_changes_nothing_but_the_time(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct outcome slow = run(&daemon, "demo", "--delay", "0.001", NULL);
    struct outcome fast = run(&daemon, "demo", "--delay", "0", NULL);
    assert_string_equal(slow.output, fast.output);
    slow = run(&daemon, "demo", "--delay", "0.001", "--json", NULL);
    fast = run(&daemon, "demo", "--delay", "0", "--json", NULL);
    assert_string_equal(slow.output, fast.output);
}

static void test_requests_that_were_not_carried_out_are_noticed(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--max-live-allocations", "10", NULL);
    struct outcome outcome = run(&daemon, "benchmark", NULL);
    assert_int_equal(outcome.status, 1);
    assert_says(outcome.errors, "limit_exceeded");
    assert_string_equal(outcome.output, "");
    outcome = run(&daemon, "demo", "--json", "--delay", "0", NULL);
    assert_int_equal(outcome.status, 1);
    cJSON *document = document_of(&outcome);
    assert_int_equal(real_json_number(document, "error.data.limit"), 10);
    cJSON_Delete(document);
}

static void test_without_a_daemon_to_start_it_says_what_to_install(void **state)
{
    struct real_room *room = *state;
    const char *environment[4];
    struct real_setup setup = alone(room, environment);
    environment[2] = "PATH=/nonexistent";
    environment[3] = NULL;
    const char *copy = real_room_path(room, "lonely-demo");
    struct real_process *copying =
        real_process_run(room, NULL, "/bin/cp", real_program(room, "worse-gpu-demo"), copy, NULL);
    assert_int_equal(real_process_wait(copying), 0);
    struct outcome outcome = outcome_of(room, real_process_run(room, &setup, copy, NULL));
    assert_int_equal(outcome.status, 3);
    assert_says(outcome.errors, "install");
    assert_string_equal(outcome.output, "");
}

static void test_wrong_options_start_no_daemon(void **state)
{
    struct real_room *room = *state;
    const char *environment[4];
    struct real_setup setup = alone(room, environment);
    struct outcome outcome =
        outcome_of(room, real_process_run(room, &setup, real_program(room, "worse-gpu-demo"),
                                          "--steps", "0", NULL));
    assert_int_equal(outcome.status, 2);
    assert_string_equal(outcome.output, "");
    assert_says(outcome.errors, "usage: worse-gpu-demo");
    assert_says(outcome.errors, "must be positive");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_what_alloc_makes_stays_until_free_by_number),
        IN_ROOM(test_a_handle_frees_once),
        IN_ROOM(test_a_number_that_is_not_live_frees_nothing_and_the_others_are_freed),
        IN_ROOM(test_several_allocations_are_one_document),
        IN_ROOM(test_a_wrong_size_anywhere_allocates_nothing),
        IN_ROOM(test_a_full_gpu_is_exit_4),
        IN_ROOM(test_a_refusal_keeps_the_other_allocations),
        IN_ROOM(test_an_unknown_allocator_is_refused_with_advice),
        IN_ROOM(test_hold_ends_well_on_ctrl_c),
        IN_ROOM(test_hold_ends_well_on_sigterm),
        IN_ROOM(test_hold_notices_that_the_daemon_is_gone),
        IN_ROOM(test_long_lists_and_traces_come_whole),
        IN_ROOM(test_trace_clear_forgets_and_the_loss_is_told),
        IN_ROOM(test_snapshot_validate_and_info_answer_in_both_forms),
        IN_ROOM(test_a_tag_cannot_steer_the_terminal),
        IN_ROOM(test_call_takes_any_method),
        IN_ROOM(test_run_answers_each_line_in_order_and_adds_ids),
        IN_ROOM(test_run_ends_with_1_when_any_answer_is_an_error),
        IN_ROOM(test_run_notices_a_line_too_long_and_goes_on),
        IN_ROOM(test_run_of_nothing_is_fine),
        IN_ROOM(test_run_of_a_missing_file_is_wrong_usage),
        IN_ROOM(test_run_carries_out_a_long_script),
        IN_ROOM(test_no_daemon_is_exit_3_and_says_how_to_start_one),
        IN_ROOM(test_silence_is_exit_3),
        IN_ROOM(test_a_socket_path_too_long_is_refused_with_both_numbers),
        IN_ROOM(test_output_that_cannot_be_written_is_a_failure),
        IN_ROOM(test_a_reader_that_goes_away_is_a_failure_without_a_word),
        IN_ROOM(test_no_words_say_what_to_type),
        IN_ROOM(test_help_and_version_need_no_daemon),
        IN_ROOM(test_demo_and_benchmark_print_what_the_reference_printed),
        IN_ROOM(test_the_demo_of_the_cli_uses_the_daemon_it_is_given),
        IN_ROOM(test_json_before_demo_counts_as_well),
        IN_ROOM(test_a_delay_changes_nothing_but_the_time),
        IN_ROOM(test_requests_that_were_not_carried_out_are_noticed),
        IN_ROOM(test_without_a_daemon_to_start_it_says_what_to_install),
        IN_ROOM(test_wrong_options_start_no_daemon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
