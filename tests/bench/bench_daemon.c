/* What a request costs worsegpud, beside Redis and an echo of the same loop.
 *
 * One load generator drives all servers in turn, several rounds, at depths 1, 16 and 64 and with 1,
 * 50 and 500 connections. Each round starts the servers anew: a process is luckier than another
 * with where it lies in memory, for all its life, by up to half. For each it prints the throughput,
 * the latency, and the processor time that the server takes for a request; then the ratios of
 * medians to those of Redis in the same run. Only ratios mean anything: the machine may be busy,
 * and an absolute time says more about it than about a server. Afterwards: what an idle connection
 * takes of the daemon's memory, and 10,000 connections that are each active once a second beside 50
 * with as many requests in all.
 *
 * `--quick` takes shorter and fewer rounds, and leaves 500 connections out. `--depth` and
 * `--connections` measure one case alone, for somebody who looks for where its time goes. */
#include <getopt.h>
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
    MOST_ROUNDS = 99,
    QUICK_ROUNDS = 3,
    USUAL_ROUNDS = 15,
    MOST_SERVERS = 5,
    MOST_CASES = 9,
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
    size_t connections; /* 0: each count in turn, and the crowd afterwards */
    size_t depth;       /* 0: each in turn */
};

/* Of one server in one case. */
struct figures {
    double throughput; /* requests per second */
    double cpu_us;     /* of the server, for a request */
    double p50_us;
    double p99_us;
    double p999_us;
};

/* How many connections with how many requests in flight on each. */
struct bench_case {
    size_t connections;
    size_t depth;
    struct figures all[MOST_SERVERS][MOST_ROUNDS];
};

struct contest {
    struct settings settings;
    struct bench_case cases[MOST_CASES];
    size_t case_count;
    const char *folder; /* of the sockets */
    struct load_server servers[MOST_SERVERS];
    size_t count;
    size_t redis; /* which one; MOST_SERVERS when there is none */
    size_t plain; /* worsegpud as it is by default */
    pid_t subscriber;
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

static const char *const GUARDED[] = {"--max-client-gpu-bytes=1000000000000",
                                      "--max-client-cpu-bytes=1000000000000",
                                      "--max-user-gpu-bytes=1000000000000",
                                      "--max-user-cpu-bytes=1000000000000",
                                      "--max-user-allocations=1000000",
                                      "--host-capacity=1000000000000",
                                      NULL};

static void start_servers(struct contest *contest)
{
    contest->count = 0;
    contest->servers[contest->count++] = load_start_echo(contest->folder);
    contest->redis = MOST_SERVERS;
    if (load_start_redis(contest->folder, &contest->servers[contest->count]))
        contest->redis = contest->count++;
    contest->plain = contest->count;
    contest->servers[contest->count++] =
        load_start_daemon("worsegpud, free by tag", LOAD_BY_TAG, contest->folder, NULL);
    contest->servers[contest->count++] =
        load_start_daemon("worsegpud, free by handle", LOAD_BY_HANDLE, contest->folder, NULL);
    contest->servers[contest->count++] =
        load_start_daemon("by tag, subscriber and quotas", LOAD_BY_TAG, contest->folder, GUARDED);
    for (size_t index = 0; index < contest->count; index++)
        load_wait_for(&contest->servers[index]);
    contest->subscriber = load_start_subscriber(&contest->servers[contest->count - 1]);
}

static void stop_servers(struct contest *contest)
{
    kill(contest->subscriber, SIGKILL);
    waitpid(contest->subscriber, NULL, 0);
    for (size_t index = 0; index < contest->count; index++)
        load_server_stop(&contest->servers[index]);
}

static void run_case(const struct contest *contest, struct bench_case *one, size_t round)
{
    static struct load_result result;
    const struct settings *settings = &contest->settings;
    uint64_t least = settings->least * (one->depth > 1 ? DEEPER_RUNS : 1);
    for (size_t index = 0; index < contest->count; index++) {
        const struct load_server *server = &contest->servers[index];
        struct load load;
        load_open(&load, server->kind, server->path, server->pid, one->connections, one->depth);
        load_run(&load, settings->seconds / 4, least / 4, &result);
        load_run(&load, settings->seconds, least, &result);
        load_close(&load);
        one->all[index][round] = figures_of(&result);
    }
}

static void show_case(const struct contest *contest, const struct bench_case *one)
{
    struct figures middle[MOST_SERVERS];
    for (size_t index = 0; index < contest->count; index++)
        middle[index] = medians(one->all[index], contest->settings.rounds);
    printf("\ndepth %zu, %zu connection%s:\n", one->depth, one->connections,
           one->connections > 1 ? "s" : "");
    printf("  %-32s %10s %8s %8s %8s %8s", "", "requests/s", "p50 us", "p99 us", "p99.9 us",
           "CPU us");
    printf("%s\n", contest->redis < contest->count ? "   CPU, p99 : Redis" : "");
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

static void choose_cases(struct contest *contest)
{
    static const size_t connections[] = {1, 50, 500};
    static const size_t depths[] = {1, 16, 64};
    const struct settings *settings = &contest->settings;
    for (size_t depth = 0; depth < (settings->depth ? 1 : 3); depth++)
        for (size_t index = 0; index < (settings->connections ? 1 : 3); index++) {
            struct bench_case *one = &contest->cases[contest->case_count];
            one->connections = settings->connections ? settings->connections : connections[index];
            one->depth = settings->depth ? settings->depth : depths[depth];
            if (settings->connections || settings->many || one->connections <= FEW)
                contest->case_count++;
        }
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
    "usage: bench_daemon [--quick] [--rounds N] [--connections N] [--depth N]\n"
    "Measures worsegpud beside redis-server and an echo, all on Unix sockets in a temporary\n"
    "folder, with one load generator: several minutes.\n"
    "  --quick          half a minute: shorter and fewer rounds, no 500 connections\n"
    "  --rounds N       how often each server is started and measured, in turn (1 to 99)\n"
    "  --connections N  only with that many (1 to 10000), and nothing about idle ones\n"
    "  --depth N        only with that many requests in flight on each (1 to 64)\n"
    "$WORSEGPU_BUILD/worsegpud (default build) is what is measured.\n";

/* A number from 1 to `most`, or 0. */
static size_t read_count(const char *text, size_t most)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    return *end == '\0' && value <= most ? value : 0;
}

/* Those of the command line; ends the program when there is nothing to measure. */
static struct settings read_settings(int argc, char **argv)
{
    static const struct option options[] = {{"quick", no_argument, NULL, 'q'},
                                            {"rounds", required_argument, NULL, 'r'},
                                            {"connections", required_argument, NULL, 'c'},
                                            {"depth", required_argument, NULL, 'd'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct settings settings = {.seconds = 0.3, .least = 10000, .many = true};
    size_t rounds = USUAL_ROUNDS;
    bool fine = true;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'q') {
            settings.seconds = 0.1;
            settings.least = 4000;
            settings.many = false;
            rounds = QUICK_ROUNDS;
        } else if (option == 'r')
            fine &= (rounds = read_count(optarg, MOST_ROUNDS)) > 0;
        else if (option == 'c')
            fine &= (settings.connections = read_count(optarg, CROWD)) > 0;
        else if (option == 'd')
            fine &= (settings.depth = read_count(optarg, LOAD_MOST_DEPTH)) > 0;
        else if (option == 'h')
            exit(fputs(HELP, stdout) < 0);
        else
            fine = false;
    }
    settings.rounds = rounds;
    if (fine && optind == argc)
        return settings;
    fputs(HELP, stderr);
    exit(2);
}

int main(int argc, char **argv)
{
    static struct contest contest;
    char folder[] = "/tmp/worsegpu-bench-XXXXXX";
    contest.settings = read_settings(argc, argv);
    if (!mkdtemp(folder))
        bench_fail("mkdtemp");
    contest.folder = folder;
    load_raise_open_files(CROWD + SPARE_FILES + FEW);
    choose_cases(&contest);
    for (size_t round = 0; round < contest.settings.rounds; round++) {
        start_servers(&contest);
        if (round == 0 && contest.redis == MOST_SERVERS)
            puts("There is no redis-server here (tools/deps.sh bench installs it): measured "
                 "without it.");
        for (size_t index = 0; index < contest.case_count; index++) {
            fprintf(stderr, "round %zu of %zu: case %zu of %zu\n", round + 1,
                    contest.settings.rounds, index + 1, contest.case_count);
            run_case(&contest, &contest.cases[index], round);
        }
        stop_servers(&contest);
    }
    for (size_t index = 0; index < contest.case_count; index++)
        show_case(&contest, &contest.cases[index]);
    if (contest.settings.connections == 0) {
        start_servers(&contest);
        measure_many(&contest);
        stop_servers(&contest);
    }
    rmdir(folder);
    return 0;
}
