/* Several users share one real daemon: who sees what, who may do what, who may hold how much, and
 * what is left of processes that die.
 *
 * Users are real: the kernel tells the daemon who connects. It takes root to be two of them, so
 * that for anybody else most of these tests are skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/real_ask.h"
#include "tests/support/real_daemon.h"

enum {
    ALICE = 54001, /* users and groups that nobody is in */
    BOB = 54002,
    STRANGERS = 54003,
    HIGHEST_GROUP = 2000, /* where to look for one that exists */
    KIB = 1024,
    MIB = 1024 * 1024
};

/* -------------------------------------------------------------------------------- other users */

static bool can_be_others(void)
{
    if (getuid() == 0)
        return true;
    print_message("it takes root to be two users\n");
    return false;
}

/* Root again, whoever we were. */
static int be_root(void)
{
    return seteuid(0) != 0 || setegid(0) != 0 || setgroups(0, NULL) != 0;
}

/* As real_room_tear_down; a test may have failed while it was another user. */
static int leave_room(void **state)
{
    int failed = getuid() == 0 && be_root();
    return real_room_tear_down(state) || failed;
}

#define AS_OTHERS(test) cmocka_unit_test_setup_teardown(test, real_room_set_up, leave_room)

/* A connection that the kernel says is of this user and group, and of one more group unless that is
 * 0. */
static struct real_client *connect_as(const struct real_daemon *daemon, uid_t user, gid_t group,
                                      gid_t more)
{
    assert_int_equal(setgroups(more ? 1 : 0, &more), 0);
    assert_int_equal(setegid(group), 0);
    assert_int_equal(seteuid(user), 0);
    struct real_client *client = real_daemon_connect(daemon);
    assert_int_equal(be_root(), 0);
    return client;
}

static struct real_client *as_user(const struct real_daemon *daemon, uid_t user)
{
    return connect_as(daemon, user, user, 0);
}

/* Lets every user in. */
static void open_socket(const struct real_daemon *daemon)
{
    assert_int_equal(chmod(daemon->socket_path, 0666), 0);
}

/* ------------------------------------------------------------------------------------- asking */

static uint64_t snapshot_number(struct real_client *client, const char *allocator, const char *path)
{
    return real_json_number(real_ask(client, "snapshot", "'allocator':'%s'", allocator), path);
}

static void expect_valid(struct real_client *client, const char *allocator)
{
    assert_true(real_json_true(real_ask(client, "validate", "'allocator':'%s'", allocator),
                               "result.valid"));
}

/* The handle of a new allocation. */
static const char *allocate(struct real_room *room, struct real_client *client, unsigned bytes,
                            const char *more)
{
    return real_room_text(
        room, "%s",
        real_json_text(real_ask(client, "allocate", "'requested_bytes':%u%s", bytes, more),
                       "result.handle"));
}

static void expect_quota(const cJSON *reply, const char *which, uint64_t limit, uint64_t used)
{
    real_json_expect_error(reply, "quota_exceeded");
    assert_string_equal(real_json_text(reply, "error.data.which"), which);
    assert_int_equal(real_json_number(reply, "error.data.limit"), limit);
    assert_int_equal(real_json_number(reply, "error.data.used"), used);
    assert_int_equal(real_json_number(reply, "error.data.left"), limit - used);
}

static void wait_for_clients(struct real_client *root, unsigned count)
{
    struct real_wait wait = {0};
    while (real_json_count(real_ask(root, "clients", " "), "result.clients") != count)
        real_wait_more(&wait);
}

/* ------------------------------------------------------------------------------ whose is what */

static void test_list_shows_a_user_its_own_and_root_everybody_s(void **state)
{
    if (!can_be_others())
        skip();
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    open_socket(&daemon);
    struct real_client *alice = as_user(&daemon, ALICE);
    struct real_client *alice_too = as_user(&daemon, ALICE);
    struct real_client *bob = as_user(&daemon, BOB);
    struct real_client *root = real_daemon_connect(&daemon);
    const char *handle = allocate(*state, alice, 100, "");
    allocate(*state, alice_too, 100, "");
    allocate(*state, bob, 100, "");
    const cJSON *reply = real_ask(alice, "list", " ");
    assert_int_equal(real_json_count(reply, "result.allocations"), 2);
    assert_string_equal(real_json_text(reply, "result.allocations.0.handle"), handle);
    reply = real_ask(bob, "list", " ");
    assert_int_equal(real_json_count(reply, "result.allocations"), 1);
    assert_int_equal(real_json_number(reply, "result.allocations.0.allocation_id"), 3);
    assert_int_equal(real_json_count(real_ask(root, "list", " "), "result.allocations"), 3);
    real_daemon_stop(&daemon);
}

static void test_to_free_takes_the_handle_and_the_same_user(void **state)
{
    if (!can_be_others())
        skip();
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    open_socket(&daemon);
    struct real_client *alice = as_user(&daemon, ALICE);
    struct real_client *alice_too = as_user(&daemon, ALICE);
    struct real_client *bob = as_user(&daemon, BOB);
    struct real_client *root = real_daemon_connect(&daemon);
    const char *first = allocate(*state, alice, 100, ",'tag':'a'");
    const char *second = allocate(*state, alice, 100, "");
    real_json_expect_error(real_ask(bob, "free", "'handle':'%s'", first), "permission_denied");
    real_json_expect_error(real_ask(bob, "free", "'tag':'a'"), "unknown_handle");
    assert_int_equal(snapshot_number(root, "gpu0", "result.active_allocations"), 2);
    real_json(real_ask(alice_too, "free", "'handle':'%s'", first), "result.released");
    real_json(real_ask(root, "free", "'handle':'%s'", second), "result.released");
    real_json_expect_error(real_ask(bob, "free", "'handle':'%s'", first), "unknown_handle");
    assert_int_equal(snapshot_number(root, "gpu0", "result.active_allocations"), 0);
    expect_valid(root, "gpu0");
    real_daemon_stop(&daemon);
}

/* Whether tag and name of the first event are shown to a client. */
static void expect_texts(struct real_client *client, bool shown)
{
    const cJSON *reply = real_ask(client, "trace", " ");
    assert_string_equal(real_json_text(reply, "result.events.0.operation"), "allocate");
    assert_int_equal(real_json_number(reply, "result.events.0.requested_bytes"), 100);
    assert_int_equal(cJSON_IsNull(real_json(reply, "result.events.0.tag")), !shown);
    assert_int_equal(cJSON_IsNull(real_json(reply, "result.events.0.name")), !shown);
    real_json(real_ask(client, "subscribe", "'after':0"), "result.next");
    const cJSON *event = real_client_reply(client);
    assert_int_equal(real_json_number(event, "params.event.sequence"), 1);
    assert_int_equal(cJSON_IsNull(real_json(event, "params.event.tag")), !shown);
    assert_int_equal(cJSON_IsNull(real_json(event, "params.event.name")), !shown);
    if (shown)
        assert_string_equal(real_json_text(event, "params.event.tag"), "secret");
}

static void test_tags_and_names_of_others_are_null(void **state)
{
    if (!can_be_others())
        skip();
    static const char *const visibilities[] = {"own", "all"};
    for (unsigned index = 0; index < 2; index++) {
        struct real_daemon daemon =
            real_daemon_start(*state, "--trace-visibility", visibilities[index], NULL);
        open_socket(&daemon);
        struct real_client *alice = as_user(&daemon, ALICE);
        real_ask(alice, "hello", "'name':'alice'");
        allocate(*state, alice, 100, ",'tag':'secret'");
        expect_texts(as_user(&daemon, BOB), index == 1);
        expect_texts(as_user(&daemon, ALICE), true);
        expect_texts(real_daemon_connect(&daemon), true);
        real_daemon_stop(&daemon);
    }
}

static void test_faults_of_others_show_no_tag_either(void **state)
{
    if (!can_be_others())
        skip();
    struct real_daemon daemon = real_daemon_start(*state, "--inject", "oom", NULL);
    open_socket(&daemon);
    real_ask(as_user(&daemon, ALICE), "allocate", "'requested_bytes':100,'tag':'secret'");
    const cJSON *reply = real_ask(as_user(&daemon, BOB), "trace", " ");
    assert_string_equal(real_json_text(reply, "result.events.0.action"), "out_of_memory");
    assert_true(cJSON_IsNull(real_json(reply, "result.events.0.tag")));
    real_daemon_stop(&daemon);
}

static void test_clients_shows_a_user_its_own_and_an_admin_all(void **state)
{
    if (!can_be_others())
        skip();
    struct real_daemon daemon = real_daemon_start(*state, NULL);
    open_socket(&daemon);
    struct real_client *root = real_daemon_connect(&daemon);
    struct real_client *alice = as_user(&daemon, ALICE);
    struct real_client *bob = connect_as(&daemon, BOB, STRANGERS, 0);
    real_ask(alice, "hello", "'name':'trainer'");
    real_ask(alice, "allocate", "'requested_bytes':100,'detached':true");
    real_ask(alice, "open", "'name':'mine','gpu_probability':0");
    real_ask(alice, "allocate", "'requested_bytes':77,'allocator':'mine'");
    real_json_expect_error(real_ask(alice, "free", "'tag':'x'"), "unknown_handle");
    const cJSON *reply = real_ask(bob, "clients", " ");
    assert_int_equal(real_json_count(reply, "result.clients"), 1);
    assert_int_equal(real_json_number(reply, "result.clients.0.user"), BOB);
    assert_int_equal(real_json_number(reply, "result.clients.0.group"), STRANGERS);
    assert_int_equal(real_json_number(reply, "result.clients.0.process"), getpid());
    assert_true(real_json_true(reply, "result.clients.0.you"));
    reply = real_ask(root, "clients", " ");
    assert_int_equal(real_json_count(reply, "result.clients"), 3);
    const cJSON *item = real_json(reply, "result.clients.1");
    assert_string_equal(real_json_text(item, "name"), "trainer");
    assert_int_equal(real_json_number(item, "user"), ALICE);
    assert_false(real_json_true(item, "you"));
    assert_int_equal(real_json_number(item, "allocations"), 2);
    assert_int_equal(real_json_number(item, "detached"), 1);
    assert_int_equal(real_json_number(item, "private_allocators"), 1);
    assert_int_equal(real_json_number(item, "requests"), 5);
    assert_int_equal(real_json_number(item, "errors"), 1);
    assert_true(real_json_number(item, "cpu_bytes") >= 77);
    real_daemon_stop(&daemon);
}

/* --------------------------------------------------------------------------- who may change what
 */

/* What is shared may be changed by this client, or not. */
static void expect_admin(struct real_client *client, bool admin)
{
    static const struct {
        const char *method;
        const char *parameters;
    } cases[] = {
        {"trace_clear", " "},
        {"resize", "'gpu_capacity':1000000"},
        {"inject", "'action':'out_of_memory','nth':1000000"},
        {"inject", "'action':'out_of_memory','nth':1000000,'allocator':'gpu0'"},
    };
    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++) {
        const cJSON *reply = real_ask(client, cases[index].method, "%s", cases[index].parameters);
        if (admin)
            real_json(reply, "result");
        else
            real_json_expect_error(reply, "permission_denied");
    }
    const cJSON *reply = real_ask(client, "rules", " ");
    if (admin)
        assert_true(real_json_count(reply, "result.rules") >= 2);
    else
        assert_int_equal(real_json_count(reply, "result.rules"), 0);
    reply = real_ask(client, "rules_clear", "'rule':1");
    if (admin)
        assert_int_equal(real_json_number(reply, "result.cleared"), 1);
    else
        real_json_expect_error(reply, "permission_denied");
    reply = real_ask(client, "rules_clear", " ");
    if (admin)
        assert_true(real_json_number(reply, "result.cleared") >= 1);
    else
        assert_int_equal(real_json_number(reply, "result.cleared"), 0);
}

static void test_a_plain_user_changes_nothing_that_is_shared(void **state)
{
    if (!can_be_others())
        skip();
    struct real_daemon daemon =
        real_daemon_start(*state, "--seed", "1", "--inject", "oom --nth 1000", NULL);
    open_socket(&daemon);
    struct real_client *root = real_daemon_connect(&daemon);
    struct real_client *alice = as_user(&daemon, ALICE);
    allocate(*state, alice, 100, "");
    expect_admin(alice, false);
    assert_int_equal(snapshot_number(root, "gpu0", "result.gpu_capacity"), 64 * MIB);
    assert_int_equal(snapshot_number(root, "gpu0", "result.trace_events"), 1);
    assert_int_equal(real_json_count(real_ask(root, "rules", " "), "result.rules"), 1);
    real_daemon_stop(&daemon);
}

static void test_with_a_private_allocator_a_plain_user_may_do_all(void **state)
{
    if (!can_be_others())
        skip();
    struct real_daemon daemon = real_daemon_start(*state, "--inject", "oom --nth 1000", NULL);
    open_socket(&daemon);
    struct real_client *alice = as_user(&daemon, ALICE);
    struct real_client *alice_too = as_user(&daemon, ALICE);
    real_ask(alice, "open", "'name':'mine','trace_limit':10");
    real_json(real_ask(alice, "resize", "'gpu_capacity':1000,'allocator':'mine'"),
              "result.gpu_capacity");
    const cJSON *reply =
        real_ask(alice, "inject", "'action':'out_of_memory','allocator':'mine','every':2");
    assert_int_equal(real_json_number(reply, "result.rule"), 2);
    real_json(real_ask(alice, "allocate", "'requested_bytes':1,'allocator':'mine'"),
              "result.handle");
    real_json_expect_error(real_ask(alice, "allocate", "'requested_bytes':1,'allocator':'mine'"),
                           "out_of_memory");
    assert_int_equal(
        real_json_number(real_ask(alice, "trace_clear", "'allocator':'mine'"), "result.cleared"),
        2);
    assert_int_equal(real_json_count(real_ask(alice, "rules", " "), "result.rules"), 1);
    assert_int_equal(real_json_count(real_ask(alice_too, "rules", " "), "result.rules"), 0);
    real_json_expect_error(real_ask(alice_too, "rules_clear", "'rule':2"), "permission_denied");
    real_json_expect_error(real_ask(alice, "rules_clear", "'rule':1"), "permission_denied");
    assert_int_equal(real_json_number(real_ask(alice, "rules_clear", " "), "result.cleared"), 1);
    real_daemon_stop(&daemon);
}

static void test_root_is_an_admin(void **state)
{
    if (!can_be_others())
        skip();
    struct real_daemon daemon = real_daemon_start(*state, "--inject", "oom --nth 1000", NULL);
    expect_admin(real_daemon_connect(&daemon), true);
    real_daemon_stop(&daemon);
}

/* A daemon that runs as a user; for root's sake in a folder of its own. */
static struct real_daemon start_as(struct real_room *room, uid_t user)
{
    const char *folder = real_room_path(room, "d");
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(chown(folder, user, user), 0);
    struct real_setup setup = {.user = user, .folder = folder};
    struct real_daemon daemon =
        real_daemon_start_at(room, &setup, REAL_DAEMON_TOLD, real_room_text(room, "%s/s", folder),
                             "--inject", "oom --nth 1000", NULL);
    open_socket(&daemon);
    return daemon;
}

static void test_the_daemon_s_own_user_is_an_admin(void **state)
{
    if (!can_be_others())
        skip();
    struct real_daemon daemon = start_as(*state, ALICE);
    expect_admin(as_user(&daemon, BOB), false);
    expect_admin(as_user(&daemon, ALICE), true);
    real_daemon_stop(&daemon);
}

static void test_its_own_user_sees_no_more_handles_than_others(void **state)
{
    if (!can_be_others())
        skip();
    struct real_daemon daemon = start_as(*state, ALICE);
    struct real_client *bob = as_user(&daemon, BOB);
    const char *handle = allocate(*state, bob, 100, ",'tag':'secret'");
    struct real_client *alice = as_user(&daemon, ALICE);
    assert_int_equal(real_json_count(real_ask(alice, "list", " "), "result.allocations"), 0);
    real_json_expect_error(real_ask(alice, "free", "'handle':'%s'", handle), "permission_denied");
    assert_true(cJSON_IsNull(real_json(real_ask(alice, "trace", " "), "result.events.0.tag")));
    assert_int_equal(real_json_count(real_ask(alice, "clients", " "), "result.clients"), 2);
    real_daemon_stop(&daemon);
}

/* Some group of this system that is not root's; 0 when there is none. */
static gid_t some_group(struct real_room *room, const char **name)
{
    char texts[8192];
    struct group entry;
    struct group *found;
    for (gid_t group = 1; group < HIGHEST_GROUP; group++)
        if (getgrgid_r(group, &entry, texts, sizeof(texts), &found) == 0 && found) {
            *name = real_room_text(room, "%s", entry.gr_name);
            return group;
        }
    return 0;
}

static void test_a_member_of_the_admin_group_is_an_admin(void **state)
{
    if (!can_be_others())
        skip();
    const char *name = NULL;
    gid_t group = some_group(*state, &name);
    if (!group) {
        print_message("this system has no group but root's\n");
        skip();
    }
    struct real_daemon daemon =
        real_daemon_start(*state, "--admin-group", name, "--inject", "oom --nth 1000", NULL);
    open_socket(&daemon);
    expect_admin(as_user(&daemon, ALICE), false);
    expect_admin(connect_as(&daemon, ALICE, ALICE, STRANGERS), false);
    expect_admin(connect_as(&daemon, ALICE, ALICE, group), true); /* a supplementary group */
    struct real_client *root = real_daemon_connect(&daemon);
    real_ask(root, "inject", "'action':'out_of_memory','nth':1000");
    const cJSON *rules = real_ask(root, "rules", " ");
    assert_int_equal(real_json_count(rules, "result.rules"), 1);
    unsigned rule = (unsigned)real_json_number(rules, "result.rules.0.rule");
    struct real_client *bob = connect_as(&daemon, BOB, group, 0); /* its own group */
    assert_int_equal(
        real_json_number(real_ask(bob, "rules_clear", "'rule':%u", rule), "result.cleared"), 1);
    real_json(real_ask(bob, "trace_clear", " "), "result.cleared");
    real_daemon_stop(&daemon);
}

/* ------------------------------------------------------------------------------------- limits */

static void test_gpu_bytes_of_a_user_count_over_its_connections(void **state)
{
    if (!can_be_others())
        skip();
    struct real_daemon daemon =
        real_daemon_start(*state, "--policy", "reference", "--max-user-gpu-bytes", "10000", NULL);
    open_socket(&daemon);
    struct real_client *root = real_daemon_connect(&daemon);
    struct real_client *first = as_user(&daemon, ALICE);
    struct real_client *second = as_user(&daemon, ALICE);
    allocate(*state, first, 6000, "");
    const char *handle = allocate(*state, second, 3000, "");
    expect_quota(real_ask(second, "allocate", "'requested_bytes':1001"), "max_user_gpu_bytes",
                 10000, 9000);
    allocate(*state, as_user(&daemon, BOB), 10000, ""); /* has a limit of its own */
    allocate(*state, second, 1000, "");
    expect_quota(real_ask(first, "allocate", "'requested_bytes':1"), "max_user_gpu_bytes", 10000,
                 10000);
    real_json(real_ask(second, "free", "'handle':'%s'", handle), "result.released");
    allocate(*state, first, 3000, ",'detached':true");
    real_client_close(first);
    wait_for_clients(root, 3);
    struct real_wait wait = {0};
    while (snapshot_number(root, "gpu0", "result.active_allocations") != 3)
        real_wait_more(&wait);
    /* What is detached counts on; 1000 are the second connection's. */
    expect_quota(real_ask(second, "allocate", "'requested_bytes':6001"), "max_user_gpu_bytes",
                 10000, 4000);
    allocate(*state, second, 6000, "");
    expect_valid(root, "gpu0");
    real_daemon_stop(&daemon);
}

static void test_limits_of_a_connection_are_its_own(void **state)
{
    struct real_daemon daemon =
        real_daemon_start(*state, "--policy", "reference", "--max-client-gpu-bytes", "5000",
                          "--max-client-allocations", "3", NULL);
    struct real_client *first = real_daemon_connect(&daemon);
    struct real_client *second = real_daemon_connect(&daemon);
    allocate(*state, first, 4000, "");
    expect_quota(real_ask(first, "allocate", "'requested_bytes':1001"), "max_client_gpu_bytes",
                 5000, 4000);
    allocate(*state, first, 500, "");
    allocate(*state, first, 500, "");
    expect_quota(real_ask(first, "allocate", "'requested_bytes':1"), "max_client_allocations", 3,
                 3);
    allocate(*state, second, 5000, "");
    real_daemon_stop(&daemon);
}

static void test_private_allocators_count_as_well(void **state)
{
    struct real_daemon daemon =
        real_daemon_start(*state, "--policy", "reference", "--max-client-gpu-bytes", "5000", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    allocate(*state, client, 2000, "");
    real_ask(client, "open", "'name':'mine','policy':'reference'");
    allocate(*state, client, 3000, ",'allocator':'mine'");
    expect_quota(real_ask(client, "allocate", "'requested_bytes':1"), "max_client_gpu_bytes", 5000,
                 5000);
    expect_quota(real_ask(client, "allocate", "'requested_bytes':1,'allocator':'mine'"),
                 "max_client_gpu_bytes", 5000, 5000);
    real_json(real_ask(client, "close", "'allocator':'mine'"), "result.closed");
    struct real_wait wait = {0};
    while (real_json_has(real_ask(client, "allocate", "'requested_bytes':3000"), "error"))
        real_wait_more(&wait); /* until what was in it has been freed */
    real_daemon_stop(&daemon);
}

static void test_allocations_and_host_bytes_of_a_user_are_limited(void **state)
{
    struct real_daemon daemon =
        real_daemon_start(*state, "--gpu-probability", "0", "--max-user-cpu-bytes", "10000",
                          "--max-user-allocations", "4", "--max-client-cpu-bytes", "8000", NULL);
    struct real_client *first = real_daemon_connect(&daemon);
    struct real_client *second = real_daemon_connect(&daemon);
    allocate(*state, first, 7000, "");
    expect_quota(real_ask(first, "allocate", "'requested_bytes':1001"), "max_client_cpu_bytes",
                 8000, 7000);
    allocate(*state, second, 2000, "");
    expect_quota(real_ask(second, "allocate", "'requested_bytes':1001"), "max_user_cpu_bytes",
                 10000, 9000);
    allocate(*state, second, 1, "");
    allocate(*state, first, 1, ",'tag':'a'");
    expect_quota(real_ask(second, "allocate", "'requested_bytes':1"), "max_user_allocations", 4, 4);
    real_json(real_ask(first, "free", "'tag':'a'"), "result.released");
    allocate(*state, second, 1, "");
    real_daemon_stop(&daemon);
}

static void test_a_host_pool_is_bounded_for_all_users_together(void **state)
{
    if (!can_be_others())
        skip();
    struct real_daemon daemon =
        real_daemon_start(*state, "--gpu-probability", "0", "--host-capacity", "10000", NULL);
    open_socket(&daemon);
    struct real_client *alice = as_user(&daemon, ALICE);
    struct real_client *bob = as_user(&daemon, BOB);
    allocate(*state, alice, 7000, ",'tag':'a'");
    expect_quota(real_ask(bob, "allocate", "'requested_bytes':3001"), "host_capacity", 10000, 7000);
    allocate(*state, bob, 3000, "");
    real_ask(bob, "open", "'name':'mine','gpu_probability':0");
    allocate(*state, bob, 50000, ",'allocator':'mine'"); /* another host pool, without a bound */
    real_json(real_ask(alice, "free", "'tag':'a'"), "result.released");
    allocate(*state, bob, 7000, "");
    expect_valid(bob, "gpu0");
    real_daemon_stop(&daemon);
}

static void test_a_refusal_by_a_limit_changes_nothing(void **state)
{
    struct real_daemon daemon =
        real_daemon_start(*state, "--seed", "9", "--max-client-allocations", "1", NULL);
    struct real_client *client = real_daemon_connect(&daemon);
    allocate(*state, client, 100, ",'tag':'a'");
    char *before = cJSON_PrintUnformatted(real_ask(client, "snapshot", " "));
    for (unsigned call = 0; call < 20; call++)
        expect_quota(real_ask(client, "allocate", "'requested_bytes':5000,'tag':'b'"),
                     "max_client_allocations", 1, 1);
    char *after = cJSON_PrintUnformatted(real_ask(client, "snapshot", " "));
    bool same = strcmp(before, after) == 0;
    free(before);
    free(after);
    assert_true(same);
    real_json(real_ask(client, "free", "'tag':'a'"), "result.released");
    allocate(*state, client, 5000, ",'tag':'b'"); /* the tag was never taken */
    real_daemon_stop(&daemon);
}

/* ---------------------------------------------------------------------------- dying processes */

enum {
    WORKERS = 8,
    KILLS = 60,
    KILLED_AFTER = 3, /* reports of a worker, at least */
    REPORT_EACH = 20, /* answers */
    TAGS = 12,
    CLIENT_ALLOCATIONS = 40,
    USER_ALLOCATIONS = 60,
    USER_GPU_BYTES = 4 * MIB,
    USER_CPU_BYTES = 3 * MIB
};

/* In a worker's process, no cmocka there. */
struct worker {
    const char *socket_path;
    unsigned number;
};

static unsigned next_number(struct worker *worker, unsigned below)
{
    worker->number = worker->number * 1103515245u + 12345u; /* any spread will do */
    return worker->number / 65536u % below;
}

static int connect_worker(const struct worker *worker)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", worker->socket_path);
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor >= 0 &&
        connect(descriptor, (const struct sockaddr *)&address, sizeof(address)) != 0)
        _exit(92);
    return descriptor;
}

static void choose_request(struct worker *worker, char *line, size_t size)
{
    static const char *const allocators[] = {"gpu0", "gpu0", "gpu1", "mine"};
    const char *allocator = allocators[next_number(worker, 4)];
    unsigned tag = next_number(worker, TAGS);
    unsigned choice = next_number(worker, 100);
    if (choice < 55)
        snprintf(
            line, size,
            "{\"id\":1,\"method\":\"allocate\",\"params\":{\"allocator\":\"%s\",\"tag\":\"t%u\","
            "\"requested_bytes\":%u,\"detached\":%s}}\n",
            allocator, tag, next_number(worker, 200) * KIB + 1, choice == 0 ? "true" : "false");
    else if (choice < 95)
        snprintf(
            line, size,
            "{\"id\":2,\"method\":\"free\",\"params\":{\"allocator\":\"%s\",\"tag\":\"t%u\"}}\n",
            allocator, tag);
    else if (choice < 97)
        snprintf(line, size,
                 "{\"id\":3,\"method\":\"open\",\"params\":{\"name\":\"mine\",\"seed\":%u}}\n",
                 tag);
    else if (choice < 98)
        snprintf(line, size,
                 "{\"id\":4,\"method\":\"close\",\"params\":{\"allocator\":\"mine\"}}\n");
    else
        snprintf(line, size, "{\"id\":5,\"method\":\"validate\"}\n");
}

/* Sends a line and reads the answer. false: the connection has ended, which rules do to it. */
static bool ask_worker(int descriptor, const char *line, char *answer, size_t size)
{
    size_t length = 0;
    if (send(descriptor, line, strlen(line), MSG_NOSIGNAL) != (ssize_t)strlen(line))
        return false;
    do {
        ssize_t count = recv(descriptor, answer + length, size - 1 - length, 0);
        if (count <= 0)
            return false;
        length += (size_t)count;
    } while (answer[length - 1] != '\n');
    answer[length] = '\0';
    return true;
}

/* Random requests for ever, with a line to stdout now and then. */
static int work(void *context)
{
    struct worker *worker = context;
    int descriptor = -1;
    unsigned answers = 0;
    for (;;) {
        char line[256];
        char answer[1024];
        if (descriptor < 0)
            descriptor = connect_worker(worker);
        choose_request(worker, line, sizeof(line));
        if (!ask_worker(descriptor, line, answer, sizeof(answer))) {
            close(descriptor);
            descriptor = -1;
            continue;
        }
        if (strstr(answer, "invariant_violation") || strstr(answer, "internal_error"))
            return 93;
        if (++answers % REPORT_EACH == 0)
            dprintf(STDOUT_FILENO, "%u\n", answers);
    }
}

static struct real_process *start_worker(struct real_room *room, const struct real_daemon *daemon,
                                         unsigned number)
{
    struct worker worker = {.socket_path = daemon->socket_path, .number = number};
    struct real_setup setup = {.user = number % 2 ? ALICE : BOB};
    return real_process_fork(room, &setup, work, &worker);
}

static void kill_worker(struct real_room *room, struct real_process *process)
{
    struct real_wait wait = {0};
    while (real_lines(real_process_output(room, process)) < KILLED_AFTER) {
        if (real_process_has_ended(process))
            fail_msg("a worker ended with %d", process->status);
        real_wait_more(&wait);
    }
    real_process_signal(process, SIGKILL);
    assert_int_equal(real_process_wait(process), 128 + SIGKILL);
}

static const char *const gpus[] = {"gpu0", "gpu1"};

static struct real_daemon start_for_workers(struct real_room *room)
{
    const char *path = real_room_path(room, "c");
    real_room_write(room, path,
                    real_room_text(room,
                                   "max-client-allocations = %d\n"
                                   "max-user-allocations = %d\n"
                                   "max-user-gpu-bytes = %d\n"
                                   "max-user-cpu-bytes = %d\n"
                                   "[gpu0]\npolicy = worse\nseed = 3\ncapacity = 16MiB\n"
                                   "host-capacity = 4MiB\n"
                                   "[gpu1]\npolicy = reference\ncapacity = 6MiB\n",
                                   CLIENT_ALLOCATIONS, USER_ALLOCATIONS, USER_GPU_BYTES,
                                   USER_CPU_BYTES));
    struct real_daemon daemon =
        real_daemon_start(room, "--config", path, "--inject", "oom --probability 0.03 --seed 1",
                          "--inject", "quota --probability 0.03 --seed 2", "--inject",
                          "host --every 11", "--inject", "forget --every 7 --allocator gpu0",
                          "--inject", "delay --delay-ms 2 --probability 0.01 --seed 3", "--inject",
                          "disconnect-before --probability 0.004 --seed 4", "--inject",
                          "disconnect-after --probability 0.004 --seed 5", NULL);
    open_socket(&daemon);
    return daemon;
}

/* Waits until all that the dead have left has been freed, but for what they had detached. */
static void wait_for_orphans_only(struct real_client *root, const char *allocator)
{
    struct real_wait wait = {0};
    uint64_t live;
    unsigned orphans;
    do {
        live = snapshot_number(root, allocator, "result.active_allocations");
        orphans =
            real_json_count(real_ask(root, "list", "'orphans':true,'allocator':'%s'", allocator),
                            "result.allocations");
    } while (live != orphans && real_wait_more(&wait));
}

/* A user's orphans: the other user can neither see nor free them, it can. How many. */
static unsigned free_orphans(struct real_room *room, struct real_client *owner,
                             struct real_client *other, const char *allocator)
{
    const cJSON *reply = real_ask(owner, "list", "'orphans':true,'allocator':'%s'", allocator);
    unsigned count = real_json_count(reply, "result.allocations");
    const char **handles = test_calloc(count + 1, sizeof(*handles));
    for (unsigned index = 0; index < count; index++) {
        const cJSON *item = real_json(reply, real_room_text(room, "result.allocations.%u", index));
        assert_true(real_json_true(item, "detached"));
        assert_true(cJSON_IsNull(real_json(item, "client")));
        handles[index] = real_room_text(room, "%s", real_json_text(item, "handle"));
    }
    for (unsigned index = 0; index < count; index++) {
        real_json_expect_error(
            real_ask(other, "free", "'allocator':'%s','handle':'%s'", allocator, handles[index]),
            "permission_denied");
        real_json(
            real_ask(owner, "free", "'allocator':'%s','handle':'%s'", allocator, handles[index]),
            "result.released");
    }
    test_free(handles);
    return count;
}

/* Each account of a user who holds nothing must be at zero: then exactly the limit fits. */
static void expect_accounts_at_zero(struct real_room *room, const struct real_daemon *daemon,
                                    struct real_client *root, uid_t user)
{
    struct real_client *first = as_user(daemon, user);
    struct real_client *second = as_user(daemon, user);
    struct real_client *clients[] = {first, second};
    for (unsigned index = 0; index < USER_ALLOCATIONS; index++)
        allocate(room, clients[index / CLIENT_ALLOCATIONS], 1, ",'allocator':'gpu1','stream':1");
    expect_quota(real_ask(first, "allocate", "'requested_bytes':1"), "max_client_allocations",
                 CLIENT_ALLOCATIONS, CLIENT_ALLOCATIONS);
    expect_quota(real_ask(second, "allocate", "'requested_bytes':1"), "max_user_allocations",
                 USER_ALLOCATIONS, USER_ALLOCATIONS);
    real_client_close(first);
    real_client_close(second);
    wait_for_clients(root, 1);
    struct real_wait wait = {0};
    while (snapshot_number(root, "gpu1", "result.active_allocations") > 0)
        real_wait_more(&wait);
    struct real_client *third = as_user(daemon, user);
    allocate(room, third, USER_GPU_BYTES, ",'allocator':'gpu1'");
    real_ask(root, "inject", "'action':'host_fallback'");
    allocate(room, third, USER_CPU_BYTES, ",'allocator':'gpu1'");
    expect_quota(real_ask(third, "allocate", "'requested_bytes':1,'allocator':'gpu1'"),
                 "max_user_gpu_bytes", USER_GPU_BYTES, USER_GPU_BYTES);
    real_client_close(third);
    wait_for_clients(root, 1);
    while (snapshot_number(root, "gpu1", "result.active_allocations") > 0)
        real_wait_more(&wait);
}

static void test_killed_processes_of_two_users_leave_every_account_at_zero(void **state)
{
    if (!can_be_others())
        skip();
    struct real_daemon daemon = start_for_workers(*state);
    struct real_client *root = real_daemon_connect(&daemon);
    struct real_process *workers[WORKERS];
    struct worker dice = {.number = 77};
    for (unsigned index = 0; index < WORKERS; index++)
        workers[index] = start_worker(*state, &daemon, index);
    for (unsigned kill = 0; kill < KILLS; kill++) {
        unsigned victim = next_number(&dice, WORKERS);
        kill_worker(*state, workers[victim]);
        workers[victim] = start_worker(*state, &daemon, WORKERS + kill * WORKERS + victim);
        for (unsigned gpu = 0; gpu < 2; gpu++)
            expect_valid(root, gpus[gpu]);
    }
    for (unsigned index = 0; index < WORKERS; index++)
        kill_worker(*state, workers[index]);
    wait_for_clients(root, 1);

    const cJSON *rules = real_ask(root, "rules", " ");
    for (unsigned index = 0; index < real_json_count(rules, "result.rules"); index++)
        assert_true(
            real_json_number(real_json(rules, real_room_text(*state, "result.rules.%u", index)),
                             "fired") > 0);
    real_ask(root, "rules_clear", " ");
    struct real_client *alice = as_user(&daemon, ALICE);
    struct real_client *bob = as_user(&daemon, BOB);
    unsigned orphans = 0;
    for (unsigned gpu = 0; gpu < 2; gpu++) {
        wait_for_orphans_only(root, gpus[gpu]);
        orphans += free_orphans(*state, alice, bob, gpus[gpu]);
        orphans += free_orphans(*state, bob, alice, gpus[gpu]);
        assert_int_equal(snapshot_number(root, gpus[gpu], "result.active_allocations"), 0);
        assert_int_equal(snapshot_number(root, gpus[gpu], "result.gpu_used"), 0);
        assert_int_equal(snapshot_number(root, gpus[gpu], "result.cpu_bytes"), 0);
        expect_valid(root, gpus[gpu]);
    }
    assert_true(orphans > 0);
    real_client_close(alice);
    real_client_close(bob);
    expect_accounts_at_zero(*state, &daemon, root, ALICE);
    expect_accounts_at_zero(*state, &daemon, root, BOB);
    real_daemon_stop(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AS_OTHERS(test_list_shows_a_user_its_own_and_root_everybody_s),
        AS_OTHERS(test_to_free_takes_the_handle_and_the_same_user),
        AS_OTHERS(test_tags_and_names_of_others_are_null),
        AS_OTHERS(test_faults_of_others_show_no_tag_either),
        AS_OTHERS(test_clients_shows_a_user_its_own_and_an_admin_all),
        AS_OTHERS(test_a_plain_user_changes_nothing_that_is_shared),
        AS_OTHERS(test_with_a_private_allocator_a_plain_user_may_do_all),
        AS_OTHERS(test_root_is_an_admin),
        AS_OTHERS(test_the_daemon_s_own_user_is_an_admin),
        AS_OTHERS(test_its_own_user_sees_no_more_handles_than_others),
        AS_OTHERS(test_a_member_of_the_admin_group_is_an_admin),
        AS_OTHERS(test_gpu_bytes_of_a_user_count_over_its_connections),
        AS_OTHERS(test_limits_of_a_connection_are_its_own),
        AS_OTHERS(test_private_allocators_count_as_well),
        AS_OTHERS(test_allocations_and_host_bytes_of_a_user_are_limited),
        AS_OTHERS(test_a_host_pool_is_bounded_for_all_users_together),
        AS_OTHERS(test_a_refusal_by_a_limit_changes_nothing),
        AS_OTHERS(test_killed_processes_of_two_users_leave_every_account_at_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
