/* The soak: a daemon under random load from many processes for a long time, and what it must not
 * lose by it. `make soak SECONDS=600`.
 *
 * Sixteen processes send requests of every method (tests/support/soak_load.h), to a shared GPU of
 * each policy and to private ones; they are killed at random and replaced, and the configuration is
 * read again all the while. Ten times in between everything comes to rest: all processes are
 * killed, rules are cleared, what was detached is freed, every allocator is validated, and memory
 * and descriptors are counted. At the end memory must be within a tenth of the most that was used
 * in the first minute (the first tenth, when shorter), no descriptor may be left over, and the log
 * must be without errors. Nothing here is judged by speed.
 *
 * Why the most, and not what was used at rest then: what the C library keeps of freed memory is
 * another part of that most each time, although it is told to give back what it can.
 *
 * WORSEGPU_SOAK_SECONDS and WORSEGPU_SOAK_SEED say how long and from which seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes_text.h"
#include "lib/worsegpu.h"
#include "tests/support/real_ask.h"
#include "tests/support/real_daemon.h"
#include "tests/support/soak_load.h"

enum {
    PROCESSES = 16,
    PARTS = 10,
    MOST_ALLOCATORS = 32,
    STREAMS = 16,    /* at least as many as the load uses */
    MOST_LIVE = 500, /* allocations of one allocator */
    MINUTE_MS = 60000,
    SHORTEST_BEGINNING_MS = 6000,
    CONFIG_SIZE = 8192
};

struct soak {
    struct real_room *room;
    uint64_t random;
    const char *config;
    const char *allocators[MOST_ALLOCATORS];
    unsigned allocator_count;
    struct real_daemon daemon;
    struct real_client *client; /* our own */
    pid_t processes[PROCESSES];
    struct soak_tally *tally; /* shared with them */
    uint64_t begun_ms;
    uint64_t killed;
    uint64_t reloads;
    uint64_t answers_before; /* at the last rest */
    uint64_t most_resident;  /* ever seen, under load or at rest */
    unsigned descriptors_before;
};

static unsigned draw(struct soak *soak, unsigned below)
{
    return (unsigned)(soak_draw(&soak->random) % below);
}

static uint64_t number_from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t number;
    if (!text || !*text)
        return otherwise;
    if (!count_from_text(text, &number))
        fail_msg("%s must be a number, not '%s'", name, text);
    return number;
}

/* ------------------------------------------------------------------------------ the daemon */

/* Writes a configuration with other limits and capacities than the one before, in one piece. The
 * GPUs are small and so are the numbers of allocations and events: what never gives memory back
 * shall reach the most that it ever has soon, however fast the machine is. */
static void write_configuration(struct soak *soak)
{
    char text[CONFIG_SIZE];
    int length = snprintf(text, sizeof(text),
                          "max-live-allocations = %d\nmax-rules = %u\nmax-client-allocations = "
                          "%u\nmax-user-gpu-bytes = %u\n"
                          "max-allocators-per-connection = %u\nmax-requests-per-turn = %u\n"
                          "trace-visibility = %s\nlog-level = %s\n",
                          MOST_LIVE, 10 + draw(soak, 50), draw(soak, 3) ? 0u : 10000u,
                          draw(soak, 3) ? 0u : 1u << 29, 2 + draw(soak, 10), 8 + draw(soak, 100),
                          draw(soak, 2) ? "own" : "all", draw(soak, 2) ? "info" : "warning");
    for (unsigned i = 0; i < soak->allocator_count; i++)
        length += snprintf(text + length, sizeof(text) - (size_t)length,
                           "[%s]\npolicy = %s\ntrace-limit = 200\nseed = 7\ncapacity = %uMiB\n"
                           "host-capacity = %u\n",
                           soak->allocators[i], soak->allocators[i], 4 + draw(soak, 5),
                           draw(soak, 3) ? 0u : 16u << 20);
    assert_true(length > 0 && (size_t)length < sizeof(text));
    const char *fresh = real_room_path(soak->room, "fresh.conf");
    real_room_write(soak->room, fresh, text);
    assert_int_equal(rename(fresh, soak->config), 0);
}

static void expect_alive(struct soak *soak)
{
    if (real_process_has_ended(soak->daemon.process))
        fail_msg("the daemon ended with %d; the end of its log: %.2000s",
                 soak->daemon.process->status, real_daemon_log(&soak->daemon));
    if (soak->tally->complaint[0] != '\0')
        fail_msg("%s", soak->tally->complaint);
}

static uint64_t count_memory(struct soak *soak)
{
    uint64_t resident = real_process_resident_bytes(soak->daemon.process);
    if (resident > soak->most_resident)
        soak->most_resident = resident;
    return resident;
}

/* ------------------------------------------------------------------------------ the load */

static pid_t start_process(struct soak *soak)
{
    uint64_t seed = soak_draw(&soak->random);
    pid_t parent = getpid();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* it must not outlive a test that was killed */
    if (getppid() != parent)
        _exit(1);
    real_clients_close(soak->room);
    soak_load(soak->daemon.socket_path, seed, soak->allocators, soak->allocator_count, soak->tally);
}

static void kill_process(struct soak *soak, unsigned index)
{
    assert_int_equal(kill(soak->processes[index], SIGKILL), 0);
    assert_int_equal(waitpid(soak->processes[index], NULL, 0), soak->processes[index]);
    soak->processes[index] = 0;
    soak->killed++;
}

static void load_until(struct soak *soak, uint64_t until_ms)
{
    for (unsigned i = 0; i < PROCESSES; i++)
        soak->processes[i] = start_process(soak);
    while (real_now_ms() < until_ms) {
        usleep(1000 * (10 + draw(soak, 90)));
        expect_alive(soak);
        count_memory(soak);
        unsigned unlucky = draw(soak, PROCESSES);
        kill_process(soak, unlucky);
        soak->processes[unlucky] = start_process(soak);
        if (draw(soak, 8) == 0) {
            write_configuration(soak);
            real_process_signal(soak->daemon.process, SIGHUP);
            soak->reloads++;
        }
    }
    for (unsigned i = 0; i < PROCESSES; i++)
        kill_process(soak, i);
}

/* ------------------------------------------------------------------------------ coming to rest */

static void expect_result(const cJSON *reply)
{
    if (real_json_has(reply, "error"))
        fail_msg("refused: %s", real_json_text(reply, "error.message"));
}

/* Frees all that outlived its connection. */
static void free_orphans(struct soak *soak, const char *allocator)
{
    for (;;) {
        const cJSON *reply =
            real_ask(soak->client, "list", "'allocator':'%s','limit':500", allocator);
        expect_result(reply);
        unsigned count = real_json_count(reply, "result.allocations");
        if (count == 0)
            return;
        cJSON *page = cJSON_Duplicate(real_json(reply, "result.allocations"), 1);
        for (int i = 0; i < (int)count; i++) {
            const cJSON *handle = cJSON_GetObjectItem(cJSON_GetArrayItem(page, i), "handle");
            expect_result(real_ask(soak->client, "free", "'allocator':'%s','handle':'%s'",
                                   allocator, handle->valuestring));
        }
        cJSON_Delete(page);
    }
}

static void tidy_allocator(struct soak *soak, const char *allocator)
{
    free_orphans(soak, allocator);
    for (unsigned stream = 0; stream < STREAMS; stream++)
        real_ask(soak->client, "event_done", "'allocator':'%s','stream':%u", allocator, stream);
    real_ask(soak->client, "empty_cache", "'allocator':'%s'", allocator);
    const cJSON *reply = real_ask(soak->client, "validate", "'allocator':'%s'", allocator);
    expect_result(reply);
    assert_true(real_json_true(reply, "result.valid"));
}

/* The last ones are closed in the loop's next turn: it gets some patience. */
static void expect_no_descriptors(struct soak *soak)
{
    uint64_t until = real_now_ms() + REAL_PATIENCE_MS;
    unsigned open;
    while ((open = real_process_descriptors(soak->daemon.process)) > soak->descriptors_before) {
        if (real_now_ms() > until)
            fail_msg("%u descriptors are open, %u were in the beginning", open,
                     soak->descriptors_before);
        usleep(10000);
    }
}

/* Waits until nobody but us is connected, and puts everything in order. Memory in use afterwards.
 */
static uint64_t come_to_rest(struct soak *soak)
{
    struct real_wait wait = {0};
    while (real_json_count(real_ask(soak->client, "clients", "'limit':100"), "result.clients") > 1)
        real_wait_more(&wait);
    expect_result(real_ask(soak->client, "rules_clear", "%s", ""));
    for (unsigned i = 0; i < soak->allocator_count; i++)
        tidy_allocator(soak, soak->allocators[i]);
    expect_no_descriptors(soak);
    expect_alive(soak);
    return count_memory(soak);
}

static void say_figures(struct soak *soak, uint64_t resident)
{
    const struct soak_tally *tally = soak->tally;
    if (tally->answers == soak->answers_before)
        fail_msg("not one answer came since the last rest");
    soak->answers_before = tally->answers;
    print_message("%5" PRIu64 " s %10" PRIu64 " answers %9" PRIu64 " refused %8" PRIu64
                  " events %7" PRIu64 " connections %6" PRIu64 " private %5" PRIu64
                  " killed %4" PRIu64 " reloads %7.1f MiB %u descriptors\n",
                  (real_now_ms() - soak->begun_ms) / 1000, tally->answers, tally->refusals,
                  tally->events, tally->connections, tally->private, soak->killed, soak->reloads,
                  (double)resident / 1048576.0, real_process_descriptors(soak->daemon.process));
}

/* ------------------------------------------------------------------------------ the test */

static void start(struct soak *soak, struct real_room *room)
{
    soak->room = room;
    /* Have the C library give freed memory back, else what it keeps hides what is really lost. */
    static const char *const environment[] = {"MALLOC_MMAP_THRESHOLD_=16384",
                                              "MALLOC_TRIM_THRESHOLD_=16384", NULL};
    static const struct real_setup gives_back = {.environment = environment};
    soak->config = real_room_path(room, "worsegpud.conf");
    const char *name;
    while ((name = worsegpu_policy_name(soak->allocator_count)) != NULL) {
        assert_true(soak->allocator_count < MOST_ALLOCATORS);
        soak->allocators[soak->allocator_count++] = name;
    }
    write_configuration(soak);
    soak->tally =
        mmap(NULL, sizeof(*soak->tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(soak->tally, MAP_FAILED);
    soak->daemon = real_daemon_start_at(room, &gives_back, REAL_DAEMON_TOLD,
                                        real_room_path(room, "s"), "--config", soak->config, NULL);
    soak->client = real_daemon_connect(&soak->daemon);
    expect_result(real_ask(soak->client, "info", "%s", ""));
    soak->descriptors_before = real_process_descriptors(soak->daemon.process);
}

/* Fills every allocator as far as it goes, so that what never gives memory back has the most that
 * it ever gets before the beginning. */
static void fill(struct soak *soak)
{
    for (unsigned i = 0; i < soak->allocator_count; i++) {
        for (unsigned number = 0; number < MOST_LIVE; number++)
            real_ask(soak->client, "allocate",
                     "'allocator':'%s','requested_bytes':%u,'detached':true", soak->allocators[i],
                     512u << number % 8);
    }
}

/* Under load for so long, then at rest. Memory in use then. */
static uint64_t soak_for(struct soak *soak, uint64_t ms)
{
    load_until(soak, real_now_ms() + ms);
    uint64_t resident = come_to_rest(soak);
    say_figures(soak, resident);
    return resident;
}

/* A tenth, at least long enough for much to have happened, at most a minute. */
static uint64_t beginning_ms(uint64_t in_all_ms)
{
    uint64_t tenth = in_all_ms / PARTS;
    if (tenth < SHORTEST_BEGINNING_MS)
        return in_all_ms / 2 < SHORTEST_BEGINNING_MS ? in_all_ms / 2 : SHORTEST_BEGINNING_MS;
    return tenth < MINUTE_MS ? tenth : MINUTE_MS;
}

static void test_after_a_long_load_nothing_is_left_over(void **state)
{
    struct soak soak = {0};
    uint64_t seed;
    assert_int_equal(getrandom(&seed, sizeof(seed), 0), (ssize_t)sizeof(seed));
    uint64_t in_all_ms = number_from_environment("WORSEGPU_SOAK_SECONDS", 600) * 1000;
    soak.random = seed = number_from_environment("WORSEGPU_SOAK_SEED", seed >> 11);
    print_message("seed %" PRIu64 "\n", seed);
    start(&soak, *state);
    fill(&soak);
    come_to_rest(&soak);
    soak.begun_ms = real_now_ms();
    uint64_t first_ms = beginning_ms(in_all_ms);
    uint64_t last = soak_for(&soak, first_ms);
    uint64_t most_at_first = soak.most_resident;
    for (int part = 1; part < PARTS; part++)
        last = soak_for(&soak, (in_all_ms - first_ms) / (PARTS - 1));
    real_client_close(soak.client);
    real_daemon_stop(&soak.daemon);
    const char *log = real_daemon_log(&soak.daemon);
    print_message("at most %.1f MiB in the beginning, %.1f MiB in all, %.1f MiB at the end; %u "
                  "lines of log\n",
                  (double)most_at_first / 1048576.0, (double)soak.most_resident / 1048576.0,
                  (double)last / 1048576.0, real_lines(log));
    if (real_lines_with(log, "worsegpud: error: ") > 0)
        fail_msg("the log has errors: %.2000s", strstr(log, "worsegpud: error: "));
    if (!real_daemon_is_sanitized() && (double)last > (double)most_at_first * 1.1)
        fail_msg("memory grew from %" PRIu64 " to %" PRIu64 " bytes", most_at_first, last);
    munmap(soak.tally, sizeof(*soak.tally));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_after_a_long_load_nothing_is_left_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
