/* Tests of daemon/server.c and allocators.c: what becomes of what ended connections held, and the
 * start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/options_table.h"
#include "tests/support/memory_daemon.h"

enum {
    USER = 1000
};

static void allocate_many(struct memory_client *client, const char *more, uint64_t count)
{
    char line[256];
    snprintf(line, sizeof(line),
             "{\"method\":\"allocate\",\"params\":{\"requested_bytes\":10%s%s}}", *more ? "," : "",
             more);
    for (uint64_t i = 0; i < count; i++)
        memory_client_send_line(client, line);
    memory_daemon_settle(client->daemon);
}

static struct worsegpu_snapshot look(const struct hosted *hosted)
{
    struct worsegpu_snapshot snapshot;
    worsegpu_snapshot(hosted->engine, &snapshot);
    return snapshot;
}

static size_t leases_left(const struct hosted *hosted)
{
    size_t count = 0;
    const struct lease *lease;
    TAILQ_FOREACH(lease, &hosted->holding.leases, link)
    {
        count++;
    }
    return count;
}

static uint64_t live_now(const struct memory_daemon *daemon)
{
    return look(memory_daemon_gpu0(daemon)).active_allocations;
}

static void test_what_a_connection_held_is_freed_lowest_id_first(void **state)
{
    struct memory_daemon daemon;
    struct worsegpu_event events[64];
    size_t count;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *first = memory_daemon_connect(&daemon, USER);
    struct memory_client *second = memory_daemon_connect(&daemon, USER);
    for (int i = 0; i < 20; i++) { /* odd ids and even ids */
        allocate_many(first, "", 1);
        allocate_many(second, "", 1);
    }
    uint64_t number = first->connection->number;
    memory_client_hang_up(first);
    assert_int_equal(live_now(&daemon), 40); /* not before the turn ends */
    memory_daemon_wait(&daemon, 7);
    memory_daemon_turn(&daemon);
    assert_int_equal(live_now(&daemon), 20);
    worsegpu_trace(memory_daemon_gpu0(&daemon)->engine, 40, events, 64, &count, NULL, NULL);
    assert_int_equal(count, 20);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(events[i].operation, WORSEGPU_FREE);
        assert_int_equal(events[i].allocation_id, 2 * i + 1);
        assert_int_equal(events[i].client, number);
        assert_int_equal(events[i].time_us, daemon.now.wall_us);
    }
    memory_daemon_end(&daemon);
}

static void test_an_ending_frees_through_the_policy_which_may_forget(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--gpu-probability=1 --forget-probability=1");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    allocate_many(client, "", 10);
    struct worsegpu_snapshot before = look(memory_daemon_gpu0(&daemon));
    memory_client_hang_up(client);
    memory_daemon_settle(&daemon);
    struct worsegpu_snapshot after = look(memory_daemon_gpu0(&daemon));
    assert_int_equal(after.active_allocations, 0);
    assert_int_equal(after.gpu_forgotten_blocks, 10);
    assert_int_equal(after.gpu_forgotten, before.gpu_used);
    assert_int_equal(after.free_calls, 10);
    memory_daemon_end(&daemon);
}

static void test_an_ending_draws_as_if_the_client_had_freed(void **state)
{
    struct memory_daemon daemons[2];
    struct worsegpu_snapshot snapshots[2];
    struct chaos chaos;
    (void)state;
    chaos_init(&chaos);
    for (int i = 0; i < 2; i++) {
        memory_daemon_start(&daemons[i], &chaos, "--forget-probability=0.5");
        struct memory_client *client = memory_daemon_connect(&daemons[i], USER);
        allocate_many(client, "", 100);
        for (int id = 1; i == 0 && id <= 100; id++) {
            const struct lease *lease =
                TAILQ_FIRST(&TAILQ_FIRST(&client->connection->holdings)->leases);
            char handle[WORSEGPU_HANDLE_TEXT_SIZE];
            char params[128];
            worsegpu_handle_to_text(&lease->handle, handle);
            snprintf(params, sizeof(params), "\"handle\":\"%s\"", handle);
            assert_int_equal(
                answer_u64(memory_client_call(client, "free", params), "allocation_id"), id);
        }
        memory_client_hang_up(client);
        memory_daemon_settle(&daemons[i]);
        allocate_many(memory_daemon_connect(&daemons[i], USER), "", 50);
        snapshots[i] = look(memory_daemon_gpu0(&daemons[i]));
    }
    assert_memory_equal(&snapshots[0], &snapshots[1], sizeof(snapshots[0]));
    for (int i = 0; i < 2; i++)
        memory_daemon_end(&daemons[i]);
    chaos_hook_cjson(NULL);
    assert_int_equal(chaos.live_pieces, 0);
}

static void test_so_many_are_freed_in_a_turn_and_the_oldest_ending_first(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--trace-limit=0");
    struct memory_client *first = memory_daemon_connect(&daemon, USER);
    struct memory_client *second = memory_daemon_connect(&daemon, USER);
    allocate_many(second, "", 100);
    allocate_many(first, "", 2 * REAP_PER_TURN + 50);
    daemon.left_alone = true;
    memory_client_hang_up(first);
    memory_client_hang_up(second);
    assert_true(server_must_reap(&daemon.server));
    uint64_t live = 2 * REAP_PER_TURN + 150;
    assert_int_equal(live_now(&daemon), live);
    for (int turn = 0; turn < 2; turn++) {
        assert_true(server_reap(&daemon.server, daemon.now));
        live -= REAP_PER_TURN;
        assert_int_equal(live_now(&daemon), live);
        struct worsegpu_allocation lowest;
        size_t count;
        bool more;
        worsegpu_list(memory_daemon_gpu0(&daemon)->engine, 0, &lowest, 1, &count, &more);
        assert_int_equal(lowest.handle.allocation_id, 1); /* the second one's, which waits */
    }
    assert_false(
        server_reap(&daemon.server, daemon.now)); /* 50 of the first, and all of the second */
    assert_int_equal(live_now(&daemon), 0);
    assert_false(server_must_reap(&daemon.server));
    memory_daemon_end(&daemon);
}

static void test_detached_allocations_stay(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    allocate_many(client, "", 5);
    allocate_many(client, "\"detached\":true", 7);
    allocate_many(client, "\"detached\":false", 5);
    memory_client_hang_up(client);
    memory_daemon_settle(&daemon);
    assert_int_equal(live_now(&daemon), 7);
    memory_daemon_end(&daemon); /* and go with the daemon, leaving nothing */
}

/* A connection with two private allocators comes and goes. */
static void open_fill_and_go(struct memory_daemon *daemon)
{
    struct memory_client *client = memory_daemon_connect(daemon, USER);
    assert_kind(memory_client_call(client, "open", "\"name\":\"a\""), "result");
    assert_kind(memory_client_call(client, "open", "\"name\":\"b\""), "result");
    allocate_many(client, "\"allocator\":\"a\"", REAP_PER_TURN + 10);
    allocate_many(client, "\"allocator\":\"b\",\"detached\":true", 20);
    daemon->left_alone = true;
    memory_client_hang_up(client);
    const struct hosted *hosted = TAILQ_FIRST(&daemon->server.graveyard);
    assert_string_equal(hosted->name, "a");
    assert_true(server_reap(&daemon->server, daemon->now));
    assert_int_equal(leases_left(hosted), 10);
    assert_false(server_reap(&daemon->server, daemon->now));
    assert_true(TAILQ_EMPTY(&daemon->server.graveyard));
    daemon->left_alone = false;
}

static void test_private_allocators_go_with_their_connection_a_piece_each_turn(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    allocate_many(memory_daemon_connect(&daemon, USER), "", 1);
    open_fill_and_go(&daemon); /* makes the leases that the server keeps */
    size_t before = daemon.chaos->live_bytes;
    open_fill_and_go(&daemon);
    assert_int_equal(daemon.chaos->live_bytes, before);
    memory_daemon_end(&daemon);
}

static void test_what_waits_to_be_freed_can_still_be_freed_by_its_handle(void **state)
{
    struct memory_daemon daemon;
    char params[128];
    (void)state;
    memory_daemon_start(&daemon, NULL, "");
    struct memory_client *gone = memory_daemon_connect(&daemon, USER);
    struct memory_client *here = memory_daemon_connect(&daemon, USER);
    char handle[WORSEGPU_HANDLE_TEXT_SIZE];
    allocate_many(gone, "", 2);
    answer_text(memory_client_call(gone, "allocate", "\"requested_bytes\":5,\"tag\":\"t\""),
                "handle", handle, sizeof(handle));
    daemon.left_alone = true;
    memory_client_hang_up(gone);
    snprintf(params, sizeof(params), "\"handle\":\"%s\"", handle);
    assert_kind(memory_client_call(here, "free", params), "result");
    assert_kind(memory_client_call(here, "free", params), "unknown_handle");
    assert_false(server_reap(&daemon.server, daemon.now));
    assert_int_equal(live_now(&daemon), 0);
    memory_daemon_end(&daemon);
}

static void test_a_daemon_that_ends_leaves_nothing_of_what_waits(void **state)
{
    struct chaos chaos;
    (void)state;
    chaos_init(&chaos);
    struct memory_daemon daemon;
    memory_daemon_start(&daemon, &chaos, "");
    struct memory_client *client = memory_daemon_connect(&daemon, USER);
    assert_kind(memory_client_call(client, "open", "\"name\":\"a\""), "result");
    allocate_many(client, "", 20);
    allocate_many(client, "\"allocator\":\"a\"", 20);
    memory_client_hang_up(client);
    server_release(&daemon.server); /* no reaping before it */
    struct moment now = daemon.now;
    char message[128];
    assert_int_equal(server_init(&daemon.server, &daemon.options, &chaos.memory, &daemon.log, now,
                                 message, sizeof(message)),
                     WORSEGPU_OK);
    memory_daemon_end(&daemon);
    chaos_hook_cjson(NULL);
    assert_int_equal(chaos.live_pieces, 0);
    assert_int_equal(chaos.live_bytes, 0);
}

/* ---------------------------------------------------------------------------------- the start */

/* Starts a server with these options. */
static int start_with(const struct options *options, struct chaos *chaos, char *message,
                      size_t size)
{
    struct server server;
    struct log log;
    struct moment now = {0};
    log_init(&log, stderr, LOG_LEVEL_ERROR);
    *message = '\0';
    int status = server_init(&server, options, &chaos->memory, &log, now, message, size);
    if (status == WORSEGPU_OK)
        server_release(&server);
    return status;
}

/* Reads a command line of one word more. */
static void read_word(struct options *options, struct chaos *chaos, const char *word)
{
    char message[OPTIONS_MESSAGE_SIZE];
    char program[] = "worsegpud";
    char copy[128];
    char *argv[] = {program, copy, NULL};
    snprintf(copy, sizeof(copy), "%s", word);
    if (options_read(options, &chaos->memory, 2, argv, message) != OPTIONS_FINE)
        fail_msg("%s", message);
}

static void test_a_configuration_that_the_engine_refuses_is_named_and_leaves_nothing(void **state)
{
    struct chaos chaos;
    struct options options;
    char message[OPTIONS_MESSAGE_SIZE];
    (void)state;
    chaos_init(&chaos);
    read_word(&options, &chaos, "--seed=7");
    size_t pieces = chaos.live_pieces;
    options.gpus[0].seed[0] = 'x'; /* which no reading lets pass */
    assert_int_equal(start_with(&options, &chaos, message, sizeof(message)),
                     WORSEGPU_INVALID_ARGUMENT);
    assert_non_null(strstr(message, "seed must be a decimal integer"));
    assert_int_equal(chaos.live_pieces, pieces);
    options_release(&options);
    assert_int_equal(chaos.live_pieces, 0);
}

static bool start_in_poor_memory(struct chaos *chaos, void *context)
{
    char message[256];
    int status = start_with(context, chaos, message, sizeof(message));
    if (status == WORSEGPU_OK)
        return true;
    assert_int_equal(status, WORSEGPU_NO_MEMORY);
    assert_non_null(strstr(message, "not enough memory"));
    return false;
}

static void test_a_start_without_memory_says_so_and_leaves_nothing(void **state)
{
    struct chaos chaos;
    struct options options;
    (void)state;
    chaos_init(&chaos);
    assert_int_equal(options_defaults(&options, &chaos.memory), 0);
    assert_int_equal(options_add_gpu(&options, "gpu1", 4), 0);
    assert_true(chaos_loop(start_in_poor_memory, &options) > 4);
    options_release(&options);
    assert_int_equal(chaos.live_pieces, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_connection_held_is_freed_lowest_id_first),
        cmocka_unit_test(test_an_ending_frees_through_the_policy_which_may_forget),
        cmocka_unit_test(test_an_ending_draws_as_if_the_client_had_freed),
        cmocka_unit_test(test_so_many_are_freed_in_a_turn_and_the_oldest_ending_first),
        cmocka_unit_test(test_detached_allocations_stay),
        cmocka_unit_test(test_private_allocators_go_with_their_connection_a_piece_each_turn),
        cmocka_unit_test(test_what_waits_to_be_freed_can_still_be_freed_by_its_handle),
        cmocka_unit_test(test_a_daemon_that_ends_leaves_nothing_of_what_waits),
        cmocka_unit_test(test_a_configuration_that_the_engine_refuses_is_named_and_leaves_nothing),
        cmocka_unit_test(test_a_start_without_memory_says_so_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
