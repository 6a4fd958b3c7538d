/* Tests of daemon/quota.c, alone and through the whole daemon: each limit to the very byte, what a
 * refusal says, and that it changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/quota.h"
#include "tests/support/memory_daemon.h"

enum {
    ALICE = 1000,
    BOB = 1001,
    LIMIT = 100,
    STEPS = 400
};

/* Each limit: what it is called, where it is set, and of whom it counts what. */
static const struct limit {
    const char *which;
    size_t option; /* offset in struct options; 0: the allocator's host capacity */
    bool of_user;
    bool counts_allocations;
    enum worsegpu_device device; /* of what it limits, where it limits bytes */
} limits[] = {
    {"max_client_gpu_bytes", offsetof(struct options, max_client_gpu_bytes), false, false,
     WORSEGPU_GPU},
    {"max_client_cpu_bytes", offsetof(struct options, max_client_cpu_bytes), false, false,
     WORSEGPU_CPU},
    {"max_client_allocations", offsetof(struct options, max_client_allocations), false, true,
     WORSEGPU_GPU},
    {"max_user_gpu_bytes", offsetof(struct options, max_user_gpu_bytes), true, false, WORSEGPU_GPU},
    {"max_user_cpu_bytes", offsetof(struct options, max_user_cpu_bytes), true, false, WORSEGPU_CPU},
    {"max_user_allocations", offsetof(struct options, max_user_allocations), true, true,
     WORSEGPU_GPU},
    {"host_capacity", 0, false, false, WORSEGPU_CPU},
};

enum {
    LIMITS = sizeof(limits) / sizeof(limits[0])
};

/* A quota with one limit of LIMIT, of which so much is used. */
struct scene {
    struct options options;
    struct account client;
    struct account user;
    struct quota quota;
};

static void begin(struct scene *scene, const struct limit *limit, uint64_t value, uint64_t used)
{
    memset(scene, 0, sizeof(*scene));
    scene->quota =
        (struct quota){.options = &scene->options, .client = &scene->client, .user = &scene->user};
    if (limit->option == 0) {
        scene->quota.host_capacity = value;
        scene->quota.host_used = used;
        return;
    }
    memcpy((char *)&scene->options + limit->option, &value, sizeof(value));
    struct account *account = limit->of_user ? &scene->user : &scene->client;
    if (limit->counts_allocations)
        account->allocations = used;
    else if (limit->device == WORSEGPU_GPU)
        account->gpu_bytes = used;
    else
        account->cpu_bytes = used;
}

static void assert_refused(struct scene *scene, const struct limit *limit,
                           enum worsegpu_device device, uint64_t bytes, uint64_t used)
{
    assert_false(quota_admit(&scene->quota, device, bytes));
    assert_string_equal(scene->quota.which, limit->which);
    assert_int_equal(scene->quota.limit, LIMIT);
    assert_int_equal(scene->quota.used, used);
}

static void test_without_a_limit_nobody_need_be_asked(void **state)
{
    struct scene scene;
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        begin(&scene, &limits[i], 0, UINT64_MAX);
        assert_false(quota_applies(&scene.quota));
        assert_true(quota_admit(&scene.quota, WORSEGPU_GPU, UINT64_MAX));
        assert_true(quota_admit(&scene.quota, WORSEGPU_CPU, UINT64_MAX));
        begin(&scene, &limits[i], 1, 0);
        assert_true(quota_applies(&scene.quota));
    }
}

static void test_each_limit_of_bytes_holds_to_the_byte(void **state)
{
    static const uint64_t used[] = {0, 1, 60, 99};
    struct scene scene;
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        if (limits[i].counts_allocations)
            continue;
        for (size_t k = 0; k < sizeof(used) / sizeof(used[0]); k++) {
            begin(&scene, &limits[i], LIMIT, used[k]);
            assert_true(quota_admit(&scene.quota, limits[i].device, LIMIT - used[k]));
            assert_refused(&scene, &limits[i], limits[i].device, LIMIT - used[k] + 1, used[k]);
            assert_refused(&scene, &limits[i], limits[i].device, UINT64_MAX, used[k]);
        }
        begin(&scene, &limits[i], LIMIT, LIMIT);
        assert_refused(&scene, &limits[i], limits[i].device, 1, LIMIT);
    }
}

static void test_a_limit_of_bytes_is_about_its_own_device(void **state)
{
    struct scene scene;
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        if (limits[i].counts_allocations)
            continue;
        begin(&scene, &limits[i], LIMIT, LIMIT);
        assert_true(quota_admit(&scene.quota,
                                limits[i].device == WORSEGPU_GPU ? WORSEGPU_CPU : WORSEGPU_GPU,
                                UINT64_MAX));
    }
}

static void test_a_limit_of_allocations_counts_them_on_both_devices(void **state)
{
    struct scene scene;
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        if (!limits[i].counts_allocations)
            continue;
        for (int device = 0; device < 2; device++) {
            enum worsegpu_device where = device ? WORSEGPU_CPU : WORSEGPU_GPU;
            begin(&scene, &limits[i], LIMIT, LIMIT - 1);
            assert_true(quota_admit(&scene.quota, where, UINT64_MAX));
            begin(&scene, &limits[i], LIMIT, LIMIT);
            assert_refused(&scene, &limits[i], where, 1, LIMIT);
        }
    }
}

static void test_a_limit_below_what_is_used_admits_nothing_more(void **state)
{
    struct scene scene;
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        begin(&scene, &limits[i], LIMIT, 150);
        assert_refused(&scene, &limits[i], limits[i].device, 1, 150);
        begin(&scene, &limits[i], LIMIT, UINT64_MAX);
        assert_refused(&scene, &limits[i], limits[i].device, UINT64_MAX, UINT64_MAX);
    }
}

/* -------------------------------------------------------------------- through the whole daemon */

/* The words that set a limit and send everything of two bytes or more to the device it is about,
 * where it takes just what was asked for. */
static const char *words_of(const struct limit *limit, uint64_t value, char words[160])
{
    char flag[40];
    snprintf(flag, sizeof(flag), "%s", limit->which);
    for (char *letter = flag; *letter; letter++)
        if (*letter == '_')
            *letter = '-';
    snprintf(words, 160, "--%s=%" PRIu64 " --policy=reference --capacity=%d", flag, value,
             limit->device == WORSEGPU_GPU ? 1000000 : 1);
    return words;
}

static const char *allocate(struct memory_client *client, uint64_t bytes, const char *more)
{
    char params[128];
    snprintf(params, sizeof(params), "\"requested_bytes\":%" PRIu64 "%s", bytes, more);
    return memory_client_call(client, "allocate", params);
}

static void assert_same_accounts(const struct memory_client *client, const struct account *before)
{
    assert_memory_equal(&client->connection->account, before, sizeof(*before));
}

static void test_a_refusal_says_which_limit_and_what_is_used_and_left(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        const struct limit *limit = &limits[i];
        struct memory_daemon daemon;
        char words[160];
        char expected[512];
        uint64_t value = limit->counts_allocations ? 2 : 2000;
        uint64_t used = limit->counts_allocations ? 2 : 1002;
        memory_daemon_start(&daemon, NULL, words_of(limit, value, words));
        struct memory_client *alice = memory_daemon_connect(&daemon, ALICE);
        assert_kind(allocate(alice, 1000, ""), "result");
        assert_kind(allocate(alice, 2, ""), "result");
        struct account before = alice->connection->account;
        snprintf(expected, sizeof(expected),
                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":5,\"message\":\"%s is %" PRIu64
                 ", of which %" PRIu64 " are used and %" PRIu64
                 " left\",\"data\":{\"kind\":\"quota_exceeded\",\"which\":\"%s\",\"limit\":%" PRIu64
                 ",\"used\":%" PRIu64 ",\"left\":%" PRIu64 "}}}",
                 limit->which, value, used, value - used, limit->which, value, used, value - used);
        assert_string_equal(allocate(alice, 999, ",\"tag\":\"t\""), expected);
        assert_same_accounts(alice, &before);
        assert_int_equal(daemon.server.leases.out, 2);
        /* The tag was not taken, and one byte less fits where bytes are counted. */
        assert_kind(allocate(alice, 998, ",\"tag\":\"t\""),
                    limit->counts_allocations ? "quota_exceeded" : "result");
        memory_daemon_end(&daemon);
    }
}

static void test_a_users_limits_count_all_its_connections_and_what_outlives_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        const struct limit *limit = &limits[i];
        struct memory_daemon daemon;
        char words[160];
        char handle[WORSEGPU_HANDLE_TEXT_SIZE];
        char params[128];
        if (limit->option == 0)
            continue; /* that one is of no user */
        memory_daemon_start(&daemon, NULL,
                            words_of(limit, limit->counts_allocations ? 1 : 1000, words));
        struct memory_client *first = memory_daemon_connect(&daemon, ALICE);
        struct memory_client *second = memory_daemon_connect(&daemon, ALICE);
        struct memory_client *bob = memory_daemon_connect(&daemon, BOB);
        const char *answer = allocate(first, 1000, ",\"detached\":true");
        answer_text(answer, "handle", handle, sizeof(handle));
        assert_kind(allocate(first, 2, ""), "quota_exceeded");
        assert_kind(allocate(bob, 1000, ""), "result");
        if (!limit->of_user) {
            assert_kind(allocate(second, 1000, ""), "result");
            memory_daemon_end(&daemon);
            continue;
        }
        assert_kind(allocate(second, 2, ""), "quota_exceeded");
        memory_client_hang_up(first);
        memory_daemon_settle(&daemon);
        assert_kind(allocate(second, 2, ""), "quota_exceeded");
        snprintf(params, sizeof(params), "\"handle\":\"%s\"", handle);
        assert_kind(memory_client_call(second, "free", params), "result");
        assert_kind(allocate(second, 1000, ""), "result");
        memory_daemon_end(&daemon);
    }
}

static void
test_a_limit_that_is_lowered_below_what_is_used_leaves_nothing_and_takes_nothing(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL, "--policy=reference --max-client-gpu-bytes=1000");
    struct memory_client *alice = memory_daemon_connect(&daemon, ALICE);
    assert_kind(allocate(alice, 600, ",\"tag\":\"t\""), "result");
    daemon.options.max_client_gpu_bytes = 400;
    const char *answer = allocate(alice, 1, "");
    assert_kind(answer, "quota_exceeded");
    assert_int_equal(answer_u64(answer, "limit"), 400);
    assert_int_equal(answer_u64(answer, "used"), 600);
    assert_int_equal(answer_u64(answer, "left"), 0);
    assert_int_equal(alice->connection->account.gpu_bytes, 600);
    assert_kind(memory_client_call(alice, "free", "\"tag\":\"t\""), "result");
    assert_kind(allocate(alice, 400, ""), "result");
    memory_daemon_end(&daemon);
}

static void
test_private_allocators_count_for_their_connection_and_have_a_host_of_their_own(void **state)
{
    struct memory_daemon daemon;
    (void)state;
    memory_daemon_start(&daemon, NULL,
                        "--host-capacity=500 --gpu-probability=0 --max-client-cpu-bytes=900");
    struct memory_client *alice = memory_daemon_connect(&daemon, ALICE);
    assert_kind(memory_client_call(alice, "open", "\"name\":\"mine\",\"gpu_probability\":0"),
                "result");
    assert_kind(allocate(alice, 500, ""), "result");
    assert_true(answer_is(allocate(alice, 1, ""), "which", "\"host_capacity\""));
    assert_kind(allocate(alice, 400, ",\"allocator\":\"mine\""), "result");
    assert_true(answer_is(allocate(alice, 1, ",\"allocator\":\"mine\""), "which",
                          "\"max_client_cpu_bytes\""));
    assert_kind(memory_client_call(alice, "close", "\"allocator\":\"mine\""), "result");
    assert_int_equal(alice->connection->account.cpu_bytes, 500);
    memory_daemon_end(&daemon);
}

/* What an allocation or a free was told, without its secret. The caller frees. */
static char *scrubbed(const char *answer)
{
    char *copy = strdup(answer);
    assert_non_null(copy);
    answer_scrub(copy);
    return copy;
}

static void assert_twins(struct memory_client *client, struct memory_client *twin,
                         const char *method, const char *params)
{
    char *left = scrubbed(memory_client_call(client, method, params));
    char *right = scrubbed(memory_client_call(twin, method, params));
    assert_string_equal(left, right);
    free(left);
    free(right);
}

/* One daemon has limits and refuses; its twin has none and never hears of what was refused. */
static void test_a_refusal_changes_no_decision_before_or_after_it(void **state)
{
    struct chaos chaos;
    struct memory_daemon daemon;
    struct memory_daemon twin_daemon;
    uint64_t random = 5;
    size_t refused = 0;
    size_t given = 0;
    (void)state;
    chaos_init(&chaos);
    memory_daemon_start(&daemon, &chaos,
                        "--capacity=300000 --max-client-gpu-bytes=90000 "
                        "--max-user-cpu-bytes=60000 --max-client-allocations=30");
    memory_daemon_start(&twin_daemon, &chaos, "--capacity=300000");
    struct memory_client *client = memory_daemon_connect(&daemon, ALICE);
    struct memory_client *twin = memory_daemon_connect(&twin_daemon, ALICE);
    for (unsigned step = 0; step < STEPS; step++) {
        char params[96];
        char kind[ANSWER_KIND_SIZE];
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        snprintf(params, sizeof(params), "\"requested_bytes\":%u,\"tag\":\"t%u\"",
                 (unsigned)(random >> 33) % 9000 + 1, (unsigned)(random >> 50) % 60);
        char *answer = scrubbed(memory_client_call(client, "allocate", params));
        answer_kind(answer, kind);
        if (strcmp(kind, "quota_exceeded") == 0) {
            refused++;
        } else {
            given += strcmp(kind, "result") == 0;
            char *expected = scrubbed(memory_client_call(twin, "allocate", params));
            assert_string_equal(answer, expected);
            free(expected);
        }
        free(answer);
        snprintf(params, sizeof(params), "\"tag\":\"t%u\"", (unsigned)(random >> 44) % 60);
        if (step % 2)
            assert_twins(client, twin, "free", params);
        assert_twins(client, twin, "snapshot", "");
    }
    assert_in_range(refused, 20, STEPS);
    assert_in_range(given, 50, STEPS);
    assert_twins(client, twin, "trace", "");
    assert_twins(client, twin, "list", "");
    assert_twins(client, twin, "validate", "");
    memory_daemon_end(&daemon);
    memory_daemon_end(&twin_daemon);
    chaos_hook_cjson(NULL);
    assert_int_equal(chaos.live_pieces, 0);
}

/* An allocation under limits, of which the last byte is taken, while memory fails. */
static bool allocate_within_limits(struct chaos *chaos, void *context)
{
    (void)context;
    struct memory_daemon daemon;
    static const struct account nothing;
    uint64_t fail_at = chaos->fail_at;
    bool for_good = chaos->for_good;
    char kind[ANSWER_KIND_SIZE];
    chaos_arm(chaos, 0, false);
    memory_daemon_start(&daemon, chaos,
                        "--policy=reference --max-client-gpu-bytes=700 --max-user-gpu-bytes=700 "
                        "--max-user-allocations=1 --host-capacity=1");
    struct memory_client *client = memory_daemon_connect(&daemon, ALICE);
    const struct user *user = users_find(&daemon.server.users, ALICE);
    chaos_arm(chaos, fail_at, for_good);
    answer_kind(allocate(client, 700, ",\"tag\":\"t\",\"detached\":true"), kind);
    bool failed = chaos->failed;
    bool through = strcmp(kind, "result") == 0;
    if (through) {
        assert_int_equal(client->connection->account.gpu_bytes, 700);
        assert_kind(allocate(client, 1, ""), "quota_exceeded"); /* for which no memory is needed */
        chaos_arm(chaos, 0, false);
    } else {
        assert_string_equal(kind, "internal_error");
        assert_same_accounts(client, &nothing);
        assert_memory_equal(&user->account, &nothing, sizeof(nothing));
        chaos_arm(chaos, 0, false);
        assert_kind(allocate(client, 700, ",\"tag\":\"t\",\"detached\":true"), "result");
    }
    assert_int_equal(user->account.gpu_bytes, 700);
    assert_int_equal(user->account.detached, 1);
    assert_kind(allocate(client, 1, ""), "quota_exceeded");
    memory_daemon_end(&daemon);
    chaos->failed = failed;
    return through;
}

static void test_an_allocation_within_limits_goes_through_or_charges_nothing(void **state)
{
    (void)state;
    assert_true(chaos_loop(allocate_within_limits, NULL) > 1);
    chaos_hook_cjson(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_limit_nobody_need_be_asked),
        cmocka_unit_test(test_each_limit_of_bytes_holds_to_the_byte),
        cmocka_unit_test(test_a_limit_of_bytes_is_about_its_own_device),
        cmocka_unit_test(test_a_limit_of_allocations_counts_them_on_both_devices),
        cmocka_unit_test(test_a_limit_below_what_is_used_admits_nothing_more),
        cmocka_unit_test(test_a_refusal_says_which_limit_and_what_is_used_and_left),
        cmocka_unit_test(test_a_users_limits_count_all_its_connections_and_what_outlives_them),
        cmocka_unit_test(
            test_a_limit_that_is_lowered_below_what_is_used_leaves_nothing_and_takes_nothing),
        cmocka_unit_test(
            test_private_allocators_count_for_their_connection_and_have_a_host_of_their_own),
        cmocka_unit_test(test_a_refusal_changes_no_decision_before_or_after_it),
        cmocka_unit_test(test_an_allocation_within_limits_goes_through_or_charges_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
