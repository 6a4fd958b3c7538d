/* What a request costs worsegpud, beside Redis and an echo of the same loop.
 *
 * One load generator drives all servers in turn, several rounds, at depths 1, 16 and 64 and with 1,
 * 50 and 500 connections. For each it prints the throughput, the latency, and the processor time
 * that the server takes for a request; then the ratios of medians to those of Redis in the same
 * run. Only ratios mean anything: the machine may be busy, and an absolute time says more about it
 * than about a server. Afterwards: what an idle connection takes of the daemon's memory, and 10,000
 * connections that are each active once a second beside 50 with as many requests in all.
 *
 * `--quick` takes shorter and fewer rounds, and leaves 500 connections out. */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/bench_client.h"
#include "tests/support/load_generator.h"
#include "tests/support/load_servers.h"

enum {
    MOST_ROUNDS = 9,
    MOST_SERVERS = 5,
    CROWD = 10000,    /* connections */
    DEEPER_RUNS = 10, /* times as many requests as at depth 1 */
    SPARE_FILES = 64, /* beside connections */
    FEW = 50          /* connections that the crowd is compared with */
};

struct settings {
    size_t rounds;
    double seconds; /* of one run at least */
    uint64_t least; /* requests of one run at least, at depth 1: so that a busy machine has no run
                       that is all beginning */
    bool many;      /* 500 connections as well */
};

/* Of one server in one case. */
struct figures {
    double throughput; /* requests per second */
    double cpu_us;     /* of the server, for a request */
    double p50_us;
    double p99_us;
    double p999_us;
};

struct contest {
    struct load_server servers[MOST_SERVERS];
    size_t count;
    size_t redis; /* which one; `count` when there is none */
    size_t plain; /* worsegpud as it is by default */
    struct settings settings;
};

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* Of one member of the figures of all rounds. */
static double median(const struct figures *rounds, size_t count, size_t offset)
{
    double values[MOST_ROUNDS] = {0};
    for (size_t round = 0; round < count; round++)
        memcpy(&values[round], (const char *)&rounds[round] + offset, sizeof(double));
    qsort(values, count, sizeof(values[0]), compare);
    return values[count / 2];
}

static struct figures medians(const struct figures *rounds, size_t count)
{
    return (struct figures){
        .throughput = median(rounds, count, offsetof(struct figures, throughput)),
        .cpu_us = median(rounds, count, offsetof(struct figures, cpu_us)),
        .p50_us = median(rounds, count, offsetof(struct figures, p50_us)),
        .p99_us = median(rounds, count, offsetof(struct figures, p99_us)),
        .p999_us = median(rounds, count, offsetof(struct figures, p999_us)),
    };
}

static struct figures figures_of(const struct load_result *result)
{
    return (struct figures){
        .throughput = (double)result->requests / result->seconds,
        .cpu_us = 1e6 * result->server_cpu_seconds / (double)result->requests,
        .p50_us = 1e-3 * (double)load_histogram_at(&result->latency, 0.5),
        .p99_us = 1e-3 * (double)load_histogram_at(&result->latency, 0.99),
        .p999_us = 1e-3 * (double)load_histogram_at(&result->latency, 0.999),
    };
}

/* --------------------------------------------------------------------------------- the contest */

static void run_case(const struct contest *contest, size_t connections, size_t depth)
{
    static struct figures all[MOST_SERVERS][MOST_ROUNDS];
    static struct load_result result;
    struct load loads[MOST_SERVERS];
    struct figures middle[MOST_SERVERS];
    uint64_t least = contest->settings.least * (depth > 1 ? DEEPER_RUNS : 1);
    for (size_t index = 0; index < contest->count; index++) {
        const struct load_server *server = &contest->servers[index];
        load_open(&loads[index], server->kind, server->path, server->pid, connections, depth);
        load_run(&loads[index], contest->settings.seconds / 4, least / 4, &result);
    }
    for (size_t round = 0; round < contest->settings.rounds; round++)
        for (size_t index = 0; index < contest->count; index++) {
            load_run(&loads[index], contest->settings.seconds, least, &result);
            all[index][round] = figures_of(&result);
        }
    printf("\ndepth %zu, %zu connection%s:\n", depth, connections, connections > 1 ? "s" : "");
    printf("  %-32s %10s %8s %8s %8s %8s", "", "requests/s", "p50 us", "p99 us", "p99.9 us",
           "CPU us");
    printf("%s\n", contest->redis < contest->count ? "   CPU, p99 : Redis" : "");
    for (size_t index = 0; index < contest->count; index++) {
        load_close(&loads[index]);
        middle[index] = medians(all[index], contest->settings.rounds);
    }
    for (size_t index = 0; index < contest->count; index++) {
        const struct figures *figures = &middle[index];
        printf("  %-32s %10.0f %8.1f %8.1f %8.1f %8.3f", contest->servers[index].name,
               figures->throughput, figures->p50_us, figures->p99_us, figures->p999_us,
               figures->cpu_us);
        if (contest->redis < contest->count)
            printf("     %5.2f   %5.2f", figures->cpu_us / middle[contest->redis].cpu_us,
                   figures->p99_us / middle[contest->redis].p99_us);
        putchar('\n');
    }
    fflush(stdout);
}

/* ------------------------------------------------------------------------------------ the crowd */

static void measure_memory(const struct load_server *server, size_t connections)
{
    struct load few;
    struct load crowd;
    static struct load_result result;
    load_open(&few, server->kind, server->path, server->pid, FEW, 1);
    load_run(&few, 0.1, 0, &result);
    uint64_t before = load_server_memory(server);
    load_open(&crowd, server->kind, server->path, server->pid, connections, 1);
    /* Each has asked and been answered once: what it keeps from that counts as well. */
    load_run(&crowd, 0, 0, &result);
    uint64_t after = load_server_memory(server);
    printf("\n%zu idle connections to %s: %.0f bytes of its memory each\n", connections,
           server->name, (double)(after - before) / (double)connections);
    load_close(&crowd);
    load_close(&few);
}

static void measure_crowd(const struct load_server *server, const struct settings *settings,
                          size_t connections)
{
    static struct figures all[2][MOST_ROUNDS];
    static struct load_result result;
    static const size_t few = FEW;
    const size_t counts[2] = {few, connections};
    double per_second = (double)connections;
    for (size_t round = 0; round < settings->rounds; round++)
        for (size_t which = 0; which < 2; which++) {
            struct load load;
            load_open(&load, server->kind, server->path, server->pid, counts[which], 1);
            load_run_at_rate(&load, 10 * settings->seconds, per_second, &result);
            load_close(&load);
            all[which][round] = figures_of(&result);
        }
    struct figures small = medians(all[0], settings->rounds);
    struct figures large = medians(all[1], settings->rounds);
    printf("%.0f requests a second over %zu connections: p99 %.1f us; over %zu, each once a "
           "second: p99 %.1f us, %.2f times as long\n",
           per_second, few, small.p99_us, connections, large.p99_us, large.p99_us / small.p99_us);
}

static void measure_many(const struct contest *contest)
{
    uint64_t files = load_raise_open_files(CROWD + SPARE_FILES + FEW);
    size_t connections = CROWD;
    if (files < CROWD + SPARE_FILES + FEW) {
        connections =
            (size_t)files > SPARE_FILES + 2 * FEW ? (size_t)files - SPARE_FILES - FEW : FEW;
        printf("\nOnly %zu connections instead of %d: the limit of open files is %zu here.\n",
               connections, CROWD, (size_t)files);
    }
    measure_memory(&contest->servers[contest->plain], connections);
    if (contest->redis < contest->count)
        measure_memory(&contest->servers[contest->redis], connections);
    measure_crowd(&contest->servers[contest->plain], &contest->settings, connections);
}

/* ---------------------------------------------------------------------------------------- main */

static const char HELP[] =
    "usage: bench_daemon [--quick]\n"
    "Measures worsegpud beside redis-server and an echo, all on Unix sockets in a temporary\n"
    "folder, with one load generator. --quick: a minute instead of several.\n"
    "$WORSEGPU_BUILD/worsegpud (default build) is what is measured.\n";

static const char *const GUARDED[] = {"--max-client-gpu-bytes=1000000000000",
                                      "--max-client-cpu-bytes=1000000000000",
                                      "--max-user-gpu-bytes=1000000000000",
                                      "--max-user-cpu-bytes=1000000000000",
                                      "--max-user-allocations=1000000",
                                      "--host-capacity=1000000000000",
                                      NULL};

int main(int argc, char **argv)
{
    struct contest contest = {
        .settings = {.rounds = 5, .seconds = 0.3, .least = 10000, .many = true}};
    char folder[] = "/tmp/worsegpu-bench-XXXXXX";
    if (argc > 2 || (argc == 2 && strcmp(argv[1], "--quick") != 0)) {
        bool asked = argc == 2 && strcmp(argv[1], "--help") == 0;
        fputs(HELP, asked ? stdout : stderr);
        return asked ? 0 : 2;
    }
    if (argc == 2)
        contest.settings =
            (struct settings){.rounds = 3, .seconds = 0.1, .least = 4000, .many = false};
    if (!mkdtemp(folder))
        bench_fail("mkdtemp");
    load_raise_open_files(CROWD + SPARE_FILES + FEW);

    contest.servers[contest.count++] = load_start_echo(folder);
    contest.redis = contest.count;
    if (load_start_redis(folder, &contest.servers[contest.count])) {
        contest.count++;
    } else {
        puts("There is no redis-server here (tools/deps.sh bench installs it): measured without "
             "it.");
        contest.redis = MOST_SERVERS;
    }
    contest.plain = contest.count;
    contest.servers[contest.count++] =
        load_start_daemon("worsegpud, free by tag", LOAD_BY_TAG, folder, NULL);
    contest.servers[contest.count++] =
        load_start_daemon("worsegpud, free by handle", LOAD_BY_HANDLE, folder, NULL);
    contest.servers[contest.count++] =
        load_start_daemon("by tag, subscriber and quotas", LOAD_BY_TAG, folder, GUARDED);
    for (size_t index = 0; index < contest.count; index++)
        load_wait_for(&contest.servers[index]);
    pid_t subscriber = load_start_subscriber(&contest.servers[contest.count - 1]);

    static const size_t connections[] = {1, 50, 500};
    static const size_t depths[] = {1, 16, 64};
    for (size_t depth = 0; depth < 3; depth++)
        for (size_t index = 0; index < (contest.settings.many ? 3 : 2); index++)
            run_case(&contest, connections[index], depths[depth]);
    measure_many(&contest);

    kill(subscriber, SIGKILL);
    waitpid(subscriber, NULL, 0);
    for (size_t index = 0; index < contest.count; index++)
        load_server_stop(&contest.servers[index]);
    rmdir(folder);
    return 0;
}
