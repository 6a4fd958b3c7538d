/* Tests of inject, rules and rules_clear, and of what rules do to requests (daemon/faults.c), on a
 * whole daemon in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/rule_request.h"
#include "tests/support/memory_daemon.h"

enum {
    ROOT = 0,
    ALICE = 1000,
    BOB = 1001,
    TEXT_SIZE = 512
};

struct scene {
    struct memory_daemon daemon;
    struct memory_client *root;
    struct memory_client *alice;
    struct memory_client *bob;
};

static void begin(struct scene *scene, const char *words)
{
    memory_daemon_start(&scene->daemon, NULL, words);
    scene->root = memory_daemon_connect(&scene->daemon, ROOT);
    scene->alice = memory_daemon_connect(&scene->daemon, ALICE);
    scene->bob = memory_daemon_connect(&scene->daemon, BOB);
}

static void end(struct scene *scene)
{
    memory_daemon_end(&scene->daemon);
}

static const char *call(struct memory_client *client, const char *method, const char *params,
                        const char *kind)
{
    const char *answer = memory_client_call(client, method, params);
    assert_kind(answer, kind);
    return answer;
}

static uint64_t inject(struct scene *scene, const char *params)
{
    return answer_u64(call(scene->root, "inject", params, "result"), "rule");
}

static void assert_wrong(struct scene *scene, const char *params, const char *param)
{
    const char *answer = call(scene->root, "inject", params, "invalid_params");
    char found[TEXT_SIZE];
    answer_text(answer, "param", found, sizeof(found));
    if (strcmp(found, param) != 0)
        fail_msg("wanted %s named, got %s", param, answer);
    assert_int_equal(scene->daemon.server.rules.count, 0);
}

/* What the daemon's snapshot of gpu0 says. */
static uint64_t account(struct scene *scene, const char *name)
{
    return answer_u64(call(scene->root, "snapshot", "", "result"), name);
}

/* ------------------------------------------------------------------------------ inject and rules
 */

static void test_inject_shows_the_rule_as_it_stands(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "");
    assert_string_equal(
        memory_client_call(scene.root, "inject",
                           "\"action\":\"out_of_memory\",\"nth\":10,\"min_size\":1048576"),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"rule\":1,\"action\":\"out_of_memory\",\"nth\":"
        "10,\"times\":1,\"min_size\":1048576,\"allocator\":null,\"matched\":0,\"fired\":0,"
        "\"spent\":false}}");
    assert_string_equal(
        memory_client_call(scene.root, "inject",
                           "\"action\":\"delay\",\"delay_ms\":5,\"probability\":0.5,\"rule_seed\":"
                           "3,\"method\":\"free\",\"max_size\":9,\"stream\":0,\"tag_prefix\":\"a\","
                           "\"process\":2,\"user\":0,\"client\":4,\"allocator\":\"gpu0\","
                           "\"times\":6"),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"rule\":2,\"action\":\"delay\",\"delay_ms\":5,"
        "\"probability\":0.5,\"rule_seed\":3,\"times\":6,\"method\":\"free\",\"max_size\":9,"
        "\"stream\":0,\"process\":2,\"user\":0,\"client\":4,\"tag_prefix\":\"a\",\"allocator\":"
        "\"gpu0\",\"matched\":0,\"fired\":0,\"spent\":false}}");
    const char *answer = call(scene.root, "inject", "\"action\":\"forget\",\"every\":2", "result");
    assert_true(answer_is(answer, "every", "2"));
    assert_true(answer_is(answer, "times", "null"));
    end(&scene);
}

static void test_what_does_not_go_together_is_named(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "");
    assert_wrong(&scene, "\"action\":\"explode\"", "action");
    assert_wrong(&scene, "\"action\":\"delay\"", "delay_ms");
    assert_wrong(&scene, "\"action\":\"forget\",\"delay_ms\":1", "delay_ms");
    assert_wrong(&scene, "\"action\":\"forget\",\"method\":\"allocate\"", "method");
    assert_wrong(&scene, "\"action\":\"out_of_memory\",\"method\":\"free\"", "method");
    assert_wrong(&scene, "\"action\":\"forget\",\"method\":\"fre\"", "method");
    assert_wrong(&scene, "\"action\":\"disconnect_after\",\"method\":\"rules_clear\"", "method");
    assert_wrong(&scene, "\"action\":\"forget\",\"nth\":1,\"every\":1", "every");
    assert_wrong(&scene, "\"action\":\"forget\",\"probability\":1,\"nth\":1", "probability");
    assert_wrong(&scene, "\"action\":\"forget\",\"nth\":1,\"rule_seed\":1", "rule_seed");
    assert_wrong(&scene, "\"action\":\"forget\",\"min_size\":2,\"max_size\":1", "min_size");
    assert_wrong(&scene,
                 "\"action\":\"disconnect_before\",\"method\":\"info\",\"allocator\":\"gpu0\"",
                 "allocator");
    assert_wrong(&scene,
                 "\"action\":\"disconnect_before\",\"method\":\"snapshot\",\"tag_prefix\":\"a\"",
                 "tag_prefix");
    call(scene.root, "inject", "\"action\":\"forget\",\"allocator\":\"gpu9\"", "unknown_allocator");
    end(&scene);
}

static void test_rules_counts_matches_and_firings(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "");
    inject(&scene, "\"action\":\"out_of_memory\",\"every\":2,\"times\":1");
    for (int count = 0; count < 5; count++)
        memory_client_call(scene.alice, "allocate", "\"requested_bytes\":10");
    const char *answer = call(scene.root, "rules", "", "result");
    assert_true(answer_is(answer, "matched", "5"));
    assert_true(answer_is(answer, "fired", "1"));
    assert_true(answer_is(answer, "spent", "true"));
    assert_true(answer_is(answer, "more", "false"));
    end(&scene);
}

static void test_rules_come_in_pages(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "");
    for (int count = 0; count < 5; count++)
        inject(&scene, "\"action\":\"forget\"");
    const char *answer = call(scene.root, "rules", "\"after\":1,\"limit\":3", "result");
    assert_int_equal(answer_count(answer, "\"rule\":"), 3);
    assert_true(answer_is(answer, "next", "4"));
    assert_true(answer_is(answer, "more", "true"));
    answer = call(scene.root, "rules", "\"after\":4", "result");
    assert_int_equal(answer_count(answer, "\"rule\":"), 1);
    assert_true(answer_is(answer, "more", "false"));
    end(&scene);
}

static void test_a_thousand_of_the_longest_rules_lose_none_in_pages(void **state)
{
    (void)state;
    struct scene scene;
    char params[2 * TEXT_SIZE];
    uint64_t next = 0;
    size_t found = 0;
    bool more = true;
    begin(&scene, "--max-output-bytes=131072 --max-unread-bytes=1024");
    snprintf(params, sizeof(params),
             "\"action\":\"disconnect_before\",\"probability\":0.12345678901234567,\"tag_prefix\":"
             "\"%s%s%s%s\",\"min_size\":9007199254740991,\"max_size\":9007199254740991,\"stream\":"
             "9007199254740991,\"rule_seed\":9007199254740991",
             "\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001",
             "\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001",
             "\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001",
             "\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001");
    for (int count = 0; count < 1000; count++)
        inject(&scene, params);
    while (more) {
        char after[TEXT_SIZE];
        snprintf(after, sizeof(after), "\"after\":%llu", (unsigned long long)next);
        const char *answer = call(scene.root, "rules", after, "result");
        found += answer_count(answer, "\"rule\":");
        next = answer_u64(answer, "next");
        more = answer_is(answer, "more", "true");
    }
    assert_int_equal(found, 1000);
    end(&scene);
}

static void test_no_more_than_max_rules(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "--max-rules=2");
    inject(&scene, "\"action\":\"forget\"");
    inject(&scene, "\"action\":\"forget\"");
    const char *answer = call(scene.root, "inject", "\"action\":\"forget\"", "limit_exceeded");
    assert_true(answer_is(answer, "limit", "2"));
    call(scene.root, "rules_clear", "\"rule\":1", "result");
    assert_int_equal(inject(&scene, "\"action\":\"forget\""), 3);
    end(&scene);
}

static void test_rules_clear_takes_one_or_all(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "");
    for (int count = 0; count < 3; count++)
        inject(&scene, "\"action\":\"out_of_memory\"");
    assert_true(answer_is(call(scene.root, "rules_clear", "\"rule\":2", "result"), "cleared", "1"));
    const char *answer = call(scene.root, "rules_clear", "\"rule\":2", "invalid_params");
    assert_true(answer_is(answer, "param", "\"rule\""));
    assert_true(answer_is(call(scene.root, "rules_clear", "", "result"), "cleared", "2"));
    assert_true(answer_is(call(scene.root, "rules_clear", "", "result"), "cleared", "0"));
    call(scene.alice, "allocate", "\"requested_bytes\":10", "result");
    end(&scene);
}

/* -------------------------------------------------------------------------------------- who may */

static void test_only_admins_make_rules_about_what_is_shared(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "");
    call(scene.alice, "inject", "\"action\":\"forget\"", "permission_denied");
    call(scene.alice, "inject", "\"action\":\"forget\",\"allocator\":\"gpu0\"",
         "permission_denied");
    uint64_t rule = inject(&scene, "\"action\":\"forget\"");
    assert_int_equal(rule, 1);
    call(scene.alice, "rules_clear", "\"rule\":1", "permission_denied");
    assert_true(answer_is(call(scene.alice, "rules_clear", "", "result"), "cleared", "0"));
    assert_int_equal(answer_count(call(scene.alice, "rules", "", "result"), "\"rule\":"), 0);
    assert_int_equal(scene.daemon.server.rules.count, 1);
    end(&scene);
}

static void test_everybody_makes_rules_about_his_own_private_allocators(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "");
    call(scene.alice, "open", "\"name\":\"mine\"", "result");
    call(scene.bob, "open", "\"name\":\"mine\"", "result");
    call(scene.alice, "inject", "\"action\":\"out_of_memory\",\"allocator\":\"mine\"", "result");
    call(scene.bob, "rules_clear", "\"rule\":1", "permission_denied");
    assert_int_equal(answer_count(call(scene.bob, "rules", "", "result"), "\"rule\":"), 0);
    assert_int_equal(answer_count(call(scene.alice, "rules", "", "result"), "\"rule\":"), 1);
    assert_int_equal(answer_count(call(scene.root, "rules", "", "result"), "\"rule\":"), 1);
    call(scene.bob, "allocate", "\"requested_bytes\":10,\"allocator\":\"mine\"", "result");
    call(scene.alice, "allocate", "\"requested_bytes\":10,\"allocator\":\"mine\"", "out_of_memory");
    assert_true(answer_is(call(scene.alice, "rules_clear", "", "result"), "cleared", "1"));
    end(&scene);
}

static void test_a_rule_ends_with_the_private_allocator_it_is_about(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "");
    call(scene.alice, "open", "\"name\":\"mine\"", "result");
    call(scene.alice, "inject", "\"action\":\"forget\",\"allocator\":\"mine\"", "result");
    call(scene.alice, "close", "\"allocator\":\"mine\"", "result");
    assert_int_equal(scene.daemon.server.rules.count, 0);
    call(scene.bob, "open", "\"name\":\"mine\"", "result");
    call(scene.bob, "inject", "\"action\":\"forget\",\"allocator\":\"mine\"", "result");
    memory_client_hang_up(scene.bob);
    memory_daemon_settle(&scene.daemon);
    assert_int_equal(scene.daemon.server.rules.count, 0);
    end(&scene);
}

/* ------------------------------------------------------------------------------- what happens */

static void test_out_of_memory_comes_at_the_exact_call(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "");
    uint64_t rule = inject(&scene, "\"action\":\"out_of_memory\",\"nth\":3,\"min_size\":100");
    for (int count = 0; count < 4; count++)
        call(scene.alice, "allocate", "\"requested_bytes\":99", "result");
    call(scene.alice, "allocate", "\"requested_bytes\":100", "result");
    call(scene.bob, "allocate", "\"requested_bytes\":1000", "result");
    const char *answer = call(scene.alice, "allocate", "\"requested_bytes\":128", "out_of_memory");
    assert_true(answer_is(answer, "requested_bytes", "128"));
    assert_int_equal(answer_u64(answer, "rule"), rule);
    call(scene.alice, "allocate", "\"requested_bytes\":128", "result");
    assert_int_equal(account(&scene, "active_allocations"), 7);
    end(&scene);
}

static void test_quota_exceeded_says_that_a_rule_did_it(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "");
    inject(&scene, "\"action\":\"quota_exceeded\"");
    const char *answer = call(scene.alice, "allocate", "\"requested_bytes\":5", "quota_exceeded");
    assert_true(answer_is(answer, "which", "\"rule\""));
    assert_true(answer_is(answer, "limit", "0"));
    assert_true(answer_is(answer, "used", "0"));
    assert_true(answer_is(answer, "left", "0"));
    assert_true(answer_is(answer, "rule", "1"));
    end(&scene);
}

static void test_host_fallback_places_it_on_the_host(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "--gpu-probability=1");
    inject(&scene, "\"action\":\"host_fallback\"");
    const char *answer = call(scene.alice, "allocate", "\"requested_bytes\":5", "result");
    assert_true(answer_is(answer, "device", "\"cpu\""));
    assert_true(answer_is(answer, "reason", "\"gpu_oom\""));
    answer = call(scene.alice, "allocate", "\"requested_bytes\":5", "result");
    assert_true(answer_is(answer, "device", "\"gpu\""));
    end(&scene);
}

static void test_forget_forgets_the_block(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "--gpu-probability=1 --forget-probability=0");
    inject(&scene, "\"action\":\"forget\",\"tag_prefix\":\"b\"");
    call(scene.alice, "allocate", "\"requested_bytes\":5,\"tag\":\"a\"", "result");
    call(scene.alice, "allocate", "\"requested_bytes\":5,\"tag\":\"b\"", "result");
    const char *answer = call(scene.alice, "free", "\"tag\":\"a\"", "result");
    assert_true(answer_is(answer, "released", "true"));
    answer = call(scene.alice, "free", "\"tag\":\"b\"", "result");
    assert_true(answer_is(answer, "released", "false"));
    assert_int_equal(account(&scene, "active_allocations"), 0);
    end(&scene);
}

static void test_a_free_by_handle_is_known_by_its_allocation(void **state)
{
    (void)state;
    struct scene scene;
    char handle[64];
    char params[TEXT_SIZE];
    begin(&scene, "--gpu-probability=1 --forget-probability=0");
    inject(&scene, "\"action\":\"forget\",\"tag_prefix\":\"b\",\"min_size\":7,\"max_size\":7,"
                   "\"stream\":3");
    const char *answer =
        call(scene.alice, "allocate", "\"requested_bytes\":7,\"tag\":\"b\",\"stream\":3", "result");
    answer_text(answer, "handle", handle, sizeof(handle));
    snprintf(params, sizeof(params), "\"handle\":\"%s\"", handle);
    assert_true(answer_is(call(scene.root, "free", params, "result"), "released", "false"));
    end(&scene);
}

static void test_a_fault_is_an_event_with_all_that_is_known(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "--gpu-probability=1");
    inject(&scene, "\"action\":\"out_of_memory\",\"nth\":2");
    inject(&scene, "\"action\":\"forget\"");
    call(scene.alice, "allocate", "\"requested_bytes\":5,\"tag\":\"a\"", "result");
    call(scene.alice, "allocate", "\"requested_bytes\":6,\"tag\":\"c\",\"stream\":4",
         "out_of_memory");
    call(scene.alice, "free", "\"tag\":\"a\"", "result");
    const char *answer = call(scene.alice, "trace", "\"after\":1", "result");
    static const char *const parts[] = {
        "{\"operation\":\"fault\",\"action\":\"out_of_memory\",\"rule\":1,\"requested_bytes\":6,"
        "\"sequence\":2,\"time_us\":1700000000000000,\"client\":2,\"tag\":\"c\",\"stream\":4}",
        "{\"operation\":\"fault\",\"action\":\"forget\",\"rule\":2,\"allocation_id\":1,"
        "\"requested_bytes\":5,\"sequence\":3,\"time_us\":1700000000000000,\"client\":2,\"tag\":"
        "\"a\"}"};
    for (size_t index = 0; index < 2; index++)
        if (!strstr(answer, parts[index]))
            fail_msg("no %s in %s", parts[index], answer);
    assert_int_equal(account(&scene, "faults"), 2);
    end(&scene);
}

static void test_a_fault_of_a_method_without_allocator_is_in_the_first_trace(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "");
    inject(&scene, "\"action\":\"delay\",\"delay_ms\":1,\"method\":\"info\"");
    memory_client_send_line(scene.alice, "{\"id\":1,\"method\":\"info\"}");
    memory_daemon_settle(&scene.daemon);
    assert_int_equal(account(&scene, "faults"), 1);
    end(&scene);
}

static void test_a_refused_request_meets_no_rule(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "");
    call(scene.alice, "allocate", "\"requested_bytes\":5,\"tag\":\"a\",\"detached\":true",
         "result");
    inject(&scene, "\"action\":\"disconnect_before\",\"every\":1");
    static const char *const refused[][3] = {
        {"allocate", "", "invalid_params"},
        {"allocate", "\"requested_bytes\":0", "invalid_params"},
        {"allocate", "\"requested_bytes\":1099511627777", "invalid_params"},
        {"allocate", "\"requested_bytes\":1,\"allocator\":\"x\"", "unknown_allocator"},
        {"allocate", "\"requested_bytes\":1,\"tag\":\"a\"", "name_in_use"},
        {"free", "", "invalid_params"},
        {"free", "\"tag\":\"a\",\"handle\":\"1-\"", "invalid_params"},
        {"free", "\"tag\":\"b\"", "unknown_handle"},
        {"free", "\"handle\":\"nonsense\"", "unknown_handle"},
        {"free", "\"handle\":\"1-00000000000000000000000000000000\"", "unknown_handle"},
    };
    for (size_t index = 0; index < sizeof(refused) / sizeof(refused[0]); index++)
        call(scene.alice, refused[index][0], refused[index][1], refused[index][2]);
    assert_true(answer_is(call(scene.root, "rules", "", "result"), "matched", "0"));
    end(&scene);
}

static void test_another_users_allocation_meets_no_rule_when_it_may_not_be_freed(void **state)
{
    (void)state;
    struct scene scene;
    char handle[64];
    char params[TEXT_SIZE];
    begin(&scene, "");
    answer_text(call(scene.alice, "allocate", "\"requested_bytes\":5", "result"), "handle", handle,
                sizeof(handle));
    snprintf(params, sizeof(params), "\"handle\":\"%s\"", handle);
    inject(&scene, "\"action\":\"disconnect_before\",\"method\":\"free\"");
    call(scene.bob, "free", params, "permission_denied");
    assert_true(answer_is(call(scene.root, "rules", "", "result"), "matched", "0"));
    end(&scene);
}

static void test_a_notification_meets_rules_too(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "");
    inject(&scene, "\"action\":\"out_of_memory\"");
    memory_client_send_line(scene.alice,
                            "{\"method\":\"allocate\",\"params\":{\"requested_bytes\":5}}");
    memory_daemon_settle(&scene.daemon);
    assert_null(memory_client_line(scene.alice));
    assert_int_equal(account(&scene, "active_allocations"), 0);
    assert_int_equal(account(&scene, "faults"), 1);
    end(&scene);
}

static void test_a_rule_meets_only_its_process_user_and_client(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "");
    struct memory_client *other = memory_daemon_connect_peer(
        &scene.daemon, (struct peer){.uid = ALICE, .gid = ALICE, .pid = 4242});
    inject(&scene, "\"action\":\"out_of_memory\",\"every\":1,\"process\":4242");
    inject(&scene, "\"action\":\"quota_exceeded\",\"every\":1,\"user\":1001");
    inject(&scene, "\"action\":\"host_fallback\",\"every\":1,\"client\":1");
    call(scene.alice, "allocate", "\"requested_bytes\":5", "result");
    call(other, "allocate", "\"requested_bytes\":5", "out_of_memory");
    call(scene.bob, "allocate", "\"requested_bytes\":5", "quota_exceeded");
    const char *answer = call(scene.root, "allocate", "\"requested_bytes\":5", "result");
    assert_true(answer_is(answer, "reason", "\"gpu_oom\""));
    end(&scene);
}

/* ------------------------------------------------------------------------------------ delays */

static void send_allocate(struct memory_client *client, int id, const char *tag)
{
    char line[TEXT_SIZE];
    snprintf(
        line, sizeof(line),
        "{\"id\":%d,\"method\":\"allocate\",\"params\":{\"requested_bytes\":5,\"tag\":\"%s\"}}", id,
        tag);
    memory_client_send_line(client, line);
}

static void assert_next_id(struct memory_client *client, const char *id)
{
    const char *line = memory_client_line(client);
    assert_non_null(line);
    assert_true(answer_is(line, "id", id));
    assert_kind(line, "result");
}

static void begin_delayed(struct scene *scene, const char *words)
{
    begin(scene, words);
    inject(scene, "\"action\":\"delay\",\"delay_ms\":500,\"tag_prefix\":\"slow\",\"every\":1");
}

static void test_a_delay_holds_its_connection_and_keeps_the_order(void **state)
{
    (void)state;
    struct scene scene;
    begin_delayed(&scene, "");
    send_allocate(scene.alice, 1, "one");
    send_allocate(scene.alice, 2, "slow");
    send_allocate(scene.alice, 3, "three");
    memory_daemon_settle(&scene.daemon);
    assert_next_id(scene.alice, "1");
    assert_null(memory_client_line(scene.alice));
    assert_int_equal(account(&scene, "active_allocations"), 1);
    memory_daemon_wait(&scene.daemon, 499);
    memory_daemon_settle(&scene.daemon);
    assert_null(memory_client_line(scene.alice));
    memory_daemon_wait(&scene.daemon, 1);
    memory_daemon_settle(&scene.daemon);
    assert_next_id(scene.alice, "2");
    assert_next_id(scene.alice, "3");
    assert_int_equal(account(&scene, "active_allocations"), 3);
    assert_true(answer_is(call(scene.root, "rules", "", "result"), "fired", "1"));
    end(&scene);
}

static void test_others_go_on_while_one_is_delayed(void **state)
{
    (void)state;
    struct scene scene;
    begin_delayed(&scene, "");
    send_allocate(scene.alice, 1, "slow");
    memory_daemon_settle(&scene.daemon);
    for (int count = 0; count < 10; count++)
        call(scene.bob, "allocate", "\"requested_bytes\":5", "result");
    assert_null(memory_client_line(scene.alice));
    end(&scene);
}

static void test_nothing_is_read_during_a_delay(void **state)
{
    (void)state;
    struct scene scene;
    begin_delayed(&scene, "");
    send_allocate(scene.alice, 1, "slow");
    memory_daemon_settle(&scene.daemon);
    assert_false(connection_wants_input(scene.alice->connection));
    assert_false(connection_wants_turn(scene.alice->connection));
    send_allocate(scene.alice, 2, "later");
    memory_daemon_settle(&scene.daemon);
    assert_int_equal(account(&scene, "active_allocations"), 0);
    memory_daemon_wait(&scene.daemon, 500);
    memory_daemon_settle(&scene.daemon);
    assert_next_id(scene.alice, "1");
    assert_next_id(scene.alice, "2");
    end(&scene);
}

static void test_two_delays_one_after_the_other_add_up(void **state)
{
    (void)state;
    struct scene scene;
    begin_delayed(&scene, "");
    send_allocate(scene.alice, 1, "slow1");
    send_allocate(scene.alice, 2, "slow2");
    memory_daemon_settle(&scene.daemon);
    memory_daemon_wait(&scene.daemon, 500);
    memory_daemon_settle(&scene.daemon);
    assert_next_id(scene.alice, "1");
    assert_null(memory_client_line(scene.alice));
    memory_daemon_wait(&scene.daemon, 500);
    memory_daemon_settle(&scene.daemon);
    assert_next_id(scene.alice, "2");
    end(&scene);
}

static void test_end_of_input_does_not_lose_a_delayed_line(void **state)
{
    (void)state;
    struct scene scene;
    begin_delayed(&scene, "");
    send_allocate(scene.alice, 1, "slow");
    send_allocate(scene.alice, 2, "after");
    memory_client_shut(scene.alice);
    memory_daemon_settle(&scene.daemon);
    assert_non_null(scene.alice->connection);
    memory_daemon_wait(&scene.daemon, 500);
    memory_daemon_settle(&scene.daemon);
    assert_next_id(scene.alice, "1");
    assert_next_id(scene.alice, "2");
    assert_null(scene.alice->connection);
    end(&scene);
}

static void test_who_goes_away_during_a_delay_leaves_nothing_behind(void **state)
{
    (void)state;
    struct scene scene;
    begin_delayed(&scene, "");
    call(scene.alice, "allocate", "\"requested_bytes\":5", "result");
    send_allocate(scene.alice, 1, "slow");
    memory_daemon_settle(&scene.daemon);
    memory_client_hang_up(scene.alice);
    memory_daemon_settle(&scene.daemon);
    memory_daemon_wait(&scene.daemon, 500);
    memory_daemon_settle(&scene.daemon);
    assert_int_equal(account(&scene, "active_allocations"), 0);
    end(&scene);
}

static void test_hurry_ends_this_delay_and_all_to_come(void **state)
{
    (void)state;
    struct scene scene;
    begin_delayed(&scene, "");
    send_allocate(scene.alice, 1, "slow1");
    send_allocate(scene.alice, 2, "slow2");
    memory_daemon_settle(&scene.daemon);
    connection_end_input(scene.alice->connection);
    connection_hurry(scene.alice->connection);
    memory_daemon_settle(&scene.daemon);
    assert_next_id(scene.alice, "1");
    assert_next_id(scene.alice, "2");
    assert_null(scene.alice->connection);
    assert_int_equal(account(&scene, "faults"), 2);
    end(&scene);
}

static void test_half_a_line_has_its_whole_time_after_a_delay(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "--max-half-line-seconds=1");
    inject(&scene, "\"action\":\"delay\",\"delay_ms\":60000,\"tag_prefix\":\"slow\"");
    send_allocate(scene.alice, 1, "slow");
    memory_client_send_text(scene.alice, "{\"id\":2,");
    memory_daemon_settle(&scene.daemon);
    memory_daemon_wait(&scene.daemon, 59999);
    memory_daemon_settle(&scene.daemon);
    memory_daemon_wait(&scene.daemon, 1);
    memory_daemon_settle(&scene.daemon);
    assert_next_id(scene.alice, "1");
    memory_daemon_wait(&scene.daemon, 999);
    memory_daemon_settle(&scene.daemon);
    memory_client_send_line(scene.alice, "\"method\":\"snapshot\"}");
    memory_daemon_settle(&scene.daemon);
    assert_next_id(scene.alice, "2");
    end(&scene);
}

static void test_a_delayed_line_is_not_judged_again(void **state)
{
    (void)state;
    struct scene scene;
    begin_delayed(&scene, "");
    inject(&scene, "\"action\":\"out_of_memory\",\"nth\":2,\"times\":1");
    send_allocate(scene.alice, 1, "slow");
    memory_daemon_settle(&scene.daemon);
    memory_daemon_wait(&scene.daemon, 500);
    memory_daemon_settle(&scene.daemon);
    assert_next_id(scene.alice, "1");
    call(scene.alice, "allocate", "\"requested_bytes\":5", "out_of_memory");
    end(&scene);
}

static void test_a_delayed_request_sees_what_happened_meanwhile(void **state)
{
    (void)state;
    struct scene scene;
    char handle[64];
    char line[TEXT_SIZE];
    begin(&scene, "");
    inject(&scene, "\"action\":\"delay\",\"delay_ms\":10,\"method\":\"free\",\"user\":1000");
    answer_text(call(scene.alice, "allocate", "\"requested_bytes\":5", "result"), "handle", handle,
                sizeof(handle));
    snprintf(line, sizeof(line), "{\"id\":1,\"method\":\"free\",\"params\":{\"handle\":\"%s\"}}",
             handle);
    memory_client_send_line(scene.alice, line);
    memory_daemon_settle(&scene.daemon);
    memory_client_ask(scene.root, line);
    memory_daemon_wait(&scene.daemon, 10);
    memory_daemon_settle(&scene.daemon);
    assert_kind(memory_client_line(scene.alice), "unknown_handle");
    end(&scene);
}

static void test_a_delayed_request_counts_once(void **state)
{
    (void)state;
    struct scene scene;
    begin_delayed(&scene, "");
    send_allocate(scene.alice, 1, "slow");
    memory_daemon_settle(&scene.daemon);
    memory_daemon_wait(&scene.daemon, 500);
    memory_daemon_settle(&scene.daemon);
    assert_int_equal(scene.alice->connection->counts.requests, 1);
    end(&scene);
}

/* -------------------------------------------------------------------------------- disconnects */

static void test_disconnect_before_carries_nothing_out(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "");
    inject(&scene, "\"action\":\"disconnect_before\",\"tag_prefix\":\"last\"");
    send_allocate(scene.alice, 1, "one");
    send_allocate(scene.alice, 2, "last");
    send_allocate(scene.alice, 3, "never");
    memory_daemon_settle(&scene.daemon);
    assert_null(scene.alice->connection);
    assert_next_id(scene.alice, "1"); /* what was answered before is still told */
    assert_null(memory_client_line(scene.alice));
    assert_int_equal(account(&scene, "active_allocations"), 0);
    assert_int_equal(account(&scene, "allocate_calls"), 1);
    assert_int_equal(account(&scene, "free_calls"), 1);
    end(&scene);
}

static void test_disconnect_after_carries_it_out_without_an_answer(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "");
    inject(&scene, "\"action\":\"disconnect_after\",\"tag_prefix\":\"last\"");
    send_allocate(scene.alice, 1, "one");
    memory_client_send_line(scene.alice, "{\"id\":2,\"method\":\"allocate\",\"params\":{"
                                         "\"requested_bytes\":5,\"tag\":\"last\",\"detached\":"
                                         "true}}");
    send_allocate(scene.alice, 3, "never");
    memory_daemon_settle(&scene.daemon);
    assert_null(scene.alice->connection);
    assert_next_id(scene.alice, "1");
    assert_null(memory_client_line(scene.alice));
    assert_int_equal(account(&scene, "allocate_calls"), 2);
    assert_int_equal(account(&scene, "active_allocations"), 1); /* the detached one */
    end(&scene);
}

static void test_disconnect_happens_to_any_method(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, "");
    inject(&scene, "\"action\":\"disconnect_after\",\"method\":\"trace_clear\"");
    call(scene.alice, "allocate", "\"requested_bytes\":5", "result");
    memory_client_send_line(scene.root, "{\"id\":1,\"method\":\"trace_clear\"}");
    memory_daemon_settle(&scene.daemon);
    assert_null(scene.root->connection);
    assert_null(memory_client_line(scene.root));
    assert_int_equal(answer_u64(call(scene.alice, "snapshot", "", "result"), "trace_events"), 0);
    end(&scene);
}

/* ------------------------------------------------------------------------------------ parity */

enum {
    PARITY_STEPS = 3000
};

/* The answers of a script of allocations and frees, one after the other. */
static char *play(struct memory_daemon *daemon, struct memory_client *client)
{
    char *all = NULL;
    size_t length = 0;
    FILE *text = open_memstream(&all, &length);
    assert_non_null(text);
    for (unsigned step = 0; step < PARITY_STEPS; step++) {
        char params[TEXT_SIZE];
        bool frees = step % 3 == 2;
        if (frees)
            snprintf(params, sizeof(params), "\"tag\":\"t%u\"", step - 1 - step % 2);
        else
            snprintf(params, sizeof(params), "\"requested_bytes\":%u,\"tag\":\"t%u\"",
                     1 + step * 7919 % 70000, step);
        char *answer = strdup(memory_client_call(client, frees ? "free" : "allocate", params));
        assert_non_null(answer);
        answer_scrub(answer);
        fprintf(text, "%s\n", answer);
        free(answer);
    }
    (void)daemon;
    fclose(text);
    return all;
}

static void test_rules_that_do_not_fire_change_no_decision(void **state)
{
    (void)state;
    struct scene plain;
    struct scene ruled;
    struct chaos chaos;
    chaos_init(&chaos);
    memory_daemon_start(&plain.daemon, &chaos, "--capacity=4MiB");
    memory_daemon_start(&ruled.daemon, &chaos, "--capacity=4MiB");
    ruled.root = memory_daemon_connect(&ruled.daemon, ROOT);
    inject(&ruled, "\"action\":\"out_of_memory\",\"nth\":1000000");
    inject(&ruled, "\"action\":\"quota_exceeded\",\"probability\":0.0,\"rule_seed\":7");
    inject(&ruled, "\"action\":\"forget\",\"every\":1000000");
    inject(&ruled, "\"action\":\"host_fallback\",\"tag_prefix\":\"nobody\"");
    char *one = play(&plain.daemon, memory_daemon_connect(&plain.daemon, ALICE));
    char *other = play(&ruled.daemon, memory_daemon_connect(&ruled.daemon, ALICE));
    assert_string_equal(one, other);
    assert_true(answer_count(one, "\"released\":false") > 0);
    assert_int_equal(account(&ruled, "faults"), 0);
    free(one);
    free(other);
    memory_daemon_end(&plain.daemon);
    memory_daemon_end(&ruled.daemon);
    assert_int_equal(chaos.live_pieces, 0);
    chaos_hook_cjson(NULL);
}

/* ------------------------------------------------------------------------------ --inject */

static void test_the_words_of_the_command_line_make_the_same_rule(void **state)
{
    (void)state;
    struct scene scene;
    char message[TEXT_SIZE] = "";
    char by_words[TEXT_SIZE];
    begin(&scene, "--inject=host --inject=forget");
    assert_int_equal(scene.daemon.server.rules.count, 2);
    assert_int_equal(rule_request_add_text(&scene.daemon.server,
                                           "oom --nth 10 --times 1 --min-size 1MiB", message,
                                           sizeof(message)),
                     WORSEGPU_OK);
    inject(&scene, "\"action\":\"out_of_memory\",\"nth\":10,\"times\":1,\"min_size\":1048576");
    const char *answer = call(scene.root, "rules", "\"after\":2", "result");
    const char *first = strstr(answer, "\"action\":");
    assert_non_null(first);
    const char *second = strstr(first + 1, "\"action\":");
    assert_non_null(second);
    size_t length = strcspn(first, "}");
    assert_true(length < sizeof(by_words));
    memcpy(by_words, first, length);
    assert_memory_equal(by_words, second, length);
    end(&scene);
}

static void test_bad_words_of_the_command_line_are_named(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"explode", "'explode'"},
        {"oom --nth", "--nth"},
        {"oom --min-size big", "'big'"},
        {"oom --nth 1 --every 2", "every"},
        {"oom --min-size 2 --max-size 1", "min_size"},
        {"delay", "delay_ms"},
        {"forget --method allocate", "allocate"},
        {"forget --allocator gpu9", "gpu9"},
        {"forget --allocator 'no name'", "allocator"},
    };
    struct scene scene;
    begin(&scene, "");
    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++) {
        char message[TEXT_SIZE] = "";
        assert_int_equal(
            rule_request_add_text(&scene.daemon.server, cases[index][0], message, sizeof(message)),
            WORSEGPU_INVALID_ARGUMENT);
        if (!strstr(message, cases[index][1]))
            fail_msg("no %s in %s", cases[index][1], message);
    }
    assert_int_equal(scene.daemon.server.rules.count, 0);
    end(&scene);
}

/* ------------------------------------------------------------------------------------- chaos */

static bool inject_in_chaos(struct chaos *chaos, void *context)
{
    struct memory_daemon daemon;
    (void)context;
    uint64_t fail_at = chaos->fail_at;
    bool for_good = chaos->for_good;
    chaos_arm(chaos, 0, false);
    memory_daemon_start(&daemon, chaos, "");
    struct memory_client *root = memory_daemon_connect(&daemon, ROOT);
    memory_client_call(root, "info", "");
    chaos_arm(chaos, fail_at, for_good);
    const char *answer = memory_client_call(
        root, "inject", "\"action\":\"out_of_memory\",\"tag_prefix\":\"\\u0061\"");
    bool fine = answer_member(answer, "result") != NULL;
    if (!fine)
        assert_kind(answer, "internal_error");
    assert_int_equal(daemon.server.rules.count, fine);
    bool failed = chaos->failed;
    chaos_arm(chaos, 0, false);
    memory_daemon_end(&daemon);
    chaos->failed = failed;
    return fine;
}

static void test_inject_without_memory_changes_nothing(void **state)
{
    (void)state;
    assert_true(chaos_loop(inject_in_chaos, NULL) >= 2);
    chaos_hook_cjson(NULL);
}

/* A delayed line, from its coming to its answer. */
static bool delay_in_chaos(struct chaos *chaos, void *context)
{
    struct memory_daemon daemon;
    (void)context;
    uint64_t fail_at = chaos->fail_at;
    bool for_good = chaos->for_good;
    chaos_arm(chaos, 0, false);
    memory_daemon_start(&daemon, chaos, "");
    struct memory_client *root = memory_daemon_connect(&daemon, ROOT);
    memory_client_call(root, "inject", "\"action\":\"delay\",\"delay_ms\":9,\"every\":1");
    chaos_arm(chaos, fail_at, for_good);
    send_allocate(root, 1, "a");
    memory_daemon_settle(&daemon);
    bool refused = false;
    const char *line = memory_client_line(root);
    if (line) {
        refused = true;
        assert_kind(line, "internal_error");
        assert_int_equal(TAILQ_FIRST(&daemon.server.rules.list)->fired, 0);
    }
    memory_daemon_wait(&daemon, 9);
    memory_daemon_settle(&daemon);
    line = refused ? NULL : memory_client_line(root);
    bool fine = line && answer_member(line, "result") != NULL;
    if (line && !fine)
        assert_kind(line, "internal_error");
    assert_null(memory_client_line(root));
    assert_true(refused || line || !root->connection); /* an answer, or at least an end */
    bool failed = chaos->failed;
    chaos_arm(chaos, 0, false);
    if (root->connection)
        assert_int_equal(answer_u64(memory_client_call(root, "snapshot", ""), "active_allocations"),
                         fine);
    memory_daemon_end(&daemon);
    chaos->failed = failed;
    return fine;
}

static void test_a_delayed_line_without_memory_is_answered_so(void **state)
{
    (void)state;
    assert_true(chaos_loop(delay_in_chaos, NULL) >= 2);
    chaos_hook_cjson(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inject_shows_the_rule_as_it_stands),
        cmocka_unit_test(test_what_does_not_go_together_is_named),
        cmocka_unit_test(test_rules_counts_matches_and_firings),
        cmocka_unit_test(test_rules_come_in_pages),
        cmocka_unit_test(test_a_thousand_of_the_longest_rules_lose_none_in_pages),
        cmocka_unit_test(test_no_more_than_max_rules),
        cmocka_unit_test(test_rules_clear_takes_one_or_all),
        cmocka_unit_test(test_only_admins_make_rules_about_what_is_shared),
        cmocka_unit_test(test_everybody_makes_rules_about_his_own_private_allocators),
        cmocka_unit_test(test_a_rule_ends_with_the_private_allocator_it_is_about),
        cmocka_unit_test(test_out_of_memory_comes_at_the_exact_call),
        cmocka_unit_test(test_quota_exceeded_says_that_a_rule_did_it),
        cmocka_unit_test(test_host_fallback_places_it_on_the_host),
        cmocka_unit_test(test_forget_forgets_the_block),
        cmocka_unit_test(test_a_free_by_handle_is_known_by_its_allocation),
        cmocka_unit_test(test_a_fault_is_an_event_with_all_that_is_known),
        cmocka_unit_test(test_a_fault_of_a_method_without_allocator_is_in_the_first_trace),
        cmocka_unit_test(test_a_refused_request_meets_no_rule),
        cmocka_unit_test(test_another_users_allocation_meets_no_rule_when_it_may_not_be_freed),
        cmocka_unit_test(test_a_notification_meets_rules_too),
        cmocka_unit_test(test_a_rule_meets_only_its_process_user_and_client),
        cmocka_unit_test(test_a_delay_holds_its_connection_and_keeps_the_order),
        cmocka_unit_test(test_others_go_on_while_one_is_delayed),
        cmocka_unit_test(test_nothing_is_read_during_a_delay),
        cmocka_unit_test(test_two_delays_one_after_the_other_add_up),
        cmocka_unit_test(test_end_of_input_does_not_lose_a_delayed_line),
        cmocka_unit_test(test_who_goes_away_during_a_delay_leaves_nothing_behind),
        cmocka_unit_test(test_hurry_ends_this_delay_and_all_to_come),
        cmocka_unit_test(test_half_a_line_has_its_whole_time_after_a_delay),
        cmocka_unit_test(test_a_delayed_line_is_not_judged_again),
        cmocka_unit_test(test_a_delayed_request_sees_what_happened_meanwhile),
        cmocka_unit_test(test_a_delayed_request_counts_once),
        cmocka_unit_test(test_disconnect_before_carries_nothing_out),
        cmocka_unit_test(test_disconnect_after_carries_it_out_without_an_answer),
        cmocka_unit_test(test_disconnect_happens_to_any_method),
        cmocka_unit_test(test_rules_that_do_not_fire_change_no_decision),
        cmocka_unit_test(test_the_words_of_the_command_line_make_the_same_rule),
        cmocka_unit_test(test_bad_words_of_the_command_line_are_named),
        cmocka_unit_test(test_inject_without_memory_changes_nothing),
        cmocka_unit_test(test_a_delayed_line_without_memory_is_answered_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
