/* Rules against a naive model: a random driver adds and clears rules and sends requests; daemon and
 * model must agree on every answer, on who is disconnected and on every counter.
 *
 * The model keeps nothing but what was said and the match at which a rule last fired; whether it is
 * due it works out from the beginning each time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/memory_daemon.h"

enum {
    OPERATIONS = 100000,
    PLAYERS = 4,
    TAGS = 6,
    MOST_RULES = 12,
    COMPARE_EVERY = 50,
    TEXT_SIZE = 1024
};

enum what {
    OUT_OF_MEMORY,
    QUOTA_EXCEEDED,
    HOST_FALLBACK,
    FORGET,
    DELAY,
    DISCONNECT_BEFORE,
    DISCONNECT_AFTER,
    WHATS
};

static const char *const what_names[WHATS] = {
    "out_of_memory", "quota_exceeded",    "host_fallback",   "forget",
    "delay",         "disconnect_before", "disconnect_after"};

/* -1 in a condition: none. */
struct model_rule {
    uint64_t number; /* 0: no rule here */
    enum what what;
    char when; /* 'n'th, 'e'very, 'p'robability */
    uint64_t count;
    double probability;
    uint64_t seed;
    uint64_t times;
    const char *method;
    int64_t min_size;
    int64_t max_size;
    int64_t stream;
    const char *prefix;
    int64_t process;
    int64_t user;
    int64_t client;
    uint64_t delay_ms;
    uint64_t matched;
    uint64_t fired;
    uint64_t fired_at; /* the match at which it last fired */
};

struct model_allocation {
    bool live;
    bool on_host;
    uint64_t size;
    uint64_t stream;
};

struct player {
    struct memory_client *client;
    struct peer peer;
    uint64_t number;
    struct model_allocation held[TAGS];
};

struct game {
    struct memory_daemon daemon;
    struct memory_client *root;
    uint64_t connections;
    struct player players[PLAYERS];
    struct model_rule rules[MOST_RULES];
    uint64_t last_rule;
    uint64_t fired[WHATS];
    uint64_t random;
};

struct request_model {
    const char *method;
    const struct player *player;
    bool of_allocation;
    uint64_t size;
    uint64_t stream;
    char tag[32];
};

/* ------------------------------------------------------------------------------------- chance */

static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* SplitMix64's k-th number, from 1, straight from its definition. */
static uint64_t nth_number(uint64_t seed, uint64_t k)
{
    return mix(seed + k * UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t below(struct game *game, uint64_t limit)
{
    return nth_number(42, ++game->random) % limit;
}

static bool one_in(struct game *game, uint64_t chances)
{
    return below(game, chances) == 0;
}

/* -------------------------------------------------------------------------------------- model */

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static bool suits(enum what what, const char *method)
{
    if (what <= HOST_FALLBACK)
        return is(method, "allocate");
    return what != FORGET || is(method, "free");
}

static bool matches(const struct model_rule *rule, const struct request_model *request)
{
    const struct player *player = request->player;
    if (rule->method ? !is(rule->method, request->method) : is(request->method, "snapshot"))
        return false;
    if (!suits(rule->what, request->method))
        return false;
    if (rule->min_size >= 0 && request->size < (uint64_t)rule->min_size)
        return false;
    if (rule->max_size >= 0 && request->size > (uint64_t)rule->max_size)
        return false;
    if (rule->stream >= 0 && request->stream != (uint64_t)rule->stream)
        return false;
    if (rule->prefix && strncmp(request->tag, rule->prefix, strlen(rule->prefix)) != 0)
        return false;
    return (rule->process < 0 || rule->process == player->peer.pid) &&
           (rule->user < 0 || rule->user == (int64_t)player->peer.uid) &&
           (rule->client < 0 || rule->client == (int64_t)player->number);
}

/* Whether its `when` names this match. */
static bool is_named(const struct model_rule *rule, uint64_t match)
{
    if (rule->when == 'n')
        return match >= rule->count;
    if (rule->when == 'e')
        return match % rule->count == 0;
    return (double)(nth_number(rule->seed, match) >> 11) * 0x1p-53 < rule->probability;
}

static bool is_due(const struct model_rule *rule)
{
    if (rule->times && rule->fired >= rule->times)
        return false;
    for (uint64_t match = rule->matched; match > rule->fired_at; match--)
        if (is_named(rule, match))
            return true;
    return false;
}

/* The oldest that is due fires; NULL for none. */
static struct model_rule *judge(struct game *game, const struct request_model *request)
{
    struct model_rule *fires = NULL;
    for (size_t index = 0; index < MOST_RULES; index++) {
        struct model_rule *rule = &game->rules[index];
        if (!rule->number || !matches(rule, request))
            continue;
        rule->matched++;
        if (is_due(rule) && (!fires || rule->number < fires->number))
            fires = rule;
    }
    if (fires) {
        fires->fired++;
        fires->fired_at = fires->matched;
        game->fired[fires->what]++;
    }
    return fires;
}

/* --------------------------------------------------------------------------------- adding rules */

__attribute__((format(printf, 2, 3))) static void append(char text[TEXT_SIZE], const char *format,
                                                         ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, TEXT_SIZE - used, format, arguments);
    va_end(arguments);
}

static void choose_when(struct game *game, struct model_rule *rule, char params[TEXT_SIZE])
{
    static const char letters[] = "nep";
    rule->when = letters[below(game, 3)];
    rule->count = 1 + below(game, 20);
    rule->probability = (double)below(game, 40) / 100;
    rule->seed = below(game, 1000);
    if (rule->when == 'n')
        append(params, ",\"nth\":%" PRIu64, rule->count);
    if (rule->when == 'e')
        append(params, ",\"every\":%" PRIu64, rule->count);
    if (rule->when == 'p')
        append(params, ",\"probability\":%.2f,\"rule_seed\":%" PRIu64, rule->probability,
               rule->seed);
    rule->times = rule->when == 'n';
    if (one_in(game, 2)) {
        rule->times = 1 + below(game, 5);
        append(params, ",\"times\":%" PRIu64, rule->times);
    }
}

/* One condition in a while; -1 for none. */
static int64_t choose_number(struct game *game, const char *name, uint64_t first, uint64_t span,
                             char params[TEXT_SIZE])
{
    if (!one_in(game, 4))
        return -1;
    uint64_t value = first + below(game, span);
    append(params, ",\"%s\":%" PRIu64, name, value);
    return (int64_t)value;
}

static void choose_conditions(struct game *game, struct model_rule *rule, char params[TEXT_SIZE])
{
    static const char *const methods[] = {"allocate", "free", "snapshot"};
    static const char *const prefixes[] = {"a", "b", "a0", "b1"};
    bool of_snapshot = false;
    rule->min_size = rule->max_size = rule->stream = -1;
    if (one_in(game, 3)) {
        rule->method = methods[below(game, rule->what >= DELAY ? 3 : 2)];
        if (!suits(rule->what, rule->method))
            rule->method = is(rule->method, "free") ? "allocate" : "free";
        of_snapshot = is(rule->method, "snapshot");
        append(params, ",\"method\":\"%s\"", rule->method);
    }
    if (!of_snapshot) {
        rule->min_size = choose_number(game, "min_size", 1, 3000, params);
        rule->max_size = choose_number(game, "max_size", 3001, 7000, params);
        rule->stream = choose_number(game, "stream", 0, 3, params);
        if (one_in(game, 4)) {
            rule->prefix = prefixes[below(game, 4)];
            append(params, ",\"tag_prefix\":\"%s\"", rule->prefix);
        }
    }
    rule->process = choose_number(game, "process", 500, PLAYERS, params);
    rule->user = choose_number(game, "user", 1000, 2, params);
    if (one_in(game, 6)) {
        rule->client = (int64_t)game->players[below(game, PLAYERS)].number;
        append(params, ",\"client\":%" PRId64, rule->client);
    } else {
        rule->client = -1;
    }
}

static void add_rule(struct game *game)
{
    struct model_rule rule = {.number = 0};
    char params[TEXT_SIZE] = "";
    size_t place = 0;
    while (place < MOST_RULES && game->rules[place].number)
        place++;
    if (place == MOST_RULES)
        return;
    rule.what = (enum what)below(game, WHATS);
    append(params, "\"action\":\"%s\"", what_names[rule.what]);
    if (rule.what == DELAY) {
        rule.delay_ms = 1 + below(game, 100);
        append(params, ",\"delay_ms\":%" PRIu64, rule.delay_ms);
    }
    choose_when(game, &rule, params);
    choose_conditions(game, &rule, params);
    const char *answer = memory_client_call(game->root, "inject", params);
    assert_kind(answer, "result");
    rule.number = ++game->last_rule;
    assert_int_equal(answer_u64(answer, "rule"), rule.number);
    game->rules[place] = rule;
}

static void clear_rule(struct game *game)
{
    struct model_rule *rule = &game->rules[below(game, MOST_RULES)];
    char params[TEXT_SIZE] = "";
    append(params, "\"rule\":%" PRIu64, rule->number ? rule->number : game->last_rule + 1);
    assert_kind(memory_client_call(game->root, "rules_clear", params),
                rule->number ? "result" : "invalid_params");
    rule->number = 0;
}

/* ------------------------------------------------------------------------------------- requests */

static void join(struct game *game, struct player *player)
{
    player->client = memory_daemon_connect_peer(&game->daemon, player->peer);
    player->number = ++game->connections;
    memset(player->held, 0, sizeof(player->held));
}

/* The answer to a request that is carried out, perhaps with the help of a rule. */
static void expect_done(struct player *player, struct request_model *request, size_t tag,
                        const struct model_rule *rule, const char *answer)
{
    struct model_allocation *held = &player->held[tag];
    assert_non_null(answer);
    assert_kind(answer, "result");
    if (is(request->method, "allocate")) {
        bool on_host = rule && rule->what == HOST_FALLBACK;
        assert_true(answer_is(answer, "device", on_host ? "\"cpu\"" : "\"gpu\""));
        *held = (struct model_allocation){
            .live = true, .on_host = on_host, .size = request->size, .stream = request->stream};
    } else if (is(request->method, "free")) {
        bool forgotten = rule && rule->what == FORGET && !held->on_host;
        assert_true(answer_is(answer, "released", forgotten ? "false" : "true"));
        held->live = false;
    }
}

static void expect(struct game *game, struct player *player, struct request_model *request,
                   size_t tag, const struct model_rule *rule)
{
    const char *answer = memory_client_line(player->client);
    if (rule && rule->what == DELAY) {
        assert_null(answer);
        memory_daemon_wait(&game->daemon, rule->delay_ms - 1);
        memory_daemon_settle(&game->daemon);
        assert_null(memory_client_line(player->client));
        memory_daemon_wait(&game->daemon, 1);
        memory_daemon_settle(&game->daemon);
        answer = memory_client_line(player->client);
    }
    if (rule && rule->what >= DISCONNECT_BEFORE) {
        assert_null(answer);
        assert_null(player->client->connection);
        join(game, player);
    } else if (rule && rule->what <= QUOTA_EXCEEDED) {
        assert_non_null(answer);
        assert_kind(answer, what_names[rule->what]);
        assert_int_equal(answer_u64(answer, "rule"), rule->number);
    } else {
        expect_done(player, request, tag, rule, answer);
    }
    assert_null(memory_client_line(player->client));
}

static void send_request(struct game *game)
{
    static const char *const methods[] = {"allocate", "allocate", "free", "free", "snapshot"};
    struct player *player = &game->players[below(game, PLAYERS)];
    size_t tag = (size_t)below(game, TAGS);
    struct model_allocation *held = &player->held[tag];
    struct request_model request = {.method = methods[below(game, 5)], .player = player};
    char params[TEXT_SIZE] = "";
    char line[2 * TEXT_SIZE];
    const char *refusal = NULL;
    snprintf(request.tag, sizeof(request.tag), "%c%zu", tag % 2 ? 'b' : 'a', tag / 2);
    if (is(request.method, "allocate")) {
        request.size = 1 + below(game, 10000);
        request.stream = below(game, 3);
        append(params, "\"requested_bytes\":%" PRIu64 ",\"tag\":\"%s\"", request.size, request.tag);
        if (request.stream || one_in(game, 2))
            append(params, ",\"stream\":%" PRIu64, request.stream);
        refusal = held->live ? "name_in_use" : NULL;
    } else if (is(request.method, "free")) {
        request.size = held->size;
        request.stream = held->stream;
        append(params, "\"tag\":\"%s\"", request.tag);
        refusal = held->live ? NULL : "unknown_handle";
    }
    snprintf(line, sizeof(line), "{\"id\":1,\"method\":\"%s\",\"params\":{%s}}", request.method,
             params);
    memory_client_send_line(player->client, line);
    memory_daemon_settle(&game->daemon);
    if (refusal)
        assert_kind(memory_client_line(player->client), refusal);
    else
        expect(game, player, &request, tag, judge(game, &request));
}

/* ---------------------------------------------------------------------------------- comparing */

static void compare(struct game *game)
{
    char params[TEXT_SIZE];
    for (size_t index = 0; index < MOST_RULES; index++) {
        const struct model_rule *rule = &game->rules[index];
        if (!rule->number)
            continue;
        snprintf(params, sizeof(params), "\"after\":%" PRIu64 ",\"limit\":1", rule->number - 1);
        const char *answer = memory_client_call(game->root, "rules", params);
        assert_int_equal(answer_u64(answer, "rule"), rule->number);
        assert_int_equal(answer_u64(answer, "matched"), rule->matched);
        assert_int_equal(answer_u64(answer, "fired"), rule->fired);
        assert_true(answer_is(answer, "spent",
                              rule->times && rule->fired >= rule->times ? "true" : "false"));
    }
    uint64_t live = 0;
    uint64_t faults = 0;
    for (size_t index = 0; index < PLAYERS; index++)
        for (size_t tag = 0; tag < TAGS; tag++)
            live += game->players[index].held[tag].live;
    for (size_t what = 0; what < WHATS; what++)
        faults += game->fired[what];
    /* Not by a request: that would meet the rules as well. */
    struct worsegpu_snapshot snapshot;
    worsegpu_snapshot(memory_daemon_gpu0(&game->daemon)->engine, &snapshot);
    assert_int_equal(snapshot.active_allocations, live);
    assert_int_equal(snapshot.faults, faults);
}

static void test_daemon_and_model_agree_on_every_answer(void **state)
{
    (void)state;
    static struct game game;
    memset(&game, 0, sizeof(game));
    memory_daemon_start(&game.daemon, NULL,
                        "--capacity=1TiB --gpu-probability=1 --forget-probability=0");
    game.root = memory_daemon_connect(&game.daemon, 0);
    game.connections = 1;
    for (size_t index = 0; index < PLAYERS; index++) {
        uid_t uid = (uid_t)(1000 + index % 2);
        game.players[index].peer = (struct peer){.uid = uid, .gid = uid, .pid = 500 + (pid_t)index};
        join(&game, &game.players[index]);
    }
    for (int operation = 0; operation < OPERATIONS; operation++) {
        uint64_t choice = below(&game, 100);
        if (choice < 3)
            add_rule(&game);
        else if (choice < 5)
            clear_rule(&game);
        else
            send_request(&game);
        if (operation % COMPARE_EVERY == 0)
            compare(&game);
    }
    compare(&game);
    /* Each kind has really happened, often. */
    for (size_t what = 0; what < WHATS; what++)
        assert_true(game.fired[what] > 100);
    memory_daemon_end(&game.daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_daemon_and_model_agree_on_every_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
