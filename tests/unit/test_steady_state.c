/* That a daemon under steady traffic takes no memory: not for a request, not for an answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/memory_daemon.h"

enum {
    USER = 1000,
    PIPELINED = 64, /* requests at a time */
    ROUNDS = 200,   /* so that what grows seldom has grown to its size before it is counted */
    MOST_LINE = 200,
    MOST_HANDLE = 64
};

struct traffic {
    struct memory_daemon daemon;
    struct memory_client *client;
    char batch[PIPELINED * MOST_LINE];
    size_t length;
    char handles[PIPELINED][MOST_HANDLE];
};

static void begin(struct traffic *traffic, const char *options)
{
    memset(traffic, 0, sizeof(*traffic));
    memory_daemon_start(&traffic->daemon, NULL, options);
    traffic->client = memory_daemon_connect(&traffic->daemon, USER);
}

__attribute__((format(printf, 2, 3))) static void add(struct traffic *traffic, const char *format,
                                                      ...)
{
    va_list arguments;
    va_start(arguments, format);
    traffic->length +=
        (size_t)vsnprintf(traffic->batch + traffic->length, MOST_LINE, format, arguments);
    va_end(arguments);
    traffic->batch[traffic->length++] = '\n';
}

/* Sends the batch and takes the answers, which all must be results. */
static void exchange(struct traffic *traffic)
{
    memory_client_send(traffic->client, traffic->batch, traffic->length);
    traffic->length = 0;
    memory_daemon_wait(&traffic->daemon,
                       100); /* a subscriber rests after each time it was served */
    memory_daemon_settle(&traffic->daemon);
    const char *answer;
    size_t count = 0;
    while ((answer = memory_client_line(traffic->client)) != NULL) {
        assert_kind(answer, "result");
        if (answer_member(answer, "handle"))
            answer_text(answer, "handle", traffic->handles[count], MOST_HANDLE);
        count++;
    }
    assert_int_equal(count, PIPELINED);
}

/* Does rounds of it, then as many again, which must take no memory. */
static void assert_takes_nothing(struct traffic *traffic, void (*round)(struct traffic *traffic))
{
    for (int i = 0; i < ROUNDS; i++)
        round(traffic);
    uint64_t before = traffic->daemon.chaos->requests;
    for (int i = 0; i < ROUNDS; i++)
        round(traffic);
    assert_int_equal(traffic->daemon.chaos->requests - before, 0);
    memory_daemon_end(&traffic->daemon);
}

static void allocate_and_free_by_handle(struct traffic *traffic)
{
    for (int i = 0; i < PIPELINED; i++)
        add(traffic,
            "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"allocate\",\"params\":"
            "{\"requested_bytes\":%d}}",
            i, 1000 + i);
    exchange(traffic);
    for (int i = 0; i < PIPELINED; i++)
        add(traffic,
            "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"free\",\"params\":{\"handle\":\"%s\"}}", i,
            traffic->handles[i]);
    exchange(traffic);
}

static void allocate_and_free_by_tag(struct traffic *traffic)
{
    for (int i = 0; i < PIPELINED; i++)
        add(traffic,
            "{\"jsonrpc\":\"2.0\",\"id\":\"%d\",\"method\":\"allocate\",\"params\":"
            "{\"requested_bytes\":%d,\"tag\":\"a tag of some length, number %d\"}}",
            i, 1000 + i, i);
    exchange(traffic);
    for (int i = 0; i < PIPELINED; i++)
        add(traffic,
            "{\"jsonrpc\":\"2.0\",\"id\":\"%d\",\"method\":\"free\",\"params\":"
            "{\"tag\":\"a tag of some length, number %d\"}}",
            i, i);
    exchange(traffic);
}

static void look(struct traffic *traffic)
{
    static const char *const METHODS_THAT_LOOK[] = {"info", "snapshot", "list", "trace"};
    for (int i = 0; i < PIPELINED; i++)
        add(traffic, "{\"id\":%d,\"method\":\"%s\"%s}", i, METHODS_THAT_LOOK[i % 4],
            i % 4 >= 2 ? ",\"params\":{\"limit\":3}" : "");
    exchange(traffic);
}

static void test_allocating_and_freeing_by_handle_takes_no_memory(void **state)
{
    static struct traffic traffic;
    (void)state;
    begin(&traffic, "--forget-probability=0");
    assert_takes_nothing(&traffic, allocate_and_free_by_handle);
}

static void test_allocating_and_freeing_by_tag_takes_no_memory(void **state)
{
    static struct traffic traffic;
    (void)state;
    begin(&traffic, "--forget-probability=0");
    assert_takes_nothing(&traffic, allocate_and_free_by_tag);
}

static void test_looking_takes_no_memory(void **state)
{
    static struct traffic traffic;
    (void)state;
    begin(&traffic, "");
    assert_takes_nothing(&traffic, look);
}

/* Quotas are on, and somebody watches. */
static void test_a_subscriber_and_quotas_take_no_memory(void **state)
{
    static struct traffic traffic;
    (void)state;
    begin(&traffic, "--forget-probability=0 --max-user-gpu-bytes=1000000000 "
                    "--max-client-allocations=1000 --host-capacity=1000000000");
    struct memory_client *subscriber = memory_daemon_connect(&traffic.daemon, USER);
    assert_kind(memory_client_call(subscriber, "subscribe", ""), "result");
    assert_takes_nothing(&traffic, allocate_and_free_by_tag);
}

/* What an idle connection keeps beside its stream (about half a kilobyte more): no buffer of any
 * kind. */
static void test_an_idle_connection_holds_little(void **state)
{
    enum {
        CLIENTS = 100,
        MOST_BYTES = 1024
    };
    static struct traffic traffic;
    (void)state;
    begin(&traffic, "--forget-probability=0");
    allocate_and_free_by_handle(&traffic);
    size_t before = traffic.daemon.chaos->live_bytes;
    for (int i = 0; i < CLIENTS; i++) {
        traffic.client = memory_daemon_connect(&traffic.daemon, USER);
        allocate_and_free_by_handle(&traffic);
    }
    assert_in_range((traffic.daemon.chaos->live_bytes - before) / CLIENTS, 1, MOST_BYTES);
    memory_daemon_end(&traffic.daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocating_and_freeing_by_handle_takes_no_memory),
        cmocka_unit_test(test_allocating_and_freeing_by_tag_takes_no_memory),
        cmocka_unit_test(test_looking_takes_no_memory),
        cmocka_unit_test(test_a_subscriber_and_quotas_take_no_memory),
        cmocka_unit_test(test_an_idle_connection_holds_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
