/* The commands of worsegpu-cli for a shared GPU, against a real daemon: rules, connections, other
 * capacities, what was left behind, and events as they happen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "tests/support/real_daemon.h"

enum {
    MOST_WORDS = 24,
    SOMEBODY = 65534 /* a user who is nobody special */
};

/* One run of the program: what it ended with and what it wrote. */
struct outcome {
    int status;
    const char *output;
    const char *errors;
};

static const char *our_program(const struct real_daemon *daemon)
{
    return real_program(daemon->room, "worsegpu-cli");
}

/* Starts worsegpu-cli with --socket and these words, the last one NULL. */
static struct real_process *start_list(const struct real_daemon *daemon, const char *first,
                                       va_list list)
{
    const char *words[MOST_WORDS] = {our_program(daemon), "--socket", daemon->socket_path};
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

static struct outcome outcome_of(const struct real_daemon *daemon, struct real_process *process)
{
    struct outcome outcome = {.status = real_process_wait(process)};
    outcome.output = real_process_output(daemon->room, process);
    outcome.errors = real_process_errors(daemon->room, process);
    return outcome;
}

__attribute__((sentinel)) static struct outcome run(const struct real_daemon *daemon,
                                                    const char *first, ...)
{
    va_list list;
    va_start(list, first);
    struct real_process *process = start_list(daemon, first, list);
    va_end(list);
    return outcome_of(daemon, process);
}

/* As somebody else, from within the room: perhaps nobody else may walk there, or to the build. */
static struct outcome run_as_somebody(const struct real_daemon *daemon, const char *command,
                                      const char *operand)
{
    const struct real_setup setup = {.user = SOMEBODY, .folder = daemon->room->folder};
    const char *copy = real_room_path(daemon->room, "worsegpu-cli");
    const char *name = strrchr(daemon->socket_path, '/') + 1;
    struct real_process *copying =
        real_process_run(daemon->room, NULL, "/bin/cp", our_program(daemon), copy, NULL);
    assert_int_equal(real_process_wait(copying), 0);
    assert_int_equal(chmod(daemon->socket_path, 0666), 0);
    return outcome_of(daemon, real_process_run(daemon->room, &setup, "./worsegpu-cli", "--socket",
                                               name, command, operand, NULL));
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/* What it printed must be exactly one JSON document and a line end. */
static cJSON *document_of(const struct outcome *outcome)
{
    const char *end = NULL;
    cJSON *document = cJSON_ParseWithOpts(outcome->output, &end, false);
    if (!document || strcmp(end, "\n") != 0)
        fail_msg("not one JSON document: %s", outcome->output);
    return document;
}

/* ------------------------------------------------------------------------------ rules */

static void test_a_rule_makes_the_call_it_names_fail_and_no_other(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct outcome made = run(&daemon, "inject", "oom", "--nth", "2", "--min-size", "1MiB", NULL);
    assert_int_equal(made.status, 0);
    assert_says(made.output, "nth 2");
    assert_says(made.output, "min-size 1.0 MiB");
    assert_int_equal(run(&daemon, "alloc", "4096", "2MiB", NULL).status, 0);
    struct outcome failed = run(&daemon, "alloc", "2MiB", NULL);
    assert_int_equal(failed.status, 4);
    assert_says(failed.errors, "out_of_memory");
    assert_says(failed.errors, "rule 1 made it fail on purpose");
    assert_int_equal(run(&daemon, "alloc", "2MiB", NULL).status, 0);
    assert_says(run(&daemon, "rules", NULL).output, "spent");
    assert_says(run(&daemon, "trace", NULL).output, "out_of_memory by rule 1");
}

static void test_an_error_made_by_a_rule_names_it_in_json(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    assert_int_equal(run(&daemon, "inject", "quota", NULL).status, 0);
    struct outcome failed = run(&daemon, "--json", "alloc", "1", NULL);
    assert_int_equal(failed.status, 4);
    cJSON *document = document_of(&failed);
    assert_string_equal(real_json_text(document, "error.data.kind"), "quota_exceeded");
    assert_int_equal(real_json_number(document, "error.data.rule"), 1);
    cJSON_Delete(document);
}

static void test_rules_are_one_document_and_can_be_removed(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct outcome made = run(&daemon, "inject", "forget", "--every", "3", "--json", NULL);
    assert_int_equal(made.status, 0);
    cJSON *document = document_of(&made);
    assert_int_equal(real_json_number(document, "rule"), 1);
    assert_int_equal(real_json_number(document, "every"), 3);
    cJSON_Delete(document);
    assert_int_equal(run(&daemon, "inject", "delay", "--delay-ms=1", "--probability=0.5",
                         "--user=root", "--tag-prefix", "a b", NULL)
                         .status,
                     0);
    assert_int_equal(run(&daemon, "inject", "disconnect-after", NULL).status, 0);
    struct outcome listed = run(&daemon, "rules", "--json", NULL);
    document = document_of(&listed);
    assert_int_equal(cJSON_GetArraySize(real_json(document, "rules")), 3);
    assert_int_equal(real_json_number(document, "rules.1.user"), 0);
    assert_string_equal(real_json_text(document, "rules.1.tag_prefix"), "a b");
    cJSON_Delete(document);
    assert_says(run(&daemon, "rules", "--clear", "2", NULL).output, "1 rule removed");
    assert_int_equal(run(&daemon, "rules", "--clear", "2", NULL).status, 1);
    assert_says(run(&daemon, "rules", "--clear", NULL).output, "2 rules removed");
    assert_int_equal(real_lines(run(&daemon, "rules", NULL).output), 1);
}

static void test_a_wrong_rule_is_wrong_usage_and_adds_none(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    static const char *const BAD[][4] = {
        {"inject", "explode"},
        {"inject", "oom", "--nht", "3"},
        {"inject", "oom", "--nth", "0"},
        {"inject", "oom", "--user", "no-such-user"},
        {"inject", "oom", "--user"},
        {"inject", "oom", "--min-size", "big"},
        {"rules", "3"},
        {"rules", "--clear", "x"},
        {"rules", "--clear", "0"},
        {"rules", "--clear", "--limit=1"},
    };
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        struct outcome refused = run(&daemon, BAD[i][0], BAD[i][1], BAD[i][2], BAD[i][3], NULL);
        if (refused.status != 2)
            fail_msg("%s %s ended with %d", BAD[i][0], BAD[i][1], refused.status);
        assert_string_equal(refused.output, "");
    }
    assert_says(run(&daemon, "inject", "oom", "--nht", "3", NULL).errors, "did you mean --nth?");
    assert_int_equal(run(&daemon, "inject", "oom", "--nth=1", "--every=2", NULL).status, 1);
    assert_int_equal(real_lines(run(&daemon, "rules", NULL).output), 1);
}

static void test_too_many_rules_are_refused_with_advice(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--max-rules", "1", NULL);
    assert_int_equal(run(&daemon, "inject", "oom", NULL).status, 0);
    struct outcome refused = run(&daemon, "inject", "oom", NULL);
    assert_int_equal(refused.status, 1);
    assert_says(refused.errors, "limit_exceeded");
    assert_says(refused.errors, "worsegpu-cli rules --clear");
}

/* ------------------------------------------------------------------------------ who may */

static void test_who_may_not_is_told_who_may(void **state)
{
    if (geteuid() != 0)
        skip(); /* becoming somebody else takes root */
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    static const char *const COMMANDS[][2] = {
        {"inject", "oom"}, {"resize", "1MiB"}, {"trace", "--clear"}};
    for (size_t i = 0; i < 3; i++) {
        struct outcome refused = run_as_somebody(&daemon, COMMANDS[i][0], COMMANDS[i][1]);
        assert_int_equal(refused.status, 1);
        assert_says(refused.errors, "permission_denied");
        assert_says(refused.errors, "--admin-group");
    }
    assert_int_equal(real_lines(run(&daemon, "rules", NULL).output), 1);
}

static void test_a_quota_shows_its_limit_and_what_is_left(void **state)
{
    struct real_daemon daemon =
        real_daemon_start(*state, "--gpu-probability", "1", "--max-user-gpu-bytes", "1MiB", NULL);
    assert_int_equal(run(&daemon, "alloc", "4096", NULL).status, 0);
    struct outcome refused = run(&daemon, "alloc", "2MiB", "--json", NULL);
    assert_int_equal(refused.status, 4);
    assert_says(refused.errors, "the limit is max_user_gpu_bytes: 1.0 MiB, used ");
    cJSON *document = document_of(&refused);
    assert_string_equal(real_json_text(document, "error.data.which"), "max_user_gpu_bytes");
    assert_int_equal(real_json_number(document, "error.data.limit"), 1048576);
    assert_int_equal(real_json_number(document, "error.data.left"),
                     1048576 - real_json_number(document, "error.data.used"));
    cJSON_Delete(document);
}

/* ------------------------------------------------------------------------------ clients, resize */

static void test_clients_shows_each_connection_with_its_name(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_wait wait = {0};
    struct real_process *holder =
        start(&daemon, "--name", "holder", "alloc", "4096", "--hold", NULL);
    while (real_lines(real_process_output(*state, holder)) < 2)
        assert_true(real_wait_more(&wait));
    struct outcome people = run(&daemon, "clients", NULL);
    assert_int_equal(people.status, 0);
    assert_int_equal(real_lines_with(people.output, "holder"), 1);
    struct outcome json = run(&daemon, "clients", "--json", "--name", "me", NULL);
    cJSON *document = document_of(&json);
    int count = cJSON_GetArraySize(real_json(document, "clients"));
    const cJSON *last = cJSON_GetArrayItem(real_json(document, "clients"), count - 1);
    assert_string_equal(real_json_text(document, "clients.0.name"), "holder");
    assert_int_equal(real_json_number(document, "clients.0.allocations"), 1);
    assert_int_equal(real_json_number(document, "clients.0.process"), holder->pid);
    assert_string_equal(real_json_text(last, "name"), "me");
    assert_true(real_json_true(last, "you"));
    cJSON_Delete(document);
    real_process_signal(holder, SIGTERM);
    assert_int_equal(real_process_wait(holder), 0);
}

static void test_a_name_that_is_none_is_refused(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct outcome refused = run(&daemon, "--name", "two words", "validate", NULL);
    assert_int_equal(refused.status, 1);
    assert_says(refused.errors, "invalid_params");
    assert_string_equal(refused.output, "");
}

static void test_resize_changes_the_capacity_while_it_runs(void **state)
{
    struct real_daemon daemon =
        real_daemon_start(*state, "--gpu-probability", "1", "--fallback-on-oom", "false", NULL);
    assert_int_equal(run(&daemon, "alloc", "1MiB", NULL).status, 0);
    assert_says(run(&daemon, "resize", "512KiB", NULL).output, "512.0 KiB");
    assert_int_equal(run(&daemon, "alloc", "2MiB", NULL).status, 4);
    assert_int_equal(run(&daemon, "validate", NULL).status, 0);
    struct outcome json = run(&daemon, "resize", "64MiB", "--json", NULL);
    cJSON *document = document_of(&json);
    assert_int_equal(real_json_number(document, "gpu_capacity"), 67108864);
    cJSON_Delete(document);
    assert_int_equal(run(&daemon, "alloc", "2MiB", NULL).status, 0);
    assert_int_equal(run(&daemon, "resize", "0", NULL).status, 2);
    assert_int_equal(run(&daemon, "resize", "lots", NULL).status, 2);
}

/* ------------------------------------------------------------------------------ left behind */

static void test_orphans_are_listed_and_all_detached_are_freed(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--forget-probability", "0", NULL);
    struct real_wait wait = {0};
    struct real_client *alive = real_daemon_connect(&daemon);
    real_client_call(alive, "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":1,"
                            "\"detached\":true}}");
    struct real_process *holder = start(&daemon, "alloc", "4096", "--hold", NULL);
    while (real_lines(real_process_output(*state, holder)) < 2)
        assert_true(real_wait_more(&wait));
    assert_int_equal(run(&daemon, "alloc", "64", "--count", "1500", NULL).status, 0);
    struct outcome orphans = run(&daemon, "list", "--orphans", "--json", NULL);
    cJSON *document = document_of(&orphans);
    assert_int_equal(cJSON_GetArraySize(real_json(document, "allocations")), 1500);
    cJSON_Delete(document);
    assert_int_equal(real_lines(run(&daemon, "list", NULL).output), 1503);
    struct outcome freed = run(&daemon, "free", "--all-detached", NULL);
    assert_int_equal(freed.status, 0);
    assert_string_equal(freed.output, "1501 detached allocations freed\n");
    assert_int_equal(real_lines(run(&daemon, "list", NULL).output), 2);
    freed = run(&daemon, "free", "--all-detached", "--json", NULL);
    document = document_of(&freed);
    assert_int_equal(real_json_number(document, "count"), 0);
    cJSON_Delete(document);
    real_process_signal(holder, SIGTERM);
    assert_int_equal(real_process_wait(holder), 0);
}

static void test_what_was_forgotten_is_counted_and_a_refusal_stops_nothing(void **state)
{
    struct real_daemon daemon =
        real_daemon_start(*state, "--gpu-probability", "1", "--forget-probability", "1", NULL);
    assert_int_equal(run(&daemon, "alloc", "64", "--count", "3", NULL).status, 0);
    assert_int_equal(run(&daemon, "inject", "disconnect-before", "--method", "free", NULL).status,
                     0);
    struct outcome freed = run(&daemon, "free", "--all-detached", "--json", NULL);
    assert_int_equal(freed.status, 3);
    cJSON *document = document_of(&freed);
    assert_int_equal(real_json_number(document, "count"), 0);
    assert_string_equal(real_json_text(document, "error.data.kind"), "closed");
    cJSON_Delete(document);
    assert_says(run(&daemon, "free", "--all-detached", NULL).output, "3 of them forgotten");
}

static void test_free_wants_names_or_all_detached_and_not_both(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    assert_int_equal(run(&daemon, "free", NULL).status, 2);
    assert_int_equal(run(&daemon, "free", "--all-detached", "1", NULL).status, 2);
}

/* ------------------------------------------------------------------------------ events */

static void wait_for_lines(const struct real_daemon *daemon, struct real_process *process,
                           unsigned lines)
{
    struct real_wait wait = {0};
    while (real_lines(real_process_output(daemon->room, process)) < lines)
        assert_true(real_wait_more(&wait));
}

static void test_follow_shows_events_as_they_come_until_ctrl_c(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    assert_int_equal(run(&daemon, "alloc", "4096", NULL).status, 0);
    struct real_process *follower = start(&daemon, "trace", "--follow", "--after", "0", NULL);
    wait_for_lines(&daemon, follower, 2);
    assert_int_equal(run(&daemon, "inject", "oom", NULL).status, 0);
    assert_int_equal(run(&daemon, "alloc", "4096", "--tag", "later", NULL).status, 4);
    wait_for_lines(&daemon, follower, 3);
    assert_int_equal(run(&daemon, "--name", "me", "free", "1", NULL).status, 0);
    wait_for_lines(&daemon, follower, 4);
    real_process_signal(follower, SIGINT);
    assert_int_equal(real_process_wait(follower), 0);
    const char *output = real_process_output(*state, follower);
    assert_int_equal(real_lines(output), 4);
    assert_int_equal(real_lines_with(output, "out_of_memory by rule 1"), 1);
    assert_int_equal(real_lines_with(output, "later"), 1);
}

static void test_follow_with_json_is_one_object_a_line_and_ends_with_the_daemon(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    assert_int_equal(run(&daemon, "alloc", "1", "--count", "300", NULL).status, 0);
    struct real_process *follower =
        start(&daemon, "trace", "--follow", "--after", "100", "--json", NULL);
    wait_for_lines(&daemon, follower, 200);
    real_daemon_stop(&daemon);
    assert_int_equal(real_process_wait(follower), 3);
    char *line = real_room_read(*state, follower->output);
    for (unsigned sequence = 101; sequence <= 300; sequence++) {
        char *end = strchr(line, '\n');
        assert_non_null(end);
        *end = '\0';
        cJSON *event = cJSON_Parse(line);
        assert_non_null(event);
        assert_int_equal(real_json_number(event, "sequence"), sequence);
        cJSON_Delete(event);
        line = end + 1;
    }
    assert_says(line, "\"kind\":\"closed\"");
}

static void test_events_that_are_not_retained_are_told_as_missed(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--trace-limit", "5", NULL);
    assert_int_equal(run(&daemon, "alloc", "1", "--count", "30", NULL).status, 0);
    struct real_process *people = start(&daemon, "trace", "--follow", "--after", "0", NULL);
    struct real_process *json = start(&daemon, "trace", "--follow", "--after", "0", "--json", NULL);
    wait_for_lines(&daemon, people, 7);
    wait_for_lines(&daemon, json, 6);
    assert_says(real_process_output(*state, people), "25 events missed");
    assert_says(real_process_output(*state, json), "{\"missed\":25}\n");
    real_process_signal(people, SIGTERM);
    real_process_signal(json, SIGTERM);
    assert_int_equal(real_process_wait(people), 0);
    assert_int_equal(real_process_wait(json), 0);
}

static void test_follow_goes_with_neither_clear_nor_limit(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    assert_int_equal(run(&daemon, "trace", "--follow", "--clear", NULL).status, 2);
    assert_int_equal(run(&daemon, "trace", "--follow", "--limit", "1", NULL).status, 2);
    struct outcome refused = run(&daemon, "trace", "--follow", "--allocator", "gpu9", NULL);
    assert_int_equal(refused.status, 1);
    assert_says(refused.errors, "unknown_allocator");
}

static void test_run_prints_events_and_counts_answers_alone(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    const char *path = real_room_path(*state, "script.ndjson");
    real_room_write(*state, path,
                    "{\"method\":\"subscribe\",\"params\":{\"after\":0}}\n"
                    "{\"method\":\"allocate\",\"params\":{\"requested_bytes\":9}}\n"
                    "{\"method\":\"validate\"}\n");
    struct outcome ran = run(&daemon, "run", path, NULL);
    assert_int_equal(ran.status, 0);
    assert_int_equal(real_lines_with(ran.output, "\"id\":\"line-"), 3);
    assert_int_equal(real_lines_with(ran.output, "\"method\":\"event\""), 1);
    ran = run(&daemon, "run", path, "--json", NULL);
    assert_int_equal(ran.status, 0);
    cJSON *document = document_of(&ran);
    assert_true(cJSON_GetArraySize(real_json(document, "answers")) > 3);
    cJSON_Delete(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_a_rule_makes_the_call_it_names_fail_and_no_other),
        IN_ROOM(test_an_error_made_by_a_rule_names_it_in_json),
        IN_ROOM(test_rules_are_one_document_and_can_be_removed),
        IN_ROOM(test_a_wrong_rule_is_wrong_usage_and_adds_none),
        IN_ROOM(test_too_many_rules_are_refused_with_advice),
        IN_ROOM(test_who_may_not_is_told_who_may),
        IN_ROOM(test_a_quota_shows_its_limit_and_what_is_left),
        IN_ROOM(test_clients_shows_each_connection_with_its_name),
        IN_ROOM(test_a_name_that_is_none_is_refused),
        IN_ROOM(test_resize_changes_the_capacity_while_it_runs),
        IN_ROOM(test_orphans_are_listed_and_all_detached_are_freed),
        IN_ROOM(test_what_was_forgotten_is_counted_and_a_refusal_stops_nothing),
        IN_ROOM(test_free_wants_names_or_all_detached_and_not_both),
        IN_ROOM(test_follow_shows_events_as_they_come_until_ctrl_c),
        IN_ROOM(test_follow_with_json_is_one_object_a_line_and_ends_with_the_daemon),
        IN_ROOM(test_events_that_are_not_retained_are_told_as_missed),
        IN_ROOM(test_follow_goes_with_neither_clear_nor_limit),
        IN_ROOM(test_run_prints_events_and_counts_answers_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
