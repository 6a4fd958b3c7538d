/* Who may do what, and see what: every method of the table for every kind of peer, and the trace
 * and the orphans through the eyes of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/methods.h"
#include "tests/support/memory_daemon.h"

enum {
    ALICE = 1000,
    BOB = 1001,
    CAROL = 1002, /* of the admin group */
    ROOT = 0
};

struct scene {
    struct memory_daemon daemon;
    struct memory_client *alice;
    struct memory_client *bob;
    struct memory_client *carol;
    struct memory_client *root;
};

static void begin(struct scene *scene, const char *words)
{
    const struct peer carol = {.uid = CAROL, .gid = 50, .pid = 77, .admin = true};
    memory_daemon_start(&scene->daemon, NULL, words);
    scene->alice = memory_daemon_connect(&scene->daemon, ALICE);
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

/* --------------------------------------------------------------------------------- every method */

/* What a method is allowed to, and how it is called. A new method is to be entered here. */
struct permission {
    enum method method;
    const char *params; /* about what is shared */
    bool admins_only;
};

static const struct permission permissions[] = {
    {METHOD_info, "", false},
    {METHOD_metrics, "", false},
    {METHOD_hello, "\"name\":\"me\"", false},
    {METHOD_open, "\"name\":\"mine\"", false},
    {METHOD_allocate, "\"requested_bytes\":10,\"tag\":\"t\"", false},
    {METHOD_record_stream, "\"tag\":\"t\",\"stream\":2", false},
    {METHOD_free, "\"tag\":\"t\"", false},
    {METHOD_event_done, "\"stream\":2", false},
    {METHOD_empty_cache, "", false},
    {METHOD_statistics, "", false},
    {METHOD_snapshot, "", false},
    {METHOD_map, "", false},
    {METHOD_trace, "", false},
    {METHOD_trace_clear, "", true},
    {METHOD_validate, "", false},
    {METHOD_list, "", false},
    {METHOD_resize, "\"gpu_capacity\":4096", true},
    {METHOD_clients, "", false},
    {METHOD_inject, "\"action\":\"out_of_memory\",\"nth\":1000,\"allocator\":\"gpu0\"", true},
    {METHOD_inject, "\"action\":\"out_of_memory\",\"nth\":1000", true},
    {METHOD_rules, "", false},
    {METHOD_subscribe, "\"after\":100", false},
    {METHOD_unsubscribe, "", false},
};

static void test_every_method_says_who_may_call_it(void **state)
{
    bool entered[METHODS] = {false};
    struct scene scene;
    (void)state;
    begin(&scene, "");
    for (size_t i = 0; i < sizeof(permissions) / sizeof(permissions[0]); i++) {
        const struct permission *permission = &permissions[i];
        const char *name = method_info(permission->method)->name;
        const char *kind = permission->admins_only ? "permission_denied" : "result";
        call(scene.alice, name, permission->params, kind);
        call(scene.bob, name, permission->params, kind);
        call(scene.carol, name, permission->params, "result");
        call(scene.root, name, permission->params, "result");
        entered[permission->method] = true;
    }
    entered[METHOD_close] = true;       /* nobody may close what is shared; see test_handlers */
    entered[METHOD_rules_clear] = true; /* clears what the peer may; see below */
    for (int method = 0; method < METHODS; method++)
        assert_true(entered[method]);
    end(&scene);
}

static void test_what_an_owner_may_do_with_its_private_allocator_is_everything(void **state)
{
    struct scene scene;
    char params[192];
    (void)state;
    begin(&scene, "");
    call(scene.alice, "open", "\"name\":\"mine\"", "result");
    for (size_t i = 0; i < sizeof(permissions) / sizeof(permissions[0]); i++) {
        const struct permission *permission = &permissions[i];
        if (!(method_info(permission->method)->takes >> PARAMETER_allocator & 1u) ||
            strstr(permission->params, "allocator"))
            continue;
        snprintf(params, sizeof(params), "%s%s\"allocator\":\"mine\"", permission->params,
                 *permission->params ? "," : "");
        const char *name = method_info(permission->method)->name;
        call(scene.alice, name, params, "result");
        call(scene.bob, name, params, "unknown_allocator");
        call(scene.root, name, params, "unknown_allocator");
    }
    call(scene.alice, "close", "\"allocator\":\"mine\"", "result");
    end(&scene);
}

static void test_what_is_denied_changes_nothing(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    call(scene.alice, "allocate", "\"requested_bytes\":10", "result");
    char *before = strdup(call(scene.root, "snapshot", "", "result"));
    assert_non_null(before);
    for (size_t i = 0; i < sizeof(permissions) / sizeof(permissions[0]); i++) {
        if (!permissions[i].admins_only)
            continue;
        call(scene.bob, method_info(permissions[i].method)->name, permissions[i].params,
             "permission_denied");
        assert_string_equal(call(scene.root, "snapshot", "", "result"), before);
        assert_true(answer_is(call(scene.root, "rules", "", "result"), "rules", "[]"));
    }
    free(before);
    end(&scene);
}

/* ----------------------------------------------------------------------------- the trace's texts
 */

/* How an event with a tag and a name is shown to each peer. */
static void assert_texts(struct memory_client *client, const char *tag, const char *name)
{
    const char *answer = call(client, "trace", "\"limit\":1", "result");
    assert_true(answer_is(answer, "tag", tag));
    assert_true(answer_is(answer, "name", name));
    assert_int_equal(answer_count(answer, "\"operation\":\"allocate\""), 1);
}

static void test_tags_and_names_of_other_users_are_null_in_the_trace(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    struct memory_client *alice_again = memory_daemon_connect(&scene.daemon, ALICE);
    call(scene.alice, "hello", "\"name\":\"loader\"", "result");
    call(scene.alice, "allocate", "\"requested_bytes\":10,\"tag\":\"weights\"", "result");
    assert_texts(scene.alice, "\"weights\"", "\"loader\"");
    assert_texts(alice_again, "\"weights\"", "\"loader\"");
    assert_texts(scene.root, "\"weights\"", "\"loader\"");
    assert_texts(scene.bob, "null", "null");
    assert_texts(scene.carol, "null", "null"); /* may change what is shared, not read it */
    end(&scene);
}

static void test_with_visibility_for_all_everybody_sees_tags_and_names(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    scene.daemon.server.trace_visible_to_all = true;
    call(scene.alice, "hello", "\"name\":\"loader\"", "result");
    call(scene.alice, "allocate", "\"requested_bytes\":10,\"tag\":\"weights\"", "result");
    assert_texts(scene.bob, "\"weights\"", "\"loader\"");
    assert_texts(scene.carol, "\"weights\"", "\"loader\"");
    end(&scene);
}

static void test_an_event_without_tag_or_name_has_neither_for_anybody(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    call(scene.alice, "allocate", "\"requested_bytes\":10", "result");
    struct memory_client *const peers[] = {scene.alice, scene.bob, scene.root};
    for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); i++) {
        const char *answer = call(peers[i], "trace", "", "result");
        assert_null(answer_member(answer, "tag"));
        assert_null(answer_member(answer, "name"));
        assert_int_equal(answer_u64(answer, "client"), 1);
    }
    end(&scene);
}

static void test_a_name_is_that_of_who_acted_and_the_tag_that_of_the_owner(void **state)
{
    struct scene scene;
    char handle[WORSEGPU_HANDLE_TEXT_SIZE];
    char params[128];
    (void)state;
    begin(&scene, "");
    call(scene.root, "hello", "\"name\":\"janitor\"", "result");
    answer_text(
        call(scene.alice, "allocate", "\"requested_bytes\":10,\"tag\":\"weights\"", "result"),
        "handle", handle, sizeof(handle));
    snprintf(params, sizeof(params), "\"handle\":\"%s\"", handle);
    call(scene.root, "free", params, "result");
    const struct {
        struct memory_client *peer;
        const char *tag;
        const char *name;
    } seen[] = {{scene.alice, "\"weights\"", "null"},
                {scene.bob, "null", "null"},
                {scene.root, "\"weights\"", "\"janitor\""}};
    for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++) {
        const char *answer = call(seen[i].peer, "trace", "\"after\":1", "result");
        assert_true(answer_is(answer, "operation", "\"free\""));
        assert_true(answer_is(answer, "tag", seen[i].tag));
        assert_true(answer_is(answer, "name", seen[i].name));
    }
    end(&scene);
}

static void test_a_name_is_shown_while_its_connection_lasts(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    call(scene.alice, "hello", "\"name\":\"loader\"", "result");
    call(scene.alice, "allocate", "\"requested_bytes\":10,\"tag\":\"weights\",\"detached\":true",
         "result");
    memory_client_hang_up(scene.alice);
    memory_daemon_settle(&scene.daemon);
    const char *answer = call(scene.root, "trace", "", "result");
    assert_true(answer_is(answer, "tag", "\"weights\""));
    assert_null(answer_member(answer, "name"));
    assert_int_equal(answer_u64(answer, "client"), 1);
    end(&scene);
}

static void test_a_failed_allocation_keeps_its_users_tag_from_others(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "--gpu-probability=1 --fallback-on-oom=false --capacity=1");
    call(scene.alice, "allocate", "\"requested_bytes\":10,\"tag\":\"weights\"", "out_of_memory");
    assert_true(answer_is(call(scene.alice, "trace", "", "result"), "tag", "\"weights\""));
    assert_true(answer_is(call(scene.bob, "trace", "", "result"), "tag", "null"));
    end(&scene);
}

/* ------------------------------------------------------------------------------------- orphans */

static void test_orphans_are_detached_allocations_whose_connection_has_ended(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "--forget-probability=0");
    struct memory_client *alice_again = memory_daemon_connect(&scene.daemon, ALICE);
    call(scene.alice, "allocate", "\"requested_bytes\":10,\"detached\":true", "result");
    call(scene.alice, "allocate", "\"requested_bytes\":11", "result");
    call(alice_again, "allocate", "\"requested_bytes\":12,\"detached\":true", "result");
    call(scene.bob, "allocate", "\"requested_bytes\":13,\"detached\":true", "result");
    assert_true(
        answer_is(call(scene.root, "list", "\"orphans\":true", "result"), "allocations", "[]"));
    memory_client_hang_up(scene.alice);
    memory_client_hang_up(scene.bob);
    scene.bob = memory_daemon_connect(&scene.daemon, BOB);
    memory_daemon_settle(&scene.daemon);
    const struct {
        struct memory_client *peer;
        const char *orphans; /* their sizes */
        size_t all;
    } seen[] = {{alice_again, "10", 2}, {scene.bob, "13", 1}, {scene.carol, "", 0}};
    for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++) {
        const char *answer = call(seen[i].peer, "list", "\"orphans\":true", "result");
        assert_int_equal(answer_count(answer, "\"handle\""), *seen[i].orphans ? 1 : 0);
        assert_true(!*seen[i].orphans || answer_is(answer, "requested_bytes", seen[i].orphans));
        assert_true(!*seen[i].orphans || answer_is(answer, "client", "null"));
        answer = call(seen[i].peer, "list", "\"orphans\":false", "result");
        assert_int_equal(answer_count(answer, "\"handle\""), seen[i].all);
    }
    const char *answer = call(scene.root, "list", "\"orphans\":true", "result");
    assert_int_equal(answer_count(answer, "\"handle\""), 2);
    end(&scene);
}

/* What an ended connection held is freed a piece a turn; it is no longer its own meanwhile. */
static void test_what_is_still_to_be_freed_belongs_to_nobody_and_is_no_orphan(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    scene.daemon.left_alone = true;
    call(scene.bob, "allocate", "\"requested_bytes\":10", "result");
    call(scene.bob, "allocate", "\"requested_bytes\":20,\"detached\":true", "result");
    memory_client_hang_up(scene.bob);
    const char *answer = call(scene.root, "list", "", "result");
    assert_int_equal(answer_count(answer, "\"client\":null"), 2);
    answer = call(scene.root, "list", "\"orphans\":true", "result");
    assert_int_equal(answer_count(answer, "\"handle\""), 1);
    assert_true(answer_is(answer, "requested_bytes", "20"));
    assert_int_equal(users_find(&scene.daemon.server.users, BOB)->account.allocations, 2);
    server_reap(&scene.daemon.server, scene.daemon.now);
    assert_int_equal(users_find(&scene.daemon.server.users, BOB)->account.allocations, 1);
    end(&scene);
}

static void test_who_ends_may_free_its_detached_ones_while_the_rest_is_being_freed(void **state)
{
    struct scene scene;
    char handles[2][WORSEGPU_HANDLE_TEXT_SIZE];
    char params[128];
    (void)state;
    begin(&scene, "");
    scene.daemon.left_alone = true;
    for (int i = 0; i < 2; i++)
        answer_text(call(scene.bob, "allocate",
                         i ? "\"requested_bytes\":10,\"detached\":true,\"tag\":\"t\""
                           : "\"requested_bytes\":20,\"tag\":\"u\"",
                         "result"),
                    "handle", handles[i], sizeof(handles[i]));
    memory_client_hang_up(scene.bob);
    scene.bob = memory_daemon_connect(&scene.daemon, BOB);
    for (int i = 0; i < 2; i++) {
        snprintf(params, sizeof(params), "\"handle\":\"%s\"", handles[i]);
        call(scene.bob, "free", params, "result");
    }
    assert_int_equal(users_find(&scene.daemon.server.users, BOB)->account.allocations, 0);
    assert_int_equal(scene.bob->connection->account.allocations, 0);
    scene.daemon.left_alone = false;
    memory_daemon_settle(&scene.daemon);
    call(scene.root, "validate", "", "result");
    end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_method_says_who_may_call_it),
        cmocka_unit_test(test_what_an_owner_may_do_with_its_private_allocator_is_everything),
        cmocka_unit_test(test_what_is_denied_changes_nothing),
        cmocka_unit_test(test_tags_and_names_of_other_users_are_null_in_the_trace),
        cmocka_unit_test(test_with_visibility_for_all_everybody_sees_tags_and_names),
        cmocka_unit_test(test_an_event_without_tag_or_name_has_neither_for_anybody),
        cmocka_unit_test(test_a_name_is_that_of_who_acted_and_the_tag_that_of_the_owner),
        cmocka_unit_test(test_a_name_is_shown_while_its_connection_lasts),
        cmocka_unit_test(test_a_failed_allocation_keeps_its_users_tag_from_others),
        cmocka_unit_test(test_orphans_are_detached_allocations_whose_connection_has_ended),
        cmocka_unit_test(test_what_is_still_to_be_freed_belongs_to_nobody_and_is_no_orphan),
        cmocka_unit_test(test_who_ends_may_free_its_detached_ones_while_the_rest_is_being_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
