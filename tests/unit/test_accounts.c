/* Who holds what, over a long time: random operations of several users on several connections,
 * against a naive model that keeps one flat list and counts it anew each time.
 *
 * With the reference policy the model knows every answer beforehand, and so it does under limits
 * that come and go, resizes, and connections whose belongings are not freed yet. With the worse
 * policy it takes the decisions from the answers. At the end everything is given back, and every
 * account is at zero. */
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
    FREE_OPERATIONS = 20000,     /* with the worse policy and no limit */
    LIMITED_OPERATIONS = 100000, /* with every answer foretold */
    CLIENTS = 7,      /* at once: three of Alice, two of Bob, one of Carol, one of root */
    PRIVATE = 2,      /* private allocators of one client: "p0", "p1" */
    MOST_HELD = 4096, /* allocations in the model */
    TAGS = 8,         /* so few that they are often taken */
    LOOK_EVERY = 500,
    ALICE = 1000,
    BOB = 1001,
    CAROL = 1002, /* of the admin group */
    ROOT = 0,
    CAPACITY = 150000, /* of gpu0, until somebody resizes it */
    PRIVATE_CAPACITY = 40000,
    NOBODY = -1, /* holds what is left of a connection that has ended */
    SHARED = -1, /* gpu0 */
    GONE = -2    /* a private allocator that has ended and is not freed yet */
};

struct held {
    uint64_t id;
    char handle[WORSEGPU_HANDLE_TEXT_SIZE];
    uint64_t requested_bytes;
    uint64_t reserved_bytes;
    bool on_gpu;
    int client;    /* NOBODY once that has ended */
    int allocator; /* SHARED, GONE, else the private one of its client */
    uid_t uid;
    int tag; /* -1: none */
    bool detached;
};

struct model {
    struct memory_daemon daemon;
    bool foretold; /* the reference policy: every decision is known beforehand */
    uint64_t random;
    uint64_t capacity; /* of gpu0 */
    struct memory_client *clients[CLIENTS];
    bool open[CLIENTS][PRIVATE];
    struct held held[MOST_HELD];
    size_t count;
    uint64_t given; /* allocations of gpu0, ever */
    uint64_t freed;
    uint64_t refused;                             /* for a limit */
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
    static const uid_t users[CLIENTS] = {ALICE, ALICE, ALICE, BOB, BOB, CAROL, ROOT};
    return users[client];
}

static bool is_admin(int client)
{
    return user_of(client) == CAROL || user_of(client) == ROOT;
}

static void connect_client(struct model *model, int client)
{
    const struct peer peer = {.uid = user_of(client), .pid = 100, .admin = is_admin(client)};
    model->clients[client] = memory_daemon_connect_peer(&model->daemon, peer);
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

/* ------------------------------------------------------------------------------ counting anew */

static void count_one(struct account *account, const struct held *held)
{
    account->gpu_bytes += held->on_gpu ? held->reserved_bytes : 0;
    account->cpu_bytes += held->on_gpu ? 0 : held->reserved_bytes;
    account->allocations++;
    account->detached += held->detached;
}

static struct account account_of_client(const struct model *model, int client)
{
    struct account account = {0};
    for (size_t i = 0; i < model->count; i++)
        if (model->held[i].client == client)
            count_one(&account, &model->held[i]);
    return account;
}

static struct account account_of_user(const struct model *model, uid_t uid)
{
    struct account account = {0};
    for (size_t i = 0; i < model->count; i++)
        if (model->held[i].uid == uid)
            count_one(&account, &model->held[i]);
    return account;
}

/* What is in an allocator; whose private one it is, is said by the client. */
static struct account account_of_allocator(const struct model *model, int client, int allocator)
{
    struct account account = {0};
    for (size_t i = 0; i < model->count; i++) {
        const struct held *held = &model->held[i];
        if (held->allocator == allocator && (allocator == SHARED || held->client == client))
            count_one(&account, held);
    }
    return account;
}

/* What should become of an allocation: the limit that refuses it, or NULL. */
struct foretold {
    bool on_gpu;
    const char *which;
    uint64_t limit;
    uint64_t used;
};

static struct foretold foretell(const struct model *model, int client, int allocator,
                                uint64_t bytes)
{
    const struct options *options = &model->daemon.options;
    struct account there = account_of_allocator(model, client, allocator);
    struct account mine = account_of_client(model, client);
    struct account users = account_of_user(model, user_of(client));
    uint64_t capacity = allocator == SHARED ? model->capacity : PRIVATE_CAPACITY;
    uint64_t host = allocator == SHARED ? memory_daemon_gpu0(&model->daemon)->host_capacity : 0;
    bool on_gpu = there.gpu_bytes + bytes <= capacity;
    const struct {
        const char *which;
        uint64_t limit;
        uint64_t used;
        uint64_t more;
    } limits[] = {
        {"max_client_allocations", options->max_client_allocations, mine.allocations, 1},
        {"max_user_allocations", options->max_user_allocations, users.allocations, 1},
        {"max_client_gpu_bytes", options->max_client_gpu_bytes, mine.gpu_bytes, on_gpu ? bytes : 0},
        {"max_user_gpu_bytes", options->max_user_gpu_bytes, users.gpu_bytes, on_gpu ? bytes : 0},
        {"host_capacity", host, there.cpu_bytes, on_gpu ? 0 : bytes},
        {"max_client_cpu_bytes", options->max_client_cpu_bytes, mine.cpu_bytes, on_gpu ? 0 : bytes},
        {"max_user_cpu_bytes", options->max_user_cpu_bytes, users.cpu_bytes, on_gpu ? 0 : bytes},
    };
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (limits[i].limit && limits[i].more && limits[i].used + limits[i].more > limits[i].limit)
            return (struct foretold){on_gpu, limits[i].which, limits[i].limit, limits[i].used};
    return (struct foretold){.on_gpu = on_gpu};
}

/* --------------------------------------------------------------------------------- operations */

static void assert_refused(const char *answer, const struct foretold *foretold)
{
    char which[40];
    uint64_t left = foretold->used < foretold->limit ? foretold->limit - foretold->used : 0;
    assert_kind(answer, "quota_exceeded");
    answer_text(answer, "which", which, sizeof(which));
    assert_string_equal(which, foretold->which);
    assert_int_equal(answer_u64(answer, "limit"), foretold->limit);
    assert_int_equal(answer_u64(answer, "used"), foretold->used);
    assert_int_equal(answer_u64(answer, "left"), left);
}

static void do_allocate(struct model *model, int client)
{
    char params[256];
    char tag_part[32] = "";
    int allocator = (int)draw(model, 2 + PRIVATE) - 2;
    allocator = allocator < 0 ? SHARED : allocator;
    int tag = draw(model, 2) ? -1 : (int)draw(model, TAGS);
    bool detached = draw(model, 8) == 0;
    uint64_t requested_bytes = 1 + draw(model, 20000);
    if (tag >= 0)
        snprintf(tag_part, sizeof(tag_part), ",\"tag\":\"tag %d\"", tag);
    snprintf(params, sizeof(params),
             "\"requested_bytes\":%" PRIu64 ",\"allocator\":\"%s\"%s,\"detached\":%s",
             requested_bytes, allocator_name(allocator), tag_part, detached ? "true" : "false");
    struct foretold foretold = foretell(model, client, allocator, requested_bytes);
    const char *answer = memory_client_call(model->clients[client], "allocate", params);
    if (allocator >= 0 && !model->open[client][allocator]) {
        assert_kind(answer, "unknown_allocator");
        return;
    }
    if (tag >= 0 && find_tag(model, client, allocator, tag)) {
        assert_kind(answer, "name_in_use");
        return;
    }
    if (model->foretold && foretold.which) {
        assert_refused(answer, &foretold);
        model->refused++;
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
    model->given += allocator == SHARED;
    if (!model->foretold)
        return;
    assert_int_equal(held->on_gpu, foretold.on_gpu);
    assert_int_equal(held->reserved_bytes, requested_bytes);
}

/* Whether a client may use the allocator in which something is held. */
static bool may_use(const struct held *held, int client)
{
    return held->allocator == SHARED || (held->allocator >= 0 && held->client == client);
}

static void do_free_by_handle(struct model *model, int client)
{
    char params[256];
    if (model->count == 0)
        return;
    size_t index = draw(model, (unsigned)model->count);
    const struct held *held = &model->held[index];
    int named = held->allocator == GONE || draw(model, 4) == 0 ? SHARED : held->allocator;
    snprintf(params, sizeof(params), "\"handle\":\"%s\",\"allocator\":\"%s\"", held->handle,
             allocator_name(named));
    const char *answer = memory_client_call(model->clients[client], "free", params);
    if (named >= 0 && !model->open[client][named]) {
        assert_kind(answer, "unknown_allocator");
    } else if (!may_use(held, client)) {
        assert_kind(answer, "unknown_handle");
    } else if (named != held->allocator) {
        assert_kind(answer, "foreign_handle");
    } else if (held->uid != user_of(client) && user_of(client) != ROOT) {
        assert_kind(answer, "permission_denied");
    } else {
        assert_kind(answer, "result");
        assert_int_equal(answer_u64(answer, "allocation_id"), held->id);
        assert_true(answer_is(answer, "device", held->on_gpu ? "\"gpu\"" : "\"cpu\""));
        model->freed += held->allocator == SHARED;
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
        model->freed += allocator == SHARED;
        forget(model, (size_t)(held - model->held));
    }
}

static void do_open(struct model *model, int client)
{
    char params[128];
    int allocator = (int)draw(model, PRIVATE);
    snprintf(params, sizeof(params),
             "\"name\":\"%s\",\"seed\":%u,\"trace_limit\":10,\"policy\":\"%s\","
             "\"gpu_capacity\":%d",
             allocator_name(allocator), draw(model, 1000), model->foretold ? "reference" : "worse",
             PRIVATE_CAPACITY);
    assert_kind(memory_client_call(model->clients[client], "open", params),
                model->open[client][allocator] ? "name_in_use" : "result");
    model->open[client][allocator] = true;
}

/* What is left of ended connections and allocators is freed, if the daemon gets round to it; what
 * is detached in gpu0 stays. */
static void reap(struct model *model)
{
    if (model->daemon.left_alone)
        return;
    memory_daemon_settle(&model->daemon);
    for (size_t i = model->count; i-- > 0;) {
        const struct held *held = &model->held[i];
        if (held->client != NOBODY || (held->detached && held->allocator == SHARED))
            continue;
        model->freed += held->allocator == SHARED;
        forget(model, i);
    }
}

static void end_private(struct model *model, int client, int allocator)
{
    for (size_t i = 0; i < model->count; i++) {
        struct held *held = &model->held[i];
        if (held->client != client || held->allocator != allocator)
            continue;
        held->client = NOBODY;
        held->allocator = GONE;
    }
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
    reap(model);
}

/* A client goes away: what it held is nobody's now. */
static void disconnect(struct model *model, int client)
{
    memory_client_hang_up(model->clients[client]);
    for (int allocator = 0; allocator < PRIVATE; allocator++)
        end_private(model, client, allocator);
    for (size_t i = 0; i < model->count; i++) {
        struct held *held = &model->held[i];
        if (held->client != client)
            continue;
        held->client = NOBODY;
        held->tag = -1;
    }
    reap(model);
}

static void do_reconnect(struct model *model, int client)
{
    disconnect(model, client);
    connect_client(model, client);
}

/* For a while the daemon does not get round to freeing what has ended. */
static void do_dawdle(struct model *model)
{
    model->daemon.left_alone = !model->daemon.left_alone;
    reap(model);
}

static void do_resize(struct model *model, int client)
{
    char params[64];
    uint64_t capacity = 1 + draw(model, 2 * CAPACITY);
    snprintf(params, sizeof(params), "\"gpu_capacity\":%" PRIu64, capacity);
    const char *answer = memory_client_call(model->clients[client], "resize", params);
    if (!is_admin(client)) {
        assert_kind(answer, "permission_denied");
        return;
    }
    assert_int_equal(answer_u64(answer, "gpu_capacity"), capacity);
    model->capacity = capacity;
}

/* Another limit, perhaps below what is used, or none. */
static void do_limit(struct model *model)
{
    struct options *options = &model->daemon.options;
    uint64_t *const of_bytes[] = {&options->max_client_gpu_bytes, &options->max_client_cpu_bytes,
                                  &options->max_user_gpu_bytes, &options->max_user_cpu_bytes,
                                  &memory_daemon_gpu0(&model->daemon)->host_capacity};
    unsigned which = draw(model, 7);
    bool none = draw(model, 4) == 0;
    if (which < 5)
        *of_bytes[which] = none ? 0 : 1 + draw(model, 200000);
    else if (which == 5)
        options->max_client_allocations = none ? 0 : 1 + draw(model, 40);
    else
        options->max_user_allocations = none ? 0 : 1 + draw(model, 80);
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
    uint64_t on_gpu = 0;
    struct account account = account_of_allocator(model, client, allocator);
    for (size_t i = 0; i < model->count; i++) {
        const struct held *held = &model->held[i];
        if (held->allocator != allocator || (allocator >= 0 && held->client != client))
            continue;
        on_gpu += held->on_gpu;
        gpu_requested += held->on_gpu ? held->requested_bytes : 0;
    }
    snprintf(params, sizeof(params), "\"allocator\":\"%s\"", allocator_name(allocator));
    const char *answer = memory_client_call(model->clients[client], "snapshot", params);
    assert_int_equal(answer_u64(answer, "active_allocations"), account.allocations);
    assert_int_equal(answer_u64(answer, "gpu_allocations"), on_gpu);
    assert_int_equal(answer_u64(answer, "cpu_allocations"), account.allocations - on_gpu);
    assert_int_equal(answer_u64(answer, "gpu_requested"), gpu_requested);
    assert_int_equal(answer_u64(answer, "gpu_used"), account.gpu_bytes);
    assert_int_equal(answer_u64(answer, "cpu_bytes"), account.cpu_bytes);
    if (allocator == SHARED) {
        assert_int_equal(answer_u64(answer, "gpu_capacity"), model->capacity);
        assert_int_equal(answer_u64(answer, "allocate_calls"), model->given);
        assert_int_equal(answer_u64(answer, "free_calls"), model->freed);
    }
    assert_kind(memory_client_call(model->clients[client], "validate", params), "result");
}

/* What `clients` says of each, asked by root. */
static void compare_clients(struct model *model)
{
    for (int client = 0; client < CLIENTS; client++) {
        char params[64];
        uint64_t number = model->clients[client]->connection->number;
        struct account account = account_of_client(model, client);
        snprintf(params, sizeof(params), "\"after\":%" PRIu64 ",\"limit\":1", number - 1);
        const char *answer = memory_client_call(model->clients[CLIENTS - 1], "clients", params);
        assert_int_equal(answer_u64(answer, "client"), number);
        assert_int_equal(answer_u64(answer, "user"), user_of(client));
        assert_int_equal(answer_u64(answer, "allocations"), account.allocations);
        assert_int_equal(answer_u64(answer, "gpu_bytes"), account.gpu_bytes);
        assert_int_equal(answer_u64(answer, "cpu_bytes"), account.cpu_bytes);
        assert_int_equal(answer_u64(answer, "detached"), account.detached);
        assert_int_equal(answer_u64(answer, "private_allocators"),
                         model->open[client][0] + model->open[client][1]);
        struct account of_user = account_of_user(model, user_of(client));
        const struct user *user = users_find(&model->daemon.server.users, user_of(client));
        assert_non_null(user);
        assert_memory_equal(&user->account, &of_user, sizeof(of_user));
        assert_int_equal(user->references, user->connections + of_user.allocations);
    }
}

/* Whether a client may see it in the list of gpu0, of orphans only or of all. */
static bool is_listed(const struct held *held, int client, bool orphans)
{
    return held->allocator == SHARED && (held->uid == user_of(client) || user_of(client) == ROOT) &&
           (!orphans || (held->detached && held->client == NOBODY));
}

/* What a client is shown of gpu0 against what the model says it may see. */
static void compare_list(struct model *model, int client, bool orphans)
{
    size_t seen = 0;
    size_t expected = 0;
    uint64_t after = 0;
    for (size_t i = 0; i < model->count; i++)
        expected += is_listed(&model->held[i], client, orphans);
    for (bool more = true; more;) {
        char params[64];
        snprintf(params, sizeof(params), "\"after\":%" PRIu64 ",\"orphans\":%s", after,
                 orphans ? "true" : "false");
        const char *answer = memory_client_call(model->clients[client], "list", params);
        assert_kind(answer, "result");
        seen += answer_count(answer, "\"handle\":");
        for (size_t i = 0; i < model->count; i++) {
            const struct held *held = &model->held[i];
            uint64_t next = answer_u64(answer, "next");
            bool shown = strstr(answer, held->handle) != NULL;
            bool due = is_listed(held, client, orphans) && held->id > after && held->id <= next;
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
        for (int allocator = 0; allocator < PRIVATE; allocator++)
            if (model->open[client][allocator])
                compare_accounts(model, client, allocator);
    }
    compare_accounts(model, 0, SHARED);
    compare_clients(model);
    compare_list(model, 0, false);
    compare_list(model, 3, true);
    compare_list(model, CLIENTS - 1, false);
    compare_list(model, CLIENTS - 1, true);
}

/* What is in gpu0 once everybody has gone: its own user or root frees it, nobody else. */
static void free_the_detached(struct model *model)
{
    struct memory_client *root = memory_daemon_connect(&model->daemon, ROOT);
    struct memory_client *stranger = memory_daemon_connect(&model->daemon, 4242);
    while (model->count > 0) {
        char params[128];
        const struct held *held = &model->held[model->count - 1];
        assert_true(held->detached && held->client == NOBODY && held->allocator == SHARED);
        snprintf(params, sizeof(params), "\"handle\":\"%s\"", held->handle);
        assert_kind(memory_client_call(stranger, "free", params), "permission_denied");
        struct memory_client *owner =
            model->count % 2 ? root : memory_daemon_connect(&model->daemon, held->uid);
        assert_int_equal(answer_u64(memory_client_call(owner, "free", params), "allocation_id"),
                         held->id);
        if (owner != root)
            memory_client_hang_up(owner);
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
    memory_client_hang_up(stranger);
    memory_client_hang_up(root);
    assert_int_equal(model->daemon.server.leases.out, 0);
    assert_true(RB_EMPTY(&model->daemon.server.users.tree));
    assert_true(RB_EMPTY(&model->daemon.server.clients));
}

static void do_something(struct model *model)
{
    int client = (int)draw(model, CLIENTS);
    unsigned what = draw(model, 1000);
    if (what < 500)
        do_allocate(model, client);
    else if (what < 800)
        do_free_by_handle(model, client);
    else if (what < 910)
        do_free_by_tag(model, client);
    else if (what < 930)
        do_error(model, client);
    else if (what < 960)
        do_open(model, client);
    else if (what < 970)
        do_close(model, client);
    else if (what < 980)
        do_resize(model, client);
    else if (what < 985)
        do_dawdle(model);
    else if (what < 990 && model->foretold)
        do_limit(model);
    else
        do_reconnect(model, client);
}

static void live(bool foretold, int operations)
{
    struct model *model = calloc(1, sizeof(*model));
    char words[80];
    assert_non_null(model);
    model->random = 20260731;
    model->foretold = foretold;
    model->capacity = CAPACITY;
    snprintf(words, sizeof(words), "--trace-limit=100 --capacity=%d --policy=%s", CAPACITY,
             foretold ? "reference" : "worse");
    memory_daemon_start(&model->daemon, NULL, words);
    for (int client = 0; client < CLIENTS; client++)
        connect_client(model, client);
    for (int operation = 1; operation <= operations; operation++) {
        do_something(model);
        if (operation % LOOK_EVERY == 0)
            compare(model);
    }
    assert_true(model->given > (uint64_t)operations / 20);
    if (foretold)
        assert_true(model->refused > (uint64_t)operations / 20);
    for (int client = 0; client < CLIENTS; client++)
        disconnect(model, client);
    model->daemon.left_alone = false;
    reap(model);
    assert_true(model->count > 0);
    free_the_detached(model);
    memory_daemon_end(&model->daemon);
    free(model);
}

static void test_the_accounts_of_a_long_life_are_those_of_a_naive_model(void **state)
{
    (void)state;
    live(false, FREE_OPERATIONS);
}

static void test_under_limits_every_answer_is_that_of_a_naive_model(void **state)
{
    (void)state;
    live(true, LIMITED_OPERATIONS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_accounts_of_a_long_life_are_those_of_a_naive_model),
        cmocka_unit_test(test_under_limits_every_answer_is_that_of_a_naive_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
