/* Who holds what, over a long time: random operations of two users on several connections, against
 * a naive model that keeps one flat list and counts it anew each time. At the end everything is
 * given back. */
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
    OPERATIONS = 20000,
    CLIENTS = 6,      /* at once: four of Alice, two of Bob */
    PRIVATE = 2,      /* private allocators of one client: "p0", "p1" */
    MOST_HELD = 4096, /* allocations in the model */
    TAGS = 8,         /* so few that they are often taken */
    LOOK_EVERY = 500,
    ALICE = 1000,
    BOB = 1001,
    NOBODY = -1 /* holds a detached allocation whose connection has ended */
};

struct held {
    uint64_t id;
    char handle[WORSEGPU_HANDLE_TEXT_SIZE];
    uint64_t requested_bytes;
    uint64_t reserved_bytes;
    bool on_gpu;
    int client;    /* NOBODY once that has ended */
    int allocator; /* -1: gpu0, else the private one of its client */
    uid_t uid;
    int tag; /* -1: none */
    bool detached;
};

struct model {
    struct memory_daemon daemon;
    uint64_t random;
    struct memory_client *clients[CLIENTS];
    bool open[CLIENTS][PRIVATE];
    struct held held[MOST_HELD];
    size_t count;
    uint64_t given; /* allocations of gpu0, ever */
    uint64_t freed;
    char ended_handle[WORSEGPU_HANDLE_TEXT_SIZE]; /* of the last one that was freed */
};

/* A number below `limit`; a small generator of its own, so that runs are the same everywhere. */
static unsigned draw(struct model *model, unsigned limit)
{
    model->random = model->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((model->random >> 33) % limit);
}

static uid_t user_of(int client)
{
    return client < 4 ? ALICE : BOB;
}

static const char *allocator_name(int allocator)
{
    static const char *const names[PRIVATE] = {"p0", "p1"};
    return allocator < 0 ? "gpu0" : names[allocator];
}

static void forget(struct model *model, size_t index)
{
    memcpy(model->ended_handle, model->held[index].handle, sizeof(model->ended_handle));
    model->held[index] = model->held[--model->count];
}

static const struct held *find_tag(const struct model *model, int client, int allocator, int tag)
{
    for (size_t i = 0; i < model->count; i++) {
        const struct held *held = &model->held[i];
        if (held->client == client && held->allocator == allocator && held->tag == tag)
            return held;
    }
    return NULL;
}

/* --------------------------------------------------------------------------------- operations */

static void do_allocate(struct model *model, int client)
{
    char params[256];
    char tag_part[32] = "";
    int allocator = (int)draw(model, 2 + PRIVATE) - 2;
    allocator = allocator < 0 ? -1 : allocator;
    int tag = draw(model, 2) ? -1 : (int)draw(model, TAGS);
    bool detached = draw(model, 8) == 0;
    uint64_t requested_bytes = 1 + draw(model, 20000);
    if (tag >= 0)
        snprintf(tag_part, sizeof(tag_part), ",\"tag\":\"tag %d\"", tag);
    snprintf(params, sizeof(params),
             "\"requested_bytes\":%" PRIu64 ",\"allocator\":\"%s\"%s,\"detached\":%s",
             requested_bytes, allocator_name(allocator), tag_part, detached ? "true" : "false");
    const char *answer = memory_client_call(model->clients[client], "allocate", params);
    if (allocator >= 0 && !model->open[client][allocator]) {
        assert_kind(answer, "unknown_allocator");
        return;
    }
    if (tag >= 0 && find_tag(model, client, allocator, tag)) {
        assert_kind(answer, "name_in_use");
        return;
    }
    assert_kind(answer, "result");
    assert_true(model->count < MOST_HELD);
    struct held *held = &model->held[model->count++];
    *held = (struct held){.id = answer_u64(answer, "allocation_id"),
                          .requested_bytes = requested_bytes,
                          .reserved_bytes = answer_u64(answer, "reserved_bytes"),
                          .on_gpu = answer_is(answer, "device", "\"gpu\""),
                          .client = client,
                          .allocator = allocator,
                          .uid = user_of(client),
                          .tag = tag,
                          .detached = detached};
    answer_text(answer, "handle", held->handle, sizeof(held->handle));
    model->given += allocator < 0;
}

/* Whether a client may use the allocator in which something is held. */
static bool may_use(const struct held *held, int client)
{
    return held->allocator < 0 || held->client == client;
}

static void do_free_by_handle(struct model *model, int client)
{
    char params[256];
    if (model->count == 0)
        return;
    size_t index = draw(model, (unsigned)model->count);
    const struct held *held = &model->held[index];
    int named = draw(model, 4) ? held->allocator : -1; /* now and then another one */
    snprintf(params, sizeof(params), "\"handle\":\"%s\",\"allocator\":\"%s\"", held->handle,
             allocator_name(named));
    const char *answer = memory_client_call(model->clients[client], "free", params);
    if (named >= 0 && !model->open[client][named]) {
        assert_kind(answer, "unknown_allocator");
    } else if (!may_use(held, client)) {
        assert_kind(answer, "unknown_handle");
    } else if (named != held->allocator) {
        assert_kind(answer, "foreign_handle");
    } else {
        assert_kind(answer, "result");
        assert_int_equal(answer_u64(answer, "allocation_id"), held->id);
        assert_true(answer_is(answer, "device", held->on_gpu ? "\"gpu\"" : "\"cpu\""));
        model->freed += held->allocator < 0;
        forget(model, index);
    }
}

static void do_free_by_tag(struct model *model, int client)
{
    char params[128];
    int tag = (int)draw(model, TAGS);
    int allocator = (int)draw(model, 1 + PRIVATE) - 1;
    snprintf(params, sizeof(params), "\"tag\":\"tag %d\",\"allocator\":\"%s\"", tag,
             allocator_name(allocator));
    const char *answer = memory_client_call(model->clients[client], "free", params);
    const struct held *held = find_tag(model, client, allocator, tag);
    if (allocator >= 0 && !model->open[client][allocator]) {
        assert_kind(answer, "unknown_allocator");
    } else if (!held) {
        assert_kind(answer, "unknown_handle");
    } else {
        assert_kind(answer, "result");
        assert_int_equal(answer_u64(answer, "allocation_id"), held->id);
        model->freed += allocator < 0;
        forget(model, (size_t)(held - model->held));
    }
}

static void do_open(struct model *model, int client)
{
    char params[128];
    int allocator = (int)draw(model, PRIVATE);
    snprintf(params, sizeof(params), "\"name\":\"%s\",\"seed\":%u,\"trace_limit\":10",
             allocator_name(allocator), draw(model, 1000));
    assert_kind(memory_client_call(model->clients[client], "open", params),
                model->open[client][allocator] ? "name_in_use" : "result");
    model->open[client][allocator] = true;
}

static void end_private(struct model *model, int client, int allocator)
{
    for (size_t i = model->count; i-- > 0;)
        if (model->held[i].client == client && model->held[i].allocator == allocator)
            forget(model, i);
    model->open[client][allocator] = false;
}

static void do_close(struct model *model, int client)
{
    char params[128];
    int allocator = (int)draw(model, 1 + PRIVATE) - 1;
    snprintf(params, sizeof(params), "\"allocator\":\"%s\"", allocator_name(allocator));
    const char *answer = memory_client_call(model->clients[client], "close", params);
    if (allocator < 0) {
        assert_kind(answer, "permission_denied");
        return;
    }
    assert_kind(answer, model->open[client][allocator] ? "result" : "unknown_allocator");
    end_private(model, client, allocator);
}

/* A client goes away: what it held is freed, but for what it detached in gpu0. */
static void disconnect(struct model *model, int client)
{
    memory_client_hang_up(model->clients[client]);
    memory_daemon_settle(&model->daemon);
    for (int allocator = 0; allocator < PRIVATE; allocator++)
        end_private(model, client, allocator);
    for (size_t i = model->count; i-- > 0;) {
        struct held *held = &model->held[i];
        if (held->client != client)
            continue;
        held->client = NOBODY;
        held->tag = -1;
        if (held->detached)
            continue;
        model->freed++;
        forget(model, i);
    }
}

static void do_reconnect(struct model *model, int client)
{
    disconnect(model, client);
    model->clients[client] = memory_daemon_connect(&model->daemon, user_of(client));
}

static void do_error(struct model *model, int client)
{
    static const struct {
        const char *method;
        const char *params;
        const char *kind;
    } errors[] = {
        {"allocate", "", "invalid_params"},
        {"allocate", "\"requested_bytes\":0", "invalid_params"},
        {"allocate", "\"requested_bytes\":2199023255552", "invalid_params"},
        {"free", "\"handle\":\"1-00000000000000000000000000000000\"", "unknown_handle"},
        {"free", "\"handle\":\"1\",\"tag\":\"1\"", "invalid_params"},
        {"open", "\"name\":\"gpu0\"", "name_in_use"},
        {"open", "\"name\":\"p0\",\"policy\":\"?\"", "invalid_params"},
        {"nothing", "", "method_not_found"},
    };
    unsigned index = draw(model, sizeof(errors) / sizeof(errors[0]));
    const char *answer =
        memory_client_call(model->clients[client], errors[index].method, errors[index].params);
    assert_kind(answer, errors[index].kind);
    if (!*model->ended_handle)
        return;
    char params[128];
    snprintf(params, sizeof(params), "\"handle\":\"%s\"", model->ended_handle);
    assert_kind(memory_client_call(model->clients[client], "free", params), "unknown_handle");
}

/* ---------------------------------------------------------------------------------- comparing */

/* One allocator as the model sees it against its snapshot. */
static void compare_accounts(struct model *model, int client, int allocator)
{
    char params[64];
    uint64_t gpu_requested = 0;
    uint64_t gpu_used = 0;
    uint64_t cpu_bytes = 0;
    uint64_t on_gpu = 0;
    uint64_t count = 0;
    for (size_t i = 0; i < model->count; i++) {
        const struct held *held = &model->held[i];
        if (held->allocator != allocator || (allocator >= 0 && held->client != client))
            continue;
        count++;
        on_gpu += held->on_gpu;
        gpu_requested += held->on_gpu ? held->requested_bytes : 0;
        gpu_used += held->on_gpu ? held->reserved_bytes : 0;
        cpu_bytes += held->on_gpu ? 0 : held->requested_bytes;
    }
    snprintf(params, sizeof(params), "\"allocator\":\"%s\"", allocator_name(allocator));
    const char *answer = memory_client_call(model->clients[client], "snapshot", params);
    assert_int_equal(answer_u64(answer, "active_allocations"), count);
    assert_int_equal(answer_u64(answer, "gpu_allocations"), on_gpu);
    assert_int_equal(answer_u64(answer, "cpu_allocations"), count - on_gpu);
    assert_int_equal(answer_u64(answer, "gpu_requested"), gpu_requested);
    assert_int_equal(answer_u64(answer, "gpu_used"), gpu_used);
    assert_int_equal(answer_u64(answer, "cpu_bytes"), cpu_bytes);
    if (allocator < 0) {
        assert_int_equal(answer_u64(answer, "allocate_calls"), model->given);
        assert_int_equal(answer_u64(answer, "free_calls"), model->freed);
    }
    assert_kind(memory_client_call(model->clients[client], "validate", params), "result");
}

/* What a client is shown of gpu0 against what the model says it may see. */
static void compare_list(struct model *model, int client)
{
    size_t seen = 0;
    size_t expected = 0;
    uint64_t after = 0;
    for (size_t i = 0; i < model->count; i++)
        expected += model->held[i].allocator < 0 && model->held[i].uid == user_of(client);
    for (bool more = true; more;) {
        char params[64];
        snprintf(params, sizeof(params), "\"after\":%" PRIu64, after);
        const char *answer = memory_client_call(model->clients[client], "list", params);
        assert_kind(answer, "result");
        seen += answer_count(answer, "\"handle\":");
        for (size_t i = 0; i < model->count; i++) {
            const struct held *held = &model->held[i];
            uint64_t next = answer_u64(answer, "next");
            bool shown = strstr(answer, held->handle) != NULL;
            bool due = held->allocator < 0 && held->uid == user_of(client) && held->id > after &&
                       held->id <= next;
            assert_int_equal(shown, due);
        }
        after = answer_u64(answer, "next");
        more = answer_is(answer, "more", "true");
    }
    assert_int_equal(seen, expected);
}

static void compare(struct model *model)
{
    for (int client = 0; client < CLIENTS; client++) {
        assert_int_equal(model->clients[client]->connection->allocator_count,
                         model->open[client][0] + model->open[client][1]);
        for (int allocator = 0; allocator < PRIVATE; allocator++)
            if (model->open[client][allocator])
                compare_accounts(model, client, allocator);
    }
    compare_accounts(model, 0, -1);
    compare_list(model, 0);
    compare_list(model, CLIENTS - 1);
}

/* What is in gpu0 once everybody has gone, freed by a stranger who got the handles. */
static void free_the_detached(struct model *model)
{
    struct memory_client *stranger = memory_daemon_connect(&model->daemon, 4242);
    while (model->count > 0) {
        char params[128];
        const struct held *held = &model->held[model->count - 1];
        assert_true(held->detached && held->client == NOBODY);
        snprintf(params, sizeof(params), "\"handle\":\"%s\"", held->handle);
        assert_int_equal(answer_u64(memory_client_call(stranger, "free", params), "allocation_id"),
                         held->id);
        model->freed++;
        model->count--;
    }
    const char *answer = memory_client_call(stranger, "snapshot", "");
    static const char *const zeroes[] = {"active_allocations", "gpu_used",        "cpu_bytes",
                                         "gpu_allocations",    "cpu_allocations", "gpu_requested"};
    for (size_t i = 0; i < sizeof(zeroes) / sizeof(zeroes[0]); i++)
        assert_int_equal(answer_u64(answer, zeroes[i]), 0);
    assert_int_equal(answer_u64(answer, "allocate_calls"), model->given);
    assert_int_equal(answer_u64(answer, "free_calls"), model->freed);
    assert_int_equal(model->given, model->freed);
    assert_kind(memory_client_call(stranger, "validate", ""), "result");
}

static void test_the_accounts_of_a_long_life_are_those_of_a_naive_model(void **state)
{
    struct model *model = calloc(1, sizeof(*model));
    (void)state;
    assert_non_null(model);
    model->random = 20260731;
    memory_daemon_start(&model->daemon, NULL, "--trace-limit=100");
    for (int client = 0; client < CLIENTS; client++)
        model->clients[client] = memory_daemon_connect(&model->daemon, user_of(client));
    for (int operation = 1; operation <= OPERATIONS; operation++) {
        int client = (int)draw(model, CLIENTS);
        unsigned what = draw(model, 1000);
        if (what < 500)
            do_allocate(model, client);
        else if (what < 800)
            do_free_by_handle(model, client);
        else if (what < 920)
            do_free_by_tag(model, client);
        else if (what < 950)
            do_error(model, client);
        else if (what < 980)
            do_open(model, client);
        else if (what < 990)
            do_close(model, client);
        else
            do_reconnect(model, client);
        if (operation % LOOK_EVERY == 0)
            compare(model);
    }
    assert_true(model->given > OPERATIONS / 10);
    for (int client = 0; client < CLIENTS; client++)
        disconnect(model, client);
    assert_true(model->count > 0);
    free_the_detached(model);
    memory_daemon_end(&model->daemon);
    free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_accounts_of_a_long_life_are_those_of_a_naive_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
