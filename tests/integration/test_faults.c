/* Rules of fault injection with a real daemon: each kind at the exact call, and nowhere else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/real_ask.h"
#include "tests/support/real_daemon.h"

enum {
    MOST_CALLS = 256,
    DELAY_MS = 150,
    FOREVER_MS = 3600000,
    CROWD = 100 /* rules at once */
};

/* -------------------------------------------------------------------------------------- calls */

/* How a call ended, as one letter: '.' fine, 'o' out_of_memory, 'q' quota_exceeded, '?' else. */
static char ending(const cJSON *reply)
{
    if (real_json_has(reply, "result"))
        return '.';
    const char *kind = real_json_text(reply, "error.data.kind");
    return strcmp(kind, "out_of_memory") == 0    ? 'o'
           : strcmp(kind, "quota_exceeded") == 0 ? 'q'
                                                 : '?';
}

/* So many allocations in a row must end so. */
static void expect_endings(struct real_client *client, const char *expected)
{
    char endings[MOST_CALLS + 1] = "";
    size_t count = strlen(expected);
    assert_true(count <= MOST_CALLS);
    for (size_t index = 0; index < count; index++)
        endings[index] = ending(real_ask(client, "allocate", "'requested_bytes':100"));
    assert_string_equal(endings, expected);
}

/* Adds a rule; its number. */
static uint64_t inject(struct real_client *client, const char *parameters)
{
    return real_json_number(real_ask(client, "inject", "%s", parameters), "result.rule");
}

/* What a rule has done, as its number stands in `rules` (0, 1, ...). */
static void expect_counts(struct real_client *client, unsigned place, uint64_t matched,
                          uint64_t fired, bool spent)
{
    char path[64];
    const cJSON *reply = real_ask(client, "rules", " ");
    snprintf(path, sizeof(path), "result.rules.%u", place);
    const cJSON *rule = real_json(reply, path);
    assert_int_equal(real_json_number(rule, "matched"), matched);
    assert_int_equal(real_json_number(rule, "fired"), fired);
    assert_int_equal(real_json_true(rule, "spent"), spent);
}

static uint64_t snapshot_number(struct real_client *client, const char *path)
{
    return real_json_number(real_ask(client, "snapshot", " "), path);
}

static void expect_valid(struct real_client *client)
{
    assert_true(real_json_true(real_ask(client, "validate", " "), "result.valid"));
}

/* --------------------------------------------------------------------------------------- when */

static void test_a_rule_fires_at_the_nth_match_and_once(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--seed", "1", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    expect_endings(client, "..."); /* what was before it does not count */
    inject(client, "'action':'out_of_memory','nth':4");
    expect_endings(client, "...o....");
    expect_counts(client, 0, 8, 1, true);
    expect_valid(client);
    real_daemon_stop(&daemon);
}

static void test_left_out_it_is_the_next_match(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    inject(client, "'action':'out_of_memory'");
    expect_endings(client, "o...");
    real_daemon_stop(&daemon);
}

static void test_nth_with_times_fires_from_the_nth_on(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    inject(client, "'action':'out_of_memory','nth':3,'times':4");
    expect_endings(client, "..oooo..");
    real_daemon_stop(&daemon);
}

static void test_every_fires_without_end_unless_times_says_so(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    uint64_t rule = inject(client, "'action':'out_of_memory','every':3");
    expect_endings(client, "..o..o..o..o");
    expect_counts(client, 0, 12, 4, false);
    real_ask(client, "rules_clear", "'rule':%u", (unsigned)rule);
    inject(client, "'action':'out_of_memory','every':3,'times':2");
    expect_endings(client, "..o..o......");
    expect_counts(client, 0, 12, 2, true);
    real_daemon_stop(&daemon);
}

/* The endings of 200 allocations under a rule of its own probability and seed. */
static const char *endings_under(struct real_room *room, struct real_client *client,
                                 const char *probability, unsigned seed)
{
    char endings[201] = "";
    inject(client, real_room_text(room, "'action':'out_of_memory','probability':%s,'rule_seed':%u",
                                  probability, seed));
    for (unsigned index = 0; index < 200; index++)
        endings[index] = ending(real_ask(client, "allocate", "'requested_bytes':100"));
    real_ask(client, "rules_clear", " ");
    return real_room_text(room, "%s", endings);
}

static void test_a_probability_with_equal_seeds_fires_at_the_same_calls(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--seed", "5", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    const char *first = endings_under(*state, client, "0.25", 7);
    const char *other = endings_under(*state, client, "0.25", 8);
    const char *again = endings_under(*state, client, "0.25", 7);
    assert_string_equal(first, again);
    assert_string_not_equal(first, other);
    assert_non_null(strchr(first, 'o'));
    assert_non_null(strchr(first, '.'));
    assert_null(strchr(endings_under(*state, client, "0", 7), 'o'));
    assert_null(strchr(endings_under(*state, client, "1", 7), '.'));
    real_daemon_stop(&daemon);

    struct real_daemon next = real_daemon_start(*state, "--seed", "6", NULL);
    client = real_daemon_connect(&next); /* neither the daemon nor its seed matters */
    assert_string_equal(endings_under(*state, client, "0.25", 7), first);
    real_daemon_stop(&next);
}

/* ----------------------------------------------------------------------------- what matches */

static void test_sizes_match_with_both_ends(void **state)
{
    static const struct {
        unsigned bytes;
        char ending;
    } cases[] = {{999, '.'}, {1000, 'o'}, {1500, 'o'}, {2000, 'o'}, {2001, '.'}};
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    inject(client, "'action':'out_of_memory','every':1,'min_size':1000,'max_size':2000");
    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++)
        assert_int_equal(
            ending(real_ask(client, "allocate", "'requested_bytes':%u", cases[index].bytes)),
            cases[index].ending);
    expect_counts(client, 0, 3, 3, false);
    real_daemon_stop(&daemon);
}

static void test_a_tag_prefix_matches_tags_that_begin_so(void **state)
{
    static const struct {
        const char *tag;
        char ending;
    } cases[] = {{"wei", 'o'}, {"weights", 'o'}, {"we", '.'}, {"bias", '.'}, {"x-weights", '.'}};
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    inject(client, "'action':'out_of_memory','every':1,'tag_prefix':'wei'");
    expect_endings(client, ".."); /* without a tag */
    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++)
        assert_int_equal(ending(real_ask(client, "allocate", "'requested_bytes':1,'tag':'%s'",
                                         cases[index].tag)),
                         cases[index].ending);
    real_daemon_stop(&daemon);
}

static void test_a_stream_matches_also_when_it_is_left_out(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    inject(client, "'action':'out_of_memory','every':1,'stream':3");
    inject(client, "'action':'quota_exceeded','every':1,'stream':0");
    assert_int_equal(ending(real_ask(client, "allocate", "'requested_bytes':1,'stream':3")), 'o');
    assert_int_equal(ending(real_ask(client, "allocate", "'requested_bytes':1,'stream':4")), '.');
    assert_int_equal(ending(real_ask(client, "allocate", "'requested_bytes':1,'stream':0")), 'q');
    assert_int_equal(ending(real_ask(client, "allocate", "'requested_bytes':1")), 'q');
    real_daemon_stop(&daemon);
}

static void test_a_rule_about_a_connection_leaves_the_others_alone(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *victim = real_daemon_connect(&daemon);
    struct real_client *other = real_daemon_connect(&daemon);
    unsigned number =
        (unsigned)real_json_number(real_ask(victim, "hello", "'name':'victim'"), "result.client");
    inject(other, real_room_text(*state, "'action':'out_of_memory','every':1,'client':%u", number));
    expect_endings(other, "...");
    expect_endings(victim, "ooo");
    real_daemon_stop(&daemon);
}

static void test_a_rule_about_a_user_matches_by_number(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    unsigned user = (unsigned)getuid();
    inject(client,
           real_room_text(*state, "'action':'quota_exceeded','every':1,'user':%u", user + 1));
    inject(client, real_room_text(*state, "'action':'out_of_memory','every':1,'user':%u", user));
    expect_endings(client, "oo");
    expect_counts(client, 0, 0, 0, false);
    real_daemon_stop(&daemon);
}

/* In a process of its own, no cmocka there. */
struct worker {
    const char *socket_path;
    int starts[2]; /* a pipe: it begins when the writing end is closed */
};

/* Three allocations; writes 'o' or '.' for each. */
static int allocate_thrice(void *context)
{
    const struct worker *worker = context;
    static const char request[] =
        "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":100}}\n";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char byte;
    close(worker->starts[1]);
    if (read(worker->starts[0], &byte, 1) != 0)
        return 91;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", worker->socket_path);
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0 ||
        connect(descriptor, (const struct sockaddr *)&address, sizeof(address)) != 0)
        return 92;
    for (unsigned call = 0; call < 3; call++) {
        char answer[1024];
        size_t length = 0;
        if (send(descriptor, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0)
            return 93;
        do {
            ssize_t count = recv(descriptor, answer + length, sizeof(answer) - 1 - length, 0);
            if (count <= 0)
                return 94;
            length += (size_t)count;
        } while (answer[length - 1] != '\n');
        answer[length] = '\0';
        dprintf(STDOUT_FILENO, "%s", strstr(answer, "out_of_memory") ? "o" : ".");
    }
    return 0;
}

static void test_a_rule_about_a_process_leaves_the_others_alone(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    struct worker worker = {.socket_path = daemon.socket_path};
    assert_int_equal(pipe(worker.starts), 0);
    struct real_process *processes[2];
    for (unsigned index = 0; index < 2; index++)
        processes[index] = real_process_fork(*state, NULL, allocate_thrice, &worker);
    inject(client, real_room_text(*state, "'action':'out_of_memory','every':2,'process':%u",
                                  (unsigned)processes[1]->pid));
    close(worker.starts[0]);
    close(worker.starts[1]);
    for (unsigned index = 0; index < 2; index++)
        assert_int_equal(real_process_wait(processes[index]), 0);
    assert_string_equal(real_process_output(*state, processes[0]), "...");
    assert_string_equal(real_process_output(*state, processes[1]), ".o.");
    expect_counts(client, 0, 3, 1, false);
    real_daemon_stop(&daemon);
}

static void test_a_rule_about_an_allocator_ends_with_it(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    real_ask(client, "open", "'name':'one'");
    real_ask(client, "open", "'name':'two'");
    inject(client, "'action':'out_of_memory','every':1,'allocator':'two'");
    inject(client, "'action':'quota_exceeded','nth':2,'allocator':'gpu0'");
    expect_endings(client, ".q.");
    assert_int_equal(ending(real_ask(client, "allocate", "'requested_bytes':1,'allocator':'one'")),
                     '.');
    assert_int_equal(ending(real_ask(client, "allocate", "'requested_bytes':1,'allocator':'two'")),
                     'o');
    real_ask(client, "close", "'allocator':'two'");
    real_ask(client, "open", "'name':'two'"); /* another one of the same name */
    assert_int_equal(ending(real_ask(client, "allocate", "'requested_bytes':1,'allocator':'two'")),
                     '.');
    const cJSON *rules = real_ask(client, "rules", " ");
    assert_int_equal(real_json_count(rules, "result.rules"), 1);
    assert_string_equal(real_json_text(rules, "result.rules.0.allocator"), "gpu0");
    real_daemon_stop(&daemon);
}

static void test_a_rule_about_all_allocators_reaches_private_ones(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    real_ask(client, "open", "'name':'mine'");
    inject(client, "'action':'out_of_memory','nth':2");
    expect_endings(client, ".");
    assert_int_equal(ending(real_ask(client, "allocate", "'requested_bytes':1,'allocator':'mine'")),
                     'o');
    real_daemon_stop(&daemon);
}

static void test_a_request_that_fails_anyway_matches_nothing(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--max-request-bytes", "1000", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    inject(client, "'action':'out_of_memory'");
    inject(client, "'action':'forget'");
    real_json_expect_error(real_ask(client, "allocate", "'requested_bytes':1001"),
                           "invalid_params");
    real_json_expect_error(real_ask(client, "allocate", "'requested_bytes':'1'"), "invalid_params");
    real_json_expect_error(real_ask(client, "free", "'tag':'nothing'"), "unknown_handle");
    real_json_expect_error(
        real_ask(client, "free", "'handle':'1-00000000000000000000000000000000'"),
        "unknown_handle");
    expect_counts(client, 0, 0, 0, false);
    expect_counts(client, 1, 0, 0, false);
    expect_endings(client, "o.");
    real_daemon_stop(&daemon);
}

/* ------------------------------------------------------------------------------ what happens */

static void test_errors_of_a_rule_say_which_rule(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    inject(client, "'action':'out_of_memory'");
    inject(client, "'action':'quota_exceeded','nth':2");
    const cJSON *reply = real_ask(client, "allocate", "'requested_bytes':77");
    real_json_expect_error(reply, "out_of_memory");
    assert_int_equal(real_json_number(reply, "error.code"), 1);
    assert_int_equal(real_json_number(reply, "error.data.rule"), 1);
    assert_int_equal(real_json_number(reply, "error.data.requested_bytes"), 77);
    reply = real_ask(client, "allocate", "'requested_bytes':77");
    real_json_expect_error(reply, "quota_exceeded");
    assert_int_equal(real_json_number(reply, "error.code"), 5);
    assert_int_equal(real_json_number(reply, "error.data.rule"), 2);
    assert_string_equal(real_json_text(reply, "error.data.which"), "rule");
    assert_int_equal(real_json_number(reply, "error.data.left"), 0);
    assert_int_equal(snapshot_number(client, "result.active_allocations"), 0);
    real_daemon_stop(&daemon);
}

static void test_host_fallback_takes_the_host_even_where_that_is_off(void **state)
{
    struct real_daemon daemon =
        real_daemon_start(*state, "--gpu-probability", "1", "--fallback-on-oom", "false", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    inject(client, "'action':'host_fallback','nth':2");
    assert_string_equal(
        real_json_text(real_ask(client, "allocate", "'requested_bytes':100"), "result.device"),
        "gpu");
    const cJSON *reply = real_ask(client, "allocate", "'requested_bytes':100");
    assert_string_equal(real_json_text(reply, "result.device"), "cpu");
    assert_string_equal(real_json_text(reply, "result.reason"), "gpu_oom");
    assert_string_equal(
        real_json_text(real_ask(client, "allocate", "'requested_bytes':100"), "result.device"),
        "gpu");
    expect_valid(client);
    real_daemon_stop(&daemon);
}

static void test_forget_loses_the_block_of_exactly_that_free(void **state)
{
    struct real_daemon daemon =
        real_daemon_start(*state, "--gpu-probability", "1", "--forget-probability", "0", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    inject(client, "'action':'forget','nth':2");
    for (unsigned index = 0; index < 3; index++)
        real_ask(client, "allocate", "'requested_bytes':5000,'tag':'t%u'", index);
    for (unsigned index = 0; index < 3; index++) {
        const cJSON *reply = real_ask(client, "free", "'tag':'t%u'", index);
        assert_int_equal(real_json_true(reply, "result.released"), index != 1);
    }
    assert_int_equal(snapshot_number(client, "result.detail.gpu_forgotten_blocks"), 1);
    real_json_expect_error(real_ask(client, "free", "'tag':'t1'"), "unknown_handle");
    expect_valid(client);
    real_daemon_stop(&daemon);
}

static void test_a_delay_waits_at_least_so_long_and_keeps_the_order(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    inject(client, real_room_text(*state, "'action':'delay','delay_ms':%u,'nth':2", DELAY_MS));
    uint64_t before = real_now_ms();
    /* The second one waits. */
    real_ask_later(client,
                   "{'id':1,'method':'allocate','params':{'requested_bytes':100,'tag':'a'}}\n"
                   "{'id':2,'method':'free','params':{'tag':'a'}}\n"
                   "{'id':3,'method':'free','params':{'tag':'a'}}\n"
                   "{'id':4,'method':'allocate','params':{'requested_bytes':100,'tag':'a'}}\n");
    for (unsigned id = 1; id <= 4; id++) {
        const cJSON *reply = real_client_reply(client);
        assert_int_equal(real_json_number(reply, "id"), id);
        if (id == 3)
            real_json_expect_error(reply, "unknown_handle");
        else
            real_json(reply, "result.allocation_id");
        if (id >= 2)
            assert_true(real_now_ms() - before >= DELAY_MS);
    }
    real_daemon_stop(&daemon);
}

static void test_a_delay_holds_up_nobody_else(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *slow = real_daemon_connect(&daemon);
    struct real_client *other = real_daemon_connect(&daemon);
    inject(other, real_room_text(*state, "'action':'delay','delay_ms':%u", FOREVER_MS));
    real_ask_later(slow, "{'id':1,'method':'allocate','params':{'requested_bytes':100}}\n"
                         "{'id':2,'method':'snapshot','params':{}}\n");
    struct real_wait wait = {0};
    while (snapshot_number(other, "result.detail.faults") == 0)
        real_wait_more(&wait);
    expect_endings(other, "..........");
    assert_false(real_client_has_news(slow));
    assert_int_equal(snapshot_number(other, "result.active_allocations"), 10);
    real_daemon_stop(&daemon); /* it is over then, and both requests are answered */
    real_json(real_client_reply(slow), "result.allocation_id");
    real_json(real_client_reply(slow), "result.active_allocations");
    real_client_expect_end(slow);
}

static void test_a_delay_ends_with_its_client(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *slow = real_daemon_connect(&daemon);
    struct real_client *other = real_daemon_connect(&daemon);
    inject(other, real_room_text(*state, "'action':'delay','delay_ms':%u", FOREVER_MS));
    real_ask_later(slow, "{'id':1,'method':'allocate','params':{'requested_bytes':100}}\n");
    struct real_wait wait = {0};
    while (snapshot_number(other, "result.detail.faults") == 0)
        real_wait_more(&wait);
    real_client_close(slow);
    while (real_json_count(real_ask(other, "clients", " "), "result.clients") > 1)
        real_wait_more(&wait);
    while (snapshot_number(other, "result.active_allocations") > 0)
        real_wait_more(&wait);
    expect_valid(other);
    real_daemon_stop(&daemon);
}

static void test_disconnect_before_carries_nothing_out(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *victim = real_daemon_connect(&daemon);
    struct real_client *other = real_daemon_connect(&daemon);
    inject(other, "'action':'disconnect_before','nth':2");
    real_ask_later(
        victim, "{'id':1,'method':'allocate','params':{'requested_bytes':100,'detached':true}}\n"
                "{'id':2,'method':'allocate','params':{'requested_bytes':100,'detached':true}}\n"
                "{'id':3,'method':'allocate','params':{'requested_bytes':100,'detached':true}}\n");
    assert_int_equal(real_json_number(real_client_reply(victim), "id"), 1); /* still sent */
    real_client_expect_end(victim);
    assert_int_equal(snapshot_number(other, "result.detail.allocate_calls"), 1);
    expect_valid(other);
    real_daemon_stop(&daemon);
}

static void test_disconnect_after_carries_it_out_and_says_nothing(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *victim = real_daemon_connect(&daemon);
    struct real_client *other = real_daemon_connect(&daemon);
    inject(other, "'action':'disconnect_after','nth':2");
    real_ask_later(
        victim, "{'id':1,'method':'allocate','params':{'requested_bytes':100,'detached':true}}\n"
                "{'id':2,'method':'allocate','params':{'requested_bytes':200,'detached':true}}\n"
                "{'id':3,'method':'allocate','params':{'requested_bytes':300,'detached':true}}\n");
    assert_int_equal(real_json_number(real_client_reply(victim), "id"), 1);
    real_client_expect_end(victim);
    struct real_wait wait = {0}; /* its end may be seen a moment before the daemon has noted it */
    while (real_json_count(real_ask(other, "list", "'orphans':true"), "result.allocations") != 2)
        real_wait_more(&wait);
    assert_int_equal(snapshot_number(other, "result.detail.allocate_calls"), 2);
    expect_valid(other);
    real_daemon_stop(&daemon);
}

static void test_any_method_can_be_delayed_or_cut_off(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *other = real_daemon_connect(&daemon);
    static const char *const methods[] = {"info", "snapshot", "trace", "list", "hello"};
    for (size_t index = 0; index < sizeof(methods) / sizeof(methods[0]); index++) {
        struct real_client *victim = real_daemon_connect(&daemon);
        inject(other, real_room_text(*state, "'action':'disconnect_before','method':'%s'",
                                     methods[index]));
        real_ask_later(
            victim,
            real_room_text(*state, "{'id':1,'method':'%s'%s}\n", methods[index],
                           strcmp(methods[index], "hello") == 0 ? ",'params':{'name':'x'}" : ""));
        real_client_expect_end(victim);
    }
    real_daemon_stop(&daemon);
}

/* -------------------------------------------------------------------------------- many rules */

static void test_of_several_due_rules_the_oldest_fires_and_the_others_wait(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    inject(client, "'action':'out_of_memory','nth':2");
    inject(client, "'action':'quota_exceeded','nth':2");
    expect_endings(client, ".oq.");
    real_daemon_stop(&daemon);
}

static void test_a_hundred_rules_fire_each_at_its_call(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--seed", "2", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    for (unsigned index = 0; index < CROWD; index++)
        inject(client, real_room_text(*state, "'action':'out_of_memory','nth':%u", 2 * index + 2));
    for (unsigned call = 1; call <= 2 * CROWD + 2; call++) {
        const cJSON *reply = real_ask(client, "allocate", "'requested_bytes':100");
        if (call % 2 == 0 && call <= 2 * CROWD)
            assert_int_equal(real_json_number(reply, "error.data.rule"), call / 2);
        else
            real_json(reply, "result.handle");
    }
    for (unsigned index = 0; index < CROWD; index++)
        expect_counts(client, index, 2 * CROWD + 2, 1, true);
    assert_int_equal(snapshot_number(client, "result.detail.faults"), CROWD);
    assert_int_equal(real_json_number(real_ask(client, "rules_clear", " "), "result.cleared"),
                     CROWD);
    expect_valid(client);
    real_daemon_stop(&daemon);
}

static void test_a_rule_too_many_is_refused(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--max-rules", "2", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    inject(client, "'action':'out_of_memory','nth':100");
    inject(client, "'action':'out_of_memory','nth':100");
    const cJSON *reply = real_ask(client, "inject", "'action':'out_of_memory'");
    real_json_expect_error(reply, "limit_exceeded");
    assert_int_equal(real_json_number(reply, "error.data.limit"), 2);
    real_ask(client, "rules_clear", "'rule':1");
    assert_int_equal(inject(client, "'action':'out_of_memory'"), 3); /* a number is used once */
    real_daemon_stop(&daemon);
}

/* ------------------------------------------------------------------------------------- trace */

static void test_each_firing_is_an_event_of_the_trace(void **state)
{
    struct real_daemon daemon = real_daemon_start(*state, "--gpu-probability", "1", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    real_ask(client, "hello", "'name':'me'");
    inject(client, "'action':'out_of_memory'");
    inject(client, "'action':'host_fallback'");
    inject(client, "'action':'forget'");
    real_ask(client, "allocate", "'requested_bytes':100,'tag':'a','stream':5");
    real_ask(client, "allocate", "'requested_bytes':200,'tag':'b'");
    real_ask(client, "free", "'tag':'b'");
    const cJSON *reply = real_ask(client, "trace", " ");
    static const struct {
        const char *operation;
        const char *action; /* NULL: no fault */
        unsigned rule;
    } expected[] = {{"fault", "out_of_memory", 1},
                    {"fault", "host_fallback", 2},
                    {"allocate", NULL, 0},
                    {"fault", "forget", 3},
                    {"free", NULL, 0}};
    unsigned count = sizeof(expected) / sizeof(expected[0]);
    assert_int_equal(real_json_count(reply, "result.events"), count);
    for (unsigned index = 0; index < count; index++) {
        const cJSON *event = real_json(reply, real_room_text(*state, "result.events.%u", index));
        assert_string_equal(real_json_text(event, "operation"), expected[index].operation);
        assert_int_equal(real_json_number(event, "sequence"), index + 1);
        assert_string_equal(real_json_text(event, "name"), "me");
        assert_int_equal(real_json_has(event, "action"), expected[index].action != NULL);
        if (!expected[index].action)
            continue;
        assert_string_equal(real_json_text(event, "action"), expected[index].action);
        assert_int_equal(real_json_number(event, "rule"), expected[index].rule);
    }
    assert_int_equal(real_json_number(reply, "result.events.0.requested_bytes"), 100);
    assert_string_equal(real_json_text(reply, "result.events.0.tag"), "a");
    assert_int_equal(real_json_number(reply, "result.events.0.stream"), 5);
    assert_false(real_json_has(reply, "result.events.0.allocation_id"));
    assert_int_equal(real_json_number(reply, "result.events.3.allocation_id"), 1);
    assert_int_equal(snapshot_number(client, "result.detail.faults"), 3);
    real_daemon_stop(&daemon);
}

/* --------------------------------------------------------------------------------- decisions */

/* Carries out the same requests with two daemons, of the same seed, and compares what they decided.
 * Every `left_out`-th allocation is made in the first only, where a rule refuses it; 0 for none. */
static void expect_equal_decisions(struct real_client *first, struct real_client *second,
                                   unsigned left_out)
{
    static const char *const members[] = {
        "allocation_id", "reserved_bytes", "device", "block_index", "offset", "reason", "released"};
    unsigned allocations = 0;
    for (unsigned step = 0; step < 600; step++) {
        bool frees = step % 3 == 2;
        bool refused = !frees && left_out && ++allocations % left_out == 0;
        const cJSON *replies[2];
        for (unsigned index = 0; index < (refused ? 1 : 2); index++) {
            struct real_client *client = index ? second : first;
            replies[index] = frees
                                 ? real_ask(client, "free", "'tag':'t%u'", step - 2)
                                 : real_ask(client, "allocate", "'requested_bytes':%u,'tag':'t%u'",
                                            step * 7919 % 60000 + 1, step);
        }
        if (refused) {
            real_json_expect_error(replies[0], "out_of_memory");
            continue;
        }
        if (!real_json_has(replies[1], "result")) { /* the one to be freed was refused */
            real_json_expect_error(replies[1], "unknown_handle");
            real_json_expect_error(replies[0], "unknown_handle");
            continue;
        }
        for (size_t member = 0; member < sizeof(members) / sizeof(members[0]); member++) {
            const cJSON *values[2];
            for (unsigned index = 0; index < 2; index++)
                values[index] = cJSON_GetObjectItemCaseSensitive(
                    real_json(replies[index], "result"), members[member]);
            assert_int_equal(values[0] != NULL, values[1] != NULL);
            if (values[0])
                assert_true(cJSON_Compare(values[0], values[1], true));
        }
    }
}

static void test_rules_that_never_fire_change_no_decision(void **state)
{
    struct real_daemon without = real_daemon_start(*state, "--seed", "42", NULL);
    struct real_client *first = real_daemon_connect(&without);
    struct real_daemon with = real_daemon_start_at(
        *state, NULL, REAL_DAEMON_TOLD, real_room_path(*state, "s2"), "--seed", "42", NULL);
    struct real_client *second = real_daemon_connect(&with);
    static const char *const actions[] = {"out_of_memory", "quota_exceeded", "host_fallback",
                                          "forget", "disconnect_before"};
    for (unsigned index = 0; index < 5; index++) {
        inject(second, real_room_text(*state, "'action':'%s','nth':1000000", actions[index]));
        inject(second, real_room_text(*state, "'action':'%s','every':1000000", actions[index]));
        inject(second, real_room_text(*state, "'action':'%s','probability':0", actions[index]));
        inject(second, real_room_text(*state, "'action':'%s','tag_prefix':'x'", actions[index]));
    }
    expect_equal_decisions(first, second, 0);
    expect_counts(second, 0, 400, 0, false);
    expect_counts(second, 3, 0, 0, false);
    assert_int_equal(snapshot_number(second, "result.detail.faults"), 0);
    real_daemon_stop(&without);
    real_daemon_stop(&with);
}

static void test_refusals_by_a_rule_leave_the_random_stream_alone(void **state)
{
    struct real_daemon with =
        real_daemon_start(*state, "--seed", "42", "--inject", "oom --every 5", NULL);
    struct real_daemon without = real_daemon_start_at(
        *state, NULL, REAL_DAEMON_TOLD, real_room_path(*state, "s2"), "--seed", "42", NULL);
    struct real_client *first = real_daemon_connect(&with);
    struct real_client *second = real_daemon_connect(&without);
    expect_equal_decisions(first, second, 5);
    assert_int_equal(snapshot_number(first, "result.detail.faults"), 80);
    real_daemon_stop(&with);
    real_daemon_stop(&without);
}

/* ------------------------------------------------------------------------------ from the start */

static void test_inject_on_the_command_line_is_there_from_the_start(void **state)
{
    struct real_daemon daemon =
        real_daemon_start(*state, "--inject", "oom --nth 3 --min-size 0.5KiB", "--inject",
                          "quota_exceeded --every=2 --max-size 511 --tag-prefix 'a b'", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    const cJSON *rules = real_ask(client, "rules", " ");
    assert_int_equal(real_json_count(rules, "result.rules"), 2);
    assert_int_equal(real_json_number(rules, "result.rules.0.min_size"), 512);
    assert_string_equal(real_json_text(rules, "result.rules.1.tag_prefix"), "a b");
    for (unsigned call = 1; call <= 4; call++)
        assert_int_equal(ending(real_ask(client, "allocate", "'requested_bytes':512")),
                         call == 3 ? 'o' : '.');
    for (unsigned call = 1; call <= 4; call++)
        assert_int_equal(
            ending(real_ask(client, "allocate", "'requested_bytes':1,'tag':'a b%u'", call)),
            call % 2 == 0 ? 'q' : '.');
    real_daemon_stop(&daemon);
}

static void test_a_bad_inject_ends_the_start_with_2(void **state)
{
    static const struct {
        const char *rule;
        const char *named;
    } cases[] = {
        {"", "action"},
        {"ooom", "ooom"},
        {"oom --nth", "--nth"},
        {"oom --nth 0", "nth"},
        {"oom --nth 1 --every 2", "every"},
        {"oom --nth 1 --nth 2", "--nth"},
        {"oom --colour red", "--colour"},
        {"oom --min-size 2KiB --max-size 1KiB", "min_size"},
        {"oom --allocator gpu7", "allocator"},
        {"oom --method free", "free"},
        {"delay", "delay_ms"},
        {"oom --delay-ms 5", "delay_ms"},
        {"oom --probability 1.5", "probability"},
    };
    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++) {
        struct real_process *process =
            real_process_run(*state, NULL, real_program(*state, "worsegpud"), "--socket",
                             real_room_path(*state, "s"), "--inject", cases[index].rule, NULL);
        const char *errors = real_process_errors(*state, process);
        if (process->status != 2 || !strstr(errors, cases[index].named) || real_lines(errors) != 1)
            fail_msg("--inject '%s' ended with %d: %s", cases[index].rule, process->status, errors);
        assert_int_not_equal(access(real_room_path(*state, "s"), F_OK), 0);
    }
}

static void test_a_bad_inject_over_the_wire_names_the_parameter(void **state)
{
    static const struct {
        const char *parameters;
        const char *param;
    } cases[] = {
        {"'nth':1", "action"},
        {"'action':'oom'", "action"},
        {"'action':'out_of_memory','nth':0", "nth"},
        {"'action':'out_of_memory','nth':1,'every':1", "every"},
        {"'action':'out_of_memory','every':1,'probability':0.5", "probability"},
        {"'action':'out_of_memory','probability':2", "probability"},
        {"'action':'out_of_memory','rule_seed':2", "rule_seed"},
        {"'action':'out_of_memory','times':0", "times"},
        {"'action':'out_of_memory','method':'free'", "method"},
        {"'action':'out_of_memory','method':'nothing'", "method"},
        {"'action':'delay','delay_ms':1,'method':'inject'", "method"},
        {"'action':'delay','delay_ms':1,'method':'rules_clear'", "method"},
        {"'action':'delay','delay_ms':1,'method':'info','allocator':'gpu0'", "allocator"},
        {"'action':'delay','delay_ms':1,'method':'info','min_size':1", "min_size"},
        {"'action':'delay'", "delay_ms"},
        {"'action':'forget','delay_ms':1", "delay_ms"},
        {"'action':'forget','min_size':2,'max_size':1", "min_size"},
    };
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++) {
        const cJSON *reply = real_ask(client, "inject", "%s", cases[index].parameters);
        real_json_expect_error(reply, "invalid_params");
        assert_string_equal(real_json_text(reply, "error.data.param"), cases[index].param);
    }
    real_json_expect_error(
        real_ask(client, "inject", "'action':'out_of_memory','allocator':'gpu7'"),
        "unknown_allocator");
    assert_int_equal(real_json_count(real_ask(client, "rules", " "), "result.rules"), 0);
    real_daemon_stop(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_a_rule_fires_at_the_nth_match_and_once),
        IN_ROOM(test_left_out_it_is_the_next_match),
        IN_ROOM(test_nth_with_times_fires_from_the_nth_on),
        IN_ROOM(test_every_fires_without_end_unless_times_says_so),
        IN_ROOM(test_a_probability_with_equal_seeds_fires_at_the_same_calls),
        IN_ROOM(test_sizes_match_with_both_ends),
        IN_ROOM(test_a_tag_prefix_matches_tags_that_begin_so),
        IN_ROOM(test_a_stream_matches_also_when_it_is_left_out),
        IN_ROOM(test_a_rule_about_a_connection_leaves_the_others_alone),
        IN_ROOM(test_a_rule_about_a_user_matches_by_number),
        IN_ROOM(test_a_rule_about_a_process_leaves_the_others_alone),
        IN_ROOM(test_a_rule_about_an_allocator_ends_with_it),
        IN_ROOM(test_a_rule_about_all_allocators_reaches_private_ones),
        IN_ROOM(test_a_request_that_fails_anyway_matches_nothing),
        IN_ROOM(test_errors_of_a_rule_say_which_rule),
        IN_ROOM(test_host_fallback_takes_the_host_even_where_that_is_off),
        IN_ROOM(test_forget_loses_the_block_of_exactly_that_free),
        IN_ROOM(test_a_delay_waits_at_least_so_long_and_keeps_the_order),
        IN_ROOM(test_a_delay_holds_up_nobody_else),
        IN_ROOM(test_a_delay_ends_with_its_client),
        IN_ROOM(test_disconnect_before_carries_nothing_out),
        IN_ROOM(test_disconnect_after_carries_it_out_and_says_nothing),
        IN_ROOM(test_any_method_can_be_delayed_or_cut_off),
        IN_ROOM(test_of_several_due_rules_the_oldest_fires_and_the_others_wait),
        IN_ROOM(test_a_hundred_rules_fire_each_at_its_call),
        IN_ROOM(test_a_rule_too_many_is_refused),
        IN_ROOM(test_each_firing_is_an_event_of_the_trace),
        IN_ROOM(test_rules_that_never_fire_change_no_decision),
        IN_ROOM(test_refusals_by_a_rule_leave_the_random_stream_alone),
        IN_ROOM(test_inject_on_the_command_line_is_there_from_the_start),
        IN_ROOM(test_a_bad_inject_ends_the_start_with_2),
        IN_ROOM(test_a_bad_inject_over_the_wire_names_the_parameter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
