/* Clients and the daemon killed with SIGKILL at random moments, under load: the next daemon serves
 * at once on the same path, nothing of the dead is left, and no client waits longer than it said it
 * would.
 *
 * WORSEGPU_KILL_ROUNDS says how often (20), WORSEGPU_KILL_SEED repeats the moments of a run, and
 * WORSEGPU_KILL_RESTART_MS is what 99 of 100 restarts may take; left out, that is only told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes_text.h"
#include "client/worsegpu_client.h"
#include "tests/support/real_ask.h"
#include "tests/support/real_daemon.h"
#include "tests/support/soak_load.h"

enum {
    WORKERS = 6,
    USUAL_ROUNDS = 20,
    MOST_ROUNDS = 100000,
    TIMEOUT_MS = 1000, /* of a worker's calls */
    SLACK_MS = 4000,   /* how much later a busy machine may let it go on */
    LONGEST_LIFE_US = 30000,
    LONGEST_START_US = 6000,
    COMPLAINT_SIZE = 256
};

/* What workers tell, in memory shared with them. */
struct board {
    struct {
        atomic_uint_fast64_t since_ms; /* when its call began, 0 between calls */
        atomic_uint_fast64_t calls;    /* that were answered */
    } workers[WORKERS];
    atomic_uint_fast64_t longest_ms;
    char complaint[COMPLAINT_SIZE];
};

struct kills {
    struct real_room *room;
    struct board *board;
    uint64_t random;
    struct real_daemon daemon;
    struct real_process *workers[WORKERS];
    const char *path;
    unsigned restarts;
    unsigned starts_killed;
    unsigned workers_killed;
    unsigned *restart_us; /* of each restart */
};

static unsigned draw(struct kills *kills, unsigned below)
{
    return (unsigned)(soak_draw(&kills->random) % below);
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t number;
    if (!text || !*text)
        return otherwise;
    if (!count_from_text(text, &number))
        fail_msg("%s must be a number, not '%s'", name, text);
    return number;
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* ------------------------------------------------------------------------------- the workers */

struct worker {
    struct board *board;
    const char *path;
    uint64_t random;
    unsigned place;
};

static void begin_call(const struct worker *worker)
{
    atomic_store(&worker->board->workers[worker->place].since_ms, real_now_ms());
}

/* Notes how long it took. false after an answer that must not be. */
static bool end_call(const struct worker *worker, int status)
{
    struct board *board = worker->board;
    uint64_t took_ms = real_now_ms() - atomic_load(&board->workers[worker->place].since_ms);
    atomic_store(&board->workers[worker->place].since_ms, 0);
    uint64_t longest = atomic_load(&board->longest_ms);
    while (took_ms > longest &&
           !atomic_compare_exchange_weak(&board->longest_ms, &longest, took_ms))
        ;
    if (status == WORSEGPU_CLIENT_OK || status == WORSEGPU_CLIENT_REFUSED)
        atomic_fetch_add(&board->workers[worker->place].calls, 1);
    if (status != WORSEGPU_CLIENT_BAD_REPLY && status != WORSEGPU_CLIENT_NO_MEMORY)
        return true;
    snprintf(board->complaint, COMPLAINT_SIZE, "a client got status %d", status);
    return false;
}

/* Requests until the connection ends. */
static bool use(const struct worker *worker, worsegpu_client *client, uint64_t *random)
{
    static const char *const parameters[][2] = {
        {"allocate", "{\"requested_bytes\":5000,\"tag\":\"a\"}"},
        {"free", "{\"tag\":\"a\"}"},
        {"allocate", "{\"requested_bytes\":200}"},
        {"list", "{\"limit\":20}"},
        {"snapshot", NULL},
        {"open", "{}"},
    };
    for (;;) {
        size_t index = soak_draw(random) % (sizeof(parameters) / sizeof(parameters[0]));
        begin_call(worker);
        int status = worsegpu_client_call(client, parameters[index][0], parameters[index][1], NULL);
        if (!end_call(worker, status))
            return false;
        if (status != WORSEGPU_CLIENT_OK && status != WORSEGPU_CLIENT_REFUSED)
            return true;
    }
}

/* In a process of its own, until it is killed. */
static int work(void *context)
{
    const struct worker *worker = context;
    const struct worsegpu_client_options options = {.path = worker->path, .timeout_ms = TIMEOUT_MS};
    uint64_t random = worker->random;
    for (;;) {
        worsegpu_client *client;
        begin_call(worker);
        int status = worsegpu_client_connect(&options, &client, NULL);
        bool fine = end_call(worker, status);
        if (status == WORSEGPU_CLIENT_OK)
            fine = use(worker, client, &random);
        worsegpu_client_disconnect(client);
        if (!fine)
            return 1;
        if (status != WORSEGPU_CLIENT_OK)
            usleep(500);
    }
}

static void start_worker(struct kills *kills, unsigned place)
{
    struct worker worker = {.board = kills->board,
                            .path = kills->path,
                            .random = soak_draw(&kills->random),
                            .place = place};
    atomic_store(&kills->board->workers[place].since_ms, 0);
    kills->workers[place] = real_process_fork(kills->room, NULL, work, &worker);
}

static void kill_now(struct real_process *process)
{
    real_process_signal(process, SIGKILL);
    assert_int_equal(real_process_wait(process), 128 + SIGKILL);
}

static void expect_nobody_hangs(const struct kills *kills)
{
    if (kills->board->complaint[0])
        fail_msg("%s", kills->board->complaint);
    for (unsigned place = 0; place < WORKERS; place++) {
        uint64_t since_ms = atomic_load(&kills->board->workers[place].since_ms);
        if (since_ms && real_now_ms() > since_ms + TIMEOUT_MS + SLACK_MS)
            fail_msg("a client waits longer than its timeout");
    }
    if (atomic_load(&kills->board->longest_ms) > TIMEOUT_MS + SLACK_MS)
        fail_msg("a client has waited longer than its timeout");
}

/* ---------------------------------------------------------------------------------- the daemon */

static void begin_daemon(struct kills *kills)
{
    kills->daemon = (struct real_daemon){
        .room = kills->room,
        .process = real_process_start(kills->room, NULL, real_program(kills->room, "worsegpud"),
                                      "--socket", kills->path, "--log-level", "error", NULL),
        .socket_path = kills->path};
}

/* From its start to its first answer; in the meantime it may be in the way of nothing. */
static void await_daemon(struct kills *kills)
{
    struct real_wait wait = {0};
    while (!real_client_probe(kills->path)) {
        if (real_process_has_ended(kills->daemon.process))
            fail_msg("the daemon ended with %d: %s", kills->daemon.process->status,
                     real_daemon_log(&kills->daemon));
        real_wait_more(&wait);
    }
}

static void expect_valid(struct kills *kills)
{
    struct real_client *client = real_daemon_connect(&kills->daemon);
    assert_true(real_json_true(real_ask(client, "validate", "%s", ""), "result.valid"));
    real_clients_release(kills->room); /* its buffer would make each fork after it dearer */
}

/* A quarter of the new ones are killed while they start. */
static void restart(struct kills *kills)
{
    while (draw(kills, 4) == 0) {
        begin_daemon(kills);
        usleep(draw(kills, LONGEST_START_US));
        kill_now(kills->daemon.process);
        kills->starts_killed++;
    }
    uint64_t begun_us = now_us();
    begin_daemon(kills);
    await_daemon(kills);
    kills->restart_us[kills->restarts++] = (unsigned)(now_us() - begun_us);
}

static void kill_somebody(struct kills *kills)
{
    unsigned what = draw(kills, 4);
    usleep(draw(kills, LONGEST_LIFE_US));
    if (what != 0) {
        kill_now(kills->daemon.process);
        restart(kills);
    }
    if (what <= 1) {
        unsigned place = draw(kills, WORKERS);
        kill_now(kills->workers[place]);
        start_worker(kills, place);
        kills->workers_killed++;
    }
    expect_valid(kills);
    expect_nobody_hangs(kills);
}

/* ------------------------------------------------------------------------------------ the end */

static void expect_nothing_left(struct kills *kills, unsigned descriptors)
{
    struct real_client *client = real_daemon_connect(&kills->daemon);
    struct real_wait wait = {0};
    while (real_json_number(real_ask(client, "snapshot", "%s", ""), "result.active_allocations") >
               0 ||
           real_process_descriptors(kills->daemon.process) > descriptors)
        real_wait_more(&wait);
    expect_valid(kills);
}

static int compare(const void *one, const void *other)
{
    unsigned first = *(const unsigned *)one;
    unsigned second = *(const unsigned *)other;
    return (first > second) - (first < second);
}

static void tell_restarts(struct kills *kills, uint64_t most_ms)
{
    unsigned count = kills->restarts;
    uint64_t calls = 0;
    for (unsigned place = 0; place < WORKERS; place++)
        calls += atomic_load(&kills->board->workers[place].calls);
    if (count == 0)
        return;
    qsort(kills->restart_us, count, sizeof(*kills->restart_us), compare);
    unsigned middle = count / 2;
    unsigned late = kills->restart_us[(count - 1) * 99 / 100];
    print_message("%u restarts, from start to first answer in ms: least %.1f, median %.1f, 99 of "
                  "100 within %.1f, most %.1f\n",
                  count, kills->restart_us[0] / 1000.0, kills->restart_us[middle] / 1000.0,
                  late / 1000.0, kills->restart_us[count - 1] / 1000.0);
    print_message("%u daemons killed while they started, %u clients killed, %" PRIu64
                  " calls answered, the longest %" PRIu64 " ms\n",
                  kills->starts_killed, kills->workers_killed, calls,
                  atomic_load(&kills->board->longest_ms));
    assert_true(calls > 0);
    if (most_ms && late > most_ms * 1000)
        fail_msg("a restart takes %u us", late);
}

static void test_whoever_is_killed_the_next_one_serves_at_once(void **state)
{
    struct kills kills = {.room = *state, .path = real_room_path(*state, "s")};
    uint64_t seed;
    assert_int_equal(getrandom(&seed, sizeof(seed), 0), (ssize_t)sizeof(seed));
    kills.random = seed = from_environment("WORSEGPU_KILL_SEED", seed >> 11);
    uint64_t rounds = from_environment("WORSEGPU_KILL_ROUNDS", USUAL_ROUNDS);
    assert_in_range(rounds, 1, MOST_ROUNDS);
    print_message("seed %" PRIu64 ", %" PRIu64 " rounds\n", seed, rounds);
    kills.restart_us = calloc(rounds, sizeof(*kills.restart_us));
    kills.board =
        mmap(NULL, sizeof(*kills.board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_non_null(kills.restart_us);
    assert_ptr_not_equal(kills.board, MAP_FAILED);

    begin_daemon(&kills);
    await_daemon(&kills);
    struct real_client *client = real_daemon_connect(&kills.daemon);
    real_ask(client, "info", "%s", "");
    unsigned descriptors = real_process_descriptors(kills.daemon.process);
    real_client_close(client);
    for (unsigned place = 0; place < WORKERS; place++)
        start_worker(&kills, place);
    for (uint64_t round = 0; round < rounds; round++)
        kill_somebody(&kills);
    for (unsigned place = 0; place < WORKERS; place++)
        kill_now(kills.workers[place]);
    expect_nothing_left(&kills, descriptors);
    real_daemon_stop(&kills.daemon);
    assert_int_not_equal(access(real_room_path(*state, "s.lock"), F_OK), 0);
    tell_restarts(&kills, from_environment("WORSEGPU_KILL_RESTART_MS", 0));
    free(kills.restart_us);
    munmap(kills.board, sizeof(*kills.board));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(test_whoever_is_killed_the_next_one_serves_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
