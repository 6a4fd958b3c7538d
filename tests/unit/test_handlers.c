/* Tests of daemon/handlers.c and handlers_memory.c: what each method does beyond what the engine
 * does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/version.h"
#include "lib/allocator_internal.h"
#include "proto/limits.h"
#include "proto/methods.h"
#include "tests/support/memory_daemon.h"

enum {
    ALICE = 1000,
    BOB = 1001,
    ROOT = 0,
    HANDLE_SIZE = WORSEGPU_HANDLE_TEXT_SIZE
};

struct scene {
    struct memory_daemon daemon;
    struct memory_client *alice;
    struct memory_client *alice_again; /* the same user, another connection */
    struct memory_client *bob;
    struct memory_client *root;
};

static void begin(struct scene *scene, const char *words)
{
    memory_daemon_start(&scene->daemon, NULL, words);
    scene->alice = memory_daemon_connect(&scene->daemon, ALICE);
    scene->alice_again = memory_daemon_connect(&scene->daemon, ALICE);
    scene->bob = memory_daemon_connect(&scene->daemon, BOB);
    scene->root = memory_daemon_connect(&scene->daemon, ROOT);
}

static void end(struct scene *scene)
{
    memory_daemon_end(&scene->daemon);
}

/* Calls a method and checks the kind of the answer. */
static const char *call(struct memory_client *client, const char *method, const char *params,
                        const char *kind)
{
    const char *answer = memory_client_call(client, method, params);
    assert_kind(answer, kind);
    return answer;
}

/* Allocates 10 bytes with some more params, and keeps the handle. */
static void allocate(struct memory_client *client, const char *more, char handle[HANDLE_SIZE])
{
    char params[256];
    snprintf(params, sizeof(params), "\"requested_bytes\":10%s%s", *more ? "," : "", more);
    answer_text(call(client, "allocate", params, "result"), "handle", handle, HANDLE_SIZE);
}

static const char *free_handle(struct memory_client *client, const char *handle,
                               const char *allocator, const char *kind)
{
    char params[256];
    snprintf(params, sizeof(params), "\"handle\":\"%s\",\"allocator\":\"%s\"", handle, allocator);
    return call(client, "free", params, kind);
}

static uint64_t live_in(struct memory_client *client, const char *allocator)
{
    char params[128];
    snprintf(params, sizeof(params), "\"allocator\":\"%s\"", allocator);
    return answer_u64(call(client, "snapshot", params, "result"), "active_allocations");
}

/* ------------------------------------------------------------------------------- open and close */

static void test_open_shows_the_whole_configuration_as_it_stands(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "--gpu-probability=0.5 --trace-limit=77 --max-live-allocations=9");
    const char *answer = call(scene.alice, "open", "\"name\":\"mine\",\"seed\":5", "result");
    assert_string_equal(
        answer,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"name\":\"mine\",\"policy\":\"worse\","
        "\"knobs\":\"\",\"shared\":false,\"gpu_capacity\":67108864,\"gpu_probability\":0.65,"
        "\"forget_probability\":0.2,\"fallback_on_oom\":true,"
        "\"max_request_bytes\":1099511627776,\"trace_limit\":0,\"seed\":5,"
        "\"scan\":\"accounted\",\"max_live_allocations\":9}}");
    answer =
        call(scene.alice, "open",
             "\"name\":\"other\",\"policy\":\"reference\",\"gpu_capacity\":1,\"gpu_probability\":1,"
             "\"forget_probability\":0.0,\"fallback_on_oom\":false,\"max_request_bytes\":"
             "9007199254740991,"
             "\"trace_limit\":3,\"seed\":\"-12\",\"scan\":\"walked\"",
             "result");
    assert_string_equal(
        answer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"name\":\"other\","
                "\"policy\":\"reference\",\"knobs\":\"\",\"shared\":false,\"gpu_capacity\":1,"
                "\"gpu_probability\":1.0,\"forget_probability\":0.0,\"fallback_on_oom\":false,"
                "\"max_request_bytes\":9007199254740991,\"trace_limit\":3,\"seed\":\"-12\","
                "\"scan\":\"walked\",\"max_live_allocations\":9}}");
    end(&scene);
}

static void test_what_open_cannot_do_is_refused_and_leaves_no_allocator(void **state)
{
    static const struct {
        const char *params;
        const char *kind;
        const char *param;
    } wrong[] = {
        {"\"name\":\"x\",\"policy\":\"nicer\"", "invalid_params", "\"policy\""},
        {"\"name\":\"x\",\"scan\":\"skipped\"", "invalid_params", "\"scan\""},
        {"\"name\":\"x\",\"gpu_capacity\":0", "invalid_params", "\"gpu_capacity\""},
        {"\"name\":\"x\",\"gpu_probability\":1.5", "invalid_params", "\"gpu_probability\""},
        {"\"name\":\"x\",\"forget_probability\":-0.1", "invalid_params", "\"forget_probability\""},
        {"\"name\":\"x\",\"fallback_on_oom\":1", "invalid_params", "\"fallback_on_oom\""},
        {"\"name\":\"x\",\"max_request_bytes\":0", "invalid_params", "\"max_request_bytes\""},
        {"\"name\":\"x\",\"trace_limit\":1000001", "invalid_params", "\"trace_limit\""},
        {"\"name\":\"x\",\"seed\":\"\"", "invalid_params", "\"seed\""},
        {"\"name\":\"x\",\"seed\":1.5", "invalid_params", "\"seed\""},
        {"\"name\":\"-x\"", "invalid_params", "\"name\""},
        {"\"name\":\"\"", "invalid_params", "\"name\""},
        {"", "invalid_params", "\"name\""},
        {"\"name\":\"gpu0\"", "name_in_use", NULL},
    };
    struct scene scene;
    (void)state;
    begin(&scene, "");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const char *answer = call(scene.alice, "open", wrong[i].params, wrong[i].kind);
        assert_true(!wrong[i].param || answer_is(answer, "param", wrong[i].param));
        call(scene.alice, "snapshot", "\"allocator\":\"x\"", "unknown_allocator");
    }
    assert_int_equal(answer_count(call(scene.alice, "info", "", "result"), "\"shared\""), 1);
    end(&scene);
}

static void test_a_private_name_is_taken_on_its_own_connection_only(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    call(scene.alice, "open", "\"name\":\"mine\"", "result");
    call(scene.alice, "open", "\"name\":\"mine\"", "name_in_use");
    call(scene.alice_again, "snapshot", "\"allocator\":\"mine\"", "unknown_allocator");
    call(scene.root, "snapshot", "\"allocator\":\"mine\"", "unknown_allocator");
    call(scene.alice_again, "open", "\"name\":\"mine\"", "result");
    call(scene.alice, "allocate", "\"requested_bytes\":1,\"allocator\":\"mine\"", "result");
    assert_int_equal(live_in(scene.alice, "mine"), 1);
    assert_int_equal(live_in(scene.alice_again, "mine"), 0);
    assert_int_equal(live_in(scene.alice, "gpu0"), 0);
    call(scene.alice, "open", "\"name\":\"Mine\"", "result"); /* upper and lower case differ */
    call(scene.alice, "open", "\"name\":\"mine2\"", "result");
    end(&scene);
}

static void test_seeds_are_shown_as_they_were_given(void **state)
{
    static const char *const given[] = {
        "0",     "5",      "-5",      "9007199254740991", "-9007199254740991",
        "\"5\"", "\"-5\"", "\"005\"", "\"-0\"",           "\"123456789012345678901234567890\""};
    struct scene scene;
    char params[128];
    (void)state;
    begin(&scene, "--max-allocators-per-connection=100");
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        snprintf(params, sizeof(params), "\"name\":\"a%zu\",\"seed\":%s", i, given[i]);
        assert_true(answer_is(call(scene.alice, "open", params, "result"), "seed", given[i]));
    }
    /* Drawn ones are exact numbers, and not always the same. */
    const char *answer = call(scene.alice, "open", "\"name\":\"b\",\"seed\":null", "result");
    uint64_t first = answer_u64(answer, "seed");
    answer = call(scene.alice, "open", "\"name\":\"c\"", "result");
    uint64_t second = answer_u64(answer, "seed");
    assert_true(first <= PROTO_MAX_SAFE_INTEGER && second <= PROTO_MAX_SAFE_INTEGER);
    assert_true(first != second);
    end(&scene);
}

static void test_the_daemons_own_seed_is_a_number_where_json_can_hold_it(void **state)
{
    static const struct {
        const char *words;
        const char *shown;
    } seeds[] = {
        {"--seed=7", "7"},
        {"--seed=-7", "-7"},
        {"--seed=0", "0"},
        {"--seed=007", "\"007\""},
        {"--seed=9007199254740991", "9007199254740991"},
        {"--seed=-9007199254740991", "-9007199254740991"},
        {"--seed=9007199254740992", "\"9007199254740992\""},
        {"--seed=99999999999999999999999", "\"99999999999999999999999\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
        struct scene scene;
        begin(&scene, seeds[i].words);
        assert_true(answer_is(call(scene.alice, "info", "", "result"), "seed", seeds[i].shown));
        end(&scene);
    }
}

static void test_equal_seeds_and_equal_requests_give_equal_decisions(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    call(scene.alice, "open", "\"name\":\"one\",\"seed\":11", "result");
    call(scene.bob, "open", "\"name\":\"two\",\"seed\":\"-11\"",
         "result"); /* the sign makes no difference */
    for (int i = 0; i < 50; i++) {
        char *first = strdup(call(scene.alice, "allocate",
                                  "\"requested_bytes\":999,\"allocator\":\"one\"", "result"));
        assert_non_null(first);
        answer_scrub(first);
        char *second = strdup(
            call(scene.bob, "allocate", "\"requested_bytes\":999,\"allocator\":\"two\"", "result"));
        assert_non_null(second);
        answer_scrub(second);
        assert_string_equal(first, second);
        free(first);
        free(second);
    }
    end(&scene);
}

static void test_a_shared_allocator_cannot_be_closed(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    call(scene.alice, "close", "", "permission_denied");
    call(scene.root, "close", "\"allocator\":\"gpu0\"", "permission_denied");
    call(scene.alice, "close", "\"allocator\":\"mine\"", "unknown_allocator");
    call(scene.bob, "open", "\"name\":\"mine\"", "result");
    call(scene.alice, "close", "\"allocator\":\"mine\"", "unknown_allocator");
    assert_int_equal(live_in(scene.alice, "gpu0"), 0);
    end(&scene);
}

static void test_a_closed_allocator_is_gone_and_its_name_is_free(void **state)
{
    struct scene scene;
    char handle[HANDLE_SIZE];
    (void)state;
    begin(&scene, "");
    call(scene.alice, "snapshot", "", "result");
    call(scene.alice, "open", "\"name\":\"mine\",\"trace_limit\":1000", "result");
    allocate(scene.alice, "\"allocator\":\"mine\"",
             handle); /* the first leases stay with the server */
    call(scene.alice, "close", "\"allocator\":\"mine\"", "result");
    size_t bytes = scene.daemon.chaos->live_bytes;
    for (int i = 0; i < 50; i++) {
        call(scene.alice, "open", "\"name\":\"mine\",\"trace_limit\":1000", "result");
        allocate(scene.alice, "\"allocator\":\"mine\",\"tag\":\"t\"", handle);
        allocate(scene.alice, "\"allocator\":\"mine\",\"detached\":true", handle);
        assert_true(answer_is(call(scene.alice, "close", "\"allocator\":\"mine\"", "result"),
                              "closed", "true"));
        call(scene.alice, "close", "\"allocator\":\"mine\"", "unknown_allocator");
        free_handle(scene.alice, handle, "gpu0", "unknown_handle");
    }
    assert_int_equal(scene.daemon.chaos->live_bytes, bytes);
    end(&scene);
}

/* ---------------------------------------------------------------------------------------- tags */

static void test_a_tag_is_unique_for_a_connection_and_an_allocator(void **state)
{
    struct scene scene;
    char handle[HANDLE_SIZE];
    (void)state;
    begin(&scene, "");
    call(scene.alice, "open", "\"name\":\"mine\"", "result");
    allocate(scene.alice, "\"tag\":\"weights\"", handle);
    call(scene.alice, "allocate", "\"requested_bytes\":10,\"tag\":\"weights\"", "name_in_use");
    assert_int_equal(live_in(scene.alice, "gpu0"), 1);
    allocate(scene.alice, "\"tag\":\"weights\",\"allocator\":\"mine\"", handle);
    allocate(scene.alice_again, "\"tag\":\"weights\"", handle);
    allocate(scene.alice, "\"tag\":\"weight\"", handle);
    allocate(scene.alice, "\"tag\":\"weights2\"", handle);
    call(scene.alice, "free", "\"tag\":\"weights\"", "result");
    allocate(scene.alice, "\"tag\":\"weights\"", handle);
    end(&scene);
}

static void test_a_tag_frees_what_it_names_and_then_names_nothing(void **state)
{
    struct scene scene;
    char handle[HANDLE_SIZE];
    (void)state;
    begin(&scene, "");
    allocate(scene.alice, "", handle);
    const char *answer = call(scene.alice, "allocate",
                              "\"requested_bytes\":10,\"tag\":\"\\u00e4 \\\"b\\\"\"", "result");
    uint64_t id = answer_u64(answer, "allocation_id");
    call(scene.bob, "free", "\"tag\":\"\\u00e4 \\\"b\\\"\"", "unknown_handle");
    call(scene.alice_again, "free", "\"tag\":\"\\u00e4 \\\"b\\\"\"", "unknown_handle");
    answer = call(scene.alice, "free", "\"tag\":\"\xc3\xa4 \\\"b\\\"\"", "result");
    assert_int_equal(answer_u64(answer, "allocation_id"), id);
    call(scene.alice, "free", "\"tag\":\"\xc3\xa4 \\\"b\\\"\"", "unknown_handle");
    assert_int_equal(live_in(scene.alice, "gpu0"), 1);
    end(&scene);
}

static void test_a_tag_also_goes_when_its_handle_is_freed_on_another_connection(void **state)
{
    struct scene scene;
    char handle[HANDLE_SIZE];
    (void)state;
    begin(&scene, "");
    allocate(scene.alice, "\"tag\":\"t\"", handle);
    free_handle(scene.alice_again, handle, "gpu0", "result");
    call(scene.alice, "free", "\"tag\":\"t\"", "unknown_handle");
    allocate(scene.alice, "\"tag\":\"t\"", handle);
    end(&scene);
}

static void test_a_detached_allocation_keeps_its_tag_until_its_connection_ends(void **state)
{
    struct scene scene;
    char handle[HANDLE_SIZE];
    char other[HANDLE_SIZE];
    (void)state;
    begin(&scene, "");
    allocate(scene.alice, "\"tag\":\"kept\",\"detached\":true", handle);
    allocate(scene.alice, "\"tag\":\"used\",\"detached\":true", other);
    call(scene.alice, "free", "\"tag\":\"used\"", "result");
    memory_client_hang_up(scene.alice);
    memory_daemon_settle(&scene.daemon);
    assert_int_equal(live_in(scene.bob, "gpu0"), 1);
    call(scene.alice_again, "free", "\"tag\":\"kept\"", "unknown_handle");
    allocate(scene.alice_again, "\"tag\":\"kept\"", other);
    free_handle(scene.alice_again, handle, "gpu0", "result");
    free_handle(scene.alice_again, handle, "gpu0", "unknown_handle");
    end(&scene);
}

/* ---------------------------------------------------------------------------------------- free */

static void test_free_takes_a_handle_or_a_tag_and_not_both(void **state)
{
    struct scene scene;
    char handle[HANDLE_SIZE];
    char params[128];
    (void)state;
    begin(&scene, "");
    allocate(scene.alice, "\"tag\":\"t\"", handle);
    assert_true(answer_is(call(scene.alice, "free", "", "invalid_params"), "param", "\"handle\""));
    snprintf(params, sizeof(params), "\"handle\":\"%s\",\"tag\":\"t\"", handle);
    assert_true(answer_is(call(scene.alice, "free", params, "invalid_params"), "param", "\"tag\""));
    assert_int_equal(live_in(scene.alice, "gpu0"), 1);
    const char *answer = free_handle(scene.alice, handle, "gpu0", "result");
    assert_int_equal(answer_u64(answer, "allocation_id"), 1);
    assert_non_null(answer_member(answer, "device"));
    assert_non_null(answer_member(answer, "released"));
    end(&scene);
}

static void test_a_handle_that_was_never_given_or_is_used_twice_is_unknown(void **state)
{
    static const char *const wrong[] = {"",
                                        "1",
                                        "1-",
                                        "1-00000000000000000000000000000000",
                                        "99-00000000000000000000000000000000",
                                        "01-00000000000000000000000000000000",
                                        "1-0000000000000000000000000000000g",
                                        "18446744073709551616-00000000000000000000000000000000"};
    struct scene scene;
    char handle[HANDLE_SIZE];
    (void)state;
    begin(&scene, "");
    allocate(scene.alice, "", handle);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        free_handle(scene.alice, wrong[i], "gpu0", "unknown_handle");
    char forged[HANDLE_SIZE];
    memcpy(forged, handle, sizeof(forged));
    char *last = forged + strlen(forged) - 1;
    *last = *last == '0' ? '1' : '0';
    free_handle(scene.alice, forged, "gpu0", "unknown_handle");
    assert_int_equal(live_in(scene.alice, "gpu0"), 1);
    free_handle(scene.alice, handle, "gpu0", "result");
    free_handle(scene.alice, handle, "gpu0", "unknown_handle");
    end(&scene);
}

static void test_a_handle_frees_only_for_its_user_and_root(void **state)
{
    struct scene scene;
    char handle[HANDLE_SIZE];
    (void)state;
    begin(&scene, "");
    const struct peer admin = {.uid = 1002, .admin = true};
    struct memory_client *of_admin_group = memory_daemon_connect_peer(&scene.daemon, admin);
    allocate(scene.alice, "\"tag\":\"t\"", handle);
    free_handle(scene.bob, handle, "gpu0", "permission_denied");
    free_handle(of_admin_group, handle, "gpu0", "permission_denied");
    assert_int_equal(live_in(scene.alice, "gpu0"), 1);
    assert_int_equal(scene.alice->connection->account.allocations, 1);
    free_handle(scene.root, handle, "gpu0", "result");
    free_handle(scene.alice, handle, "gpu0", "unknown_handle");
    allocate(scene.root, "", handle);
    free_handle(scene.alice, handle, "gpu0", "permission_denied");
    allocate(scene.alice, "\"detached\":true", handle);
    memory_client_hang_up(scene.alice);
    memory_daemon_settle(&scene.daemon);
    free_handle(scene.bob, handle, "gpu0", "permission_denied");
    free_handle(scene.alice_again, handle, "gpu0", "result");
    end(&scene);
}

static void test_a_handle_of_another_allocator_is_foreign_only_to_who_may_use_that_one(void **state)
{
    struct scene scene;
    char shared[HANDLE_SIZE];
    char private[HANDLE_SIZE];
    (void)state;
    begin(&scene, "");
    call(scene.alice, "open", "\"name\":\"mine\"", "result");
    call(scene.alice, "open", "\"name\":\"other\"", "result");
    call(scene.bob, "open", "\"name\":\"mine\"", "result");
    allocate(scene.alice, "", shared);
    allocate(scene.alice, "\"allocator\":\"mine\"", private);
    free_handle(scene.alice, shared, "mine", "foreign_handle");
    free_handle(scene.alice, private, "gpu0", "foreign_handle");
    free_handle(scene.alice, private, "other", "foreign_handle");
    free_handle(scene.bob, shared, "mine", "foreign_handle");
    free_handle(scene.bob, private, "gpu0", "unknown_handle");
    free_handle(scene.bob, private, "mine", "unknown_handle");
    free_handle(scene.root, private, "gpu0", "unknown_handle"); /* not even root may use it */
    assert_int_equal(live_in(scene.alice, "mine"), 1);
    assert_int_equal(live_in(scene.alice, "gpu0"), 1);
    free_handle(scene.alice, private, "mine", "result");
    free_handle(scene.alice, private, "gpu0", "unknown_handle");
    end(&scene);
}

/* ---------------------------------------------------------------------------------------- list */

static void test_list_shows_a_peer_its_own_users_allocations_and_root_all(void **state)
{
    struct scene scene;
    char handles[4][HANDLE_SIZE];
    char *seen;
    (void)state;
    begin(&scene, "");
    allocate(scene.alice, "\"tag\":\"of-alice\"", handles[0]);
    allocate(scene.bob, "\"tag\":\"of-bob\",\"stream\":3", handles[1]);
    allocate(scene.alice_again, "\"detached\":true", handles[2]);
    allocate(scene.root, "", handles[3]);
    const struct {
        struct memory_client *client;
        bool sees[4];
    } peers[] = {{scene.alice, {true, false, true, false}},
                 {scene.alice_again, {true, false, true, false}},
                 {scene.bob, {false, true, false, false}},
                 {scene.root, {true, true, true, true}}};
    for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); i++) {
        seen = strdup(call(peers[i].client, "list", "", "result"));
        assert_non_null(seen);
        size_t count = 0;
        for (size_t k = 0; k < 4; k++) {
            assert_int_equal(answer_count(seen, handles[k]), peers[i].sees[k] ? 1 : 0);
            count += peers[i].sees[k];
        }
        assert_int_equal(answer_count(seen, "\"handle\""), count);
        assert_true(answer_is(seen, "more", "false"));
        free(seen);
    }
    assert_null(strstr(call(scene.bob, "list", "", "result"), "of-alice"));
    end(&scene);
}

static void test_list_says_whose_an_allocation_is_while_its_connection_lives(void **state)
{
    struct scene scene;
    char handle[HANDLE_SIZE];
    (void)state;
    begin(&scene, "--forget-probability=0");
    allocate(scene.alice, "\"tag\":\"a\",\"stream\":4,\"detached\":true", handle);
    const char *answer = call(scene.alice, "list", "", "result");
    assert_int_equal(answer_u64(answer, "client"), scene.alice->connection->number);
    assert_true(answer_is(answer, "tag", "\"a\""));
    assert_true(answer_is(answer, "stream", "4"));
    assert_true(answer_is(answer, "detached", "true"));
    memory_client_hang_up(scene.alice);
    memory_daemon_settle(&scene.daemon);
    answer = call(scene.alice_again, "list", "", "result");
    assert_true(answer_is(answer, "client", "null"));
    assert_int_equal(answer_count(answer, handle), 1);
    end(&scene);
}

static void test_list_goes_on_where_the_page_before_ended(void **state)
{
    struct scene scene;
    char handle[HANDLE_SIZE];
    char params[64];
    uint64_t after = 0;
    uint64_t seen = 0;
    (void)state;
    begin(&scene, "");
    for (int i = 0; i < 50; i++) {
        allocate(scene.alice, "", handle);
        allocate(scene.bob, "", handle);
    }
    for (int page = 0; page < 100; page++) {
        snprintf(params, sizeof(params), "\"limit\":7,\"after\":%" PRIu64, after);
        const char *answer = call(scene.alice, "list", params, "result");
        size_t count = answer_count(answer, "\"handle\"");
        assert_true(count <= 7);
        seen += count;
        after = answer_u64(answer, "next");
        if (answer_is(answer, "more", "false"))
            break;
        assert_int_equal(count, 7);
    }
    assert_int_equal(seen, 50);
    snprintf(params, sizeof(params), "\"after\":%" PRIu64, UINT64_MAX);
    const char *answer = call(scene.alice, "list", params, "result");
    assert_int_equal(answer_u64(answer, "next"), UINT64_MAX);
    assert_true(answer_is(answer, "more", "false"));
    end(&scene);
}

/* ------------------------------------------------------------------------------------- allocate */

static void test_allocate_tells_where_it_put_what_was_asked_for(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "--gpu-probability=1");
    const char *answer = call(scene.alice, "allocate", "\"requested_bytes\":100", "result");
    assert_true(answer_is(answer, "allocation_id", "1"));
    assert_true(answer_is(answer, "requested_bytes", "100"));
    assert_true(answer_u64(answer, "reserved_bytes") >= 256);
    assert_true(answer_is(answer, "device", "\"gpu\""));
    assert_true(answer_is(answer, "block_index", "0"));
    assert_true(answer_is(answer, "offset", "0"));
    assert_null(answer_member(answer, "reason"));
    call(scene.alice, "open", "\"name\":\"host\",\"gpu_probability\":0", "result");
    answer =
        call(scene.alice, "allocate", "\"requested_bytes\":100,\"allocator\":\"host\"", "result");
    assert_true(answer_is(answer, "device", "\"cpu\""));
    assert_true(answer_is(answer, "block_index", "-1"));
    assert_true(answer_is(answer, "reason", "\"probability\""));
    assert_null(answer_member(answer, "offset"));
    call(scene.alice, "open", "\"name\":\"full\",\"gpu_probability\":1,\"gpu_capacity\":1",
         "result");
    answer =
        call(scene.alice, "allocate", "\"requested_bytes\":100,\"allocator\":\"full\"", "result");
    assert_true(answer_is(answer, "reason", "\"gpu_oom\""));
    end(&scene);
}

static void test_out_of_memory_names_the_bytes_and_leaves_one_event(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "--gpu-probability=1 --capacity=1 --fallback-on-oom=false");
    const char *answer =
        call(scene.alice, "allocate", "\"requested_bytes\":100,\"tag\":\"t\"", "out_of_memory");
    assert_int_equal(answer_u64(answer, "code"), 1);
    assert_int_equal(answer_u64(answer, "requested_bytes"), 100);
    answer = call(scene.alice, "trace", "", "result");
    assert_int_equal(answer_count(answer, "\"allocate_failed\""), 1);
    assert_int_equal(answer_count(answer, "\"operation\""), 1);
    call(scene.alice, "free", "\"tag\":\"t\"", "unknown_handle");
    end(&scene);
}

static void test_more_than_max_request_bytes_is_a_wrong_parameter(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "--max-request-bytes=1000");
    call(scene.alice, "allocate", "\"requested_bytes\":1000", "result");
    const char *answer =
        call(scene.alice, "allocate", "\"requested_bytes\":1001", "invalid_params");
    assert_true(answer_is(answer, "param", "\"requested_bytes\""));
    assert_int_equal(live_in(scene.alice, "gpu0"), 1);
    end(&scene);
}

/* --------------------------------------------------------------------------------------- limits */

static void test_private_allocators_of_a_connection_are_limited(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "--max-allocators-per-connection=2");
    call(scene.alice, "open", "\"name\":\"a\"", "result");
    call(scene.alice, "open", "\"name\":\"b\"", "result");
    const char *answer = call(scene.alice, "open", "\"name\":\"c\"", "limit_exceeded");
    assert_int_equal(answer_u64(answer, "limit"), 2);
    call(scene.alice_again, "open", "\"name\":\"c\"", "result");
    call(scene.alice, "close", "\"allocator\":\"a\"", "result");
    call(scene.alice, "open", "\"name\":\"c\"", "result");
    end(&scene);
}

static void test_live_allocations_of_an_allocator_are_limited(void **state)
{
    struct scene scene;
    char handle[HANDLE_SIZE];
    (void)state;
    begin(&scene, "--max-live-allocations=3");
    call(scene.alice, "open", "\"name\":\"mine\"", "result");
    for (int i = 0; i < 3; i++) {
        allocate(i ? scene.alice : scene.bob, "", handle);
        allocate(scene.alice, "\"allocator\":\"mine\"", handle);
    }
    const char *answer = call(scene.alice, "allocate", "\"requested_bytes\":1", "limit_exceeded");
    assert_int_equal(answer_u64(answer, "limit"), 3);
    call(scene.alice, "allocate", "\"requested_bytes\":1,\"allocator\":\"mine\"", "limit_exceeded");
    free_handle(scene.alice, handle, "mine", "result");
    allocate(scene.alice, "\"allocator\":\"mine\"", handle);
    end(&scene);
}

static void test_host_bytes_that_would_pass_64_bits_are_refused(void **state)
{
    static const char params[] = "\"requested_bytes\":9007199254740991";
    struct scene scene;
    (void)state;
    begin(&scene, "--gpu-probability=0 --max-request-bytes=9007199254740991");
    for (int i = 0; i < 2048; i++)
        call(scene.alice, "allocate", params, "result");
    const char *answer = call(scene.alice, "allocate", params, "limit_exceeded");
    assert_int_equal(answer_u64(answer, "limit"), UINT64_MAX);
    answer = call(scene.alice, "snapshot", "", "result");
    assert_int_equal(answer_u64(answer, "cpu_bytes"), UINT64_MAX - 2047);
    assert_int_equal(answer_u64(answer, "active_allocations"), 2048);
    call(scene.alice, "allocate", "\"requested_bytes\":2047", "result");
    call(scene.alice, "validate", "", "result");
    end(&scene);
}

/* ----------------------------------------------------------------------------------------- info */

static void test_info_says_who_it_is_and_what_there_is(void **state)
{
    struct scene scene;
    char version[64];
    (void)state;
    begin(&scene, "");
    call(scene.alice, "open", "\"name\":\"mine\"", "result");
    call(scene.bob, "open", "\"name\":\"his\"", "result");
    memory_daemon_wait(&scene.daemon, 61999);
    const char *answer = call(scene.alice, "info", "", "result");
    assert_true(answer_is(answer, "server", "\"worsegpud\""));
    snprintf(version, sizeof(version), "\"%s\"", WORSEGPU_VERSION);
    assert_true(answer_is(answer, "version", version));
    assert_true(answer_is(answer, "protocol", "1"));
    assert_true(answer_is(answer, "pid", "1"));
    assert_true(answer_is(answer, "uptime_seconds", "61"));
    assert_int_equal(answer_count(answer, "\"name\":"), 2);
    assert_int_equal(answer_count(answer, "\"name\":\"gpu0\""), 1);
    assert_int_equal(answer_count(answer, "\"name\":\"mine\""), 1);
    const char *policies = answer_member(answer, "policies");
    for (size_t i = 0; worsegpu_policy_name(i); i++)
        assert_non_null(strstr(policies, worsegpu_policy_name(i)));
    end(&scene);
}

static void test_the_limits_of_info_are_those_of_the_options_table(void **state)
{
    struct scene scene;
    char number[32];
    size_t count = 2; /* two that are no options */
    (void)state;
    begin(&scene, "--max-requests-per-turn=11 --max-half-line-seconds=12");
    scene.daemon.server.max_connections = 500; /* few descriptors */
    const char *answer = call(scene.alice, "info", "", "result");
    const char *limits = answer_member(answer, "limits");
    assert_non_null(limits);
    for (size_t i = 0; i < options_count(); i++) {
        const struct option_info *info = options_info(i);
        if (!info->is_limit) {
            assert_null(answer_member(limits, info->field));
            continue;
        }
        uint64_t value = strcmp(info->field, "max_connections") == 0
                             ? 500
                             : options_number(&scene.daemon.options, i);
        snprintf(number, sizeof(number), "%" PRIu64, value);
        assert_true(answer_is(limits, info->field, number));
        count++;
    }
    assert_true(answer_is(limits, "max_json_depth", "16"));
    assert_true(answer_is(limits, "max_trace_limit", "1000000"));
    assert_true(answer_is(limits, "max_requests_per_turn", "11"));
    assert_int_equal(answer_count(limits, "\":"), count);
    end(&scene);
}

/* ------------------------------------------------------------------- snapshot, trace, validate */

static void test_snapshot_begins_with_the_references_eleven_metrics(void **state)
{
    static const char *const metrics[] = {"gpu_capacity", "gpu_reserved",  "gpu_unreserved",
                                          "gpu_used",     "gpu_free",      "gpu_forgotten",
                                          "gpu_blocks",   "cpu_bytes",     "active_allocations",
                                          "trace_events", "fragmentation", "detail"};
    struct scene scene;
    (void)state;
    begin(&scene, "--gpu-probability=1");
    const char *answer = call(scene.alice, "snapshot", "", "result");
    assert_true(answer_is(answer, "fragmentation", "0.0"));
    const char *place = answer;
    for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
        const char *found = answer_member(answer, metrics[i]);
        assert_non_null(found);
        assert_true(found > place);
        place = found;
    }
    call(scene.alice, "allocate", "\"requested_bytes\":1", "result");
    answer = call(scene.alice, "snapshot", "", "result");
    assert_true(answer_is(answer, "fragmentation", "1.0"));
    assert_int_equal(answer_u64(answer, "gpu_allocations"), 1);
    assert_int_equal(answer_u64(answer, "gpu_requested"), 1);
    end(&scene);
}

static void test_an_event_has_the_references_keys_and_then_ours(void **state)
{
    struct scene scene;
    char expected[512];
    (void)state;
    begin(&scene, "--gpu-probability=0");
    call(scene.bob, "allocate", "\"requested_bytes\":5,\"tag\":\"\\u001b\",\"stream\":0", "result");
    memory_daemon_wait(&scene.daemon, 1);
    call(scene.bob, "free", "\"tag\":\"\\u001b\"", "result");
    snprintf(
        expected, sizeof(expected),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"events\":["
        "{\"operation\":\"allocate\",\"allocation_id\":1,\"requested_bytes\":5,\"reserved_bytes\":"
        "5,"
        "\"device\":\"cpu\",\"reason\":\"probability\",\"sequence\":1,\"time_us\":1700000000000000,"
        "\"client\":%" PRIu64 ",\"tag\":\"\\u001b\",\"stream\":0},"
        "{\"operation\":\"free\",\"allocation_id\":1,\"released\":true,\"device\":\"cpu\","
        "\"sequence\":2,"
        "\"time_us\":1700000000001000,\"client\":%" PRIu64 ",\"tag\":\"\\u001b\",\"stream\":0}],"
        "\"next\":2,\"more\":false,\"dropped\":0}}",
        scene.bob->connection->number, scene.bob->connection->number);
    assert_string_equal(call(scene.bob, "trace", "", "result"), expected);
    end(&scene);
}

static void test_trace_pages_and_says_what_was_dropped(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "--trace-limit=50");
    for (int i = 0; i < 80; i++)
        call(scene.alice, "allocate", "\"requested_bytes\":5", "result");
    const char *answer = call(scene.alice, "trace", "\"limit\":20", "result");
    assert_int_equal(answer_count(answer, "\"operation\""), 20);
    assert_true(answer_is(answer, "next", "50"));
    assert_true(answer_is(answer, "more", "true"));
    assert_true(answer_is(answer, "dropped", "30"));
    answer = call(scene.alice, "trace", "\"after\":50", "result");
    assert_int_equal(answer_count(answer, "\"operation\""), 30);
    assert_true(answer_is(answer, "next", "80"));
    assert_true(answer_is(answer, "more", "false"));
    assert_true(answer_is(answer, "dropped", "0"));
    answer = call(scene.root, "trace_clear", "", "result");
    assert_int_equal(answer_u64(answer, "cleared"), 50);
    answer = call(scene.alice, "trace", "\"after\":75", "result");
    assert_true(answer_is(answer, "events", "[]"));
    assert_true(answer_is(answer, "next", "75"));
    assert_true(answer_is(answer, "dropped", "5"));
    end(&scene);
}

static void test_validate_names_what_is_broken(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    const char *answer = call(scene.alice, "validate", "", "result");
    assert_true(answer_is(answer, "valid", "true"));
    assert_true(answer_u64(answer, "checks") > 0);
    memory_daemon_gpu0(&scene.daemon)->engine->counters.gpu_requested++;
    answer = call(scene.alice, "validate", "", "invariant_violation");
    assert_true(answer_is(answer, "check", "\"gpu_requested_sum\""));
    end(&scene);
}

/* ---------------------------------------------------------------------------------- every method
 */

/* A call of each method that works after the one before. */
static const char *params_of(enum method method)
{
    switch (method) {
    case METHOD_hello:
    case METHOD_open:
        return "\"name\":\"mine\"";
    case METHOD_close:
        return "\"allocator\":\"mine\"";
    case METHOD_allocate:
        return "\"requested_bytes\":10,\"tag\":\"t\"";
    case METHOD_record_stream:
    case METHOD_free:
        return "\"tag\":\"t\"";
    case METHOD_resize:
        return "\"gpu_capacity\":4096";
    case METHOD_inject:
        return "\"action\":\"out_of_memory\",\"nth\":1000";
    default:
        return "";
    }
}

static void test_every_method_of_the_table_answers(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene, "");
    for (int method = 0; method < METHODS; method++)
        call(scene.root, method_info((enum method)method)->name, params_of((enum method)method),
             "result");
    end(&scene);
}

static void test_every_method_with_an_allocator_knows_only_those_there_are(void **state)
{
    struct scene scene;
    char params[256];
    (void)state;
    begin(&scene, "");
    for (int method = 0; method < METHODS; method++) {
        const struct method_info *info = method_info((enum method)method);
        if (!(info->takes >> PARAMETER_allocator & 1u))
            continue;
        const char *params_there = method == METHOD_close ? "" : params_of((enum method)method);
        snprintf(params, sizeof(params), "%s%s\"allocator\":\"nowhere\"", params_there,
                 *params_there ? "," : "");
        call(scene.root, info->name, params, "unknown_allocator");
    }
    end(&scene);
}

static void test_a_notification_of_every_method_acts_and_is_not_answered(void **state)
{
    struct scene scene;
    char line[256];
    (void)state;
    begin(&scene, "");
    for (int method = 0; method < METHODS; method++) {
        snprintf(line, sizeof(line), "{\"method\":\"%s\",\"params\":{%s}}",
                 method_info((enum method)method)->name, params_of((enum method)method));
        memory_client_send_line(scene.root, line);
        memory_daemon_settle(&scene.daemon);
        assert_null(memory_client_line(scene.root));
        if (method == METHOD_hello)
            assert_string_equal(scene.root->connection->name, "mine");
        if (method == METHOD_open)
            assert_int_equal(scene.root->connection->allocator_count, 1);
        if (method == METHOD_close)
            assert_int_equal(scene.root->connection->allocator_count, 0);
        if (method == METHOD_allocate)
            assert_int_equal(live_in(scene.bob, "gpu0"), 1);
        if (method == METHOD_free)
            assert_int_equal(live_in(scene.bob, "gpu0"), 0);
        if (method == METHOD_trace_clear)
            assert_true(answer_is(call(scene.bob, "snapshot", "", "result"), "trace_events", "0"));
        if (method == METHOD_resize)
            assert_true(
                answer_is(call(scene.bob, "snapshot", "", "result"), "gpu_capacity", "4096"));
        if (method == METHOD_inject)
            assert_int_equal(scene.daemon.server.rules.count, 1);
        if (method == METHOD_rules_clear)
            assert_int_equal(scene.daemon.server.rules.count, 0);
    }
    memory_client_send_text(
        scene.root, "{\"method\":\"free\",\"params\":{\"tag\":\"t\"}}\n{\"method\":\"close\"}\n"
                    "{\"method\":\"nothing\"}\n{\"method\":\"free\",\"params\":7}\n");
    memory_daemon_settle(&scene.daemon);
    assert_null(memory_client_line(scene.root)); /* not even with an error */
    end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_shows_the_whole_configuration_as_it_stands),
        cmocka_unit_test(test_what_open_cannot_do_is_refused_and_leaves_no_allocator),
        cmocka_unit_test(test_a_private_name_is_taken_on_its_own_connection_only),
        cmocka_unit_test(test_seeds_are_shown_as_they_were_given),
        cmocka_unit_test(test_the_daemons_own_seed_is_a_number_where_json_can_hold_it),
        cmocka_unit_test(test_equal_seeds_and_equal_requests_give_equal_decisions),
        cmocka_unit_test(test_a_shared_allocator_cannot_be_closed),
        cmocka_unit_test(test_a_closed_allocator_is_gone_and_its_name_is_free),
        cmocka_unit_test(test_a_tag_is_unique_for_a_connection_and_an_allocator),
        cmocka_unit_test(test_a_tag_frees_what_it_names_and_then_names_nothing),
        cmocka_unit_test(test_a_tag_also_goes_when_its_handle_is_freed_on_another_connection),
        cmocka_unit_test(test_a_detached_allocation_keeps_its_tag_until_its_connection_ends),
        cmocka_unit_test(test_free_takes_a_handle_or_a_tag_and_not_both),
        cmocka_unit_test(test_a_handle_that_was_never_given_or_is_used_twice_is_unknown),
        cmocka_unit_test(test_a_handle_frees_only_for_its_user_and_root),
        cmocka_unit_test(
            test_a_handle_of_another_allocator_is_foreign_only_to_who_may_use_that_one),
        cmocka_unit_test(test_list_shows_a_peer_its_own_users_allocations_and_root_all),
        cmocka_unit_test(test_list_says_whose_an_allocation_is_while_its_connection_lives),
        cmocka_unit_test(test_list_goes_on_where_the_page_before_ended),
        cmocka_unit_test(test_allocate_tells_where_it_put_what_was_asked_for),
        cmocka_unit_test(test_out_of_memory_names_the_bytes_and_leaves_one_event),
        cmocka_unit_test(test_more_than_max_request_bytes_is_a_wrong_parameter),
        cmocka_unit_test(test_private_allocators_of_a_connection_are_limited),
        cmocka_unit_test(test_live_allocations_of_an_allocator_are_limited),
        cmocka_unit_test(test_host_bytes_that_would_pass_64_bits_are_refused),
        cmocka_unit_test(test_info_says_who_it_is_and_what_there_is),
        cmocka_unit_test(test_the_limits_of_info_are_those_of_the_options_table),
        cmocka_unit_test(test_snapshot_begins_with_the_references_eleven_metrics),
        cmocka_unit_test(test_an_event_has_the_references_keys_and_then_ours),
        cmocka_unit_test(test_trace_pages_and_says_what_was_dropped),
        cmocka_unit_test(test_validate_names_what_is_broken),
        cmocka_unit_test(test_every_method_of_the_table_answers),
        cmocka_unit_test(test_every_method_with_an_allocator_knows_only_those_there_are),
        cmocka_unit_test(test_a_notification_of_every_method_acts_and_is_not_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
