/* Tests of daemon/handlers_clients.c: hello, clients and resize. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/memory_daemon.h"

enum {
    ALICE = 1000,
    BOB = 1001,
    CAROL = 1002, /* of the admin group */
    ROOT = 0,
    LONGEST_CLIENT = 1024, /* what the handlers leave room for */
    MANY = 17000           /* more than are looked at for one answer */
};

struct scene {
    struct memory_daemon daemon;
    struct memory_client *alice;
    struct memory_client *alice_again;
    struct memory_client *bob;
    struct memory_client *carol;
    struct memory_client *root;
};

static void begin(struct scene *scene, const char *words)
{
    const struct peer carol = {.uid = CAROL, .gid = 50, .pid = 77, .admin = true};
    memory_daemon_start(&scene->daemon, NULL, words);
    scene->alice = memory_daemon_connect(&scene->daemon, ALICE);
    scene->alice_again = memory_daemon_connect(&scene->daemon, ALICE);
    scene->bob = memory_daemon_connect(&scene->daemon, BOB);
    scene->carol = memory_daemon_connect_peer(&scene->daemon, carol);
    scene->root = memory_daemon_connect(&scene->daemon, ROOT);
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

/* ---------------------------------------------------------------------------------------- hello */

static void test_hello_names_the_connection_until_the_next_one(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    assert_string_equal(
        call(scene.alice, "hello", "\"name\":\"loader.1\"", "result"),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"client\":1,\"name\":\"loader.1\"}}");
    assert_true(answer_is(call(scene.alice, "clients", "", "result"), "name", "\"loader.1\""));
    char longest[64 + 1];
    char params[96];
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    snprintf(params, sizeof(params), "\"name\":\"%s\"", longest);
    call(scene.alice, "hello", params, "result");
    assert_string_equal(scene.alice->connection->name, longest);
    assert_true(answer_is(call(scene.alice, "hello", "\"name\":\"a\"", "result"), "name", "\"a\""));
    assert_true(answer_is(call(scene.alice, "clients", "", "result"), "name", "\"a\""));
    call(scene.alice_again, "hello", "\"name\":\"a\"", "result"); /* for display: twice is fine */
    end(&scene);
}

static void test_a_name_that_is_none_is_refused_and_the_old_one_stays(void **state)
{
    static const char *const wrong[] = {
        "",
        "\"name\":\"\"",
        "\"name\":\"-x\"",
        "\"name\":\"a b\"",
        "\"name\":7",
        "\"name\":null",
        "\"name\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"",
    };
    struct scene scene;
    (void)state;
    begin(&scene, "");
    call(scene.alice, "hello", "\"name\":\"old\"", "result");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const char *answer = call(scene.alice, "hello", wrong[i], "invalid_params");
        assert_true(answer_is(answer, "param", "\"name\""));
        assert_string_equal(scene.alice->connection->name, "old");
    }
    end(&scene);
}

/* -------------------------------------------------------------------------------------- clients */

static void test_a_client_is_shown_with_all_that_is_known_of_it(void **state)
{
    struct memory_daemon daemon;
    char expected[1024];
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    const struct peer peer = {.uid = CAROL, .gid = 50, .pid = 77};
    struct memory_client *carol = memory_daemon_connect_peer(&daemon, peer);
    memory_daemon_wait(&daemon, 61999);
    const char *answer = call(carol, "clients", "", "result");
    snprintf(expected, sizeof(expected),
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"clients\":[{\"client\":1,\"name\":null,"
             "\"user\":1002,\"group\":50,\"process\":77,\"you\":true,"
             "\"connected_us\":1700000000000000,\"connected_seconds\":61,\"allocations\":0,"
             "\"gpu_bytes\":0,\"cpu_bytes\":0,\"detached\":0,\"private_allocators\":0,"
             "\"requests\":0,\"errors\":0,\"bytes_in\":%zu,\"bytes_out\":0}],"
             "\"next\":1,\"more\":false}}",
             strlen("{\"id\":1,\"method\":\"clients\",\"params\":{}}\n"));
    assert_string_equal(answer, expected);
    memory_daemon_end(&daemon);
}

static void test_clients_counts_requests_errors_and_bytes(void **state)
{
    static const char lines[] = "{\"id\":1,\"method\":\"snapshot\"}\n"
                                "\n"
                                "{\"id\":2,\"method\":\"nothing\"}\n"
                                "no json\n"
                                "{\"method\":\"free\",\"params\":{\"tag\":\"t\"}}\n"
                                "{\"method\":\"snapshot\"}\n";
    struct scene scene;
    size_t told = 0;
    size_t count = 0;
    const char *line;
    (void)state;
    begin(&scene, "");
    memory_client_send_text(scene.alice, lines);
    memory_daemon_settle(&scene.daemon);
    for (; (line = memory_client_line(scene.alice)) != NULL; count++)
        told += strlen(line) + 1;
    assert_int_equal(count, 3);
    const char *answer = call(scene.alice_again, "clients", "\"limit\":1", "result");
    assert_int_equal(answer_u64(answer, "client"), 1);
    assert_int_equal(answer_u64(answer, "requests"), 5); /* an empty line is none */
    assert_int_equal(answer_u64(answer, "errors"), 3);   /* a notification's too */
    assert_int_equal(answer_u64(answer, "bytes_in"), strlen(lines));
    assert_int_equal(answer_u64(answer, "bytes_out"), told);
    end(&scene);
}

/* The client of that number as root sees it. */
static const char *shown(struct scene *scene, uint64_t number)
{
    char params[64];
    snprintf(params, sizeof(params), "\"after\":%" PRIu64 ",\"limit\":1", number - 1);
    const char *answer = call(scene->root, "clients", params, "result");
    assert_int_equal(answer_u64(answer, "client"), number);
    return answer;
}

static void assert_holds(struct scene *scene, uint64_t number, uint64_t allocations,
                         uint64_t gpu_bytes, uint64_t cpu_bytes, uint64_t detached)
{
    const char *answer = shown(scene, number);
    assert_int_equal(answer_u64(answer, "allocations"), allocations);
    assert_int_equal(answer_u64(answer, "gpu_bytes"), gpu_bytes);
    assert_int_equal(answer_u64(answer, "cpu_bytes"), cpu_bytes);
    assert_int_equal(answer_u64(answer, "detached"), detached);
}

static void test_clients_shows_what_is_held_in_all_allocators(void **state)
{
    struct scene scene;
    char handle[WORSEGPU_HANDLE_TEXT_SIZE];
    char params[128];
    (void)state;
    begin(&scene, "--policy=reference --capacity=1000");
    call(scene.alice, "open", "\"name\":\"mine\",\"policy\":\"reference\"", "result");
    call(scene.alice, "allocate", "\"requested_bytes\":600,\"tag\":\"gpu\"", "result");
    call(scene.alice, "allocate", "\"requested_bytes\":700,\"tag\":\"cpu\"", "result");
    call(scene.alice, "allocate", "\"requested_bytes\":50,\"allocator\":\"mine\",\"detached\":true",
         "result");
    answer_text(call(scene.alice, "allocate", "\"requested_bytes\":5,\"detached\":true", "result"),
                "handle", handle, sizeof(handle));
    assert_holds(&scene, 1, 4, 655, 700, 2);
    assert_int_equal(answer_u64(shown(&scene, 1), "private_allocators"), 1);
    assert_holds(&scene, 2, 0, 0, 0, 0);
    call(scene.alice, "close", "\"allocator\":\"mine\"", "result");
    assert_holds(&scene, 1, 3, 605, 700, 1);
    /* Freed on another connection, it is its maker that holds less. */
    snprintf(params, sizeof(params), "\"handle\":\"%s\"", handle);
    call(scene.alice_again, "free", params, "result");
    assert_holds(&scene, 1, 2, 600, 700, 0);
    assert_holds(&scene, 2, 0, 0, 0, 0);
    call(scene.alice, "free", "\"tag\":\"gpu\"", "result");
    assert_holds(&scene, 1, 1, 0, 700, 0);
    call(scene.alice, "free", "\"tag\":\"cpu\"", "result");
    assert_holds(&scene, 1, 0, 0, 0, 0);
    end(&scene);
}

static void test_what_an_ended_connection_left_is_held_by_no_client(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "--policy=reference");
    call(scene.alice, "allocate", "\"requested_bytes\":5,\"detached\":true", "result");
    memory_client_hang_up(scene.alice);
    memory_daemon_settle(&scene.daemon);
    const char *answer = call(scene.alice_again, "clients", "", "result");
    assert_int_equal(answer_count(answer, "\"client\""), 1);
    assert_int_equal(answer_u64(answer, "client"), 2);
    assert_int_equal(answer_u64(answer, "detached"), 0);
    assert_int_equal(users_find(&scene.daemon.server.users, ALICE)->account.detached, 1);
    end(&scene);
}

static void test_a_peer_sees_its_own_users_clients_and_an_admin_all(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    const struct {
        struct memory_client *peer;
        bool sees[5]; /* by number: alice twice, bob, carol, root */
    } peers[] = {
        {scene.alice, {true, true, false, false, false}},
        {scene.alice_again, {true, true, false, false, false}},
        {scene.bob, {false, false, true, false, false}},
        {scene.carol, {true, true, true, true, true}},
        {scene.root, {true, true, true, true, true}},
    };
    for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); i++) {
        const char *answer = call(peers[i].peer, "clients", "", "result");
        for (int number = 1; number <= 5; number++) {
            char text[32];
            snprintf(text, sizeof(text), "\"client\":%d,", number);
            assert_int_equal(answer_count(answer, text), peers[i].sees[number - 1]);
        }
        char you[96];
        snprintf(you, sizeof(you), "\"process\":%d,\"you\":true",
                 (int)peers[i].peer->connection->peer.pid);
        assert_int_equal(answer_count(answer, you), 1);
        assert_int_equal(answer_count(answer, "\"you\":true"), 1);
        assert_true(answer_is(answer, "more", "false"));
    }
    end(&scene);
}

static void test_clients_goes_on_where_the_page_before_ended(void **state)
{
    struct scene scene;
    char seen[8] = "";
    uint64_t after = 0;
    (void)state;
    begin(&scene, "");
    memory_client_hang_up(scene.bob); /* a number that is not there any more */
    for (bool more = true; more;) {
        char params[64];
        snprintf(params, sizeof(params), "\"after\":%" PRIu64 ",\"limit\":1", after);
        const char *answer = call(scene.root, "clients", params, "result");
        assert_int_equal(answer_count(answer, "\"client\":"), 1);
        snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%" PRIu64,
                 answer_u64(answer, "client"));
        assert_int_equal(answer_u64(answer, "next"), answer_u64(answer, "client"));
        after = answer_u64(answer, "next");
        more = answer_is(answer, "more", "true");
    }
    assert_string_equal(seen, "1245");
    const char *answer = call(scene.root, "clients", "\"after\":18446744073709551615", "result");
    assert_true(answer_is(answer, "clients", "[]"));
    assert_true(answer_is(answer, "next", "18446744073709551615"));
    assert_true(answer_is(answer, "more", "false"));
    end(&scene);
}

static void test_one_answer_looks_at_so_many_clients_and_the_next_goes_on(void **state)
{
    static struct connection *connections[MANY];
    struct memory_daemon daemon;
    char params[64];
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *first = memory_daemon_connect(&daemon, ALICE);
    for (size_t i = 0; i < MANY; i++) {
        connections[i] = connection_create(&daemon.server, (struct peer){.uid = BOB}, daemon.now);
        assert_non_null(connections[i]);
    }
    struct memory_client *last = memory_daemon_connect(&daemon, ALICE);
    const char *answer = call(first, "clients", "", "result");
    assert_int_equal(answer_count(answer, "\"client\":"), 1);
    assert_true(answer_is(answer, "more", "true"));
    uint64_t next = answer_u64(answer, "next");
    assert_in_range(next, 1000, MANY);
    snprintf(params, sizeof(params), "\"after\":%" PRIu64, next);
    answer = call(first, "clients", params, "result");
    assert_int_equal(answer_u64(answer, "client"), last->connection->number);
    assert_true(answer_is(answer, "more", "false"));
    for (size_t i = 0; i < MANY; i++)
        connection_destroy(connections[i]);
    memory_daemon_end(&daemon);
}

static void test_no_client_is_longer_than_there_is_room_for(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    struct connection *bob = scene.bob->connection;
    const struct connection real = *bob;
    memset(bob->name, 'n', sizeof(bob->name) - 1);
    bob->peer = (struct peer){.uid = UINT32_MAX, .gid = UINT32_MAX, .pid = INT32_MIN};
    memset(&bob->account, 0xff, sizeof(bob->account));
    memset(&bob->counts, 0xff, sizeof(bob->counts));
    bob->connected =
        (struct moment){.wall_us = UINT64_MAX, .monotonic_ms = scene.daemon.now.monotonic_ms + 1};
    bob->allocator_count = UINT64_MAX;
    assert_in_range(strlen(shown(&scene, 3)), 400, LONGEST_CLIENT);
    bob->peer = real.peer;
    bob->account = real.account;
    bob->allocator_count = real.allocator_count;
    end(&scene);
}

/* --------------------------------------------------------------------------------------- resize */

static void test_resize_changes_the_capacity_of_a_shared_allocator_for_all(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "--policy=reference --capacity=1000 --seed=7");
    call(scene.alice, "allocate", "\"requested_bytes\":600", "result");
    const char *answer = call(scene.carol, "resize", "\"gpu_capacity\":599", "result");
    assert_true(answer_is(answer, "name", "\"gpu0\""));
    assert_true(answer_is(answer, "gpu_capacity", "599"));
    assert_true(answer_is(answer, "shared", "true"));
    answer = call(scene.bob, "snapshot", "", "result");
    assert_int_equal(answer_u64(answer, "gpu_capacity"), 599);
    assert_int_equal(answer_u64(answer, "gpu_reserved"), 600); /* what is reserved stays so */
    assert_int_equal(answer_u64(answer, "gpu_unreserved"), 0);
    assert_true(answer_is(call(scene.bob, "info", "", "result"), "gpu_capacity", "599"));
    answer = call(scene.bob, "allocate", "\"requested_bytes\":1", "result");
    assert_true(answer_is(answer, "reason", "\"gpu_oom\""));
    call(scene.root, "resize", "\"gpu_capacity\":2000,\"allocator\":\"gpu0\"", "result");
    answer = call(scene.bob, "allocate", "\"requested_bytes\":1400", "result");
    assert_true(answer_is(answer, "device", "\"gpu\""));
    call(scene.bob, "validate", "", "result");
    end(&scene);
}

static void test_resize_of_a_shared_allocator_is_for_admins_only(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "--capacity=1000");
    call(scene.alice, "resize", "\"gpu_capacity\":1", "permission_denied");
    call(scene.bob, "resize", "\"gpu_capacity\":1,\"allocator\":\"gpu0\"", "permission_denied");
    assert_int_equal(answer_u64(call(scene.bob, "snapshot", "", "result"), "gpu_capacity"), 1000);
    end(&scene);
}

static void test_a_private_allocator_is_resized_by_its_owner(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "--capacity=1000");
    call(scene.alice, "open", "\"name\":\"mine\"", "result");
    const char *answer =
        call(scene.alice, "resize", "\"gpu_capacity\":77,\"allocator\":\"mine\"", "result");
    assert_true(answer_is(answer, "gpu_capacity", "77"));
    assert_true(answer_is(answer, "shared", "false"));
    call(scene.root, "resize", "\"gpu_capacity\":5,\"allocator\":\"mine\"", "unknown_allocator");
    call(scene.alice_again, "resize", "\"gpu_capacity\":5,\"allocator\":\"mine\"",
         "unknown_allocator");
    answer = call(scene.alice, "snapshot", "\"allocator\":\"mine\"", "result");
    assert_int_equal(answer_u64(answer, "gpu_capacity"), 77);
    assert_int_equal(answer_u64(call(scene.alice, "snapshot", "", "result"), "gpu_capacity"), 1000);
    end(&scene);
}

static void test_a_capacity_that_is_none_is_refused_and_changes_nothing(void **state)
{
    static const char *const wrong[] = {
        "",
        "\"gpu_capacity\":0",
        "\"gpu_capacity\":-1",
        "\"gpu_capacity\":9007199254740992",
        "\"gpu_capacity\":1.0",
        "\"gpu_capacity\":\"1\"",
        "\"gpu_capacity\":null",
    };
    struct scene scene;
    (void)state;
    begin(&scene, "--capacity=1000");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const char *answer = call(scene.root, "resize", wrong[i], "invalid_params");
        assert_true(answer_is(answer, "param", "\"gpu_capacity\""));
    }
    assert_int_equal(answer_u64(call(scene.bob, "snapshot", "", "result"), "gpu_capacity"), 1000);
    call(scene.root, "resize", "\"gpu_capacity\":9007199254740991", "result");
    end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hello_names_the_connection_until_the_next_one),
        cmocka_unit_test(test_a_name_that_is_none_is_refused_and_the_old_one_stays),
        cmocka_unit_test(test_a_client_is_shown_with_all_that_is_known_of_it),
        cmocka_unit_test(test_clients_counts_requests_errors_and_bytes),
        cmocka_unit_test(test_clients_shows_what_is_held_in_all_allocators),
        cmocka_unit_test(test_what_an_ended_connection_left_is_held_by_no_client),
        cmocka_unit_test(test_a_peer_sees_its_own_users_clients_and_an_admin_all),
        cmocka_unit_test(test_clients_goes_on_where_the_page_before_ended),
        cmocka_unit_test(test_one_answer_looks_at_so_many_clients_and_the_next_goes_on),
        cmocka_unit_test(test_no_client_is_longer_than_there_is_room_for),
        cmocka_unit_test(test_resize_changes_the_capacity_of_a_shared_allocator_for_all),
        cmocka_unit_test(test_resize_of_a_shared_allocator_is_for_admins_only),
        cmocka_unit_test(test_a_private_allocator_is_resized_by_its_owner),
        cmocka_unit_test(test_a_capacity_that_is_none_is_refused_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
