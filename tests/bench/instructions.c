/* A fixed script of requests through the daemon's own code in memory, for tools/instructions.sh to
 * count.
 *
 * No socket, no loop, no real clock, randomness that is always the same: run under callgrind, each
 * scenario takes the same number of instructions every time. Only what runs inside the functions
 * named counted_... is counted. Each scenario has its requests warmed up, then N of them counted,
 * then 2 N: the difference is N requests in the steady state and nothing else. A scenario's two
 * counts each end with a call of instructions_counted, where callgrind writes them down; stdout has
 * its name and N, in the same order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fuzz/fixed_entropy.h"
#include "tests/support/memory_daemon.h"

enum {
    USER = 1000,
    MOST_DEPTH = 64,
    MOST_LINE = 256,
    MOST_HANDLE = 64,
    WARM_UP = 1024,
    COUNTED = 1024
};

struct script {
    struct memory_daemon daemon;
    struct memory_client *client;
    struct memory_client *subscriber;
    size_t depth;
    char handles[MOST_DEPTH][MOST_HANDLE]; /* live ones, to be freed by the next batch */
    size_t handle_count;
    size_t number; /* of requests so far */
    char batch[MOST_DEPTH * MOST_LINE];
    size_t length;
};

struct scenario {
    const char *name;
    const char *options;
    bool subscriber;
    size_t depth;
    /* Puts the request number script->number at the end of the batch. */
    void (*add)(struct script *script);
};

/* ------------------------------------------------------------------------------- what is counted
 */

__attribute__((noinline)) static const char *counted_turn(struct script *script, size_t *length)
{
    struct connection *connection = script->client->connection;
    struct moment now = script->daemon.now;
    connection_receive(connection, script->batch, script->length, now);
    while (connection_wants_turn(connection))
        connection_run(connection, now);
    return connection_output(connection, length);
}

__attribute__((noinline)) static void counted_end_of_turn(struct script *script, size_t length)
{
    connection_written(script->client->connection, length);
    if (!script->subscriber ||
        !subscriptions_begin_turn(&script->daemon.server, script->daemon.now.monotonic_ms))
        return;
    for (struct connection *served; (served = subscriptions_serve(&script->daemon.server));) {
        size_t events;
        connection_output(served, &events);
        connection_written(served, events);
    }
}

/* Where callgrind writes down what was counted since the last time. */
__attribute__((noinline)) static void instructions_counted(void)
{
    __asm__ volatile("");
}

/* ------------------------------------------------------------------------------ the requests */

__attribute__((format(printf, 2, 3))) static void add(struct script *script, const char *format,
                                                      ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(script->batch + script->length, MOST_LINE, format, arguments);
    va_end(arguments);
    assert_in_range(length, 1, MOST_LINE - 1);
    script->length += (size_t)length;
    script->batch[script->length++] = '\n';
}

static void add_by_handle(struct script *script)
{
    if (script->handle_count == 0)
        add(script,
            "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"method\":\"allocate\",\"params\":"
            "{\"requested_bytes\":4096}}",
            script->number % 1000);
    else
        add(script,
            "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"method\":\"free\",\"params\":{\"handle\":\"%s\"}}",
            script->number % 1000, script->handles[--script->handle_count]);
}

static void add_by_tag(struct script *script)
{
    size_t tag = script->number / 2 % 1000;
    if (script->number % 2 == 0)
        add(script,
            "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"method\":\"allocate\",\"params\":"
            "{\"requested_bytes\":4096,\"tag\":\"t%zu\"}}",
            script->number % 1000, tag);
    else
        add(script,
            "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"method\":\"free\",\"params\":{\"tag\":\"t%zu\"}}",
            script->number % 1000, tag);
}

static void add_unusual(struct script *script)
{
    if (script->number % 2 == 0)
        add(script, "{\"id\":1,\"method\":\"allocate\",\"params\":{\"requested_bytes\":4096,"
                    "\"tag\":\"\\u00e9\"}}");
    else
        add(script, "{\"id\":1,\"method\":\"free\",\"params\":{\"tag\":\"\\u00e9\"}}");
}

static void add_snapshot(struct script *script)
{
    add(script, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"snapshot\"}");
}

static void add_refused(struct script *script)
{
    add(script, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"allocate\","
                "\"params\":{\"requested_bytes\":0}}");
}

static const struct scenario SCENARIOS[] = {
    {"allocate and free by handle, depth 64", "", false, 64, add_by_handle},
    {"allocate and free by handle, depth 1", "", false, 1, add_by_handle},
    {"allocate and free by tag, depth 64", "", false, 64, add_by_tag},
    {"the same with a subscriber and quotas",
     "--max-client-gpu-bytes=1000000000 --max-user-gpu-bytes=1000000000 --host-capacity=1000000000",
     true, 64, add_by_tag},
    {"snapshot, depth 64", "", false, 64, add_snapshot},
    {"an unusual request (the long way), depth 64", "", false, 64, add_unusual},
    {"a refused request, depth 64", "", false, 64, add_refused},
};

/* --------------------------------------------------------------------------------- one scenario */

/* Keeps the handles that a batch of allocations got, if that is what it was. */
static void keep_handles(struct script *script, const char *answers, size_t length)
{
    static const char key[] = "\"handle\":\"";
    const char *end = answers + length;
    for (const char *at = answers; (at = memmem(at, (size_t)(end - at), key, sizeof(key) - 1));) {
        at += sizeof(key) - 1;
        size_t size = strcspn(at, "\"");
        assert_true(size < MOST_HANDLE && script->handle_count < MOST_DEPTH);
        memcpy(script->handles[script->handle_count], at, size);
        script->handles[script->handle_count++][size] = '\0';
    }
}

static void run(struct script *script, const struct scenario *scenario, size_t requests)
{
    for (size_t done = 0; done < requests; done += scenario->depth) {
        size_t live = script->handle_count;
        script->length = 0;
        for (size_t i = 0; i < scenario->depth; i++, script->number++)
            scenario->add(script);
        script->daemon.now.monotonic_ms += 100; /* nobody rests when the next batch comes */
        script->daemon.now.wall_us += 100000;
        size_t length;
        const char *answers = counted_turn(script, &length);
        assert_true(length > 0);
        if (scenario->add == add_by_handle && live == 0)
            keep_handles(script, answers, length);
        counted_end_of_turn(script, length);
    }
}

static uint64_t steady_clock(void *context)
{
    uint64_t *now_ns = context;
    return *now_ns += 700;
}

static void play(const struct scenario *scenario)
{
    static struct script script;
    uint64_t now_ns = 0;
    memset(&script, 0, sizeof(script));
    fixed_entropy_restart();
    memory_daemon_start(&script.daemon, NULL, scenario->options);
    script.daemon.server.counts.now_ns = steady_clock;
    script.daemon.server.counts.now_context = &now_ns;
    script.client = memory_daemon_connect(&script.daemon, USER);
    if (scenario->subscriber) {
        script.subscriber = memory_daemon_connect(&script.daemon, USER);
        memory_client_call(script.subscriber, "subscribe", "");
    }
    run(&script, scenario, (size_t)2 * WARM_UP);
    instructions_counted();
    run(&script, scenario, COUNTED);
    instructions_counted();
    run(&script, scenario, (size_t)2 * COUNTED);
    instructions_counted();
    memory_daemon_end(&script.daemon);
    printf("%d\t%s\n", COUNTED, scenario->name);
}

int main(void)
{
    for (size_t i = 0; i < sizeof(SCENARIOS) / sizeof(SCENARIOS[0]); i++)
        play(&SCENARIOS[i]);
    return 0;
}
