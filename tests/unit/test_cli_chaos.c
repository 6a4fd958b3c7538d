/* Whole commands of worsegpu-cli while memory runs out at each point: they end with 4, leak
 * nothing, and what they print with --json is one document all the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "client/cli/cli.h"
#include "tests/support/chaos.h"

enum {
    MOST_WORDS = 12
};

#define HANDLE "1-00112233445566778899aabbccddeeff"
#define PLACE                                                                                      \
    "\"allocation_id\":1,\"handle\":\"" HANDLE "\",\"requested_bytes\":1,\"reserved_bytes\":256,"  \
    "\"device\":\"gpu\",\"block_index\":0,\"offset\":0"

#define RULE                                                                                       \
    "{\"rule\":1,\"action\":\"out_of_memory\",\"nth\":10,\"times\":1,\"allocator\":null,"          \
    "\"matched\":0,\"fired\":0,\"spent\":false}"

/* A daemon of few words: what it answers to each method. It takes no memory of the tests'. */
static const char *result_of(const char *line)
{
    static const char *const RESULTS[][2] = {
        {"\"allocate\"", "{" PLACE "}"},
        {"\"free\"", "{\"allocation_id\":1,\"device\":\"gpu\",\"released\":true}"},
        {"\"list\"", "{\"allocations\":[{" PLACE ",\"client\":1,\"detached\":true}],\"next\":1,"
                     "\"more\":false}"},
        {"\"trace\"",
         "{\"events\":[{\"operation\":\"free\",\"allocation_id\":1,\"released\":true,"
         "\"device\":\"gpu\",\"sequence\":1}],\"next\":1,\"more\":false,\"dropped\":0}"},
        {"\"record_stream\"", "{\"allocation_id\":1,\"device\":\"gpu\",\"used\":true}"},
        {"\"event_done\"", "{\"stream\":0,\"used\":true}"},
        {"\"empty_cache\"", "{\"given_back\":512,\"used\":true}"},
        {"\"statistics\"",
         "{\"policy\":\"torch\",\"statistics\":{\"a\":1,\"b\":[1,2],\"c\":null}}"},
        {"\"hello\"", "{\"client\":1,\"name\":\"me\"}"},
        {"\"resize\"",
         "{\"name\":\"gpu0\",\"policy\":\"worse\",\"gpu_capacity\":1,\"gpu_probability\":0.5,"
         "\"forget_probability\":0.5,\"fallback_on_oom\":true,\"max_request_bytes\":1,"
         "\"trace_limit\":0,\"seed\":7,\"scan\":\"accounted\"}"},
        {"\"clients\"",
         "{\"clients\":[{\"client\":1,\"name\":null,\"user\":0,\"group\":0,\"process\":1,"
         "\"you\":true,\"connected_us\":1,\"connected_seconds\":1,\"allocations\":0,"
         "\"gpu_bytes\":0,\"cpu_bytes\":0,\"detached\":0,\"private_allocators\":0,"
         "\"requests\":1,\"errors\":0,\"bytes_in\":1,\"bytes_out\":1}],\"next\":1,"
         "\"more\":false}"},
        {"\"inject\"", RULE},
        {"\"rules\"", "{\"rules\":[" RULE "],\"next\":1,\"more\":false}"},
        {"\"rules_clear\"", "{\"cleared\":1}"},
        {"\"metrics\"", "{\"content_type\":\"text/plain\",\"text\":\"# EOF\\n\"}"},
        {"\"subscribe\"", "{\"allocator\":\"gpu0\",\"next\":0}"},
        {"\"validate\"", "{\"valid\":true,\"checks\":5}"},
        {"\"open\"", "{}"},
        {"\"snapshot\"",
         "{\"gpu_capacity\":1,\"gpu_reserved\":2,\"gpu_unreserved\":3,\"gpu_used\":4,"
         "\"gpu_free\":5,\"gpu_forgotten\":6,\"gpu_blocks\":7,\"cpu_bytes\":8,"
         "\"active_allocations\":9,\"trace_events\":10,\"fragmentation\":0.5,\"detail\":{"
         "\"policy\":\"worse\",\"scan\":\"accounted\",\"blocks_scanned\":11,"
         "\"gpu_allocations\":12,\"cpu_allocations\":13,\"gpu_requested\":14,"
         "\"gpu_forgotten_blocks\":15,\"peak_gpu_used\":16,\"peak_cpu_bytes\":17,"
         "\"allocate_calls\":6,\"free_calls\":1,\"oom_fallbacks\":0,\"oom_failures\":0,\"faults\":"
         "0,"
         "\"last_sequence\":0}}"},
        {"\"info\"",
         "{\"server\":\"worsegpud\",\"version\":\"1\",\"protocol\":1,\"pid\":2,"
         "\"uptime_seconds\":3,\"policies\":[\"worse\"],\"allocators\":[{\"name\":\"gpu0\"}],"
         "\"limits\":{\"max_line_bytes\":65536,\"max_json_depth\":5,\"max_connections\":6,"
         "\"max_connections_per_user\":7,\"max_allocators_per_connection\":8,"
         "\"max_live_allocations\":9,\"max_output_bytes\":10,\"max_trace_limit\":11}}"},
    };
    for (size_t i = 0; i < sizeof(RESULTS) / sizeof(RESULTS[0]); i++) {
        if (strstr(line, RESULTS[i][0]))
            return RESULTS[i][1];
    }
    return NULL;
}

/* What a subscriber hears before the daemon goes away. */
static const char EVENTS[] =
    "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"allocator\":\"gpu0\",\"event\":{"
    "\"operation\":\"free\",\"allocation_id\":1,\"released\":true,\"device\":\"gpu\","
    "\"sequence\":1}}}\n"
    "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"allocator\":\"gpu0\",\"missed\":3}}\n";

/* Whether the connection goes on. */
static bool answer(int descriptor, const char *line)
{
    char text[2048];
    char id[64];
    const char *start = strstr(line, "\"id\":");
    if (!start)
        return true; /* a notification */
    snprintf(id, sizeof(id), "%.*s", (int)strcspn(start + 5, ",}"), start + 5);
    int length = snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", id,
                          result_of(line));
    (void)!send(descriptor, text, (size_t)length, MSG_NOSIGNAL);
    if (!strstr(line, "\"subscribe\""))
        return true;
    (void)!send(descriptor, EVENTS, strlen(EVENTS), MSG_NOSIGNAL);
    return false;
}

/* Serves one connection after the other, until the listener is shut down. */
static void *serve(void *context)
{
    int listener = *(int *)context;
    for (int descriptor = accept(listener, NULL, NULL); descriptor >= 0;
         descriptor = accept(listener, NULL, NULL)) {
        FILE *stream = fdopen(descriptor, "r");
        char *line = NULL;
        size_t room = 0;
        while (getline(&line, &room, stream) > 0 && answer(descriptor, line))
            continue;
        free(line);
        fclose(stream);
    }
    return NULL;
}

struct server {
    char folder[64];
    char path[96];
    char script[96];
    char events[96];
    int listener;
    pthread_t thread;
};

static int set_up(void **state)
{
    static struct server server;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(server.folder, sizeof(server.folder), "/tmp/worsegpu-chaos-XXXXXX");
    if (!mkdtemp(server.folder))
        return -1;
    snprintf(server.path, sizeof(server.path), "%s/socket", server.folder);
    snprintf(server.script, sizeof(server.script), "%s/script", server.folder);
    memcpy(address.sun_path, server.path, strlen(server.path) + 1);
    server.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server.listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(server.listener, 8) < 0)
        return -1;
    FILE *script = fopen(server.script, "w");
    if (!script)
        return -1;
    fputs("{\"method\":\"allocate\",\"params\":{\"requested_bytes\":1}}\n{\"id\":7,\"method\":"
          "\"info\"}",
          script);
    fclose(script);
    snprintf(server.events, sizeof(server.events), "%s/events", server.folder);
    FILE *events = fopen(server.events, "w");
    if (!events)
        return -1;
    fputs("{\"events\":[{\"operation\":\"allocate\",\"allocation_id\":1,\"requested_bytes\":1},"
          "{\"operation\":\"record_stream\",\"allocation_id\":1,\"stream\":2},"
          "{\"operation\":\"free\",\"allocation_id\":1},"
          "{\"operation\":\"free\",\"allocation_id\":9},{\"operation\":\"empty_cache\"}]}\n",
          events);
    fclose(events);
    *state = &server;
    return pthread_create(&server.thread, NULL, serve, &server.listener);
}

static int tear_down(void **state)
{
    struct server *server = *state;
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
    unlink(server->path);
    unlink(server->script);
    unlink(server->events);
    rmdir(server->folder);
    return 0;
}

struct command_line {
    const struct server *server;
    const char *const *words; /* ends with NULL */
    bool json;
    int ending; /* status when nothing fails; not CLI_FINE: what it prints is no document */
};

static void check_document(const char *text)
{
    const char *end = NULL;
    cJSON *document = cJSON_ParseWithOpts(text, &end, false);
    if (!document || strcmp(end, "\n") != 0)
        fail_msg("not one JSON document: %s", text);
    cJSON_Delete(document);
}

static bool run_under_chaos(struct chaos *chaos, void *context)
{
    const struct command_line *line = context;
    char storage[MOST_WORDS][128];
    char *words[MOST_WORDS];
    int count = 0;
    const char *fixed[] = {"worsegpu-cli", "--socket", line->server->path,
                           line->json ? "--json" : NULL};
    for (size_t i = 0; i < 4 && fixed[i]; i++)
        snprintf(storage[count++], sizeof(storage[0]), "%s", fixed[i]);
    for (const char *const *word = line->words; *word; word++)
        snprintf(storage[count++], sizeof(storage[0]), "%s",
                 strcmp(*word, "SCRIPT") == 0   ? line->server->script
                 : strcmp(*word, "EVENTS") == 0 ? line->server->events
                                                : *word);
    for (int i = 0; i < count; i++)
        words[i] = storage[i];
    char *text = NULL;
    char *complaints = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    FILE *errors = open_memstream(&complaints, &length);
    chaos_hook_cjson(chaos);
    int status = cli_main(count, words, &chaos->memory, out, errors);
    chaos_hook_cjson(NULL);
    fclose(out);
    fclose(errors);
    if (status != line->ending && status != CLI_OUT_OF_MEMORY)
        fail_msg("%s ended with %d: %s", line->words[0], status, complaints);
    if (status != line->ending)
        assert_non_null(strstr(complaints, "there is not enough memory"));
    /* Reading the command line may fail before --json is seen. */
    if (line->json && line->ending == CLI_FINE && (status == CLI_FINE || text[0] != '\0'))
        check_document(text);
    free(text);
    free(complaints);
    return status == line->ending;
}

static void try_command(void **state, const char *const *words, int ending)
{
    for (int json = 0; json < 2; json++) {
        struct command_line line = {*state, words, json != 0, ending};
        assert_true(chaos_loop(run_under_chaos, &line) > 0);
    }
}

#define SURVIVES(name, ...)                                                                        \
    static void test_##name##_survives_each_failing_allocation(void **state)                       \
    {                                                                                              \
        static const char *const WORDS[] = {__VA_ARGS__, NULL};                                    \
        try_command(state, WORDS, CLI_FINE);                                                       \
    }

SURVIVES(alloc, "alloc", "1")
SURVIVES(alloc_of_several, "alloc", "1", "2KiB", "--count", "3", "--stream", "4")
SURVIVES(free, "free", "1")
SURVIVES(free_of_several, "free", "1", HANDLE)
SURVIVES(snapshot, "snapshot")
SURVIVES(trace, "trace")
SURVIVES(validate, "validate")
SURVIVES(list, "list")
SURVIVES(smi, "smi")
SURVIVES(smi_query, "smi", "--query", "name,gpu_used")
SURVIVES(info, "info")
SURVIVES(free_of_all_detached, "free", "--all-detached")
SURVIVES(list_of_orphans, "list", "--orphans")
SURVIVES(a_name, "--name", "me", "validate")
SURVIVES(resize, "resize", "1MiB")
SURVIVES(clients, "clients")
SURVIVES(inject, "inject", "oom", "--nth", "10", "--user", "root", "--tag-prefix", "t")
SURVIVES(rules, "rules")
SURVIVES(clearing_rules, "rules", "--clear", "1")
SURVIVES(call, "call", "validate", "{}")
SURVIVES(run, "run", "SCRIPT")
SURVIVES(run_of_events, "run", "EVENTS", "--allocator", "gpu0")
SURVIVES(record_stream, "record-stream", "1", "--stream", "2")
SURVIVES(event_done, "event-done", "3", "--newest")
SURVIVES(empty_cache, "empty-cache")
SURVIVES(statistics, "statistics")
SURVIVES(metrics, "metrics")
SURVIVES(free_on_a_stream, "free", "1", "--stream", "3")
SURVIVES(demo, "demo", "--delay", "0", "--steps", "6")
SURVIVES(benchmark, "benchmark", "--steps", "6")

static void test_follow_survives_each_failing_allocation(void **state)
{
    static const char *const WORDS[] = {"trace", "--follow", NULL};
    try_command(state, WORDS, CLI_NO_DAEMON);
}

#define SURVIVES_TEST(name) cmocka_unit_test(test_##name##_survives_each_failing_allocation)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SURVIVES_TEST(alloc),
        SURVIVES_TEST(alloc_of_several),
        SURVIVES_TEST(free),
        SURVIVES_TEST(free_of_several),
        SURVIVES_TEST(snapshot),
        SURVIVES_TEST(trace),
        SURVIVES_TEST(validate),
        SURVIVES_TEST(list),
        SURVIVES_TEST(smi),
        SURVIVES_TEST(smi_query),
        SURVIVES_TEST(info),
        SURVIVES_TEST(call),
        SURVIVES_TEST(run),
        SURVIVES_TEST(run_of_events),
        SURVIVES_TEST(record_stream),
        SURVIVES_TEST(event_done),
        SURVIVES_TEST(empty_cache),
        SURVIVES_TEST(statistics),
        SURVIVES_TEST(metrics),
        SURVIVES_TEST(free_on_a_stream),
        SURVIVES_TEST(demo),
        SURVIVES_TEST(benchmark),
        SURVIVES_TEST(free_of_all_detached),
        SURVIVES_TEST(list_of_orphans),
        SURVIVES_TEST(a_name),
        SURVIVES_TEST(resize),
        SURVIVES_TEST(clients),
        SURVIVES_TEST(inject),
        SURVIVES_TEST(rules),
        SURVIVES_TEST(clearing_rules),
        SURVIVES_TEST(follow),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
